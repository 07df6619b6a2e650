// The test server itself, by what the RFCs say of servers: a habit, a test. Request by request, on virtual
// time; the product's client is not in it.
#include <doctest/doctest.h>

#include <algorithm>

#include "support/model_client.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

struct One {
  ModelWorld world;
  ModelClient client{world, "a"};
  ServerState& state = world.state;
  explicit One(const Habits& habits = {}) {
    state.habits = habits;
    REQUIRE(client.establish() == NFS4_OK);
  }
};

struct Two : One {
  ModelClient other{world, "b", 2};
  explicit Two(const Habits& habits = {}) : One(habits) { REQUIRE(other.establish() == NFS4_OK); }
};

template <class Change>
Habits with(Change change, Habits habits = {}) {
  change(habits);
  return habits;
}

Request make_directory(const std::string& name) {
  CREATE4args args;
  args.objtype = createtype4::of<NF4DIR>();
  args.objname.value = name;
  return Request().add<op::PUTROOTFH>({}).add<op::CREATE>(args);
}

createhow4 exclusively(unsigned verifier) {
  creatverfattr how;
  how.cva_verf[0] = static_cast<std::byte>(verifier);
  return createhow4::of<EXCLUSIVE4_1>(how);
}

fattr4 size_of(std::uint64_t size) {
  WireChanges changes;
  changes.size = size;
  return encode_changes(changes);
}

/// A file with `text` in it.
std::uint64_t add_file(ServerState& state, const std::string& path, const std::string& text = "") {
  Inode& inode = state.make(path, NF4REG);
  state.set_content(inode, text);
  return inode.id;
}

const std::string& content(ServerState& state, std::uint64_t inode) {
  return state.inodes.at(inode).content.data();
}

// ---- slots ----

TEST_CASE("model: a retransmission is answered from the reply cache, failures too, and executed once") {
  One m;
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
    One m;
    Begun slow = m.client.begin(make_directory("d"));
    CHECK(slow.execution->stage == Execution::Stage::ready);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4ERR_DELAY);
    CHECK(m.client.call(make_directory("e"), 1).status == NFS4_OK);  // other slots go on
    CHECK(m.client.finish(slow).status == NFS4_OK);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
    CHECK(m.state.problems == "");
  }
  SUBCASE("it waits") {
    One m(with([](Habits& h) { h.at_work = Habits::AtWork::hold; }));
    Begun slow = m.client.begin(make_directory("d"));
    CHECK(m.client.begin(make_directory("d"), 0, true, true).execution->stage == Execution::Stage::parked);
    CHECK(m.client.finish(slow).status == NFS4_OK);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
  }
}

TEST_CASE("model: a slot given away while its request is under way") {
  One m;
  Begun slow = m.client.begin(make_directory("d"));
  CHECK(m.client.call(make_directory("e")).status == NFS4ERR_SEQ_MISORDERED);
  CHECK(m.state.problems.find("under way") != std::string::npos);
}

TEST_CASE("model: a sequence id that comes again with another request") {
  SUBCASE("nobody notices, and the other request's answer is given") {
    One m;
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4_OK);
    CHECK(m.state.find("/other") == nullptr);
    CHECK(m.state.problems.find("for another request") != std::string::npos);
  }
  SUBCASE("the number of operations tells") {
    One m(with([](Habits& h) { h.false_retry = Habits::FalseRetry::by_shape; }));
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4_OK);
    CHECK(m.client.call(Request().add<op::PUTROOTFH>({}), 0, true, true).status == NFS4ERR_SEQ_FALSE_RETRY);
  }
  SUBCASE("always") {
    One m(with([](Habits& h) { h.false_retry = Habits::FalseRetry::exact; }));
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.client.call(make_directory("other"), 0, true, true).status == NFS4ERR_SEQ_FALSE_RETRY);
    CHECK(m.client.call(make_directory("d"), 0, true, true).status == NFS4_OK);
  }
}

