// Which answers in a shard count (nfs4/session/shard.h): a server that has taken the place of another one may answer there
// without what was not stable, before the session's own connections have said so.
#include "nfs4/session/shard.h"

#include <string>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Sharded : Scene {
  Sharded() {
    server.add_file("/f", "0123456789");
    connect();
    file = open("f");
    shard_channel.emplace(client->loop, EngineClient::channel_options(server, client->place.host()),
                          [](const rpcrdma::Notice&) {});
    make();
  }
  ~Sharded() {
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

  OpenRef file;
  std::optional<rpc::Channel> shard_channel;
  std::unique_ptr<engine::Shard> shard;
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

}  // namespace nfsrdma
