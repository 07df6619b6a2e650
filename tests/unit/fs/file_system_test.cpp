// The version-neutral file layer on the test server: what it asks the server for, and what it answers by
// itself.
#include "fs/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Files : MountedEngine {
  fs::OpenedFile create(const std::string& name) {
    return get(files->create(who, fs::Inodes::kRoot, name, 0644, O_WRONLY | O_CREAT));
  }
  Status write(const fs::OpenedFile& file, const std::string& text, std::uint64_t offset) {
    auto memory = client->loop.memory().take(text.size());
    std::memcpy(memory.data.get(), text.data(), text.size());
    const std::span<const std::byte> data(memory.data.get(), text.size());
    return client->run(files->write(file.handle, std::move(memory), data, offset));
  }
  Status flush(const fs::OpenedFile& file) { return client->run(files->flush(file.handle, 0)); }
  Status close(const fs::OpenedFile& file) { return client->run(files->close(file.handle)); }
  fs::Entry make_node(const std::string& name, std::uint32_t mode, std::uint64_t device = 0) {
    return get(files->make_node(who, fs::Inodes::kRoot, name, mode, device));
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

TEST_CASE("file system: a small file is one WRITE, safe when it is answered") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  m.server.clear_calls();
  CHECK(ok(m.write(file, "one ", 0)));
  CHECK(ok(m.write(file, "two ", 4)));
  CHECK(ok(m.write(file, "three", 8)));
  CHECK(m.calls() == "");
  CHECK(m.files->bytes_behind() == 13);
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "WRITE+GETATTR");
  CHECK(m.server.stable_content("/f") == "one two three");
  CHECK(m.files->bytes_behind() == 0);
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "WRITE+GETATTR");
  CHECK(ok(m.close(file)));
  CHECK(m.calls() == "WRITE+GETATTR CLOSE");
  // Another client may have written meanwhile, so the kernel drops its pages.
  const auto again = m.get(m.files->open(m.who, file.entry.inode, O_RDONLY));
  CHECK_FALSE(again.keep_cache);
  CHECK(ok(m.close(again)));
}

TEST_CASE("S16 what another caller wrote is on the server's disk before a lock goes") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  CHECK(ok(m.client->run(m.files->lock(file.handle, {7, true, {0, 100}}, nullptr))));
  // Another caller's open file is another one for the server, with unstable data of its own.
  const auto other = m.get(m.files->open(user(2000), file.entry.inode, O_WRONLY));
  const auto reader = m.get(m.files->open(m.who, file.entry.inode, O_RDONLY));
  CHECK(ok(m.write(other, "text", 0)));
  m.server.clear_calls();
  SUBCASE("with all that its owner has") {
    CHECK(ok(m.client->run(m.files->release_locks(file.handle, 7))));
  }
  SUBCASE("by the close of a descriptor for reading") {
    CHECK(ok(m.client->run(m.files->flush(reader.handle, 7))));
  }
  CHECK(m.calls().ends_with("COMMIT LOCKU+FREE_STATEID"));
  CHECK(m.server.stable_content("/f") == "text");
  CHECK(m.server.locks("/f").empty());
  for (const auto& one : {reader, other, file}) CHECK(ok(m.close(one)));
}

