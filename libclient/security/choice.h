// Several flavors, of which each part of a server gets the one that it requires: those that `sec=` lists, or
// all of them.
//
//     auto flavor = std::make_shared<Choice>(permitted, Security::sys, make);
//     co_await flavor->settle(deadline);
//     auto mark = co_await flavor->choose(what_the_server_offers, caller, deadline);
//     ... flavor->vouch_by(*mark, caller) ...
//
// A flavor is made when it is first used.
//
// Confined to the loop's thread.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "async/loop.h"
#include "security/flavor.h"

namespace nfsrdma::security {

class Choice final : public Flavor {
 public:
  using Make = std::function<std::shared_ptr<Flavor>(Security)>;

  /// `permitted`: the flavors that may be used, the preferred one first. `standard`: the flavor for Calls
  /// without a mark; none: settle() takes the first permitted flavor that works.
  Choice(async::Loop& loop, std::vector<Security> permitted, std::optional<Security> standard, Make make);
  ~Choice() override;

  [[nodiscard]] Voucher vouch(const Caller& caller) override;
  [[nodiscard]] Voucher vouch_by(Mark mark, const Caller& caller) override;
  [[nodiscard]] std::vector<Voucher> farewells() override;
  [[nodiscard]] std::string_view name_of(Mark mark) const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> uses() const override;
  [[nodiscard]] bool is_tamper_proof() const override;
  [[nodiscard]] bool has_choice() const override { return true; }
  async::Task<Status> settle(async::TimePoint deadline) override;
  async::Task<Result<Mark>> choose(std::vector<Security> offers, Caller caller,
                                   async::TimePoint deadline) override;
  async::Task<Status> can_vouch(Caller caller, async::TimePoint deadline) override;

 private:
  [[nodiscard]] Security of(Mark mark) const;
  [[nodiscard]] Flavor& flavor(Security security);

  async::Loop& loop_;
  const std::vector<Security> permitted_;
  std::optional<Security> standard_;
  const Make make_;
  std::array<std::shared_ptr<Flavor>, 4> made_;
  std::array<std::uint64_t, 4> uses_{};
};

}  // namespace nfsrdma::security
