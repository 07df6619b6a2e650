// The small parts of what a client has of a server, each by itself: opens and OPENs under way, leftovers, lock
// waits, changes.
#include "nfs4/state/client_state.h"

#include "engine/modifications.h"
#include "nfs4/state/lock_waits.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;

struct Openers {
  ScriptedCallLayer calls;
  Outstanding outstanding{calls.loop()};
  Openings openings{calls, outstanding};
  const ScriptedCallLayer::Last last{calls};
  /// A Reply as of now.
  CompoundReply reply() {
    auto task = calls.call(calls.begin("OPEN"));
    calls.start(task);
    calls.answer(Script().ok<op::PUTFH>());
    return std::move(*task.await_resume());
  }
};

}  // namespace

TEST_CASE("openings: what is closed while an OPEN is under way is over for it, and for no later one") {
  Openers m;
  const CompoundReply reply = m.reply();
  m.openings.closed(stateid_of(1));
  const Openings::Guard first(m.openings);
  const Openings::Guard second(m.openings);
  CHECK_FALSE(first.is_over(stateid_of(1), reply));
  m.openings.closed(stateid_of(2, 7));
  CHECK(first.is_over(stateid_of(2, 3), reply));  // whatever its seqid
  CHECK(second.is_over(stateid_of(2), reply));
  CHECK_FALSE(second.is_over(stateid_of(3), reply));
  const Openings::Guard third(m.openings);
  CHECK_FALSE(third.is_over(stateid_of(2), reply));
}

TEST_CASE("openings: what an OPEN brought under another client id is over") {
  Openers m;
  const Openings::Guard guard(m.openings);
  const CompoundReply before = m.reply();
  ++m.calls.facts_now.epoch;
  const CompoundReply after = m.reply();
  CHECK(guard.is_over(stateid_of(1), before));
  CHECK_FALSE(guard.is_over(stateid_of(1), after));
}

TEST_CASE("openings: beyond what is remembered everything counts as closed") {
  Openers m;
  const CompoundReply reply = m.reply();
  const Openings::Guard guard(m.openings);
  for (unsigned i = 0; i < 999; ++i) m.openings.closed(stateid_of(1));
  CHECK_FALSE(guard.is_over(stateid_of(2), reply));
  m.openings.closed(stateid_of(1));
  CHECK(guard.is_over(stateid_of(2), reply));
}

TEST_CASE("openings: those of a time have ended, whatever has begun since") {
  Openers m;
  CHECK(m.openings.have_ended(m.openings.now()));
  auto first = std::make_optional<Openings::Guard>(m.openings);
  const std::uint64_t then = m.openings.now();
  auto second = std::make_optional<Openings::Guard>(m.openings);
  CHECK_FALSE(m.openings.have_ended(then));
  CHECK_FALSE(m.openings.have_ended(m.openings.now()));
  first.reset();
  CHECK(m.openings.have_ended(then));
  CHECK_FALSE(m.openings.have_ended(m.openings.now()));
}

TEST_CASE("openings: each one that ends is told of, and they are outstanding until then") {
  Openers m;
  unsigned told = 0;
  m.openings.on_ended = [&] { ++told; };
  auto first = std::make_optional<Openings::Guard>(m.openings);
  auto second = std::make_optional<Openings::Guard>(m.openings);
  auto none = m.outstanding.none(m.calls.loop().now() + 1h);
  m.calls.start(none);
  first.reset();
  m.calls.settle();
  CHECK(told == 1);
  CHECK_FALSE(m.openings.empty());
  CHECK_FALSE(none.done());
  second.reset();
  m.calls.settle();
  CHECK(told == 2);
  CHECK(m.openings.empty());
  REQUIRE(none.done());
  CHECK(none.await_resume());
}

TEST_CASE("outstanding: who waits for the end of it has a deadline") {
  Openers m;
  const Openings::Guard guard(m.openings);
  auto none = m.outstanding.none(m.calls.loop().now() + 10ms);
  m.calls.start(none);
  m.calls.pass(9ms);
  CHECK_FALSE(none.done());
  m.calls.pass(2ms);
  REQUIRE(none.done());
  CHECK_FALSE(none.await_resume());
}

