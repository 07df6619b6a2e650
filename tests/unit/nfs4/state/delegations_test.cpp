// Delegations by themselves, with a scripted server: taken, recalled, returned (RFC 8881 10.4, 20.2, 20.6). What
// they come to in a whole client: delegation_test.cpp.
#include "nfs4/state/delegations.h"

#include "nfs4/compound/retries.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;

struct ScriptedRecalls {
  ScriptedCallLayer calls;
  Lease lease{calls};
  engine::Modifications modifications;
  engine::ServerCounters counters;
  Outstanding outstanding{calls.loop()};
  Opens opens{calls.loop()};
  Openings openings{calls, outstanding};
  Leftovers leftovers{calls, opens, outstanding};
  bool held = false;
  std::vector<nfs_fh4> ended;
  Delegations delegations{{calls, lease, opens, openings, leftovers, outstanding, modifications, counters,
                           [this](bool on) { held = on; }}};
  const ScriptedCallLayer::Last last{calls};

  ScriptedRecalls() {
    calls.facts_now.client_id = 7;
    calls.facts_now.lease_seconds = 30;
    calls.facts_now.backchannel = true;
    lease.renewed(lease.now());
    delegations.on_end([this](const nfs_fh4& file) { ended.push_back(file); });
  }
  /// A registered open with a delegation whose stateid is 100 more than the open's.
  std::shared_ptr<Open> delegated(unsigned number) {
    auto open = open_of(number, calls);
    opens.hold(open);
    delegations.take(*open, read_delegation(100 + number));
    return open;
  }
  /// A registered open without one.
  std::shared_ptr<Open> opened(unsigned number, unsigned file) {
    auto open = open_of(number, calls);
    open->file = file_handle(file);
    opens.hold(open);
    return open;
  }
  std::shared_ptr<Open> opened(unsigned number) { return opened(number, number); }
  nfsstat4 recall(unsigned stateid) {
    const stateid4 one = stateid_of(stateid, 9);
    const nfs_fh4 file = file_handle(1);
    return delegations.recall({one, file, false, {}});
  }
  void answer_return() { calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>()); }
};

/// Who keeps data behind close(2).
struct Keeper final : engine::WriteBackOwner {
  void write_out(const engine::FileHandle& file, std::shared_ptr<void> until) override {
    asked.push_back(file);
    waiting.push_back(std::move(until));
  }
  std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
    return size;
  }
  std::vector<nfs_fh4> asked;
  std::vector<std::shared_ptr<void>> waiting;
  std::optional<std::uint64_t> size;
};

open_delegation4 write_delegation(unsigned number,
                                  nfs_space_limit4 limit = nfs_space_limit4::of<NFS_LIMIT_SIZE>(1000U)) {
  open_write_delegation4 write;
  write.stateid = stateid_of(number);
  write.space_limit = std::move(limit);
  return open_delegation4::of<OPEN_DELEGATE_WRITE>(write);
}

struct ScriptedWriting : ScriptedRecalls {
  ScriptedWriting() {
    delegations.write_back_owner(&keeper);
    opens.hold(open);
    delegations.take(*open, grant);
  }
  Attributes attributes() const {
    Attributes out;
    out.change = 70;
    return out;
  }
  Keeper keeper;
  const open_delegation4 grant = write_delegation(50);
  const std::shared_ptr<Open> open = open_of(1, calls);
};

bitmap4 read_delegations() {
  bitmap4 out;
  out.value.push_back(1U << RCA4_TYPE_MASK_RDATA_DLG);
  return out;
}

}  // namespace

TEST_CASE("delegations: a read delegation is kept, and the connections with it, until its file is closed") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  REQUIRE(open->delegation());
  CHECK(open->delegation()->stateid == stateid_of(101));
  CHECK(open->delegation()->client == 7);
  CHECK(m.delegations.count() == 1);
  CHECK(m.counters.delegations_granted == 1);
  CHECK(m.held);
  m.opens.release(*open);
  CHECK_FALSE(m.held);
  CHECK(m.delegations.count() == 0);
  CHECK(m.calls.all().empty());
}