TEST_CASE(
    "file system: what is gathered leaves by itself, at another place, when it is full, when it is wanted") {
  Files m;
  fs::CacheOptions options;
  options.wsize = 64;
  m.mount(options);
  const auto file = m.create("f");
  m.server.clear_calls();
  SUBCASE("by itself") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.client->turn_until([&] { return m.server.count(OP_WRITE) == 1; }));
    CHECK(m.client->turn_until([&] { return m.files->bytes_behind() == 0; }));
    CHECK(m.server.content("/f") == "text");
    CHECK(ok(m.flush(file)));
    CHECK(m.calls() == "WRITE+GETATTR COMMIT+GETATTR");
  }
  SUBCASE("at another place") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(ok(m.write(file, "more", 100)));
    CHECK(ok(m.write(file, "TEXT", 0)));
    CHECK(ok(m.flush(file)));
    CHECK(m.server.stable_content("/f")->substr(0, 4) == "TEXT");
    CHECK(m.server.stable_content("/f")->substr(100) == "more");
  }
  SUBCASE("full") {
    for (unsigned i = 0; i < 33; ++i) CHECK(ok(m.write(file, "1234", 4 * i)));
    CHECK(m.client->turn_until([&] { return m.server.count(OP_WRITE) >= 2; }));
    CHECK(ok(m.flush(file)));
    CHECK(m.server.count(OP_WRITE) == 3);
    CHECK(m.server.stable_content("/f")->size() == 132);
  }
  SUBCASE("for its attributes") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.get(m.files->attributes(m.who, file.entry.inode)).attributes.size == 4);
    CHECK(m.lookup("f").attributes.size == 4);
  }
  SUBCASE("for a reader") {
    const auto reader = m.get(m.files->open(m.who, file.entry.inode, O_RDONLY));
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.get(m.files->read(reader.handle, 0, 100)).size == 4);
    CHECK(ok(m.close(reader)));
  }
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: a large write stays where it came in, a smaller one does not hold all of that") {
  constexpr std::size_t kMiB = 1U << 20;
  Files m;
  m.mount();
  const auto file = m.create("f");
  async::Memory memory = m.client->loop.memory().take(kMiB);
  std::memset(memory.data.get(), 'x', kMiB);
  const auto kept = memory.data;
  std::size_t size = 0;
  SUBCASE("large") {
    size = kMiB - 4096;
  }
  SUBCASE("smaller") {
    size = kMiB / 2;
  }
  const std::span<const std::byte> data(memory.data.get(), size);
  CHECK(ok(m.client->run(m.files->write(file.handle, std::move(memory), data, 0))));
  const bool large = size > kMiB / 2;
  CHECK((kept.use_count() > 1) == large);
  CHECK(m.client->turn_until([&] { return m.files->bytes_behind() == 0; }));
  CHECK((kept.use_count() > 1) == large);  // until the server has it on its disk
  CHECK(m.files->holdings().uncommitted_bytes == size);
  CHECK(ok(m.flush(file)));
  CHECK(kept.use_count() == 1);
  CHECK(m.server.stable_content("/f") == std::string(size, 'x'));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: the error of what was gathered comes once, at the next flush") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(ok(m.write(file, "text", 0)));
  CHECK(errno_of(m.flush(file)) == ENOSPC);
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: a size is set although whoever has the file open is just giving that up") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  SetAttributes changes;
  changes.size = 3;
  m.server.clear_calls();
  m.server.answer(OP_SETATTR, NFS4ERR_OPENMODE);  // OPEN_DOWNGRADE came first
  CHECK(m.get(m.files->set_attributes(m.who, file.entry.inode, changes, nullptr)).attributes.size == 3);
  CHECK(m.server.count(OP_SETATTR) == 2);
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: flush asks for nothing where nothing was written") {
  Files m;
  m.server.add_file("/f", "text");
  m.mount();
  const auto file = m.get(m.files->open(m.who, m.lookup("f").inode, O_RDWR));
  m.server.clear_calls();
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "");
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: what comes along with a change answers whoever asks next") {
  Files m;
  m.mount();
  const auto root = [&] { return m.get(m.files->attributes(m.who, fs::Inodes::kRoot)); };
  const auto asked = [&](auto&& what) {
    m.server.clear_calls();
    what();
    return m.calls();
  };
  (void)root();
  const auto file = m.create("f");
  const std::uint64_t inode = file.entry.inode;
  const auto attributes = [&] { return m.get(m.files->attributes(m.who, inode)).attributes; };
  SUBCASE("of a directory") {
    CHECK(asked(root) == "");
    const auto before = root().attributes.change;
    CHECK(ok(m.client->run(m.files->make_directory(m.who, fs::Inodes::kRoot, "d", 0755))));
    CHECK(asked(root) == "");
    CHECK(root().attributes.change != before);
    CHECK(ok(m.client->run(m.files->rename(m.who, fs::Inodes::kRoot, "d", fs::Inodes::kRoot, "e"))));
    CHECK(asked(root) == "");
    CHECK(ok(m.client->run(m.files->remove_directory(m.who, fs::Inodes::kRoot, "e"))));
    CHECK(asked(root) == "");
    SetAttributes changes;
    changes.mode = 0700;
    (void)m.get(m.files->set_attributes(m.who, fs::Inodes::kRoot, changes, nullptr));
    CHECK(asked(root) == "GETATTR");
    CHECK(root().attributes.mode == 0700);
  }
  SUBCASE("of a directory that several change at once") {
    auto one = m.files->make_directory(m.who, fs::Inodes::kRoot, "one", 0755);
    auto two = m.files->make_directory(m.who, fs::Inodes::kRoot, "two", 0755);
    m.client->start(one);
    m.client->start(two);
    CHECK(m.client->turn_until([&] { return one.done() && two.done(); }));
    const auto told = root().attributes;
    m.server.drop_connections();
    CHECK(m.get(m.client->engine.attributes(nullptr, m.client->root)).change == told.change);
  }
  SUBCASE("of a file whose data is safe") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(ok(m.flush(file)));
    CHECK(asked([&] { CHECK(attributes().size == 4); }) == "");
    CHECK(ok(m.client->run(m.files->link(m.who, inode, fs::Inodes::kRoot, "g"))));
    CHECK(attributes().links == 2);
    CHECK(ok(m.write(file, "more text", 0)));
    CHECK(ok(m.flush(file)));
    CHECK(ok(m.client->run(m.files->remove_file(m.who, fs::Inodes::kRoot, "g"))));
    CHECK(asked([&] { CHECK(attributes().links == 1); }) == "GETATTR");  // and no hidden name
    CHECK(ok(m.write(file, "even more text", 0)));
    CHECK(attributes().size == 14);
  }
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: who opens a file sees what others have made of it since") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  const std::uint64_t inode = file.entry.inode;
  CHECK(ok(m.write(file, "text", 0)));
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
  EngineClient other(m.server, "other");
  auto theirs = other.run(other.files.open_handle(m.who, other.handle("/f"), "f", OPEN4_SHARE_ACCESS_WRITE));
  REQUIRE(ok(theirs));
  CHECK(ok(other.run(theirs->file->write(bytes("much longer"), 0))));
  CHECK(ok(other.run(other.files.close(std::move(theirs->file)))));
  const auto again = m.get(m.files->open(m.who, inode, O_RDONLY));
  CHECK_FALSE(again.keep_cache);
  CHECK(m.get(m.files->attributes(m.who, inode)).attributes.size == 11);
  CHECK(ok(m.close(again)));
}

