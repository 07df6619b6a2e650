// See find_tests.h.
#include "cli/find_tests.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cli/parse.h"
#include "cli/servers.h"

namespace nfsrdma::cli {
namespace {

constexpr std::int64_t minute = 60, day = 24 * 60 * 60;

constexpr std::array<std::pair<char, FileType>, 7> type_letters{{{'f', FileType::regular},
                                                                 {'d', FileType::directory},
                                                                 {'l', FileType::symlink},
                                                                 {'b', FileType::block},
                                                                 {'c', FileType::character},
                                                                 {'p', FileType::fifo},
                                                                 {'s', FileType::socket}}};

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 7> size_units{
    {{"", 512}, {"b", 512}, {"c", 1}, {"w", 2}, {"k", 1ULL << 10}, {"M", 1ULL << 20}, {"G", 1ULL << 30}}};

Error wrong(const std::string& option, const char* takes, const std::string& value) {
  return {ErrorKind::usage, EINVAL, "", "", "--" + option + " takes " + takes + ", not '" + value + "'"};
}

std::vector<std::string> all_values(const Arguments& arguments, const std::string& option) {
  const auto found = arguments.given.find(option);
  return found == arguments.given.end() ? std::vector<std::string>() : found->second;
}

/// Appends what `parse` makes of each value of an option.
template <class T, class Parse>
Status read_option(const Arguments& arguments, const std::string& option, const char* takes,
                   std::vector<T>& out, Parse parse) {
  for (const std::string& value : all_values(arguments, option)) {
    auto parsed = parse(value);
    if (!parsed) return wrong(option, takes, value);
    out.push_back(*std::move(parsed));
  }
  return {};
}

Status read_depth(const Arguments& arguments, const std::string& option, unsigned& out) {
  const auto text = arguments.value(option);
  if (!text) return {};
  if (text->empty() || text->find_first_not_of("0123456789") != std::string::npos)
    return wrong(option, "a number", *text);
  // A number that is too large for the type is as good as its largest value.
  out = parse_number<unsigned>(*text).value_or(~0U);
  return {};
}

bool match_all(const std::vector<std::string>& patterns, const std::string& text, int flags) {
  return std::ranges::all_of(patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), text.c_str(), flags) == 0;
  });
}

bool is_newer(const Time& one, const Time& other) {
  return one > other;
}

}  // namespace

std::optional<Comparison> Comparison::take(std::string_view& text) {
  Comparison out;
  if (text.starts_with('+')) out.sense = Sense::more;
  if (text.starts_with('-')) out.sense = Sense::less;
  if (out.sense != Sense::equal) text.remove_prefix(1);
  const auto amount = take_number(text);
  if (!amount) return std::nullopt;
  out.amount = *amount;
  return out;
}

bool Comparison::holds(std::uint64_t value) const {
  if (sense == Sense::more) return value > amount;
  return sense == Sense::less ? value < amount : value == amount;
}

std::optional<SizeTest> SizeTest::parse(std::string_view text) {
  const auto comparison = Comparison::take(text);
  const auto unit = std::ranges::find(size_units, text, &std::pair<std::string_view, std::uint64_t>::first);
  if (!comparison || unit == size_units.end()) return std::nullopt;
  return SizeTest{*comparison, unit->second};
}

bool SizeTest::holds(std::uint64_t size) const {
  return comparison.holds(size / unit + (size % unit != 0 ? 1 : 0));
}

std::optional<AgeTest> AgeTest::parse(std::string_view text, std::int64_t unit) {
  const auto comparison = Comparison::take(text);
  if (!comparison || !text.empty()) return std::nullopt;
  return AgeTest{*comparison, unit};
}

bool AgeTest::holds(const Time& modified, const Time& now) const {
  std::int64_t age = now.seconds - modified.seconds;
  if (now.nanoseconds < modified.nanoseconds) --age;
  // A time in the future counts as age 0.
  return comparison.holds(static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0) / unit));
}

std::optional<std::vector<FileType>> parse_types(std::string_view letters) {
  std::vector<FileType> out;
  for (std::size_t i = 0; i < letters.size(); i += 2) {
    const auto found = std::ranges::find(type_letters, letters[i], &std::pair<char, FileType>::first);
    const bool ends = i + 1 == letters.size();
    if (found == type_letters.end() || (!ends && letters[i + 1] != ',')) return std::nullopt;
    out.push_back(found->second);
  }
  if (out.empty() || letters.ends_with(',')) return std::nullopt;
  return out;
}

Result<FindTests> FindTests::parse(const Arguments& arguments) {
  FindTests out;
  out.names_ = all_values(arguments, "name");
  out.names_without_case_ = all_values(arguments, "iname");
  out.paths_ = all_values(arguments, "path");
  out.wants_empty = arguments.has("empty");
  const char* const types = "one of f, d, l, b, c, p and s, or several with commas";
  const char* const sizes = "a number such as 10M, +1G or -4k (units c, w, b, k, M and G)";
  const char* const ages = "a number such as 7, +7 or -7";
  const auto days = [](const std::string& text) { return AgeTest::parse(text, day); };
  const auto minutes = [](const std::string& text) { return AgeTest::parse(text, minute); };
  for (const Status& status : {read_option(arguments, "type", types, out.types_, parse_types),
                               read_option(arguments, "size", sizes, out.sizes_, SizeTest::parse),
                               read_option(arguments, "mtime", ages, out.ages_, days),
                               read_option(arguments, "mmin", ages, out.ages_, minutes),
                               read_depth(arguments, "maxdepth", out.most_depth),
                               read_depth(arguments, "mindepth", out.least_depth)}) {
    if (!status) return status.error();
  }
  return out;
}

bool FindTests::pass_names(const std::string& path) const {
  const std::string name(base_name(path));
  return match_all(names_, name, 0) && match_all(names_without_case_, name, FNM_CASEFOLD) &&
         match_all(paths_, path, 0);
}

bool FindTests::pass(const std::string& path, const Attributes& attributes, const Time& now) const {
  const auto is_of = [&](const std::vector<FileType>& types) {
    return std::ranges::find(types, attributes.type) != types.end();
  };
  return std::ranges::all_of(types_, is_of) && pass_names(path) &&
         std::ranges::all_of(sizes_, [&](const SizeTest& test) { return test.holds(attributes.size); }) &&
         std::ranges::all_of(ages_,
                             [&](const AgeTest& test) { return test.holds(attributes.modified, now); }) &&
         std::ranges::all_of(newer_, [&](const Time& time) { return is_newer(attributes.modified, time); });
}

}  // namespace nfsrdma::cli
