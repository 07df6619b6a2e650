// The server's calls to a client go to the part that they are meant for (RFC 8881 20). How they are judged and
// answered: callback_test.cpp.
#include "nfs4/session/backchannel.h"

#include "nfs4/state/client_state.h"
#include "support/callback_call.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using test::CallbackCall;

constexpr sessionid4 kCalledSession{std::byte{7}};

struct CalledBack {
  ScriptedCallLayer calls;
  rpc::Channel channel{calls.loop(), {}, {}};  // never connected: answers go nowhere
  engine::Modifications modifications;
  engine::ServerCounters counters;
  SlotQueue slots{calls.loop(), counters};
  Lease lease{calls};
  ClientState state{calls, lease, modifications, counters, false, [](bool) {}};
  LockWaits lock_waits;
  BackgroundCopies copies;
  Backchannel backchannel{state.delegations, lock_waits, copies, slots, lease};
  sequenceid4 sequence = 0;
  const ScriptedCallLayer::Last last{calls};

  CalledBack() {
    calls.facts_now.backchannel = true;
    slots.reset(8);
    backchannel.service().announce(back_channel(4096, 4096, 4));
    backchannel.service().reset(kCalledSession, 2, back_channel(4096, 4096, 4));
  }
  template <class Op>
  void call(const typename Op::Args& args) {
    const auto bytes = CallbackCall(kCalledSession).sequence(++sequence).add<Op>(args).bytes();
    backchannel.answer(channel, {}, bytes);
    calls.settle();
  }
};

}  // namespace

TEST_CASE("backchannel: what CB_RECALL and CB_RECALL_ANY ask for is returned behind the answer") {
  CalledBack m;
  const auto first = open_of(1, m.calls), second = open_of(2, m.calls);
  for (const auto& open : {first, second}) {
    m.state.opens.hold(open);
    m.state.delegations.take(*open, read_delegation(open == first ? 101 : 102));
  }
  CB_RECALL4args recall;
  recall.stateid = stateid_of(101);
  recall.fh = file_handle(1);
  m.call<cb_op::CB_RECALL>(recall);
  CHECK_FALSE(first->delegation());
  CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>());
  CB_RECALL_ANY4args any;
  any.craa_objects_to_keep = 1;
  any.craa_type_mask.value.push_back(1U << RCA4_TYPE_MASK_RDATA_DLG);
  m.call<cb_op::CB_RECALL_ANY>(any);
  CHECK(second->delegation());
  any.craa_objects_to_keep = 0;
  m.call<cb_op::CB_RECALL_ANY>(any);
  CHECK_FALSE(second->delegation());
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>());
}

TEST_CASE("backchannel: slots that are recalled are not used, and a SEQUENCE says so at once") {
  CalledBack m;
  m.call<cb_op::CB_RECALL_SLOT>({2});
  CHECK(m.slots.table().target() == 2);
  CHECK(m.calls.next().what == "SEQUENCE");
  m.calls.fail();
}

TEST_CASE("backchannel: CB_NOTIFY_LOCK wakes who waits for the lock") {
  CalledBack m;
  LockWait wait(m.calls.loop());
  const LockWaits::Guard guard(m.lock_waits, file_handle(1), 5, wait);
  m.call<cb_op::CB_NOTIFY_LOCK>({file_handle(2), lock_owner_of(7, 5)});
  CHECK_FALSE(wait.take_notified());
  m.call<cb_op::CB_NOTIFY_LOCK>({file_handle(1), lock_owner_of(7, 5)});
  CHECK(wait.take_notified());
}

TEST_CASE("backchannel: CB_OFFLOAD tells how a copy ended, and how much of it was made") {
  CalledBack m;
  BackgroundCopies::One made(m.copies, m.calls.loop()), failed(m.copies, m.calls.loop());
  made.is(stateid_of(1));
  failed.is(stateid_of(2));
  CB_OFFLOAD4args args;
  args.coa_stateid = stateid_of(1);
  args.coa_offload_info.emplace<NFS4_OK>().wr_count = 99;
  m.call<cb_op::CB_OFFLOAD>(args);
  REQUIRE(made.outcome());
  CHECK(made.outcome()->status == NFS4_OK);
  CHECK(made.outcome()->written.wr_count == 99);
  CHECK_FALSE(failed.outcome());
  args.coa_stateid = stateid_of(2);
  args.coa_offload_info.select(NFS4ERR_NOSPC);
  m.call<cb_op::CB_OFFLOAD>(args);
  REQUIRE(failed.outcome());
  CHECK(failed.outcome()->status == NFS4ERR_NOSPC);
}

}  // namespace nfsrdma
