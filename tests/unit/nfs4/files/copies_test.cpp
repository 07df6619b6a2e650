// copy_file_range(2): clones, copies within the server, and copies that the server makes beside, of which
// CB_OFFLOAD or OFFLOAD_STATUS tell (RFC 7862 15.2, 15.8, 15.9, 15.13, 16.1; conformance row F21).
#include <fcntl.h>

#include <cerrno>

#include "engine/write_back_owner.h"
#include "nfs4/state/background_copies.h"
#include "support/mounted.h"
#include "support/nfs_responder.h"
#include "support/scripted_call_layer.h"
#include "support/virtual_world.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using Copies = Habits::Copies;

constexpr std::size_t kFromSize = 20'000;

struct Copying : Scene {
  Copying() {
    server.add_file("/from", pattern(kFromSize));
    server.add_file("/to", "");
  }
  ~Copying() {
    for (OpenRef* one : {&from, &to}) {
      if (*one) CHECK(ok(client->run(client->files.close(std::move(*one)))));
    }
  }
  EngineClient& begin(SessionOptions options = {}, std::size_t delegated = 0) {
    EngineClient& c = client.emplace(server, "engine", std::move(options));
    if (delegated != 0) {
      server.set_delegations(true);
      server.set_write_delegations(false);
      c.session.delegations().write_back_owner(&keeper);
      c.files.keep_delegated(delegated);
    }
    const auto open = [&](const char* name, std::uint32_t access) {
      auto made = c.run(c.open(user(1), c.root, name, access));
      if (!made) FAIL(made.error().text());
      return std::move(made->file);
    };
    from = open("from", OPEN4_SHARE_ACCESS_READ);
    to = open("to", OPEN4_SHARE_ACCESS_BOTH);
    server.clear_calls();
    return c;
  }
  template <class F>
  void on_state(F fn) {
    server.on_server([&](Responder& responder) { fn(responder.state); });
  }
  void beside(std::chrono::milliseconds takes, bool tells = true, bool knows = true) {
    on_state([&](ServerState& state) {
      state.habits.copies = Copies::in_background;
      state.habits.copy_takes = takes;
      state.habits.tells_of_copies = tells;
      state.habits.knows_of_copies = knows;
    });
  }
  async::Task<Result<std::uint64_t>> copying(std::uint64_t count = kFromSize) {
    return OpenFile::copy(*from.file(), 0, *to.file(), 0, count);
  }
  Result<std::uint64_t> copy(std::uint64_t count = kFromSize) { return client->run(copying(count), 60s); }
  [[nodiscard]] bool copied() const { return server.stable_content("/to") == pattern(kFromSize); }
  std::size_t copies() {
    std::size_t out = 0;
    on_state([&](ServerState& state) { out = state.copies.size(); });
    return out;
  }
  /// With it the client wants delegations for writing.
  struct KeepsNothing final : engine::WriteBackOwner {
    void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> /*until*/) override {}
    std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
      return std::nullopt;
    }
  };
  KeepsNothing keeper;
  OpenRef from, to;
};

/// The same through the mount's file layer.
struct Ranges : Copying {
  struct Open {
    std::shared_ptr<fs::OpenHandle> from, to;
  };
  ~Ranges() {
    from = OpenRef();
    to = OpenRef();
    if (client) client->end();
    files.reset();
  }
  Open mount() {
    EngineClient& c = begin();
    files = mounted(c, {});
    const auto open = [&](const std::string& name, int flags) {
      auto entry = c.run(files->lookup(user(1), fs::Inodes::kRoot, name));
      if (!entry) FAIL(entry.error().text());
      auto opened = c.run(files->open(user(1), entry->inode, flags));
      if (!opened) FAIL(opened.error().text());
      return opened->handle;
    };
    Open out{open("from", O_RDONLY), open("to", O_RDWR)};
    server.clear_calls();
    return out;
  }
  Result<std::uint64_t> copy(const Open& open, std::uint64_t from_offset, std::uint64_t to_offset,
                             std::uint64_t count) {
    return client->run(files->copy(open.from, from_offset, open.to, to_offset, count));
  }
  void close(Open& open) {
    for (auto* one : {&open.from, &open.to}) CHECK(ok(client->run(files->close(std::move(*one)))));
  }
  std::unique_ptr<fs::FileSystem> files;
};

}  // namespace

