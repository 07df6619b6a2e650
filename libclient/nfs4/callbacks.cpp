// What the server calls for (RFC 8881 20), and what this client holds that it may call for: read delegations.
#include <algorithm>
#include <cerrno>

#include "async/buggify.h"
#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEarlyRecalls = 64;
constexpr async::Clock::duration kBetweenReturns = 500ms;
constexpr async::Clock::duration kBetweenSearches = 1s;
constexpr std::size_t kTestedAtOnce = 100;  // 1,600 bytes of stateids, within what any server takes inline

}  // namespace

void Session::answer_callback(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message) {
  xdr::Message reply = over.take_message();
  const std::uint32_t most = largest_callback_reply(over.facts().call_threshold);
  if (callbacks_.answer(message, reply, most)) {
    over.answer(id, std::move(reply));
  } else {
    over.give_back(std::move(reply));
    over.decline(id);
  }
  // Behind the answer, which tells the server that it need not ask again.
  for (auto& [file, stateid] : std::exchange(recalled_, {})) beside_.spawn(give_back(file, stateid));
}

// ---- recalls ----

nfsstat4 Session::recall(const Recall& recall) {
  const auto same = [&](const stateid4& one) { return one.other == recall.stateid.other; };
  if (std::ranges::any_of(returning_, same)) return NFS4_OK;
  for (const auto& [number, open] : opens_.all()) {
    if (!open->delegation || !same(open->delegation->stateid)) continue;
    if (!open->delegation->returning) set_recalled(*open);
    return NFS4_OK;
  }
  // The OPEN that brings it may have been overtaken, whether or not the server names it among the referring
  // calls.
  if (!openings_.empty() && early_recalls_.size() < kMostEarlyRecalls) {
    early_recalls_.push_back({recall.file, recall.stateid});
    return NFS4_OK;
  }
  if (!openings_.in_doubt()) return NFS4ERR_BAD_STATEID;
  recalled_.push_back({recall.file, recall.stateid});
  return NFS4_OK;
}

/// No OPEN that is under way can bring what was recalled early.
void Session::on_last_opening() {
  for (const Recalled& one : std::exchange(early_recalls_, {})) {
    if (openings_.in_doubt()) beside_.spawn(give_back(one.file, one.stateid));
  }
}

std::optional<DelegatedAttributes> Session::getattr(const nfs_fh4& /*file*/) {
  return std::nullopt;  // no write delegation is ever kept
}

void Session::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  if (!has_bit(types, RCA4_TYPE_MASK_RDATA_DLG)) return;
  std::size_t held = delegations();
  for (const auto& [number, open] : opens_.all()) {
    if (held <= objects_to_keep) return;
    if (!open->delegated()) continue;
    set_recalled(*open);
    --held;
  }
}

void Session::recall_slot(slotid4 target_highest_slotid) {
  slots_.table().lower_target(target_highest_slotid);
  // A SEQUENCE tells the server that the others are not used any more.
  lease_.renew_now();
}

nfsstat4 Session::copy_ended(const CB_OFFLOAD4args& args) {
  CopiesBeside::Outcome outcome{args.coa_stateid, args.coa_offload_info.tag(), {}};
  if (const auto* written = args.coa_offload_info.get<NFS4_OK>()) outcome.written = *written;
  return copies_.ended(outcome);
}

// ---- delegations ----

std::size_t Session::delegations() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(opens_.all(), [](const auto& one) { return one.second->delegated(); }));
}

void Session::take_delegation(Open& open, const open_delegation4& delegation) {
  if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>()) {
    beside_.spawn(give_back(open.file, write->stateid));  // not asked for
    return;
  }
  const auto* read = delegation.get<OPEN_DELEGATE_READ>();
  if (read == nullptr) return;
  ++counters_.delegations_granted;
  // The server gives another where it knows nothing of the one before.
  open.delegation.emplace();
  open.delegation->stateid = read->stateid;
  open.delegation->client = facts_.client_id;
  const auto early = std::ranges::find_if(
      early_recalls_, [&](const Recalled& one) { return one.stateid.other == read->stateid.other; });
  const bool recalled = early != early_recalls_.end();
  if (recalled) early_recalls_.erase(early);
  counters_.delegations_recalled += recalled || read->recall ? 1 : 0;
  if (read->recall || recalled || ending() || async::buggify(loop())) {
    start_return(open);
  } else {
    hold_connections();
  }
}

