// The public API beyond reading and writing by path: open directories, locks, extended attributes, copies,
// space, memory that the library keeps instead of a copy.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "ids/system_names.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

std::unique_ptr<Directory> open_directory(Names& names, const std::string& path) {
  auto directory = names.open_directory(path);
  if (!directory) FAIL(directory.error().text());
  return std::move(*directory);
}

std::set<std::string> names_in(Names& directory, const std::string& path) {
  std::set<std::string> out;
  CHECK(ok(directory.list(path, [&](const DirectoryEntry& entry) { return out.insert(entry.name).second; })));
  return out;
}

LockRequest lock_of(std::uint64_t owner, bool write, std::uint64_t offset, std::uint64_t length) {
  return {owner, write, {offset, length}};
}

}  // namespace

TEST_CASE("api: paths that begin in an open directory") {
  Mounted m;
  m.server.add_file("/a/b/file", "text");
  m.server.add_file("/a/other", "more");
  m.server.add_symlink("/a/b/up", "../other");
  Client& client = m.connect();
  auto directory = open_directory(client, "/a/b");
  m.server.clear_calls();
  CHECK(directory->stat("file")->size == 4);
  CHECK(m.server.calls().size() == 1);
  CHECK(directory->stat("")->type == FileType::directory);
  CHECK(directory->stat("up")->size == 4);
  CHECK(directory->stat("../other")->size == 4);
  CHECK(directory->stat("/a/b/file")->size == 4);
  CHECK(names_in(*directory, ".") == std::set<std::string>{"file", "up"});
  CHECK(names_in(*directory, "..") == std::set<std::string>{"b", "other"});
  auto file = directory->open("file", OpenMode::read);
  REQUIRE(ok(file));
  CHECK(Mounted::read_all(**file) == "text");
  CHECK(ok((*file)->close()));
  CHECK(ok(directory->make_directory("sub", 0700)));
  CHECK(names_in(client, "/a/b") == std::set<std::string>{"file", "up", "sub"});
  auto above = open_directory(*directory, "..");
  CHECK(above->stat("b/file")->size == 4);
  CHECK(errno_of(directory->open_directory("file")) == ENOTDIR);
  CHECK(errno_of(directory->open_directory("none")) == ENOENT);
}

TEST_CASE("api: an open directory is what it is, however it is called, and until it is removed") {
  Mounted m;
  m.server.add_file("/a/dir/file", "text");
  Client& client = m.connect();
  auto directory = open_directory(client, "/a/dir");
  CHECK(ok(client.rename("/a", "/z")));
  CHECK(directory->stat("file")->size == 4);
  CHECK(ok(directory->symlink("file", "link")));
  CHECK(*client.read_link("/z/dir/link") == "file");
  CHECK(ok(directory->remove_file("file")));
  CHECK(ok(directory->remove_file("link")));
  CHECK(ok(client.remove_directory("/z/dir")));
  CHECK(errno_of(directory->stat("file")) == ESTALE);
  CHECK(errno_of(directory->make_directory("x", 0700)) == ESTALE);
}

TEST_CASE("api: rename and link from one directory to another") {
  Mounted m;
  m.server.add_file("/from/file", "text");
  m.server.add_file("/to/x", "");
  Client& client = m.connect();
  auto from = open_directory(client, "/from");
  auto to = open_directory(client, "/to");
  CHECK(ok(from->rename("file", *to, "moved")));
  CHECK(to->stat("moved")->size == 4);
  CHECK(ok(to->link("moved", *from, "again")));
  CHECK(from->stat("again")->links == 2);
  CHECK(ok(to->rename("moved", client, "/root")));
  CHECK(ok(client.rename("root", *from, "home")));
  CHECK(from->stat("home")->size == 4);
  auto stranger = Client::connect(m.server.target(), &m.notices);
  REQUIRE(ok(stranger));
  CHECK(errno_of(from->rename("home", **stranger, "x")) == EXDEV);
  CHECK(errno_of(from->link("home", **stranger, "x")) == EXDEV);
}

