// The model server's leases, restarts and grace periods: who loses what, and who may reclaim it (RFC
// 8881 8.3, 8.4).
#include <doctest/doctest.h>

#include "support/model_fixture.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

}  // namespace

// ---- leases ----

TEST_CASE("model: a lease that runs out") {
  SUBCASE("as a courtesy all stays until somebody wants it") {
    TwoClients m;
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
    TwoClients m(habits_with([](Habits& h) { h.conflict_purges = false; }));
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
    OneClient m(habits_with([](Habits& h) { h.expiry = Habits::Expiry::revoke; }));
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
    OneClient m(habits_with([](Habits& h) { h.expiry = Habits::Expiry::purge; }));
    m.world.pass(89s);
    CHECK(m.client.call(Request()).status == NFS4_OK);
    m.world.pass(91s);
    CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
    CHECK(status_of(m.client.create_session()) == NFS4ERR_STALE_CLIENTID);
  }
  SUBCASE("not while a request is under way") {
    OneClient m(habits_with([](Habits& h) { h.expiry = Habits::Expiry::purge; }));
    Begun slow = m.client.begin(make_directory("d"));
    m.world.pass(1000s);
    m.state.look_at_time();
    CHECK(m.client.finish(slow).status == NFS4_OK);
  }
}

// ---- restarts ----

TEST_CASE("model: after a restart what was had is reclaimed, and by nobody else") {
  TwoClients m;
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
  OneClient m;
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
  OneClient m(habits_with([](Habits& h) { h.expiry = Habits::Expiry::revoke; }));
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
  TwoClients m(habits_with([](Habits& h) { h.grace_ends_early = true; }));
  m.state.restart(60s);
  REQUIRE(m.client.establish() == NFS4_OK);
  CHECK(m.state.in_grace());
  REQUIRE(m.other.establish() == NFS4_OK);
  CHECK(!m.state.in_grace());
}

TEST_CASE("model: what waits for the end of the grace period") {
  OneClient m(habits_with([](Habits& h) { h.grace_stops_names = true; }));
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

}  // namespace nfsrdma::testing
