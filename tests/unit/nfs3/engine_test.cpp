// The NFSv3 engine on the test server.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rpc/message.h"
#include "support/nfs_responder.h"
#include "support/v3_fixture.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;
using namespace nfs4;  // NOLINT: the test server's names of operations

constexpr Engine::Creation kMake{.mode = 0640, .exclusive = false, .truncate = false};
constexpr Engine::Creation kMakeNew{.mode = 0640, .exclusive = true, .truncate = false};
constexpr Engine::Creation kTruncate{.mode = 0640, .exclusive = false, .truncate = true};

SetAttributes size_of(std::uint64_t size) {
  SetAttributes out;
  out.size = size;
  return out;
}

}  // namespace

TEST_CASE("nfs3: names are looked up one by one, and attributes come along") {
  Scene3 s;
  s.server.add_file("/a/b/f", "text");
  const auto found = s.get(s.engine->find(s.who, Spot(std::nullopt, {"a", "b", "f"})));
  CHECK(s.asked() == "LOOKUP LOOKUP LOOKUP");
  CHECK(found.attributes->size == 4);
  CHECK(found.attributes->type == FileType::regular);
  CHECK(s.error(s.engine->find(s.who, Spot(std::nullopt, {"a", "x"}))) == ENOENT);
  CHECK(s.error(s.engine->find(s.who, Spot(std::nullopt, {"a", "b", "f", "g"}))) == ENOTDIR);
  const auto parent =
      s.get(s.engine->parent(s.who, s.get(s.engine->find(s.who, Spot(std::nullopt, {"a", "b"}))).handle));
  CHECK(parent.handle == s.get(s.engine->find(s.who, Spot(std::nullopt, {"a"}))).handle);
}

TEST_CASE("nfs3: everything that can be made, with its attributes and those of the directory") {
  Scene3 s;
  const auto directory = s.get(s.engine->make_directory(s.who, s.root, "d", 0711));
  CHECK(directory.object.attributes->type == FileType::directory);
  CHECK(directory.object.attributes->mode == 0711);
  REQUIRE(directory.directory);
  const auto link = s.get(s.engine->make_symlink(s.who, s.root, "l", "some/where"));
  CHECK(link.object.attributes->type == FileType::symlink);
  CHECK(s.get(s.engine->read_link(s.who, link.object.handle)) == "some/where");
  CHECK(s.error(s.engine->read_link(s.who, directory.object.handle)) == EINVAL);
  for (const FileType type : {FileType::fifo, FileType::socket, FileType::character, FileType::block}) {
    const std::string name = "n" + std::to_string(static_cast<int>(type));
    const auto node = s.get(s.engine->make_node(s.who, s.root, name, type, {5, 6}, 0600));
    CHECK(node.object.attributes->type == type);
    if (type == FileType::block || type == FileType::character)
      CHECK(node.object.attributes->device_minor == 6);
  }
  CHECK(s.error(s.engine->make_node(s.who, s.root, "x", FileType::regular, {}, 0600)) == EINVAL);
  CHECK(s.error(s.engine->make_directory(s.who, s.root, "d", 0711)) == EEXIST);
  CHECK(s.error(s.engine->make_directory(s.who, s.root, std::string(300, 'x'), 0711)) == ENAMETOOLONG);
  const auto made = s.open("f", kMake);
  const auto hard = s.get(s.engine->link(s.who, made.object.handle, directory.object.handle, "g"));
  CHECK(hard.object.attributes->links == 2);
  CHECK(s.get(s.engine->find(s.who, Spot(std::nullopt, {"d", "g"}))).handle == made.object.handle);
  CHECK(s.error(s.engine->link(s.who, made.object.handle, s.root, "l")) == EEXIST);
}

TEST_CASE("nfs3: removing and renaming") {
  Scene3 s;
  s.server.add_file("/a/f", "text");
  s.server.add_directory("/b");
  const auto a = s.get(s.engine->find(s.who, Spot(std::nullopt, {"a"}))).handle;
  CHECK(s.error(s.engine->remove(s.who, s.root, "a", Engine::Removed::directory)) == ENOTEMPTY);
  CHECK(s.error(s.engine->remove(s.who, s.root, "a", Engine::Removed::file)) == EISDIR);
  CHECK(s.error(s.engine->remove(s.who, a, "f", Engine::Removed::directory)) == ENOTDIR);
  const auto moved = s.get(s.engine->rename(s.who, a, "f", s.root, "g", std::nullopt));
  CHECK(moved.source);
  CHECK(moved.target);
  CHECK(s.server.content("/g") == "text");
  CHECK(s.error(s.engine->rename(s.who, a, "f", s.root, "g", std::nullopt)) == ENOENT);
  CHECK(s.get(s.engine->remove(s.who, s.root, "g", Engine::Removed::file)));
  CHECK(s.get(s.engine->remove(s.who, s.root, "a", Engine::Removed::directory)));
  CHECK(s.error(s.engine->remove(s.who, s.root, "a", Engine::Removed::directory)) == ENOENT);
}