TEST_CASE("api: nodes are made, and nothing that is not one") {
  Mounted m;
  Client& client = m.connect();
  CHECK(ok(client.make_node("/fifo", FileType::fifo, 0600)));
  CHECK(client.stat("/fifo")->type == FileType::fifo);
  CHECK(ok(client.make_node("/device", FileType::character, 0644, 5, 1)));
  CHECK(client.stat("/device")->device_major == 5);
  CHECK(client.stat("/device")->device_minor == 1);
  CHECK(errno_of(client.make_node("/file", FileType::regular, 0644)) == EINVAL);
  CHECK(errno_of(client.make_node("/fifo", FileType::fifo, 0600)) == EEXIST);
}

TEST_CASE("api: access asks for what a right is made of") {
  Mounted m;
  m.server.add_file("/dir/file", "");
  Client& client = m.connect();
  SetAttributes changes;
  changes.mode = 0444;
  CHECK(ok(client.set_attributes("/dir/file", changes)));
  m.server.add_symlink("/link", "dir/file");
  CHECK(*client.access("/dir/file", R_OK | W_OK | X_OK) == R_OK);
  CHECK(*client.access("/link", R_OK | W_OK) == R_OK);
  CHECK(*client.access("/dir", R_OK | W_OK | X_OK) == (R_OK | W_OK | X_OK));
  CHECK(*client.access("/dir", W_OK) == W_OK);
  changes.mode = 0555;
  CHECK(ok(client.set_attributes("/dir", changes)));
  CHECK(*client.access("/dir", R_OK | W_OK | X_OK) == (R_OK | X_OK));
}

TEST_CASE("api: a server that takes no numbers for owners is told their names") {
  Mounted m;
  m.server.add_file("/file", "");
  m.server.on_server([](Responder& responder) { responder.state.habits.owners_by_name = true; });
  Client& client = m.connect();
  SetAttributes changes;
  changes.uid = changes.gid = 0;
  CHECK(ok(client.set_attributes("/file", changes)));
  auto told = client.stat("/file");
  REQUIRE(told);
  CHECK(told->owner == "root@" + ids::local_nfs_domain());
  CHECK(told->group == "root@" + ids::local_nfs_domain());
  auto file = client.open("/file", OpenMode::write);
  REQUIRE(file);
  CHECK(ok((*file)->set_attributes(changes)));
  changes.uid = 4'000'000'000;  // has no name here
  CHECK(errno_of(client.set_attributes("/file", changes)) == EINVAL);
  CHECK(errno_of((*file)->set_attributes(changes)) == EINVAL);
}

TEST_CASE("api: extended attributes") {
  Mounted m;
  m.server.add_file("/file", "");
  m.server.add_symlink("/link", "file");
  Client& client = m.connect();
  CHECK(ok(client.set_xattr("/link", "color", bytes("blue"))));
  const auto color = client.get_xattr("/file", "color");
  REQUIRE(ok(color));
  CHECK(std::ranges::equal(*color, bytes("blue")));
  CHECK(errno_of(client.set_xattr("/file", "color", bytes("red"), XattrMode::create)) == EEXIST);
  CHECK(errno_of(client.set_xattr("/file", "size", bytes("9"), XattrMode::replace)) == ENODATA);
  CHECK(ok(client.set_xattr("/file", "size", {})));
  CHECK(client.get_xattr("/file", "size")->empty());
  auto names = client.list_xattrs("/file");
  REQUIRE(ok(names));
  std::ranges::sort(*names);
  CHECK(*names == std::vector<std::string>{"color", "size"});
  CHECK(ok(client.remove_xattr("/file", "color")));
  CHECK(errno_of(client.get_xattr("/file", "color")) == ENODATA);
  CHECK(errno_of(client.remove_xattr("/file", "color")) == ENODATA);
}

