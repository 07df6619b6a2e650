// The file layer, further: READs that go by themselves, what the kernel may keep at open(2), how files, nodes and extended
// attributes are made, what is committed before a hole is made, and whose errors are told when a lock goes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acl/octets.h"
#include "support/file_parts.h"
#include "support/mounted.h"
#include "support/plain_fixture.h"
#include "support/v3_fixture.h"

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;
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

/// The file layer on the test server.
struct Served : nfsrdma::testing::MountedEngine {
  Entry make_node(const std::string& name, std::uint32_t mode, std::uint64_t device = 0) {
    return get(files->make_node(who, Inodes::kRoot, name, mode, device));
  }
  std::uint64_t change_of(std::uint64_t inode) {
    return get(files->attributes(who, inode)).attributes.change;
  }
};

std::vector<std::byte> value_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

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

TEST_CASE("early read: where such bytes were not wanted nobody asks for them for a while") {
  plain::Plain m;
  m.engine->tells = true;
  const OpenedFile made = m.create("f");
  CHECK(plain::ok(m.loop.run(m.files->close(made.handle))));
  m.files->forget(made.entry.inode, 1000);
  m.engine->nodes.at(2).content = "text";
  unsigned asked = 0;
  m.engine->early = [&asked](const plain::PlainEngine::Node& of,
                             std::span<std::byte> into) -> Result<Engine::EarlyRead> {
    ++asked;
    std::ranges::copy(std::as_bytes(std::span(of.content)), into.begin());
    return Engine::EarlyRead{of.change, of.content.size()};
  };
  // Each time as if the kernel had never heard of it.
  const auto open = [&](bool is_read) {
    const std::uint64_t inode = m.get(m.files->lookup(nullptr, Inodes::kRoot, "f")).inode;
    const OpenedFile file = m.get(m.files->open(nullptr, inode, O_RDONLY));
    if (is_read) CHECK(m.read(file, kPage) == "text");
    CHECK(plain::ok(m.loop.run(m.files->close(file.handle))));
    m.files->forget(inode, 1000);
  };
  for (int i = 0; i < 16; ++i) open(false);
  CHECK(asked == 16);
  for (int i = 0; i < 15; ++i) open(false);
  CHECK(asked == 16);
  open(true);  // now and then it is tried
  CHECK(asked == 17);
  open(true);  // and it was wanted
  CHECK(asked == 18);
}

// ---- opening, creating ----

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

TEST_CASE("F10 a name that is not there is believed for a second at most, and not where names are not") {
  const auto believed = [](const CacheOptions& options) {
    plain::Plain m(options);
    const Entry none = m.get(m.files->lookup(nullptr, Inodes::kRoot, "none"));
    CHECK(none.inode == 0);
    return none.name_valid;
  };
  CacheOptions options;
  CHECK(believed(options) == Seconds(1));
  options.file_min = Seconds(0.5);
  CHECK(believed(options) == Seconds(0.5));
  options.negative_names = false;
  CHECK(believed(options) == Seconds(0));
  options.negative_names = true;
  options.names = false;
  CHECK(believed(options) == Seconds(0));
  // Nor is one that is there.
  plain::Plain m(options);
  const OpenedFile file = m.create("f");
  CHECK(file.entry.name_valid == Seconds(0));
  CHECK(file.entry.attributes_valid > Seconds(0));
  CHECK(plain::ok(m.loop.run(m.files->close(file.handle))));
}

TEST_CASE("file system: what is there already is opened, cut or refused by create(), as its flags say") {
  Served m;
  m.server.add_file("/f", "old text");
  m.mount();
  std::string left = "old text";
  int flags = O_RDWR | O_CREAT;
  SUBCASE("opened") {}
  SUBCASE("cut") {
    flags |= O_TRUNC;
    left = "";
  }
  SUBCASE("exclusive") {
    CHECK(m.error(m.files->create(m.who, Inodes::kRoot, "f", 0644, O_RDWR | O_CREAT | O_EXCL)) == EEXIST);
    CHECK(m.server.content("/f") == left);
    return;
  }
  const OpenedFile file = m.get(m.files->create(m.who, Inodes::kRoot, "f", 0644, flags));
  CHECK(file.entry.attributes.size == left.size());
  CHECK(m.server.content("/f") == left);
  CHECK(m.error(m.files->close(file.handle)) == 0);
}

