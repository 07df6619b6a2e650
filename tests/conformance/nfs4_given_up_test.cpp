// What the engine owes where things end early or turn out small: calls that nobody waits for any more, and
// sessions and connections with little room.
#include <sys/socket.h>
#include <unistd.h>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

}  // namespace

TEST_CASE("T28 nfs4: READs that are given up cost nobody anything") {
  Scene m;
  const std::string text = pattern(300'000);
  m.server.add_file("/f", text);
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  // The second time, the late answers come while other READs are under way.
  for (int i = 0; i < 2; ++i) {
    m.server.hold(OP_READ);
    std::vector<std::string> given_up(3, std::string(100'000, '?'));
    {
      std::vector<async::Task<Result<std::size_t>>> tasks;
      for (std::string& data : given_up) {
        tasks.push_back(file->read(room(data), 100'000));
        c.start(tasks.back());
      }
      REQUIRE(c.turn_until([&] { return m.server.held() == given_up.size(); }));
    }
    for (std::string& data : given_up) std::ranges::fill(data, '!');
    m.server.release();
    std::string data(200'000, '?');
    CHECK(*c.run(file->read(room(data), 50'000)) == data.size());
    CHECK((data == text.substr(50'000, data.size())));
    for (const std::string& left_alone : given_up) CHECK((left_alone == std::string(100'000, '!')));
  }
  CHECK(c.channel.facts().connects == 1);
  CHECK(c.notices.empty());
  CHECK(c.turn_until([&] { return c.session.holdings().slots_retired == 0; }));
  CHECK(c.turn_until([&] { return c.session.holdings().slots_busy == 0; }));
  CHECK(c.channel.credits_in_use() == 0);
  CHECK(ok(c.run(c.files.close(std::move(file)))));
}

TEST_CASE("S19 a connect() that gets no answer ends when its Channel is shut down") {
  // The kernel accepts the TCP connection, and nobody ever reads from it.
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(listening >= 0);
  sockaddr_storage address = loopback(0);
  socklen_t length = sizeof(sockaddr_in);
  REQUIRE(::bind(listening, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(listening, 1) == 0);
  REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  {
    async::Loop loop;
    rpc::ChannelOptions options;
    options.server = "silent";
    options.addresses = {{address, length}};
    options.fabric = Fabric::iwarp;
    options.connect_timeout = 1h;
    rpc::Channel channel(loop, options, {});
    auto task = channel.connect(loop.now() + 1h);
    task.handle().resume();
    channel.shut_down();
    loop.turn(loop.now());
    REQUIRE(task.done());
    CHECK(task.await_resume().error().errno_value() == ESHUTDOWN);
  }
  ::close(listening);
}

TEST_CASE("U13 nfs4: a new session's backchannel is what the connection of then can take") {
  Scene m;
  EngineClient& c = m.connect();
  const auto sizes = [&] {
    const auto created = m.server.last_create_session();
    REQUIRE(created);
    const channel_attrs4& all = created->csa_back_chan_attrs;
    return std::pair(all.ca_maxrequestsize, all.ca_maxresponsesize);
  };
  CHECK(c.channel.facts().reply_threshold == 4096);
  CHECK(sizes() == std::pair(4068U, 4068U));
  for (const bool announce : {false, true}) {
    CAPTURE(announce);
    m.server.set_announce(announce);
    m.server.restart();
    REQUIRE(ok(c.run(c.engine.attributes(nullptr, c.root))));
    CHECK(c.channel.facts().reply_threshold == (announce ? 4096 : 1024));
    CHECK(sizes() == (announce ? std::pair(4068U, 4068U) : std::pair(996U, 996U)));
  }
}

TEST_CASE(
    "U13 nfs4: a callback is as large as what the server may send inline, its answer as what it takes") {
  struct Sizes {
    std::uint32_t from_server, to_server;
  };
  for (const Sizes& sizes : {Sizes{2048, 4096}, Sizes{4096, 2048}}) {
    CAPTURE(sizes.from_server);
    Scene m;
    m.server.on_server([&sizes](Responder& responder) {
      responder.send_size = sizes.from_server;
      responder.receive_size = sizes.to_server;
    });
    const EngineClient& c = m.connect();
    REQUIRE(c.channel.facts().reply_threshold == sizes.from_server);
    REQUIRE(c.channel.facts().call_threshold == sizes.to_server);
    const auto created = m.server.last_create_session();
    REQUIRE(created);
    const channel_attrs4& announced = created->csa_back_chan_attrs;
    CHECK(announced.ca_maxrequestsize == sizes.from_server - 28);
    CHECK(announced.ca_maxresponsesize == sizes.to_server - 28);
  }
}

TEST_CASE("U9 nfs4: a READDIR keeps to a small ca_maxresponsesize") {
  Scene m;
  m.server.set_limits(65536, 4096, 16);
  for (int i = 0; i < 200; ++i) m.server.add_file("/dir/" + std::string(40, 'x') + std::to_string(i), "");
  EngineClient& c = m.connect();
  const auto dir = c.handle("/dir");
  std::uint64_t cookie = 0;
  ListVerifier verifier{};
  std::size_t count = 0;
  for (bool eof = false; !eof;) {
    auto page = c.run(c.engine.list(nullptr, dir, cookie, verifier));
    REQUIRE(ok(page));
    count += page->entries.size();
    cookie = page->entries.back().cookie;
    verifier = page->verifier;
    eof = page->eof;
  }
  CHECK(count == 200);
}

TEST_CASE("T34 nfs4: the largest Reply has room for the verifier that AUTH_SYS may bring") {
  constexpr std::uint64_t kHead = 4 + 4 + 4;  // status, tag, count
  for (const bool sys : {false, true}) {
    const auto credential = sys ? rpc::Credential::sys("test", 0, 0, {}) : rpc::Credential::none();
    const Compound compound(xdr::Message(), {credential, nullptr}, 2, "test", false);
    CHECK(compound.reply_size().max_inline == 24 + (sys ? 400 : 0) + kHead);
    CHECK(compound.reply_size().max_reduced == compound.reply_size().max_inline);
  }
}

}  // namespace nfsrdma
