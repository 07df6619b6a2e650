// The model server's slots, sessions and client ids, and the habits that a seed draws (RFC 8881 2.10, 18.35,
// 18.36, 18.46).
#include <doctest/doctest.h>

#include "support/model_fixture.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

}  // namespace

// ---- slots ----

TEST_CASE("model: a retransmission is answered from the reply cache, failures too, and executed once") {
  OneClient m;
  CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
  CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
  CHECK(m.client.call(make_directory("d")).status == NFS4ERR_EXIST);
  CHECK(m.state.executed.size() == 5);  // EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, CREATE twice
  CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4ERR_EXIST);
  CHECK(m.state.executed.size() == 5);
  CHECK(m.state.executed.back().gist == "d");
  CHECK(m.state.executed.back().client == "a");
  CHECK(m.state.executed.back().status == NFS4ERR_EXIST);
  CHECK(m.state.problems == "");
}

TEST_CASE("model: a retransmission of what is under way gets DELAY at SEQUENCE, or waits") {
  SUBCASE("DELAY, as Linux") {
    OneClient m;
    Begun slow = m.client.begin(make_directory("d"));
    CHECK(slow.execution->stage == Execution::Stage::ready);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4ERR_DELAY);
    CHECK(m.client.call(make_directory("e"), 1).status == NFS4_OK);  // other slots go on
    CHECK(m.client.finish(slow).status == NFS4_OK);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
    CHECK(m.state.problems == "");
  }
  SUBCASE("it waits") {
    OneClient m(habits_with([](Habits& h) { h.at_work = Habits::AtWork::hold; }));
    Begun slow = m.client.begin(make_directory("d"));
    CHECK(m.client.begin(make_directory("d"), 0, true, true).execution->stage == Execution::Stage::parked);
    CHECK(m.client.finish(slow).status == NFS4_OK);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
  }
}

TEST_CASE("model: a slot given away while its request is under way") {
  OneClient m;
  Begun slow = m.client.begin(make_directory("d"));
  CHECK(m.client.call(make_directory("e")).status == NFS4ERR_SEQ_MISORDERED);
  CHECK(m.state.problems.find("under way") != std::string::npos);
}

TEST_CASE("model: a sequence id that comes again with another request") {
  SUBCASE("nobody notices, and the other request's answer is given") {
    OneClient m;
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4_OK);
    CHECK(m.state.find("/other") == nullptr);
    CHECK(m.state.problems.find("for another request") != std::string::npos);
  }
  SUBCASE("the number of operations tells") {
    OneClient m(habits_with([](Habits& h) { h.false_retry = Habits::FalseRetry::by_shape; }));
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4_OK);
    CHECK(m.client.call(Request().add<op::PUTROOTFH>({}), 0, true, true).status == NFS4ERR_SEQ_FALSE_RETRY);
  }
  SUBCASE("always") {
    OneClient m(habits_with([](Habits& h) { h.false_retry = Habits::FalseRetry::exact; }));
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4ERR_SEQ_FALSE_RETRY);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
  }
}

TEST_CASE("model: a retransmission whose reply was not to be cached") {
  const Request request = Request().add<op::PUTROOTFH>({});
  SUBCASE("fails in SEQUENCE") {
    OneClient m;
    CHECK(m.client.call(request, 0, false).status == NFS4_OK);
    const Results again = m.client.call(request, 0, false, true);
    CHECK(again.status == NFS4ERR_RETRY_UNCACHED_REP);
    CHECK(again.count == 1);
  }
  SUBCASE("fails behind a good SEQUENCE, as Linux") {
    OneClient m(habits_with([](Habits& h) { h.uncached_behind_sequence = true; }));
    CHECK(m.client.call(request, 0, false).status == NFS4_OK);
    Results again = m.client.call(request, 0, false, true);
    CHECK(again.status == NFS4ERR_RETRY_UNCACHED_REP);
    CHECK(again.count == 2);
    CHECK(status_of(m.client.first) == NFS4_OK);
    CHECK(status_of(again.take<op::PUTROOTFH>()) == NFS4ERR_RETRY_UNCACHED_REP);
  }
  SUBCASE("a SEQUENCE that is alone is known") {
    OneClient m;
    CHECK(m.client.call(Request(), 0, false).status == NFS4_OK);
    CHECK(m.client.call(Request(), 0, false, true).status == NFS4_OK);
  }
}

TEST_CASE("model: slots and sequence ids that are none") {
  OneClient m(habits_with([](Habits& h) { h.checks_high_slot = true; }));
  CHECK(m.client.call(Request(), 4).status == NFS4ERR_BADSLOT);
  m.client.highest = 4;
  CHECK(m.client.call(Request()).status == NFS4ERR_BAD_HIGH_SLOT);
  m.client.highest = 3;
  CHECK(m.client.call(Request()).status == NFS4ERR_SEQ_MISORDERED);  // the one before was not executed
  m.client.session[0] ^= std::byte{1};
  CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
}

