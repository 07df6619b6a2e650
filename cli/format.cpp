// See format.h. g++ 12 has no <format>; snprintf and strftime do what is needed.
#include "cli/format.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "nfsrdma/one_line.h"

namespace nfsrdma::cli {
namespace {

constexpr std::int64_t half_a_year = 31556952 / 2;  // as ls(1): half of the Gregorian mean year

std::string formatted_time(const Time& time, const char* pattern) {
  const std::time_t seconds = time.seconds;
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return std::to_string(time.seconds);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), pattern, &parts)};
}

char type_letter(FileType type) {
  constexpr std::string_view letters = "?-dlbcps";  // in the order of FileType
  const auto index = static_cast<std::size_t>(type);
  return index < letters.size() ? letters[index] : '?';
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string human_size(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes);
  constexpr std::string_view units = "KMGTPE";
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (std::ceil(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  const double tenths = std::ceil(value * 10) / 10;  // up, as ls(1): 1025 bytes are not "1.0K"
  return (tenths < 10 ? fixed(tenths, 1) : fixed(std::ceil(value), 0)) + units[unit];
}

std::string binary_size(double bytes) {
  constexpr std::array<const char*, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fixed(bytes, decimals) + " " + units[unit];
}

std::string clock_time(std::chrono::seconds time) {
  const auto total = time.count();
  std::array<char, 48> text{};
  if (total >= 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", static_cast<long long>(total / 3600),
                  static_cast<long long>(total / 60 % 60), static_cast<long long>(total % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", static_cast<long long>(total / 60),
                  static_cast<long long>(total % 60));
  }
  return text.data();
}

std::string mode_string(FileType type, std::uint32_t mode) {
  std::string out(1, type_letter(type));
  for (int shift = 6; shift >= 0; shift -= 3) {
    out += (mode >> shift & 4) != 0 ? 'r' : '-';
    out += (mode >> shift & 2) != 0 ? 'w' : '-';
    out += (mode >> shift & 1) != 0 ? 'x' : '-';
  }
  const auto overlay = [&](std::uint32_t bit, std::size_t at, char with, char without) {
    if ((mode & bit) != 0) out[at] = out[at] == 'x' ? with : without;
  };
  overlay(04000, 3, 's', 'S');
  overlay(02000, 6, 's', 'S');
  overlay(01000, 9, 't', 'T');
  return out;
}

std::string octal_mode(std::uint32_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
  return text.data();
}

const char* type_name(FileType type) {
  constexpr std::array<const char*, 8> names = {"unknown", "regular",   "directory", "symlink",
                                                "block",   "character", "fifo",      "socket"};
  const auto index = static_cast<std::size_t>(type);
  return index < names.size() ? names[index] : names[0];
}

std::string list_time(const Time& time, std::int64_t now) {
  const bool recent = time.seconds <= now && time.seconds > now - half_a_year;
  return formatted_time(time, recent ? "%b %e %H:%M" : "%b %e  %Y");
}

std::string full_time(const Time& time) {
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%09u", time.nanoseconds);
  return formatted_time(time, "%Y-%m-%d %H:%M:%S") + fraction.data() + formatted_time(time, " %z");
}

std::string decimal_time(const Time& time) {
  // nfstime4 counts nanoseconds forward from the seconds also before 1970 (RFC 8881 3.3.1): -1 s and 5e8 ns
  // are -0.5 s.
  std::array<char, 48> text{};
  const bool below = time.seconds < 0 && time.nanoseconds > 0;
  const auto whole = static_cast<long long>(below ? time.seconds + 1 : time.seconds);
  const std::uint32_t nanoseconds = below ? 1000000000U - time.nanoseconds : time.nanoseconds;
  std::snprintf(text.data(), text.size(), "%s%lld.%09u", below && whole == 0 ? "-" : "", whole, nanoseconds);
  return text.data();
}

std::string printable(std::string_view name) {
  return nfsrdma::one_line_parts::replaced(name,
                                           [](std::string& out, std::string_view /*octets*/) { out += '?'; });
}

std::string checksum_line(std::string_view sum, std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\r') {
      escaped += "\\r";
    } else {
      escaped += c;
    }
  }
  std::string out = escaped.size() == name.size() ? "" : "\\";
  return (out += sum) + "  " + escaped;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  bool is_plain = !text.empty(), is_printable = true;
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    is_plain = is_plain && (is_letter || std::string_view("-._/:,=+@%").find(c) != std::string_view::npos);
    is_printable = is_printable && c >= ' ' && c <= '~';
  }
  if (is_plain) return std::string(text);
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    if (is_printable) {
      out += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (c >= ' ' && c <= '~') {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    } else {
      out += std::string("\\x") + digits[octet >> 4U] + digits[octet & 15U];
    }
  }
  return (is_printable ? "'" : "$'") + out + "'";
}

std::string left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string right(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

}  // namespace nfsrdma::cli
