#include "nfs4/open_recovery.h"

#include <cerrno>

#include "nfs4/open_arguments.h"

namespace nfsrdma::nfs4 {
namespace {

Error closed_meanwhile(const std::string& path) {
  return {ErrorKind::usage, EBADF, "OPEN", path, "the file has been closed"};
}

}  // namespace

async::Task<Status> OpenRecovery::reclaim_all(async::TimePoint deadline) {
  for (Retries retries(around_.calls.loop(), deadline);;) {
    nfsstat4 trouble = NFS4_OK;
    auto done = co_await reclaim_each(deadline, retries, trouble);
    if (!done) co_return done;
    const bool again = co_await retries.again(trouble);
    if (!again) co_return Status();
  }
}

/// Makes one pass over all opens that have not been reclaimed. `trouble` is set to the status of a server in trouble
/// that refused some of them for now; these are asked for again by the next pass.
///
/// A file may be closed, and others be opened, while one is asked for: each is held on to for that time, and
/// the registry is read anew for the next.
async::Task<Status> OpenRecovery::reclaim_each(async::TimePoint deadline, const Retries& retries,
                                               nfsstat4& trouble) {
  const auto& all = around_.opens.all();
  for (auto at = all.begin(); at != all.end();) {
    const std::shared_ptr<Open> open = at->second;
    const std::uint64_t number = at->first;
    if (!open->lost && open->reclaimable) {
      Status done;
      if (open->epoch != around_.calls.epoch()) {
        done = co_await reclaim(open, deadline, retries, trouble);
      } else if (open->claiming_locks) {
        // The session went in the middle of it.
        done = co_await around_.locks.claim(open, Claim::reclaim, deadline);
      }
      if (!done) co_return done;
    }
    at = all.upper_bound(number);
  }
  co_return Status();
}

async::Task<Status> OpenRecovery::reclaim(std::shared_ptr<Open> open, async::TimePoint deadline,
                                          const Retries& retries, nfsstat4& trouble) {
  // A claim under the client id of before. Where the open is not had again nothing else would end it.
  around_.locks.end_claim(*open);
  if (open->parked) {
    // Nobody would miss it.
    open->lost = Error(ErrorKind::server, EIO, "OPEN", open->path, "the server has restarted");
    around_.delegations.end(*open);
    co_return Status();
  }
  nfsstat4 status = NFS4_OK;
  auto done = co_await claim(open, Claim::reclaim, deadline, status);
  if (done) co_return co_await around_.locks.claim(open, Claim::reclaim, deadline);
  const bool undecodable = done.error().kind() == ErrorKind::protocol;
  if (status == NFS4_OK && !undecodable) co_return done;
  const Retry retry = retry_of(status);
  if (retry == Retry::later || retry == Retry::with_new_session) co_return done;
  if (retry == Retry::some_times && retries.may_try(status)) {
    trouble = status;
    co_return Status();
  }
  around_.delegations.end_of_before(*open);
  // Unless the refusal is final, the file is opened by its handle when it is used (reopen), after RECLAIM_COMPLETE.
  if (retry == Retry::never || undecodable) open->lost = done.error();
  // Nor must it be reclaimed after another restart, since the server does not have it now (8.4.3).
  open->reclaimable = false;
  co_return Status();
}

async::Task<Status> OpenRecovery::renew(std::shared_ptr<Open> open) {
  nfsstat4 status = NFS4_OK;
  co_return co_await claim(open, Claim::anew, around_.calls.default_deadline(), status);
}

/// OPEN by file handle: CLAIM_PREVIOUS in the grace period, else CLAIM_FH (RFC 8881 18.16), or CLAIM_NULL, and a look
/// whether that led to the file. `status`: what the server said to it, NFS4_OK also where there was no answer.
async::Task<Status> OpenRecovery::claim(std::shared_ptr<Open> open, Claim how, async::TimePoint deadline,
                                        nfsstat4& status) {
  Calls& calls = around_.calls;
  const Openings::Guard opening(around_.openings);
  // Anew only for what is needed: the right to the rest may be gone.
  const std::uint32_t asked = how == Claim::anew && open->needed != 0 ? open->needed : open->access;
  const bool by_name = how == Claim::anew && !calls.has_sessions();
  if (by_name && !open->place) {
    status = NFS4ERR_STALE;
    co_return status_error(status, "OPEN", open->path);
  }
  const nfs_fh4 at = by_name ? open->place->directory : open->file;
  Compound compound = calls.begin_on(at, "OPEN", open->caller);
  compound.by(open->owner);
  compound.add<op::OPEN>(how == Claim::reclaim
                             ? open_previous(calls, *open)
                             : open_again(calls, *open, asked, around_.delegations.wanted_for(asked)));
  if (by_name) compound.add<op::GETFH>();
  auto reply = co_await call_for(how, calls, std::move(compound), deadline);
  if (!reply) co_return reply.error();
  OPEN4res res;
  GETFH4res found;
  if (!reply->take<op::PUTFH>() || !reply->take<op::OPEN>(res) ||
      (by_name && !reply->take<op::GETFH>(found))) {
    status = reply->failed_status();
    co_return calls.error_of(*reply, "OPEN", open->path);
  }
  OPEN4resok& ok = *res.get<NFS4_OK>();
  const nfs_fh4 file = by_name ? found.get<NFS4_OK>()->object : open->file;
  if (!calls.has_sessions()) {
    auto settled = co_await calls.settle_owner(*reply, ok, file, open->caller);
    if (is_repeated_answer(settled)) co_return co_await claim(open, how, deadline, status);
    if (!settled) co_return settled;
  }
  if (file != open->file) {
    around_.leftovers.close_beside(file, ok.stateid, open->owner);
    around_.delegations.return_stray(file, ok.delegation);
    status = NFS4ERR_STALE;
    co_return status_error(status, "OPEN", open->path);
  }
  if (!open->held) {
    // Closed while it was asked for: nobody else would give back what has just been had.
    around_.leftovers.close_beside(open->file, ok.stateid, open->owner);
    around_.delegations.return_stray(open->file, ok.delegation);
    if (how == Claim::reclaim) co_return Status();
    co_return closed_meanwhile(open->path);
  }
  if (opening.is_over(ok.stateid, *reply)) {
    if (reply->epoch() == calls.epoch()) around_.delegations.take(*open, ok.delegation);
    co_return co_await claim(open, how, deadline, status);
  }
  const bool another = ok.stateid.other != open->stateid.other;
  take(*open, ok, asked, how);
  if (!another || how == Claim::reclaim) co_return Status();
  Status locked;
  if (around_.claims_expired_locks) locked = co_await around_.locks.claim(open, Claim::anew, deadline);
  if (!around_.claims_expired_locks || !locked) around_.locks.lose(*open);
  co_return locked;
}

/// What an OPEN for `asked` brought.
void OpenRecovery::take(Open& open, const OPEN4resok& ok, std::uint32_t asked, Claim how) {
  open.opened(ok.stateid, asked);
  const auto* const write = ok.delegation.get<OPEN_DELEGATE_WRITE>();
  if (how == Claim::reclaim && (write != nullptr || (open.access & OPEN4_SHARE_ACCESS_WRITE) != 0)) {
    // Data behind close(2) depends on this stateid now: no other client can have changed the file in the grace period. With
    // the stateid of an open for reading the server would refuse the data (NFS4ERR_OPENMODE).
    open.record->deferred.reclaimed(write != nullptr ? write->stateid : open.stateid, write != nullptr,
                                    around_.calls.epoch());
  }
  // A delegation from before is gone unless this brought it back.
  if (how == Claim::reclaim || open.epoch != around_.calls.epoch()) {
    if (Delegations::stateid_in(ok.delegation) != nullptr) {
      around_.delegations.end(open);
    } else {
      around_.delegations.end_of_before(open);
    }
  }
  around_.delegations.take(open, ok.delegation);
  open.epoch = around_.calls.epoch();
  open.reclaimable = true;
}

async::Task<Status> OpenRecovery::reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                                         async::TimePoint deadline) {
  Open& open = *held;
  if (why == NFS4ERR_STALE_CLIENTID) around_.calls.start_recovery("the server forgot this client");
  bool in_time = co_await around_.calls.ready(deadline);
  if (in_time) in_time = co_await async::until(reopened_, deadline, [&open] { return !open.reopening; });
  if (!in_time) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, "OPEN", open.path,
                    "the file could not be opened again in time");
  }
  if (open.lost) co_return *open.lost;
  // What was read ahead of a file may be under way when it is closed.
  if (!open.held) co_return closed_meanwhile(open.path);
  if (open.stateid != used) co_return Status();
  const async::Flagged reopening(open.reopening, reopened_);
  nfsstat4 status = NFS4_OK;
  Status done;
  for (Retries retries(around_.calls.loop(), deadline);;) {
    status = NFS4_OK;
    done = co_await claim(held, Claim::anew, deadline, status);
    // Calls::call() itself waits where the server asks to wait.
    if (done || retry_of(status) != Retry::some_times) break;
    const bool again = co_await retries.again(status);
    if (!again) break;
  }
  const Retry retry = retry_of(status);
  if (Calls::is_revoked(why) && (!done || open.stateid.other != used.other))
    around_.leftovers.free_beside(used);
  // While this OPEN was under way another OPEN, or an OPEN_DOWNGRADE, got a newer stateid. The file is open under that one,
  // although in NFSv4.0 this OPEN may have found another file at the name. It does not help if it gives less than is needed:
  // calls would be refused with OPENMODE.
  const bool renewed = open.held && open.stateid != used && (open.needed & ~open.access) == 0;
  if (!done && status != NFS4_OK && renewed) co_return Status();
  // Else the next use of the file tries again.
  if (!done && (retry == Retry::never || retry == Retry::otherwise)) {
    open.lost = done.error();
    around_.locks.lose(open);
  }
  co_return done;
}

}  // namespace nfsrdma::nfs4
