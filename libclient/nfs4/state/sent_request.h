// A request that was sent by the fast path (session/fast_reads.h) and met something unusual. The fast path
// hands it over to the session's call loop, together with its slot and the outcome of its first transmission.
// The call loop continues as if it had sent the request itself.
#pragma once

#include <cstdint>

#include "async/under_way.h"
#include "nfs4/compound/slot_table.h"
#include "nfs4/state/lease.h"
#include "rpc/channel.h"

namespace nfsrdma::nfs4 {

struct SentRequest {
  SlotTable::Use use;
  SEQUENCE4args sequence;
  rpc::Channel& channel;
  Lease::Sent sent;
  std::uint64_t epoch = 0;  ///< CallLayer::epoch() when the request was sent
  std::uint64_t as_of = 0;  ///< FastReadFile::as_of() when the request was sent
  async::TimePoint deadline;
  rpc::Outcome outcome;
  async::Use in_use;  ///< FileState::use(): CLOSE waits for the request
};

}  // namespace nfsrdma::nfs4
