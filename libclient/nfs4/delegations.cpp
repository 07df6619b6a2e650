#include "nfs4/delegations.h"

#include <algorithm>
#include <utility>

#include "async/backoff.h"
#include "async/buggify.h"
#include "nfs4/types/attributes.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEarlyRecalls = 64;
constexpr async::Clock::duration kBetweenReturns = 500ms, kMostBetweenReturns = 4s;

/// How large a file may get without the server being asked for room. Blocks are those that it may have at most.
std::uint64_t room_of(const nfs_space_limit4& limit) {
  if (const auto* size = limit.get<NFS_LIMIT_SIZE>()) return *size;
  const auto* blocks = limit.get<NFS_LIMIT_BLOCKS>();
  return blocks != nullptr ? std::uint64_t{blocks->num_blocks} * blocks->bytes_per_block : 0;
}

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
  const bool reading = has_bit(types, RCA4_TYPE_MASK_RDATA_DLG),
             writing = has_bit(types, RCA4_TYPE_MASK_WDATA_DLG);
  const auto meant = [&](const Open& open) {
    return open.delegated() && (open.delegation->writes ? writing : reading);
  };
  const auto& all = around_.opens.all();
  auto held = std::ranges::count_if(all, [&](const auto& one) { return meant(*one.second); });
  for (const auto& [number, open] : all) {
    if (held <= static_cast<std::ptrdiff_t>(objects_to_keep)) return;
    if (!meant(*open)) continue;
    set_recalled(*open);
    --held;
  }
}

void Delegations::set_recalled(Open& open) {
  ++around_.counters.delegations_recalled;
  if (!open.parked) {
    recalled_.push_back(taken_from(open));
    return;
  }
  open.delegation->recalled = true;
  about_to_return(open);
}

void Delegations::finish_recall(Open& open) {
  if (open.delegation && std::exchange(open.delegation->recalled, false)) start_return(open);
}

void Delegations::return_recalled() {
  for (const Recalled& one : std::exchange(recalled_, {})) return_beside(one);
}

std::optional<DelegatedAttributes> Delegations::attributes(const nfs_fh4& file) {
  for (const auto& [number, open] : around_.opens.all()) {
    if (open->file != file || !open->writes_delegated()) continue;
    const auto size = writers_ != nullptr ? writers_->written_size(file) : std::nullopt;
    // 10.4.3: as it was granted, since there is nothing that the server does not have.
    if (open->delegation->change && size) return DelegatedAttributes{*open->delegation->change, *size};
    start_return(*open);
    return std::nullopt;
  }
  return std::nullopt;
}

/// No OPEN that is under way can bring what was recalled early.
void Delegations::on_last_opening() {
  for (const Recalled& one : std::exchange(early_recalls_, {})) {
    if (around_.openings.in_doubt()) return_beside(one);
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

std::uint32_t Delegations::wanted_for(std::uint32_t access) const {
  // Without a backchannel there is nobody to recall it from.
  if (!around_.calls.facts().backchannel || around_.calls.ending()) return OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  if (access == OPEN4_SHARE_ACCESS_READ) return OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
  return writers_ != nullptr ? OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG : OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
}

void Delegations::take(Open& open, const open_delegation4& delegation) {
  Delegation now;
  bool recalled = false;
  if (const auto* read = delegation.get<OPEN_DELEGATE_READ>()) {
    now.stateid = read->stateid;
    recalled = read->recall;
  } else if (const auto* write = delegation.get<OPEN_DELEGATE_WRITE>()) {
    now.stateid = write->stateid;
    now.writes = true;
    now.most = room_of(write->space_limit);
    recalled = write->recall;
  } else {
    return;
  }
  if (now.writes && writers_ == nullptr) return return_beside({open.file, now.stateid});  // not asked for
  ++around_.counters.delegations_granted;
  now.client = around_.calls.facts().client_id;
  // The server gives another where it knows nothing of the one before.
  open.delegation = now;
  recalled = take_early_recall(now.stateid) || recalled;
  around_.counters.delegations_recalled += recalled ? 1 : 0;
  if (recalled || around_.calls.ending() || async::buggify(around_.calls.loop())) {
    start_return(open);
  } else {
    hold_connections();
  }
}

void Delegations::granted_with(Open& open, const open_delegation4& delegation, const Attributes& attributes) {
  const stateid4* const granted = stateid_in(delegation);
  const bool held = granted != nullptr && open.writes_delegated() && open.delegation->stateid == *granted;
  if (held) open.delegation->change = attributes.change;
}

void Delegations::rights_change(const nfs_fh4& file) {
  for (const auto& [number, open] : around_.opens.all()) {
    if (open->delegation && open->file == file) open->delegation->rights_unknown = true;
  }
}

void Delegations::return_stray(const nfs_fh4& file, const open_delegation4& delegation) {
  if (const stateid4* const stray = stateid_in(delegation)) return_beside({file, *stray});
}

const stateid4* Delegations::stateid_in(const open_delegation4& delegation) {
  if (const auto* read = delegation.get<OPEN_DELEGATE_READ>()) return &read->stateid;
  const auto* write = delegation.get<OPEN_DELEGATE_WRITE>();
  return write != nullptr ? &write->stateid : nullptr;
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
  return_beside(taken_from(open));
}

/// Its delegation, which is over for this client.
Delegations::Recalled Delegations::taken_from(Open& open) {
  Recalled out{open.file, open.delegation->stateid, open.delegation->writes};
  end(open);
  return out;
}

void Delegations::return_beside(const Recalled& what) {
  around_.calls.beside().spawn(give_back(what));
}

async::Task<void> Delegations::write_out(nfs_fh4 file) {
  if (writers_ == nullptr) co_return;
  struct Awaited {
    explicit Awaited(async::Loop& loop) : ended(loop) {}
    bool over = false;
    async::Event ended;
  };
  const auto awaited = std::make_shared<Awaited>(around_.calls.loop());
  writers_->write_out(file, {awaited.get(), [awaited](void*) {
                               awaited->over = true;
                               awaited->ended.notify_all();
                             }});
  while (!awaited->over) (void)co_await awaited->ended.wait_until(async::TimePoint::max());
}

async::Task<void> Delegations::give_back(Recalled what) {
  const auto& [file, stateid, writes] = what;
  Calls& calls = around_.calls;
  const std::uint64_t epoch = calls.epoch();
  const Outstanding::One counted(around_.outstanding);
  returning_.push_back(stateid);
  hold_connections();
  if (writes) co_await write_out(file);
  async::Backoff trouble(kBetweenReturns, kMostBetweenReturns);
  for (;;) {
    Compound compound = calls.begin_on(file, "DELEGRETURN");
    compound.add<op::DELEGRETURN>({stateid});
    auto reply = co_await calls.call(std::move(compound));
    // The server has it back or knows nothing of it, unless its refusal may pass. No answer: it may still wait.
    const bool revoked = reply && Calls::is_revoked(reply->status());
    around_.counters.delegations_revoked += revoked ? 1 : 0;
    if (revoked) co_await around_.leftovers.free(stateid);
    const bool settled = reply && !passes(retry_of(reply->status()));
    if (settled || calls.ending() || epoch != calls.epoch()) break;
    co_await calls.loop().sleep_for(reply ? trouble.take() : kBetweenReturns);
  }
  std::erase(returning_, stateid);
  hold_connections();
}

}  // namespace nfsrdma::nfs4
