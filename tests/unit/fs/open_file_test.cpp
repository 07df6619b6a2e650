// Open files of the file layer, on an engine in memory: READs that go by themselves, what the kernel may keep at open(2),
// files that are cut, and what a lock or a hole has to do with data that is not on the server's disk.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/falloc.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "support/mounted.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using Strings = std::vector<std::string>;

constexpr std::size_t kPage = 4096;

CacheOptions with_rsize(std::uint32_t rsize) {
  CacheOptions out;
  out.rsize = rsize;
  return out;
}

/// A file layer, and a kernel that is asked to drop pages: which, as "offset+length".
struct WithPages : plain::Plain {
  explicit WithPages(const CacheOptions& options = {}) : plain::Plain(options) {
    files->on_stale_pages([this](std::uint64_t /*inode*/, std::uint64_t offset, std::uint64_t length) {
      return drop(offset, length);
    });
  }
  async::Task<void> drop(std::uint64_t offset, std::uint64_t length) {
    dropped.push_back(std::to_string(offset) + "+" + std::to_string(length));
    co_return;
  }
  OpenedFile open(const OpenedFile& file, int flags) {
    return get(files->open(nullptr, file.entry.inode, flags));
  }
  void close(const OpenedFile& file) { CHECK(plain::ok(loop.run(files->close(file.handle)))); }
  plain::PlainEngine::Node& node() { return engine->nodes.at(2); }
  /// Whether the READ would go by itself. It is not made.
  bool is_plain(const OpenedFile& file, std::uint64_t offset, std::size_t size) {
    if (!files->begin_plain_read(*file.handle, offset, size)) return false;
    files->end_plain_read(*file.handle, std::nullopt);
    return true;
  }

  Strings dropped;
};

}  // namespace

// ---- READs that go by themselves (fuse/plain_reads.h) ----

TEST_CASE("F13 a READ that goes by itself puts pages into the kernel as any other does") {
  WithPages m;
  const OpenedFile file = m.create("f");
  m.node().content.assign(kPage + 100, 'o');
  const OpenedFile reader = m.open(file, O_RDONLY);
  REQUIRE(m.files->begin_plain_read(*reader.handle, kPage, kPage));
  SUBCASE("an append behind it drops them") {
    m.files->end_plain_read(*reader.handle, kPage);
    CHECK(m.files->counters().reads == 1);
    CHECK(m.files->counters().server_bytes_read == kPage);
    const OpenedFile log = m.open(file, O_WRONLY | O_APPEND);
    m.write(log, "more", 0);
    CHECK(m.dropped == Strings{"4196+0"});
    m.close(log);
  }
  SUBCASE("so does a direct write while it is under way, and none behind it") {
    const OpenedFile direct = m.open(file, O_RDWR | O_DIRECT);
    m.write(direct, std::string(kPage, 'n'), kPage);
    CHECK(m.dropped == Strings{"4096+4096"});
    m.files->end_plain_read(*reader.handle, kPage);
    m.write(direct, std::string(kPage, 'n'), kPage);
    CHECK(m.dropped.size() == 1);
    m.close(direct);
  }
  m.close(reader);
  m.close(file);
}

TEST_CASE("F13 a READ goes by itself only where nothing is here that it would miss") {
  WithPages m(with_rsize(kPage));
  const OpenedFile file = m.create("f");
  m.node().content.assign(64 * kPage, 'o');
  const OpenedFile reader = m.open(file, O_RDONLY);
  CHECK(m.is_plain(reader, 2 * kPage, kPage));
  CHECK_FALSE(m.is_plain(reader, 3 * kPage, kPage));  // it follows: more may be wanted
  CHECK(m.is_plain(reader, 10 * kPage, kPage));
  CHECK_FALSE(m.is_plain(reader, 2 * kPage, 2 * kPage));  // more than one READ
  CHECK_FALSE(m.is_plain(reader, 2 * kPage, 0));
  SUBCASE("a write is on its way") {
    m.write(file, "new", 0);
    CHECK_FALSE(m.is_plain(reader, 2 * kPage, kPage));
    CHECK(m.error(m.files->flush(file.handle, 1)) == 0);
    CHECK(m.is_plain(reader, 2 * kPage, kPage));
  }
  SUBCASE("something was read ahead") {
    for (std::uint64_t at = 0; at < 4; ++at) (void)m.read_at(reader, at * kPage, kPage);
    REQUIRE(m.files->counters().ahead_reads != 0);
    CHECK_FALSE(m.is_plain(reader, 32 * kPage, kPage));
  }
  SUBCASE("with O_DIRECT nothing is read ahead of it") {
    const OpenedFile direct = m.open(file, O_RDONLY | O_DIRECT);
    CHECK(m.is_plain(direct, 0, kPage));
    CHECK(m.is_plain(direct, kPage, kPage));
    m.close(direct);
  }
  m.close(reader);
  m.close(file);
}

