// A program on another machine, by libtirpc: connections that are kept between calls.
#include "aux/remote.h"

#include <doctest/doctest.h>

#include <chrono>

#include "aux/mountd.h"
#include "support/rpc_program.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::RpcPrograms;

}  // namespace

TEST_CASE("remote: kept connections are used again, and made anew where the server has closed them") {
  RpcPrograms programs;
  programs.serve<EXPORT3>([](const xdr::Void&) { return exports(); });
  async::Loop loop;
  Remote remote{programs.address(), "server", Transport::tcp, nullptr};
  const auto ask = [&] {
    return loop.run(call<EXPORT3>(loop, remote, {}, xdr::Void(), loop.now() + 5s)).has_value();
  };
  SUBCASE("without them each call has its own") {
    CHECK(ask());
    CHECK(ask());
    CHECK(programs.connections() == 2);
  }
  SUBCASE("one after the other") {
    remote.kept = keep_connections();
    for (int i = 0; i < 5; ++i) CHECK(ask());
    CHECK(programs.connections() == 1);
    programs.hang_up();
    CHECK(ask());
    CHECK(ask());
    CHECK(programs.connections() == 2);
    CHECK(programs.calls().size() == 7);
    programs.close_tcp();
    programs.hang_up();
    const auto gone = loop.run(call<EXPORT3>(loop, remote, {}, xdr::Void(), loop.now() + 5s));
    REQUIRE(!gone);
    CHECK(gone.error().kind() == ErrorKind::connection);
  }
  SUBCASE("over UDP there are none") {
    remote.kept = keep_connections();
    remote.transport = Transport::udp;
    CHECK(ask());
    CHECK(programs.connections() == 0);
  }
}

}  // namespace nfsrdma::aux
