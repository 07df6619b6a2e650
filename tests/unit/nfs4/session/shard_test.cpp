// Which answers in a shard count (nfs4/session/shard.h): a server that has taken the place of another one may answer there
// without what was not stable, before the session's own connections have said so. And what becomes of WRITEs whose answers are
// lost there: none is executed once its file has been written again.
#include "nfs4/session/shard.h"

#include <string>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// Has all calls made by one shard.
class OneShard final : public engine::ShardCalls {
 public:
  OneShard(async::Loop& loop, std::unique_ptr<engine::Shard>& shard) : loop_(loop), shard_(shard) {}
  bool start(std::size_t bytes, async::FunctionRef<std::shared_ptr<engine::ShardCall>()> make) override {
    if (!shard_ || !shard_->works()) return false;
    moved += bytes;
    loop_.spawn(run(make()));
    return true;
  }
  std::size_t moved = 0;
  int made = 0, failed = 0;

 private:
  async::Task<void> run(std::shared_ptr<engine::ShardCall> call) {
    co_await shard_->call(*call);
    ++(call->is_made() ? made : failed);
    call->ended();
  }
  async::Loop& loop_;
  std::unique_ptr<engine::Shard>& shard_;
};

struct Sharded : Scene {
  /// `reply_timeout`: after which the shard's connection is replaced.
  explicit Sharded(
      const std::function<void(Habits&)>& habits = [](Habits&) {},
      std::chrono::milliseconds reply_timeout = 60s) {
    server.on_server([&](Responder& responder) { habits(responder.state.habits); });
    server.add_file("/f", "0123456789");
    connect();
    file = open("f");
    rpc::ChannelOptions options = EngineClient::channel_options(server, client->place.host());
    options.rdma.reply_timeout = reply_timeout;
    shard_channel.emplace(client->loop, std::move(options), [](const rpcrdma::Notice&) {});
    make();
    calls.emplace(client->loop, shard);
    client->session.use_shards(&*calls);
  }
  ~Sharded() {
    client->session.use_shards(nullptr);
    shard = nullptr;
    shard_channel->shut_down();
    close(file);
    client->end();
    shard_channel.reset();
  }
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  void make() {
    auto made = client->run(client->session.make_shard(0, *shard_channel, client->loop.now() + 5s));
    REQUIRE(ok(made));
    shard = std::move(*made);
    REQUIRE(ok(client->run(shard_channel->connect(client->loop.now() + 5s))));
  }
  /// A call of the session's own, some time after everything else.
  void ask() {
    client->turn_for(10ms);
    REQUIRE(ok(client->run(client->engine.find(nullptr, {}))));
  }
  /// What a READ in the shard brings; empty if its answer does not count.
  std::string read() {
    const auto prepared = file->prepare_read(10, 0);
    REQUIRE(prepared);
    std::string data(10, '?');
    client->run(shard->read(*prepared, room(data)));
    return prepared->finish() ? data : "";
  }

  /// Begins to write the text at the beginning of the file.
  async::Task<Result<std::size_t>> writing(const std::string& text) {
    async::Memory memory = client->loop.memory().take(text.size());
    std::ranges::copy(bytes(text), memory.data.get());
    const std::span<const std::byte> data(memory.data.get(), text.size());
    return file->write(data, 0, UNSTABLE4, nullptr, std::move(memory));
  }
  Result<std::size_t> write(const std::string& text) { return client->run(writing(text), 100s); }
  /// What the session itself reads.
  std::string contents() {
    std::string data(10, '?');
    if (!ok(client->run(file->read(room(data), 0)))) return {};
    return data;
  }
  /// Begins a write whose WRITE is with the server, which does not look at it before release_first(). Other WRITEs pass.
  async::Task<Result<std::size_t>> kept_write(const std::string& text) {
    server.hold(OP_WRITE, false);
    auto task = writing(text);
    client->start(task);
    REQUIRE(soon([&] { return server.held() == 1; }));
    server.hold(OP_NVERIFY, false);  // which nobody sends
    return task;
  }

