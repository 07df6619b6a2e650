// Which stateid is the newest when Replies overtake each other (RFC 8881 8.2.2), and what becomes of state
// that the server takes away (8.5, 18.38, 18.48). Conformance rows S12 and S13.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "nfs4/state/access_order.h"
#include "support/mounted.h"
#include "support/nfs_responder.h"
#include "wire/nfs4/status.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr auto kForReading = OPEN4_SHARE_ACCESS_READ;
constexpr auto kForWriting = OPEN4_SHARE_ACCESS_WRITE;
constexpr auto kForBoth = OPEN4_SHARE_ACCESS_BOTH;
constexpr std::uint64_t kFirstOwner = 17, kOtherOwner = 18;

/// The task's result, which has to come.
template <class T>
Result<T> result_of(EngineClient& c, async::Task<Result<T>>& task) {
  REQUIRE(c.turn_until([&] { return task.done(); }, 10s));
  return task.await_resume();
}

struct Stateids : Scene {
  Stateids() {
    for (const char* name : {"/f", "/g", "/h"}) server.add_file(name, "text");
  }
  EngineClient& begin(SessionOptions options = {}) {
    EngineClient& c = client.emplace(server, "engine", std::move(options));
    server.clear_calls();
    return c;
  }
  async::Task<Result<OpenResult>> opening(std::uint32_t access, const std::string& name = "f") {
    return client->open(who, client->root, name, access);
  }
  OpenRef open(std::uint32_t access, const std::string& name = "f") {
    auto made = client->run(opening(access, name));
    if (!made) FAIL(made.error().text());
    return std::move(made->file);
  }
  Status close(OpenRef& file) { return client->run(client->files.close(std::move(file))); }
  /// An OPEN that the server has executed, and whose Reply it keeps back; whatever comes later goes on.
  async::Task<Result<OpenResult>> late_open(std::uint32_t access) {
    const std::size_t before = server.held();
    server.hold(OP_OPEN);
    auto task = opening(access);
    client->start(task);
    REQUIRE(client->turn_until([&] { return server.held() == before + 1; }));
    server.hold(OP_NVERIFY);  // which nobody sends
    return task;
  }
  template <class T>
  void keep_answer(nfs_opnum4 op, async::Task<T>& task) {
    const std::size_t before = server.held();
    server.hold(op);
    client->start(task);
    REQUIRE(client->turn_until([&] { return server.held() == before + 1; }));
    server.hold(OP_NVERIFY);
  }
  Status read(OpenRef& file) {
    std::array<std::byte, 4> data{};
    auto count = client->run(file->read(data, 0));
    return count ? Status() : count.error();
  }
  Status write(OpenRef& file) {
    auto count = client->run(file->write(bytes("TEXT"), 0, FILE_SYNC4));
    return count ? Status() : count.error();
  }
  bool lock(OpenRef& file, std::uint64_t owner, std::uint64_t offset = 0, std::uint64_t length = 10) {
    auto refused = client->run(client->locks.set(file.file(), {owner, true, {offset, length}}));
    return ok(refused) && !refused->has_value();
  }
  Status unlock(OpenRef& file, std::uint64_t owner, std::uint64_t offset = 0, std::uint64_t length = 10) {
    return client->run(client->locks.clear(file.file(), owner, {offset, length}));
  }
  Status release(OpenRef& file, std::uint64_t owner) {
    return client->run(client->locks.release(file.file(), owner));
  }
  /// Any SEQUENCE.
  void ping() { CHECK(ok(client->run(client->engine.attributes(nullptr, client->root)))); }
  template <class F>
  void on_state(F fn) {
    server.on_server([&](Responder& responder) { fn(responder.state); });
  }
  /// What the server has as the file's only open.
  stateid4 newest(const std::string& path = "/f") {
    stateid4 out;
    on_state([&](ServerState& state) {
      const std::uint64_t inode = state.find(path)->id;
      for (const auto& [number, one] : state.opens) {
        if (one.inode == inode) out = state.stateid_of(number, one.seqid);
      }
    });
    return out;
  }
  /// All that the client has there is gone, and the connections stand.
  void discard_client() {
    on_state([&](ServerState& state) {
      const auto first = state.clients.begin();
      REQUIRE(first != state.clients.end());
      state.discard_client(first->first);
    });
  }
  void set_first_seqid(std::uint32_t seqid) {
    on_state([&](ServerState& state) { state.first_seqid = seqid; });
  }

