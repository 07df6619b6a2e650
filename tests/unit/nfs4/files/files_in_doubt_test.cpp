// Files whose unstable data the server may have lost: what programs and other users of the client are told of them until
// the data has been written again, in each version, and what cuts such a file meanwhile.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/fast_read.h"
#include "support/engine_fixture.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/v3_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

void add_doubtful_file(NfsServer& server) {
  server.add_file("/f", "old old old");
  server.add_file("/other", "");
}

/// NFSv3: whether the server has restarted only a verifier tells.
struct WorldOf3 : Scene3 {
  WorldOf3() { add_doubtful_file(server); }
  engine::Engine& all() { return *engine; }
  async::Loop& loop_of() { return loop; }
  void lose() { server.restart(); }
  bool soon(const std::function<bool()>& so, std::chrono::milliseconds most = 10s) {
    const auto end = loop.now() + most;
    while (!so()) {
      if (loop.now() > end) return false;
      loop.turn(loop.now() + 5ms);
    }
    return true;
  }
};

/// NFSv4.2: the restarted server knows neither client id nor session.
struct WorldOf4 : Scene {
  explicit WorldOf4(ReadPlus read_plus = ReadPlus::automatic) {
    add_doubtful_file(server);
    connect(read_plus);
  }
  engine::Engine& all() { return client->engine; }
  async::Loop& loop_of() { return client->loop; }
  virtual void lose() { server.restart(2s); }
  virtual ~WorldOf4() = default;
  WorldOf4(const WorldOf4&) = delete;
  WorldOf4& operator=(const WorldOf4&) = delete;
  template <class T>
  T run(async::Task<T> task) {
    return client->run(std::move(task));
  }
  template <class T>
  T run(async::Soon<T> soon) {
    return client->run(std::move(soon));
  }
};

/// NFSv4.2 behind a failover: client id, session and opens survive, what was in memory does not, and the verifier is
/// another.
struct WorldOfHoles : WorldOf4 {
  WorldOfHoles() : WorldOf4(ReadPlus::yes) {}
};
struct WorldOfFailover : WorldOf4 {
  void lose() override {
    server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
    server.drop_connections();
  }
};

/// Reads from the file's begin as a mount does: without a coroutine, as far as that goes.
template <class AnyFile>
async::Task<Result<std::size_t>> reading_by_fast_path(AnyFile& file, std::span<std::byte> into) {
  auto fast = co_await engine::FastReadWait(file, into, 0);
  if (!fast.rest) co_return fast.count;
  co_return co_await std::move(*fast.rest);
}

/// Two callers' opens of the file.
template <class World>
struct TwoCallers : World {
  TwoCallers() : mine(open(user(0), "f")), others(open(user(0, 7), "f")) {}
  engine::ServerFileRef open(const security::Caller& caller, const std::string& name,
                             std::optional<engine::Engine::Creation> creation = {}) {
    auto opened =
        this->run(this->all().open_at(caller, handle_of_root(), name, engine::Access::both, creation));
    if (!opened) FAIL(opened.error().text());
    handle = opened->object.handle;
    return std::move(opened->file);
  }
  engine::FileHandle handle_of_root() {
    if constexpr (std::is_base_of_v<Scene3, World>) {
      return World::root;
    } else {
      return this->client->root;
    }
  }
  void write(const std::string& text, std::uint64_t offset) {
    CHECK(ok(this->run(mine->write(bytes(text), {}, offset, Stability::unstable, nullptr))));
  }
  std::string read(const engine::ServerFileRef& file, std::size_t most = 100) {
    std::string text(most, '?');
    const auto count = this->run(file->read(room(text), 0));
    if (!ok(count)) return "";
    return text.substr(0, *count);
  }
  std::string read_by_fast_path(const engine::ServerFileRef& file) {
    std::string text(100, '?');
    const auto count = this->run(reading_by_fast_path(*file, room(text)));
    if (!ok(count)) return "";
    return text.substr(0, *count);
  }
  std::uint64_t size(const engine::ServerFileRef& file) {
    const auto now = this->run(file->attributes());
    return ok(now) ? now->size : 0;
  }
  void sync() { CHECK(ok(this->run(mine->commit(nullptr)))); }
  void close_all() {
    for (engine::ServerFileRef* file : {&mine, &others}) {
      if (*file) CHECK(ok(this->run(this->all().close(std::move(*file)))));
    }
  }

