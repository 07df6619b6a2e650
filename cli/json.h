// Writes JSON: one object at a time, as text (RFC 8259).
//
// A name on NFS is any bytes without '/' and NUL. Bytes that are no UTF-8 become U+FFFD in the text, and a
// second member "<key>_hex" then gives the exact bytes.
//
// Own code because Boost.JSON builds a tree of nodes for every line and passes ill-formed UTF-8 through.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace nfsrdma::cli::json {

bool valid_utf8(std::string_view bytes);

/// `bytes` as a JSON string, quotes included.
std::string quoted(std::string_view bytes);

/// An object under construction. Members come out in the order of the calls.
class Object {
 public:
  /// Adds text, and "<key>_hex" as well if the text is not UTF-8.
  Object& text(std::string_view key, std::string_view value);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Object& number(std::string_view key, T value) {
    return raw(key, std::to_string(value));
  }
  Object& boolean(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  Object& null(std::string_view key) { return raw(key, "null"); }
  /// `value` is JSON already.
  Object& raw(std::string_view key, std::string_view value);

  [[nodiscard]] std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace nfsrdma::cli::json
