// How opens and locks that the server has forgotten are recovered, by itself with a scripted server (RFC 8881
// 8.4.2, 9.11). What it comes to in a whole client: stateids_test.cpp, session_test.cpp, locks_test.cpp.
#include "nfs4/state/client_state.h"
#include "nfs4/state/lock_waits.h"
#include "support/scripted_call_layer.h"
#include "wire/nfs4/status.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;
using Way = ScriptedCallLayer::Way;

struct Recovering {
  ScriptedCallLayer calls;
  Lease lease{calls};
  engine::Modifications modifications;
  engine::ServerCounters counters;
  nfs4::ClientState state;
  const ScriptedCallLayer::Last last{calls};
  explicit Recovering(bool claims_expired_locks = false)
      : state(calls, lease, modifications, counters, claims_expired_locks, [](bool) {}) {
    calls.facts_now.client_id = 7;
    calls.facts_now.epoch = 1;
    calls.facts_now.backchannel = true;
  }
  std::shared_ptr<Open> held(unsigned number) {
    auto open = open_of(number, calls);
    state.opens.hold(open);
    return open;
  }
  std::shared_ptr<LockState> lock(Open& open, std::uint64_t owner, std::uint64_t offset = 0) {
    auto& one = open.locks[owner];
    if (!one) one = std::make_shared<LockState>(calls.loop());
    one->stateid = stateid_of(static_cast<unsigned>(200 + owner));
    one->held.lock({offset, 10}, true);
    return one;
  }
  async::Task<Status> reclaiming() { return state.open_recovery.reclaim_all(deadline()); }
  async::Task<Status> reopening(const std::shared_ptr<Open>& open, nfsstat4 why = NFS4ERR_BAD_STATEID) {
    return state.open_recovery.reopen(open, open->stateid, why, deadline());
  }
  async::TimePoint deadline() { return calls.loop().now() + 60s; }
  void restart() {
    ++calls.facts_now.epoch;
    calls.facts_now.client_id = 8;
  }
  void opened(unsigned stateid, const open_delegation4& delegation = {}) {
    OPEN4resok ok;
    ok.stateid = stateid_of(stateid);
    ok.delegation = delegation;
    calls.answer(Script().ok<op::PUTFH>().ok<op::OPEN>(ok));
  }
  void refused(nfsstat4 status) { calls.answer(Script().ok<op::PUTFH>().refuse<op::OPEN>(status)); }
  void locked(unsigned stateid) {
    LOCK4resok ok;
    ok.lock_stateid = stateid_of(stateid, 3);
    calls.answer(Script().ok<op::PUTFH>().ok<op::LOCK>(ok));
  }
};

}  // namespace

TEST_CASE("open recovery: after a restart every open is reclaimed, with its delegation, before other calls") {
  Recovering m;
  const auto plain = m.held(1), with_delegation = m.held(2);
  m.state.delegations.take(*with_delegation, read_delegation(102));
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  CHECK(m.calls.next().way == Way::in_recovery);
  CHECK(m.calls.next_arguments<op::PUTFH>().object == file_handle(1));
  OPEN4args args = m.calls.next_arguments<op::OPEN>();
  REQUIRE(args.claim.tag() == CLAIM_PREVIOUS);
  CHECK(*args.claim.get<CLAIM_PREVIOUS>() == OPEN_DELEGATE_NONE);
  CHECK(args.owner.clientid == 8);
  m.opened(11);
  CHECK(plain->stateid == stateid_of(11));
  CHECK(plain->epoch == 2);
  CHECK(plain->reclaimable);
  args = m.calls.next_arguments<op::OPEN>();
  CHECK(*args.claim.get<CLAIM_PREVIOUS>() == OPEN_DELEGATE_READ);
  m.opened(12, read_delegation(112));
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(with_delegation->delegation()->stateid == stateid_of(112));
  CHECK(with_delegation->delegation()->client == 8);
  // Nothing is left to be reclaimed under this client id.
  auto again = m.reclaiming();
  m.calls.start(again);
  CHECK(again.done());
}

