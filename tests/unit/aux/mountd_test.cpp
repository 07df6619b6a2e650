// The programs beside NFS: rpcbind and MOUNT, by libtirpc, against programs on this machine.
#include "aux/mountd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>

#include "aux/rpcbind.h"
#include "support/nfs_fixture.h"
#include "support/rpc_program.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::ok;
using testing::RpcPrograms;

/// A mount service that exports some paths, and the handles of these: the path's length.
struct Server {
  explicit Server(const std::vector<std::string>& paths = {"/srv", "/srv/deep", "/home"}, bool lists = true) {
    programs.serve<MNT3>([paths](const dirpath& args) {
      mountres3 res;
      const bool known = std::ranges::find(paths, args.path.value) != paths.end();
      if (!known) (void)res.select(MNT3ERR_ACCES);
      if (known) res.emplace<MNT3_OK>().fhandle.length = static_cast<std::uint32_t>(args.path.value.size());
      return res;
    });
    programs.serve<UMNT3>([](const dirpath&) { return xdr::Void(); });
    if (!lists) return;
    programs.serve<EXPORT3>([paths](const xdr::Void&) {
      exports res;
      for (const std::string& path : paths) {
        exportnode& node = res.list.value.emplace_back();
        node.ex_dir.value = path;
        if (path == "/home") node.ex_groups.value.push_back({{"10.0.0.0/8"}});
      }
      return res;
    });
  }
  MountOptions options() {
    MountOptions out;
    out.server = "server";
    out.addresses = {programs.address()};
    out.port = programs.port();
    out.timeout = 5s;
    return out;
  }
  RpcPrograms programs;
  async::Loop loop;
};

std::uint32_t length(const Result<engine::Root>& root) {
  return root ? root->handle.length : 0;
}

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

TEST_CASE("mountd: the deepest export on the way is mounted, once") {
  Server server;
  Mountd mountd(server.loop, server.options());
  const auto find = [&](std::vector<std::string> names) {
    return server.loop.run(mountd.find(std::move(names)));
  };
  auto root = find({"srv", "deep", "file"});
  REQUIRE(ok(root));
  CHECK(root->names == 2);
  CHECK(length(root) == 9);
  CHECK(find({"srv", "file"})->names == 1);
  CHECK(find({"srv", "deep"})->names == 2);
  // Above the exports there is nothing to mount, but a way to them.
  CHECK(length(find({})) == 0);
  CHECK(*server.loop.run(mountd.towards_exports({})) == std::vector<std::string>{"home", "srv"});
  CHECK(*server.loop.run(mountd.towards_exports({"srv"})) == std::vector<std::string>{"deep"});
  auto none = find({"elsewhere"});
  REQUIRE_FALSE(none);
  CHECK(none.error().errno_value() == EACCES);
  CHECK(none.error().message().find("exports") != std::string::npos);
  server.loop.run(mountd.unmount(server.loop.now() + 5s));
  CHECK(server.programs.calls() == std::vector<std::string>{"100005.3.5/tcp", "100005.3.1/tcp",
                                                            "100005.3.1/tcp", "100005.3.1/tcp",
                                                            "100005.3.3/tcp", "100005.3.3/tcp"});
}

TEST_CASE("mountd: without a list of exports all of the path is tried, from its end") {
  Server server({"/srv"}, false);
  Mountd mountd(server.loop, server.options());
  auto root = server.loop.run(mountd.find({"srv", "a", "b"}));
  REQUIRE(ok(root));
  CHECK(root->names == 1);
  CHECK_FALSE(server.loop.run(mountd.exports()));
}

TEST_CASE("mountd: what is listed") {
  Server server;
  Mountd mountd(server.loop, server.options());
  auto listed = server.loop.run(mountd.exports());
  REQUIRE(ok(listed));
  REQUIRE(listed->size() == 3);
  CHECK((*listed)[0].path == "/srv");
  CHECK((*listed)[0].clients.empty());
  CHECK((*listed)[2].clients == std::vector<std::string>{"10.0.0.0/8"});
}

TEST_CASE("mountd: rpcbind is asked for its port once, and again when it has left it") {
  auto before = std::make_unique<Server>();
  Server after;
  std::atomic<std::uint16_t> registered = before->programs.port();
  std::atomic<int> asked = 0;
  RpcPrograms rpcbind;
  rpcbind.serve<PMAP_GETPORT>([&](const mapping& /*what*/) {
    ++asked;
    return pmap_port{registered};
  });
  MountOptions options = after.options();
  options.addresses = {rpcbind.address()};
  options.port = 0;
  options.rpcbind_port = rpcbind.port();
  Mountd mountd(after.loop, options);
  const auto lists = [&] { return after.loop.run(mountd.exports()).has_value(); };
  CHECK(lists());
  CHECK(lists());
  CHECK(asked == 1);
  registered = after.programs.port();
  before.reset();
  CHECK_FALSE(lists());
  CHECK(lists());
  CHECK(asked == 2);
}

