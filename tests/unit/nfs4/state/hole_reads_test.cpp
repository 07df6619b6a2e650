// Which reads are made by READ_PLUS, and what becomes of servers that answer it in their own ways
// (nfs4/state/hole_reads.h).
#include <doctest/doctest.h>

#include <string>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace nfs4;
using namespace testing;

constexpr std::size_t kSize = 1U << 20;
constexpr std::size_t kPiece = 64U << 10;

/// As programs read: by the fast path where that is taken.
async::Task<Result<std::size_t>> reading(OpenFile& file, std::span<std::byte> into, std::uint64_t offset) {
  auto fast = co_await engine::FastReadWait(file, into, offset);
  if (!fast.rest) co_return fast.count;
  co_return co_await std::move(*fast.rest);
}

/// "/sparse" has data in its second and its last 64 KiB only.
struct Holes : Scene {
  Holes() {
    std::string text(kSize, '\0');
    text.replace(kPiece, kPiece, pattern(kPiece));
    text.replace(kSize - kPiece, kPiece, pattern(kPiece, 1));
    content = text;
    server.add_file("/sparse", text);
    server.add_extent("/sparse", kPiece, 2 * kPiece);
    server.add_extent("/sparse", kSize - kPiece, kSize);
    server.add_file("/dense", pattern(kSize, 2));
  }
  std::string read(OpenRef& file, std::uint64_t offset, std::size_t length) {
    std::string out(length, '?');
    const auto count = client->run(reading(*file.file(), room(out), offset));
    if (!count) FAIL(count.error().text());
    out.resize(*count);
    return out;
  }
  /// The whole file, in pieces of a length.
  std::string read_all(OpenRef& file, std::size_t length) {
    std::string out;
    for (std::uint64_t at = 0; at < kSize; at += length) out += read(file, at, length);
    return out;
  }
  [[nodiscard]] unsigned used() { return server.count(OP_READ_PLUS); }
  [[nodiscard]] const HoleReads& holes() { return client->session.hole_reads(); }
  [[nodiscard]] std::uint64_t hole_bytes() { return client->session.counters().hole_bytes; }
  template <class Set>
  void habits(Set set) {
    server.on_server([&](Responder& responder) { set(responder.state.habits); });
  }

  std::string content;
};

}  // namespace

TEST_CASE(
    "U6 read_plus: a sparse file is read by READ_PLUS, and no hole is sent as zeros; a dense one is not") {
  Holes m;
  m.connect();
  OpenRef sparse = m.open("sparse"), dense = m.open("dense");
  CHECK((m.read(dense, 0, kSize) == pattern(kSize, 2)));
  CHECK(m.used() == 0);
  CHECK((m.read(sparse, 0, kSize) == m.content));
  CHECK(m.used() == 2);
  CHECK(m.hole_bytes() == kSize - 2 * kPiece);
  CHECK(m.holes().found() == HoleReads::Found::reports_holes);
  CHECK(m.holes().text() == "reports holes; data by Write chunk");
  m.close(sparse);
  m.close(dense);
}

TEST_CASE("U6 read_plus: read_plus=no forbids it, read_plus=yes uses it for dense files, too") {
  Holes m;
  m.connect(ReadPlus::no);
  OpenRef file = m.open("sparse");
  CHECK((m.read(file, 0, kSize) == m.content));
  CHECK(m.used() == 0);
  m.close(file);
  m.client.reset();
  m.connect(ReadPlus::yes);
  file = m.open("dense");
  CHECK((m.read(file, 0, kSize) == pattern(kSize, 2)));
  CHECK(m.used() == 1);
  m.close(file);
}

TEST_CASE("U6 read_plus: below NFSv4.2 there is none") {
  Holes m;
  m.server.set_newest_minor(1);
  m.connect(ReadPlus::yes);
  OpenRef file = m.open("sparse");
  CHECK((m.read(file, 0, kSize) == m.content));
  CHECK(m.used() == 0);
  m.close(file);
}

