#include "nfs4/state/delegations.h"

#include <algorithm>
#include <utility>

#include "async/backoff.h"
#include "async/buggify.h"
#include "nfs4/compound/retries.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr std::ptrdiff_t kMostEarlyRecalls = 64;
/// How many returned delegations are remembered while OPENs are under way.
constexpr std::size_t kMostReturned = 1000;
constexpr async::Clock::duration kBetweenReturns = 500ms, kMostBetweenReturns = 4s;

/// Returns how large a file may become before the server has to be asked for room. For a limit in blocks this
/// is the size of all those blocks.
std::uint64_t room_of(const nfs_space_limit4& limit) {
  if (const auto* size = limit.get<NFS_LIMIT_SIZE>()) return *size;
  const auto* blocks = limit.get<NFS_LIMIT_BLOCKS>();
  return blocks != nullptr ? std::uint64_t{blocks->num_blocks} * blocks->bytes_per_block : 0;
}

/// Whether other opens of the file share the open's delegation, too.
bool is_shared(const Open& open) {
  return open.delegation() != nullptr &&
         std::ranges::count(open.record->opens, true, &Open::shares_delegation) > 1;
}

}  // namespace

Delegations::Delegations(Dependencies parts) : parts_(std::move(parts)) {
  parts_.openings.on_ended = [this] { on_opening_ended(); };
  parts_.opens.on_release = [this](Open& open) {
    // The delegation of the file's last open cannot be returned any more: the server drops
    // it with the client id.
    if (open.delegation() != nullptr && !is_shared(open)) forget(*open.record);
    open.shares_delegation = false;
    hold_connections();
  };
}

Delegations::~Delegations() {
  if (timer_ != 0) parts_.calls.loop().cancel(timer_);
  parts_.openings.on_ended = nullptr;
  parts_.opens.on_release = nullptr;
}

std::size_t Delegations::count() const {
  std::size_t out = 0;
  parts_.opens.files().each(
      [&](const auto& file) { out += file->delegation && !file->delegation->returning ? 1 : 0; });
  return out;
}

void Delegations::hold_connections() {
  parts_.hold(!returning_.empty() || held_ != 0);
}

// ---- recalls ----

nfsstat4 Delegations::recall(const Recall& recall) {
  const auto same = [&](const stateid4& one) { return one.other == recall.stateid.other; };
  if (std::ranges::any_of(returning_, [&](const auto& one) { return same(one->stateid); })) return NFS4_OK;
  const auto held = parts_.opens.files().find_if(
      [&](const auto& file) { return file->delegation && same(file->delegation->stateid); });
  if (held) {
    if (!held->delegation->returning) {
      ++parts_.counters.delegations_recalled;
      end_for_return(*held);
    }
    return NFS4_OK;
  }
  const auto expected =
      std::ranges::find_if(expected_, [&](const Expected& one) { return same(one.what.stateid); });
  if (expected != expected_.end()) {
    if (expected->returned) recalled_.push_back(expected->what);
    return NFS4_OK;
  }
  // The recall may have overtaken the answer to the OPEN that grants the delegation, whether or not the
  // server names that OPEN among the referring calls.
  const auto early = std::ranges::count(expected_, false, &Expected::returned);
  if (!parts_.openings.empty() && early < kMostEarlyRecalls) {
    const async::TimePoint due = parts_.calls.loop().now() + kMostPutOff;
    expected_.push_back({{recall.file, recall.stateid}, parts_.calls.epoch(), parts_.openings.now(), due});
    arm(due);
    return NFS4_OK;
  }
  if (!parts_.openings.in_doubt()) return NFS4ERR_BAD_STATEID;
  recalled_.push_back({recall.file, recall.stateid});
  return NFS4_OK;
}

void Delegations::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  const bool reading = has_bit(types, RCA4_TYPE_MASK_RDATA_DLG),
             writing = has_bit(types, RCA4_TYPE_MASK_WDATA_DLG);
  const auto meant = [&](const Delegation& one) {
    return !one.returning && (one.writes ? writing : reading);
  };
  std::ptrdiff_t held = 0;
  parts_.opens.files().each(
      [&](const auto& file) { held += file->delegation && meant(*file->delegation) ? 1 : 0; });
  for (const auto& [number, open] : parts_.opens.all()) {
    if (held <= static_cast<std::ptrdiff_t>(objects_to_keep)) return;
    if (open->delegation() == nullptr || !meant(*open->delegation())) continue;
    ++parts_.counters.delegations_recalled;
    end_for_return(*open->record);
    --held;
  }
}

void Delegations::return_all() {
  for (const auto& [number, open] : parts_.opens.all()) {
    if (const Delegation* one = open->delegation(); one && !one->returning) end_for_return(*open->record);
  }
  return_recalled();
}