void Session::return_stray(const nfs_fh4& file, const open_delegation4& delegation) {
  if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>())
    beside_.spawn(give_back(file, write->stateid));
  if (const auto* read = delegation.get<OPEN_DELEGATE_READ>()) beside_.spawn(give_back(file, read->stateid));
}

void Session::end_delegation(Open& open) {
  if (!open.delegation) return;
  open.delegation.reset();
  if (delegation_end_) delegation_end_(open.file);
}

void Session::returns_delegation(Open& open) {
  if (std::exchange(open.delegation->returning, true)) return;
  if (delegation_end_) delegation_end_(open.file);
}

void Session::set_recalled(Open& open) {
  ++counters_.delegations_recalled;
  recalled_.push_back({open.file, open.delegation->stateid});
  end_delegation(open);
}

void Session::start_return(Open& open) {
  const stateid4 stateid = open.delegation->stateid;
  end_delegation(open);
  beside_.spawn(give_back(open.file, stateid));
}

async::Task<void> Session::give_back(nfs_fh4 file, stateid4 stateid) {
  const std::uint64_t epoch = facts_.epoch;
  const Outstanding::One counted(outstanding_);
  returning_.push_back(stateid);
  hold_connections();
  for (;;) {
    Compound compound = begin_on(file, "DELEGRETURN");
    compound.add<op::DELEGRETURN>({stateid});
    auto reply = co_await call(std::move(compound));
    // Whatever the server says, it has it or knows nothing of it. No answer: it may still wait.
    const bool revoked = reply && is_revoked(reply->status());
    counters_.delegations_revoked += revoked ? 1 : 0;
    if (revoked) co_await leftovers_.free(stateid);
    if (reply || ending() || epoch != facts_.epoch) break;
    co_await loop().sleep_for(kBetweenReturns);
  }
  std::erase(returning_, stateid);
  hold_connections();
}

/// RFC 8167 5.4: what can be recalled needs a way for the recall to come.
void Session::hold_connections() {
  lanes_.hold(!returning_.empty() || std::ranges::any_of(opens_.all(), [](const auto& one) {
    return one.second->delegation.has_value();
  }));
}

namespace {
/// What each flag of SEQUENCE's answer (RFC 8881 18.46.3) leads to.
enum class Reaction : std::uint8_t {
  none,          ///< not of concern: this client has no such state
  rebind,        ///< the backchannel is announced anew on every connection
  new_session,   ///< a new session takes the place of this one, whose backchannel is beyond help (a MUST)
  find_revoked,  ///< what was revoked is found by TEST_STATEID, freed, and reported where it is used
  recover,       ///< opens and locks are reclaimed, by a recovery of the session
};
struct FlagRow {
  std::uint32_t flag;
  Reaction reaction;
};
constexpr FlagRow kFlags[] = {
    {SEQ4_STATUS_CB_PATH_DOWN, Reaction::rebind},
    {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING, Reaction::none},  // callbacks are AUTH_NONE
    {SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, Reaction::none},
    {SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, Reaction::find_revoked},
    {SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED, Reaction::find_revoked},
    {SEQ4_STATUS_ADMIN_STATE_REVOKED, Reaction::find_revoked},
    {SEQ4_STATUS_RECALLABLE_STATE_REVOKED, Reaction::find_revoked},
    {SEQ4_STATUS_LEASE_MOVED, Reaction::none},  // shows as NFS4ERR_MOVED where the file system is used
    {SEQ4_STATUS_RESTART_RECLAIM_NEEDED, Reaction::recover},
    {SEQ4_STATUS_CB_PATH_DOWN_SESSION, Reaction::rebind},
    {SEQ4_STATUS_BACKCHANNEL_FAULT, Reaction::new_session},
    {SEQ4_STATUS_DEVID_CHANGED, Reaction::none},  // no layouts
    {SEQ4_STATUS_DEVID_DELETED, Reaction::none},
};
}  // namespace