  engine::FileHandle handle;
  engine::ServerFileRef mine, others;
};

/// A file, and one that it is brought into.
struct TwoFiles : Scene {
  explicit TwoFiles(const std::string& text) {
    server.add_file("/from", text);
    server.add_file("/to", "");
    connect();
    from = open("from");
    to = open("to");
  }
  /// `cloned`: so much of it by CLONE, in place of `copied` by COPY.
  void bring(bool clones, std::uint64_t cloned, std::uint64_t copied) {
    if (clones) {
      CHECK(ok(client->run(OpenFile::clone(*from.file(), 0, *to.file(), 0, cloned))));
      return;
    }
    const auto done = client->run(OpenFile::copy(*from.file(), 0, *to.file(), 0, copied));
    REQUIRE(ok(done));
    CHECK(*done == copied);
  }
  void close_both() {
    close(from);
    close(to);
  }
  OpenRef from, to;
};

}  // namespace

TEST_CASE_TEMPLATE("S25 what is appended behind a restart goes behind what the restart has cost", World,
                   WorldOf3, WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  m.write("AAAA", 11);
  m.lose();
  // Whoever appends asks where the end is; by the name, the handle or an open file.
  std::uint64_t end = 0;
  SUBCASE("who wrote it") {
    end = m.size(m.mine);
  }
  SUBCASE("another user who has the file open") {
    end = m.size(m.others);
  }
  SUBCASE("somebody who has the handle") {
    const auto now = m.run(m.all().attributes(user(0), m.handle));
    if (ok(now)) end = now->size;
  }
  SUBCASE("somebody who has the name") {
    const auto found = m.run(m.all().find(user(0), engine::Spot(m.handle_of_root(), {"f"})));
    if (ok(found) && found->attributes) end = found->attributes->size;
  }
  SUBCASE("somebody who opens it") {
    auto opened =
        m.run(m.all().open_at(user(0, 8), m.handle_of_root(), "f", engine::Access::read, std::nullopt));
    REQUIRE(ok(opened));
    REQUIRE(opened->object.attributes);
    end = opened->object.attributes->size;
    CHECK(ok(m.run(m.all().close(std::move(opened->file)))));
  }
  SUBCASE("somebody who opens it by its handle") {
    const engine::Place place{m.handle_of_root(), "f"};
    auto opened = m.run(m.all().open(user(0, 8), m.handle, "f", engine::Access::read, place));
    REQUIRE(ok(opened));
    REQUIRE(opened->object.attributes);
    end = opened->object.attributes->size;
    CHECK(ok(m.run(m.all().close(std::move(opened->file)))));
  }
  CHECK(end == 15);
  m.write("BB", end);
  m.sync();
  CHECK(m.server.stable_content("/f") == "old old oldAAAABB");
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 what is read behind a restart is what was written, whoever reads", World, WorldOf3,
                   WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  m.write("new", 4);
  m.lose();
  SUBCASE("who wrote it") {
    CHECK(m.read(m.mine) == "old new old");
  }
  SUBCASE("another user") {
    CHECK(m.read(m.others) == "old new old");
  }
  SUBCASE("another user, by the fast path") {
    CHECK(m.read_by_fast_path(m.others) == "old new old");
  }
  SUBCASE("while the writer makes it safe") {
    m.server.hold(OP_WRITE, false);
    async::Task<Status> commit = m.mine->commit(nullptr);
    commit.handle().resume();
    m.loop_of().end_turn();
    REQUIRE(m.soon([&] { return m.server.held() == 1; }));
    std::string text(11, '?');
    auto reading = m.others->read(room(text), 0);
    reading.handle().resume();
    m.loop_of().end_turn();
    CHECK_FALSE(m.soon([&] { return reading.done(); }, 100ms));
    m.server.release();
    REQUIRE(m.soon([&] { return reading.done() && commit.done(); }));
    CHECK(ok(reading.await_resume()));
    CHECK(ok(commit.await_resume()));
    CHECK(text == "old new old");
  }
  // And the doubt is over.
  m.server.clear_calls();
  CHECK(m.read_by_fast_path(m.others) == "old new old");
  CHECK(m.server.count(OP_COMMIT) == 0);
  m.sync();
  CHECK(m.server.stable_content("/f") == "old new old");
  m.close_all();
}

