// The cost of a client's calls, as entries with names. nfsrdma_info(3) lists the names. The counters are those that a
// mount shows in its .nfsrdma-stats: connections count in the Channel, and calls in the engine.
#include <memory>
#include <string>

#include "api/client_core.h"
#include "api/clients.h"
#include "api/info.h"

namespace nfsrdma::api {
namespace {

/// Adds a counter of all connections together.
template <class Counter>
void add_sum(nfsrdma_info& out, const char* name, const connect::Server& server, Counter counter) {
  std::uint64_t sum = 0;
  for (const auto& channel : server.channels()) sum += counter(channel->facts());
  out.add(name, sum);
}

void add_totals(nfsrdma_info& out, const connect::Server& server) {
  const auto sum = [&](const char* name, auto counter) { add_sum(out, name, server, counter); };
  sum("connects", [](const auto& facts) { return facts.connects; });
  sum("reconnects", [](const auto& facts) { return facts.reconnects; });
  sum("calls", [](const auto& facts) { return facts.calls; });
  sum("replies", [](const auto& facts) { return facts.replies; });
  sum("retransmissions", [](const auto& facts) { return facts.retransmissions; });
  sum("callbacks", [](const auto& facts) { return facts.backward_calls; });
  sum("credit_waits", [](const auto& facts) { return facts.credit_waits; });
  sum("bytes_sent", [](const auto& facts) { return facts.bytes_sent + facts.bytes_exposed; });
  sum("bytes_received", [](const auto& facts) { return facts.bytes_received + facts.bytes_placed; });
}

void add_engine(nfsrdma_info& out, const engine::ServerCounters& counters) {
  out.add("slot_waits", counters.slot_waits);
  out.add("slot_wait_us", counters.slot_waited_us);
  out.add("recoveries", counters.recoveries);
  out.add("hole_bytes", counters.hole_bytes);
  out.add("delegations_granted", counters.delegations_granted);
  out.add("delegations_recalled", counters.delegations_recalled);
  out.add("delegations_revoked", counters.delegations_revoked);
}

/// The keys are those of the mount's .nfsrdma-stats.
void add_calls(nfsrdma_info& out, const std::string& name, const engine::CallCounters& calls) {
  const auto add = [&](const char* key, std::uint64_t value) { out.add(name + "." + key, value); };
  add("count", calls.round_trip.count());
  add("refused", calls.refused);
  add("failed", calls.failed);
  add("sent_again", calls.sent_again);
  add("bytes_sent", calls.bytes_sent);
  add("bytes_received", calls.bytes_received);
  add("wait_us", calls.waited.total_us());
  add("wait_max_us", calls.waited.longest_us());
  add("total_us", calls.round_trip.total_us());
  add("p50_us", calls.round_trip.percentile_us(50));
  add("p99_us", calls.round_trip.percentile_us(99));
  add("max_us", calls.round_trip.longest_us());
}

}  // namespace
}  // namespace nfsrdma::api

nfsrdma_info* nfsrdma_statistics_get(nfsrdma_client* client) {
  return nfsrdma::api::guarded_object(nullptr, [&]() -> nfsrdma_info* {
    if (client == nullptr || client->is_inherited()) return nullptr;
    const nfsrdma::api::Crew::Inside inside(client->crew());
    auto out = std::make_unique<nfsrdma_info>();
    nfsrdma::api::add_totals(*out, client->server());
    const nfsrdma::engine::ServerCounters& counters = client->engine().counters();
    nfsrdma::api::add_engine(*out, counters);
    for (const auto& [name, calls] : nfsrdma::engine::calls_by_name(counters))
      nfsrdma::api::add_calls(*out, name, calls);
    return out.release();
  });
}