TEST_CASE("delegations: what is recalled is returned behind the answer, once") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  CHECK(m.recall(101) == NFS4_OK);
  CHECK_FALSE(open->delegation());
  CHECK(m.ended == std::vector{file_handle(1)});
  CHECK(m.calls.all().empty());
  m.delegations.return_recalled();
  m.delegations.return_recalled();
  CHECK(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  CHECK(m.calls.next_arguments<op::PUTFH>().object == file_handle(1));
  CHECK(m.held);  // the server may recall it again
  CHECK(m.recall(101) == NFS4_OK);
  m.answer_return();
  CHECK_FALSE(m.held);
  CHECK(m.recall(101) == NFS4ERR_BAD_STATEID);
  m.delegations.return_recalled();
  CHECK(m.calls.waiting() == 0);
  CHECK(m.counters.delegations_recalled == 1);
}

TEST_CASE("delegations: of a file that nobody has open it goes back with the CLOSE, or else by itself") {
  ScriptedRecalls m;
  const std::shared_ptr<Open> open = m.delegated(1);
  open->parked = true;
  CHECK(m.recall(101) == NFS4_OK);
  m.delegations.return_recalled();
  CHECK(m.calls.waiting() == 0);
  CHECK(m.ended.size() == 1);  // whoever has parked the file hears of it
  REQUIRE(open->delegation());
  CHECK_FALSE(open->delegated());
  CHECK(m.recall(101) == NFS4_OK);
  m.delegations.finish_recall(*open);
  CHECK(m.calls.all() == "DELEGRETURN");
  m.delegations.finish_recall(*open);
  m.answer_return();
  CHECK(m.calls.waiting() == 0);
  CHECK_FALSE(open->delegation());
  CHECK(m.counters.delegations_recalled == 1);
}

TEST_CASE("delegations: a recall that overtakes the OPEN is remembered for it") {
  ScriptedRecalls m;
  std::shared_ptr<Open> open;
  {
    const Openings::Guard guard(m.openings);
    CHECK(m.recall(101) == NFS4_OK);
    m.delegations.return_recalled();
    CHECK(m.calls.all().empty());
    open = m.delegated(1);
  }
  CHECK_FALSE(open->delegation());
  CHECK(m.calls.all() == "DELEGRETURN");
  CHECK(m.counters.delegations_recalled == 1);
  m.answer_return();
  CHECK(m.delegated(1)->delegation());  // another one, of the same name
}

TEST_CASE("delegations: an early recall is forgotten with the last OPEN that it could be meant for") {
  ScriptedRecalls m;
  {
    const Openings::Guard guard(m.openings);
    CHECK(m.recall(101) == NFS4_OK);
  }
  CHECK(m.calls.all().empty());
  CHECK(m.delegated(1)->delegation());
}

TEST_CASE("delegations: only so many early recalls are remembered") {
  ScriptedRecalls m;
  const Openings::Guard guard(m.openings);
  for (unsigned i = 0; i < 64; ++i) CHECK(m.recall(i) == NFS4_OK);
  CHECK(m.recall(101) == NFS4ERR_BAD_STATEID);
}

