// A failing seed made small: fewer operations, and without the kinds of trouble that it fails without.
#pragma once

#include "sim/run.h"

namespace nfsrdma::sim {

/// Options with which it still fails. `tries`: how many runs it may take.
[[nodiscard]] RunOptions shrunk(RunOptions options, unsigned tries = 60);

/// The command line that runs it again.
[[nodiscard]] std::string command_line(const RunOptions& options);

}  // namespace nfsrdma::sim
