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

Status take_limits(const fattr4& from, const std::string& server, SessionFacts& facts) {
  WireAttributes attributes;
  if (!decode_attributes(from, attributes) || attributes.lease_time.value_or(0) == 0)
    return Error(ErrorKind::protocol, EPROTO, "GETATTR", server, "the server does not report its lease time");
  facts.lease_seconds = *attributes.lease_time;
  facts.max_read = most_of(attributes.maxread);
  facts.max_write = most_of(attributes.maxwrite);
  return {};
}

}  // namespace

async::Task<Status> fetch_limits(CallLayer& calls, SessionFacts& facts, async::TimePoint deadline) {
  for (Retries retries(calls.loop(), deadline);;) {
    const security::Mark mark = calls.root_mark();
    Compound compound = calls.begin("GETATTR", nullptr, mark);
    compound.add<op::PUTROOTFH>();
    compound.add<op::GETATTR>({server_limits()});
    auto reply = co_await calls.call_in_recovery(std::move(compound), deadline);
    GETATTR4res res;
    if (reply && reply->take<op::PUTROOTFH>() && reply->take<op::GETATTR>(res))
      co_return take_limits(res.get<NFS4_OK>()->obj_attributes, calls.server(), facts);
    if (reply) {
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
