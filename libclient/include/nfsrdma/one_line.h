// Makes text from others safe for a log or a terminal: file names, and text that contains them, such as
// Error::text().
//
// A file's name may have any bytes but "/" and zero. If a name is written as it is, a newline in it begins a
// second line that looks like another message, and control characters in it move the terminal's cursor, or do
// worse.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nfsrdma {

namespace one_line_parts {

/// The first character of a text, if it is well-formed UTF-8 (RFC 3629), and its length in bytes; length 0 if
/// it is malformed. first_utf8() needs a `text` that is not empty.
struct Utf8 {
  char32_t character = 0;
  std::size_t length = 0;
};
inline Utf8 first_utf8(std::string_view text) {
  const auto octet = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = octet(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  char32_t character = lead & (0x7fU >> length);
  for (std::size_t at = 1; at < length; ++at) {
    if ((octet(at) & 0xc0U) != 0x80) return {};
    character = character << 6U | (octet(at) & 0x3fU);
  }
  const bool is_short = length > 2 && character < (length == 3 ? 0x800U : 0x10000U);
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (is_short || is_surrogate || character > 0x10ffff) return {};
  return {character, length};
}

/// Returns false for a control character (C0, DEL, C1), a line or paragraph separator, and a character that
/// changes the direction of the text after it.
inline bool is_harmless(char32_t c) {
  if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;
  return c != 0x2028 && c != 0x2029 && (c < 0x202a || c > 0x202e) && (c < 0x2066 || c > 0x2069);
}

/// Returns `text` in which each character that is not harmless, and each byte that is not part of a
/// character, is replaced by what `replace(out, octets)` appends to `out`.
template <class Replace>
std::string replaced(std::string_view text, Replace replace) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8 next = first_utf8(text);
    const std::string_view octets = text.substr(0, next.length == 0 ? 1 : next.length);
    if (next.length != 0 && is_harmless(next.character)) {
      out += octets;
    } else {
      replace(out, octets);
    }
    text.remove_prefix(octets.size());
  }
  return out;
}

}  // namespace one_line_parts

/// Returns `text` as one line that does nothing to a terminal: control characters and similar ones become
/// "\n", "\t", "\r" or "\x1b".
inline std::string one_line(std::string_view text) {
  return one_line_parts::replaced(text, [](std::string& out, std::string_view octets) {
    for (const char octet : octets) {
      constexpr std::string_view digits = "0123456789abcdef";
      const auto number = static_cast<unsigned char>(octet);
      out += '\\';
      if (octet == '\n') {
        out += 'n';
      } else if (octet == '\t') {
        out += 't';
      } else if (octet == '\r') {
        out += 'r';
      } else {
        out += 'x';
        out += digits[number >> 4U];
        out += digits[number & 15U];
      }
    }
  });
}

}  // namespace nfsrdma