TEST_CASE("file system: what comes along with a change is not kept where attributes are not believed") {
  Files m;
  fs::CacheOptions options;
  options.directory_min = options.directory_max = fs::Seconds(0);
  m.mount(options);
  CHECK(ok(m.client->run(m.files->make_directory(m.who, fs::Inodes::kRoot, "d", 0755))));
  m.server.clear_calls();
  (void)m.get(m.files->attributes(m.who, fs::Inodes::kRoot));
  CHECK(m.calls() == "GETATTR");
}

// ---- making, renaming ----

TEST_CASE("file system: what is there already is opened, cut or refused by create(), as its flags say") {
  Files m;
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
    CHECK(m.error(m.files->create(m.who, fs::Inodes::kRoot, "f", 0644, O_RDWR | O_CREAT | O_EXCL)) == EEXIST);
    CHECK(m.server.content("/f") == left);
    return;
  }
  const fs::OpenedFile file = m.get(m.files->create(m.who, fs::Inodes::kRoot, "f", 0644, flags));
  CHECK(file.entry.attributes.size == left.size());
  CHECK(m.server.content("/f") == left);
  CHECK(m.error(m.files->close(file.handle)) == 0);
}

TEST_CASE("file system: nodes are made as mknod(2) has them, and a file that is made so is not left open") {
  Files m;
  m.mount();
  const fs::Entry fifo = m.make_node("fifo", S_IFIFO | 0640U);
  CHECK(fifo.attributes.type == FileType::fifo);
  CHECK(fifo.attributes.mode == 0640U);
  CHECK(m.make_node("socket", S_IFSOCK | 0600U).attributes.type == FileType::socket);
  const fs::Entry terminal = m.make_node("terminal", S_IFCHR | 0600U, makedev(5, 600));
  CHECK(terminal.attributes.type == FileType::character);
  CHECK(terminal.attributes.device_major == 5);
  CHECK(terminal.attributes.device_minor == 600);
  CHECK(m.make_node("disk", S_IFBLK | 0600U, makedev(8, 1)).attributes.type == FileType::block);
  const fs::Entry file = m.make_node("file", S_IFREG | 0600U);
  CHECK(file.attributes.type == FileType::regular);
  CHECK(file.attributes.mode == 0600U);
  CHECK(m.server.open_states() == 0);
  CHECK(m.error(m.files->make_node(m.who, fs::Inodes::kRoot, "file", S_IFREG | 0600U, 0)) == EEXIST);
}