TEST_CASE("S25 what is read by READ_PLUS behind a restart is what was written, whoever reads") {
  TwoCallers<WorldOfHoles> m;
  m.write("new", 4);
  m.lose();
  CHECK(m.read(m.others) == "old new old");
  CHECK(m.read(m.mine) == "old new old");
  CHECK(m.server.count(OP_READ_PLUS) != 0);
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 a fast READ that is answered over another connection is not believed", World,
                   WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  m.write("new", 4);
  m.server.hold(OP_READ, false);
  std::string text(11, '?');
  auto reading = reading_by_fast_path(*m.others, room(text));
  m.client->start(reading);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  m.lose();
  m.server.release();
  REQUIRE(m.soon([&] { return reading.done(); }));
  CHECK(ok(reading.await_resume()));
  CHECK(text == "old new old");
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 v4.2: holes and copies are of what was written, whoever asks", World, WorldOf4,
                   WorldOfFailover) {
  TwoCallers<World> m;
  m.write("AAAA", 20);
  m.lose();
  SUBCASE("SEEK_DATA") {
    const auto found = m.run(m.others->seek(12, false));
    REQUIRE(ok(found));
    REQUIRE(*found);
    CHECK(**found <= 20);
  }
  SUBCASE("the source of a copy") {
    auto to = m.open(user(0), "other");
    const auto copied = m.run(m.all().copy(m.others, 11, to, 0, 13));
    REQUIRE(ok(copied));
    CHECK(*copied == 13);
    CHECK(m.server.stable_content("/other") == std::string(9, '\0') + "AAAA");
    CHECK(ok(m.run(m.all().close(std::move(to)))));
  }
  SUBCASE("the source of a clone") {
    auto to = m.open(user(0), "other");
    const auto copied = m.run(m.all().copy(m.others, 0, to, 0, 24));
    REQUIRE(ok(copied));
    CHECK(*copied == 24);
    CHECK(m.server.stable_content("/other") == "old old old" + std::string(9, '\0') + "AAAA");
    CHECK(ok(m.run(m.all().close(std::move(to)))));
  }
  SUBCASE("what is read while the file is opened") {
    // Where the restart shows only with the answer, the bytes do not count.
    for (int i = 0; i < 3; ++i) {
      std::string text(24, '?');
      auto opened = m.run(m.all().open_and_read(user(0), m.handle, "f", std::nullopt, room(text)));
      REQUIRE(ok(opened));
      if (opened->first) CHECK(text == "old old old" + std::string(9, '\0') + "AAAA");
      CHECK(ok(m.run(m.all().close(std::move(opened->file)))));
    }
  }
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 many: what is read or told of files at once is what was written", World, WorldOf3,
                   WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  m.write("AAAA", 11);
  m.lose();
  const engine::Spot directory(m.handle_of_root());
  SUBCASE("read") {
    std::string text(100, '?');
    engine::ManyRead item{{&directory, "f"}, room(text)};
    std::vector<engine::ManyRead*> items{&item};
    m.run(m.all().read_many(user(0), std::move(items)));
    REQUIRE(item.result);
    REQUIRE(ok(*item.result));
    CHECK(text.substr(0, (*item.result)->count) == "old old oldAAAA");
  }
  SUBCASE("told") {
    engine::ManyTold item{{&directory, "f"}};
    std::vector<engine::ManyTold*> items{&item};
    m.run(m.all().stat_many(user(0), std::move(items)));
    REQUIRE(item.result);
    REQUIRE(ok(*item.result));
    CHECK((*item.result)->size == 15);
  }
  m.close_all();
}

