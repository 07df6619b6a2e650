// The NFSv3 engine where the server has no handle, no answer or no lock to give: directories above the exports, roots
// that have gone, a lock service that is not ready yet; and what the engine knows of callers and times.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs3/convert.h"
#include "nfs3/engine.h"
#include "nfs3/locks.h"
#include "nfs3/rights.h"
#include "rpc/message.h"
#include "support/model_locks.h"
#include "support/nfs_responder.h"
#include "support/v3_fixture.h"
#include "support/virtual_world.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;

/// One export, /srv/data: what is above it has no handles of the server's.
class OneExport final : public engine::Roots {
 public:
  int forgotten = 0;

  async::Task<Result<engine::Root>> find(std::vector<std::string> names) override {
    if (begins_with(names, path_)) co_return engine::Root{root_, path_.size()};
    if (begins_with(path_, names)) co_return engine::Root{{}, names.size()};
    co_return Error(ErrorKind::server, ENOENT, "MNT", "model", "there is no such export");
  }
  async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> names) override {
    std::vector<std::string> out;
    if (names.size() < path_.size() && begins_with(path_, names)) out.push_back(path_[names.size()]);
    co_return std::move(out);
  }
  void forget(const engine::FileHandle& root) override {
    if (root == root_) ++forgotten;
  }

 private:
  static bool begins_with(const std::vector<std::string>& names, const std::vector<std::string>& first) {
    return first.size() <= names.size() && std::equal(first.begin(), first.end(), names.begin());
  }
  const std::vector<std::string> path_{"srv", "data"};
  const engine::FileHandle root_ = handle_of(1);
};

/// A client that begins at the server's "/".
struct WholeServer {
  Scene3 s;
  OneExport roots;
  Nfs3Engine engine{s.calls, roots};

  static Spot at(std::vector<std::string> names) { return {std::nullopt, std::move(names)}; }
  engine::Object find(Spot spot) { return s.get(engine.find(s.who, std::move(spot))); }
  engine::Page list(Spot spot) { return s.get(engine.list(s.who, std::move(spot), 0, {})); }
};

/// A lock service that for a while has no locks to give again: what it needs is not up yet.
class LateLocks final : public engine::LockManager {
 public:
  LateLocks(async::Loop& loop, LockTable& table) : near_(loop, table, 1) {}

  bool has_none = false;

  async::Task<Result<std::optional<LockHolder>>> test(Question question, async::TimePoint until) override {
    return near_.test(std::move(question), until);
  }
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint until) override {
    if (!has_none) co_return co_await near_.lock(std::move(question), until);
    co_return Error(ErrorKind::server, ENOLCK, "NLM_LOCK", "model", "it can give no lock");
  }
  async::Task<Status> cancel(Question question, async::TimePoint until) override {
    return near_.cancel(std::move(question), until);
  }
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint until) override {
    return near_.unlock(std::move(question), until);
  }
  void forget(const engine::FileHandle& file, std::uint64_t owner) override { near_.forget(file, owner); }
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint until) override {
    return near_.server_state(until);
  }
  std::string how() const override { return "late"; }

 private:
  ModelLocks near_;
};

}  // namespace

TEST_CASE("nfs3: directories above the exports are shown, and lead to them") {
  WholeServer m;
  m.s.server.add_file("/f", "text");
  const auto top = m.find(Spot());
  REQUIRE(top.attributes);
  CHECK(top.attributes->type == FileType::directory);
  CHECK(top.attributes->mode == 0555);
  CHECK(m.s.get(m.engine.attributes(m.s.who, top.handle)).type == FileType::directory);

  const auto above = m.list(Spot());
  CHECK(above.eof);
  REQUIRE(above.entries.size() == 1);
  CHECK(above.entries[0].name == "srv");
  CHECK(above.entries[0].attributes.type == FileType::directory);
  REQUIRE(above.entries[0].handle);
  const FileHandle middle = *above.entries[0].handle;
  CHECK(middle != top.handle);
  CHECK(above.entries[0].attributes.file_id != top.attributes->file_id);
  // It is the same one each time.
  CHECK(m.find(WholeServer::at({"srv"})).handle == middle);
  CHECK(m.find(Spot()).handle == top.handle);

  const auto exports = m.list(middle);
  REQUIRE(exports.entries.size() == 1);
  CHECK(exports.entries[0].name == "data");
  CHECK(exports.entries[0].handle == m.s.root);
  CHECK(exports.entries[0].attributes.type == FileType::directory);
  CHECK(m.find(Spot(middle, {"data", "f"})).attributes->size == 4);
  CHECK(m.s.error(m.engine.find(m.s.who, WholeServer::at({"srv", "other"}))) == ENOENT);

  CHECK(m.s.get(m.engine.parent(m.s.who, middle)).handle == top.handle);
  CHECK(m.s.get(m.engine.parent(m.s.who, top.handle)).handle == top.handle);
}