TEST_CASE(
    "openings: an answer that was lost leaves a doubt where an OPEN was under way, until the next epoch") {
  Openers m;
  m.openings.doubt();
  CHECK_FALSE(m.openings.in_doubt());
  {
    const Openings::Guard guard(m.openings);
    CHECK_FALSE(m.openings.in_doubt());
    m.openings.doubt();
  }
  CHECK(m.openings.in_doubt());
  ++m.calls.facts_now.epoch;
  CHECK_FALSE(m.openings.in_doubt());
}

TEST_CASE("opens: in the order of their registration, each until it is released") {
  ScriptedCallLayer calls;
  Opens opens(calls.loop());
  unsigned released = 0;
  opens.on_release = [&](Open&) { ++released; };
  const auto a = open_of(1, calls), b = open_of(2, calls), c = open_of(3, calls);
  for (const auto& open : {c, a, b}) opens.hold(open);
  CHECK(a->held);
  CHECK(opens.size() == 3);
  opens.release(*a);
  CHECK(released == 1);
  CHECK_FALSE(a->held);
  opens.release(*a);
  CHECK(released == 1);
  opens.hold(a);
  std::vector<std::shared_ptr<Open>> order;
  for (const auto& [number, open] : opens.all()) order.push_back(open);
  CHECK(order == std::vector{c, b, a});
  CHECK(opens.next_owner() != opens.next_owner());
}

TEST_CASE("opens: locked ranges are counted over files and owners") {
  ScriptedCallLayer calls;
  Opens opens(calls.loop());
  for (unsigned file = 1; file <= 2; ++file) {
    const auto open = open_of(file, calls);
    for (std::uint64_t owner = 1; owner <= 2; ++owner) {
      auto& state = open->locks[owner] = std::make_shared<LockState>(calls.loop());
      state->held.lock({0, 10}, true);
      state->held.lock({20, 10}, false);
    }
    opens.hold(open);
  }
  CHECK(opens.locks() == 8);
}

TEST_CASE("leftovers: stray opens are closed and stateids freed beside, and count as outstanding") {
  ScriptedCallLayer calls;
  Outstanding outstanding(calls.loop());
  const Opens opens(calls.loop());
  Leftovers leftovers(calls, opens, outstanding);
  const ScriptedCallLayer::Last last(calls);
  leftovers.close_in_background(file_handle(4), stateid_of(1), 7);
  leftovers.free_in_background(stateid_of(2));
  CHECK(calls.all() == "CLOSE FREE_STATEID");
  CHECK(calls.next_arguments<op::PUTFH>().object == file_handle(4));
  CHECK(calls.next_arguments<op::CLOSE>().open_stateid == stateid_of(1));
  auto none = outstanding.none(calls.loop().now() + 1h);
  calls.start(none);
  calls.fail();
  CHECK_FALSE(none.done());
  CHECK(calls.next_arguments<op::FREE_STATEID>().fsa_stateid == stateid_of(2));
  calls.answer(Script().ok<op::FREE_STATEID>());
  CHECK(none.done());
}

TEST_CASE("leftovers: what is open for a user by now is not closed") {
  ScriptedCallLayer calls;
  Outstanding outstanding(calls.loop());
  Opens opens(calls.loop());
  Leftovers leftovers(calls, opens, outstanding);
  const ScriptedCallLayer::Last last(calls);
  leftovers.close_in_background(file_handle(4), stateid_of(4), 7);
  CHECK(calls.all() == "CLOSE");
  opens.hold(open_of(4, calls));
  // The server refuses the CLOSE for now, and the next one would close what the program has open.
  calls.answer(Script().ok<op::PUTFH>().refuse<op::CLOSE>(NFS4ERR_SERVERFAULT));
  calls.pass(21ms);
  CHECK(calls.all() == "CLOSE");
  leftovers.close_in_background(file_handle(4), stateid_of(4, 9), 7);
  CHECK(calls.all() == "CLOSE");
  leftovers.close_in_background(file_handle(4), stateid_of(5), 7);  // another state of the file
  CHECK(calls.all() == "CLOSE CLOSE");
  calls.fail();
  auto none = outstanding.none(calls.loop().now() + 1h);
  calls.start(none);
  CHECK(none.done());
}

