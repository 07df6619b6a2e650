// The model server's open files, locks and delegations (RFC 8881 8.2, 9, 10.4, 18.16).
#include <doctest/doctest.h>

#include "support/model_fixture.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

}  // namespace

// ---- open files ----

TEST_CASE("model: an open file's stateid counts, and an older one is told from a newer one") {
  OneClient m;
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
  TwoClients m;
  const std::uint64_t file = add_file(m.state, "/f");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(status_of(m.other.write(file, open, 0, "x")) == NFS4ERR_BAD_STATEID);
  CHECK(m.state.problems.find("another client") != std::string::npos);
}

TEST_CASE("model: downgrading to what was opened, and to unions") {
  const auto downgrade = [](bool unions) {
    OneClient m(habits_with([&](Habits& h) { h.downgrades_to_unions = unions; }));
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
  TwoClients m;
  add_file(m.state, "/f");
  REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE)) == NFS4_OK);
  CHECK(status_of(m.other.open("/", "f")) == NFS4ERR_SHARE_DENIED);
  CHECK(status_of(m.other.open("/", "f", OPEN4_SHARE_ACCESS_READ)) == NFS4_OK);
  m.world.pass(100s);
  CHECK(status_of(m.other.open("/", "f")) == NFS4_OK);  // nobody renewed the first one's lease
}

TEST_CASE("model: the ways to create") {
  OneClient m(habits_with([](Habits& h) { h.verifier_in_times = true; }));
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
  CHECK(content_of(m.state, file) == "");
}

TEST_CASE("model: a file that is removed while it is open") {
  SUBCASE("lives until it is closed, and no restart longer") {
    OneClient m;
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
    OneClient m(habits_with([](Habits& h) { h.forgets_unlinked = true; }));
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f"}})) == NFS4_OK);
    CHECK(m.client.call(Request().add<op::PUTFH>({handle_of(file)}).add<op::CLOSE>({0, open})).status ==
          NFS4ERR_STALE);
    CHECK(m.state.opens.empty());
  }
  SUBCASE("lives through a restart") {
    OneClient m(habits_with([](Habits& h) { h.preserves_unlinked = true; }));
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
  TwoClients m;
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
  TwoClients m(habits_with([](Habits& h) {
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
  OneClient m(habits_with([](Habits& h) {
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

}  // namespace nfsrdma::testing
