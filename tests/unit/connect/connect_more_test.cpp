// From options to a root, where the server refuses something on the way: which version is tried then, how calls are
// vouched for, and which mount service is asked how.
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aux/local_address.h"
#include "aux/mountd.h"
#include "aux/rpcbind.h"
#include "connect/flavors.h"
#include "connect/server.h"
#include "fabric/address.h"
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
#include "support/virtual_world.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;
using testing::ok;

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
  Status connect() {
    async::Loop& loop = place.loop();
    Target target = server.target("sec=sys");
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
  Target target;
  rpc::Address address;
  std::unique_ptr<Server> client;
  bool connected = false;

  explicit WithMountService(const std::string& options) : target(server.target(options)) {
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

// ---- Who asks ----

TEST_CASE(
    "connect: where sec= names flavours the first of them is the usual one, and AUTH_SYS only if named") {
  struct Row {
    const char* options;
    const char* usual;
  };
  const std::vector<Row> rows{
      {"", "sys"},
      {"sec=sys", "sys"},
      {"sec=krb5", "krb5"},
      {"sec=krb5i", "krb5i"},
      {"sec=krb5p", "krb5p"},
      {"sec=krb5p:krb5i", "krb5p"},
      {"sec=krb5:krb5i:krb5p", "krb5"},
      {"sec=krb5i:sys", "krb5i"},
      {"sec=sys:krb5p", "sys"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.options);
    testing::VirtualWorld world;
    async::Loop loop(world);
    Target target{"server", "/", {}};
    REQUIRE(target.options.set_all(row.options));
    const std::vector<rpc::Address> addresses;
    const Surroundings around;
    const Server::NoticeSink nobody_listens;
    const auto flavor = make_flavor(loop, target, addresses, around, nobody_listens);
    CHECK(flavor->name_of(0) == row.usual);
    const bool is_numbers = flavor->vouch(nullptr).protection == nullptr;
    CHECK(is_numbers == (std::string(row.usual) == "sys"));
  }
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
    for (int i = 0; i < 2; ++i) m.server.garbage_args(nfs4::OP_GETATTR);
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

}  // namespace nfsrdma::connect