TEST_CASE("nfs3: files are opened by ACCESS, and made without") {
  Scene3 s;
  auto made = s.open("f", kMake);
  CHECK(s.asked() == "OPEN");
  CHECK(made.object.attributes->mode == 0640);
  CHECK(ok(s.write(made, "hello")));
  CHECK(ok(s.run(s.engine->close(made.file))));
  s.server.clear_calls();
  auto again = s.open("f");
  CHECK(s.asked() == "LOOKUP ACCESS");
  CHECK(s.read(again, 100) == "hello");
  (void)s.asked();
  CHECK(s.open("f").object.attributes->size == 5);
  CHECK(s.asked() == "LOOKUP");  // nothing has changed since ACCESS
  CHECK(s.open("f", kMake).object.handle == made.object.handle);
  CHECK(s.open("f", kTruncate).object.attributes->size == 0);
  CHECK(s.server.content("/f") == "");
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::both, kMakeNew)) == EEXIST);
  CHECK(s.error(s.engine->open_at(s.who, s.root, "g", Access::both, std::nullopt)) == ENOENT);
  s.server.add_directory("/d");
  s.server.add_symlink("/l", "f");
  CHECK(s.error(s.engine->open_at(s.who, s.root, "d", Access::read, std::nullopt)) == EISDIR);
  CHECK(s.error(s.engine->open_at(s.who, s.root, "l", Access::read, std::nullopt)) == ELOOP);
  SetAttributes unreadable = mode(0200);
  (void)s.get(s.engine->set_attributes(s.who, made.object.handle, unreadable, nullptr));
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::read, std::nullopt)) == EACCES);
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::write, std::nullopt)) == 0);
  (void)s.get(s.engine->set_attributes(s.who, made.object.handle, mode(0100), nullptr));
  // Who may run it has to read it.
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::read, std::nullopt)) == 0);
}

TEST_CASE("nfs3: where nothing may be made, what is there is opened all the same") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.server.on_server([](Responder& responder) { responder.state.pseudo_root_is_read_only = true; });
  CHECK(s.open("f", kMake).object.attributes->size == 4);
  CHECK(s.error(s.engine->open_at(s.who, s.root, "g", Access::both, kMake)) == EROFS);
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::both, kMakeNew)) == EROFS);
}

TEST_CASE("F10 nfs3: a file is opened by handle only while its name leads to it") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.server.add_file("/g", "other");
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  const Place place{s.root, "f"};
  CHECK(s.error(s.engine->open(s.who, file, "f", Access::read, place)) == 0);
  (void)s.get(s.engine->rename(s.who, s.root, "g", s.root, "f", std::nullopt));
  CHECK(s.error(s.engine->open(s.who, file, "f", Access::read, place)) == ESTALE);
  (void)s.get(s.engine->remove(s.who, s.root, "f", Engine::Removed::file));
  const auto other = s.get(s.engine->make_directory(s.who, s.root, "d", 0700)).object.handle;
  CHECK(s.error(s.engine->open(s.who, other, "d", Access::read, place)) == ESTALE);
}

TEST_CASE("F10 nfs3: a file without a name is not opened, though the server still knows it") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  s.server.on_server([](Responder& responder) { responder.state.find("/f")->links = 0; });
  CHECK(s.error(s.engine->open(s.who, file, "f", Access::read, std::nullopt)) == ESTALE);
  s.server.on_server([](Responder& responder) { responder.state.find("/f")->links = 1; });
  CHECK(s.error(s.engine->open(s.who, file, "f", Access::read, std::nullopt)) == 0);
}

TEST_CASE("F10 nfs3: a file that was handed over is opened where its directory may not be looked into") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  engine::Place place{s.root, "f"};
  s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  s.server.clear_calls();
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == 0);
  CHECK(s.asked() == "LOOKUP ACCESS");
  s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_IO);
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == EIO);
  // What has just been looked up is not looked up again.
  s.server.clear_calls();
  place.fresh = true;
  CHECK(s.error(s.engine->open(s.who, file, "f", engine::Access::read, place)) == 0);
  CHECK(s.asked() == "ACCESS");
}