/// Ends the delegation, or, if the file is parked, only marks it. return_recalled() then sends the DELEGRETURN; that of
/// a parked file goes with the file's CLOSE, or finish_recall() sends it.
void Delegations::end_for_return(FileRecord& file) {
  const bool in_use = std::ranges::any_of(
      file.opens, [](const Open* open) { return open->shares_delegation && !open->parked; });
  if (in_use) {
    recalled_.push_back(end_and_take(file));
    return;
  }
  file.delegation->recalled = true;
  about_to_return(file);
}

void Delegations::finish_recall(Open& open) {
  if (Delegation* one = open.delegation(); one && std::exchange(one->recalled, false)) start_return(open);
}

void Delegations::return_recalled() {
  for (const Recalled& one : std::exchange(recalled_, {})) return_in_background(one);
}

std::optional<DelegatedAttributes> Delegations::attributes(const nfs_fh4& file) {
  const auto record = parts_.opens.file(file);
  const bool held =
      record && record->delegation && record->delegation->writes && !record->delegation->returning;
  if (!held) return std::nullopt;
  const bool changes = parts_.modifications.is_under_way(file);
  const auto size =
      write_back_owner_ != nullptr && !changes ? write_back_owner_->written_size(file) : std::nullopt;
  // RFC 8881 10.4.3: the change attribute is that of the grant, because the server has every
  // change of this client.
  if (const auto& change = record->delegation->change; change && size)
    return DelegatedAttributes{*change, *size};
  return_in_background(end_and_take(*record));
  return std::nullopt;
}

/// Called when an OPEN has ended. An OPEN that began after a recall cannot have been granted the
/// recalled delegation.
void Delegations::on_opening_ended() {
  if (expected_.empty()) return;
  std::vector<Recalled> unknown;
  std::erase_if(expected_, [&](const Expected& one) {
    if (!parts_.openings.have_ended(one.until)) return false;
    if (!one.returned && parts_.openings.in_doubt()) unknown.push_back(one.what);
    return true;
  });
  for (const Recalled& one : unknown) return_in_background(one);
}

void Delegations::arm(async::TimePoint due) {
  if (timer_ != 0 || due == async::TimePoint::max()) return;
  timer_ = parts_.calls.loop().at(due, [this] {
    timer_ = 0;
    return_what_is_due();
  });
}

/// Sends DELEGRETURN for recalled delegations that no OPEN under way has granted within kMostPutOff. If the
/// answer to an OPEN grants one of them later, it is not kept.
void Delegations::return_what_is_due() {
  const async::TimePoint now = parts_.calls.loop().now();
  std::vector<Recalled> due;
  std::optional<async::TimePoint> next;
  for (Expected& one : expected_) {
    if (one.returned) continue;
    if (one.due <= now) {
      one.returned = true;
      due.push_back(one.what);
    } else if (!next || one.due < *next) {
      next = one.due;
    }
  }
  if (next) arm(*next);
  if (parts_.calls.ending()) return;
  for (const Recalled& one : due) return_in_background(one);
}

std::optional<Delegations::Expected> Delegations::take_expected(const stateid4& stateid) {
  const auto found = std::ranges::find_if(expected_, [&](const Expected& one) {
    return one.epoch == parts_.calls.epoch() && one.what.stateid.other == stateid.other;
  });
  if (found == expected_.end()) return std::nullopt;
  const Expected out = *found;
  if (!out.returned) expected_.erase(found);
  return out;
}

/// Called when the server has the delegation back. The answer to an OPEN that the server executed
/// earlier may still have it.
void Delegations::expect_no_more(const nfs_fh4& file, const stateid4& stateid) {
  if (parts_.openings.empty() || expected_.size() >= kMostReturned) return;
  expected_.push_back({{file, stateid}, parts_.calls.epoch(), parts_.openings.now(), {}, true});
}

// ---- what OPEN brings, and how it ends ----

std::uint32_t Delegations::wanted_for(std::uint32_t access) const {
  // Without a backchannel the server could not recall a delegation.
  if (!parts_.calls.facts().backchannel || parts_.calls.ending()) return OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  if (access == OPEN4_SHARE_ACCESS_READ) return OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
  return write_back_owner_ != nullptr ? OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG
                                      : OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
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
  const auto same = [&](const stateid4& one) { return one.other == now.stateid.other; };
  const clientid4 client = parts_.calls.facts().client_id;
  // A delegation that is being returned gives no rights any more.
  if (const auto returning = find_returning(now.stateid)) {
    returning->file = open.file;
    return;
  }
  const auto expected = take_expected(now.stateid);
  if (expected && expected->returned) return;
  recalled = recalled || expected;
  FileRecord& file = *open.record;
  async::Rarely<Delegation>& held = file.delegation;
  if (held && held->client == client && same(held->stateid)) return told_again(open, now, recalled);
  if (now.writes && write_back_owner_ == nullptr)
    return return_in_background({open.file, now.stateid});  // not requested
  // The server has lost the earlier delegation, or has granted two. If a CLOSE under way returns the earlier
  // one, the record only forgets it.
  if (held && held->returning && !held->recalled)
    forget(file);
  else if (held)
    end_of_before(file);
  ++parts_.counters.delegations_granted;
  now.client = client;
  file.file = open.file;
  held = now;
  ++held_;
  open.shares_delegation = true;
  parts_.counters.delegations_recalled += recalled ? 1 : 0;
  const bool can_be_recalled = parts_.calls.facts().backchannel;
  if (recalled || !can_be_recalled || parts_.calls.ending() || async::buggify(parts_.calls.loop())) {
    start_return(open);
  } else {
    hold_connections();
  }
}

