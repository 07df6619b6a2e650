// The test server's side of the wire: what it does with requests that take long, whose connections go, that
// come again; and its Calls to clients. Over a connection that is two queues.
#include <doctest/doctest.h>

#include <algorithm>

#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "support/model_fixture.h"
#include "support/nfs_responder.h"
#include "support/virtual_world.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

/// The server's end of a connection. What it sends is left in `sent`.
class Wire final : public fabric::Connection {
 public:
  Wire(std::vector<Octets>& sent, bool& closed) : sent_(sent), closed_(closed) {}
  ~Wire() override { closed_ = true; }
  void post_receive(fabric::ReceiveBuffer) override {}
  void post_send(const fabric::SendWork& work) override {
    Octets& out = sent_.emplace_back();
    for (const auto piece : work.pieces) out.insert(out.end(), piece.begin(), piece.end());
  }
  Status expose(fabric::Bytes, fabric::Reach, std::vector<fabric::RemoteSegment>&) override { return {}; }
  Status revoke(std::span<const fabric::RemoteSegment>, std::uint64_t) override { return {}; }
  Status abandon(std::span<const fabric::RemoteSegment>, std::uint64_t) override { return {}; }
  void forget(std::span<const fabric::RemoteSegment>) override {}
  void post_rdma_write(fabric::ConstBytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void post_rdma_read(fabric::Bytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void flush() override {}
  [[nodiscard]] std::size_t segments_for(std::size_t) const override { return 1; }
  void close() override { closed_ = true; }
  [[nodiscard]] std::string peer_name() const override { return "test"; }

 private:
  std::vector<Octets>& sent_;
  bool& closed_;
};

/// The client's end.
struct End {
  fabric::Handler* handler = nullptr;
  std::vector<Octets> sent;  // by the server
  bool closed = false;
  std::uint32_t xid = 0;

  void send(const Request& request) {
    rdma_msg header;
    header.rdma_xid = ++xid;
    header.rdma_credit = 8;
    header.proc = rdma_proc::RDMA_MSG;
    xdr::Buffer bytes;
    rpcrdma::encode(header, bytes);
    xdr::Message call;
    rpc::begin_call(call, NFS4_PROGRAM, 4, NFSPROC4_COMPOUND, rpc::Credential::sys("test", 1000, 100, {}));
    xdr::store_u32(call.stream.data(), xid);
    Octets whole(bytes.bytes().begin(), bytes.bytes().end());
    whole.insert(whole.end(), call.stream.bytes().begin(), call.stream.bytes().end());
    const Octets body = request.bytes();
    whole.insert(whole.end(), body.begin(), body.end());
    fabric::ReceiveBuffer buffer(whole.size());
    std::ranges::copy(whole, buffer.storage().begin());
    buffer.set_length(whole.size());
    handler->on_received(std::move(buffer), std::nullopt);
  }
  /// The status of the COMPOUND that was answered last.
  nfsstat4 last() {
    REQUIRE(!sent.empty());
    rdma_msg header;
    const auto decoded = rpcrdma::decode(sent.back(), header);
    return Results(xdr::ConstBytes(sent.back()).subspan(decoded.size + rpc::kReplyHeaderSize)).status;
  }
};

class Knock final : public fabric::Incoming {
 public:
  explicit Knock(End& end) : end_(end) {}
  [[nodiscard]] fabric::ConstBytes private_data() const override { return {}; }
  [[nodiscard]] const std::string& peer_name() const override { return name_; }
  [[nodiscard]] Result<std::unique_ptr<fabric::Connection>> accept(std::vector<std::byte>,
                                                                   fabric::Handler& handler) override {
    end_.handler = &handler;
    return std::unique_ptr<fabric::Connection>(std::make_unique<Wire>(end_.sent, end_.closed));
  }
  void reject(fabric::ConstBytes) override {}

 private:
  End& end_;
  std::string name_ = "test";
};

struct Server {
  // A stall or a standstill ends when the test lets time pass, however busy the machine is.
  VirtualWorld world;
  async::Loop loop{world};
  End first, second;  // connections 1 and 2
  Responder responder{loop};
  ServerState& state = responder.state;
  ModelClient client{state, "a"};

  explicit Server(const Habits& habits = {}) {
    state.habits = habits;
    responder.accept(std::make_unique<Knock>(first));
    responder.accept(std::make_unique<Knock>(second));
    REQUIRE(client.establish() == NFS4_OK);
  }
  ~Server() {
    responder.drop_connections();
    loop.turn(loop.now());
  }
  [[nodiscard]] auto created() const {
    return std::ranges::count_if(state.executed, [](const Executed& one) { return one.op == OP_CREATE; });
  }
  void turn_until(const std::function<bool()>& so) {
    while (!so()) loop.turn(loop.now() + 1s);
  }
};

TEST_CASE("model: what stalls is executed at the end, once, though its connection is gone") {
  Server m;
  m.responder.stall(OP_CREATE);
  m.first.send(m.client.in_slot(make_directory("d")));
  CHECK(m.responder.held() == 1);
  CHECK(m.first.sent.empty());
  m.second.send(m.client.in_slot(Request(), 1));
  CHECK(m.second.last() == NFS4_OK);  // other slots go on
  m.responder.drop_connection(1);
  m.second.send(m.client.in_slot(make_directory("d"), 0, true, true));
  CHECK(m.second.last() == NFS4ERR_DELAY);
  CHECK(m.state.find("/d") == nullptr);
  m.responder.release();
  CHECK(m.state.find("/d") != nullptr);
  m.second.send(m.client.in_slot(make_directory("d"), 0, true, true));
  CHECK(m.second.last() == NFS4_OK);
  CHECK(m.created() == 1);
  CHECK(m.first.sent.empty());
  CHECK(m.state.problems == "");
}

TEST_CASE("model: a retransmission that waits for the first execution gets its answer") {
  Habits habits;
  habits.at_work = Habits::AtWork::hold;
  Server m(habits);
  m.responder.stall(OP_CREATE);
  m.first.send(m.client.in_slot(make_directory("d")));
  m.responder.drop_connection(1);
  m.second.send(m.client.in_slot(make_directory("d"), 0, true, true));
  CHECK(m.second.sent.empty());
  m.responder.release();
  CHECK(m.second.last() == NFS4_OK);
  CHECK(m.created() == 1);
}

TEST_CASE("model: a restart forgets what was under way") {
  Server m;
  m.responder.stall(OP_CREATE);
  m.first.send(m.client.in_slot(make_directory("d")));
  m.responder.restart(0s);
  m.responder.release();
  CHECK(m.first.closed);
  CHECK(m.created() == 0);
  CHECK(m.state.find("/d") == nullptr);
}

TEST_CASE("model: a stall has an end, and so has a server that stands still") {
  Server m;
  m.responder.stall(OP_CREATE, 1ms);
  m.first.send(m.client.in_slot(make_directory("d")));
  CHECK(m.first.sent.empty());
  m.turn_until([&] { return !m.first.sent.empty(); });
  CHECK(m.first.last() == NFS4_OK);
  m.responder.freeze(1ms);
  m.first.send(m.client.in_slot(make_directory("e")));
  CHECK(m.first.sent.size() == 1);
  m.turn_until([&] { return m.first.sent.size() == 2; });
  CHECK(m.first.last() == NFS4_OK);
  CHECK(m.created() == 2);
}

TEST_CASE("model: the server's Calls to one client do not wait for another one's") {
  Server m;
  ModelClient other(m.state, "b", 2);
  REQUIRE(other.establish() == NFS4_OK);
  bool gone = false;
  m.responder.recall_any(m.client.id, 0, {}, {});
  m.responder.recall_any(m.client.id, 1, {}, [&](nfsstat4) { gone = true; });
  m.responder.recall_any(other.id, 0, {}, {});
  CHECK(m.first.sent.size() == 1);  // its second Call waits for the slot
  CHECK(m.second.sent.size() == 1);
  m.responder.drop_connection(1);
  CHECK(m.second.sent.size() == 1);
  m.state.discard_client(m.client.id);
  m.responder.callbacks.pump();
  CHECK(gone);
}

TEST_CASE("model: a delegation that is in somebody's way is recalled over the wire") {
  Habits habits;
  habits.delegates = Habits::Delegate::readers;
  habits.recalls_on_conflict = true;
  Server m(habits);
  ModelClient other(m.state, "b", 2);
  REQUIRE(other.establish() == NFS4_OK);
  m.state.make("/f", NF4REG);
  REQUIRE(status_of(m.client.open("/", "f", OPEN4_SHARE_ACCESS_READ)) == NFS4_OK);
  CHECK(status_of(other.open("/", "f")) == NFS4ERR_DELAY);
  m.turn_until([&] { return !m.first.sent.empty(); });
  CHECK(m.second.sent.empty());
}

}  // namespace
}  // namespace nfsrdma::testing
