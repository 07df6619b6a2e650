// RPCSEC_GSS: which numbers calls have, and when; what a context's end does to them; where a KDC fails, a server refuses
// what it has known, and Replies are not what they say; and whose contexts are whose.
#include "gss/flavor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/message.h"
#include "security/sys.h"
#include "support/toy_mechanism.h"
#include "support/virtual_world.h"

namespace nfsrdma::testing {
namespace {

using namespace std::chrono_literals;

/// A loop on virtual time, and what the tests ask of a Voucher on it.
struct GssLoop {
  bool ready(security::Voucher& voucher, std::chrono::milliseconds patience = 10s) {
    return loop.run(voucher.protection->ready(loop.now() + patience)).has_value();
  }
  /// The number that it is sent with.
  static std::uint32_t seal(security::Voucher& voucher) {
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
  void pass(std::chrono::milliseconds time) {
    loop.run([](async::Loop& on, std::chrono::milliseconds for_so_long) -> async::Task<void> {
      co_await on.sleep_for(for_so_long);
    }(loop, time));
  }

  VirtualWorld world;
  async::Loop loop{world};
};

struct Setup : GssLoop {
  explicit Setup(ToyTraits traits = {})
      : mechanism(std::make_shared<ToyMechanism>(
            7, std::make_shared<security::Sys>("test", security::Identity()), loop, traits)),
        flavor(loop, gss::Service::none, mechanism, "server") {}

  security::Voucher vouch() { return flavor.vouch(nullptr); }

  std::shared_ptr<ToyMechanism> mechanism;
  gss::Gss flavor;
};

/// A code that a test can make by itself.
gss::Octets sum_of(gss::Pieces pieces) {
  std::uint32_t sum = 1;
  for (const xdr::ConstBytes& piece : pieces) {
    for (const std::byte one : piece) sum = sum * 31 + std::to_integer<std::uint32_t>(one);
  }
  gss::Octets out(4);
  xdr::store_u32(out.data(), sum);
  return out;
}
gss::Octets sum_of(xdr::ConstBytes bytes) {
  const std::array whole{bytes};
  return sum_of(gss::Pieces(whole));
}

class SumContext final : public gss::Context {
 public:
  explicit SumContext(std::shared_ptr<const bool> soon) : soon_(std::move(soon)) {}
  [[nodiscard]] xdr::ConstBytes handle() const override { return handle_; }
  [[nodiscard]] std::uint32_t window() const override { return 1024; }
  [[nodiscard]] bool ends_soon() const override { return *soon_; }
  [[nodiscard]] bool has_ended() const override { return false; }
  Result<gss::Octets> sign(gss::Pieces message) override { return sum_of(message); }
  bool is_signed(gss::Pieces message, xdr::ConstBytes code) override {
    return std::ranges::equal(sum_of(message), code);
  }
  Status wrap(gss::Pieces message, xdr::Buffer& out) override {
    for (const xdr::ConstBytes& piece : message) std::ranges::copy(piece, out.extend(piece.size()));
    std::ranges::copy(sum_of(message), out.extend(4));
    return {};
  }
  Result<xdr::ConstBytes> unwrap(std::span<std::byte> wrapped) override {
    const bool whole = wrapped.size() >= 4;
    const xdr::ConstBytes clear = wrapped.first(whole ? wrapped.size() - 4 : 0);
    if (!whole || !std::ranges::equal(sum_of(clear), wrapped.last(4)))
      return Error(ErrorKind::protocol, EPROTO, "unwrap", "sum", "it was changed");
    return clear;
  }

 private:
  const std::array<std::byte, 4> handle_{};
  const std::shared_ptr<const bool> soon_;
};

/// A KDC that does what it is told.
class ToldMechanism final : public gss::Mechanism {
 public:
  explicit ToldMechanism(async::Loop& loop) : loop_(loop) {}

  unsigned asked = 0;
  async::Clock::duration takes{};     ///< each context
  std::vector<ErrorKind> refusals;    ///< of the next ones
  void end_soon() { *soon_ = true; }  ///< all of its contexts

  async::Task<Result<std::shared_ptr<gss::Context>>> establish(security::Caller /*caller*/) override {
    ++asked;
    if (takes.count() != 0) co_await loop_.sleep_for(takes);
    if (!refusals.empty()) {
      const ErrorKind kind = refusals.front();
      refusals.erase(refusals.begin());
      co_return Error(kind, EACCES, "Kerberos", "server", "no ticket; get one");
    }
    std::shared_ptr<gss::Context> out = std::make_shared<SumContext>(soon_);
    co_return std::move(out);
  }
  [[nodiscard]] std::string name_of(const security::Caller& /*caller*/) const override { return "user 5"; }
  [[nodiscard]] std::size_t longest_code() const override { return 4; }
  [[nodiscard]] std::size_t wrapping_adds() const override { return 4; }