TEST_CASE("model: limits of a session") {
  ModelWorld world;
  world.state.habits.max_response_cached = 700;
  ModelClient client(world, "a");
  client.wanted = {0, 600, 900, 900, 3, 1, {}};
  REQUIRE(client.establish() == NFS4_OK);
  const std::uint64_t file = add_file(world.state, "/f", std::string(2000, 'x'));
  const READ4args read{{}, 0, 1000};
  const auto reads = [&](bool cache) {
    return client.call(Request().add<op::PUTFH>({handle_of(file)}).add<op::READ>(read), 0, cache).status;
  };
  CHECK(reads(false) == NFS4ERR_REP_TOO_BIG);
  CHECK(reads(true) == NFS4ERR_REP_TOO_BIG_TO_CACHE);
  const READ4args fits{{}, 0, 650};
  CHECK(client.call(Request().add<op::PUTFH>({handle_of(file)}).add<op::READ>(fits), 0, false).status ==
        NFS4_OK);
  Request many;
  for (int i = 0; i < 3; ++i) many.add<op::PUTROOTFH>({});
  CHECK(client.call(many).status == NFS4ERR_TOO_MANY_OPS);
  --client.sequences[0];  // what SEQUENCE refuses leaves the slot alone
  Request large = make_directory(std::string(250, 'd'));
  large.add<op::LOOKUP>({{std::string(250, 'x')}});
  CHECK(client.call(make_directory(std::string(250, 'd'))).status == NFS4_OK);
  ModelClient small(world, "b", 2);
  small.wanted = {0, 520, 900, 900, 8, 1, {}};
  REQUIRE(small.establish() == NFS4_OK);
  CHECK(small.call(large).status == NFS4ERR_REQ_TOO_BIG);
}

TEST_CASE("model: slots above the target go when the client has let them fall, and come back") {
  OneClient m(habits_with([](Habits& h) { h.retires_slots = true; }));
  CHECK(m.client.call(Request(), 3).status == NFS4_OK);
  m.state.target_highest = 1;
  CHECK(m.client.call(Request(), 3).status == NFS4_OK);  // still in use
  CHECK(m.client.first.get<NFS4_OK>()->sr_target_highest_slotid == 1);
  CHECK(m.client.call(Request(), 1).status == NFS4_OK);
  CHECK(m.client.first.get<NFS4_OK>()->sr_highest_slotid == 1);
  CHECK(m.client.call(Request(), 3).status == NFS4ERR_BADSLOT);
  m.state.target_highest = ~0U;
  CHECK(m.client.call(Request(), 0).status == NFS4_OK);
  m.client.sequences[3] = 0;
  CHECK(m.client.call(Request(), 3).status == NFS4_OK);
  CHECK(m.state.problems == "");
}

