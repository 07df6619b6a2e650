// Rarely: an optional value that takes the room of one pointer while there is none. For members that few of
// many objects have, such as the delegation of an open file.
//
//     async::Rarely<Delegation> delegation;
//     delegation = Delegation{…};
//     if (delegation) delegation->writes = true;
//     delegation.reset();
//
// A copy has a value of its own. A value that is there stays at its address until reset(), an assignment of another
// Rarely, or destruction. Thread-safety is that of T.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace nfsrdma::async {

template <class T>
class Rarely {
 public:
  Rarely() = default;
  Rarely(std::optional<T> value) : value_(value ? std::make_unique<T>(*std::move(value)) : nullptr) {}
  Rarely(const Rarely& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rarely(Rarely&&) noexcept = default;
  Rarely& operator=(const Rarely& other) { return *this = Rarely(other); }
  Rarely& operator=(Rarely&&) noexcept = default;
  Rarely& operator=(T value) {
    if (value_)
      *value_ = std::move(value);
    else
      value_ = std::make_unique<T>(std::move(value));
    return *this;
  }
  ~Rarely() = default;

  explicit operator bool() const { return value_ != nullptr; }
  [[nodiscard]] T& operator*() { return *value_; }
  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] T* operator->() { return value_.get(); }
  [[nodiscard]] const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace nfsrdma::async
