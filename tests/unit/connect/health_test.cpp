// Health checks of connections (RFC 8267 4.6): every connection that is silent is asked, and one whose peer is dead is found
// before the lease ends, whatever the options and the lease are. Conformance row U15.
//
// The client is the product's, from a target on (connect::Server). The fabric is the simulated network's: what checks a
// connection is above the fabric, and knows neither verbs nor iWARP. A connection that is dead in one direction loses all
// messages of that direction, and nobody is told.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "connect/server.h"
#include "sim/client.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Health {
  sim::Simulation world{1};
  sim::Network network{world};
  sim::Host& server_host = world.add_host("server");
  NfsServer server{network, server_host};
  sim::Host& host = world.add_host("client");
  std::string notices;
  std::optional<connect::Server> client;
  std::set<std::uint64_t> dead;  ///< connections that lose messages
  bool dead_towards_server = false;

  explicit Health(std::uint32_t lease) {
    server.set_lease(lease);
    server.add_file("/f", pattern(1000));
    network.set_watch([this](const sim::Passing& one) {
      const bool lost =
          dead.contains(one.connection) && (one.to == server_host.number()) == dead_towards_server;
      return lost ? sim::Fate::vanishes : sim::Fate::arrives;
    });
  }
  ~Health() {
    if (client) {
      (void)run(client->close(host.loop().now() + 30s));
      client->shut_down();
    }
    host.loop().drop_tasks();
    client.reset();
    CHECK(server.problems() == "");
  }
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  static connect::Options options(std::uint32_t connections, std::chrono::milliseconds timeo,
                                  const char* version) {
    connect::Options out = sim::SimClient::quick();
    out.connections = connections;
    out.timeout = timeo;
    out.port_fixed = true;
    const std::string wanted = version;
    out.version = wanted == "3" ? 3 : 4;
    if (wanted == "4.0") out.minor_version = 0;
    out.minor_version_fixed = wanted == "4.0";
    return out;
  }
  void connect(const connect::Options& options) {
    client.emplace(
        host.loop(), sim::SimClient::target(server_host, options),
        std::vector{sim::Network::address(server_host, server.port())},
        [this](const std::string& text) { notices += text + "\n"; }, std::nullopt,
        sim::SimClient::surroundings(network, host, std::nullopt, options));
    REQUIRE(ok(run(client->connect(host.loop().now() + 10s))));
  }
  template <class T>
  T run(async::Task<T> task) {
    start(task);
    REQUIRE(turn_until([&] { return task.done(); }, 60s));
    return task.await_resume();
  }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    host.loop().end_turn();
  }
  bool turn_until(const std::function<bool()>& so, std::chrono::milliseconds most) {
    const auto end = host.loop().now() + most;
    while (!so()) {
      if (host.loop().now() > end) return false;
      host.loop().turn(host.loop().now() + 5ms);
    }
    return true;
  }
  void turn_for(std::chrono::milliseconds time) {
    (void)turn_until([] { return false; }, time);
  }
  /// How often the channel with that number has been connected.
  [[nodiscard]] std::uint64_t generation(std::size_t channel) const {
    return client->channels()[channel]->generation();
  }
  [[nodiscard]] std::uint64_t generations() const {
    std::uint64_t out = 0;
    for (const auto& channel : client->channels()) out += channel->generation();
    return out;
  }
  /// Messages of that connection vanish from now on, in one direction. Connections are in the order of channels.
  void kill(std::size_t channel, bool towards_server) {
    const auto all = network.connections(host, server_host);
    REQUIRE(channel < all.size());
    dead = {all[channel]};
    dead_towards_server = towards_server;
  }
};

struct Given {
  std::uint32_t lease;
  std::chrono::milliseconds timeo;
};
constexpr Given kGiven[] = {{10, 1s}, {10, 60s}, {10, 600s}, {90, 600s}, {45, 5s}};

}  // namespace

