#include "nfs4/file.h"

#include <bit>
#include <cerrno>
#include <cstdlib>

#include "async/buggify.h"
#include "async/under_way.h"
#include "nfs4/convert.h"
#include "nfs4/objects.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

constexpr std::size_t kCommitAt = 32U << 20;
constexpr std::size_t kMostUncommitted = 96U << 20;
/// Of the files of one OpenFiles: how much they may have together, when a COMMIT goes out for that reason,
/// and what of one file is worth it.
constexpr std::size_t kMostOfAll = 64U << 20, kCommitAllAt = 48U << 20, kWorthCommit = 1U << 20;
/// How long the Reply to an OPEN may be overtaken by those to later calls.
constexpr async::Clock::duration kOpenOvertakes = std::chrono::milliseconds(200);
constexpr int kMostTries = 4;

// GETATTR behind what changed the file, for whoever wants to know.
void add_after(Compound& compound, const OpenFile::After* after) {
  if (after != nullptr) add_getattr(compound, public_attributes());
}
bool take_after(CompoundReply& reply, OpenFile::After* after) {
  if (after == nullptr) return true;
  after->reset();
  return take_getattr(reply, public_attributes(), *after);
}

}  // namespace

verifier4 unique_verifier(async::Loop& loop) {
  return std::bit_cast<verifier4>(loop.random<std::uint64_t>());
}

OpenFile::OpenFile(Session& session)
    : session_(session),
      state_changed_(session.loop()),
      uncommitted_(session.loop().memory()),
      committed_(session.loop()),
      written_(session.loop()) {}

OpenFile::~OpenFile() {
  session_.loop().drop(commit_task_);
  if (is_open_) session_.opens().release(open_);
  if (siblings_) std::erase(*siblings_, this);
}

async::Task<Result<std::size_t>> OpenFile::read(std::span<std::byte> data, std::uint64_t offset) {
  std::size_t total = 0;
  while (total < data.size()) {
    std::size_t count = 0;
    bool eof = false;
    const auto rest = data.subspan(total, std::min(data.size() - total, session_.most_read()));
    auto done = co_await on_file(
        "READ", [&](Compound& compound) { compound.read(open_.current(), offset + total, rest); },
        [&](CompoundReply& reply) {
          READ4res res;
          if (!reply.take<op::READ>(res) || !reply.finish()) return false;
          count = res.get<NFS4_OK>()->data.data.size();
          eof = res.get<NFS4_OK>()->eof;
          return true;
        });
    // The session that it was made for has been replaced by one with smaller limits.
    if (!done && rest.size() > session_.most_read()) continue;
    if (!done) co_return done.error();
    total += count;
    if (eof) break;
    if (count == 0) {
      co_return Error(ErrorKind::protocol, EIO, "READ", open_.path,
                      "the server gives no data and no end of the file; please report this");
    }
  }
  co_return total;
}

async::Task<Result<std::size_t>> OpenFile::write_once(std::span<const std::byte> data, std::uint64_t offset,
                                                      stable_how4 stable, After* after,
                                                      async::Memory memory) {
  WRITE4resok ok;
  auto done = co_await on_file(
      "WRITE",
      [&](Compound& compound) {
        compound.add<op::WRITE>({open_.current(), offset, stable, xdr::DdpOpaque<>{data}});
        add_after(compound, after);
      },
      [&](CompoundReply& reply) {
        WRITE4res res;
        if (!reply.take<op::WRITE>(res)) return false;
        ok = *res.get<NFS4_OK>();
        return take_after(reply, after) && reply.finish();
      });
  if (!done) co_return done.error();
  if (ok.count == 0 || ok.count > data.size()) {
    co_return Error(ErrorKind::protocol, EIO, "WRITE", open_.path,
                    "the server says it wrote " + std::to_string(ok.count) + " of " +
                        std::to_string(data.size()) + " bytes; please report this");
  }
  if (siblings_) {
    for (OpenFile* other : *siblings_) {
      if (other != this) other->uncommitted_.cover(offset, ok.count);
    }
  }
  if (ok.committed == UNSTABLE4) {
    uncommitted_.add(offset, data.first(ok.count), ok.writeverf, memory);
  } else {
    uncommitted_.cover(offset, ok.count);
  }
  co_return std::size_t{ok.count};
}

