// The public API at the ends of what it can be asked: times without end, offsets behind which there are none, requests
// of several pieces one of which fails, and lists that are used while they go on.
#include <cerrno>
#include <limits>
#include <set>

#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr auto kForEver = std::chrono::milliseconds::max();
constexpr std::uint64_t kLastOffset = std::numeric_limits<std::uint64_t>::max();

}  // namespace

TEST_CASE("api: for ever is a time like others, to wait, for a lock, and for answers") {
  NfsServer server;
  server.add_file("/file", "text");
  Target target = server.target();
  target.options.timeout = kForEver;
  target.options.connect_timeout = kForEver;
  auto client = Client::connect(target);
  REQUIRE(ok(client));
  auto opened = (*client)->open("/file", OpenMode::read_write);
  REQUIRE(ok(opened));
  File& file = **opened;

  const Interrupt mine;
  const std::vector<int> also{mine.fd()};
  std::thread setter([&] {
    std::this_thread::sleep_for(20ms);
    mine.set();
  });
  CHECK((*client)->wait(kForEver, also));
  setter.join();
  CHECK_FALSE((*client)->wait(std::chrono::milliseconds::min()));

  CHECK(ok(file.lock({1, true, {0, 10}})));
  std::thread unlocker([&] {
    std::this_thread::sleep_for(20ms);
    CHECK(ok(file.unlock(1)));
  });
  CHECK(ok(file.lock({2, true, {0, 1}}, kForEver)));
  unlocker.join();
  CHECK(errno_of(file.lock({3, true, {0, 1}}, std::chrono::milliseconds::min())) == EAGAIN);
  CHECK(Mounted::read_all(file, 10) == "text");
  CHECK(ok(file.close()));
  opened->reset();
  client->reset();
  CHECK(server.problems() == "");
}

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

TEST_CASE("api: a list ends where it is told to, and calls may be made from inside of it") {
  Mounted m;
  for (int i = 0; i < 50; ++i) m.server.add_file("/d/" + std::to_string(i), std::string(7, 'x'));
  Client& client = m.connect();
  std::set<std::string> seen;
  const Status some = client.list("/d", [&](const DirectoryEntry& entry) {
    CHECK(client.stat("/d/" + entry.name)->size == 7);
    CHECK(ok(client.remove_file("/d/" + entry.name)));
    return seen.insert(entry.name).second && seen.size() < 20;
  });
  CHECK(ok(some));
  CHECK(seen.size() == 20);
  std::size_t left = 0;
  const Status rest = client.list("/d", [&](const DirectoryEntry& entry) {
    CHECK_FALSE(seen.contains(entry.name));
    return ++left != 0;
  });
  CHECK(ok(rest));
  CHECK(left == 30);
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
