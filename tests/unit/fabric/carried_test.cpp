// A carried connection (fabric/carried.h) by itself: the carrier is this same loop and does what it is told at once, and
// the connection below fails when the test says so.
#include "fabric/carried.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/recorder.h"
#include "support/virtual_world.h"

namespace nfsrdma::fabric {
namespace {

/// What the connection below was asked for. The test's: it is there when the connection is not.
struct Below {
  Handler* hears = nullptr;
  bool takes_handles = true, revokes = true;
  bool closed = false, gone = false;
  std::vector<std::uint32_t> handles;
  std::vector<Bytes> exposed;
  std::string sent;
  unsigned sends = 0, abandons = 0, revocations = 0, forgets = 0, receives = 0;
};

class ConnectionBelow final : public Connection {
 public:
  explicit ConnectionBelow(Below& below) : below_(below) {}
  ~ConnectionBelow() override { below_.gone = true; }
  ConnectionBelow(const ConnectionBelow&) = delete;
  ConnectionBelow& operator=(const ConnectionBelow&) = delete;

  void post_receive(ReceiveBuffer /*buffer*/) override { ++below_.receives; }
  void post_send(const SendWork& work) override {
    ++below_.sends;
    for (const ConstBytes piece : work.pieces)
      below_.sent.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  Status expose(Bytes /*memory*/, Reach /*reach*/, std::vector<RemoteSegment>& /*to*/) override { return {}; }
  bool expose_as(std::uint32_t handle, Bytes memory, Reach /*reach*/) override {
    below_.handles.push_back(handle);
    below_.exposed.push_back(memory);
    return below_.takes_handles;
  }
  Status revoke(std::span<const RemoteSegment> /*segments*/, std::uint64_t cookie) override {
    ++below_.revocations;
    return taken_back(cookie);
  }
  Status abandon(std::span<const RemoteSegment> /*segments*/, std::uint64_t cookie) override {
    ++below_.abandons;
    return taken_back(cookie);
  }
  void forget(std::span<const RemoteSegment> /*segments*/) override { ++below_.forgets; }
  void post_rdma_write(ConstBytes, const RemoteSegment&, std::uint64_t) override {}
  void post_rdma_read(Bytes, const RemoteSegment&, std::uint64_t) override {}
  void flush() override {}
  [[nodiscard]] std::size_t segments_for(std::size_t /*length*/) const override { return 1; }
  void close() override { below_.closed = true; }
  [[nodiscard]] std::string peer_name() const override { return "below"; }

 private:
  Status taken_back(std::uint64_t cookie) {
    if (!below_.revokes) return Error(ErrorKind::local, EIO, "", "here", "the device is stuck");
    below_.hears->on_completed(cookie);
    return {};
  }
  Below& below_;
};

class AtOnce final : public Carrier {
 public:
  explicit AtOnce(async::Loop& loop) : loop_(loop) {}
  void order(Order order) override { carry_out(order); }
  void hand_over() override {}
  void settle() override { ++settled; }
  async::Loop& loop() override { return loop_; }
  void report(News news) override { tell(news); }
  unsigned settled = 0;

 private:
  async::Loop& loop_;
};

struct Carrying {
  nfsrdma::testing::VirtualWorld world;
  async::Loop loop{world};
  Below below;
  nfsrdma::testing::Recorder hears;
  std::shared_ptr<AtOnce> carrier = std::make_shared<AtOnce>(loop);
  std::unique_ptr<Connection> connection = std::make_unique<CarriedConnection>(
      loop, carrier, "here:1",
      [this](async::Loop& /*there*/, Handler& handler) {
        below.hears = &handler;
        return std::make_unique<ConnectionBelow>(below);
      },
      hears);
};

}  // namespace

TEST_CASE(
    "carrier: a handle that turns out to be taken ends the connection, and nothing more is done on it") {
  Carrying w;
  std::vector<std::byte> memory(100);
  CHECK(w.connection->expose(memory, Reach::remote_write));
  CHECK_FALSE(w.hears.closed);
  w.below.takes_handles = false;
  CHECK(w.connection->expose(memory, Reach::remote_write));  // nobody knows it here yet
  REQUIRE(w.hears.closed);
  CHECK(w.hears.closed->errno_value() == EBUSY);
  CHECK(w.below.closed);
  SendWork work;
  const ConstBytes piece = memory;
  work.pieces = {&piece, 1};
  w.connection->post_send(work);
  w.connection->post_receive(ReceiveBuffer(10));
  CHECK(w.connection->revoke({}, 1));
  w.connection->forget({});
  CHECK(w.below.sends == 0);
  CHECK(w.below.receives == 0);
  CHECK(w.below.revocations == 0);
  CHECK(w.below.forgets == 0);
  CHECK_FALSE(w.connection->expose(memory, Reach::remote_read));
  // The connection below says so, too, which is nothing new.
  w.below.hears->on_closed(Error(ErrorKind::connection, ECONNRESET, "", "here", "closed"));
}

TEST_CASE("T27 carrier: memory that cannot be taken back ends the connection") {
  Carrying w;
  std::vector<std::byte> memory(100);
  const auto exposed = w.connection->expose(memory, Reach::remote_read);
  REQUIRE(exposed);
  REQUIRE(w.below.handles.size() == 1);
  CHECK(w.below.handles.front() == exposed->front().handle);
  CHECK(exposed->front().offset == 0);
  CHECK(w.connection->revoke(*exposed, 5));
  CHECK(w.hears.has(5));
  CHECK(w.below.abandons == 0);
  w.below.revokes = false;
  CHECK(w.connection->abandon(*exposed, 6));
  CHECK(w.below.revocations == 1);
  CHECK(w.below.abandons == 1);
  CHECK_FALSE(w.hears.has(6));
  REQUIRE(w.hears.closed);
  CHECK(w.hears.closed->errno_value() == EIO);
  CHECK(w.below.closed);
}

TEST_CASE("carrier: the pieces of a Send go in their order, and the end waits for the carrier once") {
  Carrying w;
  const std::string text = "onetwothree";
  const ConstBytes all = std::as_bytes(std::span(text.data(), text.size()));
  const ConstBytes pieces[] = {all.first(3), all.subspan(3, 3), all.subspan(6)};
  SendWork work;
  work.cookie = 3;
  work.pieces = pieces;
  w.connection->post_send(work);
  CHECK(w.below.sent == text);
  CHECK(w.carrier->settled == 0);
  w.connection->close();
  CHECK(w.below.closed);
  CHECK(w.below.gone);
  CHECK(w.carrier->settled == 1);
  w.connection->post_receive(ReceiveBuffer(10));
  CHECK(w.below.receives == 0);
  w.connection.reset();
  CHECK(w.carrier->settled == 1);
  CHECK_FALSE(w.hears.closed);
}

}  // namespace nfsrdma::fabric
