// A request that left by the quick way (quick_reads.h) and met something unusual, handed to the session's call loop: its
// slot, and what became of its first transmission. The call loop goes on as if it had sent it.
#pragma once

#include <cstdint>

#include "async/under_way.h"
#include "nfs4/lease.h"
#include "nfs4/slot_table.h"
#include "rpc/channel.h"

namespace nfsrdma::nfs4 {

struct Adopted {
  SlotTable::Use use;
  SEQUENCE4args sequence;
  rpc::Channel& channel;
  Lease::Sent sent;
  std::uint64_t epoch = 0;  ///< when it was sent
  std::uint64_t as_of = 0;  ///< QuickFile::as_of() when it was sent
  async::TimePoint deadline;
  rpc::Outcome outcome;
  async::Use in_use;  ///< of the file's state
};

}  // namespace nfsrdma::nfs4