TEST_CASE("open recovery: data behind close(2) is sent under what was reclaimed for writing") {
  Recovering m;
  const auto reader = m.held(1), writer = open_of(2, m.calls);
  writer->file = reader->file;
  writer->access = OPEN4_SHARE_ACCESS_BOTH;
  m.state.opens.hold(writer);
  const auto permit = writer->record->deferred.permit_of(stateid_of(101), m.calls.epoch());
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  CHECK(permit->stateid == stateid_of(101));
  m.opened(12);
  CHECK(permit->stateid == stateid_of(12));
  REQUIRE(done.done());
  CHECK(done.await_resume());
}

TEST_CASE("open recovery: a file that is only parked is not reclaimed, but lost") {
  Recovering m;
  const auto open = m.held(1);
  m.state.delegations.take(*open, read_delegation(101));
  open->parked = true;
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  CHECK(done.done());
  CHECK(open->lost);
  CHECK_FALSE(open->delegation());
}

TEST_CASE(
    "open recovery: what the server does not let us reclaim is had later, or lost, and the others go on") {
  for (const nfsstat4 status :
       {NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_STALE}) {
    Recovering m;
    const auto first = m.held(1), second = m.held(2);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.refused(status);
    m.opened(12);
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK(first->lost.has_value() == (status == NFS4ERR_STALE));
    CHECK_FALSE(first->reclaimable);
    CHECK(second->epoch == 2);
  }
}

TEST_CASE("S23 open recovery: a server in trouble is asked again for what it did not let us reclaim") {
  for (const nfsstat4 status : {NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO}) {
    Recovering m;
    const auto first = m.held(1), second = m.held(2);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.refused(status);
    m.opened(12);  // the other one goes on meanwhile
    CHECK_FALSE(done.done());
    m.calls.pass(21ms);
    m.refused(status);
    m.calls.pass(41ms);
    CHECK(m.calls.next_arguments<op::OPEN>().claim.tag() == CLAIM_PREVIOUS);
    m.opened(11);
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK(first->stateid == stateid_of(11));
    CHECK(first->epoch == 2);
    CHECK(first->reclaimable);
    CHECK(second->epoch == 2);
  }
}

TEST_CASE(
    "S23 open recovery: a server whose trouble does not pass is not asked for ever, and loses no file") {
  Recovering m;
  const auto open = m.held(1);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  int tries = 0;
  for (; !done.done() && tries < 100; ++tries) {
    m.refused(NFS4ERR_SERVERFAULT);
    m.calls.pass(2s);
  }
  CHECK(tries == 1 + Retries::kMostTroubled);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK_FALSE(open->lost);  // it is opened by its handle when it is used
  CHECK_FALSE(open->reclaimable);
}

TEST_CASE("S23 open recovery: only a final refusal of a reclaim loses the file") {
  for (const nfsstat4 status : {NFS4ERR_BAD_STATEID, NFS4ERR_STALE_STATEID, NFS4ERR_EXPIRED,
                                NFS4ERR_ADMIN_REVOKED, NFS4ERR_MOVED, NFS4ERR_WRONGSEC}) {
    CAPTURE(static_cast<unsigned>(status));
    Recovering m;
    const auto open = m.held(1);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.refused(status);
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK_FALSE(open->lost);
    m.calls.forget();
    auto again = m.reopening(open, NFS4ERR_STALE_STATEID);
    m.calls.start(again);
    CHECK(m.calls.next_arguments<op::OPEN>().claim.tag() == CLAIM_FH);
    m.opened(11);
    REQUIRE(again.done());
    CHECK(again.await_resume());
  }
}

TEST_CASE("S23 open recovery: where the server asks to wait, or forgot the client, reclaiming begins anew") {
  for (const nfsstat4 status : {NFS4ERR_GRACE, NFS4ERR_STALE_CLIENTID}) {
    Recovering m;
    const auto open = m.held(1);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.refused(status);
    REQUIRE(done.done());
    CHECK(done.await_resume().error().status() == status);
    CHECK_FALSE(open->lost);
    CHECK(open->reclaimable);
  }
}