TEST_CASE("leftovers: where the session ends its stateids go with the client id") {
  ScriptedCallLayer calls;
  Outstanding outstanding(calls.loop());
  const Opens opens(calls.loop());
  Leftovers leftovers(calls, opens, outstanding);
  const ScriptedCallLayer::Last last(calls);
  calls.phase_now = CallLayer::Phase::ending;
  leftovers.free_in_background(stateid_of(2));
  CHECK(calls.all().empty());
  leftovers.close_in_background(file_handle(4), stateid_of(1),
                                7);  // an open is in the way of DESTROY_CLIENTID
  CHECK(calls.all() == "CLOSE");
  calls.fail();
}

TEST_CASE("lock waits: CB_NOTIFY_LOCK wakes who waits for that lock") {
  ScriptedCallLayer calls;
  LockWaits waits;
  LockWait mine(calls.loop()), other_owner(calls.loop()), other_file(calls.loop());
  const LockWaits::Guard first(waits, file_handle(1), 5, mine);
  const LockWaits::Guard second(waits, file_handle(1), 6, other_owner);
  const LockWaits::Guard third(waits, file_handle(2), 5, other_file);
  {
    LockWait gone(calls.loop());
    const LockWaits::Guard guard(waits, file_handle(1), 5, gone);
  }
  waits.notify(file_handle(1), lock_owner_of(77, 5));  // the server need not say our client id
  CHECK(mine.take_notified());
  CHECK_FALSE(other_owner.take_notified());
  CHECK_FALSE(other_file.take_notified());
  lock_owner4 foreign = lock_owner_of(77, 5);
  foreign.owner.value.pop_back();
  waits.notify(file_handle(1), foreign);
  foreign = lock_owner_of(77, 5);
  foreign.owner.value[0] = std::byte{1};
  waits.notify(file_handle(1), foreign);
  CHECK_FALSE(mine.take_notified());
}

TEST_CASE("lock waits: a lock owner's number is read from its own client's names only") {
  const std::uint64_t number = 0x0123456789abcdef;
  const lock_owner4 owner = lock_owner_of(7, number);
  CHECK(owner.clientid == 7);
  CHECK(own_number(owner, 7) == number);
  CHECK_FALSE(own_number(owner, 8));
}

TEST_CASE("modifications: a call counts when it begins and when it ends") {
  engine::Modifications modifications;
  const nfs_fh4 file = file_handle(1);
  Changes changes;
  changes.handle = hash_of(file);
  const auto before = modifications.of(file);
  std::uint64_t meanwhile = 0;
  {
    const engine::Modifications::Scope scope(modifications, changes);
    meanwhile = modifications.of(file);
    CHECK(meanwhile != before);
    CHECK(modifications.is_under_way(file));
  }
  CHECK_FALSE(modifications.is_under_way(file));
  CHECK(modifications.of(file) != meanwhile);
  changes.handle = hash_of(file) + 1;  // another file's
  const auto now = modifications.of(file);
  {
    const engine::Modifications::Scope scope(modifications, changes);
    CHECK_FALSE(modifications.is_under_way(file));
  }
  CHECK(modifications.of(file) == now);
  changes.handle.reset();
  changes.any = true;
  const auto only = modifications.after_call(file);
  {
    const engine::Modifications::Scope scope(modifications, changes);
    CHECK(modifications.of(file) != only);
    CHECK(modifications.is_under_way(file));
  }
  CHECK(modifications.of(file) == only);
}

}  // namespace nfsrdma