TEST_CASE("mountd: over UDP where that is asked for, and with words for what went wrong") {
  Server server;
  MountOptions options = server.options();
  options.transport = Transport::udp;
  Mountd mountd(server.loop, options);
  CHECK(ok(server.loop.run(mountd.find({"srv"}))));
  CHECK(server.programs.calls().back() == "100005.3.1/udp");
  RpcPrograms other;
  other.serve<RPCB4_DUMP>([](const xdr::Void&) { return rpcblist(); });
  MountOptions wrong = server.options();
  wrong.addresses = {other.address()};
  wrong.port = other.port();
  Mountd nobody(server.loop, wrong);
  auto found = server.loop.run(nobody.find({"srv"}));
  REQUIRE_FALSE(found);
  CHECK(found.error().errno_value() == EPROTONOSUPPORT);
}

TEST_CASE("remote: kept connections are used again, and made anew where the server has closed them") {
  Server server;
  Remote remote{server.programs.address(), "server", Transport::tcp, nullptr};
  const auto ask = [&] {
    return server.loop.run(call<EXPORT3>(server.loop, remote, {}, xdr::Void(), server.loop.now() + 5s))
        .has_value();
  };
  SUBCASE("without them each call has its own") {
    CHECK(ask());
    CHECK(ask());
    CHECK(server.programs.connections() == 2);
  }
  SUBCASE("one after the other") {
    remote.kept = keep_connections();
    for (int i = 0; i < 5; ++i) CHECK(ask());
    CHECK(server.programs.connections() == 1);
    server.programs.hang_up();
    CHECK(ask());
    CHECK(ask());
    CHECK(server.programs.connections() == 2);
    CHECK(server.programs.calls().size() == 7);
    server.programs.close_tcp();
    server.programs.hang_up();
    const auto gone =
        server.loop.run(call<EXPORT3>(server.loop, remote, {}, xdr::Void(), server.loop.now() + 5s));
    REQUIRE(!gone);
    CHECK(gone.error().kind() == ErrorKind::connection);
  }
  SUBCASE("over UDP there are none") {
    remote.kept = keep_connections();
    remote.transport = Transport::udp;
    CHECK(ask());
    CHECK(server.programs.connections() == 0);
  }
}

TEST_CASE("mountd: of NFSv2 it is version 1") {
  RpcPrograms programs;
  programs.serve<MNT1>([](const dirpath& args) {
    fhstatus res;
    if (args.path.value == "/srv")
      res.emplace<MNT3_OK>().fill(std::byte{7});
    else
      (void)res.select(MNT3ERR_NOENT);
    return res;
  });
  programs.serve<UMNT1>([](const dirpath&) { return xdr::Void(); });
  programs.serve<EXPORT1>([](const xdr::Void&) { return exports(); });
  programs.serve<DUMP1>([](const xdr::Void&) {
    mountlist out;
    out.list.value.push_back({{"client"}, {"/srv"}});
    return out;
  });
  MountOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = programs.port();
  options.version = 1;
  async::Loop loop;
  Mountd mountd(loop, options);
  const auto root = loop.run(mountd.find({"srv"}));
  REQUIRE(root);
  CHECK(root->handle.length == 32);
  CHECK(root->handle.bytes[31] == std::byte{7});
  CHECK(root->names == 1);
  CHECK(loop.run(mountd.find({"other"})).error().errno_value() == ENOENT);
  const auto mounts = loop.run(mountd.mounts());
  REQUIRE(mounts);
  REQUIRE(mounts->size() == 1);
  CHECK(mounts->front().client == "client");
  CHECK(mounts->front().path == "/srv");
  loop.run(mountd.unmount(loop.now() + 5s));
  const auto calls = programs.calls();
  CHECK(calls.back() == "100005.1.3/tcp");
  CHECK(std::ranges::all_of(calls, [](const std::string& one) { return one.starts_with("100005.1."); }));
}

TEST_CASE("mountd: an answer that is none is an error") {
  Server server;
  server.programs.serve(kMountProgram, 3, 1,
                        [](xdr::ConstBytes) { return std::vector<std::byte>(12, std::byte{0xff}); });
  Mountd mountd(server.loop, server.options());
  auto found = server.loop.run(mountd.find({"srv"}));
  REQUIRE_FALSE(found);
  CHECK(server.programs.calls().size() >= 2);
}

}  // namespace nfsrdma::aux