TEST_CASE("S23 open recovery: a server in trouble is asked again for a file that is recovered for its user") {
  Recovering m;
  const auto open = m.held(1);
  auto done = m.reopening(open);
  m.calls.start(done);
  m.refused(NFS4ERR_SERVERFAULT);
  CHECK_FALSE(done.done());
  m.calls.pass(21ms);
  m.opened(11);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  for (const nfsstat4 status : {NFS4ERR_IO, NFS4ERR_BAD_STATEID, NFS4ERR_SHARE_DENIED}) {
    CAPTURE(static_cast<unsigned>(status));
    auto failing = m.reopening(open);
    m.calls.start(failing);
    while (m.calls.waiting() != 0) {
      m.refused(status);
      m.calls.pass(2s);
    }
    REQUIRE(failing.done());
    CHECK_FALSE(failing.await_resume());
    CHECK_FALSE(open->lost);  // the next use asks again
  }
}

TEST_CASE("open recovery: a file that could not be recovered is not reclaimed after a restart") {
  Recovering m;
  const auto open = m.held(1);
  auto again = m.reopening(open);
  m.calls.start(again);
  m.refused(NFS4ERR_STALE);
  REQUIRE(again.done());
  REQUIRE(open->lost);
  m.restart();
  m.calls.forget();
  auto done = m.reclaiming();
  m.calls.start(done);
  CHECK(done.done());
  CHECK(m.calls.all().empty());
}

TEST_CASE("open recovery: without an answer, or with DELAY to the end, reclaiming begins anew") {
  for (const bool answered : {false, true}) {
    Recovering m;
    const auto open = m.held(1);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    if (answered) m.refused(NFS4ERR_DELAY);
    if (!answered) m.calls.fail();
    REQUIRE(done.done());
    CHECK_FALSE(done.await_resume());
    CHECK_FALSE(open->lost);
    CHECK(open->reclaimable);
    auto again = m.reclaiming();
    m.calls.start(again);
    CHECK(m.calls.next_arguments<op::OPEN>().claim.tag() == CLAIM_PREVIOUS);
    m.opened(11);
    CHECK(again.done());
  }
}

TEST_CASE("open recovery: opens that come and go while one is reclaimed") {
  Recovering m;
  const auto first = m.held(1), second = m.held(2), third = m.held(3);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.state.opens.release(*first);
  m.state.opens.release(*second);
  m.opened(11);
  // What was reclaimed for nobody is given back.
  CHECK(m.calls.all() == "OPEN CLOSE OPEN");
  CHECK(m.calls.next_arguments<op::CLOSE>().open_stateid == stateid_of(11));
  m.calls.fail();
  CHECK(m.calls.next_arguments<op::PUTFH>().object == file_handle(3));
  m.opened(13);
  CHECK(done.done());
  CHECK(third->epoch == 2);
}

TEST_CASE("open recovery: locks are reclaimed under the new open, each owner beginning from it") {
  Recovering m;
  const auto open = m.held(1);
  const auto state = m.lock(*open, 5);
  m.lock(*open, 5, 100);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  CHECK(m.calls.next().way == Way::in_recovery);
  LOCK4args args = m.calls.next_arguments<op::LOCK>();
  CHECK(args.reclaim);
  CHECK(args.locktype == WRITE_LT);
  CHECK(args.offset == 0);
  CHECK(args.length == 10);
  REQUIRE(args.locker.get<true>() != nullptr);
  CHECK(args.locker.get<true>()->open_stateid == stateid_of(11, 0));
  CHECK(own_number(args.locker.get<true>()->lock_owner, 8) == 5);
  m.locked(31);
  args = m.calls.next_arguments<op::LOCK>();
  CHECK(args.offset == 100);
  REQUIRE(args.locker.get<false>() != nullptr);
  CHECK(args.locker.get<false>()->lock_stateid == stateid_of(31, 0));
  m.locked(31);
  REQUIRE(done.done());
  CHECK(state->stateid == stateid_of(31, 0));
  CHECK_FALSE(open->claiming_locks);
  CHECK(m.calls.all() == "OPEN LOCK LOCK");  // the old stateid went with the client id
}