TEST_CASE("file system: what comes along with a rename answers for both of its directories") {
  Files m;
  m.server.add_file("/f", "text");
  m.server.add_directory("/d");
  m.mount();
  const std::uint64_t d = m.lookup("d").inode;
  (void)m.lookup("f");
  const std::uint64_t root_before = m.change_of(fs::Inodes::kRoot), before = m.change_of(d);
  CHECK(m.error(m.files->rename(m.who, fs::Inodes::kRoot, "f", d, "g")) == 0);
  m.server.clear_calls();
  const std::uint64_t root_now = m.change_of(fs::Inodes::kRoot), now = m.change_of(d);
  CHECK(m.calls() == "");
  CHECK(root_now != root_before);
  CHECK(now != before);
  const auto told = [&](const std::string& path) {
    return m.get(m.client->engine.attributes(nullptr, m.client->handle(path))).change;
  };
  CHECK(root_now == m.get(m.client->engine.attributes(nullptr, m.client->root)).change);
  CHECK(now == told("/d"));
}

// ---- holes, extended attributes ----

TEST_CASE("file system: lseek(2) finds data and holes where the server has them") {
  Files m;
  m.server.add_file("/f", pattern(20'000));
  m.server.add_extent("/f", 4096, 8192);
  m.mount();
  const fs::OpenedFile file = m.get(m.files->open(m.who, m.lookup("f").inode, O_RDONLY));
  const auto seek = [&](std::uint64_t from, int whence) {
    return m.client->run(m.files->seek(file.handle, from, whence));
  };
  CHECK(*seek(0, SEEK_DATA) == 4096);
  CHECK(*seek(5000, SEEK_DATA) == 5000);
  CHECK(*seek(5000, SEEK_HOLE) == 8192);
  CHECK(*seek(100, SEEK_HOLE) == 100);
  CHECK(errno_of(seek(8192, SEEK_DATA)) == ENXIO);
  CHECK(*seek(19'999, SEEK_HOLE) == 19'999);
  for (const int whence : {SEEK_DATA, SEEK_HOLE}) CHECK(errno_of(seek(20'000, whence)) == ENXIO);
  CHECK(m.error(m.files->close(file.handle)) == 0);
}

TEST_CASE("file system: extended attributes are those of users, made or replaced as the flags say") {
  Files m;
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
  CHECK(m.get(m.files->list_xattrs(m.who, f)) == std::vector<std::string>{"user.a", "user.b"});
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

// ---- delegations ----

namespace {

struct Delegated : Files {
  std::vector<std::uint64_t> doubted;

  Delegated() {
    server.set_delegations(true);
    server.add_file("/f", "text");
  }
  void mount(fs::CacheOptions options = {}) {
    options.file_min = options.file_max = fs::Seconds(3);
    Files::mount(options);
    files->on_doubt([this](std::uint64_t inode) { doubted.push_back(inode); });
  }
  void end() { client->run(nothing(files->closed())); }
  static async::Task<bool> nothing(async::Task<void> task) {
    co_await std::move(task);
    co_return true;
  }
  fs::OpenedFile open(std::uint64_t inode, int flags = O_RDONLY) {
    return get(files->open(who, inode, flags));
  }
  std::uint64_t open_and_close() {
    const std::uint64_t inode = lookup("f").inode;
    CHECK(ok(close(open(inode))));
    return inode;
  }
  std::size_t read(const fs::OpenedFile& file) { return get(files->read(file.handle, 0, 100)).size; }
};

}  // namespace

TEST_CASE("file system: a file with a delegation is opened again, read, and asked about without the server") {
  Delegated m;
  m.mount();
  const std::uint64_t inode = m.open_and_close();
  CHECK(m.server.open_states() == 1);
  m.server.clear_calls();
  const auto again = m.open(inode);
  CHECK(again.keep_cache);
  const auto told = m.get(m.files->attributes(m.who, inode));
  CHECK(told.attributes.size == 4);
  CHECK(told.valid > fs::Seconds(3));
  CHECK(ok(m.close(again)));
  CHECK(m.calls() == "");
  CHECK(m.doubted.empty());
  m.end();
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.delegations() == 0);
}

TEST_CASE("file system: a recall ends what was promised, and closes a file that nobody has open") {
  Delegated m;
  m.mount();
  SUBCASE("nobody has it open") {
    const std::uint64_t inode = m.open_and_close();
    CHECK(m.get(m.files->attributes(m.who, inode)).valid > fs::Seconds(3));
    auto recalled = m.server.start_recall("/f");
    CHECK(m.soon([&] { return m.server.delegations() == 0 && m.server.open_states() == 0; }));
    CHECK(m.doubted == std::vector<std::uint64_t>{inode});
    CHECK(m.get(m.files->attributes(m.who, inode)).valid <= fs::Seconds(3));
  }
  SUBCASE("it is open") {
    const std::uint64_t inode = m.lookup("f").inode;
    const auto file = m.open(inode);
    CHECK(m.get(m.files->attributes(m.who, inode)).valid > fs::Seconds(3));
    auto recalled = m.server.start_recall("/f");
    CHECK(m.soon([&] { return m.server.delegations() == 0; }));
    CHECK(m.doubted == std::vector<std::uint64_t>{inode});
    CHECK(m.server.open_states() == 1);
    CHECK(m.read(file) == 4);
    CHECK(ok(m.close(file)));
    CHECK(m.server.open_states() == 0);
  }
  SUBCASE("nobody was told anything") {
    m.open_and_close();
    auto recalled = m.server.start_recall("/f");
    CHECK(m.soon([&] { return m.server.delegations() == 0 && m.server.open_states() == 0; }));
    CHECK(m.doubted.empty());
  }
}

TEST_CASE(
    "file system: what is kept open for a delegation goes when it is too much, forgotten, or not wanted") {
  Delegated m;
  m.server.add_file("/g", "text");
  fs::CacheOptions options;
  options.most_delegated = 1;
  SUBCASE("too much") {
    m.mount(options);
    m.open_and_close();
    CHECK(ok(m.close(m.open(m.lookup("g").inode))));
    CHECK(m.soon([&] { return m.server.open_states() == 1; }));
    m.end();
  }
  SUBCASE("forgotten") {
    m.mount(options);
    const std::uint64_t inode = m.open_and_close();
    m.files->forget(inode, 1);
    CHECK(m.soon([&] { return m.server.open_states() == 0; }));
  }
  SUBCASE("not wanted") {
    options.most_delegated = 0;
    m.mount(options);
    m.open_and_close();
  }
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("file system: own changes of a delegated file are seen, those of others cost it nothing") {
  Delegated m;
  m.mount();
  const std::uint64_t inode = m.open_and_close();
  const auto other = m.create("other");
  CHECK(ok(m.write(other, "text", 0)));
  CHECK(ok(m.flush(other)));
  CHECK(ok(m.close(other)));
  CHECK(ok(m.close(m.open(inode))));
  m.server.clear_calls();
  CHECK(m.get(m.files->attributes(m.who, inode)).attributes.size == 4);
  CHECK(m.calls() == "");
  SetAttributes changes;
  changes.mode = 0600;
  (void)m.get(m.files->set_attributes(m.who, inode, changes, nullptr));
  CHECK(m.get(m.files->attributes(m.who, inode)).attributes.mode == 0600);
  const auto writer = m.open(inode, O_RDWR);
  CHECK(ok(m.write(writer, "more text", 0)));
  CHECK(m.get(m.files->attributes(m.who, inode)).attributes.size == 9);
  CHECK(ok(m.flush(writer)));
  CHECK(ok(m.close(writer)));
  m.end();
}

TEST_CASE("file system: who may open a delegated file is the server's to say when that was changed here") {
  Delegated m;
  m.mount();
  const std::uint64_t inode = m.open_and_close();
  SetAttributes changes;
  changes.modified_now = true;
  (void)m.get(m.files->set_attributes(m.who, inode, changes, nullptr));
  m.server.clear_calls();
  CHECK(ok(m.close(m.open(inode))));
  CHECK(m.calls() == "GETATTR");  // as it is now
  changes = {};
  changes.mode = 0400;
  (void)m.get(m.files->set_attributes(m.who, inode, changes, nullptr));
  m.server.clear_calls();
  CHECK(ok(m.close(m.open(inode))));
  CHECK(m.calls().find("OPEN") != std::string::npos);
  m.end();
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.delegations() == 0);
}

TEST_CASE(
    "file system: after a restart of the server a file that was kept for its delegation is opened anew") {
  Delegated m;
  m.mount();
  const std::uint64_t inode = m.open_and_close();
  m.server.restart();
  const auto file = m.open(inode);
  CHECK(m.read(file) == 4);
  CHECK(ok(m.close(file)));
  m.end();
  CHECK(m.server.open_states() == 0);
}

}  // namespace nfsrdma