TEST_CASE("model: a retransmission whose reply was not to be cached") {
  const Request request = Request().add<op::PUTROOTFH>({});
  SUBCASE("fails in SEQUENCE") {
    One m;
    CHECK(m.client.call(request, 0, false).status == NFS4_OK);
    const Results again = m.client.call(request, 0, false, true);
    CHECK(again.status == NFS4ERR_RETRY_UNCACHED_REP);
    CHECK(again.count == 1);
  }
  SUBCASE("fails behind a good SEQUENCE, as Linux") {
    One m(with([](Habits& h) { h.uncached_behind_sequence = true; }));
    CHECK(m.client.call(request, 0, false).status == NFS4_OK);
    Results again = m.client.call(request, 0, false, true);
    CHECK(again.status == NFS4ERR_RETRY_UNCACHED_REP);
    CHECK(again.count == 2);
    CHECK(status_of(m.client.first) == NFS4_OK);
    CHECK(status_of(again.take<op::PUTROOTFH>()) == NFS4ERR_RETRY_UNCACHED_REP);
  }
  SUBCASE("a SEQUENCE that is alone is known") {
    One m;
    CHECK(m.client.call(Request(), 0, false).status == NFS4_OK);
    CHECK(m.client.call(Request(), 0, false, true).status == NFS4_OK);
  }
}

TEST_CASE("model: slots and sequence ids that are none") {
  One m(with([](Habits& h) { h.checks_high_slot = true; }));
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
  One m(with([](Habits& h) { h.retires_slots = true; }));
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
  One m(with([](Habits& h) { h.associates_connections = false; }));
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
  One m;
  const sessionid4 session = m.client.session;
  --m.client.create_sequence;
  CHECK(m.client.create_session().get<NFS4_OK>()->csr_sessionid == session);
  CHECK(m.state.sessions.size() == 1);
  m.client.create_sequence += 5;
  CHECK(status_of(m.client.create_session()) == NFS4ERR_SEQ_MISORDERED);
}

TEST_CASE("model: the cases of EXCHANGE_ID") {
  One m;
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
  One m;
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

// ---- leases ----

TEST_CASE("model: a lease that runs out") {
  SUBCASE("as a courtesy all stays until somebody wants it") {
    Two m;
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    REQUIRE(status_of(m.client.lock(file, open, 0, 10)) == NFS4_OK);
    m.world.pass(100s);
    CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4_OK);
    m.world.pass(100s);
    REQUIRE(status_of(m.other.open("/", "f")) == NFS4_OK);
    const auto others = ModelClient::stateid(m.other.open("/", "f"));
    CHECK(status_of(m.other.lock(file, others, 0, 10)) == NFS4_OK);
    CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
  }
  SUBCASE("only what is in the way is lost") {
    Two m(with([](Habits& h) { h.conflict_purges = false; }));
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    REQUIRE(status_of(m.client.lock(file, open, 0, 10)) == NFS4_OK);
    m.world.pass(100s);
    const auto others = ModelClient::stateid(m.other.open("/", "f"));
    CHECK(status_of(m.other.lock(file, others, 0, 10)) == NFS4_OK);
    CHECK(m.client.call(Request()).status == NFS4_OK);
    CHECK((m.client.flags() & SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED) != 0);
  }
  SUBCASE("all is revoked, and told until it is freed") {
    One m(with([](Habits& h) { h.expiry = Habits::Expiry::revoke; }));
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    m.world.pass(100s);
    CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4ERR_EXPIRED);
    CHECK(m.client.flags() == SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED);
    TEST_STATEID4args test;
    test.ts_stateids.value.push_back(open);
    auto tested = m.client.call(Request().add<op::TEST_STATEID>(test)).take<op::TEST_STATEID>();
    CHECK(tested.get<NFS4_OK>()->tsr_status_codes.value.front() == NFS4ERR_EXPIRED);
    CHECK(m.client.call(Request().add<op::FREE_STATEID>({open})).status == NFS4_OK);
    CHECK(m.client.call(Request()).status == NFS4_OK);
    CHECK(m.client.flags() == 0);
  }
  SUBCASE("the client is forgotten") {
    One m(with([](Habits& h) { h.expiry = Habits::Expiry::purge; }));
    m.world.pass(89s);
    CHECK(m.client.call(Request()).status == NFS4_OK);
    m.world.pass(91s);
    CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
    CHECK(status_of(m.client.create_session()) == NFS4ERR_STALE_CLIENTID);
  }
  SUBCASE("not while a request is under way") {
    One m(with([](Habits& h) { h.expiry = Habits::Expiry::purge; }));
    Begun slow = m.client.begin(make_directory("d"));
    m.world.pass(1000s);
    m.state.look_at_time();
    CHECK(m.client.finish(slow).status == NFS4_OK);
  }
}

// ---- restarts ----

