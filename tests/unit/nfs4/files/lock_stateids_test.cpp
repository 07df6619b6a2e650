// Which stateid a READ, a WRITE and a change of size carry (RFC 8881 8.2.5), and that nothing is written behind a lock that
// the server has taken away. Conformance row S27.
//
// The model server itself looks for changes under an open's stateid by a client that has not heard yet that its lock is
// lost: Scene's destructor finds them among its problems.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/fast_read.h"
#include "nfs4/state/range_stateid.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/scripted_call_layer.h"
#include "support/virtual_world.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::uint64_t kOwner = 17, kOther = 18;
constexpr std::uint32_t kUser = 1, kAnotherUser = 2;
const std::string kText = "NEW!";

struct LockStateids : Scene {
  LockStateids() {
    server.add_file("/f", "old text");
    server.add_file("/g", "source");
  }
  ~LockStateids() {
    for (OpenRef* const one : {&file, &stranger, &source}) {
      if (*one) (void)client->run(client->files.close(std::move(*one)));
    }
  }
  LockStateids(const LockStateids&) = delete;
  LockStateids& operator=(const LockStateids&) = delete;

  EngineClient& begin(SessionOptions options = {}) {
    EngineClient& c = client.emplace(server, "engine", std::move(options));
    file = open("f", kUser);
    stranger = open("f", kAnotherUser);
    source = open("g", kUser);
    on_state([](ServerState& state) { state.keeps_stateids = true; });
    return c;
  }
  template <class F>
  void on_state(F fn) {
    server.on_server([&](Responder& responder) { fn(responder.state); });
  }
  bool lock(std::uint64_t owner, std::uint64_t offset, std::uint64_t length = 10, bool write = true) {
    auto refused = client->run(client->locks.set(file.file(), {owner, write, {offset, length}}));
    return ok(refused) && !refused->has_value();
  }
  int release(std::uint64_t owner) {
    return errno_of(client->run(client->locks.release(file.file(), owner)));
  }
  /// The server takes the locks of the file away, and leaves its opens alone. It says so in its next answer.
  void revoke_locks(Revoked why = Revoked::by_admin) {
    on_state([why](ServerState& state) {
      const std::uint64_t inode = state.find("/f")->id;
      for (const auto& [number, one] : state.locks) {
        if (one.inode == inode && one.revoked == Revoked::no) state.revoke_lock(number, why);
      }
    });
  }
  static int write(EngineClient& c, OpenRef& to, std::uint64_t offset = 0) {
    return errno_of(c.run(to->write(bytes(kText), offset, FILE_SYNC4)));
  }
  static int read(EngineClient& c, OpenRef& from) {
    std::array<std::byte, 4> data{};
    return errno_of(c.run(from->read(data, 0)));
  }
  /// What the requests since the last time were asked under: one letter for each, as ServerState::seen_stateids has them.
  std::string stateids() {
    std::string out;
    on_state([&out](ServerState& state) { out = std::exchange(state.seen_stateids, ""); });
    return out;
  }

  OpenRef file, stranger, source;
};

SetAttributes size_of(std::uint64_t size) {
  SetAttributes out;
  out.size = size;
  return out;
}

/// Everything that carries a stateid by which data is read or changed.
struct Request {
  const char* name;
  bool changes;
  int (*make)(LockStateids& m, EngineClient& c);
  ReadPlus read_plus = ReadPlus::no;
  [[nodiscard]] SessionOptions options() const {
    SessionOptions out;
    out.read_plus = read_plus;
    return out;
  }
};
const std::vector<Request> kRequests = {
    {"WRITE", true, [](LockStateids& m, EngineClient& c) { return LockStateids::write(c, m.file); }},
    {"WRITE elsewhere", true,
     [](LockStateids& m, EngineClient& c) { return LockStateids::write(c, m.file, 5000); }},
    {"WRITE with times", true,
     [](LockStateids& m, EngineClient& c) {
       SetAttributes times;
       times.modified_now = true;
       return errno_of(c.run(
           m.file->write_and_set_times(bytes(kText), {}, 0, times, nullptr, std::make_shared<DataOrigin>())));
     }},
    {"SETATTR of size", true,
     [](LockStateids& m, EngineClient& c) { return errno_of(c.run(m.file->set_attributes(size_of(3)))); }},
    {"ALLOCATE", true,
     [](LockStateids& m, EngineClient& c) { return errno_of(c.run(m.file->allocate(0, 100))); }},
    {"DEALLOCATE", true,
     [](LockStateids& m, EngineClient& c) { return errno_of(c.run(m.file->deallocate(0, 4))); }},
    {"COPY", true,
     [](LockStateids& m, EngineClient& c) {
       return errno_of(c.run(OpenFile::copy(*m.source.file(), 0, *m.file.file(), 0, 6)));
     }},
    {"CLONE", true,
     [](LockStateids& m, EngineClient& c) {
       return errno_of(c.run(OpenFile::clone(*m.source.file(), 0, *m.file.file(), 0, 6)));
     }},
    {"READ", false, [](LockStateids& m, EngineClient& c) { return LockStateids::read(c, m.file); }},
    {"READ_PLUS", false, [](LockStateids& m, EngineClient& c) { return LockStateids::read(c, m.file); },
     ReadPlus::yes},
};

}  // namespace

