// What the client does about each flag that SEQUENCE brings (RFC 8881 18.46.3; conformance row S9), as the
// server sees it.
#include <algorithm>
#include <map>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

using Counts = std::map<nfs_opnum4, unsigned>;

/// A client with a file that is delegated to it, and one that it has locked.
struct Flagged : Scene {
  Flagged() {
    server.set_delegations(true);
    server.add_file("/f", "text");
    server.add_file("/g", "text");
  }
  ~Flagged() {
    for (OpenRef* one : {&delegated, &locked}) {
      if (*one) CHECK(ok(client->run(client->files.close(std::move(*one)))));
    }
  }
  void begin() {
    EngineClient& c = connect();
    const auto open = [&](const char* name, std::uint32_t access) {
      auto made = c.run(c.open(user(1), c.root, name, access));
      if (!made) FAIL(made.error().text());
      return std::move(made->file);
    };
    delegated = open("f", OPEN4_SHARE_ACCESS_READ);
    locked = open("g", OPEN4_SHARE_ACCESS_BOTH);
    CHECK(ok(c.run(c.locks.set(locked.file(), {1, true, {0, 10}}))));
    server.clear_calls();
  }
  void ping() { CHECK(ok(client->run(client->engine.attributes(nullptr, client->root)))); }
  /// What it sends besides what it would send anyway, when the flags come once.
  Counts sent(std::uint32_t flags) {
    server.clear_calls();
    server.set_sequence_flags(flags, 1);
    ping();
    client->turn_for(400ms);
    return counts();
  }
  [[nodiscard]] Counts counts() const {
    Counts out;
    for (const nfs_opnum4 one :
         {OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION, OP_RECLAIM_COMPLETE,
          OP_OPEN, OP_LOCK, OP_TEST_STATEID, OP_FREE_STATEID, OP_DELEGRETURN, OP_BACKCHANNEL_CTL}) {
      if (const unsigned count = server.count(one)) out[one] = count;
    }
    return out;
  }
  [[nodiscard]] bool is_well() {
    std::array<std::byte, 4> data{};
    return client->run(delegated->read(data, 0)).has_value() &&
           client->run(locked->read(data, 0)).has_value() && server.locks("/g") == "0-10w" &&
           server.sessions() == 1 && server.backchannels() == 1;
  }
  OpenRef delegated, locked;
};

}  // namespace

TEST_CASE("S9 each flag has its reaction") {
  const Counts nothing, rebound = {{OP_BIND_CONN_TO_SESSION, 1}}, searched = {{OP_TEST_STATEID, 1}},
                        anew = {{OP_CREATE_SESSION, 1}, {OP_DESTROY_SESSION, 1}};
  const std::vector<std::pair<std::uint32_t, Counts>> table = {
      {SEQ4_STATUS_CB_PATH_DOWN, rebound},
      {SEQ4_STATUS_CB_PATH_DOWN_SESSION, rebound},
      {SEQ4_STATUS_BACKCHANNEL_FAULT, anew},
      // Callbacks come without GSS.
      {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING, nothing},
      {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, nothing},
      {SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, searched},
      {SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED, searched},
      {SEQ4_STATUS_ADMIN_STATE_REVOKED, searched},
      {SEQ4_STATUS_RECALLABLE_STATE_REVOKED, searched},
      // Whoever uses what has moved hears NFS4ERR_MOVED.
      {SEQ4_STATUS_LEASE_MOVED, nothing},
      // There are no layouts.
      {SEQ4_STATUS_DEVID_CHANGED, nothing},
      {SEQ4_STATUS_DEVID_DELETED, nothing},
      // Nobody knows what this means.
      {0x80000000U, nothing},
  };
  std::uint32_t all = SEQ4_STATUS_RESTART_RECLAIM_NEEDED | 0x80000000U;
  for (const auto& [flag, expected] : table) {
    CAPTURE(flag);
    Flagged m;
    m.begin();
    CHECK(m.sent(flag) == expected);
    CHECK(m.is_well());
    // And again, when it comes again.
    m.client->turn_for(2s);
    CHECK(m.sent(flag) == expected);
    CHECK(m.is_well());
    all |= flag;
  }
  CHECK(all == (0x1fffU | 0x80000000U));  // none is missing
}

TEST_CASE(
    "S9 S10 what is under way as the session is replaced is answered on the one before, connection lost or "
    "not") {
  for (const bool is_lost : {false, true}) {
    CAPTURE(is_lost);
    Flagged m;
    m.begin();
    m.server.add_file("/gone", "");
    m.server.on_server([](Responder& responder) {
      responder.state.habits.associates_connections = false;
      responder.stall(OP_REMOVE);
    });
    auto removed = m.client->engine.remove(user(1), m.client->root, "gone", Engine::Removed::file);
    m.client->start(removed);
    REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
    m.server.set_sequence_flags(SEQ4_STATUS_BACKCHANNEL_FAULT, 1);
    m.ping();
    m.client->turn_for(100ms);
    if (is_lost) m.server.drop_connections();
    m.client->turn_for(500ms);
    m.server.release();
    REQUIRE(m.client->turn_until([&] { return removed.done(); }));
    CHECK(ok(removed.await_resume()));
    m.ping();
    CHECK(m.is_well());
    CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  }
}