TEST_CASE(
    "F24 nfs3: an exclusive create is known again by its verifier, and mode and times are set behind it") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.verifier_in_times = true; });
  SUBCASE("answered at once") {}
  SUBCASE("sent again") {
    s.habits([](Habits& habits) { habits.recent_calls = 0; });
    s.server.drop_after(OP_OPEN);
  }
  SUBCASE("the answer that tells no handle") {
    s.habits([](Habits& habits) { habits.untold_percent = 100; });
  }
  SUBCASE("where the answer to the SETATTR is lost") {
    s.server.drop_after(OP_SETATTR);
  }
  SUBCASE("where the SETATTR is lost") {
    s.server.drop_before(OP_SETATTR);
  }
  SUBCASE("where the server puts the SETATTR off") {
    s.server.answer(OP_SETATTR, NFS4ERR_DELAY, 2);
  }
  SUBCASE("where the server restarts before it executes the SETATTR") {
    s.server.hold(OP_SETATTR, false);
    s.loop.at(s.loop.now() + 1s, [&s] { s.server.restart(); });
    s.loop.at(s.loop.now() + 2s, [&s] { s.server.release(); });
  }
  SUBCASE("where the server has none") {
    s.habits([](Habits& habits) { habits.creates_exclusively = false; });
  }
  s.server.add_file("/before", "");
  const auto made = s.open("f", kMakeNew);
  CHECK(made.object.attributes->mode == 0640);
  s.server.on_server([&](Responder& responder) {
    const std::int64_t begin = responder.state.find("/before")->modified.seconds;
    const Inode& file = *responder.state.find("/f");
    for (const std::int64_t seconds :
         {file.accessed.seconds, file.modified.seconds, made.object.attributes->accessed.seconds,
          made.object.attributes->modified.seconds})
      CHECK(std::abs(seconds - begin) < 60);
  });
  s.habits([](Habits& habits) { habits.untold_percent = 0; });
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::both, kMakeNew)) == EEXIST);
}

TEST_CASE("S14 nfs3: unstable data is written again after a restart") {
  Scene3 s;
  const auto file = s.open("f", kMake);
  CHECK(ok(s.write(file, "lost and found")));
  CHECK(s.server.stable_content("/f") == "");
  s.server.restart();
  CHECK(ok(s.run(file.file->commit(nullptr))));
  CHECK(s.server.stable_content("/f") == "lost and found");
  CHECK(s.engine->uncommitted_bytes() == 0);
  CHECK(ok(s.write(file, "more", 4)));
  s.server.restart();
  CHECK(ok(s.run(s.engine->close(file.file))));
  CHECK(s.server.stable_content("/f") == "lostmore found");
}

TEST_CASE("nfs3: data that a close could not make safe is not sent any more behind it") {
  Scene3 s;
  engine::Opened file = s.open("file", kMake);
  CHECK(ok(s.write(file, "abc")));
  s.habits([](Habits& h) { h.late_no_space = true; });
  s.server.on_server([](Responder& responder) { responder.state.space = 0; });
  s.server.clear_calls();
  SUBCASE("whoever closed it has heard of it") {
    CHECK(s.run(s.engine->close(file.file)).error().errno_value() == ENOSPC);
    CHECK(s.asked() == "COMMIT");
    file.file.reset();
    s.pass(5s);
    CHECK(s.asked() == "");
  }
  SUBCASE("of one that nobody closed it is") {
    file.file.reset();
    s.pass(5s);
    CHECK(s.asked() == "COMMIT");
  }
}

TEST_CASE("nfs3: what was cut is not written again") {
  Scene3 s;
  const auto file = s.open("f", kMake);
  CHECK(ok(s.write(file, "0123456789")));
  CHECK(s.get(s.engine->set_attributes(s.who, file.object.handle, size_of(4), file.file)).size == 4);
  s.server.restart();
  CHECK(ok(s.run(file.file->commit(nullptr))));
  CHECK(s.server.stable_content("/f") == "0123");
}

TEST_CASE("nfs3: sizes that the server tells are kept, and its largest file") {
  Scene3 s;
  s.server.on_server([](Responder& responder) {
    responder.state.largest_io = 4096;
    responder.state.largest_file = 20000;
  });
  REQUIRE(ok(s.run(s.engine->learn_limits(s.root))));
  s.server.clear_calls();
  const auto file = s.open("f", kMake);
  const std::string text(20000, 'x');
  CHECK(ok(s.write(file, text)));
  CHECK(s.server.count(OP_WRITE) == 5);
  CHECK(s.read(file, 30000) == text);
  CHECK(s.server.count(OP_READ) >= 5);
  // As write(2): what fits, then nothing.
  const std::string more(100, 'y');
  CHECK(s.get(file.file->write(std::as_bytes(std::span(more)), {}, 19950, Stability::unstable, nullptr)) ==
        50);
  CHECK(s.error(file.file->write(std::as_bytes(std::span(more)), {}, 20000, Stability::unstable, nullptr)) ==
        EFBIG);
  CHECK(s.error(s.engine->set_attributes(s.who, file.object.handle, size_of(20001), file.file)) == EFBIG);
}

TEST_CASE("nfs3: the limits of READ and of WRITE are two") {
  Scene3 s;
  s.habits([](Habits& habits) {
    habits.most_read = 16384;
    habits.most_written = 4096;
  });
  REQUIRE(ok(s.run(s.engine->learn_limits(s.root))));
  s.server.clear_calls();
  const auto file = s.open("f", kMake);
  const std::string text(16384, 'x');
  CHECK(ok(s.write(file, text)));
  CHECK(s.server.count(OP_WRITE) == 4);
  CHECK(s.read(file, text.size()) == text);
  CHECK(s.server.count(OP_READ) == 1);
}