TEST_CASE("U6 read_plus: every way to answer it that the specifications allow gives the file's bytes") {
  for (const Habits::Elements elements : {Habits::Elements::in_full, Habits::Elements::within,
                                          Habits::Elements::one, Habits::Elements::split}) {
    for (const std::size_t length : {std::size_t{1000}, kPiece - 1, kPiece, 3 * kPiece + 5, kSize}) {
      CAPTURE(static_cast<int>(elements));
      CAPTURE(length);
      Holes m;
      m.habits([&](Habits& h) { h.elements = elements; });
      m.connect(ReadPlus::yes);
      OpenRef file = m.open("sparse");
      CHECK((m.read_all(file, length) == m.content));
      CHECK(m.used() != 0);
      CHECK(m.hole_bytes() == kSize - 2 * kPiece);
      CHECK(m.read(file, kSize, 100).empty());
      CHECK(m.holes().way() == HoleReads::Way::chunk);
      m.close(file);
    }
  }
}

TEST_CASE("U6 read_plus: an end of the file that is none is not believed, and the user is told once") {
  for (const bool dense : {false, true}) {
    Holes m;
    m.habits([](Habits& h) { h.elements = Habits::Elements::nothing; });
    EngineClient& c = m.connect(ReadPlus::yes);
    const std::string content = dense ? pattern(kSize, 2) : m.content;
    OpenRef file = m.open(dense ? "dense" : "sparse");
    CHECK((m.read(file, 0, kSize) == content));
    CHECK((m.read(file, kSize - 10, 20) == content.substr(kSize - 10)));
    CHECK(m.used() == 1);
    CHECK(m.holes().text() == "incorrect answers; READ is used");
    CHECK(c.notices == "test server: READ_PLUS reports a wrong end of the file, so READ is used\n");
    m.close(file);
  }
}

TEST_CASE("U6 read_plus: what was given up stays so, whatever a read brings that was under way") {
  Holes m;
  EngineClient& c = m.connect();
  m.server.answer(OP_READ_PLUS, NFS4ERR_NOTSUPP);
  OpenRef file = m.open("sparse");
  CHECK((m.read(file, 0, kSize) == m.content));
  HoleHint hint;
  c.session.hole_reads().answered(hint, {.holes = kPiece});
  CHECK((m.read(file, 0, kSize) == m.content));
  CHECK(m.used() == 1);
  CHECK(m.holes().text() == "not supported; READ is used");
  m.close(file);
}

