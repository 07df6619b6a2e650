#include "nfs4/state/file_state.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "async/until.h"
#include "nfs4/compound/retries.h"
#include "nfs4/state/loss_limit.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// How long to wait for the answer to an OPEN that answers to later calls have overtaken.
constexpr async::Clock::duration kOpenOvertakes = std::chrono::milliseconds(200);
/// How long reopen() waits for such answers at most, when many files are being opened.
constexpr async::Clock::duration kOpenOvertakesAtMost = std::chrono::seconds(5);
constexpr int kMostTries = 4;

}  // namespace

FileState::FileState(ClientLease& session, const Whose& whose, const stateid4& stateid)
    : session_(session), changed_(session.loop()) {
  open_.file = whose.file;
  open_.owner = whose.owner;
  open_.caller = whose.caller;
  open_.path = whose.path;
  open_.place = whose.place;
  open_.exact = session_.version().keeps_seqids;
  open_.stateid = stateid;
  open_.epoch = session_.epoch();
  open_.reclaimable = false;  // until opened() finds the state at the server
  session_.opens().hold(state_);
}

FileState::~FileState() {
  if (is_open_) session_.opens().release(open_);
}

async::Task<Status> FileState::call(const char* what, async::FunctionRef<void(Compound&)> add,
                                    async::FunctionRef<bool(CompoundReply&)> take,
                                    std::unique_ptr<SentRequest> sent_request, RangeStateid* range) {
  const async::TimePoint deadline = sent_request ? sent_request->deadline : session_.default_deadline();
  const async::Counted under_way(uses_, changed_);
  bool sent_before = sent_request != nullptr;  // with a stateid that is unknown here
  bool completed = false;                      // see regain_access()
  for (LossLimit losses(session_.loop(), deadline);;) {
    // Recovery opens the file again before it claims its locks. A call that was prepared in between would be
    // sent after the loss of a lock that it needs.
    if (session_.recovering() && !sent_request) (void)co_await session_.ready(deadline);
    if (open_.claiming_locks && !sent_request) {
      if (auto claimed = co_await locks_claimed(what, deadline); !claimed) co_return claimed;
    }
    if (auto error = useless_for(what); error && !sent_request) co_return *std::move(error);
    const stateid4 used = open_.stateid;
    Compound compound = session_.begin_on(open_.file, what, open_.caller);
    add(compound);
    if (range != nullptr) compound.stateid_from(*range);
    if (sent_request && range != nullptr) range->was_another();
    auto reply = co_await session_.call(std::move(compound), deadline, std::move(sent_request));
    if (!reply) co_return reply.error();
    if (reply->take<op::PUTFH>() && take(*reply)) co_return Status();
    const nfsstat4 status = reply->failed_status();
    if (status == NFS4ERR_OPENMODE) {
      const stateid4 sent = std::exchange(sent_before, false) ? stateid4() : used;
      auto regained = co_await regain_access(sent, completed, deadline);
      if (!regained) co_return regained.error();
      if (*regained) continue;
    }
    const bool revoked = range != nullptr && range->may_be_revoked() && CallLayer::is_revoked(status);
    const bool again = co_await losses.again(revoked || CallLayer::is_lost_state(status));
    if (!again) co_return session_.error_of(*reply, what, open_.path);
    if (range != nullptr && range->is_to_be_tried_again(status)) continue;
    if (auto done = co_await reopen(used, status, deadline); !done) co_return done;
    if (range == nullptr) continue;
    lose_lock_of(*range, session_.error_of(*reply, what, open_.path));
    // Opening the file again may have shown that the server restarted, and may have reclaimed the
    // right to send the data.
    if (range->is_discarded()) co_return discarded(status);
  }
}

std::optional<Error> FileState::useless_for(const char* what) const {
  if (!is_open_) return Error(ErrorKind::usage, EBADF, what, open_.path, "the file has been closed");
  if (const Error* error = open_.unusable()) return *error;
  return std::nullopt;
}

async::Task<Status> FileState::locks_claimed(const char* what, async::TimePoint deadline) {
  const bool claimed = co_await session_.lock_recovery().claimed(open_, deadline);
  if (claimed) co_return Status();
  co_return Error(ErrorKind::timeout, ETIMEDOUT, what, open_.path,
                  "the locks on the file were not all reclaimed in time");
}

void FileState::lose_lock_of(const RangeStateid& range, const Error& why) {
  if (const auto owner = range.lost_lock()) session_.lock_recovery().lose(open_, *owner, why);
}