TEST_CASE("file system: nodes are made as mknod(2) has them, and a file that is made so is not left open") {
  Served m;
  m.mount();
  const Entry fifo = m.make_node("fifo", S_IFIFO | 0640U);
  CHECK(fifo.attributes.type == FileType::fifo);
  CHECK(fifo.attributes.mode == 0640U);
  CHECK(m.make_node("socket", S_IFSOCK | 0600U).attributes.type == FileType::socket);
  const Entry terminal = m.make_node("terminal", S_IFCHR | 0600U, makedev(5, 600));
  CHECK(terminal.attributes.type == FileType::character);
  CHECK(terminal.attributes.device_major == 5);
  CHECK(terminal.attributes.device_minor == 600);
  CHECK(m.make_node("disk", S_IFBLK | 0600U, makedev(8, 1)).attributes.type == FileType::block);
  const Entry file = m.make_node("file", S_IFREG | 0600U);
  CHECK(file.attributes.type == FileType::regular);
  CHECK(file.attributes.mode == 0600U);
  CHECK(m.server.open_states() == 0);
  CHECK(m.error(m.files->make_node(m.who, Inodes::kRoot, "file", S_IFREG | 0600U, 0)) == EEXIST);
}

TEST_CASE("file system: what comes along with a rename answers for both of its directories") {
  Served m;
  m.server.add_file("/f", "text");
  m.server.add_directory("/d");
  m.mount();
  const std::uint64_t d = m.lookup("d").inode;
  (void)m.lookup("f");
  const std::uint64_t root_before = m.change_of(Inodes::kRoot), before = m.change_of(d);
  CHECK(m.error(m.files->rename(m.who, Inodes::kRoot, "f", d, "g")) == 0);
  m.server.clear_calls();
  const std::uint64_t root_now = m.change_of(Inodes::kRoot), now = m.change_of(d);
  CHECK(m.calls() == "");
  CHECK(root_now != root_before);
  CHECK(now != before);
  const auto told = [&](const std::string& path) {
    return m.get(m.client->engine.attributes(nullptr, m.client->handle(path))).change;
  };
  CHECK(root_now == m.get(m.client->engine.attributes(nullptr, m.client->root)).change);
  CHECK(now == told("/d"));
}

// ---- closing, locks ----

TEST_CASE("F2 stat of a file that was closed early waits for all that was written, not for the first of it") {
  WithPages m;
  m.engine->tells = true;
  m.engine->owed = 1U << 30;
  const OpenedFile file = m.create("f");
  const std::string large(128U << 10, 'x');
  m.engine->hold("write");
  m.write(file, large, 0);
  m.write(file, large, 1U << 20);
  auto flushed = m.files->flush(file.handle, 1);
  m.start(flushed);
  REQUIRE(flushed.done());
  CHECK(plain::ok(flushed.await_resume()));
  auto told = m.files->attributes(nullptr, file.entry.inode);
  m.start(told);
  CHECK_FALSE(told.done());
  m.engine->release_one("write");
  m.turn();
  CHECK_FALSE(told.done());
  m.engine->release("write");
  m.turn();
  REQUIRE(told.done());
  const auto got = told.await_resume();
  REQUIRE(got);
  CHECK(got->attributes.size == (1U << 20) + large.size());
  m.close(file);
}

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

// ---- blocks and holes ----

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

TEST_CASE("file system: statfs(2) asks of the object, which may be in another file system than the root") {
  WithPages m;
  const OpenedFile file = m.create("f");
  CHECK(m.get(m.files->space(nullptr, file.entry.inode)).type == FileType::regular);
  CHECK(m.get(m.files->space(nullptr, Inodes::kRoot)).type == FileType::directory);
  CHECK(m.error(m.files->space(nullptr, 999)) == ESTALE);
  m.close(file);
}

