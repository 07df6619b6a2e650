// What the server has taken away, and the flags by which it says so, with a scripted server (RFC 8881 8.4.2.4,
// 18.46.3, 18.48). What it comes to in a whole client: sequence_flags_test.cpp.
#include "nfs4/session/status_flags.h"
#include "nfs4/state/client_state.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;

struct Searching {
  ScriptedCallLayer calls;
  Lease lease{calls};
  engine::Modifications modifications;
  engine::ServerCounters counters;
  unsigned told = 0;
  nfs4::ClientState state{calls, lease, modifications, counters, false, [this](bool) { ++told; }};
  const ScriptedCallLayer::Last last{calls};
  Searching() {
    calls.facts_now.lease_seconds = 300;
    calls.facts_now.backchannel = true;
    lease.renewed(lease.now());
  }
  std::shared_ptr<Open> held(unsigned number) {
    auto open = open_of(number, calls);
    state.opens.hold(open);
    return open;
  }
  std::shared_ptr<LockState> lock(Open& open, std::uint64_t owner) {
    auto& one = open.locks[owner] = std::make_shared<LockState>(calls.loop());
    one->stateid = stateid_of(static_cast<unsigned>(200 + owner));
    one->held.lock({0, 10}, true);
    return one;
  }
  void search() {
    state.revocations.search();
    calls.settle();
  }
  std::vector<stateid4> tested() { return calls.next_arguments<op::TEST_STATEID>().ts_stateids.value; }
  void answer(std::vector<nfsstat4> codes) {
    TEST_STATEID4resok ok;
    ok.tsr_status_codes.value = std::move(codes);
    calls.answer(Script().ok<op::TEST_STATEID>(ok));
  }
};

}  // namespace

TEST_CASE("revocations: all stateids are tested, and those that were revoked given up and freed") {
  Searching m;
  const auto open = m.held(1);
  const auto kept = m.lock(*open, 4), lost = m.lock(*open, 5);
  m.state.delegations.take(*open, read_delegation(101));
  const auto gone = m.held(2);
  gone->lost = Error(ErrorKind::server, EIO, "OPEN", "x", "lost before");
  m.search();
  CHECK_FALSE(m.state.delegations.good());
  CHECK(m.tested() == std::vector{stateid_of(101), stateid_of(204), stateid_of(205), stateid_of(1)});
  m.answer({NFS4ERR_DELEG_REVOKED, NFS4_OK, NFS4ERR_ADMIN_REVOKED, NFS4ERR_OLD_STATEID});
  CHECK_FALSE(open->delegation());
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(101));
  CHECK_FALSE(m.state.delegations.good());
  m.calls.answer(Script().ok<op::FREE_STATEID>());
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(205));
  m.calls.fail();
  CHECK(open->lost_locks.contains(5));
  CHECK_FALSE(open->lost_locks.contains(4));
  CHECK(kept->stateid);
  CHECK_FALSE(lost->stateid);
  CHECK(m.state.delegations.good());
  CHECK(m.calls.waiting() == 0);
  CHECK(m.counters.delegations_revoked == 1);
  CHECK(m.told != 0);
}

TEST_CASE("revocations: an open that was revoked takes its locks with it") {
  Searching m;
  const auto open = m.held(1);
  m.lock(*open, 4);
  m.search();
  m.answer({NFS4_OK, NFS4ERR_EXPIRED});
  CHECK(open->lost_locks.contains(4));
  CHECK_FALSE(open->lost);  // it is opened again when it is used
  CHECK(m.calls.all() == "TEST_STATEID FREE_STATEID FREE_STATEID");
  m.calls.fail();
  m.calls.fail();
}

TEST_CASE("revocations: what has changed since it was asked about is left alone") {
  Searching m;
  const auto open = m.held(1);
  const auto state = m.lock(*open, 4);
  m.search();
  state->stateid = stateid_of(230);
  open->stateid = stateid_of(11);
  m.answer({NFS4ERR_EXPIRED, NFS4ERR_EXPIRED});
  CHECK(open->lost_locks.empty());
  m.calls.fail();
  m.calls.fail();
}