Error FileState::discarded(nfsstat4 why) const {
  return {
      ErrorKind::server,
      EIO,
      why,
      "WRITE",
      open_.path,
      "the write delegation was lost before data that was written and closed had reached the server; another "
      "client may have changed the file since, so the data is discarded"};
}

// ---- OPEN, and who has the file open ----

void FileState::opened(const OPEN4resok& ok, std::uint32_t access, const Openings::Guard& guard,
                       const CompoundReply& reply) {
  if (guard.is_over(ok.stateid, reply)) {
    if (reply.epoch() == session_.epoch()) session_.delegations().take(open_, ok.delegation);
    return;
  }
  if (ok.stateid.other != open_.stateid.other) {
    // The server had lost the earlier state, or has closed it already.
    session_.lock_recovery().lose(open_);
    open_.lost.reset();
  }
  open_.opened(ok.stateid, access);
  open_.epoch = session_.epoch();
  open_.reclaimable = true;
  open_.notifies_locks = (ok.rflags & OPEN4_RESULT_MAY_NOTIFY_LOCK) != 0;
  session_.delegations().take(open_, ok.delegation);
}

void FileState::count_in(std::uint32_t access) {
  ++counts_[access];
  open_.needed = needed();
  changed_.notify_all();
}

void FileState::count_out(std::uint32_t access) {
  --counts_[access];
  open_.needed = needed();
}

std::uint32_t FileState::needed() const {
  std::uint32_t out = 0;
  for (std::uint32_t access = 1; access <= OPEN4_SHARE_ACCESS_BOTH; ++access) {
    if (counts_[access] != 0) out |= access;
  }
  return out;
}

bool FileState::is_last_writer(std::uint32_t access) const {
  return (access & OPEN4_SHARE_ACCESS_WRITE) != 0 &&
         counts_[OPEN4_SHARE_ACCESS_WRITE] + counts_[OPEN4_SHARE_ACCESS_BOTH] == 1;
}

async::Soon<Status> FileState::complete() {
  if (is_complete()) return Status();
  return complete_now();
}

async::Task<Status> FileState::complete_now() {
  (void)co_await async::until(changed_, session_.default_deadline(),
                              [this] { return is_complete() || !access_changing_; });
  if (is_complete()) co_return Status();
  // Until this OPEN is answered, calls that need more access than the stateid has now are refused with
  // OPENMODE, and wait for its end as they do for that of an OPEN_DOWNGRADE.
  std::optional<async::Flagged> completing;
  if (!access_changing_) completing.emplace(access_changing_, changed_);
  co_return co_await session_.open_recovery().renew(state_);
}

// ---- giving it back ----

async::Soon<bool> FileState::settled(async::TimePoint deadline) {
  if (changing_) session_.close_batch().hurry();
  return async::until(changed_, deadline, [this] { return !changing_; });
}

/// Whether the stateid is old because an OPEN was executed first; its answer will bring the present
/// one (RFC 8881 9.10).
bool FileState::is_overtaken(const stateid4& used, nfsstat4 status) const {
  return status == NFS4ERR_OLD_STATEID && open_.stateid == used && !session_.openings().empty();
}

/// Called when CLOSE or OPEN_DOWNGRADE was refused for its stateid. Returns whether to send it again, with
/// the present stateid, which is put into `used`. Returns false if there is nothing left to give back.
async::Task<bool> FileState::look_again(stateid4& used, nfsstat4 status, int tries) {
  if (is_overtaken(used, status)) {
    (void)co_await changed_.wait_until(session_.loop().now() + kOpenOvertakes);
  }
  const bool same = open_.stateid == used;
  used = open_.stateid;
  if (same) used = session_.to_keep(used);  // the state as it is, whatever its seqid
  co_return (!same || status == NFS4ERR_OLD_STATEID) && tries < kMostTries;
}

async::Task<Status> FileState::reopen(stateid4 used, nfsstat4 why, async::TimePoint deadline) {
  // In NFSv4.0 the server may execute an OPEN before a call that was sent earlier. Opening the file again by
  // its name would find another file, if the name was replaced meanwhile. So in NFSv4.0 the call waits for
  // the end of every OPEN that is under way now, which may take until there is another connection. With
  // sessions the file is opened by its handle, and a longer wait would gain nothing.
  const bool by_name = !session_.version().opens_by_handle;
  const std::uint64_t begun = session_.openings().now();
  const auto latest = by_name ? deadline : std::min(deadline, session_.loop().now() + kOpenOvertakesAtMost);
  const auto is_opened = [&] {
    return is_overtaken(used, why) && !(by_name && session_.openings().have_ended(begun));
  };
  // An OPEN_DOWNGRADE that is under way may have overtaken the call as well. Its answer brings the newer
  // stateid, so the open is as good as before, and another OPEN would only be one more that has to be closed.
  const auto is_downgraded = [&] {
    return why == NFS4ERR_OLD_STATEID && open_.stateid == used && access_changing_;
  };
  while ((is_opened() || is_downgraded()) && session_.loop().now() < latest)
    (void)co_await changed_.wait_until(session_.loop().now() + kOpenOvertakes);
  co_return co_await session_.open_recovery().reopen(state_, used, why, deadline);
}

