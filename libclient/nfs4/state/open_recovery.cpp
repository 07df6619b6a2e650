#include "nfs4/state/open_recovery.h"

#include <cerrno>

#include "nfs4/state/open_arguments.h"

namespace nfsrdma::nfs4 {
namespace {

Error closed_meanwhile(const std::string& path) {
  return {ErrorKind::usage, EBADF, "OPEN", path, "the file has been closed"};
}

/// Whether the open has another state by now than the one that an OPEN was to replace, with the access that is
/// needed.
bool is_replaced(const Open& open, const stateid4& replaced) {
  return open.held && open.stateid != replaced && (open.needed & ~open.access) == 0;
}

}  // namespace

async::Task<Status> OpenRecovery::reclaim_all(async::TimePoint deadline) {
  for (Retries retries(parts_.calls.loop(), deadline);;) {
    nfsstat4 trouble = NFS4_OK;
    auto done = co_await reclaim_each(deadline, retries, trouble);
    if (!done) co_return done;
    const bool again = co_await retries.again(trouble);
    if (!again) co_return Status();
  }
}

/// Makes one pass over all opens that have not been reclaimed. `trouble` is set to the status of a server in
/// trouble that refused some of them for now. The next pass asks for these again.
///
/// The program may close the file and open others while one is reclaimed, so the Open is kept alive for that
/// time, and the registry is read anew for the next one.
async::Task<Status> OpenRecovery::reclaim_each(async::TimePoint deadline, const Retries& retries,
                                               nfsstat4& trouble) {
  const auto& all = parts_.opens.all();
  for (auto at = all.begin(); at != all.end();) {
    const std::shared_ptr<Open> open = at->second;
    const std::uint64_t number = at->first;
    if (!open->lost && open->reclaimable) {
      Status done;
      if (open->epoch != parts_.calls.epoch()) {
        done = co_await reclaim(open, deadline, retries, trouble);
      } else if (open->claiming_locks) {
        // The session was lost while the locks of this open were being claimed.
        done = co_await parts_.locks.claim(open, Claim::reclaim, deadline);
      }
      if (!done) co_return done;
    }
    at = all.upper_bound(number);
  }
  co_return Status();
}

async::Task<Status> OpenRecovery::reclaim(std::shared_ptr<Open> open, async::TimePoint deadline,
                                          const Retries& retries, nfsstat4& trouble) {
  // Ends a claim of locks under the previous client id. Nothing else would end it if the open cannot be
  // recovered.
  parts_.locks.end_claim(*open);
  if (open->parked) {
    // No program has a parked file open, so it is not reclaimed.
    open->lost = Error(ErrorKind::server, EIO, "OPEN", open->path, "the server has restarted");
    parts_.delegations.end(*open);
    co_return Status();
  }
  nfsstat4 status = NFS4_OK;
  auto done = co_await claim(open, Claim::reclaim, open->stateid, deadline, status);
  if (done) co_return co_await parts_.locks.claim(open, Claim::reclaim, deadline);
  const bool undecodable = done.error().kind() == ErrorKind::protocol;
  if (status == NFS4_OK && !undecodable) co_return done;
  const Retry retry = retry_of(status);
  if (retry == Retry::later || retry == Retry::with_new_session) co_return done;
  if (retry == Retry::some_times && retries.may_try(status)) {
    trouble = status;
    co_return Status();
  }
  parts_.delegations.end_of_before(*open);
  // Unless the refusal is final, reopen() opens the file by its handle when it is used, after
  // RECLAIM_COMPLETE.
  if (retry == Retry::never || undecodable) open->lost = done.error();
  // The open must not be reclaimed after another restart either, because the server does not have it now
  // (8.4.3).
  open->reclaimable = false;
  co_return Status();
}

async::Task<Status> OpenRecovery::renew(std::shared_ptr<Open> open) {
  nfsstat4 status = NFS4_OK;
  co_return co_await claim(open, Claim::anew, open->stateid, parts_.calls.default_deadline(), status);
}

/// Sends an OPEN by file handle: CLAIM_PREVIOUS in the grace period, else CLAIM_FH (RFC 8881 18.16). In
/// NFSv4.0 the latter is CLAIM_NULL, followed by a check that the name led to the file; if it did not and this
/// client has renamed the file, the new name is taken. `replaced`: the stateid that Claim::anew is to replace;
/// once it is replaced nothing more is sent. `status`: the server's refusal; NFS4_OK also if there was no
/// answer.
async::Task<Status> OpenRecovery::claim(std::shared_ptr<Open> open, Claim how, stateid4 replaced,
                                        async::TimePoint deadline, nfsstat4& status) {
  const bool by_name = how == Claim::anew && !parts_.calls.version().opens_by_handle;
  for (;;) {
    status = NFS4_OK;
    const async::Rarely<engine::Place> name = open->place;
    const Status done = co_await claim_once(open, how, replaced, deadline, status);
    if (done || status == NFS4_OK || !by_name || !name) co_return done;
    const bool renamed = co_await was_renamed(open, *name, deadline);
    if (!renamed) co_return done;
  }
}

/// Does what claim() does, under one name: the one that is known now.
async::Task<Status> OpenRecovery::claim_once(std::shared_ptr<Open> open, Claim how, stateid4 replaced,
                                             async::TimePoint deadline, nfsstat4& status) {
  CallLayer& calls = parts_.calls;
  const auto is_needless = [open, how, replaced] {
    return how == Claim::anew && is_replaced(*open, replaced);
  };
  if (is_needless()) co_return Status();
  const Openings::Guard opening(parts_.openings);
  // Claim::anew asks only for the access that is needed, because the right to the rest may be gone.
  const std::uint32_t asked = how == Claim::anew && open->needed != 0 ? open->needed : open->access;
  const bool by_name = how == Claim::anew && !calls.version().opens_by_handle;
  if (by_name && !open->place) {
    status = NFS4ERR_STALE;
    co_return status_error(status, "OPEN", open->path);
  }
  const nfs_fh4 at = by_name ? open->place->directory : open->file;
  Compound compound = calls.begin_on(at, "OPEN", open->caller);
  compound.by(open->owner);
  compound.add<op::OPEN>(how == Claim::reclaim
                             ? open_previous(calls, *open)
                             : open_again(calls, *open, asked, parts_.delegations.wanted_for(asked)));
  if (by_name) compound.add<op::GETFH>();
  compound.only_while([is_needless] { return !is_needless(); });
  auto reply = co_await call_for(how, calls, std::move(compound), deadline);
  if (!reply && is_needless()) co_return Status();
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
  if (calls.version().keeps_seqids) {
    auto settled = co_await calls.settle_owner(*reply, ok, file, open->caller);
    if (is_repeated_answer(settled)) co_return co_await claim_once(open, how, replaced, deadline, status);
    if (!settled) co_return settled;
  }
  if (file != open->file) {
    give_back(file, ok, asked, open->owner);
    status = NFS4ERR_STALE;
    co_return status_error(status, "OPEN", open->path);
  }
  if (!open->held) {
    // The file was closed while the OPEN was under way, and no other code would give back the state that it
    // returned.
    give_back(open->file, ok, asked, open->owner);
    if (how == Claim::reclaim) co_return Status();
    co_return closed_meanwhile(open->path);
  }
  if (opening.is_over(ok.stateid, *reply)) {
    if (reply->epoch() == calls.epoch()) parts_.delegations.take(*open, ok.delegation);
    co_return co_await claim_once(open, how, replaced, deadline, status);
  }
  const bool another = ok.stateid.other != open->stateid.other;
  take(*open, ok, asked, how);
  if (!another || how == Claim::reclaim) co_return Status();
  Status locked;
  if (parts_.claims_expired_locks) locked = co_await parts_.locks.claim(open, Claim::anew, deadline);
  if (!parts_.claims_expired_locks || !locked) parts_.locks.lose(*open);
  co_return locked;
}

/// Gives back the state that an OPEN for `asked` returned of a file that it was not sent for. If a registered
/// open has that state, the OPEN has only made its stateid a later one.
void OpenRecovery::give_back(const nfs_fh4& file, const OPEN4resok& ok, std::uint32_t asked,
                             std::uint64_t owner) {
  if (Open* const other = parts_.opens.with_state(file, ok.stateid)) {
    other->opened(ok.stateid, asked);
  } else {
    parts_.leftovers.close_in_background(file, ok.stateid, owner);
  }
  parts_.delegations.return_stray(file, ok.delegation);
}

/// Stores the state that an OPEN for `asked` returned.
void OpenRecovery::take(Open& open, const OPEN4resok& ok, std::uint32_t asked, Claim how) {
  open.opened(ok.stateid, asked);
  const auto* const write = ok.delegation.get<OPEN_DELEGATE_WRITE>();
  if (how == Claim::reclaim && (write != nullptr || (open.access & OPEN4_SHARE_ACCESS_WRITE) != 0)) {
    // Data behind close(2) depends on this stateid now: no other client can have changed the file in the
    // grace period. Under the stateid of an open for reading the server would refuse the data
    // (NFS4ERR_OPENMODE).
    open.record->deferred.reclaimed(write != nullptr ? write->stateid : open.stateid, write != nullptr,
                                    parts_.calls.epoch());
  }
  // A delegation from before is gone unless this OPEN returned it.
  if (how == Claim::reclaim || open.epoch != parts_.calls.epoch()) {
    if (Delegations::stateid_in(ok.delegation) != nullptr) {
      parts_.delegations.end(open);
    } else {
      parts_.delegations.end_of_before(open);
    }
  }
  parts_.delegations.take(open, ok.delegation);
  open.epoch = parts_.calls.epoch();
  open.reclaimable = true;
}

void OpenRecovery::Renaming::made(const engine::Place& from, const engine::Place& to) {
  if (!file_) return;
  for (Open* const open : file_->opens) {
    if (open->place && open->place->is_same(from)) open->place = to;
  }
}

/// Returns whether this client has renamed the file since it was opened by the name `used`. Waits for a RENAME that is under
/// way, because the server may have made it already.
async::Task<bool> OpenRecovery::was_renamed(std::shared_ptr<Open> held, engine::Place used,
                                            async::TimePoint deadline) {
  const auto record = held->record;
  const bool in_time = co_await async::until(reopened_, deadline, [&record] { return record->renames == 0; });
  co_return in_time && held->place && !held->place->is_same(used);
}

async::Task<Status> OpenRecovery::reopen(std::shared_ptr<Open> held, stateid4 used, nfsstat4 why,
                                         async::TimePoint deadline) {
  Open& open = *held;
  if (why == NFS4ERR_STALE_CLIENTID) parts_.calls.start_recovery("the server forgot this client");
  bool in_time = co_await parts_.calls.ready(deadline);
  if (in_time) in_time = co_await async::until(reopened_, deadline, [&open] { return !open.reopening; });
  if (!in_time) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, "OPEN", open.path,
                    "the file could not be opened again in time");
  }
  if (open.lost) co_return *open.lost;
  // READs that were sent ahead may be under way when the file is closed.
  if (!open.held) co_return closed_meanwhile(open.path);
  if (open.stateid != used) co_return Status();
  const async::Flagged reopening(open.reopening, reopened_);
  nfsstat4 status = NFS4_OK;
  Status done;
  for (Retries retries(parts_.calls.loop(), deadline);;) {
    done = co_await claim(held, Claim::anew, used, deadline, status);
    // If the server asks to wait, CallLayer::call() itself has waited.
    if (done || retry_of(status) != Retry::some_times) break;
    const bool again = co_await retries.again(status);
    if (!again) break;
  }
  const Retry retry = retry_of(status);
  if (CallLayer::is_revoked(why) && (!done || open.stateid.other != used.other))
    parts_.leftovers.free_in_background(used);
  // While this OPEN was under way, another OPEN or an OPEN_DOWNGRADE may have got a newer stateid. The file
  // is open under that one, although in NFSv4.0 this OPEN may have found another file at the name. The newer
  // state does not help if it gives less access than is needed, because calls would be refused with OPENMODE.
  if (!done && status != NFS4_OK && is_replaced(open, used)) co_return Status();
  // Unless the refusal is final, the next use of the file tries again.
  if (!done && (retry == Retry::never || retry == Retry::otherwise)) {
    open.lost = done.error();
    parts_.locks.lose(open);
  }
  co_return done;
}

}  // namespace nfsrdma::nfs4
