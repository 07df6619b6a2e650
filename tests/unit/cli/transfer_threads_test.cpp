// Transfers on several threads at a time: callbacks of one come on the threads of the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "cli/transfer.h"
#include "support/nfs_fixture.h"

namespace nfsrdma::cli {

using namespace nfsrdma::testing;

TEST_SUITE("threads") {
  namespace {

  constexpr std::size_t kSmallChunk = 16U << 10;

  /// Reads chunks from a text, or writes them to it, and never blocks.
  class TextEnd final : public LocalEnd {
   public:
    TextEnd(std::string& text, bool is_source) : text_(text), is_source_(is_source) {}
    int run(Chunk& chunk, const StopFlag& /*stop*/) override {
      if (is_source_) {
        chunk.offset = position_;
        chunk.length = std::min(chunk.memory.size(), text_.size() - position_);
        std::ranges::copy(bytes(text_).subspan(position_, chunk.length), chunk.memory.begin());
        position_ += chunk.length;
      } else {
        std::ranges::copy(chunk.memory.first(chunk.length), room(text_).subspan(chunk.offset).begin());
      }
      return 0;
    }
    [[nodiscard]] bool immediate() const override { return true; }

   private:
    std::string& text_;
    const bool is_source_;
    std::size_t position_ = 0;
  };

  Ring make_small_ring() {
    auto ring = Ring::create(6, 8, kSmallChunk);
    if (!ring) FAIL(ring.error().text());
    return *std::move(ring);
  }

  }  // namespace

  TEST_CASE("transfers: several at a time on one client, each on a thread of its own, bring what is theirs") {
    constexpr std::size_t kTransfers = 4;
    Mounted m;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < kTransfers; ++i) {
      texts.push_back(pattern(50 * kSmallChunk + i, static_cast<unsigned>(i)));
      m.server.add_file("/from" + std::to_string(i), texts[i]);
    }
    m.connect("rsize=16K,wsize=16K");
    std::vector<std::string> got(kTransfers), failures(kTransfers);
    const auto transfer = [&](std::size_t i) -> Status {
      auto from = m.client->open("/from" + std::to_string(i), OpenMode::read);
      if (!from) return from.error();
      got[i].assign(texts[i].size(), '\0');
      TextEnd sink(got[i], false);
      Download download(*m.client, *std::move(from), make_small_ring(), 4, texts[i].size(),
                        Download::Holes::read);
      auto size = download.run(sink, "sink", [](std::uint64_t) {});
      if (!size) return size.error();
      auto to = m.client->open("/to" + std::to_string(i), OpenMode::write, {.create = true});
      if (!to) return to.error();
      TextEnd source(texts[i], true);
      Upload upload(*m.client, *std::move(to), make_small_ring(), 4);
      size = upload.run(source, "source", [](std::uint64_t) {});
      if (!size) return size.error();
      return upload.file().sync();
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < kTransfers; ++i) {
        threads.emplace_back([&, i] {
          if (const Status done = transfer(i); !done) failures[i] = done.error().text();
        });
      }
    }
    for (std::size_t i = 0; i < kTransfers; ++i) {
      CHECK(failures[i].empty());
      CHECK((got[i] == texts[i]));
      CHECK((m.server.stable_content("/to" + std::to_string(i)) == texts[i]));
    }
  }
}

}  // namespace nfsrdma::cli
