#include "nfs4/files/first_read.h"

#include <utility>

#include "async/buggify.h"
#include "nfs4/state/open_arguments.h"

namespace nfsrdma::nfs4 {

FirstRead::FirstRead(ClientLease& session, std::shared_ptr<writing::WriteRecord> record,
                     std::span<std::byte> into)
    : session_(session), question_(std::move(record)), into_(into) {
  if (!question_.begin()) into_ = {};
}

void FirstRead::add_to(Compound& compound) {
  // READs of at most half of what a Reply can bring leave room for the results of OPEN and GETATTR.
  const bool fits =
      into_.size() <= session_.most_read() / 2 && compound.count() < session_.facts().max_operations;
  if (into_.empty() || !fits || async::buggify(session_.loop())) return;
  compound.read(kCurrentStateid, 0, into_);
  compound.need_not_be_cached();
  is_added_ = true;
}

std::optional<std::size_t> FirstRead::take(CompoundReply& reply) {
  if (!is_added_) return std::nullopt;
  READ4res res;
  if (!reply.take<op::READ>(res) || !reply.finish()) {
    const nfsstat4 status = reply.failed_status();
    is_useless_ = is_too_large(status) || status == NFS4ERR_BAD_STATEID || status == NFS4ERR_INVAL ||
                  status == NFS4ERR_NOTSUPP;
    return std::nullopt;
  }
  const READ4resok& ok = *res.get<NFS4_OK>();
  const std::size_t count = ok.data.data.size();
  if (ok.eof ? question_.again(count) : question_.again()) return std::nullopt;
  // A server may return less than it was asked for (RFC 8881 18.22.3).
  if (count < into_.size() && !ok.eof) return std::nullopt;
  return count;
}

bool is_too_large(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_RESOURCE:
    case NFS4ERR_REQ_TOO_BIG:
    case NFS4ERR_REP_TOO_BIG:
    case NFS4ERR_REP_TOO_BIG_TO_CACHE:
    case NFS4ERR_TOO_MANY_OPS:
      return true;
    default:
      return false;
  }
}

}  // namespace nfsrdma::nfs4
