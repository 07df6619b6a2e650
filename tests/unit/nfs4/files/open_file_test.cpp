// Open files and paths against the test server: what a restart loses is written again, errors that come late,
// short answers, holes, symbolic links, long paths, long directories (RFC 8881 18.3, 18.32, RFC 7862 15.11).
#include <cerrno>
#include <set>

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/virtual_mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

OpenFlags creating(bool exclusive = false, bool truncate = false) {
  OpenFlags flags;
  flags.create = true;
  flags.exclusive = exclusive;
  flags.truncate = truncate;
  return flags;
}

std::string deep_path(int depth, const std::string& last) {
  std::string path;
  for (int i = 0; i < depth; ++i) path += "/d" + std::to_string(i);
  return path + "/" + last;
}

}  // namespace

// ---- data that a restart loses ----

TEST_CASE("S14 file: writes that a restart lost are written again by sync()") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("first"), 0)));
  CHECK(ok(file->write(bytes("second"), 10)));
  m.server.restart();
  CHECK(m.server.content("/a")->empty());
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == std::string("first\0\0\0\0\0second", 16));
  CHECK(m.server.count(OP_COMMIT) == 2);
  m.server.clear_calls();
  CHECK(ok(file->sync()));
  CHECK(m.server.count(OP_COMMIT) == 0);  // nothing to do
}

TEST_CASE("file: of overlapping writes the later one wins, also when they are written again") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("aaaaaaaaaa"), 0)));
  CHECK(ok(file->write(bytes("bbbb"), 3)));
  CHECK(ok(file->write(bytes("cc"), 9)));
  m.server.restart();
  CHECK(ok(file->write(bytes("DD"), 4)));
  CHECK(ok(file->close()));
  CHECK(m.server.stable_content("/a") == "aaabDDbaacc");
}

TEST_CASE("file: a write that came while older data is written again is not overwritten by it") {
  VirtualMounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("old old old"), 0)));
  m.server.restart();
  int done = 0;
  // It is executed before the COMMIT of sync() and answered while sync() is writing again.
  m.server.hold(OP_WRITE);
  const std::string fresh = "new";
  file->start_write(bytes(fresh), 4, [&](Result<std::size_t> count) { done += count ? 1 : 0; });
  REQUIRE(m.eventually([&] { return m.server.held() == 1; }));
  m.server.on_server([&](Responder& responder) {
    responder.on_call = [&](const SeenCall& call) {
      if (call.has(OP_COMMIT)) m.after(20ms, [&] { m.server.release(); });
    };
  });
  CHECK(ok(file->sync()));
  CHECK(m.eventually([&] { return done == 1; }));
  CHECK(ok(file->close()));
  CHECK(m.server.stable_content("/a") == "old new old");
}

TEST_CASE("S14 file: a restart while it is written again") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  CHECK(ok(file->write(bytes("more"), 8)));
  m.server.restart();
  std::thread other([&] {
    eventually([&] { return m.server.count(OP_WRITE) >= 3; });
    m.server.restart();
  });
  CHECK(ok(file->sync()));
  other.join();
  CHECK(ok(file->sync()));
  CHECK(ok(file->close()));
  const auto stable = m.server.stable_content("/a");
  CHECK(stable == std::string("data\0\0\0\0more", 12));
}

TEST_CASE("file: large unstable data, committed beside the writes, survives a restart in the middle") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a", OpenMode::write);
  std::string all;
  for (unsigned i = 0; i < 40; ++i) {
    const std::string piece = pattern(1U << 20, i);
    REQUIRE(*file->write(bytes(piece), all.size()) == piece.size());
    all += piece;
    if (i == 20) m.server.restart();
  }
  CHECK(ok(file->close()));
  CHECK((m.server.stable_content("/a") == all));
  CHECK(m.server.count(OP_COMMIT) >= 2);
}

TEST_CASE("file: stable writes need no COMMIT") {
  Mounted m;
  m.server.add_file("/a", "");
  m.server.set_stable_writes(true);
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  CHECK(ok(file->close()));
  CHECK(m.server.count(OP_COMMIT) == 0);
  CHECK(m.server.stable_content("/a") == "data");
}

TEST_CASE("S14 file: an error of a rewrite comes from sync(), and what is left is not forgotten") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("first"), 0)));
  CHECK(ok(file->write(bytes("second"), 10)));
  m.server.restart();
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(errno_of(file->sync()) == ENOSPC);
  CHECK(ok(file->sync()));  // now there is room
  CHECK(m.server.stable_content("/a") == std::string("first\0\0\0\0\0second", 16));
  CHECK(ok(file->close()));
}