TEST_CASE("nfs3: a directory above the exports cannot be changed, and the server is not asked about it") {
  WholeServer m;
  const FileHandle top = m.find(Spot()).handle;
  m.s.server.clear_calls();
  CHECK(m.s.get(m.engine.access(m.s.who, top, R_OK | W_OK | X_OK)).granted == (R_OK | X_OK));
  const auto space = m.s.get(m.engine.space(m.s.who, top));
  CHECK(space.type == FileType::directory);
  CHECK(space.space.total == 0);
  CHECK(m.s.error(m.engine.set_attributes(m.s.who, top, mode(0700), nullptr)) == EROFS);
  CHECK(m.s.error(m.engine.make_directory(m.s.who, top, "d", 0755)) == EROFS);
  CHECK(m.s.error(m.engine.make_directory(m.s.who, Spot(), "d", 0755)) == EROFS);
  CHECK(m.s.error(m.engine.open_at(m.s.who, top, "f", engine::Access::both, engine::Engine::Creation())) ==
        EROFS);
  CHECK(m.s.error(m.engine.remove(m.s.who, top, "srv", engine::Engine::Removed::directory)) == EROFS);
  CHECK(m.s.error(m.engine.rename(m.s.who, top, "srv", top, "other")) == EROFS);
  CHECK(m.s.error(m.engine.read_link(m.s.who, top)) == EINVAL);
  CHECK(m.s.error(m.engine.get_acl(m.s.who, top)) == EOPNOTSUPP);
  CHECK(m.s.server.calls().empty());
}

TEST_CASE("nfs3: an export whose root the server does not know any more is asked for again") {
  WholeServer m;
  m.s.server.add_file("/d/f", "text");
  const Spot file = WholeServer::at({"srv", "data", "d", "f"});
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_STALE);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == ESTALE);
  CHECK(m.roots.forgotten == 1);
  // Behind the root something else has gone, and the root has not.
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_STALE, 1, 1);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == ESTALE);
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == EACCES);
  CHECK(m.roots.forgotten == 1);
  CHECK(m.find(file).attributes->size == 4);
}

TEST_CASE("nfs3: a server that gives neither data nor the end of the file ends a read with an error") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.open("f");
  s.server.set_short_reads(0);
  std::array<std::byte, 4> memory{};
  CHECK(s.error(file.file->read(memory, 0)) == EIO);
  // Where the file ends nothing is an answer.
  CHECK(s.get(file.file->read(memory, 4)) == 0);
}

TEST_CASE("nfs3: a READ that says another count than it brings bytes is refused") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.open("f");
  // Behind the RPC header, the status, and attributes that are there (RFC 1813 3.3.6).
  constexpr std::size_t kCountAt = rpc::kReplyHeaderSize + 4 + 4 + 84;
  for (const std::uint32_t told : {3U, 5U}) {
    CAPTURE(told);
    s.server.on_server([told](Responder& responder) {
      responder.on_reply = [told](const SeenCall& call, Octets& reply) {
        if (!call.has(nfs4::OP_READ)) return;
        CHECK(xdr::load_u32(&reply.at(kCountAt)) == 4);
        xdr::store_u32(&reply.at(kCountAt), told);
      };
    });
    std::array<std::byte, 8> memory{};
    const auto read = s.run(file.file->read(memory, 0));
    REQUIRE_FALSE(read);
    CHECK(read.error().kind() == ErrorKind::protocol);
    CHECK(read.error().errno_value() == EPROTO);
  }
}

TEST_CASE(
    "S10 nfs3: what is there behind a lost call is one's own only where it is as one would have made it") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_file("/f", "text");
  s.server.add_symlink("/l", "somewhere");
  s.server.add_directory("/d");
  s.server.on_server([](Responder& responder) { responder.state.find("/d")->mode = 0755; });
  // Nothing is known of the directory from before, and the call is lost on its way: somebody else has made these.
  SUBCASE("a directory where there is a file") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_directory(s.who, s.root, "f", 0644)) == EEXIST);
  }
  SUBCASE("a directory with other permissions") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_directory(s.who, s.root, "d", 0700)) == EEXIST);
  }
  SUBCASE("a symbolic link to somewhere else") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_symlink(s.who, s.root, "l", "elsewhere")) == EEXIST);
  }
  SUBCASE("a symbolic link to the same place") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_symlink(s.who, s.root, "l", "somewhere")) == 0);
  }
  SUBCASE("a hard link to something else") {
    const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
    s.server.drop_before(nfs4::OP_LINK);
    CHECK(s.error(s.engine->link(s.who, file, s.root, "l")) == EEXIST);
  }
  SUBCASE("a new name, which is not there, and may have been removed since") {
    s.server.drop_before(nfs4::OP_RENAME);
    const auto renamed = s.run(s.engine->rename(s.who, s.root, "none", s.root, "new"));
    REQUIRE_FALSE(renamed);
    CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
  }
  CHECK(s.server.content("/f") == "text");
}

