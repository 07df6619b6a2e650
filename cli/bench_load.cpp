// See bench_load.h.
#include "cli/bench_load.h"

#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "cli/interrupt.h"
#include "cli/transfer.h"

namespace nfsrdma::cli {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds longest_turn{100};
/// The tag of all calls of a benchmark, by which they are cancelled together.
constexpr std::uint64_t bench_tag = 0x62656e6368;

/// The state of a load that callbacks share.
struct LoadState {
  Latencies latencies;
  std::vector<std::size_t> free_slots;
  std::size_t in_flight = 0;
  std::optional<Error> error;

  void ended(std::size_t slot, BenchClock::time_point started, const Status& status) {
    --in_flight;
    free_slots.push_back(slot);
    if (!status && !error) error = status.error();
    if (status) latencies.add(BenchClock::now() - started);
  }
};

void start_one(const std::shared_ptr<LoadState>& state, const StartOperation& start) {
  const std::size_t slot = state->free_slots.back();
  state->free_slots.pop_back();
  ++state->in_flight;
  const auto begun = BenchClock::now();
  start(slot, {.tag = bench_tag},
        [state, slot, begun](const Status& status) { state->ended(slot, begun, status); });
}

Status run_until(Client& client, const std::shared_ptr<LoadState>& state, const StartOperation& start,
                 BenchClock::time_point deadline) {
  const std::array also{interrupt::fd()};
  while (true) {
    if (interrupt::raised()) return interrupted();
    if (state->error) return *state->error;
    const bool is_over = BenchClock::now() >= deadline;
    while (!is_over && !state->free_slots.empty() && !state->error) start_one(state, start);
    if (is_over && state->in_flight == 0) return {};
    client.wait(longest_turn, also);
  }
}

}  // namespace

Result<BenchResult> run_load(Client& client, const Load& load, const StartOperation& start,
                             const std::function<Status()>& finish) {
  const auto state = std::make_shared<LoadState>();
  for (std::size_t slot = load.depth; slot-- != 0;) state->free_slots.push_back(slot);
  const auto begun = BenchClock::now();
  Status status = run_until(client, state, start, begun + load.time);
  if (!status) {
    (void)client.cancel(bench_tag);
    return status.error();
  }
  if (finish) status = finish();
  if (!status) return status.error();
  BenchResult out{load.part, load.depth, load.size, 0, state->latencies};
  out.seconds = std::chrono::duration<double>(BenchClock::now() - begun).count();
  return out;
}

}  // namespace nfsrdma::cli
