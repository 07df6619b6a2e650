// State that the server has for this client and of which its answers did not tell: they were lost with their
// session, or overtook each other (RFC 8881 10.2, 18.50; conformance rows S10, S15, S18).
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Orphaning : Scene {
  Orphaning() {
    server.set_delegations(true);
    server.add_file("/f", "text");
  }
  async::Task<Result<OpenResult>> opening() {
    return client->files.open_handle(nullptr, client->handle("/f"), "f", OPEN4_SHARE_ACCESS_READ);
  }
  /// Opens the file, and loses the answer of the OPEN that brought the delegation together with the session.
  OpenRef open_and_lose_the_delegation() {
    connect();
    server.drop_after(OP_OPEN);
    auto task = opening();
    client->start(task);
    REQUIRE(client->turn_until([&] { return server.succeeded(OP_OPEN) == 1; }));
    server.forget_sessions();
    REQUIRE(client->turn_until([&] { return task.done(); }));
    auto opened = task.await_resume();
    REQUIRE(ok(opened));
    CHECK(server.succeeded(OP_OPEN) == 2);
    CHECK(server.delegations() == 1);
    CHECK(client->session.delegations().count() == 0);
    return std::move(opened->file);
  }
};

}  // namespace

TEST_CASE(
    "S15 the answer to CLOSE and DELEGRETURN does not take the delegation of a later OPEN for its own") {
  Orphaning m;
  EngineClient& c = m.connect();
  auto first = c.run(m.opening());
  REQUIRE(ok(first));
  CHECK(m.server.delegations() == 1);
  m.server.hold(OP_CLOSE);
  auto closing = c.files.close(std::move(first->file));
  c.start(closing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK(m.server.delegations() == 0);
  auto second = c.run(m.opening());
  REQUIRE(ok(second));
  CHECK(m.server.delegations() == 1);
  m.server.release();
  REQUIRE(c.turn_until([&] { return closing.done(); }));
  CHECK(ok(closing.await_resume()));
  CHECK(c.session.delegations().count() == 1);
  CHECK(ok(c.run(c.files.close(std::move(second->file)))));
  CHECK(m.server.delegations() == 0);
}

TEST_CASE(
    "S10 a delegation whose OPEN was answered in a session that is gone is returned when it is recalled") {
  Orphaning m;
  const OpenRef file = m.open_and_lose_the_delegation();
  auto recalled = m.server.start_recall("/f");
  CHECK(m.client->turn_until([&] { return m.server.delegations() == 0; }));
  REQUIRE(recalled.wait_for(0s) == std::future_status::ready);
  CHECK(recalled.get() == NFS4_OK);
  CHECK(m.server.count(OP_DELEGRETURN) == 1);
}

TEST_CASE("S26 a recall is answered within a second although an OPEN gets DELAY without end") {
  Orphaning m;
  m.server.add_file("/g", "text");
  const OpenRef file = m.open_and_lose_the_delegation();
  EngineClient& c = *m.client;
  const nfs_fh4 other = c.handle("/g");
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 1000);
  auto stuck = c.files.open_handle(nullptr, other, "g", OPEN4_SHARE_ACCESS_READ);
  c.start(stuck);
  auto recalled = m.server.start_recall("/f");
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }, 2s));
  CHECK_FALSE(stuck.done());
  REQUIRE(recalled.wait_for(0s) == std::future_status::ready);
  CHECK(recalled.get() == NFS4_OK);
  CHECK(c.turn_until([&] { return stuck.done(); }, 60s));
  CHECK_FALSE(stuck.await_resume());
}

