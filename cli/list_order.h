// The order in which ls shows entries: that of the server, or sorted as ls(1) sorts.
//
// Sorting needs all entries of a directory in memory. Pure, except that wanted_order() reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace nfsrdma::cli {

struct ListOrder {
  enum class Key : unsigned char { none, name, size, time } key = Key::none;
  bool is_reversed = false;

  [[nodiscard]] bool is_sorted() const { return key != Key::none; }
  /// Returns true if entries must have attributes to be sorted.
  [[nodiscard]] bool needs_attributes() const { return key == Key::size || key == Key::time; }
};

/// Reads the options of ls. Returns nothing if they contradict each other, which is reported.
std::optional<ListOrder> wanted_order(Call& call);

/// Returns true if `one` is shown before `other`: the largest or the latest first, and equal ones by name. An
/// entry without attributes is the smallest and the oldest.
bool comes_before(const ListOrder& order, const DirectoryEntry& one, const DirectoryEntry& other);

void sort_entries(const ListOrder& order, std::vector<DirectoryEntry>& entries);

}  // namespace nfsrdma::cli