TEST_CASE("delegations: where the answer to an OPEN was lost, what nobody knows is returned when recalled") {
  ScriptedRecalls m;
  {
    const Openings::Guard guard(m.openings);
    CHECK(m.recall(101) == NFS4_OK);
    m.openings.doubt();
  }
  CHECK(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  m.answer_return();
  CHECK(m.recall(102) == NFS4_OK);
  m.delegations.return_recalled();
  CHECK(m.calls.waiting() == 1);
  m.answer_return();
  ++m.calls.facts_now.epoch;
  CHECK(m.recall(103) == NFS4ERR_BAD_STATEID);
}

TEST_CASE("delegations: CB_RECALL_ANY leaves as many as the server lets there be") {
  ScriptedRecalls m;
  std::vector<std::shared_ptr<Open>> all;
  for (unsigned i = 1; i <= 4; ++i) all.push_back(m.delegated(i));
  (void)m.delegations.return_with_close(*all[0]);
  m.delegations.recall_any(1, bitmap4());
  CHECK(m.delegations.count() == 3);
  m.delegations.recall_any(1, read_delegations());
  CHECK(m.delegations.count() == 1);
  CHECK(all[0]->delegation());
  CHECK(all[3]->delegated());
  m.delegations.return_recalled();
  CHECK(m.calls.all() == "DELEGRETURN DELEGRETURN");
  m.answer_return();
  m.answer_return();
}

TEST_CASE("delegations: what was not asked for, or recalled at once, or comes at the end is returned") {
  ScriptedRecalls m;
  const auto open = open_of(1, m.calls);
  m.opens.hold(open);
  open_write_delegation4 write;
  write.stateid = stateid_of(50);
  m.delegations.take(*open, open_delegation4::of<OPEN_DELEGATE_WRITE>(write));
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(50, 0));
  m.answer_return();
  CHECK(m.counters.delegations_granted == 0);
  m.delegations.take(*open, read_delegation(51, true));
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(51, 0));
  m.answer_return();
  CHECK(m.counters.delegations_recalled == 1);
  m.calls.phase_now = CallLayer::Phase::ending;
  m.delegations.take(*open, read_delegation(52));
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(52, 0));
  CHECK_FALSE(open->delegation());
  m.answer_return();
  m.delegations.take(*open, open_delegation4());
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("delegations: without a backchannel none is wanted, and one that is granted goes back at once") {
  ScriptedWriting m;
  m.calls.facts_now.backchannel = false;
  CHECK(m.delegations.wanted_for(OPEN4_SHARE_ACCESS_READ) == OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  CHECK(m.delegations.wanted_for(OPEN4_SHARE_ACCESS_BOTH) == OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  const auto reading = m.opened(2), writing = m.opened(3);
  m.delegations.take(*reading, read_delegation(102));
  CHECK_FALSE(reading->delegation());
  REQUIRE(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(102, 0));
  m.answer_return();
  m.delegations.take(*writing, write_delegation(103));
  CHECK_FALSE(writing->delegation());
  m.keeper.waiting.clear();
  m.calls.settle();
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(103, 0));
  m.answer_return();
  CHECK(m.counters.delegations_recalled == 0);
}

TEST_CASE("delegations: all are returned where they cannot be recalled any more, each once") {
  ScriptedRecalls m;
  const auto used = m.delegated(1), parked = m.delegated(2);
  const auto sharing = m.opened(3, 1);
  m.delegations.take(*sharing, read_delegation(101));
  parked->parked = true;
  m.delegations.return_all();
  m.delegations.return_all();
  CHECK_FALSE(used->delegation());
  CHECK_FALSE(sharing->delegation());
  REQUIRE(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  m.answer_return();
  m.delegations.finish_recall(*parked);
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(102, 0));
  m.answer_return();
  CHECK_FALSE(m.held);
  CHECK(m.counters.delegations_recalled == 0);
}

TEST_CASE("delegations: those of files that nobody has open are returned, of either kind") {
  ScriptedRecalls m;
  open_write_delegation4 write;
  write.stateid = stateid_of(50);
  m.delegations.return_stray(file_handle(1), open_delegation4::of<OPEN_DELEGATE_WRITE>(write));
  m.delegations.return_stray(file_handle(1), read_delegation(51));
  m.delegations.return_stray(file_handle(1), open_delegation4());
  CHECK(m.calls.all() == "DELEGRETURN DELEGRETURN");
  m.answer_return();
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(51, 0));
  m.answer_return();
}