TEST_CASE(
    "open recovery: locks that were not all reclaimed when the session went are reclaimed in the next try") {
  Recovering m;
  const auto open = m.held(1);
  m.lock(*open, 5);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  m.calls.fail();
  REQUIRE(done.done());
  CHECK_FALSE(done.await_resume());
  CHECK(open->lost_locks.empty());
  auto again = m.reclaiming();
  m.calls.start(again);
  CHECK(m.calls.all() == "OPEN LOCK LOCK");
  m.locked(31);
  REQUIRE(again.done());
  CHECK(again.await_resume());
}

TEST_CASE("open recovery: a lock that somebody else has by now is lost to its owner, the others are not") {
  Recovering m;
  const auto open = m.held(1);
  const auto mine = m.lock(*open, 5), other = m.lock(*open, 6);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  m.calls.answer(Script().ok<op::PUTFH>().refuse<op::LOCK>(NFS4ERR_RECLAIM_CONFLICT));
  m.locked(36);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(open->lost_locks.contains(5));
  CHECK_FALSE(open->lost_locks.contains(6));
  CHECK(mine->held.empty());
  CHECK_FALSE(other->held.empty());
  CHECK(m.calls.notices.size() == 1);
  REQUIRE(open->unusable() != nullptr);
  CHECK(open->unusable()->errno_value() == EIO);
}

TEST_CASE(
    "open recovery: a file is opened again for what is needed of it, and reclaimed for what it was open "
    "for") {
  Recovering m;
  const auto open = m.held(1);
  open->access = OPEN4_SHARE_ACCESS_BOTH;
  open->needed = OPEN4_SHARE_ACCESS_READ;
  SUBCASE("again") {
    auto done = m.reopening(open);
    m.calls.start(done);
    CHECK((m.calls.next_arguments<op::OPEN>().share_access & OPEN4_SHARE_ACCESS_BOTH) ==
          OPEN4_SHARE_ACCESS_READ);
    m.opened(11);
    CHECK(done.await_resume());
    CHECK(open->access == OPEN4_SHARE_ACCESS_READ);
  }
  SUBCASE("again, where nobody needs it any more") {
    open->needed = 0;
    auto done = m.reopening(open);
    m.calls.start(done);
    CHECK((m.calls.next_arguments<op::OPEN>().share_access & OPEN4_SHARE_ACCESS_BOTH) ==
          OPEN4_SHARE_ACCESS_BOTH);
    m.opened(11);
    CHECK(done.await_resume());
  }
  SUBCASE("reclaimed") {
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    CHECK(m.calls.next_arguments<op::OPEN>().share_access == OPEN4_SHARE_ACCESS_BOTH);
    m.opened(11);
    CHECK(done.await_resume());
    CHECK(open->access == OPEN4_SHARE_ACCESS_BOTH);
  }
}

TEST_CASE("open recovery: an OPEN in vain loses nothing that another OPEN's answer has brought meanwhile") {
  for (const bool another : {true, false}) {
    CAPTURE(another);
    Recovering m;
    const auto open = m.held(1);
    auto done = m.reopening(open, NFS4ERR_OLD_STATEID);
    m.calls.start(done);
    if (another) open->opened(stateid_of(1, 2), open->access);
    m.refused(NFS4ERR_STALE);
    REQUIRE(done.done());
    CHECK(done.await_resume().has_value() == another);
    CHECK(open->lost.has_value() != another);
  }
}

TEST_CASE("open recovery: a file that is closed and opened while it is recovered keeps its new open") {
  Recovering m;
  const auto before = m.held(1);
  auto done = m.reopening(before);
  m.calls.start(done);
  m.state.opens.release(*before);
  const auto after = open_of(1, m.calls);
  after->stateid = stateid_of(11, 1);
  m.state.opens.hold(after);
  OPEN4resok ok;
  ok.stateid = stateid_of(11, 2);
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::OPEN>(ok));
  REQUIRE(done.done());
  CHECK(done.await_resume().error().errno_value() == EBADF);
  CHECK(m.calls.all() == "OPEN");
  CHECK(after->stateid == stateid_of(11, 2));
}