TEST_CASE(
    "S27 READ, WRITE and size changes carry the lock's stateid where anything is locked, else the open's") {
  for (const Request& one : kRequests) {
    CAPTURE(one.name);
    LockStateids m;
    EngineClient& c = m.begin(one.options());
    // The source of a copy is read under its open's, and times are set under none.
    const std::string name = one.name;
    const std::string source = name == "COPY" || name == "CLONE" ? "o"
                               : name == "WRITE with times"      ? "a"
                                                                 : "";
    CHECK(one.make(m, c) == 0);
    CHECK(m.stateids() == "o" + source);
    // Programs protect a file by a lock on bytes that they never write.
    CHECK(m.lock(kOwner, 1'000'000, 1));
    CHECK(one.make(m, c) == 0);
    CHECK(m.stateids() == "l" + source);
    // A lock of another user is none of this descriptor's.
    CHECK(LockStateids::write(c, m.stranger) == 0);
    CHECK(m.stateids() == "o");
    CHECK(m.release(kOwner) == 0);
    CHECK(one.make(m, c) == 0);
    CHECK(m.stateids() == "o" + source);
  }
}

TEST_CASE("S27 READ and WRITE carry the stateid of a delegation that is for them before that of a lock") {
  /// It is as if somebody kept data, so that delegations for writing are wanted.
  struct Keeper final : engine::WriteBackOwner {
    void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> /*until*/) override {}
    std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
      return std::nullopt;
    }
  };
  for (const bool writes : {false, true}) {
    CAPTURE(writes);
    Keeper keeper;
    LockStateids m;
    m.server.set_delegations(true);
    if (writes) m.server.set_write_delegations(false);
    EngineClient& c = m.client.emplace(m.server, "engine");
    if (writes) c.session.delegations().write_back_owner(&keeper);
    const std::uint32_t access = writes ? OPEN4_SHARE_ACCESS_BOTH : OPEN4_SHARE_ACCESS_READ;
    auto made = c.run(c.open(user(kUser), c.root, "f", access));
    REQUIRE(ok(made));
    m.file = std::move(made->file);
    m.on_state([](ServerState& state) { state.keeps_stateids = true; });
    REQUIRE(m.server.delegations() == 1);
    CHECK(m.lock(kOwner, 0, 10, writes));
    CHECK(LockStateids::read(c, m.file) == 0);
    if (writes) CHECK(LockStateids::write(c, m.file) == 0);
    if (writes) CHECK(errno_of(c.run(m.file->set_attributes(size_of(3)))) == 0);
    CHECK(m.stateids() == (writes ? "ldd" : "d"));
    auto recalled = m.server.start_recall("/f");
    CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
    CHECK(LockStateids::read(c, m.file) == 0);
    if (writes) CHECK(LockStateids::write(c, m.file) == 0);
    CHECK(m.stateids() == (writes ? "ll" : "l"));
    CHECK(m.release(kOwner) == 0);
    c.session.delegations().write_back_owner(nullptr);
  }
}

TEST_CASE("S27 nothing is written behind a lock that the server has taken away, and its descriptors say so") {
  for (const Request& one : kRequests) {
    for (const Revoked why : {Revoked::by_admin, Revoked::expired}) {
      CAPTURE(one.name);
      CAPTURE(static_cast<int>(why));
      LockStateids m;
      EngineClient& c = m.begin(one.options());
      CHECK(m.lock(kOwner, 1'000'000, 1));
      m.revoke_locks(why);
      // The server tells of the revocation by a flag in its answer to this very request.
      const auto lost = one.make(m, c);
      CHECK(lost == EIO);
      CHECK(m.server.content("/f") == "old text");
      CHECK(c.notices.find("lock") != std::string::npos);
      for (const Request& next : kRequests) CHECK(next.make(m, c) == EIO);
      CHECK(m.server.content("/f") == "old text");
      // Those who have another descriptor go on.
      CHECK(LockStateids::write(c, m.stranger) == 0);
      CHECK(m.server.content("/f") == "NEW!text");
      CHECK(LockStateids::read(c, m.source) == 0);
      // Its owner lets go: the file is usable again.
      CHECK(m.release(kOwner) == 0);
      CHECK(one.make(m, c) == 0);
    }
  }
}

