// See parse.h: sizes, counts, intervals and owners. Modes are in parse_mode.cpp, times in parse_time.cpp.
#include "cli/parse.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>
#include <limits>

namespace nfsrdma::cli {

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return value;
}

namespace {

/// The factor of "K", "KiB" (1024) and "KB" (1000).
std::optional<std::uint64_t> unit_factor(std::string_view unit) {
  if (unit.empty()) return 1;
  constexpr std::string_view letters = "KMGTPE";
  const char letter = unit[0] == 'k' ? 'K' : unit[0];
  const std::size_t power = letters.find(letter);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= rest == "B" ? 1000U : 1024U;
  return factor;
}

constexpr std::uint32_t no_id =
    std::numeric_limits<std::uint32_t>::max();  // "leave unchanged" to chown(2): not an id

std::optional<std::uint32_t> numeric_id(std::string_view text) {
  const auto value = take_number(text);
  if (!value || !text.empty() || *value >= no_id) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

Error unknown_name(const char* what, std::string_view name) {
  return {
      ErrorKind::usage, EINVAL, "", "",
      std::string("there is no ") + what + " '" + std::string(name) + "' on this machine; give its number"};
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto value = take_number(text);
  const auto factor = unit_factor(text);
  if (!value || !factor || *value > std::numeric_limits<std::uint64_t>::max() / *factor) return std::nullopt;
  return *value * *factor;
}

std::optional<SizeChange> parse_size_change(std::string_view text) {
  SizeChange change;
  if (text.starts_with('+')) change.kind = SizeChange::Kind::grow;
  if (text.starts_with('-')) change.kind = SizeChange::Kind::shrink;
  if (change.kind != SizeChange::Kind::absolute) text.remove_prefix(1);
  const auto amount = parse_size(text);
  if (!amount) return std::nullopt;
  change.amount = *amount;
  return change;
}

std::optional<std::uint64_t> SizeChange::apply(std::uint64_t size) const {
  if (kind == Kind::absolute) return amount;
  if (kind == Kind::shrink) return size > amount ? size - amount : 0;
  if (amount > std::numeric_limits<std::uint64_t>::max() - size) return std::nullopt;
  return size + amount;
}

Result<Ownership> parse_ownership(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string user(text.substr(0, colon));
  const std::string group(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (user.empty() && group.empty()) {
    return Error(ErrorKind::usage, EINVAL, "", "", "the owner is missing; write UID, UID:GID or :GID");
  }
  Ownership out;
  if (!user.empty()) {
    out.uid = numeric_id(user);
    const passwd* entry = out.uid ? nullptr : getpwnam(user.c_str());
    if (!out.uid && entry == nullptr) return unknown_name("user", user);
    if (entry != nullptr) {
      out.uid = entry->pw_uid;
      if (colon != std::string_view::npos && group.empty()) out.gid = entry->pw_gid;  // "name:": login group
    }
  }
  if (!group.empty()) {
    out.gid = numeric_id(group);
    const ::group* entry = out.gid ? nullptr : getgrnam(group.c_str());
    if (!out.gid && entry == nullptr) return unknown_name("group", group);
    if (entry != nullptr) out.gid = entry->gr_gid;
  }
  return out;
}

std::optional<std::chrono::milliseconds> parse_interval(std::string_view text) {
  constexpr double longest = 86400;
  const auto seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= 0.001 && *seconds < longest)) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  const auto value = parse_number<std::uint64_t>(text);
  return value && *value != 0 ? value : std::nullopt;
}

}  // namespace nfsrdma::cli