TEST_CASE("model: a connection that is not bound") {
  OneClient m(habits_with([](Habits& h) { h.associates_connections = false; }));
  m.client.connection = 9;
  CHECK(m.client.call(Request()).status == NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  const auto bound = m.client.alone<op::BIND_CONN_TO_SESSION>({m.client.session, CDFC4_FORE_OR_BOTH, false});
  REQUIRE(status_of(bound) == NFS4_OK);
  CHECK(bound.get<NFS4_OK>()->bctsr_dir == CDFS4_BOTH);
  CHECK(m.client.call(Request(), 0, true, true).status == NFS4_OK);
  m.state.sessions.begin()->second.connections.clear();
  CHECK(m.client.call(Request()).status == NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  m.state.habits.grants_backchannel = false;
  const auto fore = m.client.alone<op::BIND_CONN_TO_SESSION>({m.client.session, CDFC4_FORE_OR_BOTH, false});
  CHECK(fore.get<NFS4_OK>()->bctsr_dir == CDFS4_FORE);
  const auto back = m.client.alone<op::BIND_CONN_TO_SESSION>({m.client.session, CDFC4_BACK, false});
  CHECK(status_of(back) == NFS4ERR_INVAL);
}

// ---- clients ----

TEST_CASE("model: CREATE_SESSION that failed has used its sequence id, or has not") {
  using Failures = Habits::Failures;
  const auto try_it = [](Failures failures, nfsstat4 failure) {
    ModelWorld world;
    world.state.habits.create_session_failures = failures;
    ModelClient client(world, "a");
    REQUIRE(status_of(client.exchange_id()) == NFS4_OK);
    world.state.rules.push_back({OP_CREATE_SESSION, failure, 1, 0});
    CHECK(status_of(client.create_session()) == failure);
    return status_of(client.create_session());
  };
  CHECK(try_it(Failures::forgotten, NFS4ERR_NOSPC) == NFS4_OK);
  CHECK(try_it(Failures::remembered, NFS4ERR_NOSPC) == NFS4ERR_NOSPC);
  CHECK(try_it(Failures::remembered, NFS4ERR_DELAY) == NFS4_OK);
  CHECK(try_it(Failures::remembered_with_delay, NFS4ERR_DELAY) == NFS4ERR_DELAY);
}

TEST_CASE("model: CREATE_SESSION that comes again gets the same session; out of order it gets none") {
  OneClient m;
  const sessionid4 session = m.client.session;
  --m.client.create_sequence;
  CHECK(m.client.create_session().get<NFS4_OK>()->csr_sessionid == session);
  CHECK(m.state.sessions.size() == 1);
  m.client.create_sequence += 5;
  CHECK(status_of(m.client.create_session()) == NFS4ERR_SEQ_MISORDERED);
}

TEST_CASE("model: the cases of EXCHANGE_ID") {
  OneClient m;
  const clientid4 id = m.client.id;
  const std::uint64_t file = add_file(m.state, "/f");
  const auto confirmed = [](const EXCHANGE_ID4res& res) {
    const auto* ok = res.get<NFS4_OK>();
    return ok != nullptr && (ok->eir_flags & EXCHGID4_FLAG_CONFIRMED_R) != 0;
  };
  SUBCASE("the same again") {
    const auto again = m.client.exchange_id();
    CHECK(confirmed(again));
    CHECK(again.get<NFS4_OK>()->eir_clientid == id);
    CHECK(again.get<NFS4_OK>()->eir_sequenceid == m.client.create_sequence);
  }
  SUBCASE("another instance: the old one's state goes when the new one is confirmed") {
    REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
    ModelClient reborn(m.world, "a", 2);
    reborn.verifier[0] = std::byte{9};
    CHECK(!confirmed(reborn.exchange_id()));
    CHECK(reborn.id != id);
    CHECK(m.state.opens.size() == 1);
    CHECK(m.client.call(Request()).status == NFS4_OK);
    Begun busy = m.client.begin(Request().add<op::PUTROOTFH>({}));
    CHECK(status_of(reborn.create_session()) == NFS4ERR_DELAY);
    m.client.finish(busy);
    CHECK(status_of(reborn.create_session()) == NFS4_OK);
    CHECK(m.state.opens.empty());
    CHECK(m.state.clients.size() == 1);
    CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
  }
  SUBCASE("an unconfirmed one is replaced") {
    ModelClient next(m.world, "b", 2);
    CHECK(status_of(next.exchange_id()) == NFS4_OK);
    const clientid4 first = next.id;
    CHECK(status_of(next.exchange_id()) == NFS4_OK);
    CHECK(next.id != first);
    CHECK(m.state.clients.size() == 2);
  }
  SUBCASE("another principal") {
    REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
    ModelClient thief(m.world, "a", 2);
    thief.who.uid = 7;
    CHECK(status_of(thief.exchange_id()) == NFS4ERR_CLID_INUSE);
    m.world.pass(200s);
    CHECK(status_of(thief.exchange_id()) == NFS4_OK);
    CHECK(m.state.opens.empty());
  }
  SUBCASE("updates") {
    CHECK(confirmed(m.client.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A)));
    ModelClient other(m.world, "b");
    CHECK(status_of(other.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A)) == NFS4ERR_NOENT);
    ModelClient thief(m.world, "a");
    thief.who.uid = 7;
    CHECK(status_of(thief.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A)) == NFS4ERR_PERM);
    ModelClient reborn(m.world, "a");
    reborn.verifier[0] = std::byte{9};
    CHECK(status_of(reborn.exchange_id(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A)) == NFS4ERR_NOT_SAME);
  }
  (void)file;
}

TEST_CASE("model: a client goes when nothing of it is left") {
  OneClient m;
  add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(m.client.alone<op::DESTROY_CLIENTID>({m.client.id}).dcr_status == NFS4ERR_CLIENTID_BUSY);
  CHECK(status_of(m.client.on<op::CLOSE>("/f", {0, open})) == NFS4_OK);
  Begun busy = m.client.begin(Request().add<op::PUTROOTFH>({}));
  CHECK(m.client.alone<op::DESTROY_SESSION>({m.client.session}).dsr_status == NFS4ERR_DELAY);
  m.client.finish(busy);
  CHECK(m.client.alone<op::DESTROY_SESSION>({m.client.session}).dsr_status == NFS4_OK);
  CHECK(m.client.alone<op::DESTROY_CLIENTID>({m.client.id}).dcr_status == NFS4_OK);
  CHECK(m.client.alone<op::DESTROY_CLIENTID>({m.client.id}).dcr_status == NFS4ERR_STALE_CLIENTID);
  CHECK(m.state.clients.empty());
}

// ---- chance ----

TEST_CASE("model: the same seed draws the same habits, and every draw can serve") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Chance one(seed), same(seed);
    Habits habits = Habits::drawn(one);
    CHECK(Habits::drawn(same).delegation_percent == habits.delegation_percent);
    CHECK(one.next() == same.next());
    // Those refuse what OneClient begins with now and then.
    for (const char* group : {"delays", "failures"}) habits.leave_out(group);
    habits.trouble_percent = 0;
    OneClient m(habits);
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.state.problems == "");
  }
}

}  // namespace nfsrdma::testing
