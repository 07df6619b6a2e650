// The buffers of a transfer; uploads whose buffers the library keeps until the server has them on its disk; downloads that
// skip holes.
#include "cli/transfer.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma::cli {

using namespace nfsrdma::testing;

namespace {

Ring ring_of(std::size_t places, std::size_t buffers, std::size_t size) {
  auto ring = Ring::create(places, buffers, size);
  if (!ring) FAIL(ring.error().text());
  return *std::move(ring);
}

/// Fills chunks from a text, without ever blocking.
class TextSource final : public LocalEnd {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  /// Before the chunk that begins there.
  void at(std::size_t offset, std::function<void()> what) {
    at_ = offset;
    what_ = std::move(what);
  }
  int run(Chunk& chunk, const StopFlag& /*stop*/) override {
    if (position_ >= at_ && what_) std::exchange(what_, nullptr)();
    chunk.offset = position_;
    chunk.length = std::min(chunk.memory.size(), text_.size() - position_);
    std::ranges::copy(bytes(text_).subspan(position_, chunk.length), chunk.memory.begin());
    position_ += chunk.length;
    return fails_at_ != 0 && position_ > fails_at_ ? EIO : 0;
  }
  [[nodiscard]] bool immediate() const override { return true; }
  void fail_at(std::size_t offset) { fails_at_ = offset; }

 private:
  const std::string text_;
  std::size_t position_ = 0, at_ = 0, fails_at_ = 0;
  std::function<void()> what_;
};

constexpr std::size_t kChunk = 16U << 10;

struct Uploading : Mounted {
  Upload upload(std::size_t places, std::size_t buffers) {
    connect("wsize=16K");
    return {*client, open("/f", OpenMode::write, {.create = true}), ring_of(places, buffers, kChunk), places};
  }
  Result<std::uint64_t> run(Upload& upload, TextSource& source) {
    auto bytes = upload.run(source, "text", [](std::uint64_t) {});
    if (!bytes) return bytes;
    if (auto synced = upload.file().sync(); !synced) return synced.error();
    return bytes;
  }
};

/// Takes chunks into a text that has a hole wherever nobody writes.
class TextSink final : public LocalEnd {
 public:
  explicit TextSink(std::size_t size) : text(size, '\0') {}
  int run(Chunk& chunk, const StopFlag& /*stop*/) override {
    written += chunk.length;
    punched = punched || chunk.punch;
    std::ranges::copy(chunk.memory.first(chunk.length), room(text).subspan(chunk.offset).begin());
    return 0;
  }
  [[nodiscard]] bool immediate() const override { return true; }

  std::string text;
  std::size_t written = 0;
  bool punched = false;  ///< a chunk came in which zeros are to become holes
};

/// "/f" has 64 chunks, of which every 16th has data in its second half.
struct Downloading : Mounted {
  static constexpr std::size_t kChunks = 64, kPieces = 4;
  using Elements = Habits::Elements;

  explicit Downloading(Elements elements) : content(kChunks * kChunk, '\0') {
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t begin = i * kChunks / kPieces * kChunk + kChunk / 2;
      content.replace(begin, kChunk / 2, pattern(kChunk / 2, static_cast<unsigned>(i)));
    }
    server.add_file("/f", content);
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t begin = i * kChunks / kPieces * kChunk + kChunk / 2;
      server.add_extent("/f", begin, begin + kChunk / 2);
    }
    server.on_server([elements](Responder& responder) { responder.state.habits.elements = elements; });
  }
  void run(TextSink& sink) {
    connect("rsize=16K");
    server.clear_calls();
    Download download(*client, open("/f", OpenMode::read), ring_of(12, 12, kChunk), 8, content.size(),
                      Download::Holes::reported_or_sought);
    const auto size = download.run(sink, "text", [](std::uint64_t) {});
    REQUIRE(ok(size));
    CHECK(*size == content.size());
    CHECK(sink.text == content);
  }
  [[nodiscard]] unsigned reads() const {
    return server.count(nfs4::OP_READ) + server.count(nfs4::OP_READ_PLUS);
  }

  std::string content;
};

}  // namespace

TEST_CASE("ring: a buffer is taken for as long as it is held, and the last one given back is the next") {
  Ring ring = ring_of(2, 3, 5000);
  REQUIRE(ring.provide(0));
  REQUIRE(ring.provide(1));
  CHECK(ring[0].memory.size() == 5000);
  CHECK(reinterpret_cast<std::uintptr_t>(ring[1].memory.data()) % 4096 == 0);
  CHECK(ring[0].memory.data() != ring[1].memory.data());
  const auto kept = ring[0].keeper;
  const std::byte* const first = ring[0].memory.data();
  REQUIRE(ring.provide(2));  // in the place of 0, whose buffer somebody keeps
  CHECK(ring[2].memory.data() != first);
  const std::byte* const third = ring[2].memory.data();
  REQUIRE(ring.provide(4));
  CHECK(ring[4].memory.data() == third);
  const auto others = std::pair(ring[0].keeper, ring[1].keeper);
  CHECK_FALSE(ring.provide(1));
}

