// The thread of a shard (fuse/shard_thread.h): that each READ comes back once, whatever becomes of it.
#include "fuse/shard_thread.h"

#include <doctest/doctest.h>

#include <deque>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {
using namespace testing;

struct NoRead final : engine::ShardRead {
  std::optional<std::size_t> finish() override { return std::nullopt; }
};

struct NoCall final : engine::ShardCall {
  void ended() override {}
  [[nodiscard]] bool is_made() const override { return false; }
};

/// Reads at once, or never. Other calls take their time, or end never.
class ScriptedShard final : public engine::Shard {
 public:
  ScriptedShard(async::Loop& loop, bool answers) : loop_(loop), answers_(answers) {}
  async::Task<void> read(engine::ShardRead& /*read*/, std::span<std::byte> data) override {
    if (!answers_) co_await loop_.sleep_until(async::TimePoint::max());
    std::ranges::fill(data, std::byte{'r'});
  }
  async::Task<void> call(engine::ShardCall& /*call*/) override {
    co_await loop_.sleep_until(answers_ ? loop_.now() + 300ms : async::TimePoint::max());
  }
  [[nodiscard]] bool works() const override { return true; }

 private:
  async::Loop& loop_;
  const bool answers_;
};

struct CountedJob final : fuse::CallJob, fuse::AnswerJob {
  void has_ended() override { ++ended; }
  void has_sent() override { ++sent; }
  async::Task<void> make(engine::Shard& shard) override {
    return is_read ? shard.read(read, data) : shard.call(call);
  }
  [[nodiscard]] bool may_be_dropped() const override { return is_read; }
  void send_answer() override { data[0] = std::byte{'s'}; }
  NoRead read;
  NoCall call;
  bool is_read = true;
  std::array<std::byte, 8> data{};
  int ended = 0, sent = 0;
};

struct ThreadOfShard {
  explicit ThreadOfShard(std::chrono::milliseconds patience = 1h)
      : thread(loop, EngineClient::channel_options(server, nullptr), patience) {}
  Status use(bool answers) {
    return loop.run(thread.use(std::make_unique<ScriptedShard>(thread.channel().loop(), answers)));
  }
  bool runs_until(const std::function<bool()>& so, std::chrono::milliseconds most = 30s) {
    const auto end = loop.now() + most;
    while (!so() && loop.now() < end) loop.turn(loop.now() + 100ms);
    return so();
  }
  NfsServer server;
  async::Loop loop;
  std::deque<CountedJob> jobs = std::deque<CountedJob>(3);  // the thread gives them back when it ends
  fuse::ShardThread thread;
};

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("shard thread: READs are made there, and come back; an answer is sent there") {
    ThreadOfShard t;
    CHECK_FALSE(t.thread.works());
    REQUIRE(ok(t.use(true)));
    CHECK(t.thread.works());
    CHECK(t.thread.connection().up);
    for (CountedJob& one : t.jobs) t.thread.make(one);
    CHECK(t.thread.busy() == 3);
    REQUIRE(t.runs_until([&] { return t.thread.busy() == 0; }));
    for (const CountedJob& one : t.jobs) {
      CHECK(one.ended == 1);
      CHECK(one.data[7] == std::byte{'r'});
    }
    t.thread.send(t.jobs[0]);
    REQUIRE(t.runs_until([&] { return t.jobs[0].sent == 1; }));
    CHECK(t.jobs[0].data[0] == std::byte{'s'});
  }

  TEST_CASE("shard thread: without a shard READs come back as they are") {
    ThreadOfShard t;
    t.thread.make(t.jobs[0]);
    REQUIRE(t.runs_until([&] { return t.jobs[0].ended == 1; }));
    CHECK(t.jobs[0].data[7] == std::byte{0});
  }

  TEST_CASE("shard thread: a READ that lasts too long comes back, and its shard is used no more") {
    ThreadOfShard t(50ms);
    REQUIRE(ok(t.use(false)));
    for (CountedJob& one : t.jobs) t.thread.make(one);
    REQUIRE(t.runs_until([&] { return t.thread.busy() == 0; }));
    CHECK_FALSE(t.thread.works());
    for (const CountedJob& one : t.jobs) CHECK(one.ended == 1);
    // Another shard takes its place.
    REQUIRE(ok(t.use(true)));
    t.thread.make(t.jobs[0]);
    REQUIRE(t.runs_until([&] { return t.jobs[0].ended == 2; }));
    CHECK(t.jobs[0].data[7] == std::byte{'r'});
    CHECK(t.thread.works());
  }

  TEST_CASE(
      "shard thread: a shard works as long as it is connected, and READs come back when it is not any more") {
    ThreadOfShard t;
    REQUIRE(ok(t.use(false)));
    for (CountedJob& one : t.jobs) t.thread.make(one);
    t.loop.end_turn();
    CHECK_FALSE(t.runs_until([&] { return t.thread.busy() == 0; }, 100ms));
    t.server.go_away();
    REQUIRE(t.runs_until([&] { return t.thread.busy() == 0; }));
    CHECK_FALSE(t.thread.works());
    for (const CountedJob& one : t.jobs) CHECK(one.ended == 1);
    CHECK_FALSE(t.use(true));
    CHECK_FALSE(t.thread.works());
    t.server.come_back();
    REQUIRE(ok(t.use(true)));
    CHECK(t.thread.works());
  }

  TEST_CASE("shard thread: a call that may not be dropped stays, whatever is lost, until the thread ends") {
    ThreadOfShard t(50ms);
    for (CountedJob& one : t.jobs) one.is_read = false;
    REQUIRE(ok(t.use(true)));
    t.thread.make(t.jobs[0]);
    t.loop.end_turn();
    t.server.drop_connections();
    REQUIRE(t.runs_until([&] { return !t.thread.works(); }));
    CHECK(t.jobs[0].ended == 0);
    REQUIRE(ok(t.use(false)));
    t.thread.make(t.jobs[1]);
    REQUIRE(t.runs_until([&] { return t.jobs[0].ended == 1; }));
    CHECK_FALSE(t.runs_until([&] { return t.jobs[1].ended != 0; }, 100ms));
    CHECK(t.thread.works());
    t.thread.stop();
    CHECK(t.jobs[1].ended == 1);
    CHECK(t.thread.busy() == 0);
  }

  TEST_CASE("shard thread: its end gives back what is under way, and sends what it was given") {
    ThreadOfShard t;
    REQUIRE(ok(t.use(false)));
    t.thread.make(t.jobs[0]);
    t.loop.end_turn();
    t.thread.make(t.jobs[1]);  // not handed over yet
    t.thread.send(t.jobs[2]);
    t.thread.stop();
    CHECK(t.jobs[0].ended == 1);
    CHECK(t.jobs[1].ended == 1);
    CHECK(t.jobs[2].sent == 1);
    CHECK(t.jobs[2].data[0] == std::byte{'s'});
    CHECK(t.thread.busy() == 0);
    CHECK_FALSE(t.thread.runs());
    CHECK_FALSE(t.thread.works());
    t.thread.stop();
    CHECK(t.jobs[0].ended == 1);
  }
}

}  // namespace nfsrdma
