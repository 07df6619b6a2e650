// Files opened by handle and by name, shared between the openers of one user: upgrades, OPEN_DOWNGRADE,
// CLOSE, Replies that overtake each other, creation in all its ways, recovery.
#include "nfs4/files/open_files.h"

#include <cerrno>
#include <string>
#include <utility>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr auto kRead = OPEN4_SHARE_ACCESS_READ;
constexpr auto kWrite = OPEN4_SHARE_ACCESS_WRITE;
constexpr auto kBoth = OPEN4_SHARE_ACCESS_BOTH;

struct KeepsNothing final : engine::WriteBackOwner {
  void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> /*until*/) override {}
  std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
    return std::nullopt;
  }
};

struct Opening : Scene {
  ~Opening() {
    if (client) client->session.delegations().write_back_owner(nullptr);
  }
  Opening() { server.add_file("/f", "text"); }
  OpenResult open(const Caller& caller, std::uint32_t access, const std::string& name = "f") {
    auto made = client->run(client->open(caller, client->root, name, access));
    if (!made) FAIL(made.error().text());
    return std::move(*made);
  }
  OpenResult open_handle(const Caller& caller, std::uint32_t access, const std::string& path = "/f") {
    const nfs_fh4 handle = client->handle(path);
    auto made = client->run(client->files.open_handle(caller, handle, path, access));
    if (!made) FAIL(made.error().text());
    return std::move(*made);
  }
  Status close(OpenResult& opened) { return client->run(client->files.close(std::move(opened.file))); }
  OpenResult make(const Caller& caller, const std::string& name, std::uint32_t mode) {
    auto made = client->run(client->files.open_at(caller, client->root, name, kWrite,
                                                  Engine::Creation{.mode = mode, .exclusive = true}));
    if (!made) FAIL(made.error().text());
    return std::move(*made);
  }
  /// It is as if somebody kept data.
  void want_writing(bool only_for_both) {
    server.set_delegations(true);
    server.set_write_delegations(only_for_both);
    client->session.delegations().write_back_owner(&keeper);
  }
  /// The server's clock when it made the file, or later.
  std::int64_t server_time(const std::string& path) {
    std::int64_t out = 0;
    server.on_server([&](Responder& responder) { out = responder.state.find(path)->modified.seconds; });
    return out;
  }
  std::string read(OpenResult& opened) {
    std::string data(100, '?');
    auto count = client->run(opened.file->read(room(data), 0));
    if (!ok(count)) return "";
    data.resize(*count);
    return data;
  }
  KeepsNothing keeper;
};

struct Looking : Scene {
  /// Opened by its handle for reading, as a mount does, and closed.
  void look_into(const std::string& path) {
    auto opened =
        client->run(client->files.open_handle(user(1), client->handle(path), path, OPEN4_SHARE_ACCESS_READ));
    REQUIRE(ok(opened));
    CHECK(ok(client->run(client->files.close(std::move(opened->file)))));
  }
};

}  // namespace

TEST_CASE("open files: by name, with the attributes of file and directory in one round trip") {
  Opening m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  const Caller who = user(1000);
  OpenResult file = m.open(who, kRead);
  CHECK(m.server.calls().size() == 1);
  CHECK(file.object.handle == c.handle("/f"));
  CHECK(file.object.attributes->size == 4);
  REQUIRE(file.directory);
  CHECK(file.directory->type == FileType::directory);
  CHECK(m.read(file) == "text");
  m.server.clear_calls();
  CHECK(ok(m.close(file)));
  for (const SeenCall& call : m.server.calls()) CHECK(is_of(call.credential, who));
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
  CHECK(errno_of(c.run(c.open(who, c.root, "nothing", kRead))) == ENOENT);
}