TEST_CASE(
    "open recovery: a server in trouble is not asked again for a file that another OPEN has had again") {
  Recovering m;
  const auto open = m.held(1);
  auto done = m.reopening(open);
  m.calls.start(done);
  m.refused(NFS4ERR_SERVERFAULT);
  open->opened(stateid_of(11), open->access);
  m.calls.pass(21ms);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.calls.all() == "OPEN");
}

TEST_CASE("open recovery: two calls that find their stateid gone share one OPEN") {
  Recovering m;
  const auto open = m.held(1);
  auto first = m.reopening(open), second = m.reopening(open);
  m.calls.start(first);
  m.calls.start(second);
  CHECK(m.calls.all() == "OPEN");
  CHECK(m.calls.next().way == Way::normal);
  const OPEN4args args = m.calls.next_arguments<op::OPEN>();
  CHECK(args.claim.tag() == CLAIM_FH);
  CHECK(args.share_access == (OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_READ_DELEG));
  m.opened(11);
  REQUIRE(first.done());
  REQUIRE(second.done());
  CHECK(first.await_resume());
  CHECK(second.await_resume());
  CHECK(open->stateid == stateid_of(11));
}

TEST_CASE(
    "open recovery: a file waits for the session's recovery before it is opened again, up to a deadline") {
  Recovering m;
  const auto open = m.held(1);
  m.calls.recovers = true;
  auto late =
      m.state.open_recovery.reopen(open, open->stateid, NFS4ERR_BAD_STATEID, m.calls.loop().now() + 10ms);
  auto done = m.reopening(open, NFS4ERR_STALE_CLIENTID);
  m.calls.start(late);
  m.calls.start(done);
  CHECK(m.calls.recoveries.size() == 1);
  m.calls.pass(11ms);
  REQUIRE(late.done());
  CHECK(late.await_resume().error().kind() == ErrorKind::timeout);
  CHECK(m.calls.all().empty());
  m.calls.recovered();
  m.opened(11);
  CHECK(done.done());
}

TEST_CASE("open recovery: what cannot be opened again is lost, with its locks; but for a matter of time") {
  for (const nfsstat4 status : {NFS4ERR_STALE, NFS4ERR_DELAY, NFS4ERR_GRACE}) {
    Recovering m;
    const auto open = m.held(1);
    m.lock(*open, 5);
    auto done = m.reopening(open);
    m.calls.start(done);
    m.refused(status);
    REQUIRE(done.done());
    CHECK_FALSE(done.await_resume());
    CHECK(open->lost.has_value() == (status == NFS4ERR_STALE));
    CHECK(open->lost_locks.contains(5) == (status == NFS4ERR_STALE));
    if (m.calls.waiting() != 0) m.calls.fail();  // FREE_STATEID
    auto again = m.reopening(open);
    m.calls.start(again);
    CHECK(again.done() == (status == NFS4ERR_STALE));
    if (m.calls.waiting() != 0) m.opened(11);
    if (m.calls.waiting() != 0) m.calls.fail();  // FREE_STATEID of the lock
  }
}

TEST_CASE("open recovery: a stateid that was revoked is freed where another one has taken its place") {
  Recovering m;
  const auto open = m.held(1);
  auto done = m.reopening(open, NFS4ERR_ADMIN_REVOKED);
  m.calls.start(done);
  m.opened(11);
  CHECK(m.calls.all() == "OPEN FREE_STATEID");
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(1));
  m.calls.fail();
  auto same = m.reopening(open, NFS4ERR_ADMIN_REVOKED);
  m.calls.start(same);
  m.opened(11);
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("open recovery: a file that is closed while it is opened again") {
  Recovering m;
  const auto open = m.held(1);
  auto done = m.reopening(open);
  m.calls.start(done);
  m.state.opens.release(*open);
  m.opened(11, read_delegation(111));
  REQUIRE(done.done());
  CHECK(done.await_resume().error().errno_value() == EBADF);
  CHECK(m.calls.all() == "OPEN CLOSE DELEGRETURN");
  m.calls.fail();
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>());
  auto closed = m.reopening(open);
  m.calls.start(closed);
  REQUIRE(closed.done());
  CHECK(closed.await_resume().error().errno_value() == EBADF);
}

