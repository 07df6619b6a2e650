// Calls of NFSv4.0 by themselves (nfs4/v40/nfs40_client.h), on virtual time: who waits for whom, what lock
// owners are called, and client ids that are recovered. What it comes to in a whole client: v40_test.cpp.
#include "nfs4/v40/nfs40_client.h"

#include <array>
#include <cerrno>
#include <vector>

#include "support/engine_fixture.h"
#include "support/gamble.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::uint64_t kLocker = 0x1234567890abcdef, kOtherLocker = 7;

/// It is as if somebody kept data, so that delegations for writing are wanted.
struct KeeperOfNothing final : engine::WriteBackOwner {
  void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> /*until*/) override {}
  std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
    return std::nullopt;
  }
};

/// As EngineClient (support/engine_fixture.h), of version 4.0.
struct Client40 : OnLoop {
  Client40(const NfsServer& server, std::uint32_t slots,
           std::optional<std::chrono::milliseconds> patience = std::nullopt)
      : OnLoop(server, "client40"),
        channel(loop, EngineClient::channel_options(server, place.host()), {}),
        session(std::vector<rpc::Channel*>{&channel}, session_options(slots, patience),
                [this](const std::string& text) { notices += text + "\n"; }) {
    REQUIRE(ok(run(channel.connect(loop.now() + 5s))));
    REQUIRE(ok(run(session.open(loop.now() + 5s))));
    root = run(engine.find(nullptr, {}))->handle;
  }
  ~Client40() {
    session.delegations().write_back_owner(nullptr);
    CHECK(ok(run(session.close(loop.now() + 5s))));
    channel.shut_down();
    loop.drop_tasks();
  }
  Client40(const Client40&) = delete;
  Client40& operator=(const Client40&) = delete;

  async::Task<Result<OpenResult>> open(std::string name, std::uint32_t access) {
    return files.open_at(user(1), root, std::move(name), access, std::nullopt);
  }
  OpenRef opened(const std::string& name, std::uint32_t access) {
    auto made = run(open(name, access));
    if (!made) FAIL(made.error().text());
    return std::move(made->file);
  }
  void close(OpenRef& file) { CHECK(ok(run(files.close(std::move(file))))); }
  void rename(const char* from, const char* to) {
    CHECK(ok(run(engine.rename(nullptr, root, from, root, to, std::nullopt))));
  }

  static nfs4::SessionOptions session_options(std::uint32_t slots,
                                              std::optional<std::chrono::milliseconds> patience) {
    nfs4::SessionOptions out = EngineClient::session_options({}, "client40");
    out.slots = slots;
    out.patience = patience;
    out.callback.netid = "tcp";
    out.callback.address = "127.0.0.1.3.255";
    return out;
  }

  std::string notices;
  rpc::Channel channel;
  nfs4::Nfs40Client session;
  nfs4::Nfs4Engine engine{session};
  const std::shared_ptr<nfs4::OpenFiles> open_files = std::make_shared<nfs4::OpenFiles>(session);
  nfs4::OpenFiles& files = *open_files;
  nfs4::Locks locks{session};
  nfs4::nfs_fh4 root;
};

struct Scene40 {
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  KeeperOfNothing keeper;
  std::optional<Client40> client;

  /// `confirms`: the server wants OPEN_CONFIRM.
  explicit Scene40(bool confirms = true) {
    for (const char* path : {"/f", "/g", "/h"}) server.add_file(path, "text");
    server.on_server([confirms](Responder& responder) { responder.state.habits.confirms_owners = confirms; });
  }
  ~Scene40() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Client40& connect(std::uint32_t slots = 64) { return client.emplace(server, slots); }
  static LockRequest request(std::uint64_t owner) { return {owner, true, {0, 10}}; }
};

}  // namespace

