// Many small files at once: read_many, write_many and stat_many on the test server, over each version. What they
// give, how many requests they take, and what happens where a file is not as the others.
#include <algorithm>
#include <cerrno>

#include "nfs4/files/small_files.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/v3_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// Files to read, with room for `size` bytes each.
struct Wanted {
  std::vector<std::string> room;
  std::vector<ReadItem> items;
  Wanted(const std::vector<std::string>& paths, std::size_t size)
      : room(paths.size(), std::string(size, '?')) {
    for (std::size_t i = 0; i < paths.size(); ++i) items.push_back({paths[i], testing::room(room[i])});
  }
  std::string got(const std::vector<Result<FileRead>>& results, std::size_t i) {
    return results[i] ? room[i].substr(0, results[i]->count) : "";
  }
};

std::vector<std::string> names(const std::string& directory, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(directory + "/f" + std::to_string(i));
  return out;
}

unsigned calls_with(const NfsServer& server, nfs_opnum4 op) {
  const auto calls = server.calls();
  return static_cast<unsigned>(
      std::ranges::count_if(calls, [&](const SeenCall& one) { return one.has(op); }));
}

void add_files(NfsServer& server, const std::vector<std::string>& paths, std::size_t size) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    server.add_file(paths[i], pattern(size, static_cast<unsigned>(i)));
}

}  // namespace