TEST_CASE("file: an error of a rewrite comes from close()") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  m.server.restart();
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC, 100);
  CHECK(errno_of(file->close()) == ENOSPC);
  CHECK(m.server.open_states() == 0);  // closed all the same
}

TEST_CASE("file: an error of COMMIT comes from sync(), once") {
  Mounted m;
  m.server.add_file("/a", "");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->write(bytes("data"), 0)));
  m.server.answer(OP_COMMIT, NFS4ERR_IO);
  CHECK(errno_of(file->sync()) == EIO);
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == "data");
}

// ---- short answers, lost state ----

TEST_CASE("file: short READs and short WRITEs are continued") {
  Mounted m;
  m.server.add_file("/a", pattern(1000));
  (void)m.connect();
  auto file = m.open("/a");
  m.server.set_short_reads(130);
  m.server.set_short_writes(90);
  CHECK(Mounted::read_all(*file, 2000) == pattern(1000));
  CHECK(m.server.count(OP_READ) == 8);
  CHECK(*file->write(bytes(pattern(500, 3)), 100) == 500);
  CHECK(m.server.count(OP_WRITE) == 6);
  CHECK(m.server.content("/a")->substr(100, 500) == pattern(500, 3));
  CHECK(ok(file->sync()));
}

TEST_CASE("file: a server that gives nothing at all does not hang a read or write") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.set_short_reads(0);
  m.server.set_short_writes(0);
  std::string data(4, '?');
  CHECK(errno_of(file->read(room(data), 0)) == EIO);
  CHECK(errno_of(file->write(bytes("x"), 0)) == EIO);
  CHECK(*file->read(room(data), 4) == 0);  // the end of the file
}

TEST_CASE("file: a stateid that the server lost is recovered, for every operation") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.forget_stateids();
  CHECK(Mounted::read_all(*file) == "text");
  m.server.forget_stateids();
  CHECK(ok(file->write(bytes("TEXT!"), 0)));
  m.server.forget_stateids();
  SetAttributes changes;
  changes.size = 4;
  CHECK(ok(file->set_attributes(changes)));
  m.server.forget_stateids();
  CHECK(ok(file->next_extent(0)));
  m.server.forget_stateids();
  CHECK(ok(file->close()));
  CHECK(m.server.content("/a") == "TEXT");
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("file: a stateid that is lost again and again is an error in the end") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.answer(OP_READ, NFS4ERR_EXPIRED, 100);
  std::string data(4, '?');
  const Stopwatch watch;
  const auto result = file->read(room(data), 0);
  REQUIRE_FALSE(result);
  CHECK(result.error().status() == NFS4ERR_EXPIRED);
  CHECK(watch.elapsed() < 4s);
}

TEST_CASE("file: operations after close() fail and do no harm") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  CHECK(ok(file->close()));
  CHECK(ok(file->close()));
  CHECK(m.server.count(OP_CLOSE) == 1);
  std::string data(4, '?');
  CHECK_FALSE(file->read(room(data), 0));
  CHECK_FALSE(file->write(bytes("x"), 0));
  CHECK(m.server.content("/a") == "text");
  CHECK(m.server.open_states() == 0);
}

// ---- opening ----

TEST_CASE("file: create, exclusive create, truncate") {
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  CHECK(errno_of(client.open("/n", OpenMode::write)) == ENOENT);
  CHECK(errno_of(client.open("/a", OpenMode::write, creating(true))) == EEXIST);
  CHECK(ok(m.open("/n", OpenMode::write, creating(true))->close()));
  CHECK(errno_of(client.open("/n", OpenMode::write, creating(true))) == EEXIST);
  CHECK(ok(m.open("/a", OpenMode::write, creating())->close()));
  CHECK(m.server.content("/a") == "text");
  CHECK(ok(m.open("/a", OpenMode::write, creating(false, true))->close()));
  CHECK(m.server.content("/a") == "");
  m.server.add_file("/a", "again");
  OpenFlags truncate;
  truncate.truncate = true;
  CHECK(ok(m.open("/a", OpenMode::write, truncate)->close()));
  CHECK(m.server.content("/a") == "");
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("file: an exclusive create whose answer was lost succeeds, once") {
  Mounted m;
  (void)m.connect();
  m.server.drop_after(OP_OPEN);
  CHECK(ok(m.open("/n", OpenMode::write, creating(true))->close()));
  CHECK(m.server.succeeded(OP_OPEN) == 1);
  // The answer and the reply cache are lost: the verifier tells that the file is this client's.
  m.server.hold(OP_OPEN);
  std::thread other([&] {
    eventually([&] { return m.server.held() == 1; });
    m.server.restart();
    m.server.release();
  });
  CHECK(ok(m.open("/o", OpenMode::write, creating(true))->close()));
  other.join();
}

TEST_CASE("file: what a file was opened for is what it can do") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto reader = m.open("/a", OpenMode::read);
  auto writer = m.open("/a", OpenMode::write);
  std::string data(4, '?');
  CHECK(*reader->read(room(data), 0) == 4);
  CHECK_FALSE(reader->write(bytes("x"), 0));
  CHECK(ok(writer->write(bytes("x"), 0)));
  CHECK_FALSE(writer->read(room(data), 0));
  CHECK(errno_of(reader->write(bytes("x"), 0)) == EBADF);
  CHECK(m.server.open_states() == 1);  // of one owner
}