TEST_CASE("S27 a WRITE that waits since before there was a lock is made again as it was") {
  LockStateids m;
  EngineClient& c = m.begin();
  m.server.answer(OP_WRITE, NFS4ERR_DELAY);
  auto writing = m.file->write(bytes(kText), 0, FILE_SYNC4);
  c.start(writing);
  REQUIRE(c.turn_until([&] { return m.server.count(OP_WRITE) == 1; }));
  CHECK(m.lock(kOwner, 0, 10));
  REQUIRE(m.server.count(OP_WRITE) == 1);
  m.revoke_locks();
  REQUIRE(c.turn_until([&] { return writing.done(); }));
  CHECK(ok(writing.await_resume()));
  CHECK(m.stateids() == "o");
  CHECK(m.server.content("/f") == "NEW!text");
  CHECK(LockStateids::write(c, m.file) == EIO);
  CHECK(m.release(kOwner) == 0);
}

TEST_CASE("S27 a request that waits for its slot carries the stateid of a lock that is granted meanwhile") {
  for (const Request& one : kRequests) {
    CAPTURE(one.name);
    LockStateids m;
    m.server.set_slots(1);
    EngineClient& c = m.begin(one.options());
    // The answer to LOCK is late, and the request is prepared before it arrives.
    m.server.hold(OP_LOCK, false);
    auto locking = c.locks.set(m.file.file(), {kOwner, true, {0, 10'000}});
    c.start(locking);
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    c.loop.post([&] { m.server.release(); });
    CHECK(one.make(m, c) == 0);
    REQUIRE(c.turn_until([&] { return locking.done(); }));
    CHECK(ok(locking.await_resume()));
    CHECK(m.stateids().starts_with("l"));
    CHECK(m.release(kOwner) == 0);
  }
}

TEST_CASE("S27 of two locks the one that covers the bytes counts, and the loss of either is found") {
  LockStateids m;
  EngineClient& c = m.begin();
  CHECK(m.lock(kOwner, 0, 10));
  CHECK(m.lock(kOther, 100, 10));
  std::uint64_t second = 0;
  m.on_state([&](ServerState& state) {
    for (const auto& [number, one] : state.locks) {
      if (!one.pieces.empty() && one.pieces.front().begin == 100) second = number;
    }
    state.revoke_lock(second, Revoked::by_admin);
  });
  CHECK(LockStateids::write(c, m.file, 104) == EIO);
  CHECK(m.server.content("/f") == "old text");
  CHECK(m.release(kOther) == 0);
  CHECK(LockStateids::write(c, m.file, 4) == 0);
  CHECK(m.stateids().ends_with("l"));
  CHECK(m.release(kOwner) == 0);
}

TEST_CASE(
    "S27 data that was written under a lock and not committed is not written again once the lock is lost") {
  LockStateids m;
  EngineClient& c = m.begin();
  CHECK(m.lock(kOwner, 0, 10));
  CHECK(ok(c.run(m.file->write(bytes(kText), 0))));
  m.server.answer(OP_LOCK, NFS4ERR_RECLAIM_CONFLICT);
  m.server.restart(3s);
  CHECK(errno_of(c.run(m.file->commit())) == EIO);
  CHECK(m.server.content("/f") == "old text");
  CHECK(m.release(kOwner) == 0);
}

TEST_CASE("S27 a size that is set through a descriptor goes by its lock; one that is set by name does not") {
  LockStateids m;
  EngineClient& c = m.begin();
  auto opened = c.run(c.engine.open(user(kUser), c.handle("/f"), "f", engine::Access::both, std::nullopt));
  REQUIRE(ok(opened));
  engine::ServerFileRef file = std::move(opened->file);
  const nfs_fh4 handle = c.handle("/f");
  const auto set_size = [&](std::uint64_t size, const engine::ServerFileRef& by) {
    return errno_of(c.run(c.engine.set_attributes(user(kUser), handle, size_of(size), by)));
  };
  CHECK(ok(c.run(file->lock({kOwner, true, {0, 10}}))));
  (void)m.stateids();
  CHECK(set_size(7, file) == 0);
  CHECK(m.stateids() == "l");
  CHECK(set_size(6, nullptr) == 0);
  CHECK(m.stateids() == "o");
  m.revoke_locks();
  CHECK(set_size(5, file) == EIO);
  CHECK(set_size(4, file) == EIO);
  CHECK(m.server.content("/f")->size() == 6);
  CHECK(set_size(3, nullptr) == 0);
  CHECK(ok(c.run(file->release_locks(kOwner))));
  CHECK(set_size(2, file) == 0);
  CHECK(ok(c.run(c.engine.close(std::move(file)))));
}

TEST_CASE(
    "S27 a WRITE under the stateid of a lock that is let go meanwhile is made again, and nothing is lost") {
  LockStateids m;
  EngineClient& c = m.begin();
  CHECK(m.lock(kOwner, 0, 10));
  m.server.hold(OP_WRITE, false);
  auto writing = m.file->write(bytes(kText), 0, FILE_SYNC4);
  c.start(writing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  CHECK(m.release(kOwner) == 0);
  m.server.clear_calls();
  m.server.release();
  REQUIRE(c.turn_until([&] { return writing.done(); }));
  CHECK(ok(writing.await_resume()));
  CHECK(m.stateids().ends_with("o"));
  CHECK(m.server.count(OP_OPEN) == 0);
  CHECK(m.server.content("/f") == "NEW!text");
  CHECK(c.notices.find("lock") == std::string::npos);
}

TEST_CASE(
    "S27 a READ that left by the fast path under a delegation that is returned meanwhile costs no lock") {
  struct Asked final : engine::FastRead {
    explicit Asked(std::string& into) : FastRead(room(into), 0) {}
    ~Asked() override { drop(); }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    void ended(std::size_t /*count*/) override { FAIL_CHECK("it was refused"); }
    void goes_on(async::Task<Result<std::size_t>> task) override { rest.emplace(std::move(task)); }
    std::optional<async::Task<Result<std::size_t>>> rest;
  };
  LockStateids m;
  m.server.set_delegations(true);
  EngineClient& c = m.client.emplace(m.server, "engine");
  auto made = c.run(c.open(user(kUser), c.root, "f", OPEN4_SHARE_ACCESS_READ));
  REQUIRE(ok(made));
  m.file = std::move(made->file);
  REQUIRE(m.server.delegations() == 1);
  CHECK(m.lock(kOwner, 0, 10, false));
  m.server.hold(OP_READ, false);
  std::string data(4, '?');
  Asked reading(data);
  REQUIRE(m.file->start(reading));
  c.loop.end_turn();
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  auto recalled = m.server.start_recall("/f");
  REQUIRE(c.turn_until([&] { return m.server.delegations() == 0; }));
  m.server.release();
  REQUIRE(c.turn_until([&] { return reading.rest.has_value(); }));
  CHECK(ok(c.run(std::move(*reading.rest))));
  CHECK(data == "old ");
  CHECK(c.notices.find("lock") == std::string::npos);
  CHECK(m.server.locks("/f") == "0-10r");
  CHECK(m.release(kOwner) == 0);
}

TEST_CASE("S27 a WRITE that a restart overtakes goes under the lock that was reclaimed") {
  LockStateids m;
  EngineClient& c = m.begin();
  CHECK(m.lock(kOwner, 0, 10));
  m.server.hold(OP_WRITE, false);
  auto writing = m.file->write(bytes(kText), 0, FILE_SYNC4);
  c.start(writing);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  m.server.restart(500ms);
  m.server.release();
  REQUIRE(c.turn_until([&] { return writing.done(); }, 20s));
  CHECK(ok(writing.await_resume()));
  CHECK(m.stateids().ends_with("l"));
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(m.release(kOwner) == 0);
}

TEST_CASE("S27 a lock that was taken away is not reclaimed from a server that has restarted since") {
  LockStateids m;
  EngineClient& c = m.begin();
  CHECK(m.lock(kOwner, 0, 10));
  // The server restarts before this client hears of it, as in RFC 8881 8.4.3.
  m.revoke_locks();
  m.server.restart(500ms);
  CHECK(LockStateids::write(c, m.file) == EIO);
  CHECK(m.server.content("/f") == "old text");
  CHECK(m.server.locks("/f") == "");
  CHECK(m.release(kOwner) == 0);
  CHECK(LockStateids::write(c, m.file) == 0);
}

TEST_CASE(
    "S27 while a lost lock is claimed again nothing is written, and nothing behind it where somebody has "
    "it") {
  for (const bool taken : {false, true}) {
    CAPTURE(taken);
    LockStateids m;
    SessionOptions options;
    options.recover_expired_locks = true;
    EngineClient& c = m.begin(options);
    CHECK(m.lock(kOwner, 0, 10));
    m.server.forget_stateids();
    if (taken) m.server.lock("/f", 0, 10);
    m.server.hold(OP_LOCK, false);
    std::array<std::byte, 4> data{};
    auto reading = m.file->read(data, 0);
    c.start(reading);  // finds out, and has the file opened again
    REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
    auto writing = m.file->write(bytes(kText), 0, FILE_SYNC4);
    c.start(writing);
    c.turn_for(100ms);
    CHECK(m.server.content("/f") == "old text");
    m.server.release();
    REQUIRE(c.turn_until([&] { return writing.done() && reading.done(); }));
    CHECK(errno_of(writing.await_resume()) == (taken ? EIO : 0));
    CHECK(errno_of(reading.await_resume()) == (taken ? EIO : 0));
    CHECK(m.server.content("/f") == (taken ? "old text" : "NEW!text"));
    CHECK(m.release(kOwner) == 0);
  }
}

TEST_CASE("S27 v4.0: nothing is written behind a lock that the server does not know any more") {
  NfsServer server;
  server.add_file("/f", "old text");
  auto client = Client::connect(server.target("vers=4.0"));
  REQUIRE(ok(client));
  auto file = (*client)->open("/f", OpenMode::read_write);
  REQUIRE(ok(file));
  CHECK(ok((*file)->lock({kOwner, true, {1'000'000, 1}})));
  server.on_server([](Responder& responder) {
    std::erase_if(responder.state.locks, [](const auto& one) { return one.second.client != 0; });
  });
  CHECK(errno_of((*file)->write(bytes(kText), 0)) == EIO);
  CHECK(errno_of((*file)->write(bytes(kText), 0)) == EIO);
  // The first refusal shows that the lock is lost, and nothing is sent any more.
  CHECK(server.count(OP_WRITE) == 1);
  CHECK(server.content("/f") == "old text");
  (void)(*file)->close();
  file->reset();
  client->reset();
  CHECK(server.problems() == "");
}

TEST_CASE("S27 range stateid: the lock on these bytes, else any lock, else the open's") {
  using Use = RangeStateid::Use;
  VirtualWorld world;
  async::Loop loop(world);
  Open open;
  open.exact = true;
  open.stateid = stateid_of(1, 5);
  const auto add = [&](std::uint64_t owner, unsigned number, const LockRange& range, bool write) {
    auto state = std::make_shared<LockState>(loop);
    state->stateid = stateid_of(number);
    state->held.lock(range, write);
    open.locks[owner] = state;
    return state;
  };
  CHECK(RangeStateid(open, {0, 5}, Use::write).now() == stateid_of(1, 5));
  const auto reading = add(1, 10, {0, 10}, false);
  const auto writing = add(2, 20, {20, 10}, true);
  CHECK(RangeStateid(open, {0, 5}, Use::write).now() == stateid_of(10));
  CHECK(RangeStateid(open, {25, 5}, Use::write).now() == stateid_of(20));
  CHECK(RangeStateid(open, {25, 5}, Use::read).now() == stateid_of(20));
  CHECK(RangeStateid(open, {5, 100}, Use::read).now() == stateid_of(10));
  CHECK(RangeStateid(open, {5, 100}, Use::write).now() == stateid_of(20));
  RangeStateid last(open, {29, 5}, Use::write);
  CHECK(last.is_to_be_tried_again(NFS4ERR_BAD_STATEID));  // it was asked under another's
  CHECK(last.now() == stateid_of(20));
  // What is unlocked beside makes another one of it.
  writing->stateid = stateid_of(20, 2);
  CHECK(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK(last.now() == stateid_of(20, 2));
  // It is refused as it is: the open tells whether it is lost, too.
  CHECK_FALSE(last.is_to_be_tried_again(NFS4ERR_BAD_STATEID));
  CHECK(last.lost_lock() == 2U);
  // A LOCK or LOCKU has overtaken it, whose answer is still to come.
  CHECK(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK(last.now() == stateid_of(1, 5));
  CHECK_FALSE(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK_FALSE(last.lost_lock());
  // All of it is unlocked meanwhile: nothing is lost.
  RangeStateid unlocked(open, {20, 1}, Use::write);
  CHECK(unlocked.now() == stateid_of(20, 2));
  writing->held.clear();
  CHECK(unlocked.is_to_be_tried_again(NFS4ERR_BAD_STATEID));
  CHECK_FALSE(unlocked.lost_lock());
  CHECK(unlocked.now() == stateid_of(10));
  reading->stateid.reset();
  CHECK(unlocked.now() == stateid_of(1, 5));
  open.exact = false;
  CHECK(unlocked.now() == stateid_of(1, 0));
}

}  // namespace nfsrdma
