#include "nfs4/state/limits.h"

#include <cerrno>
#include <cstdint>
#include <optional>

#include "nfs4/compound/retries.h"
#include "nfs4/state/crossing.h"
#include "wire/nfs4/attributes.h"

namespace nfsrdma::nfs4 {
namespace {

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& server_limits() {
  static const bitmap4 map = bitmap_of({FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE});
  return map;
}

/// Returns the limit that the server has stated. With 0 bytes nothing could be read or written, so 0
/// counts as no statement.
std::uint64_t most_of(const std::optional<std::uint64_t>& told) {
  return told && *told != 0 ? *told : ~0ULL;
}

}  // namespace

void add_limits(Compound& compound) {
  compound.add<op::PUTROOTFH>();
  compound.add<op::GETATTR>({server_limits()});
}

Result<bool> take_limits(CompoundReply& reply, const std::string& server, SessionFacts& facts) {
  GETATTR4res res;
  if (!reply.take<op::PUTROOTFH>() || !reply.take<op::GETATTR>(res)) return false;
  WireAttributes attributes;
  if (!decode_attributes(res.get<NFS4_OK>()->obj_attributes, attributes) ||
      attributes.lease_time.value_or(0) == 0)
    return Error(ErrorKind::protocol, EPROTO, "GETATTR", server, "the server does not report its lease time");
  facts.lease_seconds = *attributes.lease_time;
  facts.max_read = most_of(attributes.maxread);
  facts.max_write = most_of(attributes.maxwrite);
  return true;
}

async::Task<Status> fetch_limits(CallLayer& calls, SessionFacts& facts, async::TimePoint deadline) {
  for (Retries retries(calls.loop(), deadline);;) {
    const security::Mark mark = calls.root_mark();
    Compound compound = calls.begin("GETATTR", nullptr, mark);
    add_limits(compound);
    auto reply = co_await calls.call_in_recovery(std::move(compound), deadline);
    if (reply) {
      auto taken = take_limits(*reply, calls.server(), facts);
      if (!taken) co_return taken.error();
      if (*taken) co_return Status();
      const bool again = co_await retries.again(reply->failed_status());
      if (again) continue;
    }
    const Error refused = reply ? calls.error_of(*reply, "GETATTR", calls.server()) : reply.error();
    if (!is_of_flavor(refused)) co_return refused;
    auto crossed = co_await calls.cross_root(deadline);
    if (!crossed && refused.status() == NFS4ERR_WRONGSEC) co_return crossed.error();
    if (calls.root_mark() == mark) co_return refused;
  }
}

}  // namespace nfsrdma::nfs4