TEST_CASE("api: locks keep others out, and owners of one client") {
  Mounted m;
  m.server.add_file("/file", "text");
  (void)m.connect();
  auto file = m.open("/file");
  auto stranger = Client::connect(m.server.target(), &m.notices);
  REQUIRE(ok(stranger));
  auto theirs = (*stranger)->open("/file", OpenMode::read_write);
  REQUIRE(ok(theirs));
  CHECK(ok(file->lock(lock_of(1, true, 0, 10))));
  CHECK(ok(file->lock(lock_of(1, false, 5, 2))));  // its own is no hindrance
  CHECK(errno_of((*theirs)->lock(lock_of(1, true, 3, 1))) == EAGAIN);
  CHECK(errno_of(file->lock(lock_of(2, true, 3, 1))) == EAGAIN);
  const auto holder = (*theirs)->test_lock(lock_of(1, true, 0, 100));
  REQUIRE(ok(holder));
  REQUIRE(*holder);
  CHECK_FALSE((*holder)->ours);
  CHECK((*holder)->range.offset == 0);
  const auto ours = file->test_lock(lock_of(2, true, 0, 1));
  REQUIRE(ok(ours));
  REQUIRE(*ours);
  CHECK((*ours)->ours);
  CHECK((*ours)->owner == 1);
  CHECK(ok(file->unlock(1, {0, 5})));
  CHECK(ok((*theirs)->lock(lock_of(1, true, 0, 5))));
  CHECK(errno_of((*theirs)->lock(lock_of(1, true, 0, 8))) == EAGAIN);
  CHECK(ok(file->unlock(1)));
  CHECK(ok(file->unlock(7)));  // who has none
  CHECK(ok((*theirs)->lock(lock_of(1, true, 0, 8))));
  CHECK(ok((*theirs)->close()));
  CHECK(m.server.locks("/file").empty());
}

TEST_CASE("api: a lock is waited for, and no longer than was said") {
  Mounted m;
  m.server.add_file("/file", "text");
  Client& client = m.connect();
  auto file = m.open("/file");
  CHECK(ok(file->lock(lock_of(1, true, 0, 10))));
  const Stopwatch watch;
  CHECK(errno_of(file->lock(lock_of(2, true, 0, 1), 100ms)) == EAGAIN);
  CHECK(watch.elapsed() >= 100ms);
  CHECK(watch.elapsed() < 3s);
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    CHECK(ok(file->unlock(1)));
  });
  CHECK(ok(file->lock(lock_of(2, true, 0, 1), 10s)));
  other.join();
  CHECK(ok(client.ping()));
  CHECK(ok(file->close()));
  CHECK(m.server.locks("/file").empty());
}

TEST_CASE("api: locks of an interrupted wait are nobody's") {
  Mounted m;
  m.server.add_file("/file", "text");
  const Interrupt interrupt;
  (void)m.connect("", interrupt.fd());
  auto file = m.open("/file");
  CHECK(ok(file->lock(lock_of(1, true, 0, 10))));
  std::thread other([&] {
    std::this_thread::sleep_for(30ms);
    interrupt.set();
  });
  CHECK(errno_of(file->lock(lock_of(2, true, 0, 1), 10s)) == EINTR);
  other.join();
  interrupt.clear();
  CHECK(ok(file->unlock(1)));
  CHECK(ok(file->lock(lock_of(3, true, 0, 10))));
  CHECK(ok(file->close()));
}

TEST_CASE("api: what was opened for reading is not locked for writing") {
  Mounted m;
  m.server.add_file("/file", "text");
  (void)m.connect();
  auto file = m.open("/file", OpenMode::read);
  CHECK(ok(file->lock(lock_of(1, false, 0, 1))));
  CHECK(errno_of(file->lock(lock_of(1, true, 0, 1))) == EBADF);
  CHECK(ok(file->close()));
}