TEST_CASE("model: after a restart what was had is reclaimed, and by nobody else") {
  Two m;
  const std::uint64_t file = add_file(m.state, "/f", "old");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  REQUIRE(status_of(m.client.lock(file, open, 0, 10)) == NFS4_OK);
  m.state.restart(60s);
  CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
  CHECK(status_of(m.client.create_session()) == NFS4ERR_STALE_CLIENTID);
  REQUIRE(m.client.establish(true) == NFS4_OK);
  CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4ERR_STALE_STATEID);
  CHECK(status_of(m.client.open("/", "f")) == NFS4ERR_GRACE);
  const auto again = m.client.reclaim(file);
  REQUIRE(status_of(again) == NFS4_OK);
  CHECK(status_of(m.client.lock(file, ModelClient::stateid(again), 0, 10, true)) == NFS4_OK);
  CHECK(m.client.complete() == NFS4_OK);
  CHECK(m.client.complete() == NFS4ERR_COMPLETE_ALREADY);
  CHECK(status_of(m.client.reclaim(file)) == NFS4ERR_NO_GRACE);

  ModelClient stranger(m.world, "stranger", 3);
  REQUIRE(stranger.establish(true) == NFS4_OK);
  CHECK(status_of(stranger.reclaim(file)) == NFS4ERR_RECLAIM_BAD);
  REQUIRE(m.other.establish(true) == NFS4_OK);
  CHECK(m.state.problems == "");
  const auto never = m.other.reclaim(file);  // what a server cannot know, and the oracle does
  CHECK(status_of(never) == NFS4_OK);
  CHECK(m.state.problems.find("never was") != std::string::npos);
  CHECK(status_of(m.other.lock(file, ModelClient::stateid(never), 5, 1, true)) == NFS4ERR_RECLAIM_CONFLICT);
  m.world.pass(61s);
  CHECK(m.other.complete() == NFS4_OK);
  CHECK(status_of(m.other.reclaim(file)) == NFS4ERR_NO_GRACE);
  CHECK(status_of(m.client.open("/", "f")) == NFS4_OK);
}

TEST_CASE("model: who does not come back within the grace period may not reclaim after the next one") {
  One m;
  const std::uint64_t file = add_file(m.state, "/f");
  REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
  SUBCASE("it was over") {
    m.state.restart(10s);
    m.world.pass(11s);
    m.state.look_at_time();
    m.state.restart(10s);
    REQUIRE(m.client.establish(true) == NFS4_OK);
    CHECK(status_of(m.client.reclaim(file)) == NFS4ERR_RECLAIM_BAD);
  }
  SUBCASE("it was cut short") {
    m.state.restart(10s);
    m.state.restart(10s);
    REQUIRE(m.client.establish(true) == NFS4_OK);
    CHECK(status_of(m.client.reclaim(file)) == NFS4_OK);
    CHECK(m.state.problems == "");
  }
}

TEST_CASE("model: what a client lost without knowing it is not reclaimed after a restart") {
  One m(with([](Habits& h) { h.expiry = Habits::Expiry::revoke; }));
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  m.world.pass(100s);
  m.state.look_at_time();
  SUBCASE("it does not know") {
    m.state.restart(10s);
    REQUIRE(m.client.establish(true) == NFS4_OK);
    CHECK(status_of(m.client.reclaim(file)) == NFS4ERR_RECLAIM_BAD);
  }
  SUBCASE("it has found out, and opened the file again") {
    CHECK(m.client.call(Request().add<op::FREE_STATEID>({open})).status == NFS4_OK);
    REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
    m.state.restart(10s);
    REQUIRE(m.client.establish(true) == NFS4_OK);
    CHECK(status_of(m.client.reclaim(file)) == NFS4_OK);
  }
  CHECK(m.state.problems == "");
}

TEST_CASE("model: the grace period ends when all have reclaimed") {
  Two m(with([](Habits& h) { h.grace_ends_early = true; }));
  m.state.restart(60s);
  REQUIRE(m.client.establish() == NFS4_OK);
  CHECK(m.state.in_grace());
  REQUIRE(m.other.establish() == NFS4_OK);
  CHECK(!m.state.in_grace());
}

TEST_CASE("model: what waits for the end of the grace period") {
  One m(with([](Habits& h) { h.grace_stops_names = true; }));
  const std::uint64_t file = add_file(m.state, "/f", "text");
  m.state.restart(60s);
  REQUIRE(m.client.establish() == NFS4_OK);
  CHECK(status_of(m.client.on<op::READ>(file, {{}, 0, 4})) == NFS4ERR_GRACE);
  CHECK(status_of(m.client.on<op::SETATTR>(file, {{}, size_of(1)})) == NFS4ERR_GRACE);
  CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4ERR_GRACE);
  CHECK(status_of(m.client.on<op::LOCKT>(file, {WRITE_LT, 0, 1, {}})) == NFS4ERR_GRACE);
  CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
  m.world.pass(60s);
  CHECK(status_of(m.client.on<op::READ>(file, {{}, 0, 4})) == NFS4_OK);
  CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4_OK);
}