TEST_CASE("nfs3: a server that gives neither data nor the end of the file ends a read with an error") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.open("f");
  s.server.set_short_reads(0);
  std::array<std::byte, 4> memory{};
  CHECK(s.error(file.file->read(memory, 0)) == EIO);
  // Where the file ends nothing is an answer.
  CHECK(s.get(file.file->read(memory, 4)) == 0);
}

TEST_CASE("nfs3: a READ that says another count than it brings bytes is refused") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const auto file = s.open("f");
  // Behind the RPC header, the status, and attributes that are there (RFC 1813 3.3.6).
  constexpr std::size_t kCountAt = rpc::kReplyHeaderSize + 4 + 4 + 84;
  for (const std::uint32_t told : {3U, 5U}) {
    CAPTURE(told);
    s.server.on_server([told](Responder& responder) {
      responder.on_reply = [told](const SeenCall& call, Octets& reply) {
        if (!call.has(nfs4::OP_READ)) return;
        CHECK(xdr::load_u32(&reply.at(kCountAt)) == 4);
        xdr::store_u32(&reply.at(kCountAt), told);
      };
    });
    std::array<std::byte, 8> memory{};
    const auto read = s.run(file.file->read(memory, 0));
    REQUIRE_FALSE(read);
    CHECK(read.error().kind() == ErrorKind::protocol);
    CHECK(read.error().errno_value() == EPROTO);
  }
}

TEST_CASE(
    "U1 nfs3: WRITE data and SYMLINK text by Read chunks, READ data and READLINK text by Write chunks") {
  Scene3 s;
  const auto file = s.open("f", kMake);
  const std::string text(20001, 'x');
  CHECK(ok(s.write(file, text)));
  REQUIRE(s.server.calls().back().read_positions.size() == 1);
  CHECK(s.server.calls().back().read_positions.front() != 0);
  CHECK(s.server.calls().back().write_chunks.empty());
  CHECK(s.read(file, 20001) == text);
  CHECK(s.server.calls().back().write_chunks == std::vector<std::uint64_t>{20001});
  CHECK(s.server.calls().back().read_positions.empty());
  CHECK(s.server.calls().back().reply_chunk == 0);
  const std::string target(4000, 'y');
  (void)s.get(s.engine->make_symlink(s.who, s.root, "l", target));
  CHECK(s.server.calls().back().read_positions.size() == 1);
  CHECK(s.server.calls().back().read_positions.front() != 0);
  CHECK(s.get(s.engine->read_link(s.who, Spot(std::nullopt, {"l"}))) == target);
  CHECK(s.server.calls().back().write_chunks == std::vector<std::uint64_t>{4096});
  // And nothing else: a listing that may be large comes in a Reply chunk.
  (void)s.get(s.engine->list(s.who, s.root, 0, {}));
  CHECK(s.server.calls().back().write_chunks.empty());
  CHECK(s.server.calls().back().reply_chunk != 0);
}

TEST_CASE("nfs3: a listing is no larger than its count, and goes on where it ended") {
  Scene3 s;
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert("file " + std::to_string(i));
  for (const std::string& name : names) s.server.add_file("/d/" + name, "x");
  const auto directory = s.get(s.engine->find(s.who, Spot(std::nullopt, {"d"}))).handle;
  SUBCASE("READDIRPLUS") {}
  SUBCASE("READDIR, and LOOKUP of what it does not tell") {
    s.habits([](Habits& habits) { habits.lists_with_attributes = false; });
  }
  SUBCASE("a server that has no attributes ready") {
    s.habits([](Habits& habits) { habits.untold_percent = 50; });
  }
  SUBCASE("a few at a time, with a verifier") {
    s.habits([](Habits& habits) {
      habits.entries_at_once = 7;
      habits.checks_cookie_verifier = true;
    });
  }
  SUBCASE("one at a time: the first pages have no names but its own") {
    s.habits([](Habits& habits) { habits.entries_at_once = 1; });
  }
  std::set<std::string> seen;
  std::uint64_t cookie = 0;
  ListVerifier verifier{};
  for (bool eof = false; !eof;) {
    const auto page = s.get(s.engine->list(s.who, directory, cookie, verifier));
    for (const Listed& entry : page.entries) {
      CHECK(seen.insert(entry.name).second);
      CHECK(entry.attributes.type == FileType::regular);
      cookie = entry.cookie;
    }
    verifier = page.verifier;
    eof = page.eof;
  }
  CHECK(seen == names);
}

