// What the server calls for (RFC 8881 20), and what this client holds that it may call for: read delegations.
#include <algorithm>
#include <cerrno>

#include "nfs4/session.h"
#include "nfs4/types/attributes.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEarlyRecalls = 64;
constexpr async::Clock::duration kBetweenRebinds = 1s;
constexpr async::Clock::duration kBetweenReturns = 500ms;
constexpr async::Clock::duration kBetweenSearches = 1s;

}  // namespace

void Session::answer_callback(Lane& lane, rpcrdma::BackwardId id, fabric::ConstBytes message) {
  xdr::Message reply = lane.channel.take_message();
  const std::uint32_t most = largest_callback_reply(lane.channel.facts().call_threshold);
  if (callbacks_.answer(message, reply, most)) {
    lane.channel.answer(id, std::move(reply));
  } else {
    lane.channel.give_back(std::move(reply));
    lane.channel.decline(id);
  }
  // Behind the answer, which tells the server that it need not ask again.
  for (auto& [file, stateid] : std::exchange(recalled_, {})) loop().spawn(give_back(file, stateid));
}

// ---- recalls ----

nfsstat4 Session::recall(const Recall& recall) {
  const auto same = [&](const stateid4& one) { return one.other == recall.stateid.other; };
  if (std::ranges::any_of(returning_, same)) return NFS4_OK;
  for (Open* open : opens_) {
    if (!open->delegation || !same(open->delegation->stateid)) continue;
    if (!open->delegation->returning) set_recalled(*open);
    return NFS4_OK;
  }
  // The OPEN that brings it may have been overtaken, whether or not the server names it among the referring
  // calls.
  if (opening_ == 0 || early_recalls_.size() == kMostEarlyRecalls) return NFS4ERR_BAD_STATEID;
  early_recalls_.push_back(recall.stateid);
  return NFS4_OK;
}

std::optional<DelegatedAttributes> Session::getattr(const nfs_fh4& /*file*/) {
  return std::nullopt;  // no write delegation is ever kept
}

void Session::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  if (!has_bit(types, RCA4_TYPE_MASK_RDATA_DLG)) return;
  std::size_t held = delegations();
  for (Open* open : opens_) {
    if (held <= objects_to_keep) return;
    if (!open->delegated()) continue;
    set_recalled(*open);
    --held;
  }
}

void Session::recall_slot(slotid4 target_highest_slotid) {
  target_highest_ = std::min(target_highest_, target_highest_slotid);
  // A SEQUENCE tells the server that the others are not used any more.
  if (!renewing_ && !closing_) loop().spawn(renew());
}

// ---- delegations ----

std::size_t Session::delegations() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(opens_, [](const Open* o) { return o->delegated(); }));
}

void Session::take_delegation(Open& open, const open_delegation4& delegation) {
  if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>()) {
    loop().spawn(give_back(open.file, write->stateid));  // not asked for
    return;
  }
  const auto* read = delegation.get<OPEN_DELEGATE_READ>();
  if (read == nullptr) return;
  ++counters_.delegations_granted;
  // The server gives another where it knows nothing of the one before.
  open.delegation.emplace().stateid = read->stateid;
  const auto early = std::ranges::find(early_recalls_, read->stateid.other, &stateid4::other);
  const bool recalled = early != early_recalls_.end();
  if (recalled) early_recalls_.erase(early);
  counters_.delegations_recalled += recalled || read->recall ? 1 : 0;
  if (read->recall || recalled || closing_) {
    start_return(open);
  } else {
    hold_connections();
  }
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
  recalled_.emplace_back(open.file, open.delegation->stateid);
  end_delegation(open);
}

void Session::start_return(Open& open) {
  const stateid4 stateid = open.delegation->stateid;
  end_delegation(open);
  loop().spawn(give_back(open.file, stateid));
}