TEST_CASE("model: an OPEN before RECLAIM_COMPLETE is a fault") {
  ModelWorld world;
  ModelClient client(world, "a");
  add_file(world.state, "/f");
  REQUIRE(client.establish(true) == NFS4_OK);
  CHECK(status_of(client.open("/", "f")) == NFS4ERR_GRACE);
  CHECK(world.state.problems.find("RECLAIM_COMPLETE") != std::string::npos);
}

// ---- data ----

TEST_CASE("model: data without COMMIT is lost, and the verifier tells") {
  One m;
  const std::uint64_t file = add_file(m.state, "/f", "stable");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  const auto written = m.client.write(file, open, 3, "unstable", UNSTABLE4);
  CHECK(content(m.state, file) == "staunstable");
  CHECK(m.state.inodes.at(file).content.stable() == "stable");
  CHECK(m.state.volatile_bytes() == 8);
  const verifier4 before = written.get<NFS4_OK>()->writeverf;
  SUBCASE("restart") {
    m.state.restart(0s);
  }
  SUBCASE("the storage fails") {
    m.state.fail_writeback();
    const auto commit = m.client.on<op::COMMIT>(file, {0, 0});
    CHECK(commit.get<NFS4_OK>()->writeverf != before);
  }
  CHECK(content(m.state, file) == "stable");
  CHECK(m.state.used == 6);
}

TEST_CASE("model: COMMIT of a range, and of all") {
  const auto left_after = [](bool whole) {
    One m(with([&](Habits& h) { h.commits_whole_file = whole; }));
    const std::uint64_t file = add_file(m.state, "/f", "aaaaaaaa");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    (void)m.client.write(file, open, 0, "bbbbbbbb", UNSTABLE4);
    CHECK(status_of(m.client.on<op::COMMIT>(file, {2, 3})) == NFS4_OK);
    return m.state.inodes.at(file).content.stable();
  };
  CHECK(left_after(false) == "aabbbaaa");
  CHECK(left_after(true) == "bbbbbbbb");
}

TEST_CASE("model: contents against two plain strings") {
  Chance chance(7);
  for (int round = 0; round < 200; ++round) {
    Content content;
    std::string now, stable;
    const auto grow = [](std::string& text, std::size_t size) { text.resize(std::max(text.size(), size)); };
    for (int step = 0; step < 30; ++step) {
      const std::size_t begin = chance.below(40), end = begin + 1 + chance.below(20);
      const std::string text(end - begin, static_cast<char>('a' + chance.below(26)));
      switch (chance.below(6)) {
        case 0:
          content.write(begin, text, false);
          grow(now, end);
          now.replace(begin, text.size(), text);
          break;
        case 1:
          content.write(begin, text, true);
          for (std::string* one : {&now, &stable}) {
            grow(*one, end);
            one->replace(begin, text.size(), text);
          }
          break;
        case 2:
          content.resize(begin);
          now.resize(begin);
          stable.resize(begin);
          break;
        case 3:
          content.commit(begin, end);
          if (begin < now.size()) {
            grow(stable, std::min(end, now.size()));
            stable.replace(begin, end - begin, now, begin, end - begin);
          }
          break;
        case 4:
          content.punch(begin, end);
          for (std::string* one : {&now, &stable}) {
            for (std::size_t i = begin; i < std::min(end, one->size()); ++i) (*one)[i] = '\0';
          }
          break;
        default:
          if (chance.percent(20)) {
            content.lose();
            now = stable;
          }
          break;
      }
      REQUIRE(content.data() == now);
      REQUIRE(content.stable() == stable);
      for (std::size_t at = 0; at < now.size(); ++at) {
        if (!content.is_data(at)) REQUIRE(now[at] == '\0');
        REQUIRE(content.end_of_piece(at) > at);
      }
    }
  }
}