async::Task<Result<std::size_t>> OpenFile::write(std::span<const std::byte> data, std::uint64_t offset,
                                                 stable_how4 stable, After* after, async::Memory memory) {
  std::size_t total = 0;
  while (total < data.size()) {
    if (late_error_) co_return *late_error_;
    if (has_too_much()) {
      auto done = co_await make_room();
      if (!done) co_return done.error();
    }
    while (rewriting_) {
      const bool in_time = co_await written_.wait_until(session_.default_deadline());
      if (!in_time) {
        co_return Error(ErrorKind::timeout, ETIMEDOUT, "WRITE", open_.path,
                        "the server does not answer in time");
      }
    }
    const async::Counted under_way(writing_, written_);
    const auto piece = data.subspan(total, std::min(data.size() - total, session_.most_written()));
    const stable_how4 how = has_too_much() ? FILE_SYNC4 : stable;
    auto count = co_await write_once(piece, offset + total, how, after, memory);
    if (!count && piece.size() > session_.most_written()) continue;
    if (!count) co_return count.error();
    total += *count;
    if (commit_is_due() && !committing_) commit_task_ = session_.loop().spawn(commit_beside());
  }
  co_return total;
}

bool OpenFile::has_too_much() const {
  return uncommitted_.bytes() > kMostUncommitted || (siblings_ && uncommitted_.bytes_of_all() > kMostOfAll);
}

bool OpenFile::commit_is_due() const {
  const std::size_t mine = uncommitted_.bytes();
  return mine > kCommitAt || (mine != 0 && async::buggify(session_.loop())) ||
         (mine >= kWorthCommit && uncommitted_.bytes_of_all() > kCommitAllAt);
}

/// Waits while much too much is unstable, and something of it is ours to commit.
async::Task<Status> OpenFile::make_room() {
  while (has_too_much() && !uncommitted_.empty()) {
    if (!committing_) commit_task_ = session_.loop().spawn(commit_beside());
    if (committing_) {
      const bool in_time = co_await committed_.wait_until(session_.default_deadline());
      if (!in_time) {
        co_return Error(ErrorKind::timeout, ETIMEDOUT, "COMMIT", open_.path,
                        "the server does not commit in time");
      }
    }
    if (late_error_) co_return *late_error_;
  }
  co_return Status();
}

/// Whether the error ends it for data that is not stable. One that is not the server's answer does not.
bool OpenFile::gives_up(const Error& error) const {
  return *lost_data_ && error.kind() == ErrorKind::server;
}

void OpenFile::tell_lost(const Error& error) {
  (*lost_data_)(open_.file, error);
}

async::Task<void> OpenFile::commit_beside() {
  const async::Flagged flag(committing_, committed_);
  auto done = co_await commit_once(nullptr);
  if (!done && !gives_up(done.error()) && !late_error_) late_error_ = done.error();
}

/// One COMMIT of the whole file.
async::Task<Status> OpenFile::commit_state(verifier4& verifier, After* after) {
  return on_file(
      "COMMIT",
      [after](Compound& compound) {
        compound.add<op::COMMIT>({0, 0});
        add_after(compound, after);
      },
      [&verifier, after](CompoundReply& reply) {
        COMMIT4res res;
        if (!reply.take<op::COMMIT>(res)) return false;
        verifier = res.get<NFS4_OK>()->writeverf;
        return take_after(reply, after);
      });
}

/// A COMMIT, and the rewrite of what the server lost.
async::Task<Status> OpenFile::commit_once(After* after) {
  const std::uint64_t number = uncommitted_.last_number();
  verifier4 verifier{};
  auto done = co_await commit_state(verifier, after);
  if (!done) {
    if (gives_up(done.error())) {
      uncommitted_.give_up(number);
      tell_lost(done.error());
    }
    co_return done;
  }
  uncommitted_.committed(number, verifier);
  if (uncommitted_.lost(number, verifier, 0)) co_return co_await rewrite(number, verifier);
  stable_number_ = number;
  co_return Status();
}

