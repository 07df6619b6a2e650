// Connections that a thread of its own carries (fabric/carrier.h): iWARP over real TCP on the loopback interface, its server
// on the owner's loop. For TSan, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <set>
#include <thread>

#include "fabric/carried.h"
#include "fabric/dial.h"
#include "fabric/iwarp/connection.h"
#include "fabric/iwarp/listener.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"
#include "support/recorder.h"
#include "unit/fabric/iwarp/pair.h"

namespace nfsrdma::fabric {
namespace {

using namespace std::chrono_literals;
using iwarp::testing::noise;
using nfsrdma::testing::Recorder;

struct Way {
  async::Loop loop;
  Recorder server_hears, hears;
  std::unique_ptr<Connection> server, connection;
  std::unique_ptr<iwarp::Listener> listener;
  std::vector<std::shared_ptr<Carrier>> carriers = carrier_threads(loop, 1);

  Way() {
    auto made = iwarp::Listener::listen(
        loop, testing::loopback(0), [this](std::unique_ptr<iwarp::Incoming> incoming) {
          auto accepted = incoming->accept(
              iwarp::AcceptOptions{.private_data = {std::byte{7}}, .crc = {}, .depths = {}}, server_hears);
          REQUIRE(accepted);
          server = std::move(*accepted);
        });
    REQUIRE(made);
    listener = std::move(*made);
    connect(listener->port());
  }
  void connect(std::uint16_t port) {
    iwarp::ConnectOptions options;
    options.address = testing::loopback(port);
    options.host = "here";
    options.deadline = loop.now() + 5s;
    const auto make = [options](async::Loop& there, Handler& handler) {
      return iwarp::connect(there, options, handler);
    };
    connection = std::make_unique<CarriedConnection>(loop, carriers.front(), "here:1", make, hears);
  }
  void establish() {
    connection->post_receive(ReceiveBuffer(4096));
    until([&] { return hears.established && server_hears.established; });
  }
  void until(const std::function<bool()>& done) { CHECK(testing::runs_until(loop, done)); }
  void server_sends(ConstBytes bytes, std::optional<std::uint32_t> invalidate = std::nullopt) {
    SendWork work;
    work.cookie = 99;
    work.pieces = {&bytes, 1};
    work.invalidate = invalidate;
    server->post_send(work);
  }
};

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("carrier: messages, memory that the peer writes and reads, and all of it taken back") {
    Way w;
    w.establish();
    CHECK(w.hears.established->private_data == std::vector<std::byte>{std::byte{7}});
    CHECK(w.hears.established->fabric == "iwarp");

    const auto data = noise(3 << 20, 1);
    std::vector<std::byte> memory(data.size());
    const auto exposed = w.connection->expose(memory, Reach::remote_write);
    REQUIRE(exposed);
    REQUIRE(exposed->size() == w.connection->segments_for(memory.size()));
    // The Send names what was exposed before it: the server finds it.
    w.server->post_receive(ReceiveBuffer(4096));
    const auto call = noise(3000, 2);
    const ConstBytes pieces[] = {ConstBytes(call).first(10), ConstBytes(call).subspan(10)};
    SendWork send;
    send.cookie = 5;
    send.pieces = pieces;
    w.connection->post_send(send);
    w.until([&] { return !w.server_hears.messages.empty(); });
    CHECK(w.server_hears.messages.front() == call);
    w.server->post_rdma_write(data, exposed->front(), 1);
    w.server_sends(ConstBytes(data).first(100), exposed->front().handle);
    w.until([&] { return !w.hears.messages.empty(); });
    CHECK(w.hears.has(5));
    CHECK(w.hears.invalidated == exposed->front().handle);
    CHECK(memory == data);

    // What the peer has invalidated may be taken back as well.
    CHECK(w.connection->revoke(*exposed, 6));
    w.until([&] { return w.hears.has(6); });

    const auto shown = w.connection->expose(memory, Reach::remote_read);
    w.connection->flush();
    std::vector<std::byte> read(memory.size());
    w.until([&] { return w.hears.completed.size() == 2; });
    w.connection->post_receive(ReceiveBuffer(4096));
    w.server->post_receive(ReceiveBuffer(4096));
    w.connection->post_send(send);
    w.until([&] { return w.server_hears.messages.size() == 2; });
    w.server->post_rdma_read(read, shown->front(), 2);
    w.until([&] { return w.server_hears.has(2); });
    CHECK(read == data);
    CHECK(w.connection->abandon(*shown, 7));
    w.until([&] { return w.hears.has(7); });
    w.connection->forget(*shown);
    CHECK_FALSE(w.hears.closed);
  }