 private:
  async::Loop& loop_;
  const std::shared_ptr<bool> soon_ = std::make_shared<bool>(false);
};

struct ToldGss : GssLoop {
  explicit ToldGss(gss::Service service = gss::Service::none)
      : flavor(loop, service, mechanism, "server",
               [this](const std::string& text) { notices.push_back(text); }) {}

  static security::Caller caller(std::uint32_t uid, std::uint32_t gid = 100) {
    return std::make_shared<const security::Identity>(security::Identity{uid, gid, {}});
  }
  std::shared_ptr<ToldMechanism> mechanism = std::make_shared<ToldMechanism>(loop);
  std::vector<std::string> notices;
  gss::Gss flavor;
};

/// A Reply's results: the body, and what it is signed with or wrapped in.
gss::Octets protected_results(gss::Service service, const gss::Octets& body) {
  xdr::Message message;
  xdr::Encoder out(message);
  const gss::Octets code = sum_of(xdr::ConstBytes(body));
  if (service == gss::Service::integrity) {
    out.opaque(body);
    out.opaque(code);
  } else {
    gss::Octets wrapped = body;
    wrapped.insert(wrapped.end(), code.begin(), code.end());
    out.opaque(wrapped);
  }
  const xdr::ConstBytes bytes = message.stream.bytes();
  return {bytes.begin(), bytes.end()};
}
gss::Octets numbered_body(std::uint32_t number) {
  gss::Octets out(4 + 8, std::byte{7});
  xdr::store_u32(out.data(), number);
  return out;
}

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
  m.pass(1600ms);
  security::Voucher other = m.vouch();
  CHECK_FALSE(other.protection->is_ready());
  const auto begun = m.loop.now();
  REQUIRE(m.ready(other));
  CHECK(m.loop.now() - begun < 100ms);
  CHECK(m.seal(other) == 1);
  m.pass(900ms);
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
  for (int i = 0; i < 200 && refused != 3; ++i) m.pass(100ms);
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

TEST_CASE("gss: the user is told what is missing once a minute, and not where somebody only asks") {
  ToldGss m;
  m.mechanism->refusals.assign(8, ErrorKind::local);
  CHECK_FALSE(m.loop.run(m.flavor.can_vouch(nullptr, m.loop.now() + 10s)).has_value());
  CHECK(m.notices.empty());
  security::Voucher one = m.flavor.vouch(nullptr);
  CHECK_FALSE(m.ready(one));
  REQUIRE(m.notices.size() == 1);
  CHECK(m.notices[0] == "user 5: no ticket; get one");
  m.pass(59s);
  CHECK_FALSE(m.ready(one));
  CHECK(m.notices.size() == 1);
  m.pass(2s);
  CHECK_FALSE(m.ready(one));
  CHECK(m.notices.size() == 2);
}

TEST_CASE("gss: whoever asked whether there are tickets, and went before the answer, silences nothing") {
  ToldGss m;
  m.mechanism->takes = 1s;
  m.mechanism->refusals.assign(2, ErrorKind::local);
  {
    auto asking = m.flavor.can_vouch(nullptr, m.loop.now() + 10s);
    asking.handle().resume();
    m.pass(100ms);
    REQUIRE_FALSE(asking.done());
  }
  m.pass(2s);
  security::Voucher one = m.flavor.vouch(nullptr);
  CHECK_FALSE(m.ready(one));
  CHECK(m.notices.size() == 1);
}

TEST_CASE(
    "gss: of calls that are refused for one context the first has another made, and the others use it") {
  ToldGss m;
  security::Voucher first = m.flavor.vouch(nullptr), second = m.flavor.vouch(nullptr);
  REQUIRE(m.ready(first));
  CHECK(ToldGss::seal(first) == 1);
  CHECK(ToldGss::seal(second) == 2);
  // That is not about the context.
  CHECK_FALSE(first.protection->outdated(std::uint32_t{2}));
  CHECK(first.protection->is_ready());
  CHECK(first.protection->outdated(gss::kContextProblem));
  CHECK_FALSE(first.protection->is_ready());
  REQUIRE(m.ready(first));
  CHECK(m.mechanism->asked == 2);
  CHECK(second.protection->outdated(gss::kCredProblem));
  CHECK(second.protection->is_ready());
  CHECK(m.mechanism->asked == 2);
  CHECK(ToldGss::seal(second) == 1);
}

TEST_CASE("gss: a KDC that does not answer is asked again until the deadline, and one that refuses is not") {
  ToldGss m;
  security::Voucher one = m.flavor.vouch(nullptr);
  m.mechanism->refusals = {ErrorKind::connection, ErrorKind::timeout};
  CHECK(m.ready(one));
  CHECK(m.mechanism->asked == 3);

  security::Voucher refused = m.flavor.vouch(ToldGss::caller(5));
  m.mechanism->refusals = {ErrorKind::local};
  const auto begun = m.loop.now();
  CHECK_FALSE(m.ready(refused));
  CHECK(m.mechanism->asked == 4);
  CHECK(m.loop.now() == begun);

  m.mechanism->refusals.assign(100, ErrorKind::connection);
  CHECK_FALSE(m.ready(refused, 3s));
  CHECK(m.loop.now() - begun <= 3s);
  CHECK(m.mechanism->asked > 4 + 2);
  CHECK(m.mechanism->asked < 4 + 10);
}

TEST_CASE(
    "gss: where the next context cannot be had yet calls go on, and it is not asked for with each of them") {
  ToldGss m;
  security::Voucher one = m.flavor.vouch(nullptr);
  REQUIRE(m.ready(one));
  m.mechanism->end_soon();
  m.mechanism->refusals.assign(100, ErrorKind::connection);
  const auto all_are_ready = [&m] {
    for (int i = 0; i < 20; ++i) {
      security::Voucher next = m.flavor.vouch(nullptr);
      CHECK_FALSE(next.protection->is_ready());
      CHECK(m.ready(next));
    }
  };
  all_are_ready();
  CHECK(m.mechanism->asked == 2);
  m.pass(1100ms);
  all_are_ready();
  CHECK(m.mechanism->asked == 3);
}

TEST_CASE("gss: each user has a context, whatever his groups, and all of them are given up at the end") {
  ToldGss m;
  for (const security::Caller& who :
       {security::Caller(), ToldGss::caller(5), ToldGss::caller(5, 200), ToldGss::caller(6)}) {
    security::Voucher voucher = m.flavor.vouch(who);
    REQUIRE(m.ready(voucher));
  }
  CHECK(m.mechanism->asked == 3);
  CHECK(m.flavor.farewells().size() == 3);
  CHECK(m.flavor.farewells().empty());
}

TEST_CASE("gss: the contexts that are kept are bounded, however many users there have been") {
  ToldGss m;
  constexpr std::uint32_t kUsers = 2500, kMost = 1000;
  for (std::uint32_t uid = 1; uid <= kUsers; ++uid) {
    security::Voucher voucher = m.flavor.vouch(ToldGss::caller(uid));
    REQUIRE(m.ready(voucher));
  }
  CHECK(m.mechanism->asked == kUsers);
  CHECK(m.flavor.farewells().size() <= kMost);
}

TEST_CASE("gss: a Reply's results are taken from the server alone, and for this call alone") {
  for (const gss::Service service : {gss::Service::integrity, gss::Service::privacy}) {
    CAPTURE(static_cast<int>(service));
    ToldGss m(service);
    security::Voucher voucher = m.flavor.vouch(nullptr);
    REQUIRE(m.ready(voucher));
    const std::uint32_t number = ToldGss::seal(voucher);
    std::array<std::byte, 4> word{};
    xdr::store_u32(word.data(), number);
    const gss::Octets verifier = sum_of(xdr::ConstBytes(word));
    rpc::ReplyHeader header;
    header.refusal = rpc::Refusal::none;
    header.verifier_flavor = gss::kRpcsecGss;
    header.verifier = verifier;
    // What it says against them; nothing: they are taken.
    const auto judged = [&](const gss::Octets& results) {
      auto opened = voucher.protection->open(header, results);
      return opened ? std::string() : opened.error().message();
    };
    const auto says = [](const std::string& text, const char* part) {
      return text.find(part) != std::string::npos;
    };

    const gss::Octets good = protected_results(service, numbered_body(number));
    const auto opened = voucher.protection->open(header, good);
    REQUIRE(opened);
    CHECK(std::ranges::equal(*opened, gss::Octets(8, std::byte{7})));

    CHECK(says(judged(protected_results(service, numbered_body(number + 1))), "another call"));
    CHECK(says(judged(protected_results(service, gss::Octets(3))), "another call"));
    // Something stands behind it, or is missing.
    gss::Octets longer = good, shorter = good;
    longer.resize(longer.size() + 4);
    shorter.resize(shorter.size() - 4);
    CHECK(says(judged(longer), "changed"));
    CHECK(says(judged(shorter), "changed"));
    // Within the body.
    gss::Octets changed = good;
    changed[10] ^= std::byte{1};
    CHECK(says(judged(changed), "changed"));
    CHECK(judged(good).empty());

    header.verifier_flavor = 0;
    CHECK(says(judged(good), "verifier"));
    header.verifier_flavor = gss::kRpcsecGss;
    header.verifier = xdr::ConstBytes(verifier).first(3);
    CHECK(says(judged(good), "verifier"));
  }
}

}  // namespace nfsrdma::testing
