// See list_order.h.
#include "cli/list_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace nfsrdma::cli {
namespace {

using Key = ListOrder::Key;

constexpr std::array<std::pair<std::string_view, Key>, 4> key_names{
    {{"none", Key::none}, {"name", Key::name}, {"size", Key::size}, {"time", Key::time}}};

std::optional<Key> key_named(std::string_view name) {
  for (const auto& [known, key] : key_names) {
    if (known == name) return key;
  }
  return std::nullopt;
}

/// Returns the keys that the options ask for, each with the name of its option.
std::vector<std::pair<std::string, std::optional<Key>>> given_keys(const Call& call) {
  std::vector<std::pair<std::string, std::optional<Key>>> out;
  if (call.has("time")) out.emplace_back("-t", Key::time);
  if (call.has("size")) out.emplace_back("-S", Key::size);
  if (call.has("unsorted")) out.emplace_back("-U", Key::none);
  if (const auto word = call.arguments.value("sort")) out.emplace_back("--sort", key_named(*word));
  return out;
}

std::uint64_t size_of(const DirectoryEntry& entry) {
  return entry.attributes ? entry.attributes->size : 0;
}

Time time_of(const DirectoryEntry& entry) {
  constexpr std::int64_t oldest = std::numeric_limits<std::int64_t>::min();
  return entry.attributes ? entry.attributes->modified : Time{oldest, 0};
}

bool is_first(const ListOrder& order, const DirectoryEntry& one, const DirectoryEntry& other) {
  if (order.key == Key::size && size_of(one) != size_of(other)) return size_of(one) > size_of(other);
  if (order.key == Key::time && time_of(one) != time_of(other)) return time_of(one) > time_of(other);
  return one.name < other.name;
}

}  // namespace

std::optional<ListOrder> wanted_order(Call& call) {
  ListOrder out;
  out.is_reversed = call.has("reverse");
  const auto keys = given_keys(call);
  if (keys.size() > 1) {
    call.misused(keys[0].first + " and " + keys[1].first + " cannot be used together");
    return std::nullopt;
  }
  // ls -r reverses the order of the names.
  if (keys.empty()) out.key = out.is_reversed ? Key::name : Key::none;
  if (!keys.empty() && !keys[0].second) {
    call.misused("--sort takes one of none, name, size and time, not '" + *call.arguments.value("sort") +
                 "'");
    return std::nullopt;
  }
  if (!keys.empty()) out.key = *keys[0].second;
  return out;
}

bool comes_before(const ListOrder& order, const DirectoryEntry& one, const DirectoryEntry& other) {
  return order.is_reversed ? is_first(order, other, one) : is_first(order, one, other);
}

void sort_entries(const ListOrder& order, std::vector<DirectoryEntry>& entries) {
  if (!order.is_sorted()) return;
  std::ranges::stable_sort(entries, [&](const DirectoryEntry& one, const DirectoryEntry& other) {
    return comes_before(order, one, other);
  });
}

}  // namespace nfsrdma::cli
