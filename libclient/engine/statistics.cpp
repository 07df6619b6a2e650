#include "engine/statistics.h"

#include <algorithm>
#include <cctype>

namespace nfsrdma::engine {

void CallCounters::ended(const xdr::Message& call, const rpc::Outcome& outcome) {
  if (outcome.failure == rpcrdma::Failure::cancelled) {
    ++sent_again;
    return;
  }
  if (!outcome.reply) {
    ++failed;
    return;
  }
  const rpcrdma::Reply& reply = *outcome.reply;
  std::size_t received = reply.message.size();
  for (const xdr::Placement& one : reply.placements) received += one.placed;
  answered(call.unreduced_size(), received, reply.trip);
}

void CallCounters::answered(std::size_t sent, std::size_t received, const rpcrdma::Trip& trip) {
  bytes_sent += sent;
  bytes_received += received;
  sent_again += trip.sends - 1;
  waited.add(trip.waited);
  round_trip.add(trip.round_trip);
}

void CallCounters::add(const CallCounters& other) {
  refused += other.refused;
  failed += other.failed;
  sent_again += other.sent_again;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  waited += other.waited;
  round_trip += other.round_trip;
}

CallCounters& ServerCounters::of(const char* what) {
  const auto known = std::ranges::find(names, what);
  if (known != names.end()) return calls[static_cast<std::size_t>(known - names.begin())];
  names.push_back(what);
  calls.emplace_back().what = what;
  return calls.back();
}

std::map<std::string, CallCounters> calls_by_name(const ServerCounters& server) {
  std::map<std::string, CallCounters> out;
  for (const CallCounters& one : server.calls) {
    std::string name = one.what;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    out[name].add(one);
  }
  return out;
}

}  // namespace nfsrdma::engine
