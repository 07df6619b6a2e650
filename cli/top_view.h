// The view of one mount that top shows: lines for people, and an object of JSON. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cli/mount_statistics.h"

namespace nfsrdma::cli {

struct TopRow {
  std::string mountpoint;
  std::optional<MountSample> sample;  ///< of the end of the time
  MountRates rates;                   ///< if there is a sample
  std::string trouble;                ///< if there is none
};

/// Returns the lines about a mount, each with a line end: a heading, and at most `most_kinds` kinds of requests and
/// calls in the order that `row` has them.
std::string top_text(const TopRow& row, std::size_t most_kinds);
std::string top_json(const TopRow& row);

}  // namespace nfsrdma::cli
