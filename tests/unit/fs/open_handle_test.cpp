// What is read ahead of one who reads an open file in sequence: when, how much, and that nothing stale is given out.
#include "fs/open_handle.h"

#include <doctest/doctest.h>

#include <cstring>

#include "support/file_parts.h"

namespace nfsrdma::fs::plain {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 4096;
constexpr std::size_t kPieces = 64;

CacheOptions in_pieces(std::size_t most_ahead) {
  CacheOptions out;
  out.rsize = kPiece;
  out.most_ahead = most_ahead * kPiece;
  return out;
}

struct Reading : FileParts {
  explicit Reading(std::size_t most_ahead = 16) : FileParts(in_pieces(most_ahead)) { fill(file, 'o'); }
  ~Reading() { loop.drop_tasks(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// What the server has of it, whoever wrote that.
  void fill(const File& of, char with) {
    PlainEngine::Node& there = node(of->shared_inode());
    there.content.assign(kPieces * kPiece, with);
    ++there.change;
    if (of->inode().attributes.newest() != nullptr) return;  // nobody says so
    Attributes said;
    said.size = there.content.size();
    said.change = there.change;
    freshness.learn(of->inode(), said, freshness.count());
  }
  std::string read(const File& from, std::uint64_t offset, std::size_t size = kPiece) {
    auto got = loop.run(from->read(offset, size, loop.now() - 60s));
    REQUIRE(got);
    std::string out;
    for (const iovec& piece : got->pieces)
      out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    turn();
    return out;
  }
  void read_on(const File& from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(read(from, at, kPiece) == std::string(kPiece, 'o'));
      at += kPiece;
    }
  }

  File file = open("a");
  std::uint64_t at = 0;
};

}  // namespace

TEST_CASE(
    "F13 open handle: nothing is read ahead before reads follow each other, nor for those that do not") {
  Reading m;
  for (std::uint64_t i = 0; i < 20; ++i) (void)m.read(m.file, (i * 37) % kPieces * kPiece);
  CHECK(m.counters.ahead_reads == 0);
  CHECK(m.window.readers() == 0);
  m.read_on(m.file, 2);
  CHECK(m.counters.ahead_reads == 0);
  m.read_on(m.file, 1);
  CHECK(m.counters.ahead_reads == 1);
  CHECK(m.window.readers() == 1);
  CHECK(m.window.held() == kPiece);
  m.read_on(m.file, 5);
  CHECK(m.counters.ahead_hits == 5);
  (void)m.read(m.file, 50 * kPiece);
  CHECK(m.window.readers() == 0);
  CHECK(m.window.held() == 0);
}

TEST_CASE("F13 open handle: what is asked for counts for what is ahead") {
  Reading m;
  // Two requests are what may be under way before anything is known.
  for (std::uint64_t i = 0; i < 6; ++i) (void)m.read(m.file, i * 2 * kPiece, 2 * kPiece);
  CHECK(m.window.readers() == 1);
  CHECK(m.counters.ahead_reads == 0);
}

TEST_CASE("F13 open handle: O_DIRECT and a file that is being written get nothing ahead") {
  Reading m;
  SUBCASE("O_DIRECT") {
    m.file->direct = true;
  }
  SUBCASE("a write is under way") {
    (void)m.file->inode().writes.begin(0, 1);
  }
  m.read_on(m.file, 8);
  CHECK(m.counters.ahead_reads == 0);
  CHECK(m.window.held() == 0);
}

TEST_CASE("F13 open handle: what was read ahead is given out only while nothing says that it is old") {
  Reading m(2);
  m.read_on(m.file, 5);
  REQUIRE(m.window.held() == kPiece);
  m.fill(m.file, 'n');
  Inode& inode = m.file->inode();
  bool fresh = true;
  SUBCASE("nothing does: as with pages, whoever has it open sees that later") {
    fresh = false;
  }
  SUBCASE("a write of this machine begins") {
    m.freshness.changed(inode);
    CHECK(m.window.held() == 0);
  }
  SUBCASE("its size is set") {
    m.freshness.resized(inode);
    CHECK(m.window.held() == 0);
  }
  SUBCASE("a lock was had") {
    m.freshness.others_may_have_changed(inode);
    CHECK(m.window.held() == 0);
  }
  SUBCASE("newer attributes came with whatever it was") {
    m.freshness.learn(inode, *m.loop.run(m.file->file()->attributes()), m.freshness.count());
  }
  SUBCASE("its delegation ended") {
    m.freshness.delegation_ended(inode);
  }
  SUBCASE("nobody read it for some seconds") {
    m.pass(ReadWindow::kIdle + 1s);
    CHECK(m.window.held() == 0);
    CHECK(m.window.readers() == 0);
  }
  SUBCASE("somebody else needs the memory, and nobody read it for a moment") {
    const Reading::File other = m.open("b");
    m.fill(other, 'o');
    m.pass(ReadWindow::kPause);
    m.window.hold(kPiece);
    for (std::uint64_t i = 0; i < 3; ++i) (void)m.read(other, i * kPiece / 2, kPiece / 2);
    m.window.let_go(kPiece);
    CHECK(m.window.readers() == 1);
  }
  CHECK(m.read(m.file, m.at) == std::string(kPiece, fresh ? 'n' : 'o'));
}

TEST_CASE("F13 open handle: what is read ahead while the contents change is not given out, either") {
  Reading m;
  m.engine.hold_answer("read");
  std::vector<async::Task<Result<ReadData>>> reads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    reads.push_back(m.file->read(i * kPiece, kPiece, m.loop.now() - 60s));
    m.start(reads.back());
  }
  CHECK(m.counters.server_reads > 2);
  m.fill(m.file, 'n');
  m.freshness.changed(m.file->inode());
  m.engine.release("read");
  m.turn();
  for (const auto& one : reads) CHECK(one.done());
  for (std::uint64_t i = 3; i < 8; ++i) CHECK(m.read(m.file, i * kPiece) == std::string(kPiece, 'n'));
}