TEST_CASE("delegations: DELEGRETURN is made again until there is an answer, and is outstanding meanwhile") {
  ScriptedRecalls m;
  m.delegations.start_return(*m.delegated(1));
  auto none = m.outstanding.none(m.calls.loop().now() + 1h);
  m.calls.start(none);
  m.calls.fail();
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(490ms);
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(20ms);
  REQUIRE(m.calls.waiting() == 1);
  CHECK_FALSE(none.done());
  m.calls.answer(Script().refuse<op::PUTFH>(NFS4ERR_STALE));  // an answer, whatever it is
  CHECK(none.done());
  m.calls.pass(1s);
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("S23 delegations: DELEGRETURN is made again where its refusal may pass, with growing pauses") {
  for (const nfsstat4 status :
       {NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO, NFS4ERR_DELAY, NFS4ERR_GRACE}) {
    ScriptedRecalls m;
    m.delegations.start_return(*m.delegated(1));
    m.calls.answer(Script().ok<op::PUTFH>().refuse<op::DELEGRETURN>(status));
    CHECK(m.calls.waiting() == 0);
    CHECK(m.held);
    m.calls.pass(510ms);
    REQUIRE(m.calls.waiting() == 1);
    m.calls.answer(Script().ok<op::PUTFH>().refuse<op::DELEGRETURN>(status));
    m.calls.pass(510ms);
    CHECK(m.calls.waiting() == 0);
    m.calls.pass(500ms);
    REQUIRE(m.calls.waiting() == 1);
    CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
    m.answer_return();
    CHECK_FALSE(m.held);
  }
}

TEST_CASE(
    "S23 delegations: at the end DELEGRETURN is made again as well, some times and without long pauses") {
  ScriptedRecalls m;
  m.delegations.start_return(*m.delegated(1));
  m.calls.phase_now = CallLayer::Phase::ending;
  int tries = 0;
  for (; m.calls.waiting() != 0 && tries < 100; ++tries) {
    m.calls.answer(Script().ok<op::PUTFH>().refuse<op::DELEGRETURN>(NFS4ERR_SERVERFAULT));
    m.calls.pass(700ms);
  }
  CHECK(tries == 1 + Retries::kMostTroubled);
}

TEST_CASE("delegations: a DELEGRETURN without an answer ends with the client id, and with the session") {
  ScriptedRecalls m;
  m.delegations.start_return(*m.delegated(1));
  ++m.calls.facts_now.epoch;
  m.calls.fail();
  m.calls.pass(1s);
  CHECK(m.calls.waiting() == 0);
  m.delegations.start_return(*m.delegated(2));
  m.calls.phase_now = CallLayer::Phase::ending;
  m.calls.fail();
  m.calls.pass(1s);
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("delegations: one that turns out to be revoked when it is returned is freed") {
  ScriptedRecalls m;
  m.delegations.start_return(*m.delegated(1));
  m.calls.answer(Script().ok<op::PUTFH>().refuse<op::DELEGRETURN>(NFS4ERR_DELEG_REVOKED));
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(101));
  CHECK(m.held);
  m.calls.answer(Script().ok<op::FREE_STATEID>());
  CHECK_FALSE(m.held);
  CHECK(m.counters.delegations_revoked == 1);
}

// ---- one for a file and client ----

TEST_CASE("S24 delegations: one that two users of a file are told of ends for both with its recall") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.opened(2, 1);
  m.delegations.take(*second, read_delegation(101));
  REQUIRE(second->delegation());
  CHECK(m.delegations.count() == 1);
  CHECK(m.counters.delegations_granted == 1);
  SUBCASE("while both have the file open") {}
  SUBCASE("while one of them has it parked") {
    first->parked = true;
  }
  CHECK(m.recall(101) == NFS4_OK);
  CHECK_FALSE(first->delegation());
  CHECK_FALSE(second->delegation());
  CHECK(m.ended == std::vector{file_handle(1)});
  m.delegations.return_recalled();
  CHECK(m.calls.all() == "DELEGRETURN");
  m.answer_return();
  CHECK(m.delegations.count() == 0);
  CHECK_FALSE(m.held);
}

