// The mount service: which directory is mounted for a path, by which flavour, and what refusals mean. By libtirpc, against
// programs on this machine.
#include "aux/mountd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// A choice that takes the last of what is offered, and says what was.
class LastOffered final : public security::Flavor {
 public:
  std::vector<std::vector<Security>> offers;

  [[nodiscard]] security::Voucher vouch(const security::Caller& /*caller*/) override {
    return {credential_, nullptr};
  }
  [[nodiscard]] std::string_view name_of(security::Mark mark) const override {
    return security_name(mark == 0 ? Security::sys : static_cast<Security>(mark - 1));
  }
  async::Task<Result<security::Mark>> choose(std::vector<Security> offered, security::Caller /*caller*/,
                                             async::TimePoint /*deadline*/) override {
    offers.push_back(offered);
    if (offered.empty()) co_return security::not_offered(offered);
    if (offered.back() == Security::sys) co_return security::Mark{0};
    co_return static_cast<security::Mark>(static_cast<unsigned>(offered.back()) + 1);
  }

 private:
  const rpc::Credential credential_ = rpc::Credential::none();
};

/// A mount service with one export, /srv, and what it says of that.
struct OneMount {
  std::vector<std::uint32_t> flavors;
  std::uint32_t handle_length = 5;
  mountstat3 status = MNT3_OK;
  RpcPrograms programs;
  async::Loop loop;
  std::shared_ptr<LastOffered> flavor = std::make_shared<LastOffered>();
  Mountd mountd{loop, options()};

  explicit OneMount(bool lists = true) {
    programs.serve<MNT3>([this](const dirpath& /*args*/) {
      mountres3 res;
      if (status != MNT3_OK) {
        (void)res.select(status);
        return res;
      }
      mountres3_ok& good = res.emplace<MNT3_OK>();
      good.fhandle.length = handle_length;
      good.auth_flavors.value = flavors;
      return res;
    });
    if (!lists) return;
    programs.serve<EXPORT3>([](const xdr::Void& /*args*/) {
      exports res;
      res.list.value.emplace_back().ex_dir.value = "/srv";
      return res;
    });
  }
  Result<engine::Root> find(std::vector<std::string> names = {"srv"}) {
    return loop.run(mountd.find(std::move(names)));
  }
  [[nodiscard]] std::ptrdiff_t mounts() const {
    return std::ranges::count(programs.calls(), std::string("100005.3.1/tcp"));
  }

 private:
  [[nodiscard]] MountOptions options() const {
    MountOptions out;
    out.server = "server";
    out.addresses = {programs.address()};
    out.port = programs.port();
    out.timeout = 5s;
    out.flavor = flavor;
    return out;
  }
};

constexpr std::uint32_t kNone = 0, kSys = 1, kKrb5i = 390004, kUnknown = 390009;

}  // namespace

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

TEST_CASE(
    "mountd: of an export's flavours those that are known here are chosen from, and the root has its mark") {
  OneMount m;
  m.flavors = {kUnknown, kKrb5i, kSys};
  const auto root = m.find();
  REQUIRE(ok(root));
  CHECK(m.flavor->offers == std::vector<std::vector<Security>>{{Security::sys, Security::krb5i}});
  CHECK(m.flavor->name_of(root->handle.mark) == "krb5i");
  REQUIRE(ok(m.find()));
  CHECK(m.mounts() == 1);
  // One that turns out not to be done there is not chosen again.
  m.mountd.avoid(root->handle);
  const auto other = m.find();
  REQUIRE(ok(other));
  CHECK(m.mounts() == 2);
  CHECK(m.flavor->offers.back() == std::vector<Security>{Security::sys});
  CHECK(other->handle.mark == 0);
  m.mountd.avoid(other->handle);
  const auto none = m.find();
  REQUIRE_FALSE(none);
  CHECK(none.error().errno_value() == EPERM);
}

TEST_CASE("mountd: where a server does not tell flavours the usual one is used, while it is of any use") {
  OneMount m;
  SUBCASE("none at all") {}
  SUBCASE("AUTH_NONE among others") {
    m.flavors = {kKrb5i, kNone};
  }
  const auto root = m.find();
  REQUIRE(ok(root));
  CHECK(root->handle.mark == 0);
  CHECK(m.flavor->offers.empty());
  // Else whoever tries all that there are would never come to an end.
  m.mountd.avoid(root->handle);
  const auto none = m.find();
  REQUIRE_FALSE(none);
  CHECK(none.error().errno_value() == EPERM);
  CHECK(m.mounts() == 2);
}

TEST_CASE("mountd: a handle of no octets is no directory above the exports") {
  OneMount m;
  m.handle_length = 0;
  const auto root = m.find();
  REQUIRE_FALSE(root);
  CHECK(root.error().kind() == ErrorKind::protocol);
  m.handle_length = 64;
  const auto longest = m.find();
  REQUIRE(ok(longest));
  CHECK(longest->handle.length == 64);
}

TEST_CASE("mountd: of a root that has gone the list of exports and the handle are asked for again") {
  OneMount m;
  const auto root = m.find();
  REQUIRE(ok(root));
  m.mountd.forget(root->handle);
  m.handle_length = 6;
  const auto again = m.find();
  REQUIRE(ok(again));
  CHECK(again->handle.length == 6);
  CHECK(m.programs.calls() ==
        std::vector<std::string>{"100005.3.5/tcp", "100005.3.1/tcp", "100005.3.5/tcp", "100005.3.1/tcp"});
}

TEST_CASE("mountd: what its refusals mean") {
  OneMount m;
  const std::vector<std::pair<mountstat3, int>> all{{MNT3ERR_PERM, EACCES},
                                                    {MNT3ERR_NOENT, ENOENT},
                                                    {MNT3ERR_IO, EIO},
                                                    {MNT3ERR_ACCES, EACCES},
                                                    {MNT3ERR_NOTDIR, ENOTDIR},
                                                    {MNT3ERR_INVAL, EINVAL},
                                                    {MNT3ERR_NAMETOOLONG, ENAMETOOLONG},
                                                    {MNT3ERR_NOTSUPP, EOPNOTSUPP},
                                                    {MNT3ERR_SERVERFAULT, EIO}};
  for (const auto& one : all) {
    CAPTURE(static_cast<unsigned>(one.first));
    m.status = one.first;
    const auto root = m.find();
    REQUIRE_FALSE(root);
    CHECK(root.error().errno_value() == one.second);
    CHECK(root.error().status() == static_cast<unsigned>(one.first));
  }
}

TEST_CASE("mountd: a shorter path is tried where that may help, and only there") {
  OneMount m(false);
  std::ptrdiff_t tries = 1;
  SUBCASE("what leads there is no directory") {
    m.status = MNT3ERR_NOTDIR;
    tries = 3;
  }
  SUBCASE("it is not exported") {
    m.status = MNT3ERR_ACCES;
    tries = 3;
  }
  SUBCASE("its storage fails") {
    m.status = MNT3ERR_IO;
  }
  CHECK_FALSE(m.find({"srv", "a"}).has_value());
  CHECK(m.mounts() == tries);
}

}  // namespace nfsrdma::aux