// ---- clones ----

TEST_CASE("F21 copy_file_range clones where the server can") {
  Ranges m;
  m.on_state([](ServerState& state) { state.clone_block = 4096; });
  auto open = m.mount();
  CHECK(*m.copy(open, 0, 0, kFromSize) ==
        kFromSize);  // up to the end, which is in no place for a clone to end
  CHECK(m.server.count(OP_CLONE) == 1);
  CHECK(m.server.count(OP_COPY) == 0);
  CHECK(m.copied());
  CHECK(*m.copy(open, 4096, 8192, 4096) == 4096);
  CHECK(m.server.count(OP_CLONE) == 2);
  CHECK(m.server.count(OP_COPY) == 0);
  CHECK(m.server.content("/to")->substr(8192, 4096) == pattern(kFromSize).substr(4096, 4096));
  m.close(open);
}

TEST_CASE("F21 copy_file_range copies what cannot be cloned") {
  Ranges m;
  m.on_state([](ServerState& state) { state.clone_block = 4096; });
  auto open = m.mount();
  // The server says no; it may say yes to other blocks.
  CHECK(*m.copy(open, 0, 0, 1000) == 1000);
  CHECK(m.server.count(OP_CLONE) == 1);
  CHECK(m.server.count(OP_COPY) == 1);
  // No file system has blocks there: it is not even asked.
  CHECK(*m.copy(open, 1000, 1000, 1000) == 1000);
  CHECK(m.server.count(OP_CLONE) == 1);
  CHECK(m.server.count(OP_COPY) == 2);
  m.server.answer(OP_CLONE, NFS4ERR_XDEV);
  CHECK(*m.copy(open, 0, 0, 4096) == 4096);
  CHECK(m.server.count(OP_CLONE) == 2);
  CHECK(m.server.count(OP_COPY) == 3);
  CHECK(*m.copy(open, 0, 0, 4096) == 4096);
  CHECK(m.server.count(OP_CLONE) == 3);
  CHECK(m.server.count(OP_COPY) == 3);
  m.close(open);
}

TEST_CASE(
    "F21 a server that has no clones is asked once for a file, one that has no copies lets the kernel do "
    "it") {
  Ranges m;
  auto open = m.mount();
  m.server.answer(OP_CLONE, NFS4ERR_NOTSUPP, 100);
  for (int i = 0; i < 3; ++i) CHECK(*m.copy(open, 0, 0, kFromSize) == kFromSize);
  CHECK(m.server.count(OP_CLONE) == 1);
  CHECK(m.server.count(OP_COPY) == 3);
  CHECK(m.copied());
  m.server.answer(OP_COPY, NFS4ERR_NOTSUPP, 100);
  CHECK(errno_of(m.copy(open, 0, 0, kFromSize)) == EOPNOTSUPP);
  m.close(open);
}

TEST_CASE("F21 an error that a copy would give, too, is the answer to a clone") {
  Ranges m;
  auto open = m.mount();
  m.server.answer(OP_CLONE, NFS4ERR_NOSPC);
  CHECK(errno_of(m.copy(open, 0, 0, kFromSize)) == ENOSPC);
  CHECK(m.server.count(OP_COPY) == 0);
  m.close(open);
}