  Caller who = user(1);
};

}  // namespace

// ---- S13: order ----

TEST_CASE("S13 a seqid is later by less than half of all, and 0 is left out where they wrap around") {
  const auto later = [](std::uint32_t a, std::uint32_t b) { return is_later({a, {}}, {b, {}}); };
  CHECK(later(2, 1));
  CHECK_FALSE(later(1, 2));
  CHECK_FALSE(later(2, 2));
  CHECK(later(1, ~0U));
  CHECK(later(2, ~0U - 1));
  CHECK_FALSE(later(~0U, 1));
  CHECK(later(0x80000000U, 1));
  CHECK_FALSE(later(0x80000001U, 0));
  stateid4 other;
  other.seqid = 9;
  other.other[0] = std::byte{1};
  CHECK_FALSE(is_later(other, {1, {}}));
}

TEST_CASE("S13 access is what the server has, in whatever order Replies to OPEN and OPEN_DOWNGRADE come") {
  struct Step {
    bool downgrade = false;
    std::uint32_t access = 0, seqid = 0;
  };
  const std::vector<std::vector<Step>> histories = {
      {{false, kForReading}, {false, kForWriting}, {true, kForReading}},
      {{false, kForBoth}, {true, kForReading}, {false, kForWriting}, {true, kForWriting}},
      {{false, kForReading}, {false, kForBoth}, {true, kForReading}, {false, kForReading}, {false, kForBoth}},
      {{false, kForBoth},
       {true, kForWriting},
       {false, kForReading},
       {true, kForReading},
       {false, kForReading}},
  };
  for (const std::uint32_t first : {1U, ~0U - 2, ~0U - 1, ~0U}) {
    for (std::vector<Step> steps : histories) {
      std::uint32_t seqid = first, truth = 0;
      for (Step& one : steps) {
        one.seqid = std::exchange(seqid, seqid_behind(seqid));
        truth = one.downgrade ? one.access : truth | one.access;
      }
      std::vector<std::size_t> order(steps.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      do {
        AccessOrder access;
        for (const std::size_t i : order) {
          const Step& one = steps[i];
          if (one.downgrade) access.downgraded(one.seqid, one.access);
          if (!one.downgrade) access.opened(one.seqid, one.access);
        }
        REQUIRE(access.access() == truth);
      } while (std::ranges::next_permutation(order).found);
    }
  }
}

TEST_CASE("S13 OPENs whose Replies overtake each other: the newest stateid stays, also where seqids wrap") {
  for (const std::uint32_t first : {1U, ~0U - 1, ~0U}) {
    CAPTURE(first);
    Stateids m;
    m.set_first_seqid(first);
    EngineClient& c = m.begin();
    OpenRef file = m.open(kForReading);
    auto late = m.late_open(kForWriting);
    OpenRef second = m.open(kForBoth);
    const stateid4 newest = m.newest();
    CHECK(newest.seqid == seqid_behind(seqid_behind(first)));
    CHECK(file->stateid().other == newest.other);
    CHECK(file->state().stateid == newest);
    m.server.release();
    auto opened = result_of(c, late);
    REQUIRE(ok(opened));
    CHECK(file->state().stateid == newest);
    CHECK(file->state().access == kForBoth);
    CHECK(ok(m.write(opened->file)));
    // What is told to the server was the newest: nothing is asked twice.
    CHECK(ok(m.close(second)));
    CHECK(ok(m.close(opened->file)));
    CHECK(m.server.count(OP_OPEN_DOWNGRADE) == 1);
    CHECK(file->state().access == kForReading);
    CHECK(ok(m.close(file)));
    CHECK(m.server.count(OP_CLOSE) == 1);
    CHECK(m.server.count(OP_OPEN) == 3);
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("S13 an OPEN that an OPEN_DOWNGRADE has undone before its Reply came is made again") {
  for (const bool exact : {true, false}) {
    CAPTURE(exact);
    Stateids m;
    EngineClient& c = m.begin();
    OpenRef reader = m.open(kForReading);
    OpenRef writer;
    if (!exact) writer = m.open(kForWriting);
    auto late = m.late_open(kForWriting);
    // The server takes the OPEN_DOWNGRADE at once where a newer OPEN has shown what there is.
    if (exact) writer = m.open(kForBoth);
    CHECK(ok(m.close(writer)));
    CHECK(m.server.count(OP_OPEN_DOWNGRADE) == (exact ? 1 : 2));
    CHECK(reader->state().access == kForReading);
    m.server.clear_calls();
    m.server.release();
    auto opened = result_of(c, late);
    REQUIRE(ok(opened));
    CHECK(m.server.count(OP_OPEN) == 1);
    CHECK(reader->state().access == kForBoth);
    CHECK(reader->state().stateid == m.newest());
    CHECK(ok(m.write(opened->file)));
    CHECK(m.server.content("/f") == "TEXT");
    CHECK(ok(m.close(opened->file)));
    CHECK(ok(m.close(reader)));
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("S13 a write waits for an OPEN_DOWNGRADE that came behind its OPEN, and is not refused") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef reader = m.open(kForReading);
  auto late = m.late_open(kForWriting);
  OpenRef writer = m.open(kForBoth);
  auto closing = c.files.close(std::move(writer));
  m.keep_answer(OP_OPEN_DOWNGRADE, closing);
  m.server.release_first();
  auto opened = result_of(c, late);
  REQUIRE(ok(opened));
  const std::string text = "TEXT";
  auto writing = opened->file->write(bytes(text), 0, FILE_SYNC4);
  c.start(writing);
  CHECK(c.turn_until([&] { return m.server.count(OP_WRITE) == 1; }));
  c.turn_for(50ms);
  CHECK_FALSE(writing.done());
  m.server.release();
  CHECK(ok(result_of(c, writing)));
  CHECK(ok(result_of(c, closing)));
  CHECK(m.server.content("/f") == "TEXT");
  CHECK(ok(m.close(opened->file)));
  CHECK(ok(m.close(reader)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S13 a READ whose stateid an OPEN_DOWNGRADE has overtaken waits for its Reply, and opens nothing") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef reader = m.open(kForReading);
  OpenRef writer = m.open(kForWriting);
  auto closing = c.files.close(std::move(writer));
  m.keep_answer(OP_OPEN_DOWNGRADE, closing);
  m.server.answer(OP_READ, NFS4ERR_OLD_STATEID);
  m.server.clear_calls();
  std::array<std::byte, 4> data{};
  auto reading = reader->read(data, 0);
  c.start(reading);
  CHECK(c.turn_until([&] { return m.server.count(OP_READ) == 1; }));
  c.turn_for(500ms);
  CHECK_FALSE(reading.done());
  m.server.release();
  CHECK(*result_of(c, reading) == 4);
  CHECK(ok(result_of(c, closing)));
  CHECK(m.server.count(OP_READ) == 2);
  CHECK(m.server.count(OP_OPEN) == 0);
  CHECK(ok(m.close(reader)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE(
    "S13 a WRITE waits where an OPEN for reading has shown that the file is to be opened for writing again") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef writer = m.open(kForWriting);
  m.server.forget_stateids();
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 3, 1);  // not the one for reading, but those behind it
  auto reading = m.opening(kForReading);
  c.start(reading);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_OPEN) == 3; }));
  CHECK(ok(m.write(writer)));
  CHECK(m.server.content("/f") == "TEXT");
  auto reader = result_of(c, reading);
  REQUIRE(ok(reader));
  CHECK(ok(m.close(reader->file)));
  CHECK(ok(m.close(writer)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S13 a WRITE is made again if the answer to the OPEN for it has overtaken its OPENMODE") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef writer = m.open(kForWriting);
  m.server.forget_stateids();
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 3, 1);  // not the one for reading, but those behind it
  auto reading = m.opening(kForReading);
  c.start(reading);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_OPEN) == 3; }));
  const std::string text = "TEXT";
  auto writing = writer->write(bytes(text), 0, FILE_SYNC4);
  m.keep_answer(OP_WRITE, writing);
  auto reader = result_of(c, reading);
  REQUIRE(ok(reader));
  CHECK_FALSE(writing.done());
  m.server.release();
  CHECK(ok(result_of(c, writing)));
  CHECK(m.server.content("/f") == "TEXT");
  CHECK(m.server.count(OP_WRITE) == 2);
  CHECK(ok(m.close(reader->file)));
  CHECK(ok(m.close(writer)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S13 a call refused for its OPENMODE has the file opened again for writing if that failed before") {
  for (const nfs_opnum4 op : {OP_WRITE, OP_LOCK, OP_COPY}) {
    for (const bool fails : {false, true}) {
      CAPTURE(op);
      CAPTURE(fails);
      Stateids m;
      m.begin();
      OpenRef writer = m.open(kForWriting), source = m.open(kForReading, "g");
      const auto change = [&]() -> Status {
        if (op == OP_WRITE) return m.write(writer);
        if (op == OP_COPY) {
          auto copied = m.client->run(OpenFile::copy(*source.file(), 0, *writer.file(), 4, 4));
          return copied ? Status() : copied.error();
        }
        const LockRequest request{kFirstOwner, true, {0, 10}};
        auto refused = m.client->run(m.client->locks.set(writer.file(), request));
        return refused ? Status() : refused.error();
      };
      m.server.forget_stateids();
      // `source` is opened again for its READ. Of /f the OPEN for reading is done, the one for the writer refused.
      CHECK(ok(m.read(source)));
      m.server.answer(OP_OPEN, NFS4ERR_ACCESS, 1, 1);
      CHECK_FALSE(m.client->run(m.opening(kForReading)));
      m.server.clear_calls();
      if (fails) m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
      const Status done = change();
      CHECK(bool(done) != fails);
      if (!done) CHECK(done.error().errno_value() == EACCES);
      CHECK(m.server.count(op) == (fails ? 1 : 2));
      CHECK(ok(m.release(writer, kFirstOwner)));
      CHECK(ok(m.close(writer)));
      CHECK(ok(m.close(source)));
      CHECK(m.server.open_states() == 0);
    }
  }
}

TEST_CASE("S13 a WRITE that is refused for its OPENMODE with the newest stateid fails") {
  Stateids m;
  m.begin();
  OpenRef writer = m.open(kForWriting);
  m.server.answer(OP_WRITE, NFS4ERR_OPENMODE);
  const Status done = m.write(writer);
  REQUIRE_FALSE(done);
  CHECK(done.error().errno_value() == EBADF);
  CHECK(m.server.count(OP_WRITE) == 1);
  CHECK(ok(m.close(writer)));
}

TEST_CASE("S13 the Reply to an OPEN that comes behind its CLOSE replaces nothing, and loses no lock") {
  for (const bool open_again : {true, false}) {
    CAPTURE(open_again);
    Stateids m;
    EngineClient& c = m.begin();
    OpenRef first = m.open(kForReading);
    auto late = m.late_open(kForBoth);
    CHECK(ok(m.close(first)));
    CHECK(m.server.open_states() == 0);
    OpenRef second;
    if (open_again) second = m.open(kForBoth);
    if (open_again) CHECK(m.lock(second, kFirstOwner));
    const stateid4 newest = m.newest();
    m.server.release();
    auto opened = result_of(c, late);
    REQUIRE(ok(opened));
    if (open_again) {
      CHECK(second->state().stateid == newest);
      CHECK(second.file() == opened->file.file());
      CHECK(m.server.locks("/f") == "0-10w");
    }
    m.server.clear_calls();
    CHECK(ok(m.write(opened->file)));
    CHECK(m.server.count(OP_WRITE) == 1);
    CHECK(m.server.count(OP_OPEN) == 0);
    CHECK(c.notices.find("lock") == std::string::npos);
    if (open_again) CHECK(ok(m.unlock(second, kFirstOwner)));
    if (open_again) CHECK(ok(m.close(second)));
    CHECK(ok(m.close(opened->file)));
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("S13 the Reply to an OPEN of a client id that is gone replaces nothing, and loses no lock") {
  Stateids m;
  EngineClient& c = m.begin();
  auto late = m.late_open(kForBoth);
  m.discard_client();
  m.ping();
  OpenRef second = m.open(kForBoth);
  CHECK(m.lock(second, kFirstOwner));
  const stateid4 newest = m.newest();
  m.server.release();
  auto opened = result_of(c, late);
  REQUIRE(ok(opened));
  CHECK(second->state().stateid == newest);
  CHECK(ok(m.write(opened->file)));
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(c.notices.find("lock") == std::string::npos);
  CHECK(ok(m.release(second, kFirstOwner)));
  CHECK(ok(m.close(second)));
  CHECK(ok(m.close(opened->file)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S13 an OPEN by handle that is overtaken by a CLOSE is made again") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef first = m.open(kForReading);
  m.server.forget_stateids();
  auto reading = m.client->files.open_handle(m.who, c.handle("/f"), "f", kForReading);
  m.keep_answer(OP_OPEN, reading);
  // The one who opened it by then is gone when the Reply comes.
  OpenRef second = m.open(kForReading);
  auto closing = c.files.close(std::move(second));
  c.start(closing);
  CHECK(ok(m.close(first)));
  CHECK(ok(result_of(c, closing)));
  CHECK(m.server.open_states() == 0);
  m.server.release();
  auto opened = result_of(c, reading);
  REQUIRE(ok(opened));
  m.server.clear_calls();
  CHECK(ok(m.read(opened->file)));
  CHECK(m.server.count(OP_READ) == 1);
  CHECK(ok(m.close(opened->file)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S13 LOCK and LOCKU go with whatever stateid is the newest, also where seqids wrap") {
  for (const std::uint32_t first : {1U, ~0U - 1, ~0U}) {
    CAPTURE(first);
    Stateids m;
    m.set_first_seqid(first);
    EngineClient& c = m.begin();
    OpenRef file = m.open(kForBoth);
    // Two owners, whose Replies overtake each other.
    auto late = c.locks.set(file.file(), {kFirstOwner, true, {0, 10}});
    m.keep_answer(OP_LOCK, late);
    CHECK(m.lock(file, kOtherOwner, 20));
    // One owner's come one after the other.
    auto next = c.locks.clear(file.file(), kFirstOwner, {0, 5});
    c.start(next);
    c.turn_for(20ms);
    CHECK(m.server.count(OP_LOCKU) == 0);
    m.server.release();
    auto refused = result_of(c, late);
    REQUIRE(ok(refused));
    CHECK_FALSE(*refused);
    CHECK(ok(result_of(c, next)));
    CHECK(m.lock(file, kFirstOwner, 40));
    CHECK(m.server.locks("/f") == "5-10w 20-30w 40-50w");
    CHECK(ok(m.unlock(file, kOtherOwner, 20)));
    CHECK(ok(m.release(file, kFirstOwner)));
    CHECK(ok(m.release(file, kOtherOwner)));
    CHECK(m.server.count(OP_LOCK) == 3);
    CHECK(m.server.lock_states() == 0);
    CHECK(ok(m.close(file)));
  }
}

TEST_CASE("S13 the Reply to a LOCK of a client id that is gone is no lock: it is asked for again") {
  Stateids m;
  EngineClient& c = m.begin();
  OpenRef file = m.open(kForBoth);
  auto late = c.locks.set(file.file(), {kFirstOwner, true, {0, 10}});
  m.keep_answer(OP_LOCK, late);
  m.discard_client();
  m.ping();
  CHECK(m.server.locks("/f").empty());
  m.server.release();
  auto refused = result_of(c, late);
  REQUIRE(ok(refused));
  CHECK_FALSE(*refused);
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(ok(m.release(file, kFirstOwner)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("S13 what is being unlocked is not claimed again: somebody else may have it already") {
  Stateids m;
  SessionOptions options;
  options.recover_expired_locks = true;
  EngineClient& c = m.begin(options);
  OpenRef file = m.open(kForBoth);
  CHECK(m.lock(file, kFirstOwner));
  CHECK_FALSE(*c.run(c.locks.set(file.file(), {kFirstOwner, true, {20, 10}})));
  auto late = c.locks.clear(file.file(), kFirstOwner, {0, 10});
  m.keep_answer(OP_LOCKU, late);
  m.discard_client();
  CHECK(ok(m.read(file)));
  CHECK(m.server.locks("/f") == "20-30w");
  m.server.release();
  CHECK(ok(result_of(c, late)));
  CHECK(m.server.locks("/f") == "20-30w");
  CHECK(ok(m.release(file, kFirstOwner)));
  CHECK(ok(m.close(file)));
}

// ---- S12: what was taken away ----

namespace {

struct Revoking : Stateids {
  /// The server takes away what the client has on the file.
  void revoke(const std::string& path, Revoked why, bool opens = true, bool locks = true) {
    on_state([&](ServerState& state) {
      const std::uint64_t inode = state.find(path)->id;
      const auto take = [&](auto& states) {
        for (auto& [number, one] : states) {
          if (one.inode != inode || one.client == 0 || one.revoked != Revoked::no) continue;
          one.revoked = why;
          state.clients.at(one.client).has_revoked = true;
        }
      };
      if (opens) take(state.opens);
      if (locks) take(state.locks);
      take(state.delegations);
      if (!locks) return;
      for (auto& [number, one] : state.locks) {
        if (one.inode == inode && one.client != 0) one.pieces.clear();
      }
    });
  }
  /// How much of it the client has not freed yet.
  std::size_t unfreed() {
    std::size_t out = 0;
    on_state([&](ServerState& state) {
      const auto count = [&](const auto& states) {
        out += static_cast<std::size_t>(
            std::ranges::count_if(states, [](const auto& one) { return one.second.revoked != Revoked::no; }));
      };
      count(state.opens);
      count(state.locks);
      count(state.delegations);
    });
    return out;
  }
  bool all_freed() {
    return client->turn_until([&] { return unfreed() == 0; });
  }
  /// A search has just been made, and the next one is some time away: what is freed until then was found by
  /// its use.
  void search_now() {
    server.set_sequence_flags(SEQ4_STATUS_ADMIN_STATE_REVOKED, 1);
    const unsigned before = server.count(OP_TEST_STATEID);
    ping();
    CHECK(client->turn_until([&] { return server.count(OP_TEST_STATEID) == before + 1; }));
    client->turn_for(10ms);
  }
};

}  // namespace

TEST_CASE(
    "S12 what expired or was revoked is found, freed, and reported by who had a lock until he lets go") {
  for (const Revoked why : {Revoked::expired, Revoked::by_admin}) {
    CAPTURE(static_cast<int>(why));
    Revoking m;
    m.server.set_delegations(true);
    EngineClient& c = m.begin();
    OpenRef locked = m.open(kForBoth), delegated = m.open(kForReading, "g"), other = m.open(kForBoth, "h");
    CHECK(m.lock(locked, kFirstOwner));
    CHECK(m.server.delegations() == 1);
    m.on_state([&](ServerState& state) { state.revoke_all(state.clients.begin()->first, why); });
    CHECK(m.unfreed() == 5);
    m.ping();
    REQUIRE(m.all_freed());
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
    CHECK(m.server.count(OP_FREE_STATEID) == 5);
    CHECK(m.server.succeeded(OP_FREE_STATEID) == 5);
    CHECK(m.server.count(OP_DELEGRETURN) == 0);
    CHECK_FALSE(delegated->state().delegation());
    CHECK(c.notices.find("lock") != std::string::npos);
    // What nobody relied upon is recovered; who had a lock hears of it each time.
    CHECK(ok(m.read(delegated)));
    CHECK(ok(m.write(other)));
    CHECK(errno_of(m.read(locked)) == EIO);
    CHECK(errno_of(m.write(locked)) == EIO);
    CHECK(errno_of(m.unlock(locked, kFirstOwner)) == 0);
    CHECK(errno_of(m.read(locked)) == EIO);
    CHECK(ok(m.release(locked, kFirstOwner)));
    CHECK(ok(m.read(locked)));
    CHECK(m.lock(locked, kFirstOwner));
    CHECK(ok(m.release(locked, kFirstOwner)));
    // Nothing is left that the server would tell of.
    m.server.clear_calls();
    c.turn_for(3s);
    m.ping();
    CHECK(m.server.count(OP_TEST_STATEID) == 0);
    CHECK(m.server.count(OP_FREE_STATEID) == 0);
    for (OpenRef* one : {&locked, &delegated, &other}) CHECK(ok(m.close(*one)));
    CHECK(m.server.open_states() == 0);
    CHECK(m.server.delegations() == 0);
  }
}

TEST_CASE("S12 a lease that runs out while the server cannot be reached: all of it is found afterwards") {
  Revoking m;
  m.on_state([](ServerState& state) {
    state.lease = 3;
    state.habits.expiry = Habits::Expiry::revoke;
  });
  EngineClient& c = m.begin();
  OpenRef locked = m.open(kForBoth), other = m.open(kForReading, "h");
  CHECK(m.lock(locked, kFirstOwner));
  m.server.go_away();
  c.turn_for(8s);
  m.server.come_back();
  CHECK(c.turn_until([&] { return m.server.count(OP_TEST_STATEID) == 1; }, 20s));
  CHECK(m.all_freed());
  CHECK(errno_of(m.read(locked)) == EIO);
  CHECK(ok(m.read(other)));
  CHECK(ok(m.release(locked, kFirstOwner)));
  CHECK(ok(m.close(locked)));
  CHECK(ok(m.close(other)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S12 what a use shows to be revoked is freed, though it is not the client's any more") {
  Revoking m;
  EngineClient& c = m.begin();
  OpenRef file = m.open(kForBoth);
  CHECK(m.lock(file, kFirstOwner));
  m.search_now();
  SUBCASE("a read, which has the file opened again") {
    m.revoke("/f", Revoked::by_admin);
    CHECK(errno_of(m.read(file)) == EIO);  // a lock went with the open
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  SUBCASE("a read of who had nothing locked") {
    CHECK(ok(m.release(file, kFirstOwner)));
    m.revoke("/f", Revoked::expired);
    CHECK(ok(m.read(file)));
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  SUBCASE("LOCK") {
    m.revoke("/f", Revoked::by_admin, false);
    CHECK(errno_of(c.run(c.locks.set(file.file(), {kFirstOwner, true, {20, 10}}))) == EIO);
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  SUBCASE("LOCKU") {
    CHECK(m.lock(file, kFirstOwner, 20));
    m.revoke("/f", Revoked::by_admin, false);
    CHECK(ok(m.unlock(file, kFirstOwner)));  // it is unlocked, as was wanted
    CHECK(errno_of(m.read(file)) == EIO);
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  SUBCASE("the last close") {
    m.revoke("/f", Revoked::by_admin);
    CHECK(ok(m.close(file)));
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  SUBCASE("the last close, of who had nothing locked") {
    CHECK(ok(m.release(file, kFirstOwner)));
    m.revoke("/f", Revoked::expired);
    CHECK(ok(m.close(file)));
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
  }
  c.turn_for(10ms);
  CHECK(m.unfreed() == 0);
  if (!file) return;
  CHECK(ok(m.release(file, kFirstOwner)));
  CHECK(ok(m.read(file)));
  CHECK(ok(m.close(file)));
  c.turn_for(10ms);
  CHECK(m.unfreed() == 0);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S12 a delegation that is revoked before its return is freed, whatever it was revoked for") {
  for (const Revoked why : {Revoked::expired, Revoked::by_admin, Revoked::recallable}) {
    CAPTURE(static_cast<int>(why));
    Revoking m;
    m.server.set_delegations(true);
    EngineClient& c = m.begin();
    OpenRef file = m.open(kForReading);
    m.search_now();
    m.server.hold(OP_DELEGRETURN, false);
    auto recalled = m.server.start_recall("/f");
    CHECK(c.turn_until([&] { return m.server.held() == 1; }));
    m.revoke("/f", why, false);
    m.server.release();
    CHECK(c.turn_until([&] { return m.server.delegations() == 0; }, 500ms));
    CHECK(recalled.wait_for(0s) == std::future_status::ready);
    CHECK(m.server.count(OP_TEST_STATEID) == 1);
    CHECK(ok(m.read(file)));
    CHECK(ok(m.close(file)));
  }
}

TEST_CASE("S12 what cannot be recovered is reported until the file is closed; others go on") {
  Revoking m;
  EngineClient& c = m.begin();
  OpenRef file = m.open(kForBoth), again = m.open(kForReading), other = m.open(kForBoth, "h");
  CHECK(m.lock(file, kFirstOwner));
  m.revoke("/f", Revoked::by_admin);
  m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
  CHECK_FALSE(m.read(again));
  CHECK(m.all_freed());
  CHECK(ok(m.release(file, kFirstOwner)));
  for (int i = 0; i < 2; ++i) {
    CHECK(errno_of(m.read(file)) == EACCES);
    CHECK(errno_of(m.write(file)) == EACCES);
    CHECK(errno_of(m.read(again)) == EACCES);
    CHECK(errno_of(c.run(c.locks.set(file.file(), {kOtherOwner, true, {0, 1}}))) == EACCES);
  }
  CHECK(ok(m.write(other)));
  CHECK(errno_of(m.close(file)) == 0);
  CHECK(errno_of(m.read(again)) == EACCES);
  CHECK(errno_of(m.close(again)) == EACCES);
  OpenRef anew = m.open(kForBoth);
  CHECK(ok(m.write(anew)));
  CHECK(ok(m.close(anew)));
  CHECK(ok(m.close(other)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S12 a search outlives its connection, and asks of as many as fit at a time") {
  Revoking m;
  EngineClient& c = m.begin();
  std::vector<OpenRef> files;
  for (int i = 0; i < 150; ++i) {
    m.server.add_file("/" + std::to_string(i), "text");
    files.push_back(m.open(kForReading, std::to_string(i)));
  }
  m.on_state([&](ServerState& state) { state.revoke_all(state.clients.begin()->first, Revoked::by_admin); });
  m.server.drop_before(OP_TEST_STATEID);
  m.server.drop_after(OP_FREE_STATEID);
  m.ping();
  CHECK(c.turn_until([&] { return m.unfreed() == 0; }, 10s));
  CHECK(m.server.count(OP_TEST_STATEID) == 2);
  CHECK(m.server.succeeded(OP_FREE_STATEID) == 150);
  for (OpenRef& one : files) CHECK(ok(m.read(one)));
  for (OpenRef& one : files) CHECK(ok(m.close(one)));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("S12 a descriptor of the mount says that its lock is lost until it is closed, a new one does not") {
  Revoking m;
  EngineClient& c = m.begin();
  std::unique_ptr<fs::FileSystem> files = mounted(c, {});
  struct End {
    EngineClient& c;
    ~End() { c.end(); }
  };
  const auto open_it = [&] {
    auto entry = c.run(files->lookup(m.who, fs::Inodes::kRoot, "f"));
    REQUIRE(ok(entry));
    auto opened = c.run(files->open(m.who, entry->inode, O_RDWR));
    REQUIRE(ok(opened));
    return opened->handle;
  };
  {
    const End end{c};
    auto first = open_it();
    CHECK(ok(c.run(files->lock(first, {kFirstOwner, true, {0, 10}}, nullptr))));
    m.revoke("/f", Revoked::expired);
    m.ping();
    CHECK(m.all_freed());
    for (int i = 0; i < 2; ++i) {
      CHECK(errno_of(c.run(files->read(first, 0, 4))) == EIO);
      CHECK(errno_of(c.run(files->sync(first))) == 0);
    }
    // close(2): FLUSH with the lock owner, then RELEASE.
    (void)c.run(files->flush(first, kFirstOwner));
    (void)c.run(files->release_locks(first, kFirstOwner));
    CHECK(ok(c.run(files->close(first))));
    auto second = open_it();
    CHECK(ok(c.run(files->read(second, 0, 4))));
    CHECK(ok(c.run(files->close(second))));
    CHECK(c.turn_until([&] { return m.server.open_states() == 0; }));
  }
  files.reset();
}

}  // namespace nfsrdma
