// Files in the public API: locks, copies, holes, pieces and their ends, memory that the library keeps instead of a copy.

#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

LockRequest lock_of(std::uint64_t owner, bool write, std::uint64_t offset, std::uint64_t length) {
  return {owner, write, {offset, length}};
}

constexpr std::uint64_t kLastOffset = std::numeric_limits<std::uint64_t>::max();

}  // namespace

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
  m.server.clear_calls();
  std::thread other([&] {
    CHECK(eventually([&] { return m.server.count(OP_LOCK) != 0; }));
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
  m.server.clear_calls();
  std::thread other([&] {
    CHECK(eventually([&] { return m.server.count(OP_LOCK) != 0; }));
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

// ---- ends ----

TEST_CASE(
    "api: what would end behind the last offset is not written, and nothing of it at the file's begin") {
  Mounted m;
  const std::string before = pattern(100'000, 3);
  m.server.add_file("/file", before);
  Client& client = m.connect("wsize=16K");
  auto file = m.open("/file");
  const std::string data = pattern(60'000);
  for (const std::uint64_t offset : {kLastOffset, kLastOffset - 20'000, kLastOffset - data.size() + 1}) {
    CAPTURE(offset);
    CHECK(errno_of(file->write(bytes(data), offset)) == EFBIG);
  }
  int code = -1;
  file->start_write(bytes(data).first(1000), kLastOffset - 999,
                    [&](const Result<std::size_t>& count) { code = errno_of(count); });
  REQUIRE(comes(client, [&] { return code != -1; }));
  CHECK(code == EFBIG);
  CHECK(m.server.count(OP_WRITE) == 0);
  CHECK(ok(file->close()));
  CHECK((m.server.content("/file") == before));
}

TEST_CASE("api: a read or write of several pieces fails where one of them does, and the next one goes on") {
  Mounted m;
  const std::string text = pattern(200'000);
  m.server.add_file("/file", text);
  (void)m.connect("rsize=16K,wsize=16K");
  auto file = m.open("/file");
  std::string data(text.size() + 5, '?');
  for (const unsigned number : {0U, 3U, 12U}) {
    CAPTURE(number);
    m.server.answer(OP_READ, NFS4ERR_IO, 1, number);
    CHECK(errno_of(file->read(room(data), 0)) == EIO);
    const auto count = file->read(room(data), 0);
    REQUIRE(ok(count));
    CHECK(*count == text.size());
    CHECK((data.substr(0, *count) == text));
    m.server.answer(OP_WRITE, NFS4ERR_NOSPC, 1, number);
    CHECK(errno_of(file->write(bytes(text), 0)) == ENOSPC);
    CHECK(*file->write(bytes(text), 0) == text.size());
  }
  // In the middle of the file, and up to its end.
  const auto rest = file->read(room(data), 100'001);
  REQUIRE(ok(rest));
  CHECK((data.substr(0, *rest) == text.substr(100'001)));
  CHECK(ok(file->close()));
  CHECK((m.server.stable_content("/file") == text));
}

TEST_CASE("api: a file that must not be there is neither opened nor cut, whatever else is asked for") {
  Mounted m;
  m.server.add_file("/file", "text");
  Client& client = m.connect();
  OpenFlags flags;
  flags.create = flags.exclusive = flags.truncate = true;
  CHECK(errno_of(client.open("/file", OpenMode::write, flags)) == EEXIST);
  CHECK(m.server.content("/file") == "text");
  flags.exclusive = false;
  flags.create = false;
  CHECK(errno_of(client.open("/none", OpenMode::write, flags)) == ENOENT);
  auto file = m.open("/file", OpenMode::write, flags);
  CHECK(m.server.content("/file") == "");
  CHECK(ok(file->close()));
  CHECK(eventually([&] { return m.server.open_states() == 0; }));
}

}  // namespace nfsrdma