TEST_CASE("F11 nfs3: whoever has a file open may cut it as the one who opened it, and do no more as him") {
  Scene3 s;
  const auto opener = user(10, 10), other = user(11, 11);
  s.server.on_server([](Responder& responder) { responder.state.find("/")->mode = 0777; });
  constexpr engine::Engine::Creation kMade{.mode = 0666, .exclusive = false, .truncate = false};
  const auto file = s.get(s.engine->open_at(opener, s.root, "f", engine::Access::both, kMade));
  SetAttributes cut;
  cut.size = 0;
  (void)s.error(s.engine->set_attributes(other, file.object.handle, cut, file.file));
  CHECK(is_of(s.server.credential(), opener));
  (void)s.error(s.engine->set_attributes(other, file.object.handle, mode(0600), file.file));
  CHECK(is_of(s.server.credential(), other));
  (void)s.error(s.engine->set_attributes(other, file.object.handle, cut, nullptr));
  CHECK(is_of(s.server.credential(), other));
}

TEST_CASE("F10 nfs3: a file that was handed over is opened where its directory may not be looked into") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  engine::Place place{s.root, "f"};
  s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  s.server.clear_calls();
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == 0);
  CHECK(s.asked() == "LOOKUP ACCESS");
  s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_IO);
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == EIO);
  // What has just been looked up is not looked up again.
  s.server.clear_calls();
  place.fresh = true;
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == 0);
  CHECK(s.asked() == "ACCESS");
}

TEST_CASE("nfs3: what a caller may do is known of him, of this file, and as long as it is the same") {
  KnownRights rights;
  const FileHandle file = handle_of(1), other = handle_of(2);
  const auto one = user(7, 100);
  constexpr std::uint64_t kChange = 5;
  CHECK_FALSE(rights.of(file, one, kChange));
  rights.learn(file, one, kChange, ACCESS3_READ);
  CHECK(rights.of(file, one, kChange) == ACCESS3_READ);
  CHECK(rights.of(file, user(7, 100), kChange) == ACCESS3_READ);  // the same numbers
  CHECK_FALSE(rights.of(file, one, kChange + 1));
  CHECK_FALSE(rights.of(other, one, kChange));
  CHECK_FALSE(rights.of(file, user(7, 101), kChange));
  CHECK_FALSE(rights.of(file, user(7, 100, {8}), kChange));
  CHECK_FALSE(rights.of(file, nullptr, kChange));
  // These may share a place with the one above.
  for (std::uint32_t uid = 8; uid < 8 + 1024; ++uid) CHECK_FALSE(rights.of(file, user(uid, 100), kChange));
}

TEST_CASE("nfs3: a time that the wire has no room for is the nearest that it has") {
  SetAttributes changes;
  changes.accessed = Time{-5, 1};
  changes.modified = Time{std::int64_t{1} << 33U, 2};
  const sattr3 far = to_wire(changes);
  REQUIRE(far.atime.get<SET_TO_CLIENT_TIME>() != nullptr);
  REQUIRE(far.mtime.get<SET_TO_CLIENT_TIME>() != nullptr);
  CHECK(far.atime.get<SET_TO_CLIENT_TIME>()->seconds == 0);
  CHECK(far.mtime.get<SET_TO_CLIENT_TIME>()->seconds == 0xffffffff);
  CHECK(far.mtime.get<SET_TO_CLIENT_TIME>()->nseconds == 2);
  SetAttributes now;
  now.accessed_now = true;
  const sattr3 servers = to_wire(now);
  CHECK(servers.atime.tag() == SET_TO_SERVER_TIME);
  CHECK(servers.mtime.tag() == DONT_CHANGE);
}

TEST_CASE("v3 locks: a restarted lock service that has none to give yet is asked again, for two minutes") {
  VirtualWorld world;
  async::Loop loop(world);
  LockTable table;
  LateLocks service(loop, table);
  FileRecords files(loop);
  Locks locks(loop, files, &service, 5s, {[] { return std::uint64_t{0}; }, [](bool) {}});
  LockedFile file;
  file.handle.length = 3;
  file.label = "f";
  const auto pass = [&loop](std::chrono::seconds time) {
    loop.run([](async::Loop& on, std::chrono::seconds for_so_long) -> async::Task<void> {
      co_await on.sleep_for(for_so_long);
    }(loop, time));
  };
  LockRequest wanted;
  wanted.owner = 7;
  wanted.write = true;
  wanted.range = {0, 10};
  const auto locked = loop.run(locks.set(file, wanted));
  REQUIRE(ok(locked));
  REQUIRE_FALSE(locked->has_value());

  table.restart();
  service.has_none = true;
  pass(60s);
  CHECK(locks.held() == 1);
  CHECK_FALSE(locks.lost(file.handle));
  SUBCASE("then it has") {
    service.has_none = false;
    pass(15s);
    CHECK(table.count() == 1);
    CHECK(locks.held() == 1);
    CHECK_FALSE(locks.lost(file.handle));
  }
  SUBCASE("it never has") {
    pass(120s);
    CHECK(locks.held() == 0);
    const auto lost = locks.lost(file.handle);
    REQUIRE(lost);
    CHECK(lost->errno_value() == EIO);
    service.has_none = false;
    REQUIRE(ok(loop.run(locks.release(file, 7))));
    CHECK_FALSE(locks.lost(file.handle));
  }
}

}  // namespace nfsrdma::nfs3