/// Writes what was lost again, each piece in place of itself. Callers' WRITEs stand aside: one that is newer
/// than a piece must not reach the server before it.
async::Task<Status> OpenFile::rewrite(std::uint64_t number, verifier4 verifier) {
  const async::Flagged flag(rewriting_, written_);
  const async::TimePoint deadline = session_.default_deadline();
  while (writing_ != 0) {
    const bool in_time = co_await written_.wait_until(deadline);
    if (!in_time) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "WRITE", open_.path,
                      "the server does not answer in time");
    }
  }
  Status done;
  for (auto piece = uncommitted_.lost(number, verifier, 0); piece;
       piece = uncommitted_.lost(number, verifier, piece->offset)) {
    // What is left of it, where the limits have become smaller, is found as the next piece.
    const auto part = piece->bytes.first(std::min(piece->bytes.size(), session_.most_written()));
    auto count = co_await write_once(part, piece->offset, UNSTABLE4, nullptr, piece->memory);
    if (count) continue;
    done = count.error();
    if (!gives_up(count.error())) break;
    uncommitted_.cover(piece->offset, piece->bytes.size());
    tell_lost(count.error());
  }
  co_return done;
}

async::Task<Status> OpenFile::commit(After* after) {
  const async::TimePoint deadline = session_.default_deadline();
  const std::uint64_t number = uncommitted_.last_number();
  for (;;) {
    while (committing_) {
      const bool in_time = co_await committed_.wait_until(deadline);
      if (!in_time) {
        co_return Error(ErrorKind::timeout, ETIMEDOUT, "COMMIT", open_.path,
                        "the server does not commit in time");
      }
    }
    if (late_error_) {
      const Error late = *std::exchange(late_error_, std::nullopt);
      if (!*lost_data_) co_return late;  // else what it was about is there to be tried again
    }
    if (uncommitted_.empty() || stable_number_ >= number) co_return Status();
    const async::Flagged flag(committing_, committed_);
    auto done = co_await commit_once(after);
    if (!done) co_return done;
  }
}

async::Task<Result<WireAttributes>> OpenFile::attributes(bitmap4 wanted) {
  if (known_ && known_->wanted == wanted && open_.delegated() && session_.delegations().good() &&
      known_->delegation == open_.delegation->stateid &&
      known_->modifications == session_.modifications().of(open_.file)) {
    co_return known_->attributes;
  }
  known_.reset();
  WireAttributes attributes;
  bool decoded = true;
  const std::uint64_t before = session_.modifications().of(open_.file);
  auto done = co_await on_file(
      "GETATTR", [&](Compound& compound) { compound.add<op::GETATTR>({wanted}); },
      [&](CompoundReply& reply) {
        GETATTR4res res;
        if (!reply.take<op::GETATTR>(res)) return false;
        decoded = decode_attributes(res.get<NFS4_OK>()->obj_attributes, attributes);
        return true;
      });
  if (!done) co_return done.error();
  if (!decoded) co_return undecodable_attributes(open_.path);
  know(wanted, attributes, before);
  co_return attributes;
}

void OpenFile::know(const bitmap4& wanted, const WireAttributes& attributes, std::uint64_t as_of) {
  if (!open_.delegated() || as_of != session_.modifications().of(open_.file)) return;
  known_.emplace(Known{wanted, open_.delegation->stateid, as_of, attributes});
}

async::Task<Status> OpenFile::set_attributes(SetAttributes changes) {
  // Not captured by value: g++ 12 destroys such captures twice.
  const fattr4 values = encode_changes(changes);
  auto done = co_await on_file(
      "SETATTR", [&](Compound& compound) { compound.add<op::SETATTR>({open_.current(), values}); },
      [](CompoundReply& reply) { return reply.take<op::SETATTR>(); });
  if (done && changes.size) resized(*changes.size);
  co_return done;
}

void OpenFile::resized(std::uint64_t size) {
  replaced(size, ~std::uint64_t{0} - size);
}

/// What is not stable there must not be written again, whoever wrote it.
void OpenFile::replaced(std::uint64_t offset, std::uint64_t length) {
  uncommitted_.cover(offset, length);
  if (!siblings_) return;
  for (OpenFile* other : *siblings_) other->uncommitted_.cover(offset, length);
}

std::uint32_t OpenFile::Sharing::needed() const {
  std::uint32_t out = 0;
  for (std::uint32_t access = 1; access <= OPEN4_SHARE_ACCESS_BOTH; ++access) {
    if (counts[access] != 0) out |= access;
  }
  return out;
}

/// CLOSE or OPEN_DOWNGRADE was refused for its stateid. Whether to ask again, with what is now in `used`:
/// false where there is nothing left to give up.
async::Task<bool> OpenFile::look_again(stateid4& used, nfsstat4 status, int tries) {
  // An OPEN that came first; its Reply tells what there is now (RFC 8881 9.10).
  if (status == NFS4ERR_OLD_STATEID && open_.stateid == used && !session_.openings().empty()) {
    (void)co_await state_changed_.wait_until(session_.loop().now() + kOpenOvertakes);
  }
  const bool same = open_.stateid == used;
  used = open_.stateid;
  if (same) used.seqid = 0;  // whatever it is
  co_return (!same || status == NFS4ERR_OLD_STATEID) && tries < kMostTries;
}