TEST_CASE(
    "S24 a delegation that a server tells two users of ends for both, and one that it replaces is returned") {
  for (const bool replaces : {false, true}) {
    CAPTURE(replaces);
    Orphaning m;
    m.server.on_server([&](Responder& responder) {
      responder.state.habits.tells_delegations_again = !replaces;
      responder.state.habits.delegates_twice = replaces;
    });
    EngineClient& c = m.connect();
    const nfs_fh4 handle = c.handle("/f");
    auto first = c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ));
    auto second = c.run(c.files.open_handle(user(2), handle, "f", OPEN4_SHARE_ACCESS_READ));
    REQUIRE(ok(first));
    REQUIRE(ok(second));
    CHECK(second->file->state().delegated());
    CHECK(first->file->state().delegated() != replaces);
    CHECK(c.turn_until([&] { return m.server.delegations() == 1; }));
    CHECK(c.session.delegations().count() == 1);
    auto recalled = m.server.start_recall("/f");
    CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
    CHECK(recalled.get() == NFS4_OK);
    CHECK_FALSE(first->file->state().delegated());
    CHECK_FALSE(second->file->state().delegated());
    CHECK(m.server.count(OP_DELEGRETURN) == (replaces ? 2 : 1));
    m.close(first->file);
    m.close(second->file);
  }
}

TEST_CASE(
    "S24 the attributes of a delegated file that one user was told serve another who shares the delegation") {
  Orphaning m;
  m.server.on_server([](Responder& responder) { responder.state.habits.tells_delegations_again = true; });
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  auto first = c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ));
  auto second = c.run(c.files.open_handle(user(2), handle, "f", OPEN4_SHARE_ACCESS_READ));
  REQUIRE(ok(first));
  REQUIRE(ok(second));
  const auto asked = [&](const OpenRef& file) {
    const std::size_t before = m.server.count(OP_GETATTR);
    CHECK(ok(c.run(file->attributes())));
    return m.server.count(OP_GETATTR) - before;
  };
  CHECK(ok(c.run(c.engine.set_attributes(user(0), handle, mode(0604), nullptr))));
  CHECK(asked(first->file) == 1);
  CHECK(asked(second->file) == 0);
  CHECK(asked(first->file) == 0);
  CHECK(ok(c.run(c.engine.set_attributes(user(0), handle, mode(0644), nullptr))));
  CHECK(asked(second->file) == 1);
  CHECK(asked(first->file) == 0);
  m.close(first->file);
  m.close(second->file);
}

