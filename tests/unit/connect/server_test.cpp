// From options to a root: which versions, addresses and ports are tried, and which mount service is asked how.
#include "connect/server.h"

#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aux/local_address.h"
#include "aux/mountd.h"
#include "aux/rpcbind.h"
#include "connect/flavors.h"
#include "connect/protocol.h"
#include "connect/resolve.h"
#include "fabric/address.h"
#include "fabric/carrier.h"
#include "fabric/verbs/library.h"
#include "rpc/message.h"
#include "security/choice.h"
#include "security/sys.h"
#include "sim/fabric/network.h"
#include "support/engine_fixture.h"
#include "support/fixed_roots.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/no_locks.h"
#include "support/rpc_program.h"
#include "support/silent_helpers.h"
#include "support/skipped.h"
#include "support/virtual_world.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;
using testing::ok;

constexpr std::uint16_t kPort = 20049;

constexpr std::uint32_t kOffersSys = 1, kOffersKrb5i = 390004;  // as MNT says them (RFC 2623 2.3.1)

/// A client that names no version, of a server on a simulated machine, which serves all of them.
struct AnyVersion {
  sim::Simulation world{1};
  sim::Network network{world};
  testing::NfsServer server{network, world.add_host("server")};
  testing::ClientLoop place{server, "client"};
  std::unique_ptr<Server> client;

  ~AnyVersion() {
    client->shut_down();
    place.loop().drop_tasks();
    client.reset();
    CHECK(server.problems() == "");
  }
  Status connect(const std::string& options = "sec=sys") {
    async::Loop& loop = place.loop();
    connect::Target target = server.connect_target(options);
    target.options.port_fixed = true;  // simulated machines have no rpcbind
    Surroundings around;
    around.host = "client";
    around.process = "1";
    around.dial = network.dialer(*place.host());
    around.roots = std::make_shared<testing::FixedRoots>();
    around.locks = std::make_shared<testing::NoLocks>();
    const std::vector addresses{sim::Network::address(*server.host(), server.port())};
    client = std::make_unique<Server>(loop, target, addresses, Server::NoticeSink(), std::nullopt, around);
    return loop.run(client->connect(loop.now() + 30s));
  }
};

/// A server of NFS on this machine with a mount service beside it, and a client that has to ask that for its root.
struct WithMountService {
  std::vector<std::uint32_t> offered{kOffersSys};  ///< flavours of the export
  testing::NfsServer server;
  testing::RpcPrograms programs;
  async::Loop loop;
  Surroundings around = Surroundings::system();
  connect::Target target;
  rpc::Address address;
  std::unique_ptr<Server> client;
  bool connected = false;

  explicit WithMountService(const std::string& options) : target(server.connect_target(options)) {
    target.path = "/srv";
    target.options.port_fixed = true;  // the server is where the test says, and rpcbind is not asked
    target.options.mount_port = programs.port();
    address.storage = testing::loopback(server.port());
    address.length = sizeof(sockaddr_in);
    around.locks = std::make_shared<testing::NoLocks>();
    const engine::FileHandle root = testing::handle_of(1);
    programs.serve<aux::MNT3>([this, root](const aux::dirpath&) {
      aux::mountres3 res;
      auto& mounted = res.emplace<aux::MNT3_OK>();
      mounted.fhandle.length = root.length;
      std::ranges::copy_n(root.bytes.begin(), root.length, mounted.fhandle.bytes.begin());
      mounted.auth_flavors.value = offered;
      return res;
    });
    programs.serve<aux::UMNT3>([](const aux::dirpath&) { return xdr::Void(); });
  }
  ~WithMountService() {
    if (connected) CHECK(ok(loop.run(client->close(loop.now() + 30s))));
    client->shut_down();
    loop.drop_tasks();
    client.reset();
    CHECK(server.problems() == "");
  }
  Status connect() {
    client = std::make_unique<Server>(loop, target, std::vector{address}, Server::NoticeSink(), std::nullopt,
                                      around);
    Status done = loop.run(client->connect(loop.now() + 30s));
    connected = done.has_value();
    return done;
  }
  /// How often it came: "100005.3.1/tcp".
  [[nodiscard]] std::ptrdiff_t count(const std::string& call) const {
    return std::ranges::count(programs.calls(), call);
  }
};

}  // namespace

// ---- Versions ----

