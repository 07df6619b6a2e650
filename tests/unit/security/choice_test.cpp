// Several security flavours of which each place gets one: which it is, how long one that may not be had is tried, and
// what is used where nothing else is said.
#include "security/choice.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/virtual_world.h"

namespace nfsrdma::security {
namespace {

using namespace std::chrono_literals;

struct TicketDesk;

/// One that says who asked for it.
class DeskFlavor final : public Flavor {
 public:
  DeskFlavor(TicketDesk& desk, Security which) : desk_(desk), which_(which) {}
  [[nodiscard]] Voucher vouch(const Caller& caller) override;
  [[nodiscard]] std::string_view name_of(Mark /*mark*/) const override { return security_name(which_); }
  [[nodiscard]] std::vector<Voucher> farewells() override;
  async::Task<Status> can_vouch(Caller caller, async::TimePoint deadline) override;

 private:
  TicketDesk& desk_;
  const Security which_;
  const rpc::Credential credential_ = rpc::Credential::none();
};

/// What flavours have been asked for, and which cannot be had.
struct TicketDesk {
  testing::VirtualWorld world;
  async::Loop loop{world};
  std::set<Security> lacking;
  std::vector<std::pair<Security, async::Clock::duration>> asked;  ///< and for how long it may be tried
  std::vector<Security> vouched;

  std::unique_ptr<Choice> choice(std::vector<Security> permitted, std::optional<Security> standard) {
    return std::make_unique<Choice>(loop, std::move(permitted), standard,
                                    [this](Security which) -> std::shared_ptr<Flavor> {
                                      return std::make_shared<DeskFlavor>(*this, which);
                                    });
  }
  Result<Mark> choose(Choice& from, std::vector<Security> offers) {
    asked.clear();
    return loop.run(from.choose(std::move(offers), nullptr, loop.now() + 60s));
  }
};

Voucher DeskFlavor::vouch(const Caller& /*caller*/) {
  desk_.vouched.push_back(which_);
  return {credential_, nullptr};
}
std::vector<Voucher> DeskFlavor::farewells() {
  std::vector<Voucher> out;
  out.push_back({credential_, nullptr});
  return out;
}
async::Task<Status> DeskFlavor::can_vouch(Caller /*caller*/, async::TimePoint deadline) {
  desk_.asked.emplace_back(which_, deadline - desk_.loop.now());
  if (!desk_.lacking.contains(which_)) co_return Status();
  co_return Error(ErrorKind::local, EACCES, "Kerberos", "server",
                  "no ticket for " + std::string(security_name(which_)));
}

Mark mark_of(Security which) {
  return static_cast<Mark>(static_cast<unsigned>(which) + 1);
}

}  // namespace

TEST_CASE("security: of the flavours that a server offers the one that is liked best is chosen") {
  TicketDesk desk;
  const auto choice = desk.choice({Security::krb5p, Security::krb5, Security::sys}, Security::sys);
  const auto best = desk.choose(*choice, {Security::sys, Security::krb5i, Security::krb5});
  REQUIRE(best);
  CHECK(*best == mark_of(Security::krb5));
  CHECK(choice->name_of(*best) == "krb5");
  // What is used anyway has no mark of its own.
  const auto usual = desk.choose(*choice, {Security::krb5i, Security::sys});
  REQUIRE(usual);
  CHECK(*usual == 0);
  CHECK(choice->name_of(0) == "sys");
  const auto none = desk.choose(*choice, {Security::krb5i});
  REQUIRE_FALSE(none);
  CHECK(none.error().errno_value() == EPERM);
  CHECK(none.error().message().find("krb5i") != std::string::npos);
  CHECK(desk.asked.empty());

  (void)choice->vouch_by(*best, nullptr);
  (void)choice->vouch(nullptr);
  (void)choice->vouch(nullptr);
  CHECK(desk.vouched == std::vector<Security>{Security::krb5, Security::sys, Security::sys});
  CHECK(choice->uses() == std::vector<std::pair<std::string, std::uint64_t>>{{"sys", 2}, {"krb5", 1}});
}

TEST_CASE(
    "security: one that cannot be had is passed over soon, and the last one has all the time there is") {
  TicketDesk desk;
  const auto choice = desk.choice({Security::krb5p, Security::krb5, Security::sys}, Security::sys);
  desk.lacking = {Security::krb5p};
  const auto second = desk.choose(*choice, {Security::krb5p, Security::krb5});
  REQUIRE(second);
  CHECK(*second == mark_of(Security::krb5));
  REQUIRE(desk.asked.size() == 2);
  CHECK(desk.asked[0] == std::pair<Security, async::Clock::duration>(Security::krb5p, 5s));
  CHECK(desk.asked[1] == std::pair<Security, async::Clock::duration>(Security::krb5, 60s));
  desk.lacking = {Security::krb5p, Security::krb5};
  // The reason is that of the one that is liked best.
  const auto none = desk.choose(*choice, {Security::krb5, Security::krb5p});
  REQUIRE_FALSE(none);
  CHECK(none.error().message() == "no ticket for krb5p");
}

TEST_CASE("security: where no flavour is the usual one it is the first that can be had, from then on") {
  TicketDesk desk;
  desk.lacking = {Security::krb5p};
  const auto choice = desk.choice({Security::krb5p, Security::krb5i, Security::sys}, std::nullopt);
  CHECK_FALSE(choice->is_tamper_proof());
  CHECK(desk.loop.run(choice->settle(desk.loop.now() + 60s)).has_value());
  CHECK(choice->name_of(0) == "krb5i");
  CHECK(choice->is_tamper_proof());
  (void)choice->vouch(nullptr);
  CHECK(desk.vouched == std::vector<Security>{Security::krb5i});
  const auto there = desk.choose(*choice, {Security::krb5i});
  REQUIRE(there);
  CHECK(*there == 0);
  // It stays so, though another one can be had by now.
  desk.lacking.clear();
  desk.asked.clear();
  CHECK(desk.loop.run(choice->settle(desk.loop.now() + 60s)).has_value());
  CHECK(desk.asked.empty());
  CHECK(choice->name_of(0) == "krb5i");
  // Whatever has been in use says farewell.
  CHECK(choice->farewells().size() == 2);

  desk.lacking = {Security::krb5p, Security::krb5i, Security::sys};
  const auto nothing = desk.choice({Security::krb5p, Security::sys}, std::nullopt);
  const auto settled = desk.loop.run(nothing->settle(desk.loop.now() + 60s));
  REQUIRE_FALSE(settled);
  CHECK(settled.error().message() == "no ticket for krb5p");
}

}  // namespace nfsrdma::security