/// Gives the open a share in the delegation that this client holds of the file already.
void Delegations::told_again(Open& open, const Delegation& now, bool recalled) {
  Delegation& held = *open.record->delegation;
  if (held.returning) return;
  open.shares_delegation = true;
  held.may_learn_change = false;
  if (is_later(now.stateid, held.stateid)) {
    held.stateid = now.stateid;
    held.writes = now.writes;
    held.most = now.most;
  }
  if (!recalled) return;
  ++parts_.counters.delegations_recalled;
  return_in_background(end_and_take(*open.record));
}

void Delegations::granted_with(Open& open, const open_delegation4& delegation, const Attributes& attributes) {
  const stateid4* const granted = stateid_in(delegation);
  const bool held = granted != nullptr && open.writes_delegated() && open.delegation()->stateid == *granted;
  if (held && std::exchange(open.delegation()->may_learn_change, false))
    open.delegation()->change = attributes.change;
}

void Delegations::rights_change(const nfs_fh4& file) {
  const auto record = parts_.opens.file(file);
  if (record && record->delegation) record->delegation->rights_unknown = true;
}

void Delegations::return_stray(const nfs_fh4& file, const open_delegation4& delegation) {
  const stateid4* const stray = stateid_in(delegation);
  if (stray == nullptr) return;
  const auto record = parts_.opens.file(file);
  const bool known = record && record->delegation && record->delegation->stateid.other == stray->other;
  if (!known) return_in_background({file, *stray});
}

const stateid4* Delegations::stateid_in(const open_delegation4& delegation) {
  if (const auto* read = delegation.get<OPEN_DELEGATE_READ>()) return &read->stateid;
  const auto* write = delegation.get<OPEN_DELEGATE_WRITE>();
  return write != nullptr ? &write->stateid : nullptr;
}

/// Drops the delegation for all opens that share it, without a call of end_sink_.
void Delegations::forget(FileRecord& file) {
  if (!file.delegation) return;
  for (Open* open : file.opens) open->shares_delegation = false;
  file.delegation.reset();
  --held_;
}

void Delegations::end(FileRecord& file) {
  forget(file);
  if (end_sink_) end_sink_(file.file);
}

void Delegations::end(Open& open) {
  if (open.delegation() != nullptr) end(*open.record);
}

void Delegations::end_of_before(FileRecord& file) {
  if (file.delegation->client == parts_.calls.facts().client_id) {
    return_in_background(end_and_take(file));
  } else {
    end(file);
  }
}

void Delegations::end_of_before(Open& open) {
  if (open.delegation() != nullptr) end_of_before(*open.record);
}

void Delegations::leave(Open& open) {
  if (is_shared(open))
    open.shares_delegation = false;
  else
    end_of_before(open);
}

void Delegations::revoked(Open& open, const stateid4& stateid) {
  if (open.delegation() == nullptr || open.delegation()->stateid.other != stateid.other) return;
  ++parts_.counters.delegations_revoked;
  open.record->deferred.ended(stateid);
  end(open);
}

// ---- returning ----

void Delegations::about_to_return(FileRecord& file) {
  if (std::exchange(file.delegation->returning, true)) return;
  if (end_sink_) end_sink_(file.file);
}

std::optional<stateid4> Delegations::return_with_close(Open& open) {
  if (open.delegation() == nullptr) return std::nullopt;
  if (is_shared(open)) {
    open.shares_delegation = false;
    return std::nullopt;
  }
  about_to_return(*open.record);
  return open.delegation()->stateid;
}

/// Called when the CLOSE that was to return the delegation `stateid` has ended. Meanwhile an OPEN may have
/// been granted another delegation, which is kept, or which has been returned already. If the CLOSE did not
/// return `stateid`, and the file's record has another delegation or none, `stateid` is returned here.
void Delegations::returned_with_close(Open& open, const stateid4& stateid, bool gone) {
  if (gone) {
    open.record->deferred.ended(stateid);
    expect_no_more(open.file, stateid);
  }
  const async::Rarely<Delegation>& held = open.record->delegation;
  const bool is_held = held && held->stateid.other == stateid.other;
  if (!is_held && !gone) return return_in_background({open.file, stateid});
  if (!is_held || open.delegation() == nullptr || !held->returning) return;
  if (gone) {
    forget(*open.record);
    hold_connections();
  } else {
    start_return(open);
  }
}

