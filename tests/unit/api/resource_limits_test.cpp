// A program that has no descriptor or no thread left gets errors and slower ways, and goes on.
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/client_core.h"
#include "async/helper.h"
#include "fabric/carrier.h"
#include "ids/id_names.h"
#include "support/at_limit.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;

std::optional<int> seven_by_helper(async::Loop& loop) {
  const std::function<int()> work = [] { return 7; };
  return loop.run(async::on_helper<int>(loop, loop.now() + 5s, work));
}

rpc::Address address_of(const NfsServer& server) {
  rpc::Address out;
  out.storage = loopback(server.port());
  out.length = sizeof(sockaddr_in);
  return out;
}

}  // namespace

TEST_CASE("limits: what a helper would do is not to be had without a descriptor or a thread") {
  if (skips_under_sanitizers()) return;
  async::Loop loop;
  {
    const FewDescriptors none(0);
    CHECK_FALSE(seven_by_helper(loop));
  }
  {
    const NoThreads none;
    CHECK_FALSE(seven_by_helper(loop));
  }
  CHECK(seven_by_helper(loop) == 7);
}

TEST_CASE("limits: names of owners are looked up without a descriptor, too") {
  if (skips_under_sanitizers()) return;
  async::Loop loop;
  const ids::Answer seven{ids::Answer::State::found, 7};
  const auto look_up = [seven](ids::Kind, const std::string&) { return seven; };
  ids::IdNames names({look_up, [] { return std::string(); }}, {});
  const FewDescriptors none(0);
  const Stopwatch watch;
  loop.run(names.learn(loop, {{ids::Kind::user, "me"}, {ids::Kind::group, "us"}}));
  CHECK(names.known(ids::Kind::user, "me") == 7);
  CHECK(names.known(ids::Kind::group, "us") == 7);
  CHECK(watch.elapsed() < ids::IdNames::Limits{}.patience);
}

TEST_CASE("limits: a carrier needs four descriptors and a thread, and without them there is none") {
  if (skips_under_sanitizers()) return;
  async::Loop loop;
  for (unsigned left = 1; left < 4; ++left) {
    const FewDescriptors few(left);
    CHECK(fabric::carrier_threads(loop, 1).empty());
  }
  {
    const NoThreads none;
    CHECK(fabric::carrier_threads(loop, 2).empty());
  }
  const FewDescriptors enough(4);
  CHECK(fabric::carrier_threads(loop, 1).size() == 1);
}

TEST_CASE("limits: connect() is an error, whichever descriptor is the one that is not there") {
  if (skips_under_sanitizers()) return;
  NfsServer server;
  const Target target = server.target("fabric=iwarp");
  server.go_away();
  for (unsigned left = 2; left < 12; ++left) {
    const FewDescriptors few(left);
    const auto client = Client::connect(target);
    REQUIRE_FALSE(client);
    if (left > 2) continue;
    CHECK(client.error().kind() == ErrorKind::local);
    CHECK(client.error().errno_value() == EMFILE);
  }
}

TEST_CASE("limits: a client without a thread of its own is an error, and leaves no session behind") {
  if (skips_under_sanitizers()) return;
  NfsServer server;
  const Target target = server.target("fabric=iwarp");
  {
    const NoThreads none;
    api::ClientCore client(server.connect_target("fabric=iwarp"), {address_of(server)});
    const Status begun = client.start(async::Clock::now() + 5s);
    REQUIRE_FALSE(begun);
    CHECK(begun.error().kind() == ErrorKind::local);
    CHECK(begun.error().errno_value() == EAGAIN);
    CHECK(server.sessions() == 1);
  }
  CHECK(server.sessions() == 0);
  CHECK(server.clients() == 0);
  {
    // There it is the look-up of the server's name that needs the first.
    const NoThreads none;
    const auto client = Client::connect(target);
    REQUIRE_FALSE(client);
    CHECK(client.error().kind() == ErrorKind::local);
    CHECK(client.error().errno_value() == EAGAIN);
  }
  CHECK(ok(Client::connect(target)));
  CHECK(server.problems() == "");
}

}  // namespace nfsrdma
