// Which security flavours the options let be used, and as whom.
#include "connect/flavors.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "connect/server.h"
#include "security/sys.h"
#include "support/virtual_world.h"

namespace nfsrdma::connect {
namespace {

using namespace std::chrono_literals;

}  // namespace

TEST_CASE("connect: uid= and gid= are for sec=sys alone") {
  for (const bool named : {false, true}) {
    CAPTURE(named);
    testing::VirtualWorld world;
    async::Loop loop(world);
    connect::Target target;
    target.host = "server";
    target.options.uid = 7;
    target.options.version = 5;  // which is looked at later
    if (named) target.options.security = {Security::krb5, Security::sys};
    Surroundings around;
    around.flavor = std::make_shared<security::Sys>("machine", security::Identity{});
    Server server(loop, target, {}, {}, std::nullopt, around);
    const Status done = loop.run(server.connect(loop.now() + 1s));
    REQUIRE_FALSE(done);
    CHECK((done.error().message().find("uid=") != std::string::npos) == named);
  }
}

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
    connect::Target target{"server", "/", {}};
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

TEST_CASE("connect: what the options let be used, the strongest first, and numbers only with AUTH_SYS") {
  connect::Options options;
  CHECK(permitted(options) == std::vector{Security::krb5p, Security::krb5i, Security::krb5, Security::sys});
  options.gid = 0;
  CHECK(permitted(options) == std::vector{Security::sys});
  options.security = {Security::krb5i, Security::sys};
  CHECK(permitted(options) == options.security);
}

TEST_CASE("connect: somebody else's identity does not come with this process's groups") {
  connect::Options options;
  const security::Identity own = own_identity(options);
  CHECK(own.uid == ::geteuid());
  CHECK(own.gid == ::getegid());
  CHECK(own.groups.size() == static_cast<std::size_t>(::getgroups(0, nullptr)));
  options.uid = 4711;
  const security::Identity other = own_identity(options);
  CHECK(other.uid == 4711);
  CHECK(other.gid == own.gid);
  CHECK(other.groups.empty());
  options.uid.reset();
  options.gid = 4712;
  CHECK(own_identity(options).uid == own.uid);
  CHECK(own_identity(options).gid == 4712);
  CHECK(own_identity(options).groups.empty());
}

}  // namespace nfsrdma::connect