TEST_CASE("model: a full disk") {
  SUBCASE("a short write first, then none") {
    One m;
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    m.state.space = 10;
    CHECK(m.client.write(file, open, 0, "123456789012").get<NFS4_OK>()->count == 10);
    CHECK(status_of(m.client.write(file, open, 10, "x")) == NFS4ERR_NOSPC);
    CHECK(status_of(m.client.write(file, open, 5, "x")) == NFS4_OK);
    CHECK(m.client.call(make_directory("d")).status == NFS4ERR_NOSPC);
    CHECK(status_of(m.client.on<op::SETATTR>(file, {open, size_of(3)})) == NFS4_OK);
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.state.used == 3);
  }
  SUBCASE("told late, by COMMIT") {
    One m(with([](Habits& h) {
      h.late_no_space = true;
      h.full_status = NFS4ERR_DQUOT;
    }));
    const std::uint64_t file = add_file(m.state, "/f", "old");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    m.state.space = 5;
    CHECK(status_of(m.client.write(file, open, 0, "123456789012", UNSTABLE4)) == NFS4_OK);
    CHECK(status_of(m.client.write(file, open, 12, "more", UNSTABLE4)) == NFS4ERR_DQUOT);
    CHECK(content(m.state, file) == "old");
    CHECK(status_of(m.client.write(file, open, 0, "123456789012", UNSTABLE4)) == NFS4_OK);
    CHECK(status_of(m.client.on<op::COMMIT>(file, {0, 0})) == NFS4ERR_DQUOT);
    CHECK(content(m.state, file) == "old");
    CHECK(status_of(m.client.on<op::COMMIT>(file, {0, 0})) == NFS4_OK);
  }
}

TEST_CASE("model: who is not root clears the set-id bits by writing") {
  One m;
  const std::uint64_t file = add_file(m.state, "/f");
  m.state.inodes.at(file).mode = 06755;
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4_OK);
  CHECK(m.state.inodes.at(file).mode == 0755);
}

// ---- open files ----

TEST_CASE("model: an open file's stateid counts, and an older one is told from a newer one") {
  One m;
  const std::uint64_t file = add_file(m.state, "/f");
  const auto first = ModelClient::stateid(m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ));
  CHECK(status_of(m.client.write(file, first, 0, "x")) == NFS4ERR_OPENMODE);
  const auto second = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(second.seqid == first.seqid + 1);
  CHECK(second.other == first.other);
  CHECK(status_of(m.client.write(file, first, 0, "x")) == NFS4ERR_OLD_STATEID);
  CHECK(status_of(m.client.write(file, second, 0, "x")) == NFS4_OK);
  stateid4 any = first;
  any.seqid = 0;
  CHECK(status_of(m.client.write(file, any, 0, "x")) == NFS4_OK);
  CHECK(m.state.problems == "");
  stateid4 newer = second;
  ++newer.seqid;
  CHECK(status_of(m.client.write(file, newer, 0, "x")) == NFS4ERR_BAD_STATEID);
  CHECK(m.state.problems != "");
}

TEST_CASE("model: another client's stateid is nobody's") {
  Two m;
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(status_of(m.other.write(file, open, 0, "x")) == NFS4ERR_BAD_STATEID);
  CHECK(m.state.problems.find("another client") != std::string::npos);
}

TEST_CASE("model: downgrading to what was opened, and to unions") {
  const auto downgrade = [](bool unions) {
    One m(with([&](Habits& h) { h.downgrades_to_unions = unions; }));
    const std::uint64_t file = add_file(m.state, "/f");
    REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ)) == NFS4_OK);
    REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_WRITE)) == NFS4_OK);
    const auto open = ModelClient::stateid(m.client.open("/", "f", OPEN4_SHARE_ACCESS_WRITE));
    return status_of(m.client.on<op::OPEN_DOWNGRADE>(file, {open, 0, OPEN4_SHARE_ACCESS_BOTH, 0}));
  };
  CHECK(downgrade(false) == NFS4ERR_INVAL);
  CHECK(downgrade(true) == NFS4_OK);
}

TEST_CASE("model: share reservations") {
  Two m;
  add_file(m.state, "/f");
  REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE)) == NFS4_OK);
  CHECK(status_of(m.other.open("/", "f")) == NFS4ERR_SHARE_DENIED);
  CHECK(status_of(m.other.open("/", "f", OPEN4_SHARE_ACCESS_READ)) == NFS4_OK);
  m.world.pass(100s);
  CHECK(status_of(m.other.open("/", "f")) == NFS4_OK);  // nobody renewed the first one's lease
}

