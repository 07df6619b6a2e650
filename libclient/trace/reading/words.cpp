#include "trace/reading/words.h"

#include <array>
#include <boost/crc.hpp>
#include <cstdio>

namespace nfsrdma::trace {

std::string escaped_name(std::string_view bytes) {
  constexpr std::size_t kMost = 255;  // a name may have 4,096 bytes, and a line should stay a line
  std::string out;
  for (const char c : bytes.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte != '\\' && byte != 0x7f && byte < 0x80) {
      out += c;
      continue;
    }
    std::array<char, 5> text{};
    std::snprintf(text.data(), text.size(), "\\x%02x", byte);
    out += text.data();
  }
  return bytes.size() > kMost ? out + "..." : out;
}

Words& Words::word(std::string_view key, std::string_view value) {
  if (!text_.empty()) text_ += ' ';
  text_ += key;
  text_ += '=';
  text_ += value;
  return *this;
}

Words& Words::hex(std::string_view key, std::uint64_t value) {
  std::array<char, 19> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return word(key, text.data());
}

Words& Words::name(std::string_view key, std::string_view bytes) {
  return word(key, escaped_name(bytes));
}

Words& Words::handle(std::string_view key, ConstBytes bytes) {
  boost::crc_32_type sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return hex(key, sum.checksum());
}

Words& Words::flag(std::string_view key, bool is_so) {
  if (!is_so) return *this;
  if (!text_.empty()) text_ += ' ';
  text_ += key;
  return *this;
}

}  // namespace nfsrdma::trace
