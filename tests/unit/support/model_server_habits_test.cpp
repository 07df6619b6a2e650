// The model server's habits that a seed draws one by one: what each of them makes the server answer, and where RFC 8881
// has it.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/model_fixture.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

WRITE4resok written(ModelClient& client, std::uint64_t file, const stateid4& stateid) {
  const auto res = client.write(file, stateid, 0, "text", UNSTABLE4);
  REQUIRE(status_of(res) == NFS4_OK);
  return *res.get<NFS4_OK>();
}

verifier4 committed(ModelClient& client, std::uint64_t file) {
  const auto res = client.on<op::COMMIT>(file, {0, 0});
  REQUIRE(status_of(res) == NFS4_OK);
  return res.get<NFS4_OK>()->writeverf;
}

changeid4 change_of(ModelClient& client, std::uint64_t file) {
  const auto res = client.on<op::GETATTR>(file, {bitmap_of({FATTR4_CHANGE})});
  WireAttributes out;
  REQUIRE(status_of(res) == NFS4_OK);
  REQUIRE(decode_attributes(res.get<NFS4_OK>()->obj_attributes, out));
  return out.change.value_or(0);
}

/// OPEN for `access`, by somebody who wants the delegation that goes with it.
open_delegation4 delegation_for(ModelClient& client, const std::string& name, std::uint32_t access,
                                std::uint32_t want) {
  const auto res = client.open("/", name, access | want);
  REQUIRE(status_of(res) == NFS4_OK);
  return res.get<NFS4_OK>()->delegation;
}

}  // namespace

// ---- verifiers (RFC 8881 18.32.3) ----

TEST_CASE("model: a write verifier that is never the same twice, and no data is lost") {
  OneClient m(habits_with([](Habits& h) { h.new_verifier_percent = 100; }));
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  const verifier4 first = written(m.client, file, open).writeverf;
  const verifier4 second = committed(m.client, file);
  CHECK(first != second);
  CHECK(second != committed(m.client, file));
  CHECK(m.state.inodes.at(file).content.stable() == "text");
}

TEST_CASE("model: a COMMIT whose verifier says that the data is lost") {
  OneClient m(habits_with([](Habits& h) { h.lost_at_commit_percent = 100; }));
  const std::uint64_t file = add_file(m.state, "/f", "old");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  const verifier4 first = written(m.client, file, open).writeverf;
  const verifier4 second = committed(m.client, file);
  CHECK(first != second);
  CHECK(content_of(m.state, file) == "old");
  // There is nothing more to be lost.
  CHECK(second == committed(m.client, file));
}

// ---- what survives a restart (RFC 8881 2.10.6.5, 8.4.2, 18.46.3) ----

TEST_CASE("model: sessions survive a restart, and SEQUENCE asks for a reclaim until RECLAIM_COMPLETE") {
  OneClient m(habits_with([](Habits& h) { h.survives = Habits::Survives::sessions; }));
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  Begun under_way = m.client.begin(make_directory("d"), 1);
  m.state.restart(20s);
  CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4ERR_BAD_STATEID);
  CHECK(m.client.flags() == SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  CHECK(status_of(m.client.open("/", "f")) == NFS4ERR_GRACE);
  // The slot expects a request again that was being executed when the server ended.
  CHECK(m.client.call(make_directory("d"), 1, true, true).status == NFS4_OK);
  CHECK(m.client.call(make_directory("d"), 1, true, true).status == NFS4_OK);
  CHECK(status_of(m.client.reclaim(file)) == NFS4_OK);
  CHECK(m.client.complete() == NFS4_OK);
  CHECK(m.client.call(Request()).status == NFS4_OK);
  CHECK(m.client.flags() == 0);
  CHECK(m.state.problems == "");
}