TEST_CASE("sessionless: an OPEN that is refused keeps no turn from the next one of whoever asked") {
  for (const bool confirms : {true, false}) {
    CAPTURE(confirms);
    Scene40 m(confirms);
    Client40& c = m.connect();
    c.session.delegations().write_back_owner(&m.keeper);
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
    auto by_name = c.opened("f", OPEN4_SHARE_ACCESS_WRITE);
    CHECK(m.server.count(OP_OPEN) == 2);
    REQUIRE(m.server.opens().size() == 1);
    CHECK(m.server.opens().back().share_access == OPEN4_SHARE_ACCESS_WRITE);
    const nfs_fh4 other = c.run(c.engine.find(nullptr, {c.root, {"g"}}))->handle;
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
    auto by_handle =
        c.run(c.files.open_handle(user(1), other, "g", OPEN4_SHARE_ACCESS_WRITE, engine::Place{c.root, "g"}));
    REQUIRE(ok(by_handle));
    CHECK(m.server.count(OP_OPEN) == 4);
    c.close(by_name);
    c.close(by_handle->file);
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE(
    "S13 sessionless: a call that an OPEN has overtaken waits for its late answer, and opens nothing by the "
    "name") {
  Scene40 m(false);
  Client40& c = m.client.emplace(m.server, 64U, 60s);
  OpenRef writer = c.opened("f", OPEN4_SHARE_ACCESS_WRITE);
  m.server.on_server([](Responder& responder) { responder.stall(OP_OPEN); });
  auto late = c.open("f", OPEN4_SHARE_ACCESS_BOTH);
  c.start(late);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.answer(OP_WRITE, NFS4ERR_OLD_STATEID);
  const std::string text = "TEXT";
  auto writing = writer->write(bytes(text), 0, FILE_SYNC4);
  c.start(writing);
  c.turn_for(6s);
  CHECK_FALSE(writing.done());
  m.server.release();
  REQUIRE(c.turn_until([&] { return late.done() && writing.done(); }));
  CHECK(ok(writing.await_resume()));
  CHECK(m.server.content("/f") == "TEXT");
  CHECK(m.server.succeeded(OP_OPEN) == 2);
  auto opened = late.await_resume();
  REQUIRE(ok(opened));
  c.close(opened->file);
  c.close(writer);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE(
    "S11 sessionless: a file that a recovery has reclaimed is not opened again by a name that leads "
    "elsewhere") {
  Scene40 m;
  Client40& c = m.connect();
  OpenRef f = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  OpenRef g = c.opened("g", OPEN4_SHARE_ACCESS_BOTH);
  REQUIRE(ok(c.run(c.locks.set(g.file(), m.request(kLocker)))));
  c.rename("f", "moved");
  c.rename("g", "f");
  // The READ has the file opened again by its name. The server puts that OPEN off, and restarts.
  m.server.answer(OP_READ, NFS4ERR_BAD_STATEID);
  m.server.answer(OP_OPEN, NFS4ERR_DELAY);
  std::array<std::byte, 4> data{};
  auto reading = f->read(data, 0);
  c.start(reading);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_OPEN) == 3; }));
  m.server.restart(1s);
  REQUIRE(c.turn_until([&] { return reading.done(); }, 10s));
  CHECK(ok(reading.await_resume()));
  c.turn_for(100ms);
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(m.server.count(OP_CLOSE) == 0);
  for (const OPEN4args& open : m.server.opens()) {
    const bool by_name = open.claim.tag() == CLAIM_NULL;
    CHECK((!by_name || open.owner.clientid != c.session.facts().client_id));
  }
  CHECK(ok(c.run(g->write(bytes("of g"), 0, FILE_SYNC4))));
  c.close(f);
  c.close(g);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S11 sessionless: a file that this client has renamed is opened again by its new name") {
  Scene40 m;
  Client40& c = m.connect();
  OpenRef f = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  std::array<std::byte, 4> data{};
  auto renaming = c.engine.rename(nullptr, c.root, "f", c.root, "moved", f->state().file);
  m.server.answer(OP_READ, NFS4ERR_BAD_STATEID);
  SUBCASE("if it was renamed before") {
    CHECK(ok(c.run(std::move(renaming))));
    CHECK(ok(c.run(f->read(data, 0))));
    CHECK(m.server.count(OP_OPEN) == 2);
    c.close(f);
  }
  SUBCASE("if the answer of the RENAME is still to come") {
    m.server.hold(OP_RENAME);
    c.start(renaming);
    auto reading = f->read(data, 0);
    c.start(reading);
    REQUIRE(c.turn_until([&] { return m.server.count(OP_OPEN) == 2; }));
    c.turn_for(100ms);
    CHECK_FALSE(reading.done());
    m.server.release();
    REQUIRE(c.turn_until([&] { return reading.done(); }, 10s));
    CHECK(ok(reading.await_resume()));
    REQUIRE(c.turn_until([&] { return renaming.done(); }));
    CHECK(ok(renaming.await_resume()));
    c.close(f);
  }
  SUBCASE("and is lost if somebody else has renamed it") {
    c.rename("f", "elsewhere");  // as by somebody else
    CHECK(errno_of(c.run(std::move(renaming))) == ENOENT);
    CHECK(errno_of(c.run(f->read(data, 0))) == ENOENT);
    CHECK(errno_of(c.run(c.files.close(std::move(f)))) == ENOENT);
  }
}