TEST_CASE("nfs3: a name that is longer than the server takes is not asked for") {
  Scene3 s;
  const std::string longest(255, 'n'), longer(256, 'n');
  (void)s.get(s.engine->make_directory(s.who, s.root, longest, 0755));
  s.server.clear_calls();
  CHECK(s.error(s.engine->find(s.who, {s.root, {longer}})) == ENAMETOOLONG);
  CHECK(s.error(s.engine->make_directory(s.who, s.root, longer, 0755)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->make_symlink(s.who, s.root, longer, "x")) == ENAMETOOLONG);
  CHECK(s.error(s.engine->make_node(s.who, s.root, longer, FileType::fifo, {}, 0600)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->open_at(s.who, s.root, longer, Access::both, kMake)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->remove(s.who, s.root, longer, Engine::Removed::file)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->remove(s.who, s.root, longer, Engine::Removed::directory)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->rename(s.who, s.root, longest, s.root, longer, std::nullopt)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->rename(s.who, s.root, longer, s.root, longest, std::nullopt)) == ENAMETOOLONG);
  CHECK(s.error(s.engine->link(s.who, s.root, s.root, longer)) == ENAMETOOLONG);
  CHECK(s.server.calls().empty());
}

TEST_CASE("nfs3: a cookie that the server is strict about is tried without its verifier") {
  Scene3 s;
  for (int i = 0; i < 20; ++i) s.server.add_file("/f" + std::to_string(i), "");
  s.habits([](Habits& habits) { habits.entries_at_once = 5; });
  const auto first = s.get(s.engine->list(s.who, s.root, 0, {}));
  CHECK_FALSE(first.eof);
  ListVerifier old{};
  old[0] = std::byte{1};
  s.server.answer(OP_READDIR, NFS4ERR_BAD_COOKIE);
  s.server.clear_calls();
  const auto second = s.get(s.engine->list(s.who, s.root, first.entries.back().cookie, old));
  CHECK(s.asked() == "READDIR READDIR");
  CHECK(second.entries.size() == 5);
  CHECK(second.entries.front().name != first.entries.front().name);
}

TEST_CASE("S21 nfs3: a server that is busy is asked again, with pauses that grow") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.server.answer(OP_LOOKUP, NFS4ERR_DELAY, 4);
  const auto begun = s.loop.now();
  CHECK(s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).attributes->size == 4);
  CHECK(s.loop.now() - begun >= 20ms + 40ms + 80ms + 160ms);
  std::set<std::uint32_t> xids;
  for (const SeenCall& call : s.server.calls()) xids.insert(call.xid);
  CHECK(xids.size() == 5);  // a new call each time: the old one's answer is that it should wait
  s.server.answer(OP_LOOKUP, NFS4ERR_DELAY, 1000);
  CHECK(s.error(s.engine->find(s.who, Spot(std::nullopt, {"f"}))) == EAGAIN);
}

TEST_CASE(
    "S10 nfs3: what is sent again after a lost connection has been done once, whether the server knows or "
    "not") {
  for (const bool remembers : {true, false}) {
    CAPTURE(remembers);
    Scene3 s;
    s.habits([remembers](Habits& habits) { habits.recent_calls = remembers ? 100 : 0; });
    s.server.add_file("/f", "text");
    s.server.add_file("/old", "text");
    s.server.add_directory("/empty");
    const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
    (void)s.get(s.engine->list(s.who, s.root, 0, {}));  // it has seen the directory
    s.pass(10ms);
    s.server.drop_after(OP_CREATE);
    CHECK(s.error(s.engine->make_directory(s.who, s.root, "d", 0755)) == 0);
    s.server.drop_after(OP_CREATE);
    CHECK(s.error(s.engine->make_symlink(s.who, s.root, "l", "text")) == 0);
    s.server.drop_after(OP_CREATE);
    CHECK(s.error(s.engine->make_node(s.who, s.root, "p", FileType::fifo, {}, 0600)) == 0);
    s.server.drop_after(OP_OPEN);
    CHECK(s.error(s.engine->open_at(s.who, s.root, "new", Access::both, kMake)) == 0);
    s.server.drop_after(OP_LINK);
    CHECK(s.error(s.engine->link(s.who, file, s.root, "hard")) == 0);
    s.server.drop_after(OP_RENAME);
    CHECK(s.error(s.engine->rename(s.who, s.root, "old", s.root, "name", std::nullopt)) == 0);
    s.server.drop_after(OP_REMOVE);
    CHECK(s.error(s.engine->remove(s.who, s.root, "name", Engine::Removed::file)) == 0);
    s.server.drop_after(OP_REMOVE);
    CHECK(s.error(s.engine->remove(s.who, s.root, "empty", Engine::Removed::directory)) == 0);
    CHECK(s.server.count(OP_REMOVE) == (remembers ? 2 : 4));
  }
}

TEST_CASE("S10 nfs3: that a call may have been done is not forgotten where the server then asks to wait") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_file("/old", "text");
  (void)s.get(s.engine->list(s.who, s.root, 0, {}));
  s.pass(10ms);
  s.server.drop_after(OP_RENAME);
  s.server.answer(OP_RENAME, NFS4ERR_DELAY, 3, 1);  // as a server does that has just restarted
  CHECK(s.error(s.engine->rename(s.who, s.root, "old", s.root, "name", std::nullopt)) == 0);
  CHECK(s.server.content("/name") == "text");
}