TEST_CASE("U6 read_plus: short answers are asked for their rest") {
  Holes m;
  m.habits([](Habits& h) { h.short_reads = 10'000; });
  m.connect(ReadPlus::yes);
  OpenRef file = m.open("sparse");
  CHECK((m.read(file, 0, kSize) == m.content));
  m.close(file);
}

TEST_CASE("U6 read_plus: a server that counts the data twice, as Linux does, is asked for it in the stream") {
  Holes m;
  m.habits([](Habits& h) { h.plus_chunk = Habits::PlusChunk::doubled; });
  m.connect();
  OpenRef file = m.open("sparse");
  SUBCASE("at the end of the Reply: the bytes are right") {
    CHECK((m.read(file, 0, 2 * kPiece) == m.content.substr(0, 2 * kPiece)));
    CHECK(m.used() == 1);
  }
  SUBCASE("before a hole: they are read once more") {
    CHECK((m.read(file, kPiece, 2 * kPiece) == m.content.substr(kPiece, 2 * kPiece)));
    CHECK(m.used() == 2);
  }
  CHECK(m.holes().text() == "reports holes; data in the reply");
  m.server.clear_calls();
  CHECK((m.read_all(file, kPiece) == m.content));
  for (const SeenCall& call : m.server.calls()) {
    if (call.has(OP_READ_PLUS)) CHECK(call.write_chunks.empty());
  }
  m.close(file);
}

TEST_CASE("U6 read_plus: a server that leaves the Write chunk unused is asked for data in the stream") {
  Holes m;
  m.habits([](Habits& h) { h.plus_chunk = Habits::PlusChunk::unused; });
  EngineClient& c = m.connect();
  OpenRef file = m.open("sparse");
  CHECK((m.read(file, 0, kSize) == m.content));
  CHECK(m.holes().text() == "reports holes; data in the reply");
  CHECK(c.notices.empty());
  m.close(file);
}

TEST_CASE("U6 read_plus: a server that sends holes as zeros is asked by READ from the third answer on") {
  Holes m;
  m.habits([](Habits& h) { h.elements = Habits::Elements::data_only; });
  EngineClient& c = m.connect();
  OpenRef file = m.open("sparse");
  for (int i = 0; i < 5; ++i) CHECK((m.read(file, 2 * kPiece, 2 * kPiece) == std::string(2 * kPiece, '\0')));
  CHECK(m.used() == 3);
  CHECK(m.holes().text() == "reports no holes; READ is used");
  CHECK(m.hole_bytes() == 0);
  CHECK(c.notices.empty());
  m.close(file);
}

TEST_CASE("U6 read_plus: a server without it is asked once, and the user is told once") {
  for (const nfsstat4 status : {NFS4ERR_NOTSUPP, NFS4ERR_UNION_NOTSUPP}) {
    Holes m;
    EngineClient& c = m.connect();
    m.server.answer(OP_READ_PLUS, status, 100);
    OpenRef file = m.open("sparse");
    for (int i = 0; i < 3; ++i) CHECK((m.read(file, 0, kSize) == m.content));
    CHECK(m.used() == 1);
    CHECK(m.holes().text() == "not supported; READ is used");
    CHECK(c.notices == "test server: READ_PLUS is not supported, so holes are read as zeros\n");
    m.close(file);
  }
}

TEST_CASE("U6 read_plus: an error of the file is the caller's") {
  Holes m;
  m.connect();
  OpenRef file = m.open("sparse");
  m.server.answer(OP_READ_PLUS, NFS4ERR_ACCESS);
  std::string out(100, '?');
  CHECK(m.client->run(file->read(room(out), 0)).error().status() == NFS4ERR_ACCESS);
  CHECK(m.holes().found() == HoleReads::Found::nothing);
  m.close(file);
}

TEST_CASE("U6 read_plus: behind a long range of data the next hole is found, by the fast path, too") {
  Holes m;
  std::string text = pattern(kSize, 3);
  text.resize(3 * kSize);
  m.server.add_file("/late", text);
  m.server.add_extent("/late", 0, kSize);
  m.connect();
  OpenRef file = m.open("late");
  for (std::uint64_t at = 0; at < 3 * kSize; at += kPiece / 2)
    CHECK((m.read(file, at, kPiece / 2) == text.substr(at, kPiece / 2)));
  CHECK(m.used() >= 16 + 1 + 48);
  CHECK(m.used() < 16 + 1 + 65);
  CHECK(m.hole_bytes() >= 3 * kSize / 2);
  m.close(file);
}

TEST_CASE("U6 read_plus: over a long range of data every 16th read asks for holes, until one is reported") {
  HoleHint hint;
  CHECK_FALSE(hint.pays());
  Attributes attributes;
  attributes.size = 1U << 30;
  attributes.space_used = 1U << 20;
  hint.know(attributes);
  for (int i = 0; i < 16; ++i) {
    CHECK(hint.pays());
    hint.answered(false);
  }
  int asked = 0;
  for (int i = 0; i < 160; ++i) {
    const bool asks = hint.pays();
    asked += asks ? 1 : 0;
    if (asks)
      hint.answered(false);
    else
      hint.passed_over();
  }
  CHECK(asked == 10);
  hint.answered(true);
  CHECK(hint.pays());
  CHECK(hint.pays());
  // Little is missing.
  attributes.space_used = attributes.size - (64U << 10);
  hint.know(attributes);
  CHECK_FALSE(hint.pays());
  // With large blocks a small file takes more than its size.
  attributes.size = 100;
  attributes.space_used = 4096;
  hint.know(attributes);
  CHECK_FALSE(hint.pays());
}

}  // namespace nfsrdma