TEST_CASE("open recovery: an OPEN that was undone before its answer came is made once more") {
  Recovering m;
  const auto open = m.held(1);
  auto done = m.reopening(open);
  m.calls.start(done);
  m.state.openings.closed(stateid_of(11));
  m.opened(11, read_delegation(111));
  CHECK(m.calls.all() == "OPEN OPEN");
  CHECK(open->stateid == stateid_of(1));
  CHECK(open->delegation());  // that is another state
  m.opened(12);
  REQUIRE(done.done());
  CHECK(open->stateid == stateid_of(12));
}

TEST_CASE(
    "open recovery: locks of a lease that has expired are claimed again only where that is wished for") {
  for (const bool wished : {false, true}) {
    Recovering m(wished);
    const auto open = m.held(1);
    m.lock(*open, 5);
    auto done = m.reopening(open, NFS4ERR_BAD_STATEID);
    m.calls.start(done);
    m.opened(11);
    CHECK(m.calls.all() == (wished ? "OPEN FREE_STATEID LOCK" : "OPEN FREE_STATEID"));
    m.calls.fail();
    if (wished) {
      CHECK(m.calls.next().way == Way::normal);
      CHECK_FALSE(m.calls.next_arguments<op::LOCK>().reclaim);
      m.locked(31);
    }
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK(open->lost_locks.contains(5) != wished);
  }
}

TEST_CASE("open recovery: an open under a new epoch loses its delegation unless the server gave it again") {
  Recovering m;
  const auto open = m.held(1);
  m.state.delegations.take(*open, read_delegation(101));
  ++m.calls.facts_now.epoch;  // the same client id
  auto done = m.state.open_recovery.renew(open);
  m.calls.start(done);
  m.opened(11);
  REQUIRE(done.done());
  CHECK_FALSE(open->delegation());
  CHECK(m.calls.all() == "OPEN DELEGRETURN");
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>());
}

TEST_CASE(
    "S23 lock recovery: a lock is not lost to a server's passing trouble, but not asked for without end") {
  for (const bool passes : {true, false}) {
    Recovering m;
    const auto open = m.held(1);
    const auto state = m.lock(*open, 5);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.opened(11);
    int tries = 0;
    for (; !done.done() && tries < (passes ? 3 : 100); ++tries) {
      CHECK(m.calls.next_arguments<op::LOCK>().offset == 0);
      m.calls.answer(Script().ok<op::PUTFH>().refuse<op::LOCK>(tries == 1 ? NFS4ERR_RESOURCE : NFS4ERR_IO));
      m.calls.pass(2s);
    }
    CHECK(tries == (passes ? 3 : 1 + Retries::kMostTroubled));
    if (passes) m.locked(31);
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK(open->lost_locks.contains(5) != passes);
    CHECK(state->held.empty() != passes);
  }
}

TEST_CASE(
    "S23 lock recovery: where the server asks to wait, or forgot the client, the lock is reclaimed later") {
  for (const nfsstat4 status : {NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_STALE_CLIENTID}) {
    Recovering m;
    const auto open = m.held(1);
    m.lock(*open, 5);
    m.restart();
    auto done = m.reclaiming();
    m.calls.start(done);
    m.opened(11);
    m.calls.answer(Script().ok<op::PUTFH>().refuse<op::LOCK>(status));
    REQUIRE(done.done());
    CHECK_FALSE(done.await_resume());
    CHECK(open->claiming_locks);
    CHECK(open->lost_locks.empty());
  }
}