TEST_CASE("connect: a version that there is not is the caller's mistake, and nobody is asked") {
  struct Row {
    std::optional<unsigned> version;
    unsigned minor;
  };
  for (const Row& row : {Row{5, 2}, Row{1, 2}, Row{4, 3}}) {
    CAPTURE(row.minor);
    testing::VirtualWorld world;
    async::Loop loop(world);
    connect::Target target;
    target.host = "server";
    target.options.version = row.version;
    target.options.minor_version = row.minor;
    target.options.minor_version_fixed = true;
    Surroundings around;
    around.flavor = std::make_shared<security::Sys>("machine", security::Identity{});
    bool asked = false;
    around.dial = [&asked](async::Loop&, const fabric::DialOptions&, fabric::Handler&) {
      asked = true;
      return std::unique_ptr<fabric::Connection>();
    };
    Server server(loop, target, {}, {}, std::nullopt, around);
    const Status done = loop.run(server.connect(loop.now() + 1s));
    REQUIRE_FALSE(done);
    CHECK(done.error().kind() == ErrorKind::usage);
    CHECK(done.error().errno_value() == EINVAL);
    CHECK_FALSE(asked);
  }
}

TEST_CASE(
    "connect: an older version is tried where the server does not speak the newer one, and only there") {
  SUBCASE("the server speaks version 3") {
    AnyVersion m;
    m.server.on_server([](testing::Responder& responder) { responder.highest_version = 3; });
    REQUIRE(ok(m.connect()));
    CHECK(m.client->info().version == "3");
  }
  SUBCASE("it speaks all of them") {
    AnyVersion m;
    REQUIRE(ok(m.connect()));
    CHECK(m.client->info().version == "4.2");
  }
  SUBCASE("it refuses this client") {
    for (const nfs4::nfs_opnum4 op : {nfs4::OP_EXCHANGE_ID, nfs4::OP_CREATE_SESSION}) {
      CAPTURE(static_cast<unsigned>(op));
      AnyVersion m;
      m.server.answer(op, nfs4::NFS4ERR_ACCESS, 1000);
      const Status done = m.connect();
      REQUIRE_FALSE(done);
      CHECK(done.error().kind() == ErrorKind::server);
      CHECK(done.error().status() == nfs4::NFS4ERR_ACCESS);
      // Nothing came behind the refusal, in whichever version.
      REQUIRE_FALSE(m.server.calls().empty());
      CHECK(m.server.calls().back().has(op));
    }
  }
}

TEST_CASE("connect: few calls lead to the first bytes of a file; no more than these") {
  struct Row {
    const char* options;
    std::uint64_t connecting, reading;
  };
  // NFSv4: EXCHANGE_ID; CREATE_SESSION; RECLAIM_COMPLETE with the limits. Then a READ by path. NFSv3: NULL; FSINFO;
  // PATHCONF. Then LOOKUP twice, ACCESS and READ.
  for (const Row& row :
       {Row{"vers=4.2,sec=sys", 3, 1}, Row{"vers=4.1,sec=sys", 3, 1}, Row{"vers=3,sec=sys", 3, 4}}) {
    CAPTURE(row.options);
    AnyVersion m;
    m.server.add_directory("/d");
    m.server.add_file("/d/small", "text");
    REQUIRE(ok(m.connect(row.options)));
    CHECK(m.client->info().calls == row.connecting);
    const engine::Spot directory(std::nullopt, {"d"});
    std::array<std::byte, 100> data{};
    engine::ManyRead item{{&directory, "small"}, data};
    m.place.loop().run(m.client->engine()->read_many(nullptr, {&item}));
    REQUIRE(item.result);
    REQUIRE(ok(*item.result));
    CHECK((*item.result)->count == 4);
    CHECK((*item.result)->eof);
    CHECK(m.client->info().calls == row.connecting + row.reading);
  }
}

// ---- Connections ----