TEST_CASE("api: copies within the server, holes, room") {
  Mounted m;
  m.server.add_file("/source", pattern(10'000));
  m.server.add_file("/target", "");
  (void)m.connect();
  auto source = m.open("/source", OpenMode::read);
  auto target = m.open("/target");
  std::uint64_t copied = 0;
  while (copied < 5000) {
    const auto count = target->copy_from(*source, 100 + copied, copied, 5000 - copied);
    REQUIRE(ok(count));
    REQUIRE(*count != 0);
    copied += *count;
  }
  CHECK(m.server.stable_content("/target") == pattern(10'000).substr(100, 5000));
  CHECK(errno_of(source->copy_from(*target, 0, 0, 1)) == EBADF);
  CHECK(ok(target->allocate(0, 8000)));
  CHECK(target->attributes()->size == 8000);
  CHECK(ok(target->deallocate(1000, 2000)));
  CHECK(**target->seek(1000, true) == 1000);
  CHECK(**target->seek(1000, false) == 3000);
  CHECK(errno_of(source->allocate(0, 1)) == EBADF);
  auto stranger = Client::connect(m.server.target(), &m.notices);
  REQUIRE(ok(stranger));
  auto theirs = (*stranger)->open("/source", OpenMode::read);
  REQUIRE(ok(theirs));
  CHECK(errno_of(target->copy_from(**theirs, 0, 0, 1)) == EXDEV);
  CHECK(ok(source->close()));
  CHECK(errno_of(target->copy_from(*source, 0, 0, 1)) == EBADF);
}

TEST_CASE("api: what NFSv4.1 does not have is refused as such") {
  Mounted m;
  m.server.add_file("/file", "text");
  m.server.set_newest_minor(1);
  Client& client = m.connect();
  auto file = m.open("/file");
  auto source = m.open("/file", OpenMode::read);
  CHECK(errno_of(file->copy_from(*source, 0, 10, 4)) == EOPNOTSUPP);
  CHECK(errno_of(file->seek(0, true)) == EOPNOTSUPP);
  CHECK(errno_of(file->allocate(0, 10)) == EOPNOTSUPP);
  CHECK(errno_of(file->deallocate(0, 10)) == EOPNOTSUPP);
  CHECK(errno_of(file->next_extent(0)) == ENOTSUP);
  CHECK(errno_of(client.get_xattr("/file", "x")) == EOPNOTSUPP);
}

TEST_CASE("api: a write that is on the disk when it is answered") {
  Mounted m;
  m.server.add_file("/file", "");
  (void)m.connect("wsize=4K");
  auto file = m.open("/file");
  const std::string data = pattern(20'000);
  CHECK(*file->write(bytes(data), 0, Stability::on_disk) == data.size());
  CHECK(m.server.stable_content("/file") == data);
  CHECK(m.server.count(OP_COMMIT) == 0);
  CHECK(ok(file->sync()));
  CHECK(m.server.count(OP_COMMIT) == 0);
}

TEST_CASE("api: memory with a keeper is held until its data is stable, and written again from there") {
  Mounted m;
  m.server.add_file("/file", "");
  Client& client = m.connect();
  auto file = m.open("/file");
  const auto data = std::make_shared<std::string>(pattern(5000));
  std::atomic<int> done{0};
  file->start_write(
      bytes(*data), 0,
      [&](const Result<std::size_t>& result) {
        CHECK(ok(result));
        ++done;
      },
      data);
  while (done == 0) client.wait(50ms);
  CHECK(data.use_count() > 1);
  m.server.restart();  // loses it
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/file") == *data);
  CHECK(data.use_count() == 1);
  // Of what fails nothing is kept.
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  file->start_write(
      bytes(*data), 0, [&](const Result<std::size_t>& result) { done = result ? 100 : 2; }, data);
  while (done == 1) client.wait(50ms);
  CHECK(done == 2);
  CHECK(data.use_count() == 1);
  CHECK(ok(file->close()));
}

}  // namespace nfsrdma
