// The binding of NFSv4.0 to RPC-over-RDMA: answers of any length, which only this minor version has (RFC 8267 2.6,
// 4.2.1): from 4.1 on the session bounds them.
#include <cerrno>

#include "acl/octets.h"
#include "nfs4/compound/compound.h"
#include "security/sys.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Binding40 {
  NfsServer server;
  std::unique_ptr<Client> client;

  Binding40() {
    server.add_file("/f", "hello");
    server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
    auto made = Client::connect(server.target("vers=4.0"));
    if (!made) FAIL(made.error().text());
    client = std::move(*made);
  }
  ~Binding40() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Binding40(const Binding40&) = delete;
  Binding40& operator=(const Binding40&) = delete;

  /// What was provided for the Reply to each GETATTR since the last time.
  std::vector<std::uint64_t> rooms() {
    std::vector<std::uint64_t> out;
    for (const SeenCall& call : server.calls()) {
      if (call.has(OP_GETATTR) && call.unbounded) out.push_back(call.reply_chunk);
    }
    server.clear_calls();
    return out;
  }
};

Nfs4Acl list_of(std::size_t entries) {
  Nfs4Acl out;
  for (std::size_t i = 0; i < entries; ++i) out.push_back({0, 0, 1, std::string(100, 'w') + "@example.org"});
  return out;
}

constexpr std::uint64_t kFirst = 32U << 10, kMost = 64U << 10, kEnvelope = 1024;

}  // namespace

TEST_CASE("U7 v4.0: a list that is longer than most is asked for once more, with room for the longest") {
  Binding40 m;
  SUBCASE("short ones take one call") {
    REQUIRE(ok(m.client->set_acl("/f", list_of(3))));
    m.rooms();
    CHECK(std::get<Nfs4Acl>(*m.client->get_acl("/f")) == list_of(3));
    const auto rooms = m.rooms();
    REQUIRE(rooms.size() == 1);
    CHECK(rooms[0] >= kFirst);
    CHECK(rooms[0] < kFirst + kEnvelope);
  }
  SUBCASE("long ones two") {
    REQUIRE(ok(m.client->set_acl("/f", list_of(400))));
    m.rooms();
    const auto list = m.client->get_acl("/f");
    REQUIRE(ok(list));
    CHECK(std::get<Nfs4Acl>(*list) == list_of(400));
    const auto rooms = m.rooms();
    REQUIRE(rooms.size() == 2);
    CHECK(rooms[1] >= kMost);
    CHECK(rooms[1] < kMost + kEnvelope);
  }
  SUBCASE("and what does not fit then is an error, and no third call") {
    REQUIRE(ok(m.client->set_acl("/f", list_of(3))));
    m.server.on_server([](Responder& responder) {
      for (auto& [inode, octets] : responder.state.acls4) octets = acl::nfs4_octets(list_of(800));
    });
    m.rooms();
    CHECK(m.client->get_acl("/f").error().errno_value() == EREMOTEIO);
    CHECK(m.rooms().size() == 2);
  }
}

TEST_CASE("U7 a call whose Reply has a bound is not sent again after ERR_CHUNK") {
  Binding40 m;
  m.server.on_server([](Responder& responder) { responder.play(Responder::Trick::err_chunk, OP_GETATTR); });
  CHECK(m.client->stat("/f").error().errno_value() == EREMOTEIO);  // another one would have been answered
}

TEST_CASE("U8 a change and an answer of any length make no COMPOUND") {
  security::Sys flavor("test", security::Identity());
  const auto built = [&](bool changes, bool unbounded) {
    Compound out({}, flavor.vouch(nullptr), 0, "both", false);
    out.add<op::PUTFH>({});
    if (changes) out.add<op::REMOVE>({});
    out.add<op::GETATTR>({bitmap_of({unbounded ? FATTR4_ACL : FATTR4_SIZE})});
    return out;
  };
  CHECK(built(true, true).is_a_gamble());
  CHECK_FALSE(built(true, false).is_a_gamble());
  CHECK_FALSE(built(false, true).is_a_gamble());
}

}  // namespace nfsrdma