  OpenRef file;
  std::optional<rpc::Channel> shard_channel;
  std::unique_ptr<engine::Shard> shard;
  std::optional<OneShard> calls;
};

}  // namespace

TEST_CASE(
    "shard: an answer counts once the session has had one behind the making of the shard's connection") {
  Sharded s;
  CHECK(s.read().empty());
  CHECK(s.shard->works());
  s.ask();
  CHECK(s.read() == "0123456789");
  SUBCASE("and again where another shard has another connection") {
    s.server.drop_connection(s.server.connections());
    s.soon([&] { return !s.shard_channel->up(); });
    s.make();
    CHECK(s.read().empty());
    s.ask();
    CHECK(s.read() == "0123456789");
  }
}

TEST_CASE("shard: an answer over a second connection does not count, nor is there another one") {
  Sharded s;
  SUBCASE("though it is the first answer there") {}
  SUBCASE("behind others") {
    s.ask();
    CHECK(s.read() == "0123456789");
  }
  const auto prepared = s.file->prepare_read(10, 0);
  REQUIRE(prepared);
  std::string data(10, '?');
  s.server.drop_before(OP_READ);
  s.client->run(s.shard->read(*prepared, room(data)));
  REQUIRE(s.shard_channel->generation() == 2);
  s.ask();
  CHECK_FALSE(prepared->finish());
  CHECK_FALSE(s.shard->works());
  CHECK(s.read().empty());
}

// ---- WRITEs ----

TEST_CASE(
    "shard: a WRITE is made there, and the session asks for an answer behind the making of the connection") {
  Sharded s;
  const unsigned before = s.server.count(OP_SEQUENCE);
  CHECK(*s.write("abcde") == 5);
  CHECK(s.server.count(OP_WRITE) == 1);
  CHECK(s.server.count(OP_SEQUENCE) == before + 2);
  CHECK(*s.write("fghij") == 5);
  CHECK(s.server.count(OP_WRITE) == 2);
  CHECK(s.server.count(OP_SEQUENCE) == before + 3);
  CHECK(s.calls->made == 2);
  CHECK(s.calls->moved == 10);
  CHECK(s.contents() == "fghij56789");
  CHECK(s.shard->works());
  CHECK(ok(s.client->run(s.file->commit())));
  CHECK_FALSE(s.file->has_unstable_data());
}

TEST_CASE("shard: what the server says to a WRITE there is for the caller, and the shard works on") {
  Sharded s;
  s.ask();
  s.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(errno_of(s.write("abcde")) == ENOSPC);
  CHECK(s.server.count(OP_WRITE) == 1);
  s.server.answer(OP_WRITE, NFS4ERR_DELAY);
  CHECK(*s.write("fghij") == 5);
  s.server.forget_stateids();
  CHECK(*s.write("klmno") == 5);
  CHECK(s.calls->made == 5);
  CHECK(s.contents() == "klmno56789");
  CHECK(s.shard->works());
}

TEST_CASE("shard: a WRITE whose connection is lost has an effect once, and its shard works no more") {
  Sharded s;
  s.ask();
  SUBCASE("before it was executed") {
    s.server.drop_before(OP_WRITE);
  }
  SUBCASE("after it was executed") {
    s.server.drop_after(OP_WRITE);
  }
  CHECK(*s.write("abcde") == 5);
  CHECK_FALSE(s.shard->works());
  CHECK(s.contents() == "abcde56789");
  CHECK(*s.write("fghij") == 5);  // by the session
  CHECK(s.contents() == "fghij56789");
}

TEST_CASE("shard: a WRITE that comes late is not executed any more when the session has made it again") {
  Sharded s;
  s.ask();
  auto first = s.kept_write("abcde");
  REQUIRE(s.client->turn_until([&] { return first.done(); }, 100s));
  CHECK(*first.await_resume() == 5);
  CHECK(s.calls->failed == 1);
  CHECK(s.server.succeeded(OP_DESTROY_SESSION) == 1);
  CHECK(*s.write("fghij") == 5);
  s.server.release_first();
  s.client->turn_for(10ms);
  CHECK(s.contents() == "fghij56789");
  CHECK_FALSE(s.shard->works());
}

