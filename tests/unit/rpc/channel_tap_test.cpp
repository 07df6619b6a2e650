// What a Tap of a Channel's connection is told: each message, the memory that the server may use until it has
// been taken back, and the connection's beginning and end.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "fabric/tap.h"
#include "support/wired.h"

namespace nfsrdma::rpc {
namespace {

namespace rt = rpcrdma::testing;
using testing::Wire;
using testing::Wired;

using Heard = std::vector<std::string>;

class NotingTap final : public fabric::Tap {
 public:
  NotingTap(const std::atomic<bool>& on, Heard& heard) : Tap(on), heard_(heard) {}
  void announced(fabric::ConstBytes /*private_data*/) override { heard_.emplace_back("announced"); }
  void established(const fabric::Established& /*established*/) override {
    heard_.emplace_back("established");
  }
  void closed(const Error* why) override {
    heard_.push_back("closed " + (why != nullptr ? why->message() : "by us"));
  }
  void exposed(fabric::Bytes memory, std::span<const fabric::RemoteSegment> segments) override {
    heard_.push_back("exposed " + std::to_string(memory.size()) + " in " + std::to_string(segments.size()));
  }
  void taken_back(std::span<const fabric::RemoteSegment> segments) override {
    heard_.push_back("taken back " + std::to_string(segments.size()));
  }
  void sent(fabric::ConstBytes /*message*/) override { heard_.emplace_back("sent"); }
  void received(fabric::ConstBytes /*message*/, std::optional<std::uint32_t> /*invalidated*/) override {
    heard_.emplace_back("received");
  }

 private:
  Heard& heard_;
};

struct Tapped {
  std::atomic<bool> on = true;
  Heard heard;
  [[nodiscard]] ChannelOptions options() {
    ChannelOptions out;
    out.tap = [this](const fabric::Destination& to) {
      heard.push_back("to " + to.host);
      return std::make_unique<NotingTap>(on, heard);
    };
    return out;
  }
};

}  // namespace

TEST_CASE("channel: a tap is told of a connection, its messages and its memory") {
  Tapped tapped;
  Wired w(tapped.options());
  Wire& wire = w.establish();
  CHECK(tapped.heard == Heard{"to server", "established", "sent", "received"});
  tapped.heard.clear();
  std::vector<std::byte> memory(8000);
  auto call = Wired::made(w.channel, rt::read_call(memory));
  w.start(call);
  CHECK(tapped.heard == Heard{"exposed 8000 in 1", "sent"});
  wire.takes_back_at_once = true;
  w.answer(wire, rt::ReplyMaker(wire.last_call()));
  REQUIRE(tapped.heard.size() == 4);
  CHECK(tapped.heard[2] == "received");
  CHECK(tapped.heard[3] == "taken back 1");
  tapped.heard.clear();
  w.lose(wire, Wired::lost("reset by peer"));
  CHECK(tapped.heard == Heard{"closed reset by peer"});
}

TEST_CASE("channel: a tap that is off hears only of the connection's beginning and end") {
  Tapped tapped;
  tapped.on = false;
  {
    Wired w(tapped.options());
    w.establish();
  }
  CHECK(tapped.heard == Heard{"to server", "established", "closed shut down by its user"});
}

TEST_CASE(
    "channel: memory that is taken back from a call which is given up is told before the caller has it") {
  Tapped tapped;
  Wired w(tapped.options());
  Wire& wire = w.establish();
  wire.takes_back_at_once = true;
  std::vector<std::byte> memory(8000);
  {
    auto call = Wired::made(w.channel, rt::read_call(memory));
    w.start(call);
    tapped.heard.clear();
  }
  CHECK(tapped.heard == Heard{"taken back 1"});
}

}  // namespace nfsrdma::rpc