TEST_CASE("S10 nfs3: nor where the time is over while it still asks to wait") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_file("/old", "text");
  s.server.drop_after(OP_RENAME);
  s.server.answer(OP_RENAME, NFS4ERR_DELAY, 1000, 1);
  const auto renamed = s.run(s.engine->rename(s.who, s.root, "old", s.root, "name", std::nullopt));
  REQUIRE_FALSE(renamed);
  CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
  CHECK(s.server.content("/name") == "text");
  // One that was never executed is simply not done.
  s.server.answer(OP_RENAME, NFS4ERR_DELAY, 1000);
  const auto refused = s.run(s.engine->rename(s.who, s.root, "name", s.root, "old", std::nullopt));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind() == ErrorKind::server);
}

TEST_CASE("S10 directories: a stamp that was first seen a moment ago proves nothing") {
  engine::DirectoryStamps<std::uint64_t> stamps;
  const engine::FileHandle directory = handle_of(1), other = handle_of(2);
  async::TimePoint now{};
  CHECK_FALSE(stamps.of(directory, now + 1h));
  stamps.seen(directory, 7, now += 1s);
  CHECK_FALSE(stamps.of(directory, now + 49ms));
  CHECK(stamps.of(directory, now + 50ms) == 7U);
  CHECK_FALSE(stamps.of(other, now + 50ms));
  stamps.seen(directory, 7, now += 40ms);  // the same: it is as old as it was
  stamps.seen(directory, 6, now);          // an older one, which was overtaken
  CHECK(stamps.of(directory, now + 10ms) == 7U);
  stamps.seen(directory, 8, now += 1s);
  CHECK_FALSE(stamps.of(directory, now));
  CHECK(stamps.of(directory, now + 50ms) == 8U);
  stamps.tick(1s);  // ext3's
  CHECK_FALSE(stamps.of(directory, now + 1999ms));
  CHECK(stamps.of(directory, now + 2s) == 8U);
}

TEST_CASE("S10 nfs3: a refusal that the first transmission would have got, too, is one") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_directory("/d");
  s.server.add_file("/f", "text");
  (void)s.get(s.engine->list(s.who, s.root, 0, {}));
  s.pass(100ms);  // behind the tick of the server's clock
  s.server.drop_after(OP_CREATE);
  CHECK(s.error(s.engine->make_directory(s.who, s.root, "d", 0755)) == EEXIST);
  s.server.drop_after(OP_REMOVE);
  CHECK(s.error(s.engine->remove(s.who, s.root, "none", Engine::Removed::file)) == ENOENT);
  s.server.drop_after(OP_RENAME);
  CHECK(s.error(s.engine->rename(s.who, s.root, "none", s.root, "f", std::nullopt)) == ENOENT);
  s.server.drop_after(OP_LINK);
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  CHECK(s.error(s.engine->link(s.who, file, s.root, "d")) == EEXIST);
}

TEST_CASE("S10 nfs3: a rename that is refused after its first sending may have been made, if no name tells") {
  for (const unsigned version : {3U, 2U}) {
    CAPTURE(version);
    Scene3 s(version);
    s.server.add_file("/old", "text");
    (void)s.get(s.engine->list(s.who, s.root, 0, {}));
    s.pass(100ms);
    s.server.hold(OP_RENAME);  // executed, and not answered
    auto renaming = s.engine->rename(s.who, s.root, "old", s.root, "new", std::nullopt);
    renaming.handle().resume();
    while (s.server.held() == 0) s.pass(5ms);
    REQUIRE(s.server.content("/new") == "text");
    CHECK(s.error(s.engine->remove(s.who, s.root, "new", Engine::Removed::file)) == 0);
    s.server.restart();  // and forgets what it has answered
    s.server.release();
    while (!renaming.done()) s.pass(5ms);
    const auto renamed = renaming.await_resume();
    REQUIRE_FALSE(renamed);
    CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
    CHECK(renamed.error().errno_value() == EIO);
    CHECK(renamed.error().peer() == "old -> new");
  }
}

TEST_CASE("S10 nfs3: a new name that leads to another object than the renamed one is no sign of the rename") {
  for (const unsigned version : {3U, 2U}) {
    CAPTURE(version);
    Scene3 s(version);
    s.habits([](Habits& habits) { habits.recent_calls = 0; });
    s.server.add_file("/mine", "mine");
    s.server.add_file("/new", "another");
    const auto mine = s.get(s.engine->find(s.who, Spot(std::nullopt, {"mine"}))).handle;
    s.pass(100ms);
    s.server.add_file("/other", "");  // the directory has changed since
    // The first sending is lost on its way, and the old name is not there, as after another call has renamed the object.
    s.server.drop_before(OP_RENAME);
    const auto late = s.run(s.engine->rename(s.who, s.root, "none", s.root, "new", mine));
    REQUIRE_FALSE(late);
    CHECK(late.error().kind() == ErrorKind::unknown_outcome);
    CHECK(s.server.content("/new") == "another");
    // The answer is lost, and the object has the new name.
    s.server.drop_after(OP_RENAME);
    CHECK(s.error(s.engine->rename(s.who, s.root, "mine", s.root, "new", mine)) == 0);
    CHECK(s.server.content("/new") == "mine");
  }
}