namespace {

/// A connection that does not come to be.
class Unmade final : public fabric::Connection {
 public:
  Unmade(async::Loop& loop, fabric::Handler& handler, int errno_value) {
    loop.post([&handler, errno_value, token = std::weak_ptr(alive_)] {
      if (!token.expired())
        handler.on_closed(Error(ErrorKind::connection, errno_value, "connect", "", "nobody is there"));
    });
  }
  void post_receive(fabric::ReceiveBuffer /*buffer*/) override {}
  void post_send(const fabric::SendWork& /*work*/) override {}
  Status expose(fabric::Bytes /*memory*/, fabric::Reach /*reach*/,
                std::vector<fabric::RemoteSegment>& /*to*/) override {
    return Error(ErrorKind::connection, ENOTCONN, "", "", "");
  }
  Status revoke(std::span<const fabric::RemoteSegment> /*segments*/, std::uint64_t /*cookie*/) override {
    return {};
  }
  Status abandon(std::span<const fabric::RemoteSegment> /*segments*/, std::uint64_t /*cookie*/) override {
    return {};
  }
  void forget(std::span<const fabric::RemoteSegment> /*segments*/) override {}
  void post_rdma_write(fabric::ConstBytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void post_rdma_read(fabric::Bytes, const fabric::RemoteSegment&, std::uint64_t) override {}
  void flush() override {}
  [[nodiscard]] std::size_t segments_for(std::size_t /*length*/) const override { return 1; }
  void close() override { alive_.reset(); }
  [[nodiscard]] std::string peer_name() const override { return "nobody"; }

 private:
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

class IdleCarrier final : public fabric::Carrier {
 public:
  explicit IdleCarrier(async::Loop& loop) : loop_(loop) {}
  void order(fabric::Order /*order*/) override {}
  void hand_over() override {}
  void settle() override {}
  async::Loop& loop() override { return loop_; }
  void report(fabric::News /*news*/) override {}

 private:
  async::Loop& loop_;
};

void unheard(const std::string& /*notice*/) {}

rpc::Address address_of(const char* text) {
  const auto found = aux::address_in(text);
  REQUIRE(found);
  return aux::with_port(*found, kPort);
}

/// Servers that are not there, and who was asked for them.
struct Nobody {
  testing::VirtualWorld world;
  async::Loop loop{world};
  std::vector<fabric::DialOptions> asked;
  std::vector<int> errors{ECONNREFUSED};  // of the first, the second …; the last one's goes on
  std::vector<std::shared_ptr<fabric::Carrier>> carriers;
  unsigned carriers_wanted = 0;
  connect::Target target;
  Surroundings around;

  Nobody() {
    target.host = "server";
    target.options.version = 4;
    around.flavor = std::make_shared<security::Sys>("machine", security::Identity{});
    around.dial = [this](async::Loop& there, const fabric::DialOptions& options,
                         fabric::Handler& handler) -> std::unique_ptr<fabric::Connection> {
      asked.push_back(options);
      return std::make_unique<Unmade>(there, handler, errors[std::min(asked.size(), errors.size()) - 1]);
    };
    around.carriers = [this](async::Loop&, unsigned count) {
      carriers_wanted = count;
      return carriers;
    };
  }
};

}  // namespace

TEST_CASE("connect: each address is tried, has its share of the time, and the last one's error is told") {
  Nobody m;
  m.errors = {ECONNREFUSED, ENETUNREACH, EHOSTUNREACH};
  const std::vector<rpc::Address> addresses{address_of("10.0.0.1"), address_of("fd00::2"),
                                            address_of("10.0.0.3")};
  m.target.options.connect_timeout = 60s;
  m.target.options.crc = Crc::on;
  const async::TimePoint begin = m.loop.now();
  Server server(m.loop, m.target, addresses, unheard, std::nullopt, m.around);
  const Status done = m.loop.run(server.connect(begin + 12s));
  REQUIRE_FALSE(done);
  CHECK(done.error().errno_value() == EHOSTUNREACH);
  REQUIRE(m.asked.size() == 3);
  CHECK(fabric::peer_text(m.asked[0].address, "") == "10.0.0.1:20049");
  CHECK(fabric::peer_text(m.asked[1].address, "") == "[fd00::2]:20049");
  CHECK(fabric::peer_text(m.asked[2].address, "") == "10.0.0.3:20049");
  CHECK(m.asked[0].deadline == begin + 4s);
  CHECK(m.asked[1].deadline == begin + 6s);  // the first has left all of its own
  CHECK(m.asked[2].deadline == begin + 12s);
  for (const fabric::DialOptions& one : m.asked) {
    CHECK(one.host == "server");
    CHECK(one.crc == fabric::iwarp::CrcPolicy::on);
    CHECK((one.carrier == nullptr));
  }
}

TEST_CASE("connect: over the fabric that is named, with room for as many calls as credits are wanted") {
  struct Row {
    Fabric named;
    fabric::Choice dialled;
  };
  for (const Row& row :
       {Row{Fabric::automatic, fabric::Choice::automatic}, Row{Fabric::iwarp, fabric::Choice::iwarp},
        Row{Fabric::verbs, fabric::Choice::verbs}}) {
    CAPTURE(static_cast<int>(row.named));
    Nobody m;
    m.target.options.fabric = row.named;
    m.target.options.credits = 5;
    Server server(m.loop, m.target, {address_of("10.0.0.1")}, unheard, std::nullopt, m.around);
    CHECK_FALSE(m.loop.run(server.connect(m.loop.now() + 1s)));
    REQUIRE(m.asked.size() == 1);
    CHECK(m.asked[0].choice == row.dialled);
    // Sends: the calls, and as many answers to the server's calls. Receives: the replies, and the server's calls.
    CHECK(m.asked[0].queues.send_count == 2 * 5);
    CHECK(m.asked[0].queues.receive_count == 5 + kCallbackSlots + rpcrdma::kSpareReceives);
  }
}

TEST_CASE("connect: as many connections as are wanted, to further addresses in turn, shared by the threads") {
  const std::vector<std::string> two{"10.0.0.2", "10.0.0.3"};
  struct Row {
    std::uint32_t connections, threads;
    std::vector<std::string> ports;
    unsigned carriers;  // that there are
    std::vector<std::string> servers;
    std::vector<unsigned> carried_by;  // 0: the loop itself
  };
  const std::string here = "server";
  const std::vector<Row> rows{
      {1, 1, {}, 0, {here}, {0}},
      {1, 0, {}, 0, {here}, {0}},
      {3, 1, {}, 0, {here, here, here}, {0, 0, 0}},
      {1, 3, {}, 2, {here, here, here}, {0, 1, 2}},
      {5, 3, {}, 2, {here, here, here, here, here}, {0, 1, 2, 0, 1}},
      {1, 3, {}, 1, {here, here, here}, {0, 1, 0}},  // no thread for another was to be had
      {1, 1, two, 0, {here, two[0], two[1]}, {0, 0, 0}},
      {4, 2, two, 1, {here, two[0], two[1], two[0]}, {0, 1, 0, 1}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.connections);
    CAPTURE(row.threads);
    Nobody m;
    m.target.options.connections = row.connections;
    m.target.options.threads = row.threads;
    m.target.options.remote_ports = row.ports;
    for (unsigned i = 0; i < row.carriers; ++i) m.carriers.push_back(std::make_shared<IdleCarrier>(m.loop));
    Server server(m.loop, m.target, {address_of("10.0.0.1")}, unheard, std::nullopt, m.around);
    CHECK_FALSE(m.loop.run(server.connect(m.loop.now() + 1s)));
    CHECK(m.carriers_wanted == (row.threads > 1 ? row.threads - 1 : 0));
    REQUIRE(server.channels().size() == row.servers.size());
    for (std::size_t i = 0; i < row.servers.size(); ++i) {
      CAPTURE(i);
      rpc::Channel& channel = *server.channels()[i];
      const bool elsewhere = row.servers[i] != here;
      CHECK(channel.server() == row.servers[i]);
      CHECK(channel.elsewhere() == elsewhere);
      if (i != 0) CHECK_FALSE(m.loop.run(channel.connect(m.loop.now() + 1s)));
      REQUIRE(m.asked.size() == i + 1);
      CHECK(fabric::host_text(m.asked[i].address) == (elsewhere ? row.servers[i] : "10.0.0.1"));
      CHECK(fabric::port_of(m.asked[i].address) == kPort);
      const unsigned by = row.carried_by[i];
      CHECK((m.asked[i].carrier == (by == 0 ? nullptr : m.carriers[by - 1])));
    }
  }
}

namespace {

/// A connection of the system's, and how many Receives were posted before the first Send on it.
class Watched final : public fabric::Connection {
 public:
  Watched(std::unique_ptr<fabric::Connection> of, unsigned& receives)
      : of_(std::move(of)), receives_(receives) {}
  void post_receive(fabric::ReceiveBuffer buffer) override {
    if (!has_sent_) ++receives_;
    of_->post_receive(std::move(buffer));
  }
  void post_send(const fabric::SendWork& work) override {
    has_sent_ = true;
    of_->post_send(work);
  }
  bool send_copy(fabric::ConstBytes message) override {
    has_sent_ = true;
    return of_->send_copy(message);
  }
  Status expose(fabric::Bytes memory, fabric::Reach reach, std::vector<fabric::RemoteSegment>& to) override {
    return of_->expose(memory, reach, to);
  }
  Status revoke(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) override {
    return of_->revoke(segments, cookie);
  }
  bool revoke_now(std::span<const fabric::RemoteSegment> segments) override {
    return of_->revoke_now(segments);
  }
  Status abandon(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) override {
    return of_->abandon(segments, cookie);
  }
  bool settle() override { return of_->settle(); }
  void forget(std::span<const fabric::RemoteSegment> segments) override { of_->forget(segments); }
  void post_rdma_write(fabric::ConstBytes local, const fabric::RemoteSegment& remote,
                       std::uint64_t cookie) override {
    of_->post_rdma_write(local, remote, cookie);
  }
  void post_rdma_read(fabric::Bytes local, const fabric::RemoteSegment& remote,
                      std::uint64_t cookie) override {
    of_->post_rdma_read(local, remote, cookie);
  }
  void flush() override { of_->flush(); }
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override {
    return of_->segments_for(length);
  }
  void close() override { of_->close(); }
  [[nodiscard]] std::string peer_name() const override { return of_->peer_name(); }