TEST_CASE("S25 v4: a verifier that differs in the answer to a WRITE puts earlier data of the file in doubt") {
  TwoCallers<WorldOf4> m;
  m.write("new", 4);
  m.write("AAAA", 11);
  // The storage fails below the server, and nothing else changes.
  m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
  SUBCASE("of who wrote it") {
    m.write("NEW", 0);
  }
  SUBCASE("of another user") {
    CHECK(ok(m.run(m.others->write(bytes("NEW"), {}, 0, Stability::unstable, nullptr))));
  }
  SUBCASE("of another user who wants his data to be safe") {
    CHECK(ok(m.run(m.others->write(bytes("NEW"), {}, 0, Stability::on_disk, nullptr))));
  }
  SUBCASE("in the answer to a COMMIT") {
    m.server.clear_calls();
    CHECK(ok(m.run(m.others->write(bytes("NEW"), {}, 0, Stability::unstable, nullptr))));
    CHECK(ok(m.run(m.others->commit(nullptr))));
  }
  CHECK(m.read_by_fast_path(m.others) == "NEW new oldAAAA");
  CHECK(m.size(m.others) == 15);
  m.sync();
  CHECK(ok(m.run(m.others->commit(nullptr))));
  CHECK(m.server.stable_content("/f") == "NEW new oldAAAA");
  m.close_all();
}

TEST_CASE("S25 v4: a file that is smaller than what was written puts that in doubt") {
  TwoCallers<WorldOf4> m;
  m.write("AAAA", 11);
  bool is_lost = true;
  SUBCASE("the storage has lost it") {
    m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
  }
  SUBCASE("another client has cut the file") {
    is_lost = false;
    EngineClient second(m.server, "second");
    SetAttributes cut;
    cut.size = 3;
    CHECK(ok(second.run(second.engine.set_attributes(user(0), m.handle, cut, nullptr))));
  }
  SUBCASE("it is looked for") {
    m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
    const auto found = m.run(m.others->seek(11, false));
    REQUIRE(ok(found));
    CHECK(*found);
  }
  CHECK(m.size(m.others) == (is_lost ? 15 : 3));
  m.server.clear_calls();
  CHECK(m.size(m.mine) == (is_lost ? 15 : 3));
  CHECK(m.server.count(OP_COMMIT) == 0);
  m.close_all();
}

TEST_CASE(
    "S25 v4: what the server does not take again stays its owner's to hear of, and the file as large as it "
    "was") {
  TwoCallers<WorldOf4> m;
  m.write("AAAA", 11);
  m.lose();
  m.server.answer(OP_WRITE, NFS4ERR_IO, 2);
  CHECK(m.size(m.others) == 15);
  CHECK(m.read(m.others) == "old old old");
  const auto lost = m.run(m.mine->commit(nullptr));
  CHECK(ok(lost));
  CHECK(m.server.stable_content("/f") == "old old oldAAAA");
  m.close_all();
}