TEST_CASE("U15 an idle connection of several that is dead in one direction is found before the lease ends") {
  for (const char* const version : {"4.2", "4.0"}) {
    for (const Given& given : kGiven) {
      for (const bool towards_server : {true, false}) {
        for (const std::size_t channel : {0U, 2U}) {
          CAPTURE(version);
          CAPTURE(given.lease);
          CAPTURE(given.timeo.count());
          CAPTURE(towards_server);
          CAPTURE(channel);
          Health m(given.lease);
          m.connect(Health::options(3, given.timeo, version));
          m.turn_for(3s);
          const auto before = m.generation(channel), all = m.generations();
          m.kill(channel, towards_server);
          CHECK(m.turn_until([&] { return m.generation(channel) != before; },
                             std::chrono::seconds(given.lease)));
          CHECK(m.generations() == all + 1);
          CHECK(m.notices.find("connection lost") != std::string::npos);
          // Nothing of the state has been lost.
          CHECK(m.server.clients() == 1);
          CHECK(m.notices.find("recover") == std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("U15 a connection to another address of the server is asked, too") {
  Health m(10);
  connect::Options options = Health::options(1, 600s, "4.2");
  options.remote_ports = {"10.1.0." + std::to_string(m.server_host.number())};
  m.connect(options);
  REQUIRE(m.client->channels().size() == 2);
  REQUIRE(m.client->channels()[1]->elsewhere());
  m.turn_for(3s);
  const auto before = m.generation(1);
  m.kill(1, false);
  CHECK(m.turn_until([&] { return m.generation(1) != before; }, 10s));
}

TEST_CASE(
    "U15 a dead connection is found before the lease ends although calls wait on it, and they end in time") {
  for (const char* const version : {"4.2", "4.0"}) {
    for (const bool towards_server : {true, false}) {
      for (const std::uint32_t connections : {1U, 2U}) {
        CAPTURE(version);
        CAPTURE(towards_server);
        CAPTURE(connections);
        Health m(10);
        m.connect(Health::options(connections, 600s, version));
        const auto& engine = m.client->engine();
        auto root = m.run(engine->find(nullptr, {}));
        REQUIRE(ok(root));
        auto opened = m.run(
            engine->open_at(nullptr, engine::Spot(root->handle), "f", engine::Access::read, std::nullopt));
        REQUIRE(ok(opened));
        m.turn_for(100ms);
        m.kill(0, towards_server);
        // More than there are slots and credits.
        std::deque<std::string> data(100, std::string(100, '?'));
        std::vector<async::Task<Result<std::size_t>>> reads;
        for (std::string& one : data) reads.push_back(opened->file->read(room(one), 0));
        for (auto& one : reads) m.start(one);
        CHECK(m.turn_until(
            [&] { return std::ranges::all_of(reads, [](const auto& one) { return one.done(); }); }, 10s));
        m.turn_until([&] { return std::ranges::all_of(reads, [](const auto& one) { return one.done(); }); },
                     600s);
        for (auto& one : reads) CHECK(ok(one.await_resume()));
        CHECK(data.back() == pattern(1000).substr(0, 100));
        CHECK(m.notices.find("recover") == std::string::npos);
        CHECK(ok(m.run(engine->close(std::move(opened->file)))));
      }
    }
  }
}

TEST_CASE("U15 a call that the server takes long for costs no connection while health checks are answered") {
  Health m(10);
  m.connect(Health::options(1, 600s, "4.2"));
  const auto& engine = m.client->engine();
  auto root = m.run(engine->find(nullptr, {}));
  REQUIRE(ok(root));
  const auto before = m.generations();
  m.server.hold(OP_CREATE, false);
  auto making = engine->make_directory(nullptr, engine::Spot(root->handle), "d", 0755);
  m.start(making);
  m.turn_for(40s);
  CHECK_FALSE(making.done());
  CHECK(m.generations() == before);
  m.server.release();
  REQUIRE(m.turn_until([&] { return making.done(); }, 10s));
  CHECK(ok(making.await_resume()));
}

TEST_CASE("U15 each idle connection is asked once in so long: by SEQUENCE, by RENEW, in version 3 by NULL") {
  for (const std::string version : {"4.2", "4.0", "3"}) {
    CAPTURE(version);
    Health m(20);
    m.connect(Health::options(3, 60s, version.c_str()));
    m.turn_for(1s);
    m.server.clear_calls();
    std::vector<std::uint64_t> before;
    for (const auto& channel : m.client->channels()) before.push_back(channel->facts().replies);
    m.turn_for(60s);
    // 3/8 of the lease are 7.5 s; in version 3 it is half a minute.
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto asked = m.client->channels()[i]->facts().replies - before[i];
      CHECK(asked >= (version == "3" ? 1 : 7));
      CHECK(asked <= (version == "3" ? 2 : 10));
    }
    std::map<unsigned, unsigned> by_connection;
    for (const SeenCall& call : m.server.calls()) {
      if (call.ops.size() == 1 && (call.has(OP_SEQUENCE) || call.has(OP_RENEW)))
        ++by_connection[call.connection];
    }
    CHECK(by_connection.size() == (version == "3" ? 0 : 3));
  }
}

TEST_CASE("U15 a single idle connection has no more checks than its lease has renewals") {
  Health m(30);
  m.connect(Health::options(1, 60s, "4.2"));
  m.turn_for(1s);
  const auto before = m.client->channels()[0]->facts().replies;
  m.turn_for(100s);
  CHECK(m.client->channels()[0]->facts().replies - before <= 11);
}

}  // namespace nfsrdma