TEST_CASE(
    "sessionless: an OPEN by a name that leads to another file leaves that file open for those who have it") {
  Scene40 m;
  Client40& c = m.connect();
  OpenRef f = c.opened("f", OPEN4_SHARE_ACCESS_BOTH);
  OpenRef g = c.opened("g", OPEN4_SHARE_ACCESS_READ);
  REQUIRE(ok(c.run(c.locks.set(g.file(), {kLocker, false, {0, 10}}))));
  const stateid4 before = g->state().stateid;
  c.rename("f", "moved");
  c.rename("g", "f");
  m.server.answer(OP_READ, NFS4ERR_BAD_STATEID);
  std::array<std::byte, 4> data{};
  CHECK(errno_of(c.run(f->read(data, 0))) == ESTALE);
  c.turn_for(100ms);
  CHECK(m.server.locks("/f") == "0-10r");
  CHECK(m.server.count(OP_CLOSE) == 0);
  CHECK(is_later(g->state().stateid, before));
  CHECK(ok(c.run(g->read(data, 0))));
  c.close(g);
}

TEST_CASE(
    "S1 sessionless: behind an OPEN that the server has executed and counted twice another file is opened") {
  bool confirms = false;
  SUBCASE("of an owner that needs no confirmation") {}
  SUBCASE("of one that does") {
    confirms = true;
  }
  Scene40 m(confirms);
  m.server.on_server([](Responder& responder) { responder.state.habits.counts_twice = true; });
  Client40& c = m.connect();
  const auto open = [&](const char* name) {
    return c.files.open_at(nullptr, c.root, name, OPEN4_SHARE_ACCESS_BOTH, std::nullopt);
  };
  auto before = c.run(open("h"));
  REQUIRE(ok(before));
  m.server.on_server([](Responder& responder) { responder.stall(OP_OPEN); });
  auto first = open("f");
  c.start(first);
  c.turn_for(100ms);
  m.server.drop_connections();
  c.turn_for(1s);
  m.server.release();
  REQUIRE(c.turn_until([&] { return first.done(); }));
  auto f = first.await_resume();
  REQUIRE(ok(f));
  auto g = c.run(open("g"));
  REQUIRE(ok(g));
  CHECK(g->object.handle != f->object.handle);
  CHECK(ok(c.run(g->file->write(bytes("of g"), 0, FILE_SYNC4))));
  CHECK(m.server.content("/f") == "text");
  CHECK(m.server.content("/g") == "of g");
  for (auto* one : {&*f, &*g, &*before}) CHECK(ok(c.run(c.files.close(std::move(one->file)))));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S14 sessionless: an opening that cuts a file cuts what the server has lost, too") {
  Scene40 m(false);
  Client40& c = m.connect();
  OpenRef writer = c.opened("f", OPEN4_SHARE_ACCESS_WRITE);
  CHECK(ok(c.run(writer->write(bytes("old old old"), 0))));
  m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
  engine::Engine::Creation cuts;
  cuts.truncate = true;
  auto opened = c.run(c.files.open_at(user(2), c.root, "f", OPEN4_SHARE_ACCESS_WRITE, cuts));
  REQUIRE(ok(opened));
  CHECK(ok(c.run(writer->commit())));
  CHECK(m.server.stable_content("/f") == "");
  c.close(opened->file);
  c.close(writer);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("sessionless: whoever waits for a turn keeps no place from calls of others") {
  Scene40 m;
  Client40& c = m.connect(2);
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  m.server.hold(OP_OPEN);
  auto first = c.open("g", OPEN4_SHARE_ACCESS_READ);
  auto second = c.open("h", OPEN4_SHARE_ACCESS_READ);
  c.start(first);
  c.start(second);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(file->read(data, 0))));
  CHECK(m.server.held() == 1);
  m.server.release();
  REQUIRE(c.turn_until([&] { return first.done() && second.done(); }));
  auto one = first.await_resume();
  auto other = second.await_resume();
  REQUIRE(ok(one));
  REQUIRE(ok(other));
  c.close(one->file);
  c.close(other->file);
  c.close(file);
}