void Delegations::start_return(Open& open) {
  return_in_background(end_and_take(*open.record));
}

/// Ends the delegation for this client, and returns what its DELEGRETURN needs.
Delegations::Recalled Delegations::end_and_take(FileRecord& file) {
  Recalled out{file.file, file.delegation->stateid, file.delegation->writes};
  end(file);
  return out;
}

void Delegations::return_in_background(const Recalled& what) {
  parts_.calls.background().spawn(give_back(what));
}

async::Task<void> Delegations::write_out(nfs_fh4 file) {
  if (write_back_owner_ == nullptr) co_return;
  struct Awaited {
    explicit Awaited(async::Loop& loop) : ended(loop) {}
    bool over = false;
    async::Event ended;
  };
  const auto awaited = std::make_shared<Awaited>(parts_.calls.loop());
  write_back_owner_->write_out(file, {awaited.get(), [awaited](void*) {
                                        awaited->over = true;
                                        awaited->ended.notify_all();
                                      }});
  while (!awaited->over) (void)co_await awaited->ended.wait_until(async::TimePoint::max());
}

/// Searches the DELEGRETURNs under way, for delegations that were granted under this client id only.
std::shared_ptr<Delegations::Returning> Delegations::find_returning(const stateid4& stateid) const {
  const auto found = std::ranges::find_if(returning_, [&](const auto& one) {
    return one->epoch == parts_.calls.epoch() && one->stateid.other == stateid.other;
  });
  return found != returning_.end() ? *found : nullptr;
}

/// Called when the server has not taken the delegation back. The answer to an OPEN under way may still have
/// it, with a file handle by which the server takes it back.
void Delegations::not_returned(const stateid4& stateid) {
  for (Expected& one : expected_) {
    const bool same = one.epoch == parts_.calls.epoch() && one.what.stateid.other == stateid.other;
    if (!same) continue;
    one.returned = false;
    one.due = async::TimePoint::max();
  }
}

namespace {
/// Whether the server, by this answer to DELEGRETURN, does not hold the delegation for this client any more.
bool is_over(nfsstat4 status) {
  return retry_of(status) == Retry::none || retry_of(status) == Retry::with_new_state;
}
}  // namespace

async::Task<void> Delegations::give_back(Recalled what) {
  CallLayer& calls = parts_.calls;
  const stateid4 stateid = what.stateid;
  const auto returning = std::make_shared<Returning>(stateid, calls.epoch(), what.file);
  const Outstanding::One counted(parts_.outstanding);
  returning_.push_back(returning);
  hold_connections();
  if (what.writes) co_await write_out(what.file);
  async::Backoff trouble(kBetweenReturns, kMostBetweenReturns);
  Retries at_the_end(calls.loop(), calls.default_deadline());
  bool over = false;
  for (;;) {
    const nfs_fh4 file = returning->file;
    Compound compound = calls.begin_on(file, "DELEGRETURN");
    // to_keep() leaves the seqid out, because an OPEN under way may upgrade the delegation. With the
    // earlier seqid the server would then refuse the DELEGRETURN and keep the delegation
    // (OLD_STATEID, RFC 8881 8.2.2).
    compound.add<op::DELEGRETURN>({calls.to_keep(stateid)});
    auto reply = co_await calls.call(std::move(compound));
    // If there is no answer, the server may still wait for the delegation, so DELEGRETURN is sent again.
    const bool revoked = reply && CallLayer::is_revoked(reply->status());
    parts_.counters.delegations_revoked += revoked ? 1 : 0;
    if (revoked) co_await parts_.leftovers.free(stateid);
    over = (reply && is_over(reply->status())) || returning->epoch != calls.epoch();
    if (over) break;
    if (reply && !passes(retry_of(reply->status()))) {
      if (file.mark == returning->file.mark) break;
      continue;  // the answer to an OPEN came meanwhile, with a handle whose security flavour is known
    }
    if (calls.ending()) {
      const bool again = co_await at_the_end.again(reply ? reply->status() : NFS4_OK);
      if (!again) break;
      continue;
    }
    co_await calls.loop().sleep_for(reply ? trouble.take() : kBetweenReturns);
  }
  if (const auto record = parts_.opens.file(what.file)) record->deferred.ended(stateid);
  std::erase(returning_, returning);
  if (over)
    expect_no_more(what.file, stateid);
  else
    not_returned(stateid);
  hold_connections();
}

}  // namespace nfsrdma::nfs4