TEST_CASE(
    "F13 a read of which a part fails returns the error, because fewer bytes would mean the end of the "
    "file") {
  WithPages m(with_rsize(kPage));
  const OpenedFile file = m.create("a");
  m.node().content.assign(3 * kPage, 'x');
  // Of the three READs that one read takes, the server refuses the second one.
  std::size_t reads = 0;
  m.engine->on_call = [&](const std::string& call) {
    if (call == "read" && ++reads == 2) m.engine->fail("read", EIO);
  };
  const async::Memory memory = m.loop.memory().take(3 * kPage);
  const std::span<std::byte> into(memory.data.get(), 3 * kPage);
  FileSystem::DirectRead how;
  SUBCASE("the kernel reads: it would set i_size to the end of what it got (fuse_read_update_size())") {
    CHECK(m.error(m.files->read(file.handle, 0, into.size())) == EIO);
  }
  SUBCASE("a ring reads") {
    CHECK(m.error(m.files->read_direct(file.handle, memory, into, 0, how)) == EIO);
  }
  SUBCASE("a ring reads in sequence") {
    how.ahead = true;
    CHECK(m.error(m.files->read_direct(file.handle, memory, into, 0, how)) == EIO);
  }
  CHECK(reads == 3);
  CHECK(m.read(file, 3 * kPage) == m.node().content);
  CHECK(m.get(m.files->read_direct(file.handle, memory, into, 0, how)) == into.size());
}

// ---- opening ----

TEST_CASE("F6 a file that is opened to be cut is cut behind what was written before, and is empty then") {
  WithPages m;
  const OpenedFile file = m.create("f");
  m.write(file, "gathered", 0);
  m.take_calls();
  const OpenedFile cut = m.open(file, O_WRONLY | O_TRUNC);
  CHECK(m.take_calls() == "open write set");
  CHECK_FALSE(cut.keep_cache);
  CHECK(m.node().content.empty());
  CHECK(m.get(m.files->attributes(nullptr, file.entry.inode)).attributes.size == 0);
  m.write(file, "new", 0);
  CHECK(m.error(m.files->flush(file.handle, 1)) == 0);
  CHECK(m.node().content == "new");
  m.engine->fail("set", EROFS);
  CHECK(m.error(m.files->open(nullptr, file.entry.inode, O_WRONLY | O_TRUNC)) == EROFS);
  CHECK(m.node().content == "new");
  m.close(cut);
  m.close(file);
}

TEST_CASE("F2 what the kernel was told of a file is kept at open(2) only while it is so") {
  WithPages m;
  m.engine->tells = true;
  const OpenedFile made = m.create("f");
  m.close(made);
  m.files->forget(made.entry.inode, 1000);
  const std::uint64_t inode = m.get(m.files->lookup(nullptr, Inodes::kRoot, "f")).inode;
  bool keeps = false;
  SUBCASE("it is") {
    keeps = true;
  }
  SUBCASE("somebody else has changed it") {
    ++m.node().change;
  }
  SUBCASE("the kernel was told of two states, and may believe in either") {
    ++m.node().change;
    (void)m.get(m.files->attributes(nullptr, inode));
  }
  const OpenedFile file = m.get(m.files->open(nullptr, inode, O_RDONLY));
  CHECK_FALSE(file.keep_cache);  // the kernel may have pages of any state
  CHECK(file.keep_attributes == keeps);
  m.close(file);
  const OpenedFile again = m.get(m.files->open(nullptr, inode, O_RDONLY));
  CHECK(again.keep_cache);
  CHECK(again.keep_attributes);
  m.close(again);
}

