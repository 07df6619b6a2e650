// RPCSEC_GSS's framing: which numbers calls have, and when, and what a context's end does to them.
#include "gss/flavor.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "rpc/message.h"
#include "security/sys.h"
#include "support/toy_mechanism.h"
#include "support/virtual_world.h"

namespace nfsrdma::testing {
namespace {

using namespace std::chrono_literals;

struct Setup {
  explicit Setup(ToyTraits traits = {})
      : mechanism(std::make_shared<ToyMechanism>(
            7, std::make_shared<security::Sys>("test", security::Identity()), loop, traits)),
        flavor(loop, gss::Service::none, mechanism, "server") {}

  security::Voucher vouch() { return flavor.vouch(nullptr); }
  bool ready(security::Voucher& voucher, std::chrono::milliseconds patience = 10s) {
    return loop.run(voucher.protection->ready(loop.now() + patience)).has_value();
  }
  /// The number that it is sent with.
  std::uint32_t seal(security::Voucher& voucher) {
    xdr::Message message;
    rpc::begin_call(message, rpc::kNfsProgram, 4, 0, voucher.credential);
    auto sealed = voucher.protection->seal(message);
    REQUIRE(sealed);
    xdr::Decoder in((*sealed)->stream.bytes());
    const rpc::CallHeader header = rpc::read_call(in);
    CHECK(header.flavor == gss::kRpcsecGss);
    // Behind the version and the procedure.
    return xdr::load_u32(header.credential.data() + 8);
  }

  void wait(std::chrono::milliseconds time) {
    const auto sleep = [](async::Loop& on, std::chrono::milliseconds for_so_long) -> async::Task<void> {
      co_await on.sleep_for(for_so_long);
    };
    loop.run(sleep(loop, time));
  }

  VirtualWorld world;
  async::Loop loop{world};
  std::shared_ptr<ToyMechanism> mechanism;
  gss::Gss flavor;
};

}  // namespace

TEST_CASE("gss: calls are sent while none of them can push another one out of the window") {
  Setup m({.window = 8});
  security::Voucher first = m.vouch();
  CHECK_FALSE(first.protection->is_ready());
  REQUIRE(m.ready(first));
  CHECK(first.protection->takes_turn());
  CHECK(m.seal(first) == 1);
  std::vector<security::Voucher> others;
  for (int i = 0; i < 5; ++i) {
    others.push_back(m.vouch());
    CHECK(others.back().protection->is_ready());
    CHECK(others.back().protection->takes_turn());
  }
  security::Voucher late = m.vouch();
  CHECK(late.protection->is_ready());
  CHECK_FALSE(late.protection->takes_turn());
  m.loop.run(late.protection->turn(m.loop.now() + 50ms));
  CHECK_FALSE(late.protection->takes_turn());
  SUBCASE("the first is answered") {
    first.protection.reset();
  }
  SUBCASE("the first has been on its way for long") {
    const auto begun = m.loop.now();
    m.loop.run(late.protection->turn(begun + 10s));
    CHECK(m.loop.now() - begun > 500ms);
    CHECK(m.loop.now() - begun < 5s);
  }
  CHECK(late.protection->takes_turn());
  for (security::Voucher& one : others) (void)m.seal(one);
  CHECK(m.seal(late) == 7);
}

TEST_CASE("gss: where nothing is on its way the window bounds what may leave at once all the same") {
  Setup m({.window = 8});
  std::vector<security::Voucher> all;
  all.reserve(20);
  for (int i = 0; i < 20; ++i) all.push_back(m.vouch());
  REQUIRE(m.ready(all.front()));
  unsigned turns = 0;
  for (security::Voucher& one : all) turns += one.protection->takes_turn() ? 1 : 0;
  CHECK(turns == 6);
  all.front().protection.reset();
  CHECK(all.back().protection->takes_turn());
}

TEST_CASE("gss: what is sent again has another number, and stands in the way by that one only") {
  Setup m({.window = 8});
  security::Voucher one = m.vouch();
  REQUIRE(m.ready(one));
  for (std::uint32_t number = 1; number <= 20; ++number) CHECK(m.seal(one) == number);
  security::Voucher other = m.vouch();
  CHECK(other.protection->takes_turn());
}

TEST_CASE("gss: another context is made before the one that is used ends, and calls go on meanwhile") {
  Setup m({.window = 128, .life = 2s});
  security::Voucher one = m.vouch();
  REQUIRE(m.ready(one));
  CHECK(m.mechanism->established() == 1);
  m.wait(1600ms);
  security::Voucher other = m.vouch();
  CHECK_FALSE(other.protection->is_ready());
  const auto begun = m.loop.now();
  REQUIRE(m.ready(other));
  CHECK(m.loop.now() - begun < 100ms);
  CHECK(m.seal(other) == 1);
  m.wait(900ms);
  CHECK(m.mechanism->established() >= 2);
  CHECK(m.vouch().protection->is_ready());
}

TEST_CASE("gss: whoever waits for a context that cannot be had gets the reason, all at once") {
  Setup m;
  m.mechanism->refuse_next();
  std::vector<security::Voucher> all;
  all.reserve(3);
  for (int i = 0; i < 3; ++i) all.push_back(m.vouch());
  unsigned refused = 0;
  const auto wait = [](security::Voucher& one, async::TimePoint deadline,
                       unsigned& out) -> async::Task<void> {
    const auto ready = co_await one.protection->ready(deadline);
    if (!ready && ready.error().errno_value() == EACCES) ++out;
  };
  for (security::Voucher& one : all) m.loop.spawn(wait(one, m.loop.now() + 20s, refused));
  for (int i = 0; i < 200 && refused != 3; ++i) m.wait(100ms);
  CHECK(refused == 3);
}

TEST_CASE("gss: at the end each context that serves is given up by a call of its own") {
  Setup m;
  security::Voucher one = m.vouch();
  CHECK(m.flavor.farewells().empty());
  REQUIRE(m.ready(one));
  auto last = m.flavor.farewells();
  REQUIRE(last.size() == 1);
  xdr::Message message;
  rpc::begin_call(message, rpc::kNfsProgram, 4, 0, last.front().credential);
  auto sealed = last.front().protection->seal(message);
  REQUIRE(sealed);
  xdr::Decoder in((*sealed)->stream.bytes());
  CHECK(xdr::load_u32(rpc::read_call(in).credential.data() + 4) ==
        static_cast<std::uint32_t>(gss::Procedure::destroy));
  CHECK(m.flavor.farewells().empty());
}

}  // namespace nfsrdma::testing