// ---- holes ----

TEST_CASE("file: holes and data by SEEK") {
  Mounted m;
  m.server.add_file("/a", std::string(1000, 'x'));
  m.server.add_extent("/a", 100, 200);
  m.server.add_extent("/a", 500, 600);
  m.server.add_file("/full", std::string(50, 'x'));
  m.server.add_file("/empty", "");
  (void)m.connect();
  auto file = m.open("/a");
  const std::vector<Extent> expected{
      {0, 100, true}, {100, 100, false}, {200, 300, true}, {500, 100, false}, {600, 400, true}};
  std::uint64_t at = 0;
  for (const Extent& want : expected) {
    const auto extent = file->next_extent(at);
    REQUIRE(ok(extent));
    REQUIRE(extent->has_value());
    CHECK((*extent)->offset == want.offset);
    CHECK((*extent)->length == want.length);
    CHECK((*extent)->hole == want.hole);
    at = want.offset + want.length;
  }
  CHECK_FALSE(file->next_extent(at)->has_value());
  CHECK_FALSE(file->next_extent(5000)->has_value());
  const auto middle = file->next_extent(150);
  CHECK((*middle)->offset == 150);
  CHECK((*middle)->length == 50);
  const auto full = m.open("/full")->next_extent(0);
  CHECK((*full)->length == 50);
  CHECK_FALSE((*full)->hole);
  CHECK_FALSE(m.open("/empty")->next_extent(0)->has_value());
}

TEST_CASE("file: where SEEK is not to be had the error says ENOTSUP") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect("vers=4.1");
  CHECK(errno_of(m.open("/a")->next_extent(0)) == ENOTSUP);
  (void)m.connect();
  m.server.answer(OP_SEEK, NFS4ERR_NOTSUPP);
  CHECK(errno_of(m.open("/a")->next_extent(0)) == ENOTSUP);
}

// ---- symbolic links ----

TEST_CASE("file: symbolic links in the middle and at the end") {
  Mounted m;
  m.server.add_file("/real/dir/file", "text");
  m.server.add_symlink("/abs", "/real/dir");
  m.server.add_symlink("/real/rel", "dir");
  m.server.add_symlink("/twice", "abs");
  m.server.add_symlink("/real/dir/up", "../../real/dir/file");
  m.server.add_symlink("/end", "real/rel/up");
  Client& client = m.connect();
  for (const char* path :
       {"/abs/file", "/real/rel/file", "/twice/file", "/real/dir/up", "/end", "/twice/up"}) {
    CAPTURE(path);
    CHECK(client.stat(path)->size == 4);
    CHECK(Mounted::read_all(*m.open(path)) == "text");
  }
  CHECK(client.stat("/end", false)->type == FileType::symlink);
  CHECK(client.stat("/twice/up", false)->type == FileType::symlink);
  CHECK(*client.read_link("/abs/up") == "../../real/dir/file");
  CHECK(ok(client.make_directory("/twice/new", 0755)));
  CHECK(client.stat("/real/dir/new")->type == FileType::directory);
  CHECK(ok(client.rename("/twice/new", "/abs/other")));
  CHECK(ok(client.remove_directory("/real/rel/other")));
  CHECK(ok(client.link("/abs/file", "/real/rel/second")));
  CHECK(client.stat("/real/dir/second")->links == 2);
  std::set<std::string> names;
  CHECK(ok(
      client.list("/twice", [&](const DirectoryEntry& entry) { return names.insert(entry.name).second; })));
  CHECK(names == std::set<std::string>{"file", "second", "up"});
  CHECK(ok(client.remove_file("/end")));
  CHECK(m.server.content("/real/dir/file") == "text");
  CHECK(errno_of(client.stat("/real/dir/file/x")) == ENOTDIR);
}