TEST_CASE("file system: lseek(2) finds data and holes where the server has them") {
  Served m;
  m.server.add_file("/f", nfsrdma::testing::pattern(20'000));
  m.server.add_extent("/f", 4096, 8192);
  m.mount();
  const OpenedFile file = m.get(m.files->open(m.who, m.lookup("f").inode, O_RDONLY));
  const auto seek = [&](std::uint64_t from, int whence) {
    return m.client->run(m.files->seek(file.handle, from, whence));
  };
  CHECK(*seek(0, SEEK_DATA) == 4096);
  CHECK(*seek(5000, SEEK_DATA) == 5000);
  CHECK(*seek(5000, SEEK_HOLE) == 8192);
  CHECK(*seek(100, SEEK_HOLE) == 100);
  CHECK(nfsrdma::testing::errno_of(seek(8192, SEEK_DATA)) == ENXIO);
  CHECK(*seek(19'999, SEEK_HOLE) == 19'999);
  for (const int whence : {SEEK_DATA, SEEK_HOLE})
    CHECK(nfsrdma::testing::errno_of(seek(20'000, whence)) == ENXIO);
  CHECK(m.error(m.files->close(file.handle)) == 0);
}

// ---- extended attributes ----

TEST_CASE("file system: extended attributes are those of users, made or replaced as the flags say") {
  Served m;
  m.server.add_file("/f", "text");
  m.mount();
  const std::uint64_t f = m.lookup("f").inode;
  const auto set = [&](const std::string& name, const std::string& value, int flags) {
    return m.error(m.files->set_xattr(m.who, f, name, value_of(value), flags));
  };
  CHECK(set("user.a", "1", XATTR_REPLACE) == ENODATA);
  CHECK(set("user.a", "1", XATTR_CREATE) == 0);
  CHECK(set("user.a", "2", XATTR_CREATE) == EEXIST);
  CHECK(m.get(m.files->get_xattr(m.who, f, "user.a")) == value_of("1"));
  CHECK(set("user.a", "2", XATTR_REPLACE) == 0);
  CHECK(set("user.a", "3", 0) == 0);
  CHECK(set("user.b", "", 0) == 0);
  CHECK(m.get(m.files->get_xattr(m.who, f, "user.a")) == value_of("3"));
  CHECK(m.get(m.files->list_xattrs(m.who, f)) == Strings{"user.a", "user.b"});
  CHECK(m.error(m.files->remove_xattr(m.who, f, "user.a")) == 0);
  CHECK(m.error(m.files->get_xattr(m.who, f, "user.a")) == ENODATA);
  m.server.clear_calls();
  for (const char* other : {"trusted.a", "security.capability", "user.", "user", "userXa", "system.a"}) {
    CAPTURE(other);
    CHECK(set(other, "1", 0) == EOPNOTSUPP);
    CHECK(m.error(m.files->get_xattr(m.who, f, other)) == EOPNOTSUPP);
    CHECK(m.error(m.files->remove_xattr(m.who, f, other)) == EOPNOTSUPP);
  }
  CHECK(m.calls() == "");
}

TEST_CASE("acl: without its access list an object has the mode that the list's mask says") {
  nfsrdma::testing::Scene3 s;
  s.habits([](nfsrdma::testing::Habits& habits) { habits.has_acls = true; });
  const auto root = s.get(s.engine->find(s.who, Spot(s.root)));
  const std::shared_ptr<Engine> engine(std::shared_ptr<void>(), &*s.engine);
  FileSystem files(engine, CacheOptions(), root);
  const std::uint64_t d = s.get(files.make_directory(s.who, Inodes::kRoot, "d", 0755)).inode;
  const PosixAcl list{{AclTag::owner, 0, 7},
                      {AclTag::user, 1000, 4},
                      {AclTag::owning_group, 0, 7},
                      {AclTag::mask, 0, 5},
                      {AclTag::other, 0, 1}};
  const std::string access = "system.posix_acl_access";
  CHECK(nfsrdma::testing::ok(s.run(files.set_xattr(s.who, d, access, acl::posix_octets(list), 0))));
  CHECK(nfsrdma::testing::ok(s.run(files.remove_xattr(s.who, d, access))));
  const auto handle = s.get(s.engine->find(s.who, Spot(std::nullopt, {"d"}))).handle;
  const auto left = std::get<PosixAcls>(s.get(s.engine->get_acl(s.who, handle)));
  CHECK(left.access == PosixAcl{{AclTag::owner, 0, 7}, {AclTag::owning_group, 0, 5}, {AclTag::other, 0, 1}});
}

// ---- names that are taken away ----

TEST_CASE("F5 where the directory that is mounted is sticky, that is known from the beginning") {
  async::Loop loop;
  std::string calls;
  const auto engine = std::make_shared<plain::PlainEngine>(loop, calls);
  engine->nodes[1].mode = 01777;
  const auto root = loop.run(engine->find(nullptr, Spot()));
  REQUIRE(root);
  FileSystem files(engine, CacheOptions(), *root);
  const auto make = [&](const std::string& name) {
    return loop.run(files.create(nullptr, Inodes::kRoot, name, 0644, O_RDWR | O_CREAT));
  };
  const auto source = make("source"), target = make("target");
  REQUIRE(source);
  REQUIRE(target);
  calls.clear();
  CHECK(plain::ok(loop.run(files.rename(nullptr, Inodes::kRoot, "source", Inodes::kRoot, "target"))));
  CHECK(calls.find("link") == std::string::npos);  // which its maker might not be let remove
  CHECK(engine->nodes.at(1).names.size() == 2);    // with the hidden one
  for (const auto& file : {target->handle, source->handle}) CHECK(plain::ok(loop.run(files.close(file))));
  CHECK(engine->nodes.at(1).names.size() == 1);
  loop.drop_tasks();
}

TEST_CASE("F5 removal: who found a file gone may look its name up again before the next name goes") {
  plain::FileParts m;
  Retries retries(m.loop);
  auto nobody = retries.let_pass();
  m.start(nobody);
  CHECK(nobody.done());
  retries.expect(7);
  retries.expect(8);
  auto waits = retries.let_pass();
  m.start(waits);
  CHECK_FALSE(waits.done());
  retries.arrived(8);
  retries.arrived(9);
  m.turn();
  CHECK_FALSE(waits.done());
  SUBCASE("it has opened what it found") {
    retries.arrived(7);
    m.turn();
  }
  SUBCASE("it does not come back") {
    m.pass(49ms);
    CHECK_FALSE(waits.done());
    m.pass(2ms);
  }
  CHECK(waits.done());
}

}  // namespace nfsrdma::fs
