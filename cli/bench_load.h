// The load of a benchmark: a number of operations in flight for a bounded time, and how long each of them took.
//
// run_load() starts operations and lets the client work until the time is over, then waits for those that are
// in flight. After a failure or a signal it cancels them. Callbacks may come even after that, so what they use
// is shared with them, and the caller's buffers are out of the server's reach when run_load() returns.
//
// Thread-safety: one thread.
#pragma once

#include <functional>

#include "cli/bench_report.h"
#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Called with the outcome of an operation.
using OperationEnded = std::function<void(Status)>;
/// Starts one operation. `slot` is below the depth, and belongs to the operation until it has ended. Calls must
/// be started with the CallOptions given.
using StartOperation =
    std::function<void(std::size_t slot, const CallOptions& how, const OperationEnded& ended)>;

struct Load {
  std::string part;
  std::size_t depth = 1, size = 0;
  std::chrono::milliseconds time{};
};

/// `finish`, if any, runs after the last operation, and counts as a part of the time (a COMMIT).
Result<BenchResult> run_load(Client& client, const Load& load, const StartOperation& start,
                             const std::function<Status()>& finish = {});

}  // namespace nfsrdma::cli
