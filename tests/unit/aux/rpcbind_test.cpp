// rpcbind and the portmapper, by libtirpc, against programs on this machine.
#include "aux/rpcbind.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "support/nfs_fixture.h"
#include "support/rpc_program.h"
#include "support/silent_helpers.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::ok;
using testing::RpcPrograms;

}  // namespace

TEST_CASE("rpcbind: ports in universal addresses") {
  CHECK(port_in("10.77.0.2.78.81") == 20049);
  CHECK(port_in("0.0.0.0.0.111") == 111);
  CHECK(port_in("::.8.1") == 2049);
  for (const char* none :
       {"", "1.2", ".1.2", "10.77.0.2.256.1", "10.77.0.2.0.0", "10.77.0.2.78.", "10.77.0.2.x.81"})
    CHECK_FALSE(port_in(none));
}

TEST_CASE("T33 rpcbind: NFS over RDMA is found under its netid, by version 4, or by version 3") {
  RpcPrograms programs;
  async::Loop loop;
  const auto all = [](const xdr::Void&) {
    rpcblist out;
    out.list.value = {{100003, 3, {"tcp"}, {"0.0.0.0.8.1"}, {"superuser"}},
                      {100003, 4, {"rdma"}, {"0.0.0.0.78.82"}, {"superuser"}},
                      {100003, 3, {"rdma6"}, {"::.78.83"}, {"superuser"}},
                      {100003, 3, {"rdma"}, {"0.0.0.0.78.81"}, {"superuser"}}};
    return out;
  };
  SUBCASE("version 4") {
    programs.serve<RPCB4_DUMP>(all);
  }
  SUBCASE("version 3") {
    programs.serve<RPCB3_DUMP>(all);
  }
  SUBCASE("version 3, where version 4 is there and has no list") {
    programs.serve(kRpcbindProgram, 4, 0, [](xdr::ConstBytes) { return RpcPrograms::Octets(); });
    programs.serve<RPCB3_DUMP>(all);
  }
  SUBCASE("over UDP") {
    programs.serve<RPCB4_DUMP>(all);
    programs.close_tcp();
  }
  const auto ask = [&](Service service) {
    return loop.run(
        find_port(loop, programs.address(), "server", service, loop.now() + 10s, programs.port()));
  };
  auto found = ask({100003, 3, Wire::rdma});
  REQUIRE(ok(found));
  CHECK(*found == 20049);
  CHECK(*ask({100003, 3, Wire::tcp}) == 2049);
  CHECK_FALSE(*ask({100003, 2, Wire::rdma}));
}

TEST_CASE("rpcbind: the portmapper knows TCP and UDP, and no RDMA") {
  RpcPrograms programs;
  async::Loop loop;
  programs.serve<PMAP_GETPORT>([](const mapping& args) {
    return pmap_port{args.prog == kMountProgram && args.prot == 6 ? 635U : 0U};
  });
  const auto ask = [&](Service service) {
    return loop.run(
        find_port(loop, programs.address(), "server", service, loop.now() + 10s, programs.port()));
  };
  CHECK(*ask({kMountProgram, 3, Wire::tcp}) == 635);
  CHECK_FALSE(*ask({kMountProgram, 3, Wire::udp}));
  CHECK_FALSE(*ask({100003, 3, Wire::rdma}));
}

TEST_CASE("rpcbind: nobody there, or nobody who answers, is said, and takes its time only") {
  RpcPrograms programs;
  async::Loop loop;
  const auto begun = loop.now();
  SUBCASE("silent") {
    programs.serve(kRpcbindProgram, 4, 4, [](xdr::ConstBytes) { return std::nullopt; });
  }
  SUBCASE("refused") {
    programs.close_tcp();
    programs.close_udp();
  }
  auto found = loop.run(
      find_port(loop, programs.address(), "server", {100003, 3, Wire::rdma}, begun + 1s, programs.port()));
  REQUIRE_FALSE(found);
  CHECK(found.error().kind() == ErrorKind::connection);
  CHECK(loop.now() - begun < 4s);
}

TEST_CASE("rpcbind: what stands for a socket of the file system may have a long path") {
  RpcPrograms programs;
  async::Loop loop;
  programs.serve<RPCB4_DUMP>([](const xdr::Void& /*args*/) {
    rpcblist out;
    out.list.value = {{kRpcbindProgram, 4, {"local"}, {"/run/" + std::string(102, 's')}, {"superuser"}},
                      {kMountProgram, 3, {"tcp"}, {"0.0.0.0.2.123"}, {"superuser"}}};
    return out;
  });
  const auto found = loop.run(find_port(loop, programs.address(), "server", {kMountProgram, 3, Wire::tcp},
                                        loop.now() + 10s, programs.port()));
  REQUIRE(ok(found));
  CHECK(*found == 635);
}

TEST_CASE("T33 rpcbind: one that says nothing over TCP is asked over UDP while there is time for that") {
  RpcPrograms programs;
  programs.serve<RPCB4_DUMP>([](const xdr::Void& /*args*/) {
    rpcblist out;
    out.list.value = {{100003, 3, {"rdma"}, {"0.0.0.0.78.81"}, {"superuser"}}};
    return out;
  });
  programs.silence_tcp();
  testing::SilentHelpers world(1);  // the first asks over TCP
  async::Loop loop(world);
  const auto begun = loop.now();
  const auto found = loop.run(
      find_port(loop, programs.address(), "server", {100003, 3, Wire::rdma}, begun + 60s, programs.port()));
  REQUIRE(ok(found));
  CHECK(*found == 20049);
  CHECK(loop.now() - begun < 60s);
  CHECK(std::ranges::count(programs.calls(), std::string("100000.4.4/udp")) != 0);
}

}  // namespace nfsrdma::aux