TEST_CASE("model: the ways to create") {
  One m(with([](Habits& h) { h.verifier_in_times = true; }));
  CHECK(status_of(m.client.create("/", "f", exclusively(1))) == NFS4_OK);
  CHECK(status_of(m.client.create("/", "f", exclusively(1))) == NFS4_OK);
  CHECK(status_of(m.client.create("/", "f", exclusively(2))) == NFS4ERR_EXIST);
  CHECK(status_of(m.client.create("/", "f", createhow4::of<GUARDED4>(fattr4{}))) == NFS4ERR_EXIST);
  const auto open = m.client.create("/", "f", createhow4::of<UNCHECKED4>(fattr4{}));
  REQUIRE(status_of(open) == NFS4_OK);
  const std::uint64_t file = m.state.find("/f")->id;
  CHECK(status_of(m.client.write(file, ModelClient::stateid(open), 0, "text")) == NFS4_OK);
  CHECK(status_of(m.client.create("/", "f", exclusively(1))) == NFS4ERR_EXIST);
  CHECK(status_of(m.client.create("/", "f", createhow4::of<UNCHECKED4>(size_of(0)))) == NFS4_OK);
  CHECK(content(m.state, file) == "");
}

TEST_CASE("model: a file that is removed while it is open") {
  SUBCASE("lives until it is closed, and no restart longer") {
    One m;
    const std::uint64_t file = add_file(m.state, "/f", "text");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4_OK);
    CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4_OK);
    SUBCASE("closed") {
      // In the COMPOUND that closes it, it is still there.
      const Request close = Request()
                                .add<op::PUTFH>({handle_of(file)})
                                .add<op::CLOSE>({0, open})
                                .add<op::GETATTR>({bitmap_of({FATTR4_SIZE})});
      CHECK(m.client.call(close).status == NFS4_OK);
    }
    SUBCASE("restarted") {
      m.state.restart(0s);
    }
    CHECK(!m.state.inodes.contains(file));
    CHECK(m.state.used == 0);
  }
  SUBCASE("is gone") {
    One m(with([](Habits& h) { h.forgets_unlinked = true; }));
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4_OK);
    CHECK(m.client.call(Request().add<op::PUTFH>({handle_of(file)}).add<op::CLOSE>({0, open})).status ==
          NFS4ERR_STALE);
    CHECK(m.state.opens.empty());
  }
  SUBCASE("lives through a restart") {
    One m(with([](Habits& h) { h.preserves_unlinked = true; }));
    const std::uint64_t file = add_file(m.state, "/f");
    REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
    CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4_OK);
    m.state.restart(10s);
    REQUIRE(m.client.establish(true) == NFS4_OK);
    CHECK(status_of(m.client.reclaim(file)) == NFS4_OK);
    m.state.restart(10s);
    m.world.pass(11s);
    REQUIRE(m.client.establish() == NFS4_OK);
    CHECK(m.client.call(Request().add<op::PUTROOTFH>({})).status == NFS4_OK);
    CHECK(!m.state.inodes.contains(file));
  }
}

// ---- locks ----

TEST_CASE("model: locks exclude, and who waits is told") {
  Two m;
  const std::uint64_t file = add_file(m.state, "/f");
  clientid4 told = 0;
  m.state.call_waiter = [&](clientid4 client, const CB_NOTIFY_LOCK4args&) { told = client; };
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  const auto others = ModelClient::stateid(m.other.open("/", "f"));
  const auto locked = m.client.lock(file, open, 0, 10);
  REQUIRE(status_of(locked) == NFS4_OK);
  CHECK(status_of(m.other.lock(file, others, 10, 1)) == NFS4_OK);
  const auto denied = m.other.lock(file, others, 5, 10);
  REQUIRE(status_of(denied) == NFS4ERR_DENIED);
  CHECK(denied.get<NFS4ERR_DENIED>()->length == 10);
  const LOCKT4args test{WRITE_LT, 9, 1, {}};
  CHECK(status_of(m.other.on<op::LOCKT>(file, test)) == NFS4ERR_DENIED);
  const stateid4 lock = locked.get<NFS4_OK>()->lock_stateid;
  CHECK(status_of(m.client.on<op::LOCKU>(file, {WRITE_LT, 0, lock, 0, 10})) == NFS4_OK);
  CHECK(told == m.other.id);
  CHECK(status_of(m.other.lock(file, others, 5, 10)) == NFS4_OK);
  CHECK(status_of(m.client.on<op::LOCKU>(file, {WRITE_LT, 0, lock, 0, 10})) == NFS4ERR_OLD_STATEID);
}

// ---- delegations ----

