// Formats facts for people: sizes, rates, times, modes, names. Pure functions; no locale, no I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// "1023", "1.5K", "20M": at most four characters before the unit, as ls -h and df -h, rounded up.
std::string human_size(std::uint64_t bytes);

/// "1.50 GiB" and the like, with three significant digits.
std::string binary_size(double bytes);

/// "0:07", "12:05", "1:02:03".
std::string clock_time(std::chrono::seconds time);

/// "-rwxr-sr-x": the type and permissions as ls -l.
std::string mode_string(FileType type, std::uint32_t mode);

/// "0644", as in JSON and in the output of stat.
std::string octal_mode(std::uint32_t mode);

/// "regular", "directory", …
const char* type_name(FileType type);

/// "Nov 20 09:42" within half a year of `now`, else "Nov 20  2023" (the caller's time zone).
std::string list_time(const Time& time, std::int64_t now);

/// "2024-11-20 09:42:01.123456789 +0100".
std::string full_time(const Time& time);

/// Seconds with nine decimals, which is a JSON number too.
std::string decimal_time(const Time& time);

/// A name as ls(1) shows it on a terminal: bytes that are no text become '?', so that a name cannot move the
/// cursor. Messages use one_line(), which shows what the bytes were.
std::string printable(std::string_view name);

/// "3a6e...  name", as sha256sum(1). If the name has a backslash or a line end, these are escaped, and a
/// backslash in front of the line says so.
std::string checksum_line(std::string_view sum, std::string_view name);

/// Returns the text as one word of a shell's command line, in quotes if it needs them. All characters of the
/// word can be printed: others become $'\x1b', as in bash(1).
std::string shell_word(std::string_view text);

std::string left(std::string text, std::size_t width);
std::string right(std::string text, std::size_t width);

/// printf's numbers: `decimals` digits after the point.
std::string fixed(double value, int decimals);

}  // namespace nfsrdma::cli