TEST_CASE("sessionless: LOCKT and RELEASE_LOCKOWNER call a lock owner as LOCK does") {
  Scene40 m;
  Client40& c = m.connect();
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_BOTH);
  auto refused = c.run(c.locks.set(file.file(), m.request(kLocker)));
  REQUIRE(ok(refused));
  CHECK_FALSE(refused->has_value());
  auto own = c.run(c.locks.test(file.file(), m.request(kLocker)));
  REQUIRE(ok(own));
  CHECK_FALSE(own->has_value());
  auto others = c.run(c.locks.test(file.file(), m.request(kOtherLocker)));
  REQUIRE(ok(others));
  REQUIRE(*others);
  CHECK((*others)->ours);
  CHECK((*others)->owner == kLocker);
  CHECK(m.server.lock_states() == 1);
  CHECK(ok(c.run(c.locks.release(file.file(), kLocker))));
  CHECK(m.server.lock_states() == 0);
  CHECK(m.server.open_states() == 1);
  CHECK(m.server.succeeded(OP_RELEASE_LOCKOWNER) == 1);
  CHECK(file->state().locks.empty());
  c.close(file);
}

TEST_CASE("sessionless: a LOCK that waits for its owner's turn while the owner is released") {
  Scene40 m;
  Client40& c = m.connect();
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_BOTH);
  REQUIRE(ok(c.run(c.locks.set(file.file(), m.request(kLocker)))));
  m.server.hold(OP_LOCKU);
  auto releasing = c.locks.release(file.file(), kLocker);
  c.start(releasing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  auto locking = c.locks.set(file.file(), m.request(kLocker));
  c.start(locking);
  m.server.release();
  REQUIRE(c.turn_until([&] { return releasing.done() && locking.done(); }));
  CHECK(ok(releasing.await_resume()));
  CHECK(ok(locking.await_resume()));
  CHECK(m.server.locks("/f") == "0-10w");
  REQUIRE(file->state().locks.contains(kLocker));
  CHECK(file->state().locks.at(kLocker)->unique != 0);
  auto own = c.run(c.locks.test(file.file(), m.request(kLocker)));
  REQUIRE(ok(own));
  CHECK_FALSE(own->has_value());
  CHECK(ok(c.run(c.locks.release(file.file(), kLocker))));
  CHECK(m.server.lock_states() == 0);
  CHECK(m.server.count(OP_RELEASE_LOCKOWNER) == 2);
  c.close(file);
}

TEST_CASE("sessionless: one SETCLIENTID at a time, where a recovery begins while the callback is renewed") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.hold(OP_SETCLIENTID);
  m.server.answer(OP_RENEW, NFS4ERR_CB_PATH_DOWN);
  CHECK(ok(c.run(c.session.call(c.session.renewal()))));
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.answer(OP_RENEW, NFS4ERR_STALE_CLIENTID);
  auto renewed = c.session.call(c.session.renewal());
  c.start(renewed);
  c.turn_for(100ms);
  CHECK(m.server.held() == 1);
  m.server.release();
  REQUIRE(c.turn_until([&] { return renewed.done(); }));
  CHECK(ok(renewed.await_resume()));
  CHECK(m.server.count(OP_SETCLIENTID) == 3);
}

TEST_CASE(
    "sessionless: a server that has forgotten the client, as it turns out when the callback is renewed") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.answer(OP_RENEW, NFS4ERR_CB_PATH_DOWN);
  m.server.answer(OP_SETCLIENTID_CONFIRM, NFS4ERR_STALE_CLIENTID);
  CHECK(ok(c.run(c.session.call(c.session.renewal()))));
  CHECK(c.turn_until([&] { return c.notices.find("recovered") != std::string::npos; }));
  CHECK(c.session.facts().client_id != 0);
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  c.close(file);
}

TEST_CASE("sessionless: a server that finds a stateid where there is none is not asked again and again") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_RENEW, NFS4ERR_STALE_STATEID, 8);
  auto renewed = c.run(c.session.call(c.session.renewal()));
  REQUIRE(ok(renewed));
  CHECK(renewed->status() == NFS4ERR_STALE_STATEID);
  CHECK(m.server.count(OP_RENEW) == 1);
}

TEST_CASE("sessionless: the end does not wait for a client id that the server has forgotten") {
  Scene40 m;
  Client40& c = m.connect();
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  const Open& state = file->state();
  const nfs_fh4 handle = state.file;
  const stateid4 stateid = state.stateid;
  const std::uint64_t owner = state.owner;
  c.close(file);
  // Something that is given back beside is under way when the server restarts and the client ends.
  m.server.hold(OP_CLOSE, false);
  c.session.leftovers().close_in_background(handle, stateid, owner);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.restart();
  m.server.hold(OP_NVERIFY);  // which nobody sends
  const sim::Time begun = m.world.now();
  m.client.reset();
  CHECK(m.world.now() - begun < 3s);
}