TEST_CASE("model: a delegation is recalled by who changes the file, and revoked when it does not come back") {
  Two m(with([](Habits& h) {
    h.delegates = Habits::Delegate::readers;
    h.recalls_on_conflict = true;
  }));
  const std::uint64_t file = add_file(m.state, "/f");
  std::vector<std::uint64_t> recalled;
  m.state.call_holder = [&](std::uint64_t number) { recalled.push_back(number); };
  const auto opened = m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ);
  REQUIRE(status_of(opened) == NFS4_OK);
  const auto* given = opened.get<NFS4_OK>()->delegation.get<OPEN_DELEGATE_READ>();
  REQUIRE(given != nullptr);
  CHECK(status_of(m.other.open("/", "f", OPEN4_SHARE_ACCESS_READ)) == NFS4_OK);
  CHECK(m.state.delegations.size() == 2);
  CHECK(status_of(m.client.on<op::SETATTR>(file, {{}, size_of(1)})) == NFS4ERR_DELAY);  // the other's
  REQUIRE(recalled.size() == 1);
  CHECK(m.other.on<op::DELEGRETURN>(file, {m.state.stateid_of(recalled[0], 1)}).status == NFS4_OK);
  CHECK(status_of(m.client.on<op::SETATTR>(file, {{}, size_of(1)})) == NFS4_OK);  // its own stays
  CHECK(status_of(m.other.open("/", "f")) == NFS4ERR_DELAY);
  CHECK(status_of(m.other.on<op::REMOVE>("/", {{"f"}})) == NFS4ERR_DELAY);
  CHECK(recalled.size() == 2);
  m.world.pass(50s);
  CHECK(m.client.call(Request()).status == NFS4_OK);  // its lease is good
  CHECK(status_of(m.other.open("/", "f")) == NFS4ERR_DELAY);
  m.world.pass(50s);
  CHECK(status_of(m.other.open("/", "f")) == NFS4_OK);
  CHECK(m.client.call(Request()).status == NFS4_OK);
  CHECK(m.client.flags() == SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  CHECK(m.client.on<op::DELEGRETURN>(file, {given->stateid}).status == NFS4ERR_DELEG_REVOKED);
  CHECK(m.client.call(Request().add<op::FREE_STATEID>({given->stateid})).status == NFS4_OK);
  CHECK(m.client.call(Request()).status == NFS4_OK);
  CHECK(m.client.flags() == 0);
  CHECK(m.state.problems == "");
}

TEST_CASE("model: no delegation where it could not be recalled, and why") {
  One m(with([](Habits& h) {
    h.delegates = Habits::Delegate::wanted;
    h.explains_no_delegation = true;
    h.delegates_to_writers = false;
  }));
  add_file(m.state, "/f");
  const std::uint32_t want = OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
  const auto plain = m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ);
  CHECK(plain.get<NFS4_OK>()->delegation.tag() == OPEN_DELEGATE_NONE);
  REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_WRITE)) == NFS4_OK);
  const auto written = m.client.open("/", "f", want);
  REQUIRE(written.get<NFS4_OK>()->delegation.tag() == OPEN_DELEGATE_NONE_EXT);
  CHECK(written.get<NFS4_OK>()->delegation.get<OPEN_DELEGATE_NONE_EXT>()->tag() == WND4_CONTENTION);
  m.state.habits.delegates_to_writers = true;
  m.state.on_connection_lost(1);
  CHECK(m.client.open("/", "f", want).get<NFS4_OK>()->delegation.tag() == OPEN_DELEGATE_NONE_EXT);
}

// ---- names ----

TEST_CASE("model: exports are file systems of their own") {
  One m;
  m.state.make_export("/one");
  m.state.make_export("/two");
  const std::uint64_t a = add_file(m.state, "/one/f"), b = add_file(m.state, "/two/f");
  const auto attributes = [&](std::uint64_t inode) {
    const auto res =
        m.client.on<op::GETATTR>(inode, {bitmap_of({FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID})});
    WireAttributes out;
    REQUIRE(decode_attributes(res.get<NFS4_OK>()->obj_attributes, out));
    return out;
  };
  CHECK(attributes(a).fileid == attributes(b).fileid);
  CHECK(attributes(a).fsid != attributes(b).fsid);
  const auto root = attributes(m.state.find("/one")->id);
  CHECK(root.fileid != root.mounted_on_fileid);
  CHECK(root.fsid == attributes(a).fsid);
  const auto move = [&](const std::string& from, const std::string& to) {
    return m.client
        .call(Request()
                  .add<op::PUTFH>({handle_of(m.state.find(from)->id)})
                  .add<op::SAVEFH>({})
                  .add<op::PUTFH>({handle_of(m.state.find(to)->id)})
                  .add<op::RENAME>({{"f"}, {"g"}}))
        .status;
  };
  CHECK(move("/one", "/two") == NFS4ERR_XDEV);
  CHECK(move("/one", "/one") == NFS4_OK);
  m.state.pseudo_root_is_read_only = true;
  CHECK(m.client.call(make_directory("d")).status == NFS4ERR_ROFS);
  CHECK(status_of(m.client.create("/one", "new", exclusively(1))) == NFS4_OK);
}