TEST_CASE("file: links that lead nowhere, or round in a circle") {
  Mounted m;
  m.server.add_symlink("/dangling", "nowhere");
  m.server.add_symlink("/a", "b");
  m.server.add_symlink("/b", "a");
  m.server.add_symlink("/self/x", "../self/x");
  Client& client = m.connect();
  CHECK(errno_of(client.stat("/dangling")) == ENOENT);
  CHECK(errno_of(client.open("/dangling", OpenMode::read)) == ENOENT);
  CHECK(errno_of(client.stat("/a")) == ELOOP);
  CHECK(errno_of(client.stat("/a/x")) == ELOOP);
  CHECK(errno_of(client.open("/b", OpenMode::read)) == ELOOP);
  CHECK(errno_of(client.stat("/self/x")) == ELOOP);
  CHECK(client.stat("/a", false)->type == FileType::symlink);
}

TEST_CASE("file: creating through a link that leads nowhere creates what it points to") {
  Mounted m;
  m.server.add_symlink("/dangling", "made");
  (void)m.connect();
  auto file = m.client->open("/dangling", OpenMode::write, creating());
  REQUIRE(ok(file));
  CHECK(ok((*file)->close()));
  CHECK(m.server.content("/made").has_value());
  CHECK(errno_of(m.client->open("/dangling", OpenMode::write, creating(true))) == EEXIST);
}

// ---- long paths, long directories ----

TEST_CASE("file: paths of 200 names") {
  Mounted m;
  m.server.add_file(deep_path(200, "file"), "text");
  Client& client = m.connect();
  CHECK(client.stat(deep_path(200, "file"))->size == 4);
  CHECK(Mounted::read_all(*m.open(deep_path(200, "file"))) == "text");
  CHECK(ok(client.make_directory(deep_path(200, "dir"), 0755)));
  CHECK(ok(client.remove_directory(deep_path(200, "dir"))));
  CHECK(errno_of(client.stat(deep_path(200, "no/such"))) == ENOENT);
}

TEST_CASE("file: renaming and linking between long paths") {
  Mounted m;
  m.server.add_file(deep_path(30, "file"), "text");
  m.server.add_directory(deep_path(200, "other"));
  Client& client = m.connect();
  CHECK(ok(client.rename(deep_path(30, "file"), deep_path(29, "moved"))));
  CHECK(ok(client.rename(deep_path(29, "moved"), deep_path(200, "moved"))));
  CHECK(ok(client.link(deep_path(200, "moved"), deep_path(100, "second"))));
  CHECK(client.stat(deep_path(100, "second"))->links == 2);
}

TEST_CASE("file: a symbolic link in the middle of a long path") {
  Mounted m;
  m.server.add_file(deep_path(120, "file"), "text");
  m.server.add_symlink(deep_path(60, "link"), "d60");
  Client& client = m.connect();
  std::string path = deep_path(60, "link");
  for (int i = 61; i < 120; ++i) path += "/d" + std::to_string(i);
  CHECK(ok(client.stat(path + "/file")));
  CHECK(ok(client.open(path + "/file", OpenMode::read)));
}

TEST_CASE("file: a directory of 5,000 entries") {
  Mounted m;
  Client& client = m.connect();
  constexpr int kCount = 5000;
  for (int i = 0; i < kCount; ++i)
    m.server.add_file("/dir/file with a name " + std::to_string(i),
                      std::string(static_cast<std::size_t>(i % 7), 'x'));
  m.server.clear_calls();
  std::set<std::string> names;
  bool good = true;
  std::uint64_t cookie = 0;
  CHECK(ok(client.list("/dir", [&](const DirectoryEntry& entry) {
    names.insert(entry.name);
    good = good && entry.attributes && entry.attributes->type == FileType::regular && entry.cookie > cookie;
    cookie = entry.cookie;
    return true;
  })));
  CHECK(good);
  CHECK(names.size() == kCount);
  CHECK(m.server.count(OP_READDIR) > 2);
  CHECK(m.server.count(OP_READDIR) < 30);
  int some = 0;
  CHECK(ok(client.list("/dir", [&](const DirectoryEntry&) { return ++some < 10; })));
  CHECK(some == 10);
  // Other calls from inside.
  int sizes = 0;
  CHECK(ok(client.list("/dir", [&](const DirectoryEntry& entry) {
    sizes += client.stat("/dir/" + entry.name) ? 1 : 0;
    return sizes < 5;
  })));
  CHECK(sizes == 5);
  m.server.add_directory("/empty");
  CHECK(ok(client.list("/empty", [&](const DirectoryEntry&) {
    FAIL_CHECK("nothing is there");
    return true;
  })));
}

}  // namespace nfsrdma