TEST_CASE("ring: its buffers stay as long as somebody holds one") {
  std::shared_ptr<const void> keeper;
  std::span<std::byte> memory;
  {
    Ring ring = ring_of(1, 1, 5000);
    REQUIRE(ring.provide(0));
    keeper = ring[0].keeper;
    memory = ring[0].memory;
  }
  std::ranges::fill(memory, std::byte{1});
  CHECK(memory.back() == std::byte{1});
}

TEST_CASE("upload: one that has no buffer left has the server write to its disk, and goes on") {
  Uploading m;
  const std::string text = pattern(40 * kChunk + 77);
  TextSource source(text);
  Upload upload = m.upload(4, 6);
  const auto sent = m.run(upload, source);
  REQUIRE(ok(sent));
  CHECK(*sent == text.size());
  CHECK(m.server.stable_content("/f") == text);
  CHECK(m.server.count(nfs4::OP_COMMIT) >= 40 / 6);
}

TEST_CASE("upload: what a restart of the server loses is written again from the buffers") {
  Uploading m;
  const std::string text = pattern(30 * kChunk);
  TextSource source(text);
  source.at(20 * kChunk, [&] { m.server.restart(); });
  Upload upload = m.upload(4, 12);
  REQUIRE(ok(m.run(upload, source)));
  CHECK(m.server.stable_content("/f") == text);
}

TEST_CASE("upload: short writes are written to their end") {
  Uploading m;
  m.server.set_short_writes(5000);
  const std::string text = pattern(10 * kChunk + 1);
  TextSource source(text);
  Upload upload = m.upload(3, 5);
  REQUIRE(ok(m.run(upload, source)));
  CHECK(m.server.stable_content("/f") == text);
}

TEST_CASE("upload: a COMMIT that is refused while there is no buffer ends it with the server's word") {
  Uploading m;
  m.server.answer(nfs4::OP_COMMIT, nfs4::NFS4ERR_NOSPC, 100);
  TextSource source(pattern(30 * kChunk));
  Upload upload = m.upload(4, 6);
  const auto sent = m.run(upload, source);
  REQUIRE_FALSE(sent);
  CHECK(sent.error().errno_value() == ENOSPC);
}

TEST_CASE("upload: a source that fails ends it") {
  Uploading m;
  TextSource source(pattern(30 * kChunk));
  source.fail_at(20 * kChunk);
  Upload upload = m.upload(4, 6);
  const auto sent = m.run(upload, source);
  REQUIRE_FALSE(sent);
  CHECK(sent.error().errno_value() == EIO);
  CHECK(sent.error().peer() == "text");
}

TEST_CASE("download: where the server says how far a hole reaches, one request finds the data behind it") {
  Downloading m(Habits::Elements::in_full);
  TextSink sink(m.content.size());
  m.run(sink);
  CHECK(m.server.count(nfs4::OP_SEEK) == 0);
  // Each piece of data is in a chunk of its own, and the hole before it in another one at most.
  CHECK(m.reads() <= 3 * Downloading::kPieces);
  CHECK(sink.written <= 3 * Downloading::kPieces * kChunk);
}

TEST_CASE(
    "download: where the server reports the part of a hole that was asked for, SEEK passes over the rest") {
  Downloading m(Habits::Elements::within);
  TextSink sink(m.content.size());
  m.run(sink);
  CHECK(m.server.count(nfs4::OP_SEEK) != 0);
  CHECK(m.reads() <= 3 * Downloading::kPieces);
}

TEST_CASE("download: where the server sends holes as zeros, SEEK finds the data") {
  Downloading m(Habits::Elements::data_only);
  TextSink sink(m.content.size());
  m.run(sink);
  // Two find a piece: where its data begins, and where it ends. The last one finds no more data.
  CHECK(m.server.count(nfs4::OP_SEEK) != 0);
  CHECK(m.server.count(nfs4::OP_SEEK) <= 2 * Downloading::kPieces + 1);
  CHECK(m.reads() <= 3 * Downloading::kPieces);
}

TEST_CASE("download: where nothing says how far a hole reaches, all is read, and zeros become holes") {
  for (const Habits::Elements elements : {Habits::Elements::within, Habits::Elements::data_only}) {
    Downloading m(elements);
    m.server.answer(nfs4::OP_SEEK, nfs4::NFS4ERR_NOTSUPP, 100);
    TextSink sink(m.content.size());
    m.run(sink);
    CHECK(sink.written == m.content.size());
    CHECK(sink.punched);
  }
}

TEST_CASE("inbox: what another thread puts in makes it readable until it is taken") {
  Inbox<int> inbox;
  CHECK(inbox.take().empty());
  pollfd look{inbox.event_fd(), POLLIN, 0};
  inbox.put(1);  // on the thread that reads: it looks here before it waits
  CHECK(::poll(&look, 1, 0) == 0);
  CHECK_FALSE(inbox.empty());
  CHECK(inbox.take() == std::vector<int>{1});
  std::jthread([&] {
    inbox.put(2);
    inbox.put(3);
  }).join();
  CHECK(::poll(&look, 1, 0) == 1);
  CHECK(inbox.take() == std::vector<int>{2, 3});
  CHECK(::poll(&look, 1, 0) == 0);
  CHECK(inbox.empty());
}

}  // namespace nfsrdma::cli