async::Task<Result<bool>> FileState::regain_access(stateid4 used, bool& completed,
                                                   async::TimePoint deadline) {
  // An OPEN_DOWNGRADE was executed after the OPEN for this call. The task that sent it opens the file again.
  if (access_changing_) co_return co_await changed_.wait_until(deadline);
  // The OPEN for this call was answered before the refusal arrived, so the stateid is a newer one by now.
  if (open_.stateid != used) co_return true;
  if (completed || (needed() & ~open_.access) == 0) co_return false;
  // The server has lost the state, and the file was opened again for a caller that needed less access. An
  // attempt to get the rest of the access may have failed, for example because the name was just changing.
  completed = true;
  if (auto done = co_await complete(); !done) co_return done.error();
  co_return true;
}

/// Called when the server has closed a state that an OPEN before the CLOSE had already updated. The server
/// should have answered OLD_STATEID (RFC 8881 8.2.2; Ganesha 4 closes the state). If this OPEN is refused,
/// every use of the file returns its error.
async::Task<void> FileState::open_once_more() {
  session_.lock_recovery().lose(open_);
  open_.access = needed();
  (void)co_await reopen(open_.stateid, NFS4ERR_BAD_STATEID, session_.default_deadline());
}

void FileState::is_closed() {
  // A delegation may have come while CLOSE was under way, with an OPEN that the server executed first.
  session_.delegations().leave(open_);
  session_.opens().release(open_);
  is_open_ = false;
}

async::Task<Status> FileState::close_state() {
  auto done = co_await close_once();
  if (!done && is_open_ && needed() == 0) is_closed();
  co_return done;
}

/// Closes by a COMPOUND of its own, and returns the server's answer to CLOSE.
async::Task<Result<std::optional<nfsstat4>>> FileState::close_alone(stateid4 used,
                                                                    async::TimePoint deadline) {
  Compound compound = session_.begin_on(open_.file, "CLOSE", open_.caller);
  compound.by(open_.owner);
  compound.add<op::CLOSE>({0, used});
  // DELEGRETURN comes last: what the server says to it does not keep the file open.
  const auto returned = session_.delegations().return_with_close(open_);
  if (returned) compound.add<op::DELEGRETURN>({session_.to_keep(*returned)});
  auto reply = co_await session_.call(std::move(compound), deadline);
  const bool closed = reply && reply->take<op::PUTFH>() && reply->take<op::CLOSE>();
  if (returned) {
    const bool gone = closed && reply->take<op::DELEGRETURN>();
    session_.delegations().returned_with_close(open_, *returned, gone);
  }
  if (!reply) co_return reply.error();
  if (closed) co_return std::optional(NFS4_OK);
  const nfsstat4 status = reply->failed_status();
  if (status == NFS4_OK) co_return session_.error_of(*reply, "CLOSE", open_.path);
  co_return std::optional(status);
}

/// Closes by the CloseBatch. Returns none if the file was opened again before the CLOSE was sent.
async::Task<Result<std::optional<nfsstat4>>> FileState::close_with_others(stateid4 used) {
  bool gone = false;
  std::optional<stateid4> returned;
  // The client that wants the delegation back may want the file closed as well: Linux runs no program that
  // is open for writing.
  const bool urgent = open_.delegation() && open_.delegation()->recalled;
  CloseBatch::Closing closing{open_.file, used, open_.caller, urgent, {}, {}, {}};
  closing.wanted = [this] { return needed() == 0 && is_open_; };
  closing.delegation = [this, &returned] {
    Delegations& delegations = session_.delegations();
    const auto earlier = std::exchange(returned, delegations.return_with_close(open_));
    // The CLOSE is sent once more, and the server has granted another delegation since it was sent first.
    const bool replaced = earlier && (!returned || returned->other != earlier->other);
    if (replaced) delegations.returned_with_close(open_, *earlier, false);
    return returned;
  };
  closing.on_returned = [&gone] { gone = true; };
  auto answer = co_await session_.close_batch().close(std::move(closing));
  if (returned) session_.delegations().returned_with_close(open_, *returned, gone);
  co_return answer;
}

