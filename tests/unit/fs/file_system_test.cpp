// The version-neutral file layer on the test server: what it asks the server for, and what it answers by
// itself.
#include "fs/file_system.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

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
};

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
  bool soon(const std::function<bool()>& so) { return client->turn_until(so); }
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