TEST_CASE(
    "sessionless: as many calls are under way as there are slots, and what renews the lease beside them") {
  Scene40 m;
  Client40& c = m.connect(2);
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  m.server.hold(OP_READ);
  std::array<std::array<std::byte, 4>, 3> data{};
  std::vector<async::Task<Result<std::size_t>>> reads;
  reads.reserve(data.size());
  for (auto& one : data) {
    reads.push_back(file->read(one, 0));
    c.start(reads.back());
  }
  REQUIRE(c.turn_until([&] { return m.server.held() == 2; }));
  c.turn_for(50ms);
  CHECK(m.server.held() == 2);
  CHECK(ok(c.run(c.session.call(c.session.renewal()))));
  CHECK(m.server.held() == 2);
  m.server.release();
  for (auto& one : reads) {
    REQUIRE(c.turn_until([&] { return one.done(); }));
    CHECK(ok(one.await_resume()));
  }
  c.close(file);
}

TEST_CASE("sessionless: a request that the server has put off was not sent twice for that") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_REMOVE, NFS4ERR_DELAY);
  const auto removed = c.run(c.engine.remove(nullptr, c.root, "none", engine::Engine::Removed::file));
  CHECK(errno_of(removed) == ENOENT);
  CHECK(m.server.count(OP_REMOVE) == 2);
  CHECK(m.server.count(OP_LOOKUP) == 0);  // there is nothing to look for
}

TEST_CASE("S10 sessionless: DELAY up to the deadline says nothing of what was sent before") {
  for (const bool lost : {false, true}) {
    CAPTURE(lost);
    Scene40 m;
    m.server.on_server([](Responder& responder) { responder.state.habits.recent_calls = 0; });
    Client40& c = m.connect();
    m.server.clear_calls();
    if (lost) m.server.drop_after(OP_CREATE);
    m.server.answer(OP_CREATE, NFS4ERR_DELAY, 1000, lost ? 1 : 0);
    const auto made = c.run(c.engine.make_directory(nullptr, c.root, "d", 0755), 60s);
    CHECK(m.server.count(OP_CREATE) > 2);
    bool exists = false;
    m.server.on_server([&](Responder& responder) { exists = responder.state.find("/d") != nullptr; });
    CHECK(exists == lost);
    // Where it is not known whether it was done, a look may tell.
    const bool known = made.has_value() || made.error().kind() != ErrorKind::unknown_outcome;
    CHECK((made.has_value() || !known) == lost);
    CHECK((!made.has_value() && made.error().errno_value() == EAGAIN && known) != lost);
  }
}

TEST_CASE(
    "S10 sessionless: a rename that is refused after its first sending may have been made, if no name "
    "tells") {
  Scene40 m;
  Client40& c = m.connect();
  (void)c.run(c.engine.list(nullptr, c.root, 0, {}));
  c.turn_for(100ms);
  m.server.hold(OP_RENAME);  // executed, and not answered
  auto renaming = c.engine.rename(nullptr, c.root, "f", c.root, "new", std::nullopt);
  c.start(renaming);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK(m.server.content("/new") == "text");
  CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "new", engine::Engine::Removed::file))));
  m.server.restart();  // and forgets what it has answered
  m.server.release();
  REQUIRE(c.turn_until([&] { return renaming.done(); }, 60s));
  const auto renamed = renaming.await_resume();
  REQUIRE_FALSE(renamed);
  CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
  CHECK(renamed.error().errno_value() == EIO);
}

TEST_CASE("sessionless: what an OPEN brought whose answer never came goes with the client") {
  Scene40 m(false);
  Client40& c = m.connect();
  m.server.hold(OP_OPEN);
  const auto opened = c.run(c.open("f", OPEN4_SHARE_ACCESS_READ));
  CHECK_FALSE(opened);
  CHECK(m.server.open_states() == 1);
  m.server.release();
  m.client.reset();
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("sessionless: a reclaim that the server puts off is made again, and nothing else with it") {
  Scene40 m;
  Client40& c = m.connect();
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  m.server.clear_calls();
  m.server.restart(2s);
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 2);
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(file->read(data, 0))));
  CHECK(m.server.count(OP_OPEN) == 3);
  CHECK(m.server.count(OP_SETCLIENTID) == 1);
  c.close(file);
}