TEST_CASE_TEMPLATE(
    "S25 a lost connection alone costs one COMMIT before the next question, and only where data is not "
    "stable",
    World, WorldOf3, WorldOf4) {
  TwoCallers<World> m;
  m.server.drop_connections();
  m.server.clear_calls();
  CHECK(m.read(m.mine) == "old old old");
  CHECK(m.server.count(OP_COMMIT) == 0);
  m.write("new", 4);
  CHECK(m.read(m.mine) == "old new old");
  CHECK(m.server.count(OP_COMMIT) == 0);
  m.server.drop_connections();
  for (int i = 0; i < 3; ++i) CHECK(m.read(m.others) == "old new old");
  CHECK(m.server.count(OP_COMMIT) == 1);
  CHECK(m.server.count(OP_WRITE) == 1);
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 a file that is cut while lost data is written again stays cut", World, WorldOf3,
                   WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  auto writer = m.open(user(0), "other");
  CHECK(ok(m.run(writer->write(bytes("old old old"), {}, 0, Stability::unstable, nullptr))));
  m.lose();
  // What was lost is under way, and the server executes it late.
  m.server.hold(OP_WRITE, false);
  async::Task<Status> commit = writer->commit(nullptr);
  commit.handle().resume();
  m.loop_of().end_turn();
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  std::string expected;
  engine::Engine::Creation cuts;
  cuts.truncate = true;
  const auto opens = [&](engine::Access access) {
    auto opening = m.all().open_at(user(0, 7), m.handle_of_root(), "other", access, cuts);
    opening.handle().resume();
    m.loop_of().end_turn();
    m.soon([&] { return opening.done(); }, 100ms);
    m.server.release();
    REQUIRE(m.soon([&] { return opening.done() && commit.done(); }));
    auto opened = opening.await_resume();
    REQUIRE(ok(opened));
    REQUIRE(opened->object.attributes);
    CHECK(opened->object.attributes->size == 0);
    CHECK(m.server.content("/other") == "");
    return std::move(opened->file);
  };
  SUBCASE("by who writes it then") {
    auto file = opens(engine::Access::write);
    expected = "new";
    CHECK(ok(m.run(file->write(bytes(expected), {}, 0, Stability::unstable, nullptr))));
    CHECK(ok(m.run(m.all().close(std::move(file)))));
  }
  SUBCASE("by who only reads it") {
    auto file = opens(engine::Access::read);
    CHECK(ok(m.run(m.all().close(std::move(file)))));
  }
  SUBCASE("with many others") {
    expected = "new";
    const engine::Spot directory(m.handle_of_root());
    engine::ManyWritten item{{&directory, "other"}, bytes(expected)};
    std::vector<engine::ManyWritten*> items{&item};
    auto writing = m.all().write_many(user(0, 7), std::move(items));
    writing.handle().resume();
    m.loop_of().end_turn();
    m.soon([&] { return writing.done(); }, 100ms);
    m.server.release();
    REQUIRE(m.soon([&] { return writing.done() && commit.done(); }));
    writing.await_resume();
    REQUIRE(item.result);
    CHECK(ok(*item.result));
  }
  CHECK(ok(commit.await_resume()));
  CHECK(ok(m.run(writer->commit(nullptr))));
  CHECK(m.server.stable_content("/other") == expected);
  CHECK(ok(m.run(m.all().close(std::move(writer)))));
  m.close_all();
}

TEST_CASE_TEMPLATE("S25 an opening that cuts a file cuts what a restart has cost the server, too", World,
                   WorldOf3, WorldOf4, WorldOfFailover) {
  TwoCallers<World> m;
  auto writer = m.open(user(0), "other");
  CHECK(ok(m.run(writer->write(bytes("old old old"), {}, 0, Stability::unstable, nullptr))));
  m.lose();
  engine::Engine::Creation cuts;
  cuts.truncate = true;
  auto file = m.open(user(0, 7), "other", cuts);
  CHECK(ok(m.run(writer->commit(nullptr))));
  CHECK(m.server.stable_content("/other") == "");
  CHECK(ok(m.run(m.all().close(std::move(file)))));
  CHECK(ok(m.run(m.all().close(std::move(writer)))));
  m.close_all();
}