TEST_CASE("F21 what is being written to the source is in the copy, and the copy in what is read") {
  Ranges m;
  auto open = m.mount();
  auto writer = [&] {
    auto entry = m.client->run(m.files->lookup(user(1), fs::Inodes::kRoot, "from"));
    auto opened = m.client->run(m.files->open(user(1), entry->inode, O_WRONLY));
    if (!opened) FAIL(opened.error().text());
    return opened->handle;
  }();
  auto memory = m.client->loop.memory().take(5);
  std::memcpy(memory.data.get(), "fresh", 5);
  const std::span<const std::byte> data(memory.data.get(), 5);
  CHECK(ok(m.client->run(m.files->write(writer, std::move(memory), data, 0))));
  CHECK(*m.copy(open, 0, 0, kFromSize) == kFromSize);
  CHECK(m.server.content("/to")->substr(0, 5) == "fresh");
  CHECK(ok(m.client->run(m.files->close(std::move(writer)))));
  m.close(open);
}

// ---- beside ----

TEST_CASE("F21 a copy that the server makes beside is waited for until CB_OFFLOAD, and asked for rarely") {
  for (const bool unstable : {false, true}) {
    CAPTURE(unstable);
    Copying m;
    m.beside(800ms);
    m.server.set_unstable_copies(unstable);
    EngineClient& c = m.begin();
    const auto begun = c.loop.now();
    CHECK(*m.copy() == kFromSize);
    CHECK(c.loop.now() - begun < 900ms);
    CHECK(m.copied());
    CHECK(m.server.count(OP_COPY) == 2);  // at once, which it cannot; then beside
    CHECK(m.server.count(OP_OFFLOAD_STATUS) == 0);
    CHECK(m.server.count(OP_OFFLOAD_CANCEL) == 0);
    CHECK(c.turn_until([&] { return m.copies() == 0; }));
  }
}

TEST_CASE(
    "F21 S26 what is asked of a file while the server copies into it beside is not believed behind the "
    "copy") {
  Copying m;
  m.beside(800ms);
  EngineClient& c = m.begin({}, 2);
  REQUIRE(m.to.file()->state().delegated());
  auto task = m.copying();
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.copies() == 1; }));
  c.turn_for(100ms);
  const auto asked = c.run(m.to.file()->attributes());
  REQUIRE(ok(asked));
  CHECK(asked->size == 0);
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(*task.await_resume() == kFromSize);
  const auto told = c.run(m.to.file()->attributes());
  REQUIRE(ok(told));
  CHECK(told->size == kFromSize);
  c.files.keep_delegated(0);
  CHECK(ok(c.run(c.files.close(std::move(m.from)))));
  CHECK(ok(c.run(c.files.close(std::move(m.to)))));
  c.session.delegations().write_back_owner(nullptr);
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
}