TEST_CASE("file system: nocto keeps what is cached of a file that somebody else has changed") {
  CacheOptions options;
  bool keeps = false;
  SUBCASE("nocto") {
    options.close_to_open = false;
    keeps = true;
  }
  SUBCASE("cto") {}
  WithPages m(options);
  const OpenedFile file = m.create("f");
  ++m.node().change;
  const OpenedFile again = m.open(file, O_RDONLY);
  CHECK(again.keep_cache == keeps);
  m.close(again);
  m.close(file);
}

// ---- locks, holes, space ----

TEST_CASE(
    "S16 a lock goes though what was written under it cannot be committed, and whoever lets it go is told") {
  WithPages m;
  const OpenedFile file = m.create("f");
  LockRequest request;
  request.owner = 5;
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == 0);
  m.write(file, std::string(128U << 10, 'x'), 0);
  m.engine->fail("commit", EIO);
  SUBCASE("by unlock") {
    CHECK(m.error(m.files->unlock(file.handle, 5, LockRange())) == EIO);
  }
  SUBCASE("with all that its owner has") {
    CHECK(m.error(m.files->release_locks(file.handle, 5)) == EIO);
  }
  CHECK(m.engine->locker == 0);
  m.close(file);
}

TEST_CASE("F9 a lock that somebody else has is refused, and changes nothing of what is known of the file") {
  WithPages m;
  const OpenedFile file = m.create("f");
  m.engine->locker = 7;
  LockRequest request;
  request.owner = 5;
  const std::uint64_t contents = file.handle->inode().attributes.contents();
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == EAGAIN);
  CHECK(file.handle->inode().attributes.contents() == contents);
  m.engine->locker = 0;
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == 0);
  CHECK(file.handle->inode().attributes.contents() != contents);
  m.close(file);
}

TEST_CASE("S14 what is not committed is, before a hole is made, so that it does not come back into it") {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  WithPages m;
  const OpenedFile file = m.create("f");
  const auto write = [&] {
    m.write(file, std::string(128U << 10, 'x'), 0);
    m.turn();
    m.take_calls();
  };
  const auto change = [&](int mode) { return m.error(m.files->allocate(file.handle, mode, 0, kPage)); };
  write();
  for (const int other : {FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_COLLAPSE_RANGE})
    CHECK(change(other) == EOPNOTSUPP);
  CHECK(m.take_calls() == "");
  CHECK(change(kPunch) == EOPNOTSUPP);  // as this engine has it
  CHECK(m.take_calls() == "commit");
  write();
  CHECK(change(0) == EOPNOTSUPP);
  CHECK(m.take_calls() == "commit");
  write();
  m.engine->fail("commit", EIO);
  CHECK(change(kPunch) == EIO);
  m.close(file);
}

TEST_CASE("fallocate: attributes that were known before it count no more") {
  nfsrdma::testing::MountedEngine m;
  m.server.add_file("/f", "text");
  m.mount();
  const std::uint64_t inode = m.lookup("f").inode;
  const auto handle = m.get(m.files->open(m.who, inode, O_RDWR)).handle;
  const auto size = [&] { return m.get(m.files->attributes(m.who, inode)).attributes.size; };
  m.server.clear_calls();
  CHECK(size() == 4);
  CHECK(m.calls() == "");  // they came with the OPEN
  const std::uint64_t contents = handle->inode().attributes.contents();
  CHECK(m.error(m.files->allocate(handle, 0, 0, 100)) == 0);
  CHECK(handle->inode().attributes.contents() != contents);  // nor do bytes that were read ahead
  CHECK(size() == 100);
  CHECK(m.error(m.files->close(handle)) == 0);
}

TEST_CASE("file system: statfs(2) asks of the object, which may be in another file system than the root") {
  WithPages m;
  const OpenedFile file = m.create("f");
  CHECK(m.get(m.files->space(nullptr, file.entry.inode)).type == FileType::regular);
  CHECK(m.get(m.files->space(nullptr, Inodes::kRoot)).type == FileType::directory);
  CHECK(m.error(m.files->space(nullptr, 999)) == ESTALE);
  m.close(file);
}

}  // namespace nfsrdma::fs