TEST_CASE("sessionless: an owner is confirmed although the server puts that off") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.answer(OP_OPEN_CONFIRM, NFS4ERR_DELAY, 2);
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
  CHECK(m.server.count(OP_OPEN_CONFIRM) == 3);
  CHECK(m.server.count(OP_OPEN) == 1);
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(file->read(data, 0))));
  c.close(file);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("sessionless: a request may meet BAD_SEQID any number of times while it waits, but not in a row") {
  Scene40 m(false);
  Client40& c = m.connect();
  const auto refuse_often = [&m] {
    for (int i = 0; i < 7; ++i) {
      m.server.answer(OP_OPEN, NFS4ERR_DELAY);
      m.server.answer(OP_OPEN, NFS4ERR_BAD_SEQID);
    }
    m.server.clear_calls();
  };
  SUBCASE("a call") {
    refuse_often();
    auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
    CHECK(m.server.count(OP_OPEN) == 15);
    c.close(file);
  }
  SUBCASE("a call in recovery") {
    auto file = c.opened("f", OPEN4_SHARE_ACCESS_READ);
    m.server.restart(60s);
    refuse_often();
    CHECK(ok(c.run(c.session.call(c.session.renewal()), 60s)));
    CHECK(m.server.count(OP_OPEN) == 15);
    CHECK(c.session.counters().recoveries == 1);
    std::array<std::byte, 4> data{};
    CHECK(ok(c.run(file->read(data, 0))));
    c.close(file);
  }
  SUBCASE("a server that accepts no seqid at all") {
    m.server.clear_calls();
    m.server.answer(OP_OPEN, NFS4ERR_BAD_SEQID, 100);
    const auto opened = c.run(c.open("f", OPEN4_SHARE_ACCESS_READ));
    REQUIRE_FALSE(opened);
    CHECK(opened.error().status() == NFS4ERR_BAD_SEQID);
    CHECK(m.server.count(OP_OPEN) == 2);  // under the owner's name, and under another one
  }
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("sessionless: an owner keeps its name and its locks however many of its requests were in doubt") {
  Scene40 m;
  Client40& c = m.connect();
  auto file = c.opened("f", OPEN4_SHARE_ACCESS_BOTH);
  REQUIRE(ok(c.run(c.locks.set(file.file(), {kOtherLocker, true, {20, 10}}))));
  m.server.clear_calls();
  auto locking = c.locks.set(file.file(), m.request(kLocker));
  c.start(locking);
  // The connection breaks before the server executes the LOCK, and PUTFH of the retransmission is put off. So
  // the client cannot tell whether the LOCK was counted.
  constexpr unsigned kDoubts = 5;
  for (unsigned i = 0; i != kDoubts; ++i) {
    m.server.drop_before(OP_LOCK);
    m.server.answer(OP_PUTFH, NFS4ERR_DELAY);
    REQUIRE(c.turn_until([&] { return m.server.count(OP_PUTFH) == i + 1; }, 60s));
  }
  REQUIRE(c.turn_until([&] { return locking.done(); }, 60s));
  CHECK(ok(locking.await_resume()));
  CHECK(m.server.locks("/f") == "0-10w 20-30w");
  CHECK(m.server.count(OP_OPEN) == 0);
  CHECK(m.server.succeeded(OP_LOCK) == 1);
  // Each open seqid but the last one is refused with all seqids of the lock owner, which the server does not know.
  CHECK(m.server.count(OP_PUTFH) == kDoubts + kDoubts * (kDoubts + 1) + 1);
  CHECK(c.notices.find("lost (") == std::string::npos);
  REQUIRE(ok(c.run(c.locks.release(file.file(), kLocker))));
  c.close(file);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("sessionless: a lease that has expired shows when it is renewed, and the client id is recovered") {
  Scene40 m;
  Client40& c = m.connect();
  m.server.clear_calls();
  m.server.answer(OP_RENEW, NFS4ERR_EXPIRED);
  auto renewed = c.run(c.session.call(c.session.renewal()));
  REQUIRE(ok(renewed));
  CHECK(renewed->status() == NFS4_OK);
  CHECK(m.server.count(OP_RENEW) == 2);
  CHECK(m.server.count(OP_SETCLIENTID) == 1);
  CHECK(c.session.counters().recoveries == 1);
}

TEST_CASE("U8 sessionless: call() sends no COMPOUND that changes something and has an answer of any length") {
  Scene40 m;
  check_that_gambles_are_refused(m, m.connect());
}

}  // namespace nfsrdma
