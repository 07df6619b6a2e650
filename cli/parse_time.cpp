// Times as touch takes them.
#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <limits>

#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Takes `digits` digits off the front.
std::optional<int> take(std::string_view& text, std::size_t digits) {
  if (text.size() < digits || !all_digits(text.substr(0, digits))) return std::nullopt;
  int value = 0;
  const std::string_view head = text.substr(0, digits);
  std::from_chars(head.data(), head.data() + head.size(), value);
  text.remove_prefix(digits);
  return value;
}

bool take_char(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// ".5" → 500000000; digits beyond the ninth are dropped.
std::optional<std::uint32_t> take_fraction(std::string_view& text) {
  if (!take_char(text, ".,")) return 0;
  std::uint32_t value = 0;
  std::size_t digits = 0;
  for (; !text.empty() && all_digits(text.substr(0, 1)); text.remove_prefix(1), ++digits) {
    if (digits < 9) value = value * 10 + static_cast<std::uint32_t>(text[0] - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) value *= 10;
  return value;
}

struct Fields {
  int year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

/// Returns no value if the calendar has no such moment (mktime would move February 30 to March).
std::optional<std::int64_t> to_seconds(const Fields& fields, bool utc) {
  std::tm parts{};
  parts.tm_year = fields.year - 1900;
  parts.tm_mon = fields.month - 1;
  parts.tm_mday = fields.day;
  parts.tm_hour = fields.hour;
  parts.tm_min = fields.minute;
  parts.tm_sec = fields.second;
  parts.tm_isdst = -1;
  std::tm wanted = parts;
  const std::time_t seconds = utc ? timegm(&parts) : std::mktime(&parts);
  if (parts.tm_mon != wanted.tm_mon || parts.tm_mday != wanted.tm_mday || fields.hour > 23 ||
      fields.minute > 59) {
    return std::nullopt;
  }
  return seconds;
}

std::optional<Time> now() {
  std::timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return Time{time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

std::optional<Time> since_epoch(std::string_view text) {
  std::int64_t seconds = 0;
  const bool negative = text.starts_with('-');
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (fault != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  const auto fraction = take_fraction(text);
  if (!fraction || !text.empty()) return std::nullopt;
  if (!negative || *fraction == 0) return Time{seconds, *fraction};
  if (seconds == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  return Time{seconds - 1, 1000000000U - *fraction};
}

/// "hh:mm[:ss[.fraction]]"
bool take_time_of_day(std::string_view& text, Fields& fields, std::uint32_t& nanoseconds) {
  const auto hour = take(text, 2);
  if (!hour || !take_char(text, ":")) return false;
  const auto minute = take(text, 2);
  if (!minute) return false;
  fields.hour = *hour;
  fields.minute = *minute;
  if (!take_char(text, ":")) return true;
  const auto second = take(text, 2);
  const auto fraction = second ? take_fraction(text) : std::nullopt;
  if (!fraction || *second > 60) return false;
  fields.second = *second;
  nanoseconds = *fraction;
  return true;
}

}  // namespace

std::optional<Time> parse_date(std::string_view text) {
  if (text == "now") return now();
  if (text.starts_with('@')) return since_epoch(text.substr(1));
  Fields fields;
  Time time;
  const auto year = take(text, 4);
  if (!year || !take_char(text, "-")) return std::nullopt;
  const auto month = take(text, 2);
  if (!month || !take_char(text, "-")) return std::nullopt;
  const auto day = take(text, 2);
  if (!day) return std::nullopt;
  fields.year = *year;
  fields.month = *month;
  fields.day = *day;
  if (take_char(text, " T") && !take_time_of_day(text, fields, time.nanoseconds)) return std::nullopt;
  const bool utc = take_char(text, "Z");
  const auto seconds = to_seconds(fields, utc);
  if (!text.empty() || !seconds) return std::nullopt;
  time.seconds = *seconds;
  return time;
}

std::optional<Time> parse_stamp(std::string_view text) {
  Fields fields;
  const std::string_view main = text.substr(0, text.find('.'));
  std::string_view rest = main;
  if (main.size() == 12) {
    fields.year = take(rest, 4).value_or(-1);
  } else if (main.size() == 10) {
    const int year = take(rest, 2).value_or(-1);
    fields.year = year < 69 ? 2000 + year : 1900 + year;  // POSIX touch
  } else if (main.size() == 8) {
    const std::time_t seconds = std::time(nullptr);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    fields.year = parts.tm_year + 1900;
  } else {
    return std::nullopt;
  }
  if (!all_digits(main)) return std::nullopt;
  for (int* field : {&fields.month, &fields.day, &fields.hour, &fields.minute})
    *field = take(rest, 2).value_or(-1);
  text.remove_prefix(main.size());
  if (take_char(text, ".")) {
    const auto second = take(text, 2);
    if (!second || *second > 60) return std::nullopt;
    fields.second = *second;
  }
  const auto seconds = to_seconds(fields, false);
  if (!text.empty() || !seconds) return std::nullopt;
  return Time{*seconds, 0};
}

}  // namespace nfsrdma::cli