TEST_CASE("open files: by handle") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult file = m.open_handle(user(1), kBoth);
  CHECK(file.object.attributes->size == 4);
  CHECK_FALSE(file.directory);
  CHECK(ok(c.run(file.file->write(bytes("more"), 4))));
  CHECK(m.read(file) == "textmore");
  CHECK(m.server.opens().back().claim.tag() == CLAIM_FH);
  CHECK(ok(m.close(file)));
  CHECK(m.server.stable_content("/f") == "textmore");
  m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
  const nfs_fh4 handle = c.handle("/f");
  CHECK(errno_of(c.run(c.files.open_handle(user(1), handle, "f", kRead))) == EACCES);
}

TEST_CASE("open files: one state per user and file, upgraded and downgraded as openers come and go") {
  Opening m;
  EngineClient& c = m.connect();
  const Caller one = user(1), other = user(2);
  OpenResult reader = m.open(one, kRead);
  OpenResult writer = m.open_handle(one, kWrite);
  OpenResult third = m.open(other, kRead);
  CHECK(m.server.open_states() == 2);
  CHECK(c.files.count() == 2);
  CHECK(reader.file.file() == writer.file.file());
  CHECK(reader.file.file() != third.file.file());
  CHECK(reader.file->state().access == kBoth);
  CHECK(m.read(reader) == "text");
  CHECK(ok(c.run(writer.file->write(bytes("TEXT"), 0))));
  CHECK(ok(m.close(writer)));
  CHECK(m.server.stable_content("/f") == "TEXT");  // the last writer's close commits
  CHECK(m.server.succeeded(OP_OPEN_DOWNGRADE) == 1);
  CHECK(reader.file->state().access == kRead);
  CHECK(m.read(reader) == "TEXT");
  CHECK(c.run(reader.file->write(bytes("no"), 0)).error().status() == NFS4ERR_OPENMODE);
  OpenResult again = m.open(one, kRead);
  CHECK(ok(m.close(reader)));
  CHECK(m.read(again) == "TEXT");
  CHECK(ok(m.close(again)));
  CHECK(m.server.open_states() == 1);
  CHECK(ok(m.close(third)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S23 close(2) reports nothing of an OPEN_DOWNGRADE that a server in trouble refuses") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult reader = m.open(user(1), kRead);
  OpenResult writer = m.open_handle(user(1), kWrite);
  m.server.answer(OP_OPEN_DOWNGRADE, NFS4ERR_SERVERFAULT, 100);
  CHECK(ok(m.close(writer)));
  CHECK(m.server.count(OP_OPEN_DOWNGRADE) == 1);
  CHECK(m.read(reader) == "text");
  CHECK(ok(m.close(reader)));
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
}

TEST_CASE("open files: what a server will not downgrade stays until CLOSE") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult first = m.open(user(1), kBoth);
  OpenResult second = m.open(user(1), kRead);
  m.server.restart(2s);
  CHECK(m.read(second) == "text");  // claimed again, with both
  CHECK(ok(m.close(first)));
  CHECK(m.server.count(OP_OPEN_DOWNGRADE) == 1);
  CHECK(m.server.succeeded(OP_OPEN_DOWNGRADE) == 0);
  CHECK(m.read(second) == "text");
  CHECK(ok(m.close(second)));
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
}

TEST_CASE("open files: created unchecked and exclusive") {
  Opening m;
  EngineClient& c = m.connect();
  Engine::Creation unchecked, exclusively;
  unchecked.mode = exclusively.mode = 0640;
  exclusively.exclusive = true;
  const auto create = [&](const std::string& name, Engine::Creation how) {
    return c.run(c.files.open_at(user(3), c.root, name, kBoth, how));
  };
  m.server.clear_calls();
  auto made = create("new", unchecked);
  REQUIRE(ok(made));
  CHECK(m.server.calls().size() == 1);
  CHECK(made->object.attributes->mode == 0640U);
  CHECK(made->directory->change == c.run(c.engine.attributes(nullptr, c.root))->change);
  CHECK(ok(c.run(made->file->write(bytes("data"), 0))));
  CHECK(ok(m.close(*made)));
  CHECK(errno_of(create("new", exclusively)) == EEXIST);
  auto kept = create("new", unchecked);
  REQUIRE(ok(kept));
  CHECK(kept->object.attributes->size == 4);
  unchecked.truncate = true;
  auto emptied = create("new", unchecked);
  REQUIRE(ok(emptied));
  CHECK(emptied->object.attributes->size == 0);
  CHECK(ok(m.close(*kept)));
  CHECK(ok(m.close(*emptied)));
  auto exclusive = create("other", exclusively);
  REQUIRE(ok(exclusive));
  CHECK(exclusive->object.attributes->mode == 0640U);
  CHECK(m.server.count(OP_SETATTR) == 0);
  CHECK(ok(m.close(*exclusive)));
  exclusively.truncate = true;  // not by an exclusive create
  auto cut = create("cut", exclusively);
  REQUIRE(ok(cut));
  CHECK(cut->object.attributes->mode == 0640U);
  CHECK(m.server.count(OP_SETATTR) == 1);
  CHECK(ok(m.close(*cut)));
}

TEST_CASE("open files: an exclusive create whose Reply is lost finds the file its own") {
  Opening m;
  EngineClient& c = m.connect();
  Engine::Creation exclusively;
  exclusively.exclusive = true;
  m.server.drop_after(OP_OPEN);
  auto made = c.run(c.files.open_at(user(3), c.root, "a", kBoth, exclusively));
  REQUIRE(ok(made));
  CHECK(ok(m.close(*made)));
  // Not even the reply cache is left.
  m.server.hold(OP_OPEN);
  auto task = c.files.open_at(user(3), c.root, "b", kBoth, exclusively);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.restart();
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  auto second = task.await_resume();
  REQUIRE(ok(second));
  CHECK(ok(m.close(*second)));
}

TEST_CASE(
    "F24 open files: a file made with O_EXCL has the time of its making, whatever happens to the SETATTR") {
  Opening m;
  m.server.on_server([](Responder& responder) { responder.state.habits.verifier_in_times = true; });
  EngineClient& c = m.connect();
  const std::int64_t begin = m.server_time("/f");
  m.server.clear_calls();
  std::optional<Result<OpenResult>> made;
  const auto task = [&] {
    return c.files.open_at(user(3), c.root, "new", kBoth, Engine::Creation{.mode = 0640, .exclusive = true});
  };
  SUBCASE("nothing, and it costs one call more") {
    made.emplace(c.run(task()));
    CHECK(m.server.calls().size() == 2);
  }
  SUBCASE("its answer is lost") {
    m.server.drop_after(OP_SETATTR);
    made.emplace(c.run(task()));
  }
  SUBCASE("its connection is lost before it arrives") {
    m.server.drop_before(OP_SETATTR);
    made.emplace(c.run(task()));
  }
  SUBCASE("the server puts it off") {
    m.server.answer(OP_SETATTR, NFS4ERR_DELAY, 3);
    made.emplace(c.run(task()));
  }
  SUBCASE("the server restarts, or loses the session or the stateid, before it executes it") {
    bool executed = false;
    SUBCASE("not executed") {}
    SUBCASE("executed, and not answered") {
      executed = true;
    }
    m.server.hold(OP_SETATTR, executed);
    auto making = task();
    c.start(making);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    SUBCASE("restarts") {
      m.server.restart();
    }
    SUBCASE("loses the session") {
      m.server.forget_sessions();
    }
    SUBCASE("loses the stateid") {
      m.server.forget_stateids();
    }
    m.server.release();
    REQUIRE(c.turn_until([&] { return making.done(); }));
    made.emplace(making.await_resume());
  }
  REQUIRE(ok(*made));
  const Attributes told = *(*made)->object.attributes;
  CHECK(told.mode == 0640U);
  for (const Time& time : {told.accessed, told.modified}) CHECK(std::abs(time.seconds - begin) < 60);
  m.server.on_server([&](Responder& responder) {
    const Inode& inode = *responder.state.find("/new");
    for (const nfstime4& time : {inode.accessed, inode.modified}) CHECK(std::abs(time.seconds - begin) < 60);
  });
  CHECK(ok(m.close(**made)));
}

TEST_CASE("F24 open files: a server that keeps the verifier elsewhere is asked for nothing more") {
  Opening m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  auto made = m.make(user(3), "new", 0640);
  CHECK(m.server.calls().size() == 1);
  CHECK(made.object.attributes->mode == 0640U);
  CHECK(c.files.count() == 1);
  CHECK(ok(m.close(made)));
}

TEST_CASE("open files: an OPEN that is answered after a CLOSE that came behind it") {
  Opening m;
  EngineClient& c = m.connect();
  const Caller who = user(1);
  OpenResult first = m.open(who, kRead);
  m.server.hold(OP_OPEN);  // executed, its Reply kept
  auto opening = c.open(who, c.root, "f", kBoth);
  c.start(opening);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  // CLOSE means the state before the OPEN: the server refuses it.
  auto closing = c.files.close(std::move(first.file));
  c.start(closing);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_CLOSE) == 1; }));
  c.turn_for(20ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return opening.done() && closing.done(); }));
  CHECK(ok(closing.await_resume()));
  auto second = opening.await_resume();
  REQUIRE(ok(second));
  CHECK(m.read(*second) == "text");
  CHECK(m.server.open_states() == 1);
  CHECK(ok(m.close(*second)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: an OPEN that comes behind a CLOSE, and is answered before it") {
  Opening m;
  EngineClient& c = m.connect();
  const Caller who = user(1);
  OpenResult first = m.open(who, kRead);
  m.server.hold(OP_CLOSE);
  auto closing = c.files.close(std::move(first.file));
  c.start(closing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  OpenResult second = m.open(who, kRead);
  m.server.release();
  REQUIRE(c.turn_until([&] { return closing.done(); }));
  CHECK(ok(closing.await_resume()));
  CHECK(m.read(second) == "text");
  CHECK(c.files.count() == 1);
  CHECK(ok(m.close(second)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: a CLOSE that should have been refused, since an OPEN came before it") {
  Opening m;
  m.server.set_careless_close(true);
  EngineClient& c = m.connect();
  const Caller who = user(1);
  const nfs_fh4 handle = c.handle("/f");
  OpenResult first = m.open(who, kBoth);
  auto opening = c.files.open_handle(who, handle, "f", kRead);
  auto closing = c.files.close(std::move(first.file));
  c.start(opening);
  c.start(closing);
  REQUIRE(c.turn_until([&] { return opening.done() && closing.done(); }));
  CHECK(ok(closing.await_resume()));
  auto second = opening.await_resume();
  REQUIRE(ok(second));
  CHECK(m.read(*second) == "text");
  CHECK(m.server.open_states() == 1);
  CHECK(ok(m.close(*second)));
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
}

TEST_CASE("open files: an upgrade beside an OPEN_DOWNGRADE, whichever the server sees first") {
  for (const bool open_first : {true, false}) {
    CAPTURE(open_first);
    Opening m;
    EngineClient& c = m.connect();
    const Caller who = user(1);
    OpenResult reader = m.open(who, kRead);
    OpenResult writer = m.open(who, kWrite);
    m.server.hold(open_first ? OP_OPEN : OP_OPEN_DOWNGRADE);
    auto opening = c.open(who, c.root, "f", kWrite);
    auto closing = c.files.close(std::move(writer.file));
    if (open_first) c.start(opening);
    if (!open_first) c.start(closing);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    if (open_first) c.start(closing);
    if (!open_first) c.start(opening);
    c.turn_for(30ms);
    m.server.release();
    REQUIRE(c.turn_until([&] { return opening.done() && closing.done(); }));
    CHECK(ok(closing.await_resume()));
    auto second = opening.await_resume();
    REQUIRE(ok(second));
    CHECK(ok(c.run(second->file->write(bytes("TEXT"), 0))));
    CHECK(m.read(reader) == "TEXT");
    CHECK(ok(m.close(*second)));
    CHECK(ok(m.close(reader)));
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("open files: many opens and closes of one file at once leave nothing") {
  Opening m;
  EngineClient& c = m.connect();
  const Caller who = user(1);
  struct Worker {
    static async::Task<void> work(EngineClient& c, Caller who, std::uint32_t access, int& failures,
                                  int& done) {
      for (int i = 0; i < 20; ++i) {
        auto file = co_await c.open(who, c.root, "f", access);
        if (!file) ++failures;
        if (!file) continue;
        std::array<std::byte, 4> data{};
        auto count = (access & kRead) != 0 ? co_await file->file->read(data, 0)
                                           : co_await file->file->write(data, 100);
        if (!count) ++failures;
        auto closed = co_await c.files.close(std::move(file->file));
        if (!closed) ++failures;
      }
      ++done;
    }
  };
  int failures = 0, done = 0;
  for (int i = 0; i < 6; ++i) {
    c.loop.spawn(Worker::work(c, who, static_cast<std::uint32_t>(i % 3 + 1), failures, done));
  }
  REQUIRE(c.turn_until([&] { return done == 6; }, 20s));
  CHECK(failures == 0);
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
}

TEST_CASE("open files: one that is dropped without close is closed beside") {
  Opening m;
  EngineClient& c = m.connect();
  {
    OpenResult file = m.open(user(1), kRead);
  }
  CHECK(c.turn_until([&] { return m.server.open_states() == 0; }));
  // Also by an OPEN that nobody waits for any more.
  m.server.hold(OP_OPEN);
  {
    auto task = c.open(user(1), c.root, "f", kRead);
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.release();
    REQUIRE(c.turn_until([&] { return task.done(); }));
  }
  CHECK(c.turn_until([&] { return m.server.open_states() == 0; }));
}

TEST_CASE("open files: a delegated file is opened again for reading without a call") {
  Opening m;
  m.server.set_delegations(true);
  EngineClient& c = m.connect();
  const Caller who = user(1);
  OpenResult first = m.open(who, kRead);
  CHECK(m.server.delegations() == 1);
  const nfs_fh4 handle = first.object.handle;
  CHECK(ok(c.run(c.files.open_handle(who, handle, "f", kRead))));  // attributes are known now
  m.server.clear_calls();
  auto second = c.run(c.files.open_handle(who, handle, "f", kRead));
  REQUIRE(ok(second));
  CHECK(second->object.attributes->size == 4);
  CHECK(m.server.calls().empty());
  CHECK(ok(m.close(first)));
  CHECK(m.server.delegations() == 1);
  CHECK(m.read(*second) == "text");
  CHECK(ok(m.close(*second)));
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
}

TEST_CASE("open files: for reading, too, where a delegation for writing is of use") {
  Opening m;
  EngineClient& c = m.connect();
  m.want_writing(true);
  const Caller who = user(1);
  OpenResult file = m.make(who, "new", 0644);
  REQUIRE(file.file->state().writes_delegated());
  CHECK(file.file->state().access == kBoth);
  CHECK(file.file.access() == kWrite);
  CHECK(ok(c.run(c.files.open_handle(who, file.object.handle, "new", kRead))));  // attributes are known now
  m.server.clear_calls();
  for (const std::uint32_t access : {kRead, kWrite, kBoth}) {
    auto again = c.run(c.files.open_handle(who, file.object.handle, "new", access));
    REQUIRE(ok(again));
    CHECK(ok(m.close(*again)));
  }
  CHECK(m.server.calls().empty());
  CHECK(ok(m.close(file)));
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
  // One that is there already as well.
  OpenResult there = m.open_handle(who, kWrite);
  CHECK(there.file->state().access == kBoth);
  CHECK(there.file->state().writes_delegated());
  CHECK(ok(m.close(there)));
}

TEST_CASE("open files: where one may not be read, it is opened for writing alone all the same") {
  Opening m;
  EngineClient& c = m.connect();
  m.want_writing(false);
  for (const nfsstat4 status : {NFS4ERR_ACCESS, NFS4ERR_SHARE_DENIED}) {
    m.server.clear_calls();
    m.server.answer(OP_OPEN, status);
    auto made = c.run(c.files.open_at(user(1), c.root, "f", kWrite, Engine::Creation{.mode = 0600}));
    REQUIRE(ok(made));
    CHECK(m.server.count(OP_OPEN) == 2);
    CHECK(made->file->state().access == kWrite);
    CHECK(ok(m.close(*made)));
    m.server.clear_calls();
    m.server.answer(OP_OPEN, status);
    OpenResult there = m.open_handle(user(1), kWrite);
    CHECK(m.server.count(OP_OPEN) == 2);
    CHECK(there.file->state().access == kWrite);
    CHECK(ok(m.close(there)));
  }
  m.server.answer(OP_OPEN, NFS4ERR_ACCESS, 2);
  CHECK(errno_of(c.run(c.files.open_at(user(1), c.root, "f", kWrite, Engine::Creation{.mode = 0600}))) ==
        EACCES);
}

TEST_CASE(
    "open files: who makes a file that its mode keeps from him asks the server before he opens it again") {
  Opening m;
  EngineClient& c = m.connect();
  m.want_writing(false);
  for (const std::uint32_t mode : {0400U, 0200U, 0U}) {
    CAPTURE(mode);
    const Caller who = user(1);
    OpenResult file = m.make(who, "new" + std::to_string(mode), mode);
    REQUIRE(file.file->state().writes_delegated());
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS, 2);
    auto again = c.run(c.files.open_handle(who, file.object.handle, "new", kWrite));
    CHECK(errno_of(again) == EACCES);
    CHECK(ok(m.close(file)));
  }
}

TEST_CASE("open files: a restart claims everything again, an expired lease has it again by handle") {
  Opening m;
  m.server.add_file("/g", "other");
  EngineClient& c = m.connect();
  OpenResult f = m.open(user(1), kBoth);
  OpenResult g = m.open(user(2), kRead, "g");
  CHECK(ok(c.run(f.file->write(bytes("TEXT"), 0))));
  m.server.restart(3s);
  CHECK(m.read(g) == "other");
  CHECK(ok(c.run(f.file->commit())));
  CHECK(m.server.stable_content("/f") == "TEXT");
  const auto opens = m.server.opens();
  CHECK(opens.back().claim.tag() == CLAIM_PREVIOUS);
  m.server.forget_stateids();
  m.server.answer(OP_READ, NFS4ERR_EXPIRED);
  CHECK(m.read(f) == "TEXT");
  CHECK(m.read(g) == "other");
  CHECK(m.server.opens().back().claim.tag() == CLAIM_FH);
  CHECK(ok(m.close(f)));
  CHECK(ok(m.close(g)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: an OPEN that finds the server without the state before brings all of it back") {
  Opening m;
  EngineClient& c = m.connect();
  const Caller who = user(1);
  OpenResult writer = m.open(who, kWrite);
  m.server.forget_stateids();
  OpenResult reader = m.open(who, kRead);
  CHECK(m.read(reader) == "text");
  CHECK(ok(c.run(writer.file->write(bytes("TEXT"), 0))));
  CHECK(ok(m.close(writer)));
  CHECK(ok(m.close(reader)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: unstable data of two users of one file, of which the later one wins") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult one = m.open(user(1), kBoth);
  OpenResult two = m.open(user(2), kBoth);
  CHECK(ok(c.run(one.file->write(bytes("aaaa"), 0))));
  CHECK(ok(c.run(two.file->write(bytes("bb"), 1))));
  m.server.restart(3s);
  CHECK(ok(c.run(two.file->commit())));
  CHECK(ok(c.run(one.file->commit())));
  CHECK(m.server.stable_content("/f") == "abba");
  // Cut by somebody who has it not open.
  CHECK(ok(c.run(one.file->write(bytes("zzzz"), 4))));
  SetAttributes cut;
  cut.size = 2;
  const auto turn = c.run(writing::take_turn(nullptr, c.loop.now(), "SETATTR"));
  REQUIRE(ok(turn));
  CHECK(ok(c.run(c.engine.set_with_stateid(nullptr, one.object.handle, one.file->stateid(), cut, *turn))));
  c.files.resized(one.object.handle, 2);
  m.server.restart(3s);
  CHECK(ok(c.run(one.file->commit())));
  CHECK(m.server.stable_content("/f") == "ab");
  CHECK(ok(m.close(one)));
  CHECK(ok(m.close(two)));
}

TEST_CASE("open files: stable writes, and who has a file open") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult file = m.open(user(1), kBoth);
  CHECK(ok(c.run(file.file->write(bytes("safe"), 0, FILE_SYNC4))));
  CHECK(m.server.stable_content("/f") == "safe");
  CHECK_FALSE(file.file->has_unstable_data());
  CHECK(c.files.find(user(1), file.object.handle, kWrite) == file.file.file());
  CHECK(c.files.find(user(9), file.object.handle, kRead) == file.file.file());
  CHECK(c.files.find(user(1), c.root, kRead) == nullptr);
  CHECK(ok(m.close(file)));
  CHECK(c.files.find(user(1), c.handle("/f"), kRead) == nullptr);
}

TEST_CASE("open files: an error of CLOSE comes out, and the file is gone all the same") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult file = m.open(user(1), kRead);
  m.server.answer(OP_CLOSE, NFS4ERR_INVAL);
  CHECK(m.close(file).error().status() == NFS4ERR_INVAL);
  CHECK(c.files.count() == 0);
  c.closes = false;  // the server still has it
}

TEST_CASE("S23 open files: CLOSE is made again where the server's refusal may pass") {
  for (const nfsstat4 status : {NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO}) {
    Opening m;
    (void)m.connect();
    OpenResult file = m.open(user(1), kRead);
    m.server.answer(OP_CLOSE, status, 2);
    CHECK(ok(m.close(file)));
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("S23 open files: a CLOSE that the server cannot do for a long time is no error of the program's") {
  using Refused = std::pair<nfsstat4, unsigned>;
  for (const auto& [status, times] :
       {Refused{NFS4ERR_SERVERFAULT, 12}, Refused{NFS4ERR_IO, 12}, Refused{NFS4ERR_DELAY, 20}}) {
    Opening m;
    EngineClient& c = m.connect();
    OpenResult file = m.open(user(1), kRead);
    m.server.answer(OP_CLOSE, status, times);
    CHECK(ok(m.close(file)));
    CHECK(c.files.count() == 0);
    CHECK(m.server.open_states() == 1);
    CHECK(c.turn_until([&] { return m.server.open_states() == 0; }));  // closed beside
  }
}

TEST_CASE("S18 open files: CLOSE waits for a READ that nobody waits for, and leaves nothing open behind it") {
  Opening m;
  EngineClient& c = m.connect();
  OpenResult file = m.open(user(1000), kRead);
  const std::shared_ptr<OpenFile> keep = file.file.file();
  m.server.set_short_reads(2);  // the rest is asked for by a second READ
  m.server.hold(OP_ILLEGAL);
  std::string data(4, '?');
  auto reading = keep->read(room(data), 0);
  c.start(reading);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  auto closing = c.files.close(std::move(file.file));
  c.start(closing);
  c.turn_for(20ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return reading.done() && closing.done(); }));
  CHECK(ok(reading.await_resume()));
  CHECK(data == "text");
  CHECK(ok(closing.await_resume()));
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.count(OP_OPEN) == 1);
  CHECK(m.server.count(OP_CLOSE) == 1);
}

// ---- who has a file open ----

TEST_CASE("open files: what is not stable of one that is dropped is committed, beside") {
  Looking m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  {
    OpenRef file = m.open("f");
    CHECK(ok(c.run(file->write(bytes("text"), 0))));
  }
  CHECK(m.soon([&] { return m.server.open_states() == 0; }));
  CHECK(m.server.stable_content("/f") == "text");
}

TEST_CASE("open files: one whose place another takes is closed") {
  Looking m;
  m.server.add_file("/f", "text");
  m.server.add_file("/g", "other");
  EngineClient& c = m.connect();
  OpenRef one = m.open("f"), other = m.open("g");
  const OpenFile* const expected = other.file().get();
  one = std::move(other);
  CHECK(one.file().get() == expected);
  CHECK(one.access() == OPEN4_SHARE_ACCESS_BOTH);
  CHECK(m.soon([&] { return m.server.open_states() == 1; }));
  CHECK(c.files.count() == 1);
  m.close(one);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: a size is set under the caller's own open, else anybody's, if it is for writing") {
  Looking m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  OpenRef one = m.open("f", 1), two = m.open("f", 2);
  OpenRef reader = m.open_for(OPEN4_SHARE_ACCESS_READ, "f", 3);
  const nfs_fh4 handle = one->handle();
  const auto found = [&](std::uint32_t uid, std::uint32_t access) {
    return c.files.find(user(uid), handle, access);
  };
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == one.file());
  CHECK(found(2, OPEN4_SHARE_ACCESS_WRITE) == two.file());
  CHECK(found(3, OPEN4_SHARE_ACCESS_READ) == reader.file());
  const auto others = found(3, OPEN4_SHARE_ACCESS_WRITE);
  CHECK((others == one.file() || others == two.file()));
  m.close(one);
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == two.file());
  m.close(two);
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == nullptr);
  m.close(reader);
}

TEST_CASE("open files: where it may have changed who may open a delegated file, the server is asked again") {
  for (const char* what : {"times", "mode", "owner", "group"}) {
    CAPTURE(what);
    Looking m;
    m.server.set_delegations(true);
    m.server.add_file("/f", "text");
    EngineClient& c = m.connect();
    const nfs_fh4 handle = c.handle("/f");
    const auto open = [&] {
      return c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ));
    };
    auto first = open();
    REQUIRE(ok(first));
    REQUIRE(m.server.delegations() == 1);
    SetAttributes changes;
    const std::string one = what;
    if (one == "times") changes.modified = Time{5, 6};
    if (one == "mode") changes.mode = 0600;
    if (one == "owner") changes.uid = 7;
    if (one == "group") changes.gid = 7;
    CHECK(ok(c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr))));
    m.server.clear_calls();
    auto second = open();
    REQUIRE(ok(second));
    CHECK(m.server.count(OP_OPEN) == (one == "times" ? 0 : 1));
    m.close(first->file);
    m.close(second->file);
  }
}

TEST_CASE("S18 of files that are kept for their delegations those go first that were used longest ago") {
  Looking m;
  m.server.set_delegations(true);
  for (const char* path : {"/a", "/b", "/c"}) m.server.add_file(path, "text");
  EngineClient& c = m.connect();
  c.files.keep_delegated(2);
  m.look_into("/a");
  m.look_into("/b");
  CHECK(c.files.parked() == 2);
  m.look_into("/a");
  m.look_into("/c");
  CHECK(c.files.parked() == 2);
  CHECK(m.soon([&] { return m.server.open_states() == 2 && m.server.delegations() == 2; }));
  m.server.clear_calls();
  m.look_into("/a");
  m.look_into("/c");
  CHECK(m.server.count(OP_OPEN) == 0);
  m.look_into("/b");
  CHECK(m.server.count(OP_OPEN) == 1);
  auto all = c.files.unpark_all();
  c.start(all);
  REQUIRE(m.soon([&] { return all.done(); }));
  CHECK(c.files.parked() == 0);
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.delegations() == 0);
}

}  // namespace nfsrdma