async::Task<Status> FileState::close_once() {
  const async::TimePoint deadline = session_.default_deadline();
  stateid4 used = open_.stateid;
  Retries retries(session_.loop(), deadline);
  for (int looked = 0;;) {
    if (open_.lost) co_return *open_.lost;
    if (open_.delegation() && open_.delegation()->writes) {
      co_await session_.delegations().write_out(open_.file);
      if (needed() != 0) co_return Status();
    }
    const bool alone = !session_.version().batches_files || !session_.close_batch().holds();
    auto task = alone ? close_alone(used, deadline) : close_with_others(used);
    auto answer = co_await std::move(task);
    if (!answer) co_return answer.error();
    if (!*answer) co_return Status();
    const nfsstat4 status = **answer;
    if (status == NFS4_OK) {
      session_.openings().closed(used);
      // The stateid is another one by now if the server has executed an OPEN after the CLOSE.
      if (open_.stateid.other != used.other) co_return Status();
      if (needed() == 0) {
        is_closed();
      } else {
        co_await open_once_more();
      }
      co_return Status();
    }
    if (!CallLayer::is_lost_state(status)) {
      const bool passed = co_await retries.again(status);
      if (needed() != 0) co_return Status();
      if (passed) continue;
      if (!passes(retry_of(status))) co_return status_error(status, "CLOSE", open_.path);
      // A program could not act upon this: the data is safe, or its error is known, by now. Linux's client
      // does not report it, either.
      is_closed();
      session_.leftovers().close_in_background(open_.file, used, open_.owner);
      co_return Status();
    }
    const bool again = co_await look_again(used, status, looked++);
    if (needed() != 0) co_return Status();
    if (again) continue;
    if (CallLayer::is_revoked(status)) session_.leftovers().free_in_background(used);
    session_.openings().closed(used);
    is_closed();
    co_return Status();
  }
}

async::Task<Result<bool>> FileState::downgrade(std::uint32_t access) {
  // Under a write delegation no other client is affected by the access that the file is open for, and the
  // next open(2) here can use it.
  if ((open_.access & ~access) == 0 || open_.lost || open_.writes_delegated()) co_return false;
  const bool in_time =
      co_await async::until(changed_, session_.default_deadline(), [this] { return !access_changing_; });
  // The file may have been opened meanwhile, so the caller looks again at what is needed. If the wait takes
  // too long, CLOSE gives the access back.
  if (!in_time) co_return false;
  if (needed() != access) co_return true;
  auto done = co_await downgrade_once(access);
  // Linux gives back only access that an OPEN asked for separately, which is not so for what recovery opened.
  // Then the server keeps more than is needed until CLOSE. A server in trouble keeps it, too, and a program
  // that closes the file could not act upon that.
  if (!done && (done.error().status() == NFS4ERR_INVAL || retry_of(done.error()) == Retry::some_times))
    co_return false;
  if (!done) co_return done.error();
  // The access may be needed again by an OPEN that the server executed before, and whose
  // answer has come since.
  if (auto completed = co_await complete(); !completed) co_return completed.error();
  co_return true;
}

async::Task<Status> FileState::downgrade_once(std::uint32_t access) {
  const async::Flagged downgrading(access_changing_, changed_);
  const async::TimePoint deadline = session_.default_deadline();
  stateid4 used = open_.stateid;
  for (int tries = 0;; ++tries) {
    Compound compound = session_.begin_on(open_.file, "OPEN_DOWNGRADE", open_.caller);
    compound.by(open_.owner);
    compound.add<op::OPEN_DOWNGRADE>({used, 0, access, OPEN4_SHARE_DENY_NONE});
    auto reply = co_await session_.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    OPEN_DOWNGRADE4res res;
    if (reply->take<op::PUTFH>() && reply->take<op::OPEN_DOWNGRADE>(res)) {
      open_.downgraded(res.get<NFS4_OK>()->open_stateid, access);
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    if (!CallLayer::is_lost_state(status)) co_return session_.error_of(*reply, "OPEN_DOWNGRADE", open_.path);
    const bool again = co_await look_again(used, status, tries);
    // If the file was opened meanwhile, the caller judges anew.
    if (!again || needed() != access) co_return Status();
  }
}

}  // namespace nfsrdma::nfs4