TEST_CASE("shard: a WRITE that the server is long about is not made again before its end") {
  Sharded s;
  s.ask();
  // The shard waits for 2.5 s, and the session for 5 in all.
  std::chrono::milliseconds time = 3s;
  SUBCASE("which comes in time") {}
  SUBCASE("which does not come in time") {
    time = 30s;
  }
  s.server.on_server([&](Responder& responder) { responder.stall(OP_WRITE, time); });
  const async::TimePoint begun = s.client->loop.now();
  const auto written = s.write("abcde");
  const auto took = s.client->loop.now() - begun;
  if (time == 3s) {
    CHECK(*written == 5);
    CHECK(took >= time);
    CHECK(s.contents() == "abcde56789");
  } else {
    CHECK(errno_of(written) == ETIMEDOUT);
    CHECK(took < 6s);
    s.client->turn_for(time);
  }
  CHECK(s.calls->failed == 1);
  CHECK(s.server.count(OP_WRITE) == (time == 3s ? 2 : 1));
}

TEST_CASE("shard: a WRITE is sent again in its slot while the server executes it, until its end is known") {
  Sharded s([](Habits& habits) { habits.at_work = Habits::AtWork::delay; }, 1s);
  s.ask();
  s.server.on_server([](Responder& responder) { responder.stall(OP_WRITE, 1500ms); });
  CHECK(*s.write("abcde") == 5);
  CHECK(s.shard_channel->generation() == 2);
  // The server has kept no answer, so the session makes it again.
  CHECK(s.server.succeeded(OP_WRITE) == 2);
  CHECK(s.server.count(OP_DESTROY_SESSION) == 0);
  CHECK(s.contents() == "abcde56789");
}

TEST_CASE("shard: WRITEs find their way when the session is lost, or the server restarts") {
  Sharded s;
  s.ask();
  CHECK(*s.write("abcde") == 5);
  SUBCASE("sessions are lost") {
    s.server.forget_sessions();
  }
  SUBCASE("the server restarts") {
    s.server.restart();
  }
  CHECK(*s.write("fghij") == 5);
  CHECK(ok(s.client->run(s.file->commit())));
  CHECK(s.contents() == "fghij56789");
  CHECK_FALSE(s.shard->works());
}

TEST_CASE("shard: a WRITE that finds no free slot there goes its own way") {
  Sharded s([](Habits& habits) { habits.most_slots = 1; });
  s.ask();
  s.server.hold(OP_WRITE);
  auto first = s.writing("abcde");
  s.client->start(first);
  REQUIRE(s.soon([&] { return s.server.held() == 1; }));
  auto second = s.writing("fghij");
  s.client->start(second);
  CHECK(s.soon([&] { return s.server.held() == 2; }, 1s));
  s.server.release();
  REQUIRE(s.soon([&] { return first.done() && second.done(); }));
  CHECK(*first.await_resume() == 5);
  CHECK(*second.await_resume() == 5);
  CHECK(s.calls->made == 1);
}

TEST_CASE("shard: where every connection has to be bound it makes nothing, and its session is destroyed") {
  Sharded s([](Habits& habits) { habits.associates_connections = false; });
  s.ask();
  CHECK(*s.write("abcde") == 5);
  CHECK(s.contents() == "abcde56789");
  CHECK_FALSE(s.shard->works());
  CHECK(s.server.sessions() == 1);
  CHECK(s.server.problems() == "");
}

TEST_CASE("shard: a caller that goes away leaves the call its memory; its session ends without it") {
  Sharded s;
  s.ask();
  (void)s.kept_write("abcde");
  s.server.release_first();
  REQUIRE(s.soon([&] { return s.calls->made == 1; }));
  CHECK(s.contents() == "abcde56789");
}

}  // namespace nfsrdma