TEST_CASE("nfs3: a call that the server may have executed ends with an error that says so") {
  Scene3 s;
  s.server.hold(OP_CREATE);
  auto made = s.run(s.engine->make_directory(s.who, s.root, "d", 0755));
  REQUIRE_FALSE(made);
  CHECK(made.error().kind() == ErrorKind::unknown_outcome);
  s.server.hold(OP_LOOKUP);
  auto found = s.run(s.engine->find(s.who, Spot(std::nullopt, {"d"})));
  REQUIRE_FALSE(found);
  CHECK(found.error().kind() == ErrorKind::timeout);
  s.server.release();
}

TEST_CASE(
    "S10 nfs3: what is there behind a lost call is one's own only where it is as one would have made it") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.add_file("/f", "text");
  s.server.add_symlink("/l", "somewhere");
  s.server.add_directory("/d");
  s.server.on_server([](Responder& responder) { responder.state.find("/d")->mode = 0755; });
  // Nothing is known of the directory from before, and the call is lost on its way: somebody else has made these.
  SUBCASE("a directory where there is a file") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_directory(s.who, s.root, "f", 0644)) == EEXIST);
  }
  SUBCASE("a directory with other permissions") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_directory(s.who, s.root, "d", 0700)) == EEXIST);
  }
  SUBCASE("a symbolic link to somewhere else") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_symlink(s.who, s.root, "l", "elsewhere")) == EEXIST);
  }
  SUBCASE("a symbolic link to the same place") {
    s.server.drop_before(nfs4::OP_CREATE);
    CHECK(s.error(s.engine->make_symlink(s.who, s.root, "l", "somewhere")) == 0);
  }
  SUBCASE("a hard link to something else") {
    const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
    s.server.drop_before(nfs4::OP_LINK);
    CHECK(s.error(s.engine->link(s.who, file, s.root, "l")) == EEXIST);
  }
  SUBCASE("a new name, which is not there, and may have been removed since") {
    s.server.drop_before(nfs4::OP_RENAME);
    const auto renamed = s.run(s.engine->rename(s.who, s.root, "none", s.root, "new", std::nullopt));
    REQUIRE_FALSE(renamed);
    CHECK(renamed.error().kind() == ErrorKind::unknown_outcome);
  }
  CHECK(s.server.content("/f") == "text");
}

TEST_CASE("S10 nfs3: an outcome stays unknown if the name that would tell it cannot be looked at") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.recent_calls = 0; });
  s.server.drop_after(nfs4::OP_CREATE);
  s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  const auto made = s.run(s.engine->make_directory(s.who, s.root, "d", 0755));
  REQUIRE_FALSE(made);
  CHECK(made.error().kind() == ErrorKind::unknown_outcome);
}

TEST_CASE("nfs3: what comes without attributes is asked for where it is needed") {
  Scene3 s;
  s.server.add_file("/f", "text");
  s.habits([](Habits& habits) { habits.untold_percent = 100; });
  CHECK(s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).attributes->size == 4);
  CHECK(s.open("f").object.attributes->size == 4);
  CHECK(s.get(s.engine->access(s.who, Spot(std::nullopt, {"f"}), R_OK)).type == FileType::regular);
  const auto made = s.get(s.engine->make_directory(s.who, s.root, "d", 0755));
  CHECK(made.object.handle == s.get(s.engine->find(s.who, Spot(std::nullopt, {"d"}))).handle);
  CHECK(s.get(s.engine->set_attributes(s.who, made.object.handle, mode(0700), nullptr)).mode == 0700);
  CHECK(s.get(s.engine->space(s.who, Spot(std::nullopt, {"d"}))).type == FileType::directory);
}

// As Linux has it (nfs_access_calc_mask).
TEST_CASE("nfs3: W_OK wants MODIFY and EXTEND of a file, and DELETE as well of a directory") {
  Scene3 s;
  s.server.add_file("/f", "text");
  for (std::uint32_t granted = 0; granted < 0x40; ++granted) {
    CAPTURE(granted);
    s.habits([granted](Habits& habits) { habits.most_granted = granted; });
    constexpr std::uint32_t kFile = ACCESS3_MODIFY | ACCESS3_EXTEND, kDirectory = kFile | ACCESS3_DELETE;
    const auto of_file = s.get(s.engine->access(s.who, Spot(std::nullopt, {"f"}), W_OK)).granted;
    const auto of_directory = s.get(s.engine->access(s.who, Spot(), W_OK)).granted;
    CHECK((of_file == W_OK) == ((granted & kFile) == kFile));
    CHECK((of_directory == W_OK) == ((granted & kDirectory) == kDirectory));
  }
}