TEST_CASE("S24 a delegation that the server upgrades while it is returned does not stay behind") {
  Orphaning m;
  m.server.on_server([](Responder& responder) {
    Habits& habits = responder.state.habits;
    habits.upgrades_delegations = habits.delegates_unasked = habits.delegates_writing = true;
  });
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  auto reader = c.run(m.opening());
  REQUIRE(ok(reader));
  m.server.hold(OP_OPEN);
  auto writing = c.files.open_handle(nullptr, handle, "f", OPEN4_SHARE_ACCESS_BOTH);
  c.start(writing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  // The DELEGRETURN cannot know the seqid that the OPEN's answer has.
  auto recalled = m.server.start_recall("/f");
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
  CHECK(recalled.get() == NFS4_OK);
  m.server.release();
  REQUIRE(c.turn_until([&] { return writing.done(); }));
  auto writer = writing.await_resume();
  REQUIRE(ok(writer));
  CHECK(c.session.delegations().count() == 0);
  m.close(reader->file);
  m.close(writer->file);
}

TEST_CASE(
    "S11 opens are reclaimed where the client id outlives a restart and CREATE_SESSION fails at first") {
  Orphaning m;
  m.server.on_server(
      [](Responder& responder) { responder.state.habits.survives = Habits::Survives::clients; });
  EngineClient& c = m.connect();
  auto opened = c.run(m.opening());
  REQUIRE(ok(opened));
  m.server.answer(OP_CREATE_SESSION, NFS4ERR_NOSPC, 2);
  m.server.restart(5s);
  (void)c.handle("/f");
  REQUIRE(c.turn_until([&] { return m.server.succeeded(OP_RECLAIM_COMPLETE) == 2; }));
  CHECK(m.server.open_states() == 1);
  m.close(opened->file);
}

TEST_CASE("S18 a server in trouble is asked again to end the session and the client id") {
  Orphaning m;
  m.connect();
  m.server.answer(OP_DESTROY_SESSION, NFS4ERR_SERVERFAULT, 2);
  m.server.answer(OP_DESTROY_CLIENTID, NFS4ERR_SERVERFAULT, 2);
  m.client.reset();  // CHECKs that it ends well
  CHECK(m.server.clients() == 0);
  CHECK(m.server.sessions() == 0);
}

TEST_CASE(
    "S18 what the server has and nobody knows of goes at the end, with another instance of the client") {
  Orphaning m;
  {
    OpenRef file = m.open_and_lose_the_delegation();
    CHECK(ok(m.client->run(m.client->files.close(std::move(file)))));
  }
  m.client.reset();  // CHECKs that it ends well
  CHECK(m.server.delegations() == 0);
  CHECK(m.server.clients() == 0);
  CHECK(m.server.sessions() == 0);
}

TEST_CASE(
    "S18 a delegation whose return the server puts off goes with its client, for whose end there is time") {
  Orphaning m;
  EngineClient& c = m.connect();
  auto opened = c.run(m.opening());
  REQUIRE(ok(opened));
  m.server.answer(OP_DELEGRETURN, NFS4ERR_DELAY, 1000);
  auto recalled = m.server.start_recall("/f");
  CHECK(c.turn_until([&] { return m.server.count(OP_DELEGRETURN) > 1; }));
  CHECK(recalled.get() == NFS4_OK);
  m.close(opened->file);
  m.client.reset();  // CHECKs that it ends well
  CHECK(m.server.delegations() == 0);
  CHECK(m.server.clients() == 0);
  CHECK(m.server.sessions() == 0);
}

namespace {

/// A file whose CLOSE is still to come to a server that takes with it what an OPEN has brought since.
struct Overtaken : Scene {
  Overtaken() {
    server.set_careless_close(true);
    server.add_file("/f", "text");
    EngineClient& c = connect();
    const nfs_fh4 handle = c.handle("/f");
    const auto open = [&] { return c.files.open_handle(nullptr, handle, "f", OPEN4_SHARE_ACCESS_BOTH); };
    auto first = c.run(open());
    REQUIRE(ok(first));
    server.hold(OP_CLOSE, false);
    closing.emplace(c.files.close(std::move(first->file)));
    c.start(*closing);
    REQUIRE(c.turn_until([&] { return server.held() == 1; }));
    auto second = c.run(open());
    REQUIRE(ok(second));
    file = std::move(second->file);
  }
  std::optional<async::Task<Status>> closing;
  OpenRef file;
};

}  // namespace

TEST_CASE("S16 a LOCK waits for the CLOSE that an OPEN has overtaken, which takes what is locked with it") {
  Overtaken m;
  EngineClient& c = *m.client;
  const LockRequest wanted{1, true, {0, 10}};
  auto locking = c.locks.set(m.file.file(), wanted);
  c.start(locking);
  c.turn_for(100ms);
  CHECK(m.server.count(OP_LOCK) == 0);
  m.server.release();
  REQUIRE(c.turn_until([&] { return locking.done() && m.closing->done(); }));
  CHECK(ok(m.closing->await_resume()));
  CHECK(ok(locking.await_resume()));
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(m.file->state().unusable() == nullptr);
  CHECK(ok(c.run(c.locks.release(m.file.file(), 1))));
  CHECK(ok(c.run(c.files.close(std::move(m.file)))));
}

TEST_CASE("S11 a file that went with the CLOSE that an OPEN has overtaken: whoever has it open hears why") {
  Overtaken m;
  EngineClient& c = *m.client;
  CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "f", Engine::Removed::file))));
  m.server.release();
  REQUIRE(c.turn_until([&] { return m.closing->done(); }));
  CHECK(ok(m.closing->await_resume()));
  std::array<std::byte, 4> data{};
  CHECK(errno_of(c.run(m.file->read(data, 0))) == ESTALE);
  CHECK(errno_of(c.run(c.files.close(std::move(m.file)))) == ESTALE);
  CHECK(c.files.parked() == 0);
}