  TEST_CASE("carrier: an access to what was taken back ends the connection, for both") {
    Way w;
    w.establish();
    std::vector<std::byte> memory(1000);
    const auto data = noise(1000, 1);
    const auto exposed = w.connection->expose(memory, Reach::remote_write);
    REQUIRE(exposed);
    CHECK(w.connection->revoke(*exposed, 1));
    w.until([&] { return w.hears.has(1); });
    w.server->post_rdma_write(data, exposed->front(), 1);
    w.until([&] { return w.hears.closed && w.server_hears.closed; });
    CHECK(memory == std::vector<std::byte>(1000));
    CHECK_FALSE(w.connection->expose(memory, Reach::remote_write));
  }

  TEST_CASE("carrier: close() in the middle of a transfer leaves the memory alone from then on") {
    Way w;
    w.establish();
    const auto data = noise(32 << 20, 1);
    std::vector<std::byte> memory(data.size());
    const auto exposed = w.connection->expose(memory, Reach::remote_write);
    REQUIRE(exposed);
    w.server->post_receive(ReceiveBuffer(4096));
    SendWork send;
    const auto call = noise(10, 2);
    const ConstBytes piece = call;
    send.pieces = {&piece, 1};
    w.connection->post_send(send);
    w.until([&] { return !w.server_hears.messages.empty(); });
    w.server->post_rdma_write(data, exposed->front(), 1);
    w.server->flush();
    SUBCASE("by the owner") {
      w.connection->close();
    }
    SUBCASE("by its end") {
      w.connection.reset();
    }
    const auto before = memory;
    w.until([&] { return w.server_hears.closed.has_value(); });
    CHECK(memory == before);
    CHECK_FALSE(w.hears.closed);
  }

  TEST_CASE("carrier: settle() in the middle of a transfer does so for what was abandoned") {
    Way w;
    w.establish();
    const auto data = noise(32 << 20, 1);
    auto memory = std::make_unique<std::vector<std::byte>>(data.size());
    const auto exposed = w.connection->expose(*memory, Reach::remote_write);
    REQUIRE(exposed);
    w.server->post_receive(ReceiveBuffer(4096));
    SendWork send;
    const auto call = noise(10, 2);
    const ConstBytes piece = call;
    send.pieces = {&piece, 1};
    w.connection->post_send(send);
    w.until([&] { return !w.server_hears.messages.empty(); });
    w.server->post_rdma_write(data, exposed->front(), 1);
    w.server->flush();
    CHECK(w.connection->abandon(*exposed, 7));
    CHECK(w.connection->settle());
    memory.reset();  // as a caller does who was interrupted
    w.server_sends(ConstBytes(data).first(100));
    w.until([&] { return w.hears.has(7) && !w.hears.messages.empty(); });
    CHECK_FALSE(w.hears.closed);
  }

  TEST_CASE("carrier: the end of the peer is told once, and may be where the owner lets go of everything") {
    Way w;
    w.establish();
    w.hears.on_end = [&] {
      w.carriers.clear();
      w.connection->close();
      w.loop.post([&] { w.connection.reset(); });
    };
    w.server->close();
    w.until([&] { return w.connection == nullptr; });
    CHECK(w.hears.closed);
  }

  TEST_CASE("carrier: nobody listens, and several connections of one carrier") {
    Way w;
    w.establish();
    Way other;
    const std::uint16_t port = other.listener->port();
    other.until([&] { return other.hears.established.has_value(); });
    other.connection.reset();
    other.listener.reset();
    other.hears = {};
    other.connect(port);
    other.until([&] { return other.hears.closed.has_value(); });
    CHECK(other.hears.closed->errno_value() == ECONNREFUSED);
    // The first of another carrier goes on.
    const auto bytes = noise(10, 1);
    w.server_sends(bytes);
    w.until([&] { return !w.hears.messages.empty(); });

    // Two on one.
    Way both;
    both.establish();
    const auto first = std::move(both.connection);
    both.hears.established.reset();
    auto first_server = std::move(both.server);
    both.connect(both.listener->port());
    both.establish();
    both.server_sends(bytes);
    both.until([&] { return both.hears.messages.size() == 1; });
    CHECK(both.hears.messages.front() == bytes);
  }