void Session::heed_flags(std::uint32_t flags) {
  if (flags == 0) {
    reclaim_needed_ = false;
    return;
  }
  bool recovers = false, rebinds = false, searches = false, begins_anew = false;
  for (const FlagRow& row : kFlags) {
    if ((flags & row.flag) == 0) continue;
    recovers = recovers || row.reaction == Reaction::recover;
    rebinds = rebinds || row.reaction == Reaction::rebind;
    searches = searches || row.reaction == Reaction::find_revoked;
    begins_anew = begins_anew || row.reaction == Reaction::new_session;
  }
  // Set before any recovery begins, which begins with EXCHANGE_ID where the server wants a reclaim.
  const bool known = std::exchange(reclaim_needed_, recovers);
  if (recovers && !known) start_recovery("the server restarted");
  if (rebinds || begins_anew) lanes_.mend_backchannel(begins_anew);
  if (searches && !finding_revoked_ && !opens_.empty()) {
    finding_revoked_ = true;
    beside_.spawn(find_revoked());
  }
}

/// A stateid that the server may have revoked.
struct Session::Suspect {
  enum class Kind : std::uint8_t { delegation, lock, open } kind;
  std::shared_ptr<Open> open;
  stateid4 stateid;
  std::uint64_t owner = 0;  // of a lock
};

std::vector<Session::Suspect> Session::suspects() const {
  std::vector<Suspect> out;
  for (const auto& [number, open] : opens_.all()) {
    if (open->lost) continue;
    if (open->delegated()) out.push_back({Suspect::Kind::delegation, open, open->delegation->stateid});
    for (const auto& [owner, state] : open->locks) {
      if (state->stateid) out.push_back({Suspect::Kind::lock, open, *state->stateid, owner});
    }
    out.push_back({Suspect::Kind::open, open, open->stateid});
  }
  return out;
}

/// RFC 8881 8.4.2.4, 18.48: TEST_STATEID tells which; FREE_STATEID says that we know. The server may go on
/// saying it for state that is none of ours to free: not more often than is useful.
async::Task<void> Session::find_revoked() {
  co_await loop().sleep_until(last_search_ + kBetweenSearches);
  last_search_ = loop().now();
  const std::vector<Suspect> all = suspects();
  const std::size_t most = async::buggify(loop()) ? 1 : kTestedAtOnce;
  for (std::size_t at = 0; at < all.size(); at += most) {
    const bool answered = co_await test(std::span(all).subspan(at, std::min(most, all.size() - at)));
    if (!answered) break;
  }
  finding_revoked_ = false;
  hold_connections();
}

/// False if there was no answer.
async::Task<bool> Session::test(std::span<const Suspect> suspects) {
  const std::uint64_t epoch = facts_.epoch;
  Compound compound = begin("TEST_STATEID");
  TEST_STATEID4args args;
  for (const Suspect& suspect : suspects) args.ts_stateids.value.push_back(suspect.stateid);
  compound.add<op::TEST_STATEID>(args);
  auto reply = co_await call(std::move(compound));
  TEST_STATEID4res res;
  if (!reply || !reply->take<op::TEST_STATEID>(res)) co_return false;
  const std::vector<nfsstat4> codes = res.get<NFS4_OK>()->tsr_status_codes.value;
  // Under another client id all of them were had anew, or are to be.
  if (codes.size() != suspects.size() || epoch != facts_.epoch) co_return false;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    if (codes[i] == NFS4_OK || codes[i] == NFS4ERR_OLD_STATEID) continue;
    lose(suspects[i], codes[i]);
    co_await leftovers_.free(suspects[i].stateid);
  }
  co_return true;
}

/// What was revoked is not believed in any more. A file that is used again is opened again (reopen()); a lock
/// is lost for good, since somebody else may have had it in the meantime.
void Session::lose(const Suspect& suspect, nfsstat4 why) {
  Open& open = *suspect.open;
  switch (suspect.kind) {
    case Suspect::Kind::delegation:
      if (!open.delegation || open.delegation->stateid != suspect.stateid) return;
      ++counters_.delegations_revoked;
      end_delegation(open);
      return;
    case Suspect::Kind::lock: {
      const auto found = open.locks.find(suspect.owner);
      if (found == open.locks.end() || found->second->stateid != suspect.stateid) return;
      found->second->stateid.reset();  // whoever found out frees it
      lose_locks(open, suspect.owner, status_error(why, "LOCK", open.path));
      return;
    }
    case Suspect::Kind::open:
      if (open.stateid.other == suspect.stateid.other) lose_locks(open);
      return;
  }
}

}  // namespace nfsrdma::nfs4
