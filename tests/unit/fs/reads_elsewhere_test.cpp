// READs of the file layer that other threads make (fs/reads_elsewhere.h): which, and what becomes of them.
#include "fs/reads_elsewhere.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/plain_fixture.h"

namespace nfsrdma::fs::plain {
namespace {

/// Takes READs, and ends them when the test says so.
class Elsewhere final : public ReadsElsewhere, private engine::FastRead::UnderWay {
 public:
  bool start(const engine::ServerFileRef& file, const async::Memory& memory, engine::FastRead& read,
             bool /*ahead*/) override {
    CHECK(under_way >= read.data.size());
    CHECK(memory.data.get() <= read.data.data());
    if (!takes) return false;
    file_ = file;
    memory_ = memory;
    taken.push_back(&read);
    read.begin(*this);
    return true;
  }
  /// The last READ has brought nothing but this letter; without one it has failed.
  void end(const char* letter) {
    engine::FastRead& read = *taken.back();
    taken.pop_back();
    const auto file = file_;
    if (taken.empty()) file_ = nullptr;
    if (letter == nullptr) return give_back(read, *file, std::nullopt);
    std::ranges::fill(read.data, static_cast<std::byte>(*letter));
    give_back(read, *file, read.data.size());
  }
  void begins(std::size_t bytes) override { under_way += bytes; }
  void ends(std::size_t bytes) override { under_way -= bytes; }
  bool takes = true;
  std::size_t under_way = 0;
  std::vector<engine::FastRead*> taken;
  unsigned dropped = 0;

 private:
  void drop() override {
    ++dropped;
    taken.clear();
  }
  engine::ServerFileRef file_;
  async::Memory memory_;
};

constexpr std::size_t kLength = 64U << 10;

struct WithElsewhere {
  Elsewhere elsewhere;
};

struct Scene : WithElsewhere, Plain {
  Scene() : Plain({}, &elsewhere) {
    file = create("f");
    content().assign(4 * kLength, 'h');
  }
  std::string& content() { return engine->nodes.at(PlainEngine::id_of(file.handle->inode().handle)).content; }
  async::Task<Result<ReadData>> reading(std::size_t size = kLength) {
    return files->read(file.handle, 0, size);
  }
  /// Ends the read, and returns what it brings.
  std::string finish(async::Task<Result<ReadData>>& reading) {
    turn();
    REQUIRE(reading.done());
    const auto got = reading.await_resume();
    REQUIRE(got);
    return text(*got);
  }
  [[nodiscard]] unsigned readers() const { return file.handle->inode().pages.reading(); }
  OpenedFile file;
};

}  // namespace

TEST_CASE("reads elsewhere: what is taken comes from there, and what is refused from the engine") {
  Scene s;
  auto reading = s.reading();
  s.start(reading);
  REQUIRE(s.elsewhere.taken.size() == 1);
  CHECK_FALSE(reading.done());
  s.elsewhere.end("e");
  CHECK(s.finish(reading) == std::string(kLength, 'e'));
  CHECK(s.elsewhere.under_way == 0);
  s.elsewhere.takes = false;
  CHECK(s.read(s.file, kLength) == std::string(kLength, 'h'));
  CHECK(s.elsewhere.under_way == 0);
}

TEST_CASE("reads elsewhere: what fails there is made by the engine") {
  Scene s;
  auto reading = s.reading();
  s.start(reading);
  REQUIRE(s.elsewhere.taken.size() == 1);
  s.elsewhere.end(nullptr);
  CHECK(s.finish(reading) == std::string(kLength, 'h'));
  CHECK(s.elsewhere.under_way == 0);
}

TEST_CASE("reads elsewhere: a read past the kernel goes there, in one piece or in several") {
  Scene s;
  CacheOptions options;
  for (const std::size_t size : {kLength, std::size_t{options.rsize} * 2}) {
    const async::Memory memory = s.loop.memory().take(size);
    const std::span data(memory.data.get(), size);
    auto reading = s.files->read_direct(s.file.handle, memory, data, 0, {});
    s.start(reading);
    const std::size_t pieces = s.elsewhere.taken.size();
    CHECK(pieces == (size == kLength ? 1 : 2));
    for (std::size_t i = 0; i < pieces; ++i) s.elsewhere.end("e");
    s.turn();
    REQUIRE(reading.done());
    CHECK(reading.await_resume().value_or(0) == size);
    CHECK(std::ranges::all_of(data, [](std::byte one) { return one == std::byte{'e'}; }));
    CHECK(s.elsewhere.under_way == 0);
  }
}

TEST_CASE("reads elsewhere: until the kernel has its answer, the read may put pages into its cache") {
  Scene s;
  auto reading = s.reading();
  s.start(reading);
  CHECK(s.readers() == 1);
  s.elsewhere.end("e");
  s.turn();
  REQUIRE(reading.done());
  {
    const auto got = reading.await_resume();
    CHECK(s.readers() == 1);
  }
  CHECK(s.readers() == 0);
}

TEST_CASE("reads elsewhere: a mount that ends parts with what is under way there") {
  Scene s;
  auto reading = s.reading();
  s.start(reading);
  REQUIRE(s.elsewhere.taken.size() == 1);
  s.loop.drop_tasks();
  CHECK(s.elsewhere.dropped == 1);
  CHECK(s.elsewhere.under_way == 0);
}

}  // namespace nfsrdma::fs::plain
