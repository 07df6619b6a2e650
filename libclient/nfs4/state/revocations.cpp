#include "nfs4/state/revocations.h"

#include <algorithm>
#include <set>

#include "async/buggify.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kBetweenSearches = 1s;
constexpr std::size_t kTestedAtOnce = 100;  // 1,600 bytes of stateids, within what any server takes inline

}  // namespace

/// A stateid that the server may have revoked.
struct Revocations::Suspect {
  enum class Kind : std::uint8_t { delegation, lock, open } kind;
  std::shared_ptr<Open> open;
  stateid4 stateid;
  std::uint64_t owner = 0;  // lock owner, if `kind` is lock
};

std::vector<Revocations::Suspect> Revocations::suspects() const {
  std::vector<Suspect> out;
  std::set<const Delegation*> seen;  // the opens of a file share one delegation
  for (const auto& [number, open] : opens_.all()) {
    if (open->lost) continue;
    if (open->delegated() && seen.insert(open->delegation()).second)
      out.push_back({Suspect::Kind::delegation, open, open->delegation()->stateid});
    for (const auto& [owner, state] : open->locks) {
      if (state->stateid) out.push_back({Suspect::Kind::lock, open, *state->stateid, owner});
    }
    out.push_back({Suspect::Kind::open, open, open->stateid});
  }
  return out;
}

void Revocations::search() {
  if (searching_ || opens_.empty()) return;
  searching_ = true;
  delegations_.suspect(true);
  calls_.background().spawn(search_all());
}

async::Task<void> Revocations::search_all() {
  co_await calls_.loop().sleep_until(last_ + kBetweenSearches);
  last_ = calls_.loop().now();
  const std::vector<Suspect> all = suspects();
  const std::size_t most = async::buggify(calls_.loop()) ? 1 : kTestedAtOnce;
  for (std::size_t at = 0; at < all.size(); at += most) {
    const bool answered = co_await test(std::span(all).subspan(at, std::min(most, all.size() - at)));
    if (!answered) break;
  }
  searching_ = false;
  delegations_.suspect(false);
  delegations_.hold_connections();
}

/// Tests the stateids and gives up those that were revoked. Returns false if the search must end.
async::Task<bool> Revocations::test(std::span<const Suspect> suspects) {
  const std::uint64_t epoch = calls_.epoch();
  Compound compound = calls_.begin("TEST_STATEID");
  TEST_STATEID4args args;
  for (const Suspect& suspect : suspects) args.ts_stateids.value.push_back(suspect.stateid);
  compound.add<op::TEST_STATEID>(args);
  auto reply = co_await calls_.call(std::move(compound));
  TEST_STATEID4res res;
  if (!reply || !reply->take<op::TEST_STATEID>(res)) co_return false;
  const std::vector<nfsstat4> codes = res.get<NFS4_OK>()->tsr_status_codes.value;
  if (codes.size() != suspects.size()) co_return false;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    // Under another client id all state was recovered, or will be, so the codes do not apply. The server may
    // also have restarted while the previous stateid was being freed.
    if (epoch != calls_.epoch()) co_return false;
    // If the session outlived a restart of the server, the answer carries SEQ4_STATUS_RESTART_RECLAIM_NEEDED,
    // and BAD_STATEID for all stateids. Nothing was revoked then, and recovery reclaims all of it.
    if (calls_.recovering()) co_return false;
    if (codes[i] == NFS4_OK || codes[i] == NFS4ERR_OLD_STATEID) continue;
    lose(suspects[i], codes[i]);
    co_await leftovers_.free(suspects[i].stateid);
  }
  co_return true;
}

void Revocations::lose(const Suspect& suspect, nfsstat4 why) {
  Open& open = *suspect.open;
  switch (suspect.kind) {
    case Suspect::Kind::delegation:
      delegations_.revoked(open, suspect.stateid);
      return;
    case Suspect::Kind::lock: {
      const auto found = open.locks.find(suspect.owner);
      if (found == open.locks.end() || found->second->stateid != suspect.stateid) return;
      found->second->stateid.reset();  // test() frees it
      locks_.lose(open, suspect.owner, status_error(why, "LOCK", open.path));
      return;
    }
    case Suspect::Kind::open:
      if (open.stateid.other == suspect.stateid.other) locks_.lose(open);
      return;
  }
}

}  // namespace nfsrdma::nfs4