TEST_CASE("F11 nfs3: whoever has a file open may cut it as the one who opened it, and do no more as him") {
  Scene3 s;
  const auto opener = user(10, 10), other = user(11, 11);
  s.server.on_server([](Responder& responder) { responder.state.find("/")->mode = 0777; });
  constexpr engine::Engine::Creation kMade{.mode = 0666, .exclusive = false, .truncate = false};
  const auto file = s.get(s.engine->open_at(opener, s.root, "f", engine::Access::both, kMade));
  SetAttributes cut;
  cut.size = 0;
  (void)s.error(s.engine->set_attributes(other, file.object.handle, cut, file.file));
  CHECK(is_of(s.server.credential(), opener));
  (void)s.error(s.engine->set_attributes(other, file.object.handle, mode(0600), file.file));
  CHECK(is_of(s.server.credential(), other));
  (void)s.error(s.engine->set_attributes(other, file.object.handle, cut, nullptr));
  CHECK(is_of(s.server.credential(), other));
}

TEST_CASE("nfs3: access, space, times, and what NFSv3 has not") {
  Scene3 s;
  s.server.add_file("/f", "text");
  const Spot spot(std::nullopt, {"f"});
  CHECK(s.get(s.engine->access(s.who, spot, R_OK | W_OK | X_OK)).granted == (R_OK | W_OK));
  CHECK(s.get(s.engine->access(s.who, Spot(), R_OK | W_OK | X_OK)).granted == (R_OK | W_OK | X_OK));
  const auto space = s.get(s.engine->space(s.who, spot));
  CHECK(space.space.available == 500'000);
  CHECK(space.longest_name == 255);
  const auto file = s.open("f");
  SetAttributes times;
  times.accessed = Time{1234567890, 5};
  times.modified_now = true;
  const auto after = s.get(s.engine->set_attributes(s.who, file.object.handle, times, nullptr));
  CHECK(after.accessed == Time{1234567890, 5});
  CHECK(after.modified.seconds > 1'600'000'000);
  CHECK(ok(s.run(s.engine->ping())));
  CHECK(s.error(s.engine->get_xattr(s.who, file.object.handle, "a")) == EOPNOTSUPP);
  CHECK(s.error(s.engine->list_xattrs(s.who, file.object.handle)) == EOPNOTSUPP);
  CHECK(s.error(s.engine->copy(file.file, 0, file.file, 1, 1)) == EOPNOTSUPP);
  CHECK(s.error(file.file->seek(0, true)) == EOPNOTSUPP);
  CHECK_FALSE(s.engine->promises().delegated(file.object.handle));
}

TEST_CASE("nfs3: an object's change differs with its times and its size") {
  fattr3 wire;
  wire.ctime = {5, 6};
  const auto base = to_public(wire).change;
  wire.size = 1;
  CHECK(to_public(wire).change != base);
  wire.size = 0;
  wire.mtime = {0, 1};
  CHECK(to_public(wire).change != base);
  wire.mtime = {};
  wire.ctime = {5, 7};
  CHECK(to_public(wire).change != base);
}

TEST_CASE("nfs3: of bulk the first of several connections takes one call at a time") {
  Scene3 s;
  constexpr std::size_t kSize = 128U << 10;
  s.server.add_file("/f", std::string(kSize, 'x'));
  rpc::Channel second(s.loop, EngineClient::channel_options(s.server, s.place.host()), {});
  calling::ProcedureCalls calls({&s.channel, &second}, Scene3::options());
  nfs3::Nfs3Engine engine(calls, s.roots, nullptr, 3);
  REQUIRE(ok(s.run(engine.learn_limits(s.root))));
  const auto file = s.get(engine.open_at(s.who, s.root, "f", engine::Access::read, {}));
  std::vector<std::vector<std::byte>> rooms(4, std::vector<std::byte>(kSize));
  // Twice, so that each connection has its credits.
  for (const bool held : {false, true}) {
    s.server.clear_calls();
    if (held) s.server.hold(OP_READ);
    std::deque<async::Task<Result<std::size_t>>> reads;
    for (auto& room : rooms) {
      reads.push_back(file.file->read(room, 0));
      reads.back().handle().resume();
    }
    s.loop.end_turn();
    if (held) {
      for (int turns = 0; s.server.held() < rooms.size() && turns < 1000; ++turns)
        s.loop.turn(s.loop.now() + 5ms);
      CHECK(s.server.held() == rooms.size());
      std::map<unsigned, unsigned> of;
      for (const SeenCall& call : s.server.calls()) of[call.connection] += call.has(OP_READ) ? 1 : 0;
      CHECK(of == std::map<unsigned, unsigned>{{1, 1}, {2, 3}});
      s.server.release();
    }
    for (auto& read : reads) {
      while (!read.done()) s.loop.turn(s.loop.now() + 5ms);
      CHECK(*read.await_resume() == kSize);
    }
  }
  second.shut_down();
}

}  // namespace nfsrdma::nfs3
