// What a Channel does about connections that cannot be had.
#include <doctest/doctest.h>

#include <cerrno>
#include <vector>

#include "rpc/channel.h"

namespace nfsrdma::rpc {
namespace {

using namespace std::chrono_literals;

/// A Channel whose connections fail as is said here, one after the other, the last for good.
struct Dialled {
  explicit Dialled(std::vector<int> fails) : errors(std::move(fails)), channel(loop, options(), {}) {}
  ChannelOptions options() {
    ChannelOptions out;
    out.server = "server";
    out.addresses.resize(1);
    out.dial = [this](async::Loop& on, const fabric::DialOptions&, fabric::Handler& handler) {
      const int error = errors[std::min(dials++, errors.size() - 1)];
      on.post([&handler, error] {
        handler.on_closed(Error(ErrorKind::connection, error, "connect", "server", "failed"));
      });
      return std::unique_ptr<fabric::Connection>();
    };
    return out;
  }
  int connect() {
    auto done = loop.run(channel.connect(loop.now() + 5s));
    REQUIRE_FALSE(done);
    return done.error().errno_value();
  }

  async::Loop loop;
  const std::vector<int> errors;
  std::size_t dials = 0;
  Channel channel;
};

}  // namespace

TEST_CASE("channel: a port of ours that is somebody else's is not the server's refusal") {
  Dialled m({EADDRINUSE, EADDRINUSE, ECONNREFUSED});
  CHECK(m.connect() == ECONNREFUSED);
  CHECK(m.dials == 3);
}

TEST_CASE("channel: ports that are taken again and again are said to be") {
  Dialled m({EADDRINUSE});
  CHECK(m.connect() == EADDRINUSE);
  CHECK(m.dials == 5);
}

TEST_CASE("channel: another failure of the first connection is told at once") {
  Dialled m({ECONNREFUSED});
  CHECK(m.connect() == ECONNREFUSED);
  CHECK(m.dials == 1);
}

}  // namespace nfsrdma::rpc