TEST_CASE("S24 delegations: one that two users have parked goes back with the last CLOSE") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.opened(2, 1);
  m.delegations.take(*second, read_delegation(101));
  first->parked = second->parked = true;
  CHECK(m.recall(101) == NFS4_OK);
  CHECK(m.delegations.count() == 0);
  CHECK_FALSE(m.delegations.return_with_close(*second));
  CHECK(m.delegations.return_with_close(*first) == stateid_of(101));
  m.delegations.returned_with_close(*first, stateid_of(101), true);
  CHECK_FALSE(first->delegation());
  CHECK_FALSE(m.held);
  CHECK(m.calls.all().empty());
}

TEST_CASE("S24 delegations: one that others have, too, stays with them when one closes the file") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.opened(2, 1);
  m.delegations.take(*second, read_delegation(101));
  SUBCASE("with DELEGRETURN behind CLOSE") {
    CHECK_FALSE(m.delegations.return_with_close(*first));
  }
  SUBCASE("behind it") {
    m.delegations.leave(*first);
  }
  SUBCASE("without a word") {
    m.opens.release(*first);
  }
  CHECK_FALSE(first->delegation());
  CHECK(second->delegated());
  CHECK(m.ended.empty());
  CHECK(m.held);
  CHECK(m.calls.all().empty());
  CHECK(m.recall(101) == NFS4_OK);
  CHECK_FALSE(second->delegation());
  m.delegations.return_recalled();
  m.answer_return();
}

TEST_CASE("S24 delegations: one that was revoked has ended for all who were told of it") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.opened(2, 1);
  m.delegations.take(*second, read_delegation(101));
  m.delegations.revoked(*first, stateid_of(101));
  CHECK_FALSE(first->delegation());
  CHECK_FALSE(second->delegation());
  m.delegations.revoked(*second, stateid_of(101));
  CHECK(m.counters.delegations_revoked == 1);
}

TEST_CASE("S24 delegations: one that another replaces is returned") {
  ScriptedRecalls m;
  const auto first = m.delegated(1);
  SUBCASE("of the same open") {
    m.delegations.take(*first, read_delegation(102));
    CHECK(first->delegation()->stateid == stateid_of(102));
  }
  SUBCASE("of another open of the file") {
    const auto second = m.opened(2, 1);
    m.delegations.take(*second, read_delegation(102));
    CHECK(second->delegation()->stateid == stateid_of(102));
    CHECK_FALSE(first->delegation());
  }
  CHECK(m.delegations.count() == 1);
  REQUIRE(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  m.answer_return();
  CHECK(m.held);
  CHECK(m.recall(102) == NFS4_OK);
  m.delegations.return_recalled();
  m.answer_return();
}

TEST_CASE(
    "S24 delegations: one that a refused CLOSE was to return is returned, though another came and went "
    "since") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  REQUIRE(m.delegations.return_with_close(*open) == stateid_of(101));
  m.delegations.take(*open, read_delegation(102));
  CHECK(m.calls.all().empty());  // the CLOSE returns the one before
  m.delegations.start_return(*open);
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(102, 0));
  m.answer_return();
  CHECK(m.delegations.count() == 0);
  SUBCASE("refused") {
    m.delegations.returned_with_close(*open, stateid_of(101), false);
    CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
    m.answer_return();
  }
  SUBCASE("done") {
    m.delegations.returned_with_close(*open, stateid_of(101), true);
  }
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("S24 delegations: what was recalled or is returned is not recovered by an OPEN that tells of it") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.opened(2, 1);
  const auto opening = std::make_optional<Openings::Guard>(m.openings);
  SUBCASE("by DELEGRETURN, which is under way") {
    m.delegations.start_return(*first);
    m.delegations.take(*second, read_delegation(101));
    CHECK_FALSE(second->delegation());
    m.answer_return();
  }
  SUBCASE("by DELEGRETURN, which has overtaken the answer to the OPEN") {
    m.delegations.start_return(*first);
    m.answer_return();
    m.delegations.take(*second, read_delegation(101));
  }
  SUBCASE("with CLOSE") {
    REQUIRE(m.delegations.return_with_close(*first));
    m.delegations.take(*second, read_delegation(101));
    CHECK_FALSE(second->delegation());
    m.delegations.returned_with_close(*first, stateid_of(101), true);
    m.delegations.take(*second, read_delegation(101));
  }
  CHECK_FALSE(second->delegation());
  CHECK(m.delegations.count() == 0);
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("S24 delegations: what nobody has open is not returned under those who have the file") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  m.delegations.return_stray(file_handle(1), read_delegation(101));
  CHECK(m.calls.all().empty());
  CHECK(open->delegated());
  m.delegations.return_stray(file_handle(1), read_delegation(102));
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(102, 0));
  m.answer_return();
  CHECK(open->delegated());
}

