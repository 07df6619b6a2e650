// The text that --stats prints at the end of a command: the cost of its calls to each server. The library counts; the mount's
// .nfsrdma-stats shows the same counters.
#pragma once

#include <string>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Returns lines for people about one server, each with a line end. `server` is its name.
std::string statistics_text(const std::string& server, const Statistics& statistics);
/// Returns an object of JSON about one server.
std::string statistics_json(const std::string& server, const Statistics& statistics);

}  // namespace nfsrdma::cli