TEST_CASE(
    "S25 nfs3: a file that looks empty, because the server lost what was written, is cut all the same") {
  TwoCallers<WorldOf3> m;
  auto writer = m.open(user(0), "other");
  CHECK(ok(m.run(writer->write(bytes("old old old"), {}, 0, Stability::unstable, nullptr))));
  // Nothing tells of that yet.
  m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
  engine::Engine::Creation cuts;
  cuts.truncate = true;
  auto file = m.open(user(0, 7), "other", cuts);
  CHECK(ok(m.run(writer->commit(nullptr))));
  CHECK(m.server.stable_content("/other") == "");
  CHECK(ok(m.run(m.all().close(std::move(file)))));
  CHECK(ok(m.run(m.all().close(std::move(writer)))));
  m.close_all();
}

// ---- in NFSv4: copies, sizes and openings beside what is written again ----

TEST_CASE("S14 what was written here is what is read, though a restart has cost the server that") {
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    Scene m;
    m.server.add_file("/f", "old old old");
    EngineClient& c = m.connect();
    OpenRef file = m.open("f");
    CHECK(ok(c.run(file->write(bytes("new"), 4))));
    m.server.restart(2s);
    if (is_known) CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
    std::string text(11, '?');
    const auto count = c.run(reading_by_fast_path(*file.file(), room(text)));
    REQUIRE(ok(count));
    CHECK(*count == 11);
    CHECK(text == "old new old");
    CHECK(m.server.count(OP_COMMIT) >= 1);
    // A READ of what is known to be in doubt is not sent before the data has been written again.
    if (is_known) CHECK(m.server.count(OP_READ) == 1);
    // And once is enough.
    m.server.clear_calls();
    CHECK(ok(c.run(file->read(room(text), 0))));
    CHECK(m.server.count(OP_READ) == 1);
    CHECK(m.server.count(OP_COMMIT) == 0);
    m.close(file);
  }
}

TEST_CASE("S14 a file is as large as it was written here, though a restart has cost the server that") {
  Scene m;
  m.server.add_file("/f", "old");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  CHECK(ok(c.run(file->write(bytes("and new"), 3))));
  m.server.restart(2s);
  CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
  const auto now = c.run(file->attributes());
  REQUIRE(ok(now));
  CHECK(now->size == 10);
  CHECK(ok(c.run(file->commit())));
  CHECK(file->end_in_doubt() == 0);
  m.close(file);
}

TEST_CASE("S14 what was read before it was written again, and is answered behind that, is read again") {
  for (const bool fast : {false, true}) {
    CAPTURE(fast);
    Scene m;
    m.server.add_file("/f", "old old old");
    EngineClient& c = m.connect();
    OpenRef file = m.open("f");
    CHECK(ok(c.run(file->write(bytes("new"), 4))));
    // The client does not know yet, so the READ goes out, and finds the file without the lost data.
    m.server.on_server([](Responder& responder) { responder.state.fail_writeback(); });
    m.server.hold(OP_READ);
    std::string text(11, '?');
    auto reading = fast ? reading_by_fast_path(*file.file(), room(text)) : file->read(room(text), 0);
    c.start(reading);
    REQUIRE(m.soon([&] { return m.server.held() == 1; }));
    CHECK(ok(c.run(file->commit())));
    CHECK(m.server.stable_content("/f") == "old new old");
    CHECK_FALSE(file->in_doubt());
    m.server.release();
    REQUIRE(m.soon([&] { return reading.done(); }));
    const auto count = reading.await_resume();
    REQUIRE(ok(count));
    CHECK(*count == 11);
    CHECK(text == "old new old");
    CHECK(m.server.count(OP_READ) == 2);
    m.close(file);
  }
}