 private:
  std::unique_ptr<fabric::Connection> of_;
  unsigned& receives_;
  bool has_sent_ = false;
};

}  // namespace

TEST_CASE("B11 connect: Receives are posted for all callbacks that are announced, whatever the options are") {
  for (const char* options :
       {"vers=4.2,sec=sys", "vers=4.1,sec=sys,credits=1", "vers=4.1,sec=sys,nconnect=2"}) {
    CAPTURE(options);
    testing::NfsServer server;
    async::Loop loop;
    const connect::Target target = server.connect_target(options);
    rpc::Address address;
    address.storage = testing::loopback(server.port());
    address.length = sizeof(sockaddr_in);
    std::deque<unsigned> receives;  // by connection
    Surroundings around = Surroundings::system();
    around.dial = [&receives, dial = around.dial](async::Loop& there, const fabric::DialOptions& how,
                                                  fabric::Handler& handler) {
      receives.push_back(0);
      return std::make_unique<Watched>(dial(there, how, handler), receives.back());
    };
    Server client(loop, target, {address}, unheard, std::nullopt, around);
    REQUIRE(loop.run(client.connect(loop.now() + 30s)));
    const auto created = server.last_create_session();
    REQUIRE(created);
    const std::uint32_t announced = created->csa_back_chan_attrs.ca_maxrequests;
    CHECK(announced > 0);
    REQUIRE(receives.size() == target.options.connections);
    // And one for the Reply to that Send.
    for (const unsigned one : receives) CHECK(one >= announced + 1);
    CHECK(loop.run(client.close(loop.now() + 30s)));
    client.shut_down();
    loop.drop_tasks();
  }
}

namespace {

/// An entry of rpcbind's list.
aux::rpcb entry(std::uint32_t program, std::uint32_t version, const std::string& netid, std::uint16_t port) {
  const std::string any = netid.ends_with('6') ? "::" : "0.0.0.0";
  const std::string where = any + "." + std::to_string(port / 256) + "." + std::to_string(port % 256);
  return {program, version, {netid}, {where}, {"superuser"}};
}

void list(testing::RpcPrograms& rpcbind, const std::vector<aux::rpcb>& entries) {
  rpcbind.serve<aux::RPCB4_DUMP>([entries](const xdr::Void&) {
    aux::rpcblist out;
    out.list.value.assign(entries.begin(), entries.end());
    return out;
  });
}

/// A machine where nobody takes a connection, with an rpcbind that has several services.
struct Registry {
  explicit Registry(int family = AF_INET) : rpcbind(family) {
    list(rpcbind,
         {entry(100003, 3, "tcp", 2049), entry(100003, 4, "rdma", 21040), entry(100003, 4, "rdma6", 21041),
          entry(100003, 3, "rdma", 21030), entry(100003, 3, "rdma6", 21031), entry(100003, 2, "rdma6", 21021),
          entry(100003, 2, "rdma", 21020), entry(100005, 3, "rdma", 21050)});
  }
  /// The ports that connections were tried to, by a client with these options.
  std::vector<std::uint16_t> dialled(const std::string& options) {
    connect::Target target{fabric::host_text(rpcbind.address().storage), "/", {}};
    REQUIRE(target.options.set_all("sec=sys"));
    if (!options.empty()) REQUIRE(target.options.set_all(options));
    const auto addresses = resolve(target.host, target.options.port, async::Clock::now() + 30s, -1);
    REQUIRE(addresses);
    std::vector<std::uint16_t> out;
    Surroundings around = Surroundings::system();
    around.rpcbind_port = rpcbind.port();
    around.dial = [&out](async::Loop& there, const fabric::DialOptions& how, fabric::Handler& handler) {
      out.push_back(fabric::port_of(how.address));
      return std::make_unique<Unmade>(there, handler, ECONNREFUSED);
    };
    async::Loop loop;
    Server client(loop, target, *addresses, unheard, std::nullopt, around);
    CHECK_FALSE(loop.run(client.connect(loop.now() + 30s)));
    client.shut_down();
    loop.drop_tasks();
    return out;
  }
  testing::RpcPrograms rpcbind;
};

using Ports = std::vector<std::uint16_t>;

}  // namespace

TEST_CASE("T33 connect: versions 3 and 2 go to the port that rpcbind has for them, under rdma and rdma6") {
  {
    Registry m(AF_INET);
    CHECK(m.dialled("vers=3") == Ports{21030});
    CHECK(m.dialled("vers=2") == Ports{21020});
    CHECK(m.rpcbind.calls() == std::vector<std::string>(2, "100000.4.4/tcp"));
  }
  if (!testing::RpcPrograms::possible(AF_INET6)) return testing::skip("there is no IPv6 here");
  Registry m(AF_INET6);
  CHECK(m.dialled("vers=3") == Ports{21031});
  CHECK(m.dialled("vers=2") == Ports{21021});
  CHECK(m.rpcbind.calls() == std::vector<std::string>(2, "100000.4.4/tcp"));
}

TEST_CASE("T33 connect: port= wins, version 4 goes to 20049, and neither asks rpcbind") {
  Registry m;
  CHECK(m.dialled("vers=3,port=20123") == Ports{20123});
  CHECK(m.dialled("vers=2,port=20123") == Ports{20123});
  CHECK(m.dialled("vers=3,port=20049") == Ports{20049});
  CHECK(m.dialled("vers=4.2,port=20123") == Ports{20123});
  for (const char* options : {"vers=4.2", "vers=4.1", "vers=4.0", "vers=4", ""}) {
    CAPTURE(options);
    CHECK(m.dialled(options) == Ports{20049});
  }
  CHECK(m.rpcbind.calls().empty());
}

TEST_CASE("T33 connect: version 3 goes to 20049 where rpcbind does not have it, or does not answer") {
  Registry m;
  list(m.rpcbind, {entry(100003, 3, "tcp", 2049), entry(100003, 4, "rdma", 21040)});
  CHECK(m.dialled("vers=3") == Ports{20049});
  m.rpcbind.close_tcp();
  m.rpcbind.close_udp();
  CHECK(m.dialled("vers=3") == Ports{20049});
}

TEST_CASE("T33 connect: a silent rpcbind costs a few seconds, and the usual port has the rest of the time") {
  testing::RpcPrograms rpcbind;
  rpcbind.serve(aux::kRpcbindProgram, 4, 4, [](xdr::ConstBytes) { return std::nullopt; });
  testing::SilentHelpers world;
  async::Loop loop(world);
  connect::Target target{"127.0.0.1", "/", {}};
  REQUIRE(target.options.set_all("vers=3,sec=sys"));
  const async::TimePoint begun = loop.now();
  Ports dialled;
  async::Clock::duration waited{}, left{};
  Surroundings around = Surroundings::system();
  around.rpcbind_port = rpcbind.port();
  around.dial = [&](async::Loop& there, const fabric::DialOptions& how, fabric::Handler& handler) {
    dialled.push_back(fabric::port_of(how.address));
    waited = there.now() - begun;
    left = how.deadline - there.now();
    return std::make_unique<Unmade>(there, handler, ECONNREFUSED);
  };
  target.options.connect_timeout = 60s;
  Server client(loop, target, {address_of("127.0.0.1")}, unheard, std::nullopt, around);
  CHECK_FALSE(loop.run(client.connect(begun + 60s)));
  CHECK(dialled == Ports{kPort});
  CHECK(waited < 10s);
  CHECK(left > 45s);
  client.shut_down();
  loop.drop_tasks();
}

TEST_CASE("T33 connect: version 3 is found at its own port, also where version 4 was tried at another") {
  testing::NfsServer old, server;
  old.on_server([](testing::Responder& responder) { responder.highest_version = 2; });
  server.on_server(
      [](testing::Responder& responder) { responder.lowest_version = responder.highest_version = 3; });
  testing::RpcPrograms programs;
  list(programs, {entry(100003, 3, "rdma", server.port()), entry(100005, 3, "tcp", programs.port())});
  programs.serve<aux::MNT3>([](const aux::dirpath&) {
    aux::mountres3 res;
    const engine::FileHandle root = testing::handle_of(1);
    auto& handle = res.emplace<aux::MNT3_OK>().fhandle;
    handle.length = root.length;
    std::ranges::copy_n(root.bytes.begin(), root.length, handle.bytes.begin());
    return res;
  });
  programs.serve<aux::UMNT3>([](const aux::dirpath&) { return xdr::Void(); });
  for (const char* options : {"sec=sys", "vers=3,sec=sys", "sec=sys,nconnect=3"}) {
    CAPTURE(options);
    async::Loop loop;
    connect::Target target = old.connect_target(options);  // its port stands for the usual one
    target.path = "/srv";
    rpc::Address address;
    address.storage = testing::loopback(target.options.port);
    address.length = sizeof(sockaddr_in);
    Surroundings around = Surroundings::system();
    around.locks = std::make_shared<testing::NoLocks>();
    around.rpcbind_port = programs.port();
    const unsigned before = server.connections();
    Server client(loop, target, {address}, unheard, std::nullopt, around);
    const Status done = loop.run(client.connect(loop.now() + 30s));
    if (!done) FAIL(done.error().text());
    const Info info = client.info();
    CHECK(info.version == "3");
    CHECK(info.address == "127.0.0.1:" + std::to_string(server.port()));
    CHECK(server.connections() - before == target.options.connections);
    CHECK(testing::eventually([&] { return old.open_connections() == 0; }));
    CHECK(loop.run(client.close(loop.now() + 30s)));
    client.shut_down();
    loop.drop_tasks();
  }
}

TEST_CASE("connect: version 3 leaves nothing with the server's mount service where the rest fails") {
  testing::NfsServer server;
  testing::RpcPrograms programs;
  std::atomic<int> mounts = 0, unmounts = 0;
  programs.serve<aux::MNT3>([&mounts](const aux::dirpath&) {
    ++mounts;
    aux::mountres3 res;
    res.emplace<aux::MNT3_OK>().fhandle.length = 3;  // a handle that the NFS service does not know
    return res;
  });
  programs.serve<aux::UMNT3>([&unmounts](const aux::dirpath&) {
    ++unmounts;
    return xdr::Void();
  });
  async::Loop loop;
  connect::Target target = server.connect_target("vers=3,sec=sys");
  target.path = "/srv";
  target.options.port_fixed = true;
  target.options.mount_port = programs.port();
  rpc::Address address;
  address.storage = testing::loopback(server.port());
  address.length = sizeof(sockaddr_in);
  Surroundings around = Surroundings::system();
  around.locks = std::make_shared<testing::NoLocks>();
  Server client(loop, target, {address}, unheard, std::nullopt, around);
  const Status done = loop.run(client.connect(loop.now() + 30s));
  REQUIRE_FALSE(done);
  CHECK(done.error().kind() == ErrorKind::server);
  CHECK(mounts.load() == 1);
  CHECK(unmounts.load() == 1);
  client.shut_down();
  loop.drop_tasks();
}

// ---- The mount service ----

TEST_CASE("connect: where version 2 is what the server speaks its root is asked of version 1 of MOUNT") {
  WithMountService m("sec=sys");  // vers= is not given
  m.server.on_server([](testing::Responder& responder) { responder.highest_version = 2; });
  m.programs.serve<aux::MNT1>([root = testing::handle_of(1)](const aux::dirpath&) {
    aux::fhstatus res;
    std::ranges::copy_n(root.bytes.begin(), root.length, res.emplace<aux::MNT3_OK>().begin());
    return res;
  });
  m.programs.serve<aux::UMNT1>([](const aux::dirpath&) { return xdr::Void(); });
  REQUIRE(ok(m.connect()));
  CHECK(m.client->info().version == "2");
  CHECK(m.count("100005.1.1/tcp") == 1);
  CHECK(m.count("100005.3.1/tcp") == 0);
}

TEST_CASE("connect: the root is asked of the machine that mounthost= names") {
  WithMountService m("vers=3,sec=sys");
  // The server is at an address where there is no mount service.
  const auto elsewhere = aux::address_in("127.0.0.2");
  REQUIRE(elsewhere);
  m.address = aux::with_port(*elsewhere, m.server.port());
  m.around.dial = [dial = m.around.dial, port = m.server.port()](async::Loop& there, fabric::DialOptions how,
                                                                 fabric::Handler& handler) {
    CHECK(fabric::host_text(how.address) == "127.0.0.2");
    how.address = testing::loopback(port);
    return dial(there, std::move(how), handler);
  };
  m.target.options.mount_host = "127.0.0.1";
  REQUIRE(ok(m.connect()));
  CHECK(m.count("100005.3.1/tcp") == 1);
}

TEST_CASE("connect: a flavour that an export offers and the server cannot do is left for the next one") {
  WithMountService m("vers=3");
  m.offered = {kOffersKrb5i, kOffersSys};
  // Numbers in either case, since this is about the choice.
  const auto numbers = [](Security) {
    return std::make_shared<security::Sys>("machine", security::Identity{});
  };
  m.around.flavor = std::make_shared<security::Choice>(m.loop, std::vector{Security::krb5i, Security::sys},
                                                       Security::sys, numbers);
  SUBCASE("it can do the first") {
    REQUIRE(ok(m.connect()));
    CHECK(m.client->info().security == "krb5i");
    CHECK(m.count("100005.3.1/tcp") == 1);
  }
  SUBCASE("it cannot") {
    m.server.garbage_args(nfs4::OP_GETATTR);  // FSINFO, the first call that needs a flavour
    REQUIRE(ok(m.connect()));
    CHECK(m.client->info().security == "sys");
    CHECK(m.count("100005.3.1/tcp") == 2);
  }
  SUBCASE("it can do none of them") {
    // FSINFO and PATHCONF go out together.
    for (int i = 0; i < 4; ++i) m.server.garbage_args(nfs4::OP_GETATTR);
    const Status done = m.connect();
    REQUIRE_FALSE(done);
    CHECK(done.error().status() == rpc::kGarbageArgs);
  }
  SUBCASE("there is nothing to choose from") {
    m.around.flavor = numbers(Security::sys);
    m.server.garbage_args(nfs4::OP_GETATTR);
    const Status done = m.connect();
    REQUIRE_FALSE(done);
    CHECK(done.error().status() == rpc::kGarbageArgs);
    CHECK(m.count("100005.3.1/tcp") == 1);
  }
}

// ---- What the options mean ----

TEST_CASE("connect: as many calls as credits, but over a device no more than memory can be locked for") {
  connect::Options options;
  options.credits = 64;
  fabric::Established established;
  established.fabric = "iwarp";
  CHECK(most_calls(options, established) == 64);
  established.fabric = "verbs";
  const std::uint32_t most = most_calls(options, established);
  CHECK(most >= 1);
  CHECK(most <= 64);
  if (fabric::verbs::lockable_memory() == UINT64_MAX) CHECK(most == 64);
  // Each shard has a session and a connection of its own.
  options.shards = 16;
  CHECK(most_calls(options, established) >= 1);
  if (fabric::verbs::lockable_memory() < 16ULL << 20) CHECK(most_calls(options, established) == 1);
  options.shards = 0;
  options.rsize = UINT32_MAX;  // whatever the limit is, one call there must be
  CHECK(most_calls(options, established) >= 1);
}

TEST_CASE("connect: the mount service is asked as the options say") {
  connect::Target target;
  target.host = "server";
  const aux::MountOptions plain = mount_options(target, {});
  CHECK(plain.server == "server");
  CHECK_FALSE(plain.transport);
  CHECK(plain.version == 3);
  target.options.mount_host = "other";
  target.options.mount_port = 635;
  target.options.mount_transport = "udp";
  target.options.version = 2;
  target.options.uid = 4711;
  const aux::MountOptions told = mount_options(target, {});
  CHECK(told.server == "other");
  CHECK(told.port == 635);
  CHECK(told.transport == aux::Transport::udp);
  CHECK(told.version == 1);
  CHECK(told.identity.uid == 4711);
  target.options.mount_transport = "tcp";
  CHECK(mount_options(target, {}).transport == aux::Transport::tcp);
}

}  // namespace nfsrdma::connect