TEST_CASE("S9 RESTART_RECLAIM_NEEDED: all is reclaimed, and said to be complete") {
  Flagged m;
  m.begin();
  const Counts sent = m.sent(SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  CHECK(sent.at(OP_EXCHANGE_ID) == 1);
  CHECK(sent.at(OP_CREATE_SESSION) == 1);
  CHECK(sent.at(OP_OPEN) == 2);
  CHECK(sent.at(OP_RECLAIM_COMPLETE) == 1);
  for (const OPEN4args& one : m.server.opens()) CHECK(one.claim.tag() == CLAIM_PREVIOUS);
}

TEST_CASE("S9 a restart that the session outlives: what is open, delegated and locked is reclaimed") {
  // As of a server that keeps sessions on its disk.
  Flagged m;
  m.begin();
  m.server.on_server([](Responder& responder) {
    ServerState& state = responder.state;
    const auto sessions = state.sessions;
    const auto clients = state.clients;
    state.restart(2s);
    state.sessions = sessions;
    state.clients = clients;
    for (auto& [id, one] : state.clients) one.reclaimed = false;
  });
  m.server.set_sequence_flags(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
  m.ping();
  CHECK(m.client->turn_until([&] { return m.server.succeeded(OP_RECLAIM_COMPLETE) == 1; }));
  CHECK(m.server.succeeded(OP_OPEN) == 2);
  CHECK(m.server.succeeded(OP_LOCK) == 1);
  CHECK(m.server.delegations() == 1);
  CHECK(m.is_well());
}

TEST_CASE("S9 S11 an answer from before such a restart that comes late does not call off the reclaim") {
  Flagged m;
  m.begin();
  m.server.hold(OP_GETATTR);
  auto late = m.client->engine.attributes(nullptr, m.client->root);
  m.client->start(late);
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
  m.server.on_server([](Responder& responder) {
    ServerState& state = responder.state;
    const auto sessions = state.sessions;
    const auto clients = state.clients;
    state.restart(5s);
    state.sessions = sessions;
    state.clients = clients;
    for (auto& [id, one] : state.clients) one.reclaimed = false;
  });
  m.server.hold(OP_EXCHANGE_ID);
  m.server.set_sequence_flags(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
  m.ping();
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 2; }));
  m.server.release_first();
  REQUIRE(m.client->turn_until([&] { return late.done(); }));
  m.server.release();
  CHECK(m.client->turn_until([&] { return m.server.succeeded(OP_RECLAIM_COMPLETE) == 1; }));
  CHECK(m.server.succeeded(OP_OPEN) == 2);
  CHECK(m.server.succeeded(OP_LOCK) == 1);
  CHECK(m.is_well());
}

TEST_CASE("S9 flags that come together have the reactions of all of them") {
  Flagged m;
  m.begin();
  CHECK(m.sent(SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION |
               SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED | SEQ4_STATUS_RECALLABLE_STATE_REVOKED |
               SEQ4_STATUS_LEASE_MOVED) == Counts{{OP_BIND_CONN_TO_SESSION, 1}, {OP_TEST_STATEID, 1}});
  CHECK(m.is_well());
}

TEST_CASE("S9 a flag that stays costs a call now and then, and the client goes on") {
  for (const std::uint32_t flag :
       {SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION, SEQ4_STATUS_BACKCHANNEL_FAULT,
        SEQ4_STATUS_ADMIN_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED, SEQ4_STATUS_LEASE_MOVED}) {
    CAPTURE(flag);
    Flagged m;
    m.begin();
    m.server.set_sequence_flags(flag, ~0U);
    for (int i = 0; i < 100; ++i) {
      m.ping();
      m.client->turn_for(30ms);
    }
    for (const auto& [op, count] : m.counts()) {
      CAPTURE(operation_name(op));
      CHECK(count <= 6);
    }
    m.server.set_sequence_flags(0, 0);
    m.client->turn_for(2s);
    CHECK(m.is_well());
  }
}

TEST_CASE("S9 without a backchannel nothing is done for one") {
  Scene m;
  m.server.set_backchannel(false);
  EngineClient& c = m.connect();
  m.server.clear_calls();
  for (const std::uint32_t flag : {SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION,
                                   SEQ4_STATUS_BACKCHANNEL_FAULT, SEQ4_STATUS_ADMIN_STATE_REVOKED}) {
    m.server.set_sequence_flags(flag, 1);
    CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
    c.turn_for(2s);
  }
  for (const SeenCall& call : m.server.calls()) {
    CHECK_FALSE(call.has(OP_BIND_CONN_TO_SESSION));
    CHECK_FALSE(call.has(OP_CREATE_SESSION));
    CHECK_FALSE(call.has(OP_TEST_STATEID));  // there is no state
  }
}

}  // namespace nfsrdma
