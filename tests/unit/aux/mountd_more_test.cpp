// What a mount service may say beside a handle: the flavours of an export, refusals, and answers that are of no
// use; and what rpcbind lists beside ports.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aux/mountd.h"
#include "aux/rpcbind.h"
#include "support/nfs_fixture.h"
#include "support/rpc_program.h"
#include "support/silent_helpers.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::ok;
using testing::RpcPrograms;

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