  TEST_CASE("carrier: dial() connects over iwarp on the carrier's loop, and on its own without one") {
    Way w;
    w.establish();
    std::atomic<async::Loop*> where = nullptr;
    Fabrics fabrics = system_fabrics();
    fabrics.missing_device = [] { return std::string("there is no device"); };
    fabrics.iwarp = [&where](async::Loop& loop, iwarp::ConnectOptions options, Handler& handler) {
      where = &loop;
      return iwarp::connect(loop, std::move(options), handler);
    };
    DialOptions options;
    options.address = testing::loopback(w.listener->port());
    w.server_hears.established.reset();
    Recorder hears;
    const auto before = std::move(w.server);
    const auto here = dial(w.loop, options, hears, fabrics);
    w.until([&] { return hears.established && w.server_hears.established; });
    CHECK(where == &w.loop);
    const auto first_server = std::move(w.server);
    w.server_hears.established.reset();
    options.carrier = w.carriers.front();
    Recorder hears_there;
    const auto there = dial(w.loop, options, hears_there, fabrics);
    w.until([&] { return hears_there.established && w.server_hears.established; });
    CHECK(where == &w.carriers.front()->loop());
  }

  TEST_CASE("carrier: a handle that is there already ends the connection with a word about it") {
    Way w;
    w.establish();
    std::vector<std::byte> memory(10);
    CHECK_FALSE(w.server->expose_as(0, memory, Reach::remote_read));
    CHECK(w.server->expose_as(5, memory, Reach::remote_read));
    CHECK_FALSE(w.server->expose_as(5, memory, Reach::remote_read));
  }

  TEST_CASE("carrier: no handle comes twice or is 0, and the next one cannot be told") {
    async::Loop loop;
    Handles handles(loop), others(loop);
    std::vector<std::uint32_t> given(1U << 20U);  // of as many random numbers a hundred would be there twice
    for (std::uint32_t& one : given) one = handles.next();
    std::set<std::uint32_t> steps, differences;
    for (std::size_t i = 1; i <= 1000; ++i) {
      steps.insert(given[i] - given[i - 1]);
      differences.insert(given[i] ^ others.next());
    }
    CHECK(steps.size() > 990);
    CHECK(differences.size() > 990);
    for (unsigned bit = 0; bit < 32; ++bit) {
      const auto is_set = [bit](std::uint32_t handle) { return (handle >> bit & 1U) != 0; };
      const double share =
          static_cast<double>(std::ranges::count_if(given, is_set)) / static_cast<double>(given.size());
      CHECK(share > 0.48);
      CHECK(share < 0.52);
    }
    std::ranges::sort(given);
    CHECK(std::ranges::adjacent_find(given) == given.end());
    CHECK(given.front() != 0);
  }

  TEST_CASE("carrier: a client with three threads, and four that use it") {
    nfsrdma::testing::NfsServer server;
    const std::size_t size = 4 << 20;
    const auto data = noise(size, 3);
    server.add_file("/f", std::string(reinterpret_cast<const char*>(data.data()), size));
    {
      auto client = Client::connect(server.target("vers=4.2,threads=3,rsize=65536"));
      REQUIRE(client);
      CHECK(server.open_connections() == 3);
      std::vector<std::thread> users;
      users.reserve(4);
      std::atomic<unsigned> right = 0;
      for (unsigned i = 0; i < 4; ++i) {
        users.emplace_back([&client, &right, &data, i, name = "/g" + std::to_string(i)] {
          auto file = (*client)->open("/f", OpenMode::read, {});
          std::vector<std::byte> read(data.size());
          if (file && (*file)->read(read, 0) && read == data) ++right;
          OpenFlags create;
          create.create = true;
          auto made = (*client)->open(name, OpenMode::read_write, create);
          if (made && (*made)->write(data, i) && (*made)->sync() && (*made)->read(read, i) && read == data)
            ++right;
        });
      }
      // In the middle of it one connection goes, and comes again.
      server.drop_connection(2);
      for (std::thread& one : users) one.join();
      CHECK(right == 8);
    }
    CHECK(server.problems() == "");
  }
}

}  // namespace nfsrdma::fabric