// ---- recalls while OPENs are under way ----

TEST_CASE("S26 delegations: the return of what an OPEN may bring is put off for a short time only") {
  ScriptedRecalls m;
  auto stuck = std::make_optional<Openings::Guard>(m.openings);  // as one that the server answers DELAY
  CHECK(m.recall(101) == NFS4_OK);
  m.delegations.return_recalled();
  m.calls.pass(Delegations::kMostPutOff - 1ms);
  CHECK(m.calls.all().empty());
  m.calls.pass(2ms);
  REQUIRE(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  CHECK(m.recall(101) == NFS4_OK);
  m.answer_return();
  // Should the OPEN bring it yet, it is not believed in.
  const auto open = m.delegated(1);
  CHECK_FALSE(open->delegation());
  stuck.reset();
  m.calls.pass(1min);
  CHECK(m.calls.all() == "DELEGRETURN");
}

TEST_CASE("S26 delegations: a recall waits for the OPENs of then, and not for those that begin later") {
  ScriptedRecalls m;
  auto first = std::make_optional<Openings::Guard>(m.openings);
  m.openings.doubt();  // the answer to an earlier one was lost
  CHECK(m.recall(101) == NFS4_OK);
  CHECK(m.recall(101) == NFS4_OK);
  const Openings::Guard later(m.openings);
  CHECK(m.calls.all().empty());
  first.reset();
  CHECK(m.calls.all() == "DELEGRETURN");
  m.answer_return();
  m.calls.pass(1min);
  CHECK(m.calls.all() == "DELEGRETURN");
}

TEST_CASE("S26 delegations: what goes not back by the recall's file handle goes back by that of its OPEN") {
  ScriptedRecalls m;
  const Openings::Guard opening(m.openings);
  CHECK(m.recall(101) == NFS4_OK);
  m.delegations.return_recalled();
  m.calls.pass(Delegations::kMostPutOff + 1ms);
  REQUIRE(m.calls.all() == "DELEGRETURN");
  const auto open = m.opened(1);
  open->file.mark = 3;  // a security flavour that CB_RECALL does not tell of
  const auto refuse = [&] { m.calls.answer(Script().refuse<op::PUTFH>(NFS4ERR_WRONGSEC)); };
  const auto bring = [&] { m.delegations.take(*open, read_delegation(101)); };
  SUBCASE("which brings it behind the refusal") {
    refuse();
    m.calls.pass(1min);
    CHECK(m.calls.all() == "DELEGRETURN");
    bring();
  }
  SUBCASE("which brings it before") {
    bring();
    refuse();
  }
  CHECK_FALSE(open->delegated());
  CHECK(m.calls.all() == "DELEGRETURN DELEGRETURN");
  CHECK(m.calls.next().mark == 3);
  m.answer_return();
  m.calls.pass(1min);
  CHECK(m.calls.waiting() == 0);
  CHECK_FALSE(m.held);
}

TEST_CASE("delegations: while the caller returns one itself a recall is answered and nothing is sent") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  CHECK(m.delegations.return_with_close(*open) == stateid_of(101));
  CHECK(m.delegations.return_with_close(*open) == stateid_of(101));
  CHECK(m.ended.size() == 1);
  CHECK_FALSE(open->delegated());
  CHECK(m.recall(101) == NFS4_OK);
  m.delegations.return_recalled();
  CHECK(m.calls.all().empty());
}