TEST_CASE("model: client ids survive a restart, and sessions do not") {
  OneClient m(habits_with([](Habits& h) { h.survives = Habits::Survives::clients; }));
  const std::uint64_t file = add_file(m.state, "/f");
  REQUIRE(status_of(m.client.open("/", "f")) == NFS4_OK);
  const clientid4 id = m.client.id;
  m.state.restart(20s);
  CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
  REQUIRE(status_of(m.client.create_session()) == NFS4_OK);
  CHECK(m.client.call(Request()).status == NFS4_OK);
  CHECK(m.client.flags() == SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  REQUIRE(status_of(m.client.exchange_id()) == NFS4_OK);
  CHECK(m.client.id == id);
  CHECK(status_of(m.client.reclaim(file)) == NFS4_OK);
  CHECK(m.client.complete() == NFS4_OK);
  CHECK(m.client.call(Request()).status == NFS4_OK);
  CHECK(m.client.flags() == 0);
}

TEST_CASE("model: the server's owner is another one after a restart, and its scope is not") {
  OneClient m(habits_with([](Habits& h) { h.another_owner = true; }));
  const auto before = m.client.exchange_id();
  m.state.restart(0s);
  const auto behind = m.client.exchange_id();
  CHECK(before.get<NFS4_OK>()->eir_server_owner != behind.get<NFS4_OK>()->eir_server_owner);
  CHECK(before.get<NFS4_OK>()->eir_server_scope.value == behind.get<NFS4_OK>()->eir_server_scope.value);
}

TEST_CASE("model: a session that the server has ended is dead, and one of an earlier boot is unknown") {
  OneClient m(habits_with([](Habits& h) { h.dead_sessions = true; }));
  m.state.sessions.clear();
  CHECK(m.client.call(Request()).status == NFS4ERR_DEADSESSION);
  m.state.restart(0s);
  CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
}

// ---- statuses (RFC 8881 15.2) ----

TEST_CASE("model: operations are late, each where it may be") {
  OneClient m;
  m.state.habits.busy_percent = 100;
  CHECK(m.client.call(Request()).status == NFS4ERR_DELAY);
  CHECK(m.client.call(Request(), 0, true, true).status == NFS4ERR_DELAY);
  m.state.habits.busy_percent = 0;
  CHECK(m.client.call(Request(), 0, true, true).status == NFS4_OK);
  CHECK(m.state.problems == "");
}

TEST_CASE("model: a kind of operation is late for a while") {
  OneClient m;
  m.state.habits.busy_percent = 20;
  m.state.habits.longest_busy = 5s;
  bool lasted = false;
  for (int i = 0; i < 200 && !lasted; ++i) {
    const Request look = Request().add<op::PUTROOTFH>({}).add<op::GETFH>({});
    if (m.client.call(look).status != NFS4ERR_DELAY || status_of(m.client.first) != NFS4_OK) {
      if (status_of(m.client.first) != NFS4_OK) --m.client.sequences[0];
      continue;
    }
    m.state.habits.busy_percent = 0;
    lasted = m.client.call(look).status == NFS4ERR_DELAY;
    m.world.pass(5s);
    CHECK(m.client.call(look).status == NFS4_OK);
    m.state.habits.busy_percent = 20;
  }
  CHECK(lasted);
}

TEST_CASE("model: what makes and ends sessions fails for a while") {
  OneClient m;
  m.state.habits.failing_percent = 100;
  const auto known = [](nfsstat4 status) { return status == NFS4ERR_SERVERFAULT || status == NFS4ERR_NOSPC; };
  CHECK(status_of(m.client.exchange_id()) == NFS4ERR_SERVERFAULT);
  CHECK(known(status_of(m.client.create_session())));
  CHECK(m.client.complete() == NFS4ERR_SERVERFAULT);
  // What programs would be told is not refused.
  CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
  CHECK(m.state.lost_state.empty());
  m.state.restart(20s);
  m.state.habits.failing_percent = 0;
  m.world.pass(10s);
  REQUIRE(m.client.establish(true) == NFS4_OK);
  const std::uint64_t file = add_file(m.state, "/f");
  m.state.habits.failing_percent = 100;
  CHECK(status_of(m.client.reclaim(file)) != NFS4_OK);
  CHECK(m.state.lost_state.size() == 1);
}

// ---- delegations (RFC 8881 10.4) ----

TEST_CASE("model: an OPEN for writing makes a write delegation of the client's read delegation") {
  OneClient m(habits_with([](Habits& h) {
    h.delegates = Habits::Delegate::wanted;
    h.delegates_writing = h.upgrades_delegations = true;
  }));
  const std::uint64_t file = add_file(m.state, "/f");
  const auto reads =
      delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  const auto writes =
      delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
  REQUIRE(reads.get<OPEN_DELEGATE_READ>() != nullptr);
  REQUIRE(writes.get<OPEN_DELEGATE_WRITE>() != nullptr);
  const stateid4 old = reads.get<OPEN_DELEGATE_READ>()->stateid;
  const stateid4 now = writes.get<OPEN_DELEGATE_WRITE>()->stateid;
  CHECK(old.other == now.other);
  CHECK(now.seqid == old.seqid + 1);
  CHECK(status_of(m.client.on<op::DELEGRETURN>(file, {old})) == NFS4ERR_OLD_STATEID);
  CHECK(status_of(m.client.on<op::DELEGRETURN>(file, {now})) == NFS4_OK);
}

TEST_CASE("model: a delegation takes the place of the client's earlier one") {
  OneClient m(habits_with([](Habits& h) {
    h.delegates = Habits::Delegate::wanted;
    h.replaces_delegations = true;
  }));
  const std::uint64_t file = add_file(m.state, "/f");
  const auto first =
      delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  const auto second =
      delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  CHECK(m.state.delegations.size() == 1);
  const stateid4 old = first.get<OPEN_DELEGATE_READ>()->stateid;
  CHECK(status_of(m.client.on<op::DELEGRETURN>(file, {old})) == NFS4ERR_BAD_STATEID);
  CHECK(status_of(m.client.on<op::DELEGRETURN>(file, {second.get<OPEN_DELEGATE_READ>()->stateid})) ==
        NFS4_OK);
}

TEST_CASE("model: a delegation for who cannot be called, and wants none") {
  OneClient m(habits_with([](Habits& h) {
    h.delegates = Habits::Delegate::wanted;
    h.grants_backchannel = false;
    h.delegates_unasked = true;
  }));
  add_file(m.state, "/f");
  const auto told = delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  CHECK(told.get<OPEN_DELEGATE_READ>() != nullptr);
}

TEST_CASE("model: the room that a write delegation gives") {
  for (const Habits::Room room : {Habits::Room::none, Habits::Room::blocks}) {
    OneClient m(habits_with([&](Habits& h) {
      h.delegates = Habits::Delegate::wanted;
      h.delegates_writing = true;
      h.room = room;
    }));
    add_file(m.state, "/f");
    const auto told =
        delegation_for(m.client, "f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
    REQUIRE(told.get<OPEN_DELEGATE_WRITE>() != nullptr);
    const auto& limit = told.get<OPEN_DELEGATE_WRITE>()->space_limit;
    const std::uint64_t* const size = limit.get<NFS_LIMIT_SIZE>();
    if (room == Habits::Room::none) CHECK((size != nullptr && *size == 0));
    if (room == Habits::Room::blocks) CHECK(limit.get<NFS_LIMIT_BLOCKS>() != nullptr);
  }
}

// ---- change attributes (RFC 8881 5.8.1.4) ----

TEST_CASE("model: change attributes that go down, without an order, or by the clock's grain") {
  const auto changes = [](Habits::Change change, ModelWorld& world) {
    world.state.habits.change = change;
    world.state.habits.time_grain = 10ms;
    ModelClient client(world, "a");
    REQUIRE(client.establish() == NFS4_OK);
    const std::uint64_t file = add_file(world.state, "/f");
    const auto open = ModelClient::stateid(client.open("/", "f"));
    std::vector<changeid4> out;
    for (int i = 0; i < 3; ++i) {
      REQUIRE(status_of(client.write(file, open, 0, "x")) == NFS4_OK);
      out.push_back(change_of(client, file));
    }
    return out;
  };
  SUBCASE("down") {
    ModelWorld world;
    const auto seen = changes(Habits::Change::downwards, world);
    CHECK(seen[0] == seen[1] + 1);
    CHECK(seen[1] == seen[2] + 1);
  }
  SUBCASE("without an order") {
    ModelWorld world;
    auto seen = changes(Habits::Change::scattered, world);
    std::ranges::sort(seen);
    CHECK(seen[1] - seen[0] > 1000);
    CHECK(seen[2] - seen[1] > 1000);
  }
  SUBCASE("by the clock's grain") {
    ModelWorld world;
    const auto seen = changes(Habits::Change::ctime, world);
    CHECK(seen[0] == seen[2]);  // all within a grain
    CHECK(seen[0] % 10'000'000 == 0);
  }
}

TEST_CASE(
    "model: a change_info4 fits the attribute, before and behind, and is not atomic where that is a time") {
  for (const Habits::Change change :
       {Habits::Change::downwards, Habits::Change::scattered, Habits::Change::ctime}) {
    OneClient m(habits_with([&](Habits& h) { h.change = change; }));
    const std::uint64_t root = m.state.find("/")->id;
    m.world.pass(1ms);
    const changeid4 before = change_of(m.client, root);
    m.world.pass(1ms);
    CREATE4args args;
    args.objtype = createtype4::of<NF4DIR>();
    args.objname.value = "d";
    const auto made = m.client.on<op::CREATE>(root, args);
    REQUIRE(status_of(made) == NFS4_OK);
    const change_info4& told = made.get<NFS4_OK>()->cinfo;
    CHECK(told.before == before);
    CHECK(told.after == change_of(m.client, root));
    CHECK(told.atomic == (change != Habits::Change::ctime));
  }
}

// ---- limits and flags ----

TEST_CASE("model: limits of 0, of 1, and above what was asked for") {
  OneClient m(habits_with([](Habits& h) {
    h.most_slots = 1;
    h.most_operations = 8;
    h.grants_more = true;
    h.most_read = 0;
    h.most_written = 3;
    h.stuck_flags = SEQ4_STATUS_LEASE_MOVED;
  }));
  const channel_attrs4 granted = m.state.sessions.begin()->second.fore;
  CHECK(granted.ca_maxrequests == 1 + 5);
  CHECK(granted.ca_maxoperations == 8 + 10);
  CHECK(granted.ca_maxrequestsize == 2 * m.client.wanted.ca_maxrequestsize);
  const auto* first = m.client.first.get<NFS4_OK>();
  REQUIRE(first != nullptr);
  CHECK(first->sr_target_highest_slotid > first->sr_highest_slotid);
  CHECK(first->sr_status_flags == SEQ4_STATUS_LEASE_MOVED);
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(status_of(m.client.write(file, open, 0, "xyz")) == NFS4_OK);
  CHECK(m.state.problems == "");
  CHECK(status_of(m.client.write(file, open, 0, "four")) == NFS4_OK);
  CHECK(m.state.problems.find("maxwrite") != std::string::npos);
}

// ---- another server behind the address (RFC 8881 2.10.5) ----

TEST_CASE("model: a connection to a server that does not know the session, beside one to that which does") {
  OneClient m;
  m.state.habits.stranger_percent = 100;
  const BIND_CONN_TO_SESSION4args bind{m.client.session, CDFC4_FORE, false};
  m.client.connection = 2;
  CHECK(status_of(m.client.alone<op::BIND_CONN_TO_SESSION>(bind)) == NFS4ERR_BADSESSION);
  CHECK(m.client.call(Request()).status == NFS4ERR_BADSESSION);
  // Without another connection the client is led to its own server.
  m.state.on_connection_lost(1);
  CHECK(status_of(m.client.alone<op::BIND_CONN_TO_SESSION>(bind)) == NFS4_OK);
}

// ---- draws ----

TEST_CASE("model: each group of habits is drawn, and can be left out") {
  unsigned with = 0;
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Chance chance(seed);
    Habits habits = Habits::drawn(chance);
    const bool always = habits.always_delegates_writing;
    for (const std::string_view group : Habits::groups()) {
      const std::string before = habits.text();
      habits.leave_out(group);
      if (habits.text() != before) seen.emplace(group);
    }
    with += always ? 1 : 0;
  }
  CHECK(seen.size() == Habits::groups().size());
  CHECK(with > 400 / 4);
}

}  // namespace nfsrdma::testing
