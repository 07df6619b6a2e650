// Choosing the fabric, with fabrics that only record what they are asked for.
#include "fabric/dial.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <cstring>
#include <functional>

#include "fabric/address.h"
#include "support/loopback.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace std::chrono_literals;

namespace {

struct FakeConnection : Connection {
  explicit FakeConnection(Handler& h) : handler(h) {}
  void post_receive(ReceiveBuffer buffer) override { receives.push_back(buffer.storage().size()); }
  void post_send(const SendWork& /*work*/) override { ++sends; }
  Status expose(Bytes /*memory*/, Reach /*reach*/, std::vector<RemoteSegment>& to) override {
    to.push_back({.handle = 7});
    return {};
  }
  Status revoke(std::span<const RemoteSegment> segments, std::uint64_t /*cookie*/) override {
    revoked += segments.size();
    return {};
  }
  bool revoke_now(std::span<const RemoteSegment> segments) override {
    revoked += segments.size();
    return true;
  }
  bool send_copy(ConstBytes message) override {
    copied += message.size();
    return true;
  }
  bool settle() override { return settles; }
  Status abandon(std::span<const RemoteSegment> segments, std::uint64_t /*cookie*/) override {
    abandoned += segments.size();
    return {};
  }
  void forget(std::span<const RemoteSegment> segments) override { forgotten += segments.size(); }
  void post_rdma_write(ConstBytes, const RemoteSegment&, std::uint64_t) override {}
  void post_rdma_read(Bytes, const RemoteSegment&, std::uint64_t) override {}
  void flush() override {}
  [[nodiscard]] std::size_t segments_for(std::size_t /*length*/) const override { return 3; }
  void close() override { closed = true; }
  [[nodiscard]] std::string peer_name() const override { return "fake"; }
  Handler& handler;
  std::vector<std::size_t> receives;
  int sends = 0;
  std::size_t abandoned = 0, forgotten = 0, revoked = 0, copied = 0;
  bool closed = false, settles = true;
};

struct Owner : Handler {
  void on_established(const Established& e) override { established = e; }
  void on_received(ReceiveBuffer /*buffer*/, std::optional<std::uint32_t> /*invalidated*/) override {}
  void on_completed(std::uint64_t /*cookie*/) override {}
  void on_closed(const Error& why) override {
    CHECK_FALSE(closed);
    closed = why;
  }
  std::optional<Established> established;
  std::optional<Error> closed;
};

struct World {
  async::Loop loop;
  Owner owner;
  std::string missing;
  std::optional<verbs::ConnectOptions> verbs_options;
  std::optional<iwarp::ConnectOptions> iwarp_options;
  FakeConnection* over_verbs = nullptr;  // the connection's
  FakeConnection* over_iwarp = nullptr;
  std::vector<bool> asked;  // for private data: whether handles bear invalidation

