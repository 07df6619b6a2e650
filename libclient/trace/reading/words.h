// The words of a decoded call: "offset=0 count=4096 name=file".
//
// Names come from the file, which may be hostile: bytes that could act on a terminal, and those that would
// make a word ambiguous, are shown as \xNN.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/format/pcapng.h"

namespace nfsrdma::trace {

class Words {
 public:
  template <std::integral T>
  Words& number(std::string_view key, T value) {
    return word(key, std::to_string(value));
  }
  Words& hex(std::string_view key, std::uint64_t value);
  Words& name(std::string_view key, std::string_view bytes);
  /// The CRC-32 of a file handle, as Wireshark shows it.
  Words& handle(std::string_view key, ConstBytes bytes);
  /// Adds the key if `is_so`.
  Words& flag(std::string_view key, bool is_so);
  Words& word(std::string_view key, std::string_view value);
  [[nodiscard]] std::string str() const { return text_; }

 private:
  std::string text_;
};

/// Returns the bytes with those escaped that are no printable ASCII or part of UTF-8, and blanks.
std::string escaped_name(std::string_view bytes);

}  // namespace nfsrdma::trace
