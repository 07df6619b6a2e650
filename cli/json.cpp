// See json.h.
#include "cli/json.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "nfsrdma/one_line.h"

namespace nfsrdma::cli::json {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

/// Returns the length of the well-formed UTF-8 sequence at `at`, or 0 if there is none.
std::size_t sequence_length(std::string_view bytes, std::size_t at) {
  return nfsrdma::one_line_parts::first_utf8(bytes.substr(at)).length;
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
    out += c;
    return;
  }
  std::array<char, 8> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  out += escape.data();
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4];
    out += digits[byte & 15U];
  }
  return out;
}

}  // namespace

bool valid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = sequence_length(bytes, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string quoted(std::string_view bytes) {
  std::string out = "\"";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = sequence_length(bytes, at);
    if (length == 1) {
      append_ascii(out, bytes[at]);
    } else {
      out += length == 0 ? replacement : bytes.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out + "\"";
}

Object& Object::raw(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_ += quoted(key);
  members_ += ':';
  members_ += value;
  return *this;
}

Object& Object::text(std::string_view key, std::string_view value) {
  raw(key, quoted(value));
  if (!valid_utf8(value)) raw(std::string(key) + "_hex", quoted(hex(value)));
  return *this;
}

}  // namespace nfsrdma::cli::json