/// The server closed what an OPEN before its CLOSE had already brought up to date, where it should have said
/// OLD_STATEID (RFC 8881 8.2.2; Ganesha 4 does).
/// Where it is refused whoever uses the file hears of it.
async::Task<void> OpenFile::open_once_more() {
  session_.lock_recovery().lose(open_);
  open_.access = sharing_.needed();
  (void)co_await session_.open_recovery().reopen(state_, open_.stateid, NFS4ERR_BAD_STATEID,
                                                 session_.default_deadline());
}

async::Task<bool> OpenFile::settled(async::TimePoint deadline) {
  while (sharing_.changing) {
    const bool in_time = co_await state_changed_.wait_until(deadline);
    if (!in_time) co_return false;
  }
  co_return true;
}

/// CLOSE. The file is still open afterwards where an OPEN of it came first, which OpenFiles may do.
async::Task<Status> OpenFile::give_up_state() {
  const async::TimePoint deadline = session_.default_deadline();
  stateid4 used = open_.stateid;
  for (int tries = 0;; ++tries) {
    if (open_.lost) co_return *open_.lost;
    Compound compound = session_.begin("CLOSE", open_.caller);
    compound.add<op::PUTFH>({open_.file});
    compound.add<op::CLOSE>({0, used});
    // DELEGRETURN comes last: what the server says to it does not keep the file open.
    std::optional<stateid4> returned;
    if (open_.delegation) {
      session_.delegations().about_to_return(open_);
      returned = open_.delegation->stateid;
      compound.add<op::DELEGRETURN>({*returned});
    }
    auto reply = co_await session_.call(std::move(compound), deadline);
    const bool closed = reply && reply->take<op::PUTFH>() && reply->take<op::CLOSE>();
    // It may have been dropped meanwhile: then it does not matter what is said of it. An OPEN that the server
    // executed behind this may have brought another one, which stays.
    const bool gone = closed && returned && reply->take<op::DELEGRETURN>();
    if (open_.delegation && open_.delegation->returning) {
      if (gone) open_.delegation.reset();
      if (!gone) session_.delegations().start_return(open_);
    }
    if (!reply) co_return reply.error();
    if (closed) {
      session_.openings().closed(used);
      // Another one by now: of an OPEN that came behind.
      if (open_.stateid.other != used.other) co_return Status();
      if (sharing_.needed() != 0) {
        co_await open_once_more();
        co_return Status();
      }
      session_.opens().release(open_);
      is_open_ = false;
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    if (!Session::is_lost_state(status)) co_return session_.error_of(*reply, "CLOSE", open_.path);
    const bool again = co_await look_again(used, status, tries);
    if (sharing_.needed() != 0) co_return Status();
    if (again) continue;
    if (Session::is_revoked(status)) session_.leftovers().free_beside(used);
    session_.openings().closed(used);
    session_.opens().release(open_);
    is_open_ = false;
    co_return Status();
  }
}

async::Task<Status> OpenFile::downgrade(std::uint32_t access) {
  const async::TimePoint deadline = session_.default_deadline();
  stateid4 used = open_.stateid;
  for (int tries = 0;; ++tries) {
    Compound compound = session_.begin("OPEN_DOWNGRADE", open_.caller);
    compound.add<op::PUTFH>({open_.file});
    compound.add<op::OPEN_DOWNGRADE>({used, 0, access, OPEN4_SHARE_DENY_NONE});
    auto reply = co_await session_.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    OPEN_DOWNGRADE4res res;
    if (reply->take<op::PUTFH>() && reply->take<op::OPEN_DOWNGRADE>(res)) {
      open_.downgraded(res.get<NFS4_OK>()->open_stateid, access);
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    if (!Session::is_lost_state(status)) co_return session_.error_of(*reply, "OPEN_DOWNGRADE", open_.path);
    const bool again = co_await look_again(used, status, tries);
    // Somebody opened it: to be judged anew.
    if (!again || sharing_.needed() != access) co_return Status();
  }
}

}  // namespace nfsrdma::nfs4