TEST_CASE("S14 nothing is copied into a file while what the server lost of it is being written again") {
  TwoFiles m("new new new");
  EngineClient& c = *m.client;
  CHECK(ok(c.run(m.to->write(bytes("old old old"), 0))));
  m.server.restart();
  m.server.hold(OP_WRITE, false);
  async::Task<Status> commit = m.to->commit();
  c.start(commit);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  auto copy = OpenFile::copy(*m.from.file(), 0, *m.to.file(), 0, 11);
  c.start(copy);
  c.turn_for(100ms);
  CHECK(m.server.count(OP_COPY) == 0);
  m.server.release();
  REQUIRE(m.soon([&] { return copy.done() && commit.done(); }));
  CHECK(ok(commit.await_resume()));
  const auto copied = copy.await_resume();
  REQUIRE(ok(copied));
  CHECK(*copied == 11);
  CHECK(ok(c.run(m.to->commit())));
  CHECK(m.server.stable_content("/to") == "new new new");
  m.close_both();
}

TEST_CASE("S14 what is copied or cloned is what was written, though a restart has cost the server that") {
  for (const bool clones : {false, true}) {
    CAPTURE(clones);
    TwoFiles m("old");
    EngineClient& c = *m.client;
    CHECK(ok(c.run(m.from->write(bytes("new"), 0))));
    m.server.restart(2s);
    m.bring(clones, 0, 3);
    CHECK(m.server.stable_content("/from") == "new");
    CHECK(m.server.stable_content("/to") == "new");
    m.close_both();
  }
}

TEST_CASE("S14 what a copy or a clone has replaced is not written again over it") {
  for (const bool clones : {false, true}) {
    CAPTURE(clones);
    TwoFiles m("new new new");
    EngineClient& c = *m.client;
    CHECK(ok(c.run(m.to->write(bytes("old old old and more"), 0))));
    m.bring(clones, 11, 11);
    m.server.restart(2s);
    CHECK(ok(c.run(m.to->commit())));
    CHECK(m.server.stable_content("/to") == "new new new and more");
    m.close_both();
  }
}

TEST_CASE("S14 many: what is not stable of a file is not written again over what has replaced it") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  const auto file = m.open("/a");
  CHECK(ok(file->write(bytes("old old old"), 0)));
  const std::string text = "new";
  const std::vector<WriteItem> items{{"/a", bytes(text), 0644}};
  for (const auto& one : client.write_many(items)) CHECK(ok(one));
  m.server.restart();
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == "new");
}

TEST_CASE("S14 an opening that cuts a file cuts what was written before, and nothing that is written since") {
  Scene m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  OpenRef other = m.open("f", 2);
  OpenRef reader = m.open_for(OPEN4_SHARE_ACCESS_READ, "f");
  CHECK(ok(c.run(other->write(bytes("old text"), 0))));
  // It is executed, and an OPEN_DOWNGRADE undoes it before its Reply comes: so it is made again.
  Engine::Creation cuts;
  cuts.truncate = true;
  m.server.hold(OP_OPEN);
  auto opening = c.files.open_at(user(1), c.root, "f", OPEN4_SHARE_ACCESS_WRITE, cuts);
  c.start(opening);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  m.server.hold(OP_NVERIFY);  // which nobody sends
  OpenRef writer = m.open_for(OPEN4_SHARE_ACCESS_BOTH, "f");
  m.close(writer);
  m.server.clear_calls();
  m.server.hold(OP_OPEN);
  m.server.release_first();
  REQUIRE(m.soon([&] { return m.server.count(OP_OPEN) == 1; }));
  CHECK(ok(c.run(other->write(bytes("newer"), 0))));
  CHECK_FALSE(opening.done());
  m.server.release();
  REQUIRE(m.soon([&] { return opening.done(); }));
  auto opened = opening.await_resume();
  REQUIRE(ok(opened));
  m.server.restart(3s);
  CHECK(ok(c.run(other->commit())));
  CHECK(m.server.stable_content("/f") == "newer");
  m.close(opened->file);
  m.close(reader);
  m.close(other);
}

}  // namespace nfsrdma