async::Task<void> Session::give_back(nfs_fh4 file, stateid4 stateid) {
  const std::uint64_t epoch = epoch_;
  returning_.push_back(stateid);
  hold_connections();
  for (;;) {
    Compound compound = begin("DELEGRETURN");
    compound.add<op::PUTFH>({file});
    compound.add<op::DELEGRETURN>({stateid});
    auto reply = co_await call(std::move(compound));
    // Whatever the server says, it has it or knows nothing of it. No answer: it may still wait.
    const bool revoked = reply && reply->status() == NFS4ERR_DELEG_REVOKED;
    counters_.delegations_revoked += revoked ? 1 : 0;
    if (revoked) co_await free_revoked(stateid);
    if (reply || closing_ || epoch != epoch_) break;
    co_await loop().sleep_for(kBetweenReturns);
  }
  std::erase(returning_, stateid);
  hold_connections();
  if (returning_.empty()) returned_.notify_all();
}

/// RFC 8167 5.4: what can be recalled needs a way for the recall to come.
void Session::hold_connections() {
  const bool held =
      !closing_ && (lanes_.size() > 1 || !returning_.empty() ||
                    std::ranges::any_of(opens_, [](const Open* o) { return o->delegation.has_value(); }));
  for (const auto& lane : lanes_) lane->channel.hold(held && !lane->refused);
}

/// What SEQUENCE's answers say of the backchannel and of what was recalled in vain (RFC 8881 18.46.3).
void Session::heed_callback_flags(std::uint32_t flags) {
  constexpr std::uint32_t kPathDown =
      SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION | SEQ4_STATUS_BACKCHANNEL_FAULT;
  constexpr std::uint32_t kRevoked = SEQ4_STATUS_RECALLABLE_STATE_REVOKED | SEQ4_STATUS_ADMIN_STATE_REVOKED |
                                     SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
                                     SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED;
  if ((flags & kPathDown) != 0 && facts_.backchannel && loop().now() - last_rebind_ > kBetweenRebinds) {
    last_rebind_ = loop().now();
    for (const auto& lane : lanes_) {
      if (!lane->binding && !lane->refused && lane->channel.up()) loop().spawn(bind(*lane, true));
    }
  }
  if ((flags & kRevoked) != 0 && !finding_revoked_ && delegations() != 0) {
    finding_revoked_ = true;
    loop().spawn(find_revoked());
  }
}

/// RFC 8881 18.38: until it hears that we know, the server remembers, and says so in every SEQUENCE.
async::Task<void> Session::free_revoked(stateid4 stateid) {
  Compound compound = begin("FREE_STATEID");
  compound.add<op::FREE_STATEID>({stateid});
  auto freed = co_await call(std::move(compound));
}

/// RFC 8881 8.3: TEST_STATEID tells which; FREE_STATEID says that we know.
/// The server may go on saying it for state that is none of ours to free: not more often than is useful.
async::Task<void> Session::find_revoked() {
  co_await loop().sleep_until(last_search_ + kBetweenSearches);
  last_search_ = loop().now();
  std::vector<stateid4> held;
  for (const Open* open : opens_) {
    if (open->delegated()) held.push_back(open->delegation->stateid);
  }
  for (const stateid4& stateid : held) {
    Compound test = begin("TEST_STATEID");
    TEST_STATEID4args args;
    args.ts_stateids.value.push_back(stateid);
    test.add<op::TEST_STATEID>(args);
    auto reply = co_await call(std::move(test));
    TEST_STATEID4res res;
    if (!reply || !reply->take<op::TEST_STATEID>(res)) break;
    const auto& codes = res.get<NFS4_OK>()->tsr_status_codes.value;
    if (codes.size() != 1 || codes.front() == NFS4_OK) continue;
    for (Open* open : opens_) {
      if (open->delegation && open->delegation->stateid == stateid) {
        end_delegation(*open);
        break;
      }
    }
    ++counters_.delegations_revoked;
    co_await free_revoked(stateid);
  }
  finding_revoked_ = false;
  hold_connections();
}

}  // namespace nfsrdma::nfs4