TEST_CASE("F21 CB_OFFLOAD may overtake the Reply to COPY") {
  Copying m;
  m.beside(0ms);
  EngineClient& c = m.begin();
  auto task = m.copying();
  // Of the two COPYs the second is the one that goes on beside.
  m.server.hold(OP_COPY);
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.release_first();
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK(c.turn_until([&] { return m.copies() == 0; }));  // the server has its answer, and forgets it
  c.turn_for(100ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(*task.await_resume() == kFromSize);
  CHECK(m.copied());
  CHECK(m.server.count(OP_COPY) == 2);
  CHECK(m.server.count(OP_OFFLOAD_STATUS) == 0);
}

TEST_CASE("F21 a lost CB_OFFLOAD: OFFLOAD_STATUS is asked after a while, and tells") {
  for (const bool backchannel : {true, false}) {
    for (const bool unstable : {false, true}) {
      CAPTURE(backchannel);
      CAPTURE(unstable);
      Copying m;
      m.beside(700ms, false);
      m.server.set_unstable_copies(unstable);
      m.server.set_backchannel(backchannel);
      EngineClient& c = m.begin();
      const auto begun = c.loop.now();
      CHECK(*m.copy() == kFromSize);
      CHECK(c.loop.now() - begun < 2s);
      CHECK(m.copied());
      CHECK(m.server.count(OP_COPY) == 2);
      CHECK(m.server.count(OP_OFFLOAD_STATUS) >= 1);
      CHECK(m.server.count(OP_OFFLOAD_STATUS) <= (backchannel ? 1 : 6));
    }
  }
}

TEST_CASE("F21 CB_OFFLOAD counts also where OFFLOAD_STATUS finds the copy forgotten behind it") {
  Copying m;
  m.beside(1500ms);
  EngineClient& c = m.begin();
  m.server.hold(OP_OFFLOAD_STATUS, false);
  auto task = m.copying();
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK(c.turn_until([&] { return m.copied() && m.copies() == 0; }));
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(*task.await_resume() == kFromSize);
  CHECK(m.server.count(OP_OFFLOAD_STATUS) == 1);
  CHECK(m.server.count(OP_COPY) == 2);
}

TEST_CASE("F21 a copy that nobody knows any more is made again, a restart that loses it included") {
  Copying m;
  EngineClient& c = m.begin();
  SUBCASE("CB_OFFLOAD lost, and the server remembers no copy that is over") {
    m.beside(100ms, false);
    auto task = m.copying();
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.copied(); }));
    m.on_state([](ServerState& state) {
      state.copies.clear();
      state.habits.tells_of_copies = true;
    });
    REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
    CHECK(*task.await_resume() == kFromSize);
    CHECK(m.server.count(OP_COPY) == 3);
  }
  SUBCASE("a restart in the middle") {
    m.beside(300ms);
    auto task = m.copying();
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.copies() == 1; }));
    m.server.restart(500ms);
    REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
    CHECK(*task.await_resume() == kFromSize);
  }
  SUBCASE("a restart behind it, of which the verifier tells") {
    m.beside(300ms);
    m.server.set_unstable_copies(true);
    auto task = m.copying();
    m.server.hold(OP_COMMIT, false);
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.release_first();  // which tells the verifier before
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.hold(OP_NVERIFY);
    m.server.restart(500ms);
    REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
    CHECK(*task.await_resume() == kFromSize);
  }
  SUBCASE("the same where only OFFLOAD_STATUS has told that it is over") {
    m.beside(300ms, false);
    m.server.set_unstable_copies(true);
    auto task = m.copying();
    c.start(task);
    REQUIRE(c.turn_until([&] { return m.copies() == 1; }));
    c.turn_for(200ms);
    m.server.hold(OP_COMMIT, false);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    m.server.hold(OP_NVERIFY);
    m.server.restart(500ms);
    REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
    CHECK(*task.await_resume() == kFromSize);
  }
  CHECK(m.copied());
}

TEST_CASE("F21 a copy that does not get on is cancelled in bounded time, and the caller copies by himself") {
  for (const bool knows : {true, false}) {
    CAPTURE(knows);
    Copying m;
    m.beside(1h, false, knows);
    EngineClient& c = m.begin();
    const auto begun = c.loop.now();
    const auto refused = m.copy();
    REQUIRE_FALSE(refused);
    CHECK(is_unsupported(refused.error()));
    CHECK(c.loop.now() - begun < 10s);  // the session's patience is five seconds here
    CHECK(m.server.count(OP_OFFLOAD_CANCEL) == 1);
    CHECK(m.copies() == (knows ? 0 : 1));
    CHECK(m.server.count(OP_OFFLOAD_STATUS) <= 5);
  }
}

TEST_CASE("F21 a copy that gets on is waited for as long as it takes") {
  Copying m;
  m.beside(20s, false);
  EngineClient& c = m.begin();
  auto task = m.copying();
  c.start(task);
  while (!task.done()) {
    c.turn_for(1s);
    m.on_state([](ServerState& state) {
      for (auto& [number, one] : state.copies) one.copied += one.ended ? 0 : 1;
    });
  }
  CHECK(*task.await_resume() == kFromSize);
  CHECK(m.copied());
  CHECK(m.server.count(OP_OFFLOAD_CANCEL) == 0);
}