TEST_CASE("revocations: one search at a time, and none too soon after another") {
  Searching m;
  m.search();
  CHECK(m.calls.all().empty());  // there is nothing that could have been revoked
  const auto open = m.held(1);
  m.search();
  m.search();
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
  CHECK(m.state.delegations.good());
  m.search();
  CHECK(m.calls.waiting() == 0);
  CHECK_FALSE(m.state.delegations.good());
  m.calls.pass(990ms);
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(20ms);
  CHECK(m.calls.waiting() == 1);
  m.answer({NFS4_OK});
}

TEST_CASE("revocations: an answer of another epoch, or of another length, says nothing") {
  Searching m;
  const auto open = m.held(1);
  m.lock(*open, 4);
  m.search();
  ++m.calls.facts_now.epoch;
  m.answer({NFS4ERR_EXPIRED, NFS4ERR_EXPIRED});
  m.calls.pass(1s);
  m.search();
  m.answer({NFS4ERR_EXPIRED});
  CHECK(open->lost_locks.empty());
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("revocations: where the server restarts in the middle of it the rest of the answer says nothing") {
  Searching m;
  const auto first = m.held(1), second = m.held(2);
  const auto state = m.lock(*second, 5);
  m.search();
  m.answer({NFS4ERR_EXPIRED, NFS4ERR_EXPIRED, NFS4ERR_EXPIRED});
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(1));
  ++m.calls.facts_now.epoch;
  m.calls.fail();
  CHECK(m.calls.all() == "TEST_STATEID FREE_STATEID");
  CHECK(second->lost_locks.empty());
  CHECK(state->stateid == stateid_of(205));
}

TEST_CASE("revocations: an answer that says that the server has restarted says nothing of what was revoked") {
  Searching m;
  const auto open = m.held(1);
  m.lock(*open, 4);
  m.search();
  m.calls.recovers = true;  // as by SEQ4_STATUS_RESTART_RECLAIM_NEEDED in a session that outlived the restart
  m.answer({NFS4ERR_BAD_STATEID, NFS4ERR_BAD_STATEID});
  CHECK(open->lost_locks.empty());
  CHECK(m.calls.all() == "TEST_STATEID");
}

TEST_CASE("revocations: so many are tested in one call, and no more after one without an answer") {
  Searching m;
  std::vector<std::shared_ptr<Open>> all;
  for (unsigned i = 0; i < 205; ++i) all.push_back(m.held(i));
  m.search();
  CHECK(m.tested().size() == 100);
  m.answer(std::vector(100, NFS4_OK));
  CHECK(m.tested().size() == 100);
  CHECK(m.tested().front() == stateid_of(100));
  m.answer(std::vector(100, NFS4_OK));
  CHECK(m.tested().size() == 5);
  m.answer(std::vector(5, NFS4_OK));
  m.calls.pass(1s);
  m.search();
  m.calls.fail();
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("status flags: each asks for what the RFC has it ask for") {
  Reactions mend, renew, find, recover;
  mend.mend_backchannel = renew.new_session = find.find_revoked = recover.recover = true;
  CHECK(reactions_to(0) == Reactions());
  for (const auto flag : {SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION})
    CHECK(reactions_to(flag) == mend);
  CHECK(reactions_to(SEQ4_STATUS_BACKCHANNEL_FAULT) == renew);
  for (const auto flag : {SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED,
                          SEQ4_STATUS_ADMIN_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED})
    CHECK(reactions_to(flag) == find);
  CHECK(reactions_to(SEQ4_STATUS_RESTART_RECLAIM_NEEDED) == recover);
  for (const auto flag : {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED,
                          SEQ4_STATUS_LEASE_MOVED, SEQ4_STATUS_DEVID_CHANGED, SEQ4_STATUS_DEVID_DELETED})
    CHECK(reactions_to(flag) == Reactions());
  CHECK(reactions_to(0x80000000U | SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_LEASE_MOVED) == mend);
}

}  // namespace nfsrdma