TEST_CASE(
    "F13 open handle: behind the end, as it is known, nothing is asked for; and what is there is found") {
  Reading m;
  m.at = (kPieces - 5) * kPiece;
  m.read_on(m.file, 5);
  CHECK(m.counters.server_reads == 5);
  CHECK(m.read(m.file, m.at).empty());
  m.node(m.file->shared_inode()).content += "more";
  CHECK(m.read(m.file, m.at) == "more");
}

TEST_CASE("F13 open handle: an end that was met ahead is asked for again, also by who jumps there") {
  Reading m;
  std::string& there = m.node(m.file->shared_inode()).content;
  there.resize(kPieces * kPiece - 100);
  m.at = (kPieces - 6) * kPiece;
  m.read_on(m.file, 5);
  REQUIRE(m.window.held() == kPiece);  // the last piece, which is short
  there += std::string(100, 'm');
  CHECK(m.read(m.file, (kPieces - 1) * kPiece + 3900, 196) == std::string(96, 'o') + std::string(100, 'm'));
}

TEST_CASE(
    "F13 open handle: all files together have no more ahead than there may be, and nothing once closed") {
  Reading m(3);
  std::vector<Reading::File> files;
  for (int i = 0; i < 6; ++i) {
    files.push_back(m.open(std::to_string(i)));
    m.fill(files.back(), 'o');
  }
  constexpr std::size_t kHalf = kPiece / 2;
  for (std::uint64_t at = 0; at < 2 * kPieces; ++at) {
    for (const Reading::File& one : files) {
      CHECK(m.read(one, at * kHalf, kHalf) == std::string(kHalf, 'o'));
      CHECK(m.window.held() <= 3 * kPiece);
    }
  }
  CHECK(m.window.readers() == 6);
  CHECK(m.counters.ahead_hits > kPieces);
  files.clear();
  CHECK(m.window.readers() == 0);
  CHECK(m.window.held() == 0);
}

}  // namespace nfsrdma::fs::plain
