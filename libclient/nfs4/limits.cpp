#include "nfs4/limits.h"

#include <cerrno>

#include "nfs4/types/attributes.h"

namespace nfsrdma::nfs4 {
namespace {

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& server_limits() {
  static const bitmap4 map = bitmap_of({FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE});
  return map;
}

}  // namespace

async::Task<Status> fetch_limits(Calls& calls, SessionFacts& facts, async::TimePoint deadline) {
  Compound compound = calls.begin("GETATTR");
  compound.add<op::PUTROOTFH>();
  compound.add<op::GETATTR>({server_limits()});
  auto reply = co_await calls.call_in_recovery(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  GETATTR4res res;
  WireAttributes attributes;
  if (!reply->take<op::PUTROOTFH>() || !reply->take<op::GETATTR>(res)) {
    co_return calls.error_of(*reply, "GETATTR", calls.server());
  }
  if (!decode_attributes(res.get<NFS4_OK>()->obj_attributes, attributes) ||
      attributes.lease_time.value_or(0) == 0) {
    co_return Error(ErrorKind::protocol, EPROTO, "GETATTR", calls.server(),
                    "the server does not tell its lease time");
  }
  facts.lease_seconds = *attributes.lease_time;
  facts.max_read = attributes.maxread.value_or(~0ULL);
  facts.max_write = attributes.maxwrite.value_or(~0ULL);
  co_return Status();
}

}  // namespace nfsrdma::nfs4