TEST_CASE(
    "delegations: one of before is returned to the client id that it was granted to, and else only ends") {
  ScriptedRecalls m;
  const auto first = m.delegated(1), second = m.delegated(2);
  m.delegations.end_of_before(*first);
  CHECK(m.calls.all() == "DELEGRETURN");
  m.answer_return();
  m.calls.forget();
  m.calls.facts_now.client_id = 8;
  m.delegations.end_of_before(*second);
  CHECK(m.calls.all().empty());
  CHECK_FALSE(second->delegation());
  CHECK(m.ended == std::vector{file_handle(1), file_handle(2)});
}

TEST_CASE("delegations: the one that was revoked ends, not one that has taken its place") {
  ScriptedRecalls m;
  const auto open = m.delegated(1);
  m.delegations.revoked(*open, stateid_of(55));
  CHECK(open->delegation());
  m.delegations.revoked(*open, stateid_of(101));
  CHECK_FALSE(open->delegation());
  CHECK(m.counters.delegations_revoked == 1);
  CHECK(m.ended.size() == 1);
}

TEST_CASE("delegations: they are good while the lease lasts, nothing is recovered and nothing suspected") {
  ScriptedRecalls m;
  CHECK(m.delegations.good());
  m.calls.recovers = true;
  CHECK_FALSE(m.delegations.good());
  m.calls.recovers = false;
  m.delegations.suspect(true);
  CHECK_FALSE(m.delegations.good());
  m.delegations.suspect(false);
  CHECK(m.delegations.good());
  m.calls.pass(31s);
  CHECK_FALSE(m.delegations.good());
}

