// Result and Error. Every fallible call of libnfsrdma returns a value or an Error.
//
// Thread-safety: as any value type. Nothing here throws. Reading the value of a failed Result, or the error
// of a good one, is a programming error: it prints the error's text to stderr and aborts.
//
// This is own code because std::expected would require C++23 of every program that includes these headers;
// they require C++20.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace nfsrdma {

/// Which side caused a failure. A program decides by this; the text is for people.
enum class ErrorKind : unsigned char {
  usage,       ///< a wrong option, target or argument: nothing was sent
  local,       ///< this machine could not do it: memory, files, limits
  connection,  ///< the peer was not reached, or the connection was lost and could not be made again
  timeout,     ///< the deadline passed
  protocol,    ///< the peer broke a protocol
  server,      ///< the server answered, and its answer was no
  cancelled,   ///< the caller cancelled the operation
  /// The reply was lost for good, so the operation may or may not have been done. Check before repeating it.
  unknown_outcome,
};

/// An error: what failed, on which server or file, and what to do about it. Cheap to move and to copy.
class [[nodiscard]] Error {
 public:
  /// `errno_value`: the nearest errno. `operation`: what was being done ("OPEN", "connect"). `peer`: the
  /// server or file concerned. `message`: one sentence that ends with the next step.
  Error(ErrorKind kind, int errno_value, std::string operation, std::string peer, std::string message)
      : details_(std::make_shared<Details>(
            Details{kind, errno_value, 0, std::move(operation), std::move(peer), std::move(message)})) {}

  /// An Error that also carries the status from the server's protocol (an nfsstat4, an accept_stat).
  Error(ErrorKind kind, int errno_value, unsigned status, std::string operation, std::string peer,
        std::string message)
      : details_(std::make_shared<Details>(
            Details{kind, errno_value, status, std::move(operation), std::move(peer), std::move(message)})) {}

  [[nodiscard]] ErrorKind kind() const { return details_->kind; }
  [[nodiscard]] int errno_value() const { return details_->errno_value; }
  /// The status number from the server's protocol (nfsstat4), or 0 if there is none.
  [[nodiscard]] unsigned status() const { return details_->status; }
  [[nodiscard]] const std::string& operation() const { return details_->operation; }
  [[nodiscard]] const std::string& peer() const { return details_->peer; }
  [[nodiscard]] const std::string& message() const { return details_->message; }
  /// Returns a copy of this Error that names another operation and another peer.
  [[nodiscard]] Error about(std::string operation, std::string peer) const {
    return {kind(), errno_value(), status(), std::move(operation), std::move(peer), message()};
  }
  /// Returns "peer: operation: message", without the parts that are empty.
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const std::string* part : {&details_->peer, &details_->operation}) {
      if (!part->empty()) out += *part + ": ";
    }
    return out + details_->message;
  }

 private:
  struct Details {
    ErrorKind kind;
    int errno_value;
    unsigned status;
    std::string operation, peer, message;
  };
  std::shared_ptr<const Details> details_;
};

namespace result_parts {

/// Ends the program because the value of a failed Result was read.
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] inline void die_without_value(const Error& error) {
  std::fprintf(stderr, "nfsrdma: a result without a value was used: %s\n", error.text().c_str());
  std::abort();
}
/// Ends the program because the error of a successful Result was read.
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] inline void die_without_error() {
  std::fputs("nfsrdma: value has no error\n", stderr);
  std::abort();
}

}  // namespace result_parts

/// Either a T or an Error. `if (!result) return result.error();`
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] T& value() & { return *checked(); }
  [[nodiscard]] const T& value() const& {
    const T* v = std::get_if<0>(&state_);
    if (v == nullptr) result_parts::die_without_value(*std::get_if<1>(&state_));
    return *v;
  }
  [[nodiscard]] T&& value() && { return std::move(*checked()); }
  T& operator*() & { return *checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return &value(); }
  [[nodiscard]] T value_or(T fallback) const& { return has_value() ? value() : std::move(fallback); }
  [[nodiscard]] const Error& error() const {
    const Error* e = std::get_if<1>(&state_);
    if (e == nullptr) result_parts::die_without_error();
    return *e;
  }

 private:
  T* checked() {
    T* v = std::get_if<0>(&state_);
    if (v == nullptr) result_parts::die_without_value(*std::get_if<1>(&state_));
    return v;
  }
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose
  [[nodiscard]] bool has_value() const { return error_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const Error& error() const {
    const Error* e = std::get_if<1>(&error_);
    if (e == nullptr) result_parts::die_without_error();
    return *e;
  }

 private:
  std::variant<std::monostate, Error> error_;
};

using Status = Result<void>;

}  // namespace nfsrdma
