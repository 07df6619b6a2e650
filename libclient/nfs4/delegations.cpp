#include "nfs4/delegations.h"

#include <algorithm>
#include <utility>

#include "async/buggify.h"
#include "nfs4/types/attributes.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEarlyRecalls = 64;
constexpr async::Clock::duration kBetweenReturns = 500ms;

}  // namespace

Delegations::Delegations(Around around) : around_(std::move(around)) {
  around_.openings.on_last = [this] { on_last_opening(); };
  around_.opens.on_release = [this] { hold_connections(); };
}

std::size_t Delegations::count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(around_.opens.all(), [](const auto& one) { return one.second->delegated(); }));
}

void Delegations::hold_connections() {
  around_.hold(!returning_.empty() || std::ranges::any_of(around_.opens.all(), [](const auto& one) {
    return one.second->delegation.has_value();
  }));
}

// ---- recalls ----

nfsstat4 Delegations::recall(const Recall& recall) {
  const auto same = [&](const stateid4& one) { return one.other == recall.stateid.other; };
  if (std::ranges::any_of(returning_, same)) return NFS4_OK;
  for (const auto& [number, open] : around_.opens.all()) {
    if (!open->delegation || !same(open->delegation->stateid)) continue;
    if (!open->delegation->returning) set_recalled(*open);
    return NFS4_OK;
  }
  // The OPEN that brings it may have been overtaken, whether or not the server names it among the referring
  // calls.
  if (!around_.openings.empty() && early_recalls_.size() < kMostEarlyRecalls) {
    early_recalls_.push_back({recall.file, recall.stateid});
    return NFS4_OK;
  }
  if (!around_.openings.in_doubt()) return NFS4ERR_BAD_STATEID;
  recalled_.push_back({recall.file, recall.stateid});
  return NFS4_OK;
}

void Delegations::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  if (!has_bit(types, RCA4_TYPE_MASK_RDATA_DLG)) return;
  std::size_t held = count();
  for (const auto& [number, open] : around_.opens.all()) {
    if (held <= objects_to_keep) return;
    if (!open->delegated()) continue;
    set_recalled(*open);
    --held;
  }
}

void Delegations::set_recalled(Open& open) {
  ++around_.counters.delegations_recalled;
  recalled_.push_back({open.file, open.delegation->stateid});
  end(open);
}

void Delegations::return_recalled() {
  for (const Recalled& one : std::exchange(recalled_, {})) return_beside(one.file, one.stateid);
}

/// No OPEN that is under way can bring what was recalled early.
void Delegations::on_last_opening() {
  for (const Recalled& one : std::exchange(early_recalls_, {})) {
    if (around_.openings.in_doubt()) return_beside(one.file, one.stateid);
  }
}

bool Delegations::take_early_recall(const stateid4& stateid) {
  const auto early = std::ranges::find_if(
      early_recalls_, [&](const Recalled& one) { return one.stateid.other == stateid.other; });
  if (early == early_recalls_.end()) return false;
  early_recalls_.erase(early);
  return true;
}

// ---- what OPEN brings, and how it ends ----

void Delegations::take(Open& open, const open_delegation4& delegation) {
  if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>()) {
    return_beside(open.file, write->stateid);  // not asked for
    return;
  }
  const auto* read = delegation.get<OPEN_DELEGATE_READ>();
  if (read == nullptr) return;
  ++around_.counters.delegations_granted;
  // The server gives another where it knows nothing of the one before.
  open.delegation.emplace();
  open.delegation->stateid = read->stateid;
  open.delegation->client = around_.calls.facts().client_id;
  const bool recalled = take_early_recall(read->stateid) || read->recall;
  around_.counters.delegations_recalled += recalled ? 1 : 0;
  if (recalled || around_.calls.ending() || async::buggify(around_.calls.loop())) {
    start_return(open);
  } else {
    hold_connections();
  }
}

void Delegations::return_stray(const nfs_fh4& file, const open_delegation4& delegation) {
  if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>()) return_beside(file, write->stateid);
  if (const auto* read = delegation.get<OPEN_DELEGATE_READ>()) return_beside(file, read->stateid);
}

void Delegations::end(Open& open) {
  if (!open.delegation) return;
  open.delegation.reset();
  if (end_sink_) end_sink_(open.file);
}

void Delegations::end_of_before(Open& open) {
  if (!open.delegation) return;
  if (open.delegation->client == around_.calls.facts().client_id) {
    start_return(open);
  } else {
    end(open);
  }
}

void Delegations::revoked(Open& open, const stateid4& stateid) {
  if (!open.delegation || open.delegation->stateid != stateid) return;
  ++around_.counters.delegations_revoked;
  end(open);
}

// ---- returning ----

void Delegations::about_to_return(Open& open) {
  if (std::exchange(open.delegation->returning, true)) return;
  if (end_sink_) end_sink_(open.file);
}

void Delegations::start_return(Open& open) {
  const stateid4 stateid = open.delegation->stateid;
  end(open);
  return_beside(open.file, stateid);
}

void Delegations::return_beside(const nfs_fh4& file, const stateid4& stateid) {
  around_.calls.beside().spawn(give_back(file, stateid));
}

async::Task<void> Delegations::give_back(nfs_fh4 file, stateid4 stateid) {
  Calls& calls = around_.calls;
  const std::uint64_t epoch = calls.epoch();
  const Outstanding::One counted(around_.outstanding);
  returning_.push_back(stateid);
  hold_connections();
  for (;;) {
    Compound compound = calls.begin_on(file, "DELEGRETURN");
    compound.add<op::DELEGRETURN>({stateid});
    auto reply = co_await calls.call(std::move(compound));
    // Whatever the server says, it has it or knows nothing of it. No answer: it may still wait.
    const bool revoked = reply && Calls::is_revoked(reply->status());
    around_.counters.delegations_revoked += revoked ? 1 : 0;
    if (revoked) co_await around_.leftovers.free(stateid);
    if (reply || calls.ending() || epoch != calls.epoch()) break;
    co_await calls.loop().sleep_for(kBetweenReturns);
  }
  std::erase(returning_, stateid);
  hold_connections();
}

}  // namespace nfsrdma::nfs4