TEST_CASE("model: RENAME keeps to the rules") {
  One m;
  const auto rename = [&](const std::string& from, const std::string& to) {
    return m.client.call(Request().add<op::PUTROOTFH>({}).add<op::SAVEFH>({}).add<op::RENAME>({{from}, {to}}))
        .status;
  };
  const std::uint64_t file = add_file(m.state, "/f", "text");
  add_file(m.state, "/g");
  m.state.make("/d/e", NF4DIR);
  CHECK(rename("f", "d") == NFS4ERR_EXIST);
  CHECK(rename("d", "f") == NFS4ERR_EXIST);
  CHECK(rename("none", "f") == NFS4ERR_NOENT);
  CHECK(rename("f", "f") == NFS4_OK);
  CHECK(rename("f", "g") == NFS4_OK);
  CHECK(m.state.find("/g")->id == file);
  CHECK(m.state.find("/f") == nullptr);
  CHECK(m.state.inodes.at(file).links == 1);
  const Request below = Request()
                            .add<op::PUTROOTFH>({})
                            .add<op::SAVEFH>({})
                            .add<op::PUTFH>({handle_of(m.state.find("/d/e")->id)})
                            .add<op::RENAME>({{"d"}, {"x"}});
  CHECK(m.client.call(below).status == NFS4ERR_INVAL);
  CHECK(m.state.names() == std::vector<std::string>{"/d " + std::to_string(m.state.find("/d")->id),
                                                    "/d/e " + std::to_string(m.state.find("/d/e")->id),
                                                    "/g " + std::to_string(file)});
}

TEST_CASE("model: a listing comes in pages, and its cookies stay what they are when names go") {
  One m(with([](Habits& h) { h.entries_at_once = 2; }));
  for (int i = 0; i < 6; ++i) add_file(m.state, "/f" + std::to_string(i));
  READDIR4args args;
  args.maxcount = 4096;
  args.attr_request = bitmap_of({FATTR4_RDATTR_ERROR, FATTR4_FILEID});
  std::string seen;
  for (;;) {
    const auto page = m.client.on<op::READDIR>("/", args);
    REQUIRE(status_of(page) == NFS4_OK);
    for (const entry4& one : page.get<NFS4_OK>()->reply.entries.value) {
      seen += one.name.value + " ";
      args.cookie = one.cookie;
      CHECK(has_bit(one.attrs.attrmask, FATTR4_RDATTR_ERROR) == m.state.habits.tells_rdattr_error);
    }
    if (page.get<NFS4_OK>()->reply.eof) break;
    if (seen == "f0 f1 ") CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f1"}})) == NFS4_OK);
    if (seen == "f0 f1 ") CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f3"}})) == NFS4_OK);
    m.state.habits.tells_rdattr_error = false;
  }
  CHECK(seen == "f0 f1 f2 f4 f5 ");
  args.maxcount = 20;
  args.cookie = 0;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_TOOSMALL);
  args.cookie = 1;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_BAD_COOKIE);
  m.state.habits.checks_cookie_verifier = true;
  args.cookie = 3;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_NOT_SAME);
}

// ---- chance ----

TEST_CASE("model: the same seed draws the same habits, and every draw can serve") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Chance one(seed), same(seed);
    const Habits habits = Habits::drawn(one);
    CHECK(Habits::drawn(same).delegation_percent == habits.delegation_percent);
    CHECK(one.next() == same.next());
    One m(habits);
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.state.problems == "");
  }
}

TEST_CASE("model: a request costs little") {
  One m;
  const std::uint64_t file = add_file(m.state, "/f", std::string(1U << 20, 'x'));
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  // A write to a large file touches what it writes, not all of it: 20,000 of them would be 20 GB.
  for (int i = 0; i < 20000; ++i) (void)m.client.write(file, open, 0, "text", UNSTABLE4);
  CHECK(m.state.volatile_bytes() == 4);
}

}  // namespace
}  // namespace nfsrdma::testing