TEST_CASE("lock recovery: a lock that is lost is told of once, and its stateid freed") {
  Recovering m;
  const auto open = m.held(1);
  const auto state = m.lock(*open, 5);
  m.state.locks.lose(*open, 6, status_error(NFS4ERR_EXPIRED, "LOCK", "x"));
  CHECK(m.calls.all().empty());
  m.state.locks.lose(*open);
  m.state.locks.lose(*open);
  CHECK(m.calls.all() == "FREE_STATEID");
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(205));
  CHECK(m.calls.notices.size() == 1);
  CHECK_FALSE(state->stateid);
  m.calls.fail();
}

TEST_CASE("lock recovery: what is lost while others of its owner's are claimed is not claimed") {
  Recovering m;
  const auto open = m.held(1);
  m.lock(*open, 5);
  m.lock(*open, 5, 100);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  m.state.locks.lose(*open, 5, status_error(NFS4ERR_EXPIRED, "LOCK", "x"));
  m.locked(31);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.calls.all() == "OPEN LOCK");
}

TEST_CASE("lock recovery: a lock is claimed as it is held, for reading and up to whatever the end is") {
  Recovering m;
  const auto open = m.held(1);
  const auto state = m.lock(*open, 5);
  state->held.clear();
  state->held.lock({7, LockRange::kToTheEnd}, false);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  const LOCK4args args = m.calls.next_arguments<op::LOCK>();
  CHECK(args.locktype == READ_LT);
  CHECK(args.offset == 7);
  CHECK(args.length == LockRange::kToTheEnd);
  m.locked(31);
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.calls.all() == "OPEN LOCK");
}

TEST_CASE("lock recovery: where one of an owner's locks is refused those before it can be unlocked") {
  Recovering m;
  const auto open = m.held(1);
  const auto state = m.lock(*open, 5);
  m.lock(*open, 5, 100);
  m.lock(*open, 5, 200);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  m.locked(31);
  m.calls.answer(Script().ok<op::PUTFH>().refuse<op::LOCK>(NFS4ERR_RECLAIM_CONFLICT));
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.calls.all() == "OPEN LOCK LOCK");
  CHECK(state->held.empty());
  CHECK(state->stateid == stateid_of(31, 0));
  CHECK(open->lost_locks.contains(5));
  CHECK(m.calls.notices.size() == 1);
}

TEST_CASE("lock recovery: a claim that was made anew and failed is not made again") {
  Recovering m(true);
  const auto open = m.held(1);
  m.lock(*open, 5);
  auto done = m.reopening(open);
  m.calls.start(done);
  m.opened(11);
  m.calls.fail();  // FREE_STATEID
  CHECK(open->claiming_locks);
  m.calls.fail();  // LOCK
  REQUIRE(done.done());
  CHECK_FALSE(done.await_resume());
  CHECK_FALSE(open->claiming_locks);
  CHECK(open->lost_locks.contains(5));
  auto again = m.reclaiming();
  m.calls.start(again);
  CHECK(again.done());
}

TEST_CASE("lock recovery: whoever unlocks waits for the end of a claim, also where it takes another try") {
  Recovering m;
  const auto open = m.held(1);
  m.lock(*open, 5);
  m.restart();
  auto done = m.reclaiming();
  m.calls.start(done);
  m.opened(11);
  auto waiting = m.state.locks.claimed(*open, m.deadline());
  auto late = m.state.locks.claimed(*open, m.calls.loop().now() + 10ms);
  m.calls.start(waiting);
  m.calls.start(late);
  m.calls.fail();
  REQUIRE(done.done());
  m.calls.pass(11ms);
  CHECK_FALSE(waiting.done());
  REQUIRE(late.done());
  CHECK_FALSE(late.await_resume());
  SUBCASE("which goes well") {
    auto again = m.reclaiming();
    m.calls.start(again);
    CHECK_FALSE(waiting.done());
    m.locked(31);
    CHECK(again.done());
  }
  SUBCASE("which there is not, since the open is not recovered") {
    m.restart();
    auto again = m.reclaiming();
    m.calls.start(again);
    m.refused(NFS4ERR_NO_GRACE);
    CHECK(again.done());
  }
  REQUIRE(waiting.done());
  CHECK(waiting.await_resume());
}

}  // namespace nfsrdma
