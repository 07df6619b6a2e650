// Unstable data of open files while COMMITs are slow, fail, or find another server: on the test server.
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "support/mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::size_t kMiB = 1U << 20;

std::string text_of(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + i % 23);
  return out;
}

}  // namespace

TEST_CASE("S14 a copy whose COMMIT finds the server restarted is made again") {
  Scene m;
  m.server.add_file("/from", text_of(10'000));
  m.server.add_file("/to", "");
  m.server.set_unstable_copies(true);
  EngineClient& c = m.connect();
  OpenRef from = m.open("from"), to = m.open("to");
  m.server.hold(OP_COMMIT, false);
  auto copy = OpenFile::copy(*from.file(), 0, *to.file(), 0, 10'000);
  c.start(copy);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  m.server.restart();
  m.server.release();
  REQUIRE(m.soon([&] { return copy.done(); }));
  const auto copied = copy.await_resume();
  REQUIRE(ok(copied));
  CHECK(*copied == 10'000);
  CHECK(m.server.count(OP_COPY) >= 2);
  CHECK((m.server.stable_content("/to") == text_of(10'000)));
  m.close(from);
  m.close(to);
}

TEST_CASE("S14 what another caller has overwritten or cut is not written again over it") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  OpenRef first = m.open("f", 1), second = m.open("f", 2);
  REQUIRE(first.file() != second.file());
  CHECK(ok(c.run(first->write(bytes("aaaaaaaaaa"), 0))));
  CHECK(ok(c.run(second->write(bytes("bb"), 2))));
  CHECK(ok(c.run(second->write(bytes("bbbbb"), 10))));
  SetAttributes changes;
  changes.size = 6;
  const nfs_fh4 handle = first->handle();
  const auto turn = c.run(writing::take_turn(nullptr, c.loop.now(), "SETATTR"));
  REQUIRE(ok(turn));
  CHECK(ok(c.run(c.engine.set_with_stateid(user(2), handle, second->stateid(), changes, *turn))));
  c.files.resized(handle, 6);
  m.server.restart();
  CHECK(ok(c.run(second->commit())));
  CHECK(ok(c.run(first->commit())));
  CHECK(m.server.stable_content("/f") == "aabbaa");
  m.close(first);
  m.close(second);
}

TEST_CASE("S14 what the server lost is not written again while the file is being cut") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  auto opened = c.run(c.engine.open_at(user(1), c.root, "f", engine::Access::both, std::nullopt));
  REQUIRE(ok(opened));
  engine::ServerFileRef file = opened->file;
  CHECK(ok(c.run(file->write(bytes("old old old"), {}, 0, Stability::unstable, nullptr))));
  m.server.restart();
  CHECK(ok(c.run(c.engine.attributes(user(1), c.root))));
  m.server.hold(OP_SETATTR, false);
  SetAttributes changes;
  changes.size = 3;
  auto cut = c.engine.set_attributes(user(1), opened->object.handle, changes, file);
  c.start(cut);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  m.server.clear_calls();
  async::Task<Status> commit = file->commit(nullptr);
  c.start(commit);
  REQUIRE(m.soon([&] { return m.server.count(OP_COMMIT) == 1; }));
  c.turn_for(100ms);
  CHECK(m.server.count(OP_WRITE) == 0);
  m.server.release();
  REQUIRE(m.soon([&] { return cut.done() && commit.done(); }));
  CHECK(ok(cut.await_resume()));
  CHECK(ok(commit.await_resume()));
  CHECK(m.server.stable_content("/f") == "old");
  CHECK(ok(c.run(c.engine.close(file))));
}

TEST_CASE("S14 a file is not cut while what the server lost is being written again") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  auto opened = c.run(c.engine.open_at(user(1), c.root, "f", engine::Access::both, std::nullopt));
  REQUIRE(ok(opened));
  engine::ServerFileRef file = opened->file;
  CHECK(ok(c.run(file->write(bytes("old old old"), {}, 0, Stability::unstable, nullptr))));
  m.server.restart();
  m.server.hold(OP_WRITE, false);
  async::Task<Status> commit = file->commit(nullptr);
  c.start(commit);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  SUBCASE("by its size") {
    SetAttributes changes;
    changes.size = 3;
    auto cut = c.engine.set_attributes(user(1), opened->object.handle, changes, file);
    c.start(cut);
    c.turn_for(100ms);
    CHECK(m.server.count(OP_SETATTR) == 0);
    m.server.release();
    REQUIRE(m.soon([&] { return cut.done() && commit.done(); }));
    CHECK(ok(cut.await_resume()));
    CHECK(ok(c.run(file->commit(nullptr))));
    CHECK(m.server.stable_content("/f") == "old");
  }
  SUBCASE("by a hole in it") {
    auto cut = file->deallocate(0, 8);
    c.start(cut);
    c.turn_for(100ms);
    CHECK(m.server.count(OP_DEALLOCATE) == 0);
    m.server.release();
    REQUIRE(m.soon([&] { return cut.done() && commit.done(); }));
    CHECK(ok(cut.await_resume()));
    CHECK(ok(c.run(file->commit(nullptr))));
    CHECK(m.server.stable_content("/f") == std::string(8, '\0') + "old");
  }
  CHECK(ok(commit.await_resume()));
  CHECK(ok(c.run(c.engine.close(std::move(file)))));
  opened->file.reset();
}

TEST_CASE("F6 a commit makes stable what was there when it began, and leaves what comes later") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  CHECK(ok(c.run(file->write(bytes("one "), 0))));
  m.server.hold(OP_COMMIT);
  async::Task<Status> commit = file->commit();
  c.start(commit);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  CHECK(ok(c.run(file->write(bytes("two"), 4))));
  SUBCASE("one of them") {
    m.server.release();
    REQUIRE(m.soon([&] { return commit.done(); }));
    CHECK(m.server.count(OP_COMMIT) == 1);
    CHECK(file->has_unstable_data());
    CHECK(m.server.stable_content("/f") == "one ");
  }
  SUBCASE("another that begins meanwhile asks for one of its own") {
    async::Task<Status> second = file->commit();
    c.start(second);
    m.server.release();
    REQUIRE(m.soon([&] { return commit.done() && second.done(); }));
    CHECK(m.server.count(OP_COMMIT) == 2);
    CHECK(m.server.stable_content("/f") == "one two");
  }
  m.close(file);
}

TEST_CASE("F3 F4 the error of a COMMIT that nobody waited for is told at once, and the data is given up") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  std::vector<int> lost;
  c.files.data()->lost = [&](const nfs_fh4&, const Error& error) { lost.push_back(error.errno_value()); };
  OpenRef file = m.open("f");
  const std::string text = text_of(kMiB);
  m.server.answer(OP_COMMIT, NFS4ERR_IO);
  for (std::uint64_t at = 0; at < 33; ++at) CHECK(ok(c.run(file->write(bytes(text), at * kMiB))));
  REQUIRE(m.soon([&] { return !lost.empty(); }));
  CHECK(lost == std::vector<int>{EIO});
  CHECK(c.files.uncommitted_bytes() == 0);
  CHECK(ok(c.run(file->write(bytes("more"), 0))));
  CHECK(ok(c.run(file->commit())));
  m.close(file);
}

TEST_CASE("F3 F4 what a server does not take again after a restart is an error for all who have it open") {
  MountedEngine m;
  m.mount();
  const auto one = m.get(m.files->create(m.who, fs::Inodes::kRoot, "f", 0666, O_RDWR | O_CREAT));
  const auto two = m.get(m.files->open(user(1001), one.entry.inode, O_RDWR));
  const std::string text = text_of(kMiB);
  CHECK(m.error(m.files->write(one.handle, {}, std::as_bytes(std::span(text)), 0)) == 0);
  REQUIRE(m.client->turn_until([&] { return m.files->bytes_behind() == 0; }, 10s));
  CHECK(m.files->holdings().uncommitted_bytes == kMiB);
  m.server.restart();
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(m.error(m.files->sync(two.handle)) == ENOSPC);
  CHECK(m.files->holdings().uncommitted_bytes == 0);
  const unsigned writes = m.server.count(OP_WRITE);
  CHECK(m.error(m.files->flush(one.handle, 1)) == ENOSPC);
  CHECK(m.error(m.files->sync(one.handle)) == ENOSPC);
  CHECK(m.error(m.files->sync(one.handle)) == 0);
  CHECK(m.error(m.files->sync(two.handle)) == 0);
  CHECK(m.server.count(OP_WRITE) == writes);  // nobody knows that it would still come
  const auto again = m.get(m.files->open(m.who, one.entry.inode, O_RDONLY));
  CHECK_FALSE(again.keep_cache);
  CHECK(m.get(m.files->attributes(m.who, one.entry.inode)).attributes.size == 0);
  for (const auto& file : {one, two, again}) CHECK(m.error(m.files->close(file.handle)) == 0);
}

TEST_CASE("F22 unstable data of all files has one bound, also while the server does not commit") {
  Scene m;
  m.server.add_file("/large", "");
  m.server.add_file("/small", "");
  EngineClient& c = m.connect();
  OpenRef large = m.open("large"), small = m.open("small");
  const std::string text = text_of(kMiB);
  m.server.hold(OP_COMMIT);
  std::vector<async::Task<Result<std::size_t>>> writes;
  std::uint64_t at = 0;
  for (; at < 100; ++at) {
    writes.push_back(large->write(bytes(text), at * kMiB));
    c.start(writes.back());
    const bool ended = c.turn_until([&] { return writes.back().done(); }, 300ms);
    if (!ended) break;
  }
  CHECK(at >= 64);
  CHECK(at <= 66);
  const std::size_t before = c.files.uncommitted_bytes();
  CHECK(before <= 65 * kMiB);
  // Nothing of its own could be committed to make room.
  CHECK(ok(c.run(small->write(bytes("text"), 0))));
  CHECK(m.server.stable_content("/small") == "text");
  CHECK(c.files.uncommitted_bytes() == before);
  m.server.release();
  REQUIRE(m.soon([&] { return std::ranges::all_of(writes, [](const auto& one) { return one.done(); }); }));
  m.close(small);
  m.close(large);
  CHECK((m.server.stable_content("/large")->size() == (at + 1) * kMiB));
}

}  // namespace nfsrdma