  std::unique_ptr<Connection> dial(Choice choice) {
    DialOptions options;
    options.choice = choice;
    options.host = "server";
    options.deadline = loop.now() + 10s;
    options.private_data = [this](const fabric::Traits& traits) {
      asked.push_back(traits.remote_invalidation);
      return std::vector<std::byte>(8);
    };
    return fabric::dial(loop, std::move(options), owner, fabrics());
  }
  Fabrics fabrics() {
    Fabrics out;
    out.missing_device = [this] { return missing; };
    out.verbs = [this](async::Loop&, verbs::ConnectOptions options, Handler& handler) {
      verbs_options = std::move(options);
      auto made = std::make_unique<FakeConnection>(handler);
      over_verbs = made.get();
      return made;
    };
    out.iwarp = [this](async::Loop&, iwarp::ConnectOptions options, Handler& handler) {
      iwarp_options = std::move(options);
      auto made = std::make_unique<FakeConnection>(handler);
      over_iwarp = made.get();
      return made;
    };
    return out;
  }
  void establish(FakeConnection& connection, const std::string& reason) {
    Established e;
    e.reason = reason;
    connection.handler.on_established(e);
  }
};

Error failure(const char* text, int errno_value = ECONNREFUSED) {
  return {ErrorKind::connection, errno_value, "connect", "server:20049", text};
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("dial: auto takes iwarp where there is no device, and says so") {
  World w;
  w.missing = "this machine has no RDMA device";
  const auto connection = w.dial(Choice::automatic);
  REQUIRE(w.over_iwarp);
  CHECK_FALSE(w.over_verbs);
  CHECK(w.iwarp_options->reason == "fabric=auto: this machine has no RDMA device");
  CHECK(w.asked == std::vector<bool>{true});  // every handle of a Stream's may be invalidated
  w.over_iwarp->handler.on_closed(failure("connection refused"));
  REQUIRE(w.owner.closed);
  CHECK(w.owner.closed->message() ==
        "connection refused (tried over iwarp; not over verbs: this machine has no RDMA device)");
}

TEST_CASE("dial: auto takes verbs where there is a device and the way leads to it") {
  World w;
  const auto connection = w.dial(Choice::automatic);
  REQUIRE(w.over_verbs);
  CHECK(w.verbs_options->resolve_deadline <= w.loop.now() + 2s);
  CHECK(w.verbs_options->deadline <= w.loop.now() + 5s);  // half is iwarp's
  CHECK(w.verbs_options->private_data({"rxe0", true, true}).size() == 8);
  CHECK(w.asked == std::vector<bool>{true});
  w.establish(*w.over_verbs, w.verbs_options->reason);
  CHECK(w.owner.established->reason == "fabric=auto: an RDMA device leads to the server");
  CHECK_FALSE(w.over_iwarp);
  CHECK(connection->segments_for(1) == 3);
  CHECK(connection->expose({}, Reach::remote_read)->front().handle == 7);
}

TEST_CASE("dial: a device whose handles do not bear invalidation is asked for as such") {
  World w;
  const auto connection = w.dial(Choice::automatic);
  (void)w.verbs_options->private_data({"siw0", false, false});
  CHECK(w.asked == std::vector<bool>{false});
}

TEST_CASE("dial: auto goes on with iwarp where no device leads there, with the Receives posted so far") {
  World w;
  const auto connection = w.dial(Choice::automatic);
  connection->post_receive(ReceiveBuffer(100));
  connection->post_receive(ReceiveBuffer(200));
  CHECK(w.over_verbs->receives == std::vector<std::size_t>{100, 200});
  w.over_verbs->handler.on_closed(failure("no RDMA device of this machine leads to this address", ENODEV));
  REQUIRE(w.over_iwarp);
  CHECK_FALSE(w.owner.closed);
  CHECK(w.over_iwarp->receives == std::vector<std::size_t>{100, 200});
  CHECK(contains(w.iwarp_options->reason, "no RDMA device of this machine leads to this address"));
  CHECK(w.iwarp_options->deadline > w.loop.now() + 9s);
  w.loop.end_turn();
  w.establish(*w.over_iwarp, w.iwarp_options->reason);
  connection->post_receive(ReceiveBuffer(300));
  CHECK(w.over_iwarp->receives.back() == 300);
}

TEST_CASE("dial: when both fail, the error says how each did") {
  World w;
  const auto connection = w.dial(Choice::automatic);
  (void)w.verbs_options->private_data({"siw0", false, false});
  w.over_verbs->handler.on_closed(failure("connection refused over siw0"));
  REQUIRE(w.over_iwarp);
  w.over_iwarp->handler.on_closed(failure("no answer", ETIMEDOUT));
  REQUIRE(w.owner.closed);
  CHECK(w.owner.closed->errno_value() == ETIMEDOUT);
  CHECK(w.owner.closed->message() == "iwarp: no answer; verbs (siw0): connection refused over siw0");
}

TEST_CASE("dial: fabric=verbs does not fall back") {
  World w;
  const auto connection = w.dial(Choice::verbs);
  CHECK(w.verbs_options->deadline > w.loop.now() + 9s);
  w.over_verbs->handler.on_closed(failure("refused"));
  CHECK(w.owner.closed->message() == "refused");
  CHECK_FALSE(w.over_iwarp);
}

TEST_CASE("dial: a port of ours that is taken is not the server's refusal, nor a reason for another fabric") {
  for (const Choice choice : {Choice::automatic, Choice::verbs}) {
    for (const bool next_is_free : {true, false}) {
      World w;
      const auto connection = w.dial(choice);
      connection->post_receive(ReceiveBuffer(100));
      for (int port = 1; port < 5; ++port) {
        w.over_verbs->handler.on_closed(failure("address in use", EADDRINUSE));
        CHECK_FALSE(w.owner.closed);
        CHECK_FALSE(w.over_iwarp);
        CHECK(w.over_verbs->receives == std::vector<std::size_t>{100});
        w.loop.end_turn();
      }
      if (next_is_free) {
        w.establish(*w.over_verbs, w.verbs_options->reason);
        CHECK(w.owner.established);
      } else {
        w.over_verbs->handler.on_closed(failure("address in use", EADDRINUSE));
        CHECK(w.owner.closed.has_value() == (choice == Choice::verbs));
        CHECK((w.over_iwarp != nullptr) == (choice == Choice::automatic));
      }
    }
  }
}

TEST_CASE("dial: fabric=verbs without a device fails from the loop, with the next step") {
  World w;
  w.missing = "this machine has no RDMA device";
  const auto connection = w.dial(Choice::verbs);
  CHECK_FALSE(w.owner.closed);
  w.loop.end_turn();
  REQUIRE(w.owner.closed);
  CHECK(w.owner.closed->errno_value() == ENODEV);
  CHECK(contains(w.owner.closed->message(), "fabric=iwarp"));
  CHECK_FALSE(w.over_verbs);
}

TEST_CASE("dial: fabric=iwarp looks at no device") {
  World w;
  const auto connection = w.dial(Choice::iwarp);
  REQUIRE(w.over_iwarp);
  CHECK_FALSE(w.over_verbs);
  CHECK(w.iwarp_options->reason == "fabric=iwarp was asked for");
  w.over_iwarp->handler.on_closed(failure("refused"));
  CHECK(w.owner.closed->message() == "refused");
}

TEST_CASE("dial: after the connection stood, its end is the end") {
  World w;
  const auto connection = w.dial(Choice::automatic);
  w.establish(*w.over_verbs, "x");
  w.over_verbs->handler.on_closed(failure("the peer closed the connection", ECONNRESET));
  CHECK(w.owner.closed);
  CHECK_FALSE(w.over_iwarp);
}

TEST_CASE("T28 dial: what is abandoned and forgotten reaches the connection below") {
  World w;
  const auto connection = w.dial(Choice::iwarp);
  const std::vector<RemoteSegment> segments(3);
  CHECK(connection->abandon(segments, 1));
  connection->forget(std::span(segments).first(2));
  CHECK(w.over_iwarp->abandoned == 3);
  CHECK(w.over_iwarp->forgotten == 2);
}

TEST_CASE("T28 dial: what is taken back, and waited for, is so by the connection below") {
  World w;
  const auto connection = w.dial(Choice::iwarp);
  const std::vector<RemoteSegment> segments(3);
  CHECK(connection->revoke(segments, 1));
  CHECK(w.over_iwarp->revoked == 3);
  CHECK(connection->revoke_now(std::span(segments).first(2)));
  CHECK(w.over_iwarp->revoked == 5);
  CHECK(connection->send_copy(std::as_bytes(std::span(segments))));
  CHECK(w.over_iwarp->copied == 3 * sizeof(RemoteSegment));
  CHECK(connection->settle());
  w.over_iwarp->settles = false;
  CHECK_FALSE(connection->settle());
}

TEST_CASE("dial: what the user has chosen reaches each fabric that is tried") {
  World w;
  DialOptions options;
  options.address = nfsrdma::testing::loopback(2049);
  options.host = "server";
  options.crc = iwarp::CrcPolicy::on;
  options.queues.receive_count = 77;
  const auto connection = dial(w.loop, options, w.owner, w.fabrics());
  REQUIRE(w.verbs_options);
  CHECK(fabric::port_of(w.verbs_options->address) == 2049);
  CHECK(w.verbs_options->host == "server");
  CHECK(w.verbs_options->queues.receive_count == 77);
  CHECK(w.verbs_options->deadline == async::TimePoint::max());  // half of that would be a deadline
  w.over_verbs->handler.on_closed(failure("refused"));
  REQUIRE(w.iwarp_options);
  CHECK(fabric::port_of(w.iwarp_options->address) == 2049);
  CHECK(w.iwarp_options->host == "server");
  CHECK(w.iwarp_options->crc == iwarp::CrcPolicy::on);
  CHECK(w.iwarp_options->deadline == async::TimePoint::max());
  CHECK(connection->peer_name() == "server:2049");
}

TEST_CASE("dial: a peer is named as its user names it, or by its address in numbers") {
  const sockaddr_storage here = nfsrdma::testing::loopback(20049);
  CHECK(fabric::peer_text(here, "server") == "server:20049");
  CHECK(fabric::peer_text(here, "") == "127.0.0.1:20049");
  CHECK(fabric::peer_text(here, "fe80::1%eth0") == "[fe80::1%eth0]:20049");
  CHECK(fabric::address_size(here) == sizeof(sockaddr_in));
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(2049);
  in6.sin6_addr = in6addr_loopback;
  sockaddr_storage there{};
  std::memcpy(&there, &in6, sizeof in6);
  CHECK(fabric::peer_text(there, "") == "[::1]:2049");
  CHECK(fabric::port_of(there) == 2049);
  CHECK(fabric::address_size(there) == sizeof(sockaddr_in6));
}

TEST_CASE("dial: closed before the outcome is known, it says nothing") {
  World w;
  auto connection = w.dial(Choice::automatic);
  connection->close();
  CHECK(w.over_verbs->closed);
  w.missing = "none";
  auto other = w.dial(Choice::verbs);
  other->close();
  w.loop.end_turn();
  auto third = w.dial(Choice::verbs);
  third.reset();
  w.loop.end_turn();
  CHECK_FALSE(w.owner.closed);
}