TEST_CASE("F21 what a copy beside fails with is told, whoever tells it") {
  for (const bool tells : {true, false}) {
    CAPTURE(tells);
    Copying m;
    m.beside(100ms, tells);
    m.on_state([](ServerState& state) { state.copy_fails = NFS4ERR_NOSPC; });
    m.begin();
    CHECK(errno_of(m.copy()) == ENOSPC);
  }
}

TEST_CASE("F21 CB_OFFLOAD over another connection, and with the session made anew") {
  Copying m;
  m.beside(500ms);
  EngineClient& c = m.begin();
  auto task = m.copying();
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.copies() == 1; }));
  m.server.drop_connections();
  m.server.forget_sessions();
  REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
  CHECK(*task.await_resume() == kFromSize);
  CHECK(m.copied());
  CHECK(m.server.count(OP_COPY) == 2);
}

TEST_CASE("F21 CB_OFFLOAD of what nobody waits for is refused") {
  sim::Simulation world(1);
  auto& loop = world.add_host("client").loop();
  BackgroundCopies all;
  stateid4 one, other;
  one.other[0] = std::byte{1};
  other.other[0] = std::byte{2};
  CHECK(all.ended({one, NFS4_OK, {}}) == NFS4ERR_BAD_STATEID);
  {
    BackgroundCopies::One copy(all, loop);
    CHECK(all.ended({one, NFS4_OK, {}}) == NFS4_OK);  // it may be the one that is asked for
    copy.is(other);
    CHECK_FALSE(copy.outcome());
    CHECK(all.ended({one, NFS4_OK, {}}) == NFS4ERR_BAD_STATEID);
    CHECK(all.ended({other, NFS4ERR_IO, {}}) == NFS4_OK);
    REQUIRE(copy.outcome());
    CHECK(copy.outcome()->status == NFS4ERR_IO);
  }
  CHECK(all.ended({other, NFS4_OK, {}}) == NFS4ERR_BAD_STATEID);
}

TEST_CASE("copies beside: an early end is kept for who may have asked for it, and not for those behind him") {
  VirtualWorld world;
  async::Loop loop(world);
  BackgroundCopies copies;
  const auto ended = [&copies](unsigned number) {
    BackgroundCopies::Outcome outcome;
    outcome.stateid = stateid_of(number);
    outcome.written.wr_count = number;
    return copies.ended(outcome);
  };
  CHECK(ended(1) == NFS4ERR_BAD_STATEID);
  {
    BackgroundCopies::One first(copies, loop);
    CHECK(ended(1) == NFS4_OK);
    CHECK(ended(2) == NFS4_OK);
    CHECK_FALSE(first.outcome());
    first.is(stateid_of(2, 7));
    REQUIRE(first.outcome());
    CHECK(first.outcome()->written.wr_count == 2);
    CHECK(ended(3) == NFS4ERR_BAD_STATEID);
    // It is asked for once more, and what the server said of the one before means nothing.
    first.is_unknown();
    CHECK(ended(4) == NFS4_OK);
    first.is(stateid_of(5));
    CHECK_FALSE(first.outcome());
    CHECK(ended(5) == NFS4_OK);
    REQUIRE(first.outcome());
    CHECK(first.outcome()->written.wr_count == 5);
  }
  BackgroundCopies::One second(copies, loop);
  second.is(stateid_of(1));
  CHECK_FALSE(second.outcome());
  // A server that makes them up does not fill the memory.
  BackgroundCopies::One third(copies, loop);
  for (unsigned i = 10; i < 74; ++i) CHECK(ended(i) == NFS4_OK);
  CHECK(ended(74) == NFS4ERR_BAD_STATEID);
}

}  // namespace nfsrdma