TEST_CASE("many: a dozen files and more are read by one COMPOUND, without being opened") {
  Mounted m;
  const auto paths = names("/a/b", 100);
  add_files(m.server, paths, 3000);
  Client& client = m.connect();
  m.server.clear_calls();
  Wanted wanted(paths, 4096);
  const auto results = client.read_many(wanted.items);
  REQUIRE(results.size() == 100);
  for (std::size_t i = 0; i < results.size(); ++i) {
    REQUIRE(ok(results[i]));
    CHECK(results[i]->eof);
    REQUIRE(results[i]->attributes);
    CHECK(results[i]->attributes->size == 3000);
    CHECK(results[i]->attributes->type == FileType::regular);
    CHECK((wanted.got(results, i) == pattern(3000, static_cast<unsigned>(i))));
  }
  CHECK(calls_with(m.server, OP_READ) <= 9);  // fifty operations in each
  CHECK(calls_with(m.server, OP_OPEN) == 0);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("many: each file has a result of its own") {
  Mounted m;
  const auto text = [](std::size_t size) { return pattern(size, static_cast<unsigned>(size)); };
  for (const std::size_t size : {0U, 1U, 3U, 4U, 999U, 1000U, 1001U, 5000U})
    m.server.add_file("/d/" + std::to_string(size), text(size));
  m.server.add_directory("/d/sub");
  m.server.add_symlink("/d/link", "1000");
  m.server.add_symlink("/d/dangling", "nothing");
  m.server.add_symlink("/other", "d");
  for (const char* version : {"vers=4.2", "vers=4.1", "vers=4.0"}) {
    CAPTURE(version);
    Client& client = m.connect(version);
    Wanted wanted(
        {"/d/0", "/d/1", "/d/missing", "/d/3", "/d/4", "/d/999", "/d/sub", "/d/1000", "/d/1001", "/d/link",
         "/d/5000", "/d/dangling", "/other/1000", "/", "/d/..", "/d/x/../4", "/nowhere/f", "/d/4/f"},
        1000);
    for (int round = 0; round < 2; ++round) {
      for (std::string& one : wanted.room) std::ranges::fill(one, '?');
      const auto results = client.read_many(wanted.items);
      const auto expect = [&](std::size_t i, std::size_t size) {
        CAPTURE(i);
        REQUIRE(ok(results[i]));
        CHECK((wanted.got(results, i) == text(size).substr(0, 1000)));
        CHECK(results[i]->eof == (size <= 1000));
        if (results[i]->attributes) CHECK(results[i]->attributes->size == size);
      };
      expect(0, 0);
      expect(1, 1);
      CHECK(errno_of(results[2]) == ENOENT);
      CHECK(results[2].error().peer() == "/d/missing");
      expect(3, 3);
      expect(4, 4);
      expect(5, 999);
      CHECK(errno_of(results[6]) == EISDIR);
      expect(7, 1000);
      expect(8, 1001);
      expect(9, 1000);
      expect(10, 5000);
      CHECK(errno_of(results[11]) == ENOENT);
      expect(12, 1000);
      CHECK(errno_of(results[13]) == EISDIR);
      CHECK(errno_of(results[14]) == EISDIR);
      expect(15, 4);
      CHECK(errno_of(results[16]) == ENOENT);
      CHECK(errno_of(results[17]) == ENOTDIR);
    }
    m.client.reset();
  }
}

TEST_CASE("many: NFSv3 and v2, where each file is opened by itself") {
  for (const unsigned version : {3U, 2U}) {
    CAPTURE(version);
    Scene3 m(version);
    m.server.add_file("/d/a", pattern(1000));
    m.server.add_file("/d/empty", "");
    const engine::Spot directory(m.get(m.engine->find(m.who, engine::Spot(m.root, {"d"}))).handle);
    std::vector<std::string> rooms(4, std::string(1000, '?'));
    std::vector<engine::ManyRead> reads;
    for (const char* name : {"a", "empty", "none", "a"})
      reads.push_back({{&directory, name}, room(rooms[reads.size()])});
    m.run(m.engine->read_many(m.who, {&reads[0], &reads[1], &reads[2], &reads[3]}));
    CHECK((*reads[0].result)->eof);
    CHECK((rooms[0] == pattern(1000)));
    CHECK((*reads[1].result)->count == 0);
    CHECK(errno_of(*reads[2].result) == ENOENT);
    CHECK((rooms[3] == pattern(1000)));
    const std::string text = pattern(3000, 5);
    std::vector<engine::ManyWritten> writes;
    for (const char* name : {"a", "new", "zero"})
      writes.push_back({{&directory, name}, bytes(text).first(writes.size() == 2 ? 0 : 3000), 0640});
    m.run(m.engine->write_many(m.who, {&writes[0], &writes[1], &writes[2]}));
    for (const auto& one : writes) CHECK(ok(*one.result));
    CHECK((m.server.stable_content("/d/a") == text));
    CHECK((m.server.stable_content("/d/new") == text));
    CHECK((m.server.stable_content("/d/zero") == ""));
    std::vector<engine::ManyTold> told;
    for (const char* name : {"a", "none"}) told.push_back({{&directory, name}});
    m.run(m.engine->stat_many(m.who, {&told[0], &told[1]}));
    CHECK((*told[0].result)->size == 3000);
    CHECK(errno_of(*told[1].result) == ENOENT);
  }
}

TEST_CASE("many: no items, no room, room for more than a READ brings") {
  Mounted m;
  m.server.add_file("/a", pattern(10'000));
  m.server.add_file("/empty", "");
  Client& client = m.connect("rsize=4096");
  CHECK(client.read_many({}).empty());
  CHECK(client.write_many({}).empty());
  CHECK(client.stat_many({}).empty());
  Wanted none({"/a", "/empty"}, 0);
  const auto nothing = client.read_many(none.items);
  REQUIRE(ok(nothing[0]));
  CHECK_FALSE(nothing[0]->eof);
  REQUIRE(ok(nothing[1]));
  CHECK(nothing[1]->eof);
  Wanted wanted({"/a", "/empty", "/a"}, 20'000);
  const auto results = client.read_many(wanted.items);
  CHECK((wanted.got(results, 0) == pattern(10'000)));
  CHECK(results[1]->count == 0);
  CHECK((wanted.got(results, 2) == pattern(10'000)));
}

TEST_CASE("many: sessions with little room") {
  Mounted m;
  const auto paths = names("/a", 40);
  add_files(m.server, paths, 1500);
  m.server.set_slots(1);
  for (const auto& [request, response, operations] :
       {std::array{4096U, 4096U, 8U}, std::array{4096U, 65536U, 64U}, std::array{65536U, 4096U, 9U}}) {
    m.server.set_limits(request, response, operations);
    Client& client = m.connect("rsize=4096,wsize=4096");
    Wanted wanted(paths, 2000);
    const auto results = client.read_many(wanted.items);
    for (std::size_t i = 0; i < results.size(); ++i) {
      REQUIRE(ok(results[i]));
      CHECK((wanted.got(results, i) == pattern(1500, static_cast<unsigned>(i))));
    }
    std::vector<WriteItem> writes;
    std::vector<std::string> data;
    for (std::size_t i = 0; i < 30; ++i) data.push_back(pattern(1000 + i * 7, static_cast<unsigned>(i + 5)));
    for (std::size_t i = 0; i < 30; ++i) writes.push_back({"/w" + std::to_string(i), bytes(data[i]), 0644});
    for (const auto& one : client.write_many(writes)) CHECK(ok(one));
    for (std::size_t i = 0; i < 30; ++i) CHECK((m.server.stable_content(writes[i].path) == data[i]));
    m.client.reset();
  }
}

TEST_CASE("many: thresholds of 1024 bytes") {
  Mounted m;
  const auto paths = names("/a", 40);
  add_files(m.server, paths, 1500);
  m.server.set_announce(false);
  Client& client = m.connect();
  Wanted wanted(paths, 2000);
  const auto results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK((wanted.got(results, i) == pattern(1500, static_cast<unsigned>(i))));
}

TEST_CASE("many: files are made and replaced, and are on the disk, over each version") {
  Mounted m;
  m.server.add_file("/d/old", pattern(5000, 9));
  m.server.add_symlink("/d/link", "old");
  m.server.add_directory("/d/sub");
  for (const char* version : {"vers=4.2", "vers=4.0"}) {
    CAPTURE(version);
    Client& client = m.connect(version);
    m.server.clear_calls();
    std::vector<std::string> data;
    for (std::size_t i = 0; i < 20; ++i) data.push_back(pattern(i * 300, static_cast<unsigned>(i)));
    std::vector<WriteItem> items;
    for (std::size_t i = 0; i < 20; ++i) {
      const std::string path = i == 3 ? "/d/old" : i == 5 ? "/d/link2" : "/d/n" + std::to_string(i);
      items.push_back({path, bytes(data[i]), 0640});
    }
    items.push_back({"/d/sub", bytes(data[2]), 0644});
    items.push_back({"/none/x", bytes(data[2]), 0644});
    m.server.add_symlink("/d/link2", "target");
    const auto results = client.write_many(items);
    for (std::size_t i = 0; i < 20; ++i) {
      CAPTURE(i);
      REQUIRE(ok(results[i]));
      if (results[i].value().attributes) CHECK(results[i].value().attributes->size == data[i].size());
      CHECK((m.server.stable_content(i == 5 ? "/d/target" : items[i].path) == data[i]));
    }
    CHECK(client.stat("/d/n7")->mode == 0640U);
    CHECK(errno_of(results[20]) == EISDIR);
    CHECK(errno_of(results[21]) == ENOENT);
    if (version == std::string("vers=4.2")) CHECK(calls_with(m.server, OP_OPEN) <= 21);
    CHECK(m.server.open_states() == 0);
    m.client.reset();
  }
}

TEST_CASE("S14 many: what a server leaves unstable, though it was to be FILE_SYNC, is committed") {
  Mounted m;
  m.server.add_file("/d/old", "something longer");
  m.server.on_server([](Responder& responder) { responder.state.habits.ignores_stability = true; });
  for (const char* version : {"vers=4.2", "vers=4.0"}) {
    CAPTURE(version);
    Client& client = m.connect(version);
    const std::string text = std::string("data of ") + version;
    const std::vector<WriteItem> items{{"/d/old", bytes(text), 0644}, {"/d/new", bytes(text), 0644}};
    for (const auto& one : client.write_many(items)) CHECK(ok(one));
    CHECK(m.server.stable_content("/d/old") == text);
    CHECK(m.server.stable_content("/d/new") == text);
    m.client.reset();
  }
}

TEST_CASE("many: attributes, and where links lead") {
  Mounted m;
  const auto paths = names("/a", 50);
  add_files(m.server, paths, 77);
  m.server.add_symlink("/a/link", "f3");
  for (const char* version : {"vers=4.2", "vers=4.0"}) {
    CAPTURE(version);
    Client& client = m.connect(version);
    m.server.clear_calls();
    std::vector<std::string> asked = paths;
    asked.insert(asked.end(), {"/a/link", "/a/none", "/a", "/"});
    const auto followed = client.stat_many(asked);
    for (std::size_t i = 0; i < 51; ++i) {
      REQUIRE(ok(followed[i]));
      CHECK(followed[i]->size == 77);
      CHECK(followed[i]->uid);
    }
    CHECK(errno_of(followed[51]) == ENOENT);
    CHECK(followed[52]->type == FileType::directory);
    CHECK(followed[53]->type == FileType::directory);
    if (version == std::string("vers=4.2")) CHECK(m.server.calls().size() <= 14);
    CHECK(client.stat_many(asked, false)[50]->type == FileType::symlink);
    m.client.reset();
  }
}

TEST_CASE("many: a file that fails, or is locked, holds up no other") {
  Mounted m;
  const auto paths = names("/a", 12);
  add_files(m.server, paths, 100);
  Client& client = m.connect();
  Wanted wanted(paths, 200);
  m.server.answer(OP_READ, NFS4ERR_LOCKED, 1, 4);  // an ordinary open then
  auto results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK((wanted.got(results, i) == pattern(100, static_cast<unsigned>(i))));
  CHECK(m.server.succeeded(OP_OPEN) == 1);
  m.server.answer(OP_LOOKUP, NFS4ERR_ACCESS, 1, 5);
  results = client.read_many(wanted.items);
  CHECK(std::ranges::count_if(results, [](const auto& one) { return errno_of(one) == EACCES; }) == 1);
  CHECK(std::ranges::count_if(results, [](const auto& one) { return one.has_value(); }) == 11);
  m.server.answer(OP_READ, NFS4ERR_DELAY, 2, 3);
  results = client.read_many(wanted.items);
  CHECK(std::ranges::all_of(results, [](const auto& one) { return one.has_value(); }));
  m.server.answer(OP_GETATTR, NFS4ERR_IO, 1, 6);
  results = client.read_many(wanted.items);
  CHECK(std::ranges::all_of(results, [](const auto& one) { return one.has_value(); }));
  m.server.set_short_reads(60);
  results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK((wanted.got(results, i) == pattern(100, static_cast<unsigned>(i))));
}

TEST_CASE("many: a status in the middle of a Reply that does not end it is no refusal") {
  Mounted m;
  const auto paths = names("/a", 12);
  add_files(m.server, paths, 100);
  Client& client = m.connect();
  Wanted wanted(paths, 200);
  m.server.on_server([](Responder& responder) { responder.state.habits.garbled_lookup = 6; });
  const auto results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i) {
    REQUIRE(ok(results[i]));
    CHECK((wanted.got(results, i) == pattern(100, static_cast<unsigned>(i))));
  }
  m.server.on_server([](Responder& responder) { responder.state.habits.garbled_lookup = 6; });
  for (const auto& one : client.stat_many(paths)) CHECK(ok(one));
}

TEST_CASE("many: what fails in the middle of writing is closed, and done by itself") {
  Mounted m;
  std::vector<std::string> data;
  std::vector<WriteItem> items;
  for (std::size_t i = 0; i < 15; ++i) data.push_back(pattern(2000 + i, static_cast<unsigned>(i)));
  for (std::size_t i = 0; i < 15; ++i) items.push_back({"/w" + std::to_string(i), bytes(data[i]), 0644});
  Client& client = m.connect();
  const auto expect_all = [&](const char* what) {
    CAPTURE(what);
    for (const auto& one : client.write_many(items)) CHECK(ok(one));
    for (std::size_t i = 0; i < 15; ++i) CHECK((m.server.stable_content(items[i].path) == data[i]));
    CHECK(eventually([&] { return m.server.open_states() == 0; }));
  };
  expect_all("plain");
  for (const nfs_opnum4 op : {OP_OPEN, OP_GETFH, OP_WRITE, OP_CLOSE, OP_GETATTR, OP_RESTOREFH}) {
    // A CLOSE that is refused leaves what was opened to be closed again; a GETFH, to the end of the client.
    if (op == OP_GETFH) continue;
    m.server.answer(op, NFS4ERR_DELAY, 1, 3);
    expect_all("DELAY");
    m.server.answer(op, NFS4ERR_IO, 1, 2);
    expect_all("IO");
  }
  m.server.set_short_writes(700);
  expect_all("short");
  m.server.set_short_writes(1U << 30);
  m.server.drop_after(OP_OPEN);
  expect_all("lost answer");
  m.server.drop_before(OP_OPEN);
  expect_all("lost request");
  m.server.drop_after(OP_OPEN);
  m.server.forget_sessions();
  expect_all("lost session");
}

TEST_CASE("many: a server that cannot do several chunks is given none") {
  Mounted m;
  const auto paths = names("/a", 30);
  add_files(m.server, paths, 2500);
  m.server.add_file("/a/f5", "");  // Linux: what follows is in the wrong place
  SUBCASE("places what follows an empty result in the wrong chunk") {
    m.server.on_server([](Responder& responder) { responder.state.habits.skips_empty_results = true; });
  }
  SUBCASE("refuses the chunks") {
    m.server.err_chunk(OP_READ);
  }
  SUBCASE("does not understand") {
    m.server.garbage_args(OP_READ);
  }
  Client& client = m.connect();
  Wanted wanted(paths, 2500);
  for (int round = 0; round < 2; ++round) {
    m.server.clear_calls();
    for (std::string& one : wanted.room) std::ranges::fill(one, '?');
    const auto results = client.read_many(wanted.items);
    for (std::size_t i = 0; i < results.size(); ++i) {
      CAPTURE(i);
      REQUIRE(ok(results[i]));
      CHECK((wanted.got(results, i) == (i == 5 ? "" : pattern(2500, static_cast<unsigned>(i)))));
    }
    CHECK(calls_with(m.server, OP_OPEN) == 0);
  }
  for (const SeenCall& call : m.server.calls()) CHECK(call.write_chunks.empty());  // it is remembered
}

TEST_CASE("many: what is written has never more than one Read chunk, and several files inline only") {
  Mounted m;
  std::vector<std::string> data;
  std::vector<WriteItem> items;
  for (std::size_t i = 0; i < 15; ++i)
    data.push_back(pattern(i % 2 == 0 ? 3001 + i : 100, static_cast<unsigned>(i)));
  for (std::size_t i = 0; i < 15; ++i) items.push_back({"/w" + std::to_string(i), bytes(data[i]), 0644});
  SUBCASE("refuses the chunks") {
    m.server.err_chunk(OP_WRITE);
  }
  SUBCASE("does not understand") {
    m.server.garbage_args(OP_WRITE);
  }
  SUBCASE("takes it") {}
  Client& client = m.connect();
  for (const auto& one : client.write_many(items)) CHECK(ok(one));
  for (std::size_t i = 0; i < 15; ++i) CHECK((m.server.stable_content(items[i].path) == data[i]));
  for (const SeenCall& call : m.server.calls()) {
    if (!call.has(OP_WRITE) || call.read_positions.empty()) continue;
    CHECK(call.read_positions.front() != 0);
    for (const std::uint32_t one : call.read_positions) CHECK(one == call.read_positions.front());
    CHECK(std::ranges::count(call.ops, OP_WRITE) == 1);
  }
}

TEST_CASE(
    "U10 U11 many: several Write chunks, each for its READ, and those of empty and failed READs unused") {
  Mounted m;
  const auto paths = names("/a", 12);
  for (std::size_t i = 0; i < paths.size(); ++i)
    m.server.add_file(paths[i], pattern(i % 3 == 1 ? 0 : 600 * i, static_cast<unsigned>(i)));
  Client& client = m.connect();
  m.server.clear_calls();
  Wanted wanted(paths, 7000);
  auto results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i) {
    REQUIRE(ok(results[i]));
    CHECK((wanted.got(results, i) == pattern(i % 3 == 1 ? 0 : 600 * i, static_cast<unsigned>(i))));
  }
  const auto calls = m.server.calls();
  const auto several = std::ranges::find_if(calls, [](const SeenCall& one) { return one.has(OP_READ); });
  REQUIRE(several != calls.end());
  CHECK(several->write_chunks.size() >= 10);
  CHECK(std::ranges::all_of(several->write_chunks, [](std::uint32_t one) { return one == 7000; }));
  m.server.answer(OP_READ, NFS4ERR_IO, 1, 6);
  results = client.read_many(wanted.items);
  for (std::size_t i = 0; i < results.size(); ++i) CHECK(ok(results[i]));
}

TEST_CASE("many: an interrupted call tells what was done, and leaves no memory with the server") {
  Mounted m;
  const auto paths = names("/a", 40);
  add_files(m.server, paths, 1000);
  const Interrupt interrupt;
  Client& client = m.connect("", interrupt.fd());
  m.server.hold(OP_READ);
  std::thread later([&] {
    CHECK(eventually([&] { return m.server.held() != 0; }));
    interrupt.set();
  });
  std::vector<Result<FileRead>> results;
  {
    Wanted wanted(paths, 1000);
    results = client.read_many(wanted.items);
  }
  later.join();
  for (const auto& one : results) CHECK(one.error().kind() == ErrorKind::cancelled);
  interrupt.clear();
  m.server.release();
  CHECK(ok(client.stat("/a")));
}

TEST_CASE("many: paths that begin in an open directory") {
  Mounted m;
  const auto paths = names("/a/b", 5);
  add_files(m.server, paths, 50);
  m.server.add_file("/a/up", "above");
  Client& client = m.connect();
  auto directory = client.open_directory("/a/b");
  REQUIRE(ok(directory));
  m.server.clear_calls();
  Wanted wanted({"f0", "f1", "./f2", "f3", "f4"}, 100);
  auto results = (*directory)->read_many(wanted.items);
  for (std::size_t i = 0; i < 5; ++i)
    CHECK((wanted.got(results, i) == pattern(50, static_cast<unsigned>(i))));
  CHECK(m.server.calls().size() == 1);
  Wanted others({"../up", "/a/b/f1", ".."}, 100);
  results = (*directory)->read_many(others.items);
  CHECK(others.got(results, 0) == "above");
  CHECK((others.got(results, 1) == pattern(50, 1)));
  CHECK(errno_of(results[2]) == EISDIR);
}

}  // namespace nfsrdma
