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

namespace {

/// Returns the place of the name, or the empty one where it belongs.
ServerCounters::Place& place_of(std::vector<ServerCounters::Place>& places, const char* what) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // spreads addresses that lie close together
  std::size_t at = (reinterpret_cast<std::uintptr_t>(what) * kGolden) >> 32U;
  for (;; ++at) {
    ServerCounters::Place& place = places[at & (places.size() - 1)];
    if (place.what == what || place.what == nullptr) return place;
  }
}

}  // namespace

CallCounters& ServerCounters::of(const char* what) {
  const Place& place = place_of(places, what);
  return place.what != nullptr ? calls[place.index] : add(what);
}

CallCounters& ServerCounters::add(const char* what) {
  calls.emplace_back().what = what;
  if (2 * calls.size() > places.size()) places.resize(2 * places.size());
  std::ranges::fill(places, Place());
  for (std::size_t i = 0; i < calls.size(); ++i) place_of(places, calls[i].what) = {calls[i].what, i};
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
