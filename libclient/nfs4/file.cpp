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

/// How long the Reply to an OPEN may be overtaken by those to later calls.
constexpr async::Clock::duration kOpenOvertakes = std::chrono::milliseconds(200);
constexpr int kMostTries = 4;

// GETATTR behind what changed the file, for whoever wants to know.
void add_after(Compound& compound, const writing::After* after) {
  if (after != nullptr) add_getattr(compound, public_attributes());
}
bool take_after(CompoundReply& reply, writing::After* after) {
  if (after == nullptr) return true;
  std::optional<WireAttributes> attributes;
  const bool sound = take_getattr(reply, public_attributes(), attributes);
  *after = to_public(attributes);
  return sound;
}

}  // namespace

verifier4 unique_verifier(async::Loop& loop) {
  return std::bit_cast<verifier4>(loop.random<std::uint64_t>());
}

OpenFile::OpenFile(Session& session)
    : session_(session), state_changed_(session.loop()), unstable_(session.loop(), *this) {}

OpenFile::~OpenFile() {
  if (is_open_) session_.opens().release(open_);
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

async::Task<Result<writing::Writer::Written>> OpenFile::write_piece(std::span<const std::byte> data,
                                                                    std::uint64_t offset, writing::How how,
                                                                    After* after) {
  Written out;
  auto done = co_await on_file(
      "WRITE",
      [&](Compound& compound) {
        compound.add<op::WRITE>(
            {open_.current(), offset, static_cast<stable_how4>(how), xdr::DdpOpaque<>{data}});
        add_after(compound, after);
      },
      [&](CompoundReply& reply) {
        WRITE4res res;
        if (!reply.take<op::WRITE>(res)) return false;
        const WRITE4resok& ok = *res.get<NFS4_OK>();
        out.count = ok.count;
        out.stable = ok.committed != UNSTABLE4;
        out.verifier = ok.writeverf;
        return take_after(reply, after) && reply.finish();
      });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<verifier4>> OpenFile::commit_file(After* after) {
  verifier4 verifier{};
  auto done = co_await on_file(
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
  if (!done) co_return done.error();
  co_return verifier;
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
      "SETATTR",
      [&](Compound& compound) {
        compound.add<op::SETATTR>({open_.current(), values});
      },
      [](CompoundReply& reply) { return reply.take<op::SETATTR>(); });
  if (done && changes.size) resized(*changes.size);
  co_return done;
}

void OpenFile::resized(std::uint64_t size) {
  unstable_.replaced(size, ~std::uint64_t{0} - size);
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
