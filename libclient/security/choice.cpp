#include "security/choice.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nfsrdma::security {
namespace {

/// How long one flavor is tried while there are others to try.
constexpr async::Clock::duration kWhileOthers = std::chrono::seconds(5);

}  // namespace

Choice::Choice(async::Loop& loop, std::vector<Security> permitted, std::optional<Security> standard,
               Make make)
    : loop_(loop), permitted_(std::move(permitted)), standard_(standard), make_(std::move(make)) {}

Choice::~Choice() = default;

Security Choice::of(Mark mark) const {
  if (mark == 0) return standard_.value_or(permitted_.front());
  return static_cast<Security>(mark - 1);
}

Flavor& Choice::flavor(Security security) {
  auto& out = made_[static_cast<std::size_t>(security)];
  if (!out) out = make_(security);
  return *out;
}

Voucher Choice::vouch(const Caller& caller) {
  return vouch_by(0, caller);
}

Voucher Choice::vouch_by(Mark mark, const Caller& caller) {
  ++uses_[static_cast<std::size_t>(of(mark))];
  return flavor(of(mark)).vouch(caller);
}

bool Choice::is_tamper_proof() const {
  return standard_ == Security::krb5i || standard_ == Security::krb5p;
}

std::vector<std::pair<std::string, std::uint64_t>> Choice::uses() const {
  std::vector<std::pair<std::string, std::uint64_t>> out;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i] != 0) out.emplace_back(security_name(static_cast<Security>(i)), uses_[i]);
  }
  return out;
}

std::vector<Voucher> Choice::farewells() {
  std::vector<Voucher> out;
  for (const auto& one : made_) {
    if (!one) continue;
    for (Voucher& last : one->farewells()) out.push_back(std::move(last));
  }
  return out;
}

std::string_view Choice::name_of(Mark mark) const {
  return security_name(of(mark));
}

async::Task<Status> Choice::settle(async::TimePoint deadline) {
  if (standard_) co_return Status();
  auto first = co_await choose(permitted_, nullptr, deadline);
  if (!first) co_return first.error();
  standard_ = of(*first);
  co_return Status();
}

async::Task<Result<Mark>> Choice::choose(std::vector<Security> offers, Caller caller,
                                         async::TimePoint deadline) {
  std::vector<Security> both;
  std::ranges::copy_if(permitted_, std::back_inserter(both),
                       [&](Security one) { return std::ranges::count(offers, one) != 0; });
  if (both.empty()) co_return not_offered(offers);
  std::optional<Error> first;
  for (const Security one : both) {
    const bool last = one == both.back();
    const async::TimePoint until = last ? deadline : std::min(deadline, loop_.now() + kWhileOthers);
    auto can = co_await flavor(one).can_vouch(caller, until);
    if (can && one == standard_) co_return Mark{0};
    if (can) co_return static_cast<Mark>(static_cast<unsigned>(one) + 1);
    if (!first) first = can.error();
  }
  co_return *first;
}

async::Task<Status> Choice::can_vouch(Caller caller, async::TimePoint deadline) {
  co_return co_await flavor(of(0)).can_vouch(std::move(caller), deadline);
}

}  // namespace nfsrdma::security