/// Destroyed while a recovery of it is under way, with its loop going on.
TEST_CASE("S18 what a session does beside ends with it") {
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  ClientLoop place(server, "client");
  rpc::Channel channel(place.loop(), EngineClient::channel_options(server, place.host()), {});
  const auto run = [&](auto task) {
    task.handle().resume();
    while (!task.done()) place.loop().turn(place.loop().now() + 5ms);
    return task.await_resume();
  };
  REQUIRE(ok(run(channel.connect(place.loop().now() + 5s))));
  {
    Session session(channel, EngineClient::session_options({}, "client"), [](const std::string&) {});
    REQUIRE(ok(run(session.open(place.loop().now() + 5s))));
    server.hold(OP_CREATE_SESSION, false);
    server.set_sequence_flags(SEQ4_STATUS_BACKCHANNEL_FAULT | SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
    auto asked = session.call(session.begin("SEQUENCE"), place.loop().now() + 5s);
    asked.handle().resume();
    const auto end = place.loop().now() + 1s;
    while (server.held() == 0 && place.loop().now() < end) place.loop().turn(place.loop().now() + 5ms);
    REQUIRE(server.held() == 1);
    CHECK_FALSE(session.background().empty());
  }
  server.release();
  const auto end = place.loop().now() + 20s;
  while (place.loop().now() < end) place.loop().turn(end);
  channel.shut_down();
}

TEST_CASE("S11 a session that goes while the locks of a file are reclaimed: the next one reclaims them") {
  for (const bool executed : {true, false}) {
    CAPTURE(executed);
    Scene m;
    m.server.add_file("/f", "text");
    EngineClient& c = m.connect();
    auto opened = c.run(c.files.open_handle(nullptr, c.handle("/f"), "f", OPEN4_SHARE_ACCESS_BOTH));
    REQUIRE(ok(opened));
    const LockRequest wanted{1, true, {0, 10}};
    REQUIRE(ok(c.run(c.locks.set(opened->file.file(), wanted))));
    m.server.restart(3s);
    m.server.hold(OP_LOCK, executed);
    auto asking = c.engine.attributes(nullptr, c.root);  // finds out that it restarted
    c.start(asking);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.forget_sessions();
    m.server.drop_connections();
    m.server.release();
    REQUIRE(c.turn_until([&] { return asking.done(); }));
    CHECK(ok(asking.await_resume()));
    CHECK(m.server.locks("/f") == "0-10w");
    CHECK(opened->file->state().unusable() == nullptr);
    CHECK(ok(c.run(c.locks.release(opened->file.file(), 1))));
    CHECK(m.server.locks("/f").empty());
    CHECK(ok(c.run(c.files.close(std::move(opened->file)))));
  }
}

TEST_CASE("S10 a rename goes on as long as its caller waits, however often the server restarts meanwhile") {
  Scene m;
  SessionOptions patient;
  patient.patience = 1h;
  EngineClient& c = m.client.emplace(m.server, "engine", patient);
  m.server.add_file("/a", "text");
  m.server.hold(OP_RENAME, false);
  auto renaming = c.engine.rename(nullptr, c.root, "a", c.root, "b", std::nullopt);
  c.start(renaming);
  constexpr int kRestarts = 12;
  for (int i = 0; i < kRestarts; ++i) {
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }, 60s));
    m.server.restart();
    m.server.hold(OP_RENAME, false);
  }
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }, 60s));
  m.server.release();
  REQUIRE(c.turn_until([&] { return renaming.done(); }, 60s));
  CHECK(ok(renaming.await_resume()));
  CHECK(m.server.succeeded(OP_RENAME) == 1);
  CHECK(m.server.content("/b") == "text");
}

TEST_CASE("S5 a session that is lost before it has begun is made once more") {
  for (const nfsstat4 status : {NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_STALE_CLIENTID}) {
    CAPTURE(static_cast<unsigned>(status));
    Scene m;
    m.server.answer(OP_SEQUENCE, status, 2);
    (void)m.connect();  // REQUIREs that it begins
    CHECK(m.server.succeeded(OP_CREATE_SESSION) == 3);
  }
}

}  // namespace nfsrdma