TEST_CASE("delegations: one for writing is wanted where somebody keeps data, and kept then") {
  ScriptedRecalls m;
  CHECK(m.delegations.wanted_for(OPEN4_SHARE_ACCESS_READ) == OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  CHECK(m.delegations.wanted_for(OPEN4_SHARE_ACCESS_BOTH) == OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  ScriptedWriting w;
  CHECK(w.delegations.wanted_for(OPEN4_SHARE_ACCESS_WRITE) == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
  CHECK(w.delegations.wanted_for(OPEN4_SHARE_ACCESS_READ) == OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  REQUIRE(w.open->writes_delegated());
  CHECK(w.open->delegation()->most == 1000);
  CHECK(w.counters.delegations_granted == 1);
  CHECK(w.held);
  CHECK(w.calls.all().empty());
  const auto blocks = nfs_space_limit4::of<NFS_LIMIT_BLOCKS>(nfs_modified_limit4{1U << 31, 512});
  const auto other = w.opened(2);
  w.delegations.take(*other, write_delegation(51, blocks));
  CHECK(other->delegation()->most == std::uint64_t{1} << 40);
}

TEST_CASE("delegations: one for writing that is recalled as soon as it is granted goes back") {
  ScriptedWriting m;
  const auto other = m.opened(2);
  open_write_delegation4 write;
  write.stateid = stateid_of(60);
  write.recall = true;
  m.delegations.take(*other, open_delegation4::of<OPEN_DELEGATE_WRITE>(write));
  CHECK(m.counters.delegations_recalled == 1);
  CHECK_FALSE(other->delegation());
  CHECK(m.keeper.asked == std::vector{file_handle(2)});
  m.keeper.waiting.clear();
  m.calls.settle();
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(60, 0));
  m.answer_return();
  CHECK(m.open->writes_delegated());
}

TEST_CASE("delegations: what is kept is written out before one for writing is returned") {
  ScriptedWriting m;
  CHECK(m.recall(50) == NFS4_OK);
  CHECK(m.keeper.asked.empty());  // the answer goes first
  m.delegations.return_recalled();
  CHECK(m.keeper.asked == std::vector{file_handle(1)});
  CHECK(m.calls.all().empty());
  CHECK(m.recall(50) == NFS4_OK);  // once more
  m.delegations.return_recalled();
  CHECK(m.keeper.asked.size() == 1);
  m.keeper.waiting.clear();
  m.calls.settle();
  CHECK(m.calls.all() == "DELEGRETURN");
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(50, 0));
  m.answer_return();
  CHECK_FALSE(m.held);
}

TEST_CASE("delegations: CB_GETATTR is told what was granted, and how large the file is now") {
  ScriptedWriting m;
  SUBCASE("not all of it") {
    Delegations::granted_with(*m.open, m.grant, m.attributes());
  }
  SUBCASE("nobody knows its state as it was granted") {
    m.keeper.size = 12;
  }
  std::optional<engine::Modifications::Scope> changing;
  SUBCASE("a call that may change it is under way") {
    Delegations::granted_with(*m.open, m.grant, m.attributes());
    m.keeper.size = 12;
    changing.emplace(m.modifications, engine::Changes{.handle = engine::hash_of(file_handle(1))});
  }
  SUBCASE("what came along is of another grant") {
    m.keeper.size = 12;
    Delegations::granted_with(*m.open, write_delegation(49), m.attributes());
  }
  SUBCASE("the OPEN that was granted it asked for no attributes, and a later one is told of it again") {
    m.keeper.size = 12;
    m.delegations.take(*m.open, m.grant);
    Delegations::granted_with(*m.open, m.grant, m.attributes());
  }
  SUBCASE("all of it is with the server") {
    Delegations::granted_with(*m.open, m.grant, m.attributes());
    m.keeper.size = 12;
    // A later OPEN changes nothing of that.
    Attributes later = m.attributes();
    later.change = 71;
    m.delegations.take(*m.open, m.grant);
    Delegations::granted_with(*m.open, m.grant, later);
    const auto told = m.delegations.attributes(file_handle(1));
    REQUIRE(told);
    CHECK(told->change == 70);
    CHECK(told->size == 12);
    CHECK_FALSE(m.delegations.attributes(file_handle(2)));
    CHECK(m.open->writes_delegated());
    return;
  }
  CHECK_FALSE(m.delegations.attributes(file_handle(1)));
  CHECK_FALSE(m.open->delegation());
  CHECK(m.ended == std::vector{file_handle(1)});
  m.keeper.waiting.clear();
  m.calls.settle();
  CHECK(m.calls.all() == "DELEGRETURN");
  m.answer_return();
}

TEST_CASE("delegations: CB_RECALL_ANY of the one kind leaves the other") {
  ScriptedWriting m;
  const auto other = m.delegated(2);
  m.delegations.recall_any(0, read_delegations());
  CHECK(m.open->delegated());
  CHECK_FALSE(other->delegated());
  bitmap4 writing;
  writing.value.push_back(1U << RCA4_TYPE_MASK_WDATA_DLG);
  m.delegations.recall_any(1, writing);
  CHECK(m.open->delegated());
  m.delegations.recall_any(0, writing);
  CHECK_FALSE(m.open->delegated());
  m.delegations.return_recalled();
  m.keeper.waiting.clear();
  m.calls.settle();
  m.answer_return();
  m.answer_return();
}

TEST_CASE("delegations: nobody is waited for who keeps no data any more") {
  ScriptedWriting m;
  CHECK(m.recall(50) == NFS4_OK);
  m.delegations.write_back_owner(nullptr);
  m.delegations.return_recalled();
  CHECK(m.calls.all() == "DELEGRETURN");
  m.answer_return();
}

}  // namespace nfsrdma
