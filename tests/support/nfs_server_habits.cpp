#include "support/nfs_server_habits.h"

namespace nfsrdma::testing {

using namespace nfs4;

std::uint64_t Chance::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// As seen on a Linux 6.1 server, and read from its behaviour with other clients.
Habits Habits::knfsd() {
  Habits out;
  out.at_work = AtWork::delay;
  out.false_retry = FalseRetry::by_shape;
  out.uncached_behind_sequence = true;
  out.create_session_failures = Failures::forgotten;
  out.max_response_cached = 2048;
  out.tells_path_down = true;
  out.expiry = Expiry::courtesy;
  out.grace_ends_early = true;
  out.grace_stops_names = true;
  out.verifier_in_times = true;
  out.delegates = Delegate::readers;
  out.delegates_to_writers = false;
  out.recalls_on_conflict = true;
  out.explains_no_delegation = true;
  out.skips_empty_results = true;
  return out;
}

Habits Habits::ganesha() {
  Habits out;
  out.at_work = AtWork::hold;
  out.false_retry = FalseRetry::unnoticed;
  out.create_session_failures = Failures::forgotten;
  out.expiry = Expiry::purge;
  out.careless_close = true;
  out.downgrades_to_unions = true;
  out.recalls_on_conflict = true;
  out.notify_locks = false;
  out.atomic_change_info = false;
  out.commits_whole_file = true;
  out.no_state_protection = true;
  return out;
}

Habits Habits::rfc_strict() {
  Habits out;
  out.at_work = AtWork::hold;
  out.false_retry = FalseRetry::exact;
  out.associates_connections = false;
  out.checks_high_slot = true;
  out.retires_slots = true;
  out.create_session_failures = Failures::remembered;
  out.first_create_sequence = 0x1234;
  out.no_sequence_hint = true;
  out.tells_path_down = true;
  out.expiry = Expiry::revoke;
  out.conflict_purges = false;
  out.downgrades_to_unions = true;
  out.preserves_unlinked = true;
  out.delegates = Delegate::wanted;
  out.delegates_writing = true;
  out.asks_writers = true;
  out.recalls_on_conflict = true;
  out.explains_no_delegation = true;
  out.tells_rdattr_error = false;
  out.checks_cookie_verifier = true;
  out.commits_whole_file = false;
  return out;
}

Habits Habits::drawn(Chance& chance) {
  constexpr unsigned kChange = 20;
  Habits out;
  switch (chance.below(3)) {
    case 0:
      out = knfsd();
      break;
    case 1:
      out = ganesha();
      break;
    default:
      out = rfc_strict();
      break;
  }
  for (bool Habits::* one : {&Habits::uncached_behind_sequence,
                             &Habits::associates_connections,
                             &Habits::checks_high_slot,
                             &Habits::retires_slots,
                             &Habits::no_sequence_hint,
                             &Habits::tells_path_down,
                             &Habits::conflict_purges,
                             &Habits::grace_ends_early,
                             &Habits::grace_stops_names,
                             &Habits::reclaims_delegations,
                             &Habits::preserves_unlinked,
                             &Habits::downgrades_to_unions,
                             &Habits::careless_close,
                             &Habits::verifier_in_times,
                             &Habits::delegates_to_writers,
                             &Habits::delegates_writing,
                             &Habits::delegates_writing_with_reading,
                             &Habits::asks_writers,
                             &Habits::explains_no_delegation,
                             &Habits::notify_locks,
                             &Habits::atomic_change_info,
                             &Habits::tells_rdattr_error,
                             &Habits::checks_cookie_verifier,
                             &Habits::commits_whole_file,
                             &Habits::stable_writes,
                             &Habits::late_no_space,
                             &Habits::unstable_copies}) {
    if (chance.percent(kChange)) out.*one = !(out.*one);
  }
  if (chance.percent(kChange)) out.at_work = chance.coin() ? AtWork::delay : AtWork::hold;
  if (chance.percent(kChange)) out.false_retry = static_cast<FalseRetry>(chance.below(3));
  if (chance.percent(kChange)) out.create_session_failures = static_cast<Failures>(chance.below(3));
  if (chance.percent(kChange)) out.expiry = static_cast<Expiry>(chance.below(3));
  if (chance.percent(2 * kChange)) out.delegates = static_cast<Delegate>(chance.below(3));
  if (chance.percent(kChange)) out.delegation_percent = static_cast<unsigned>(1 + chance.below(100));
  if (chance.percent(kChange)) out.grants_backchannel = false;
  if (chance.percent(kChange)) out.entries_at_once = static_cast<std::uint32_t>(1 + chance.below(20));
  if (chance.percent(kChange)) out.short_reads = static_cast<std::uint32_t>(512 + chance.below(65536));
  if (chance.percent(kChange)) out.short_writes = static_cast<std::uint32_t>(512 + chance.below(65536));
  if (chance.percent(kChange)) out.full_status = NFS4ERR_DQUOT;
  if (chance.percent(kChange)) {
    out.copies = chance.coin() ? Copies::beside : Copies::beside_unasked;
    out.copy_takes = std::chrono::milliseconds(chance.below(2000));
    out.tells_of_copies = !chance.percent(kChange);
  }
  if (chance.percent(kChange)) out.first_create_sequence = static_cast<sequenceid4>(chance.next());
  if (chance.percent(kChange)) {
    out.stall_percent = static_cast<unsigned>(1 + chance.below(10));
    out.longest_stall = std::chrono::milliseconds(1 + chance.below(3000));
  }
  if (chance.percent(kChange)) out.no_state_protection = true;
  // By a chance of its own, so that what a seed means otherwise does not change.
  Chance aside = chance;
  if (aside.percent(kChange)) out.trouble_percent = static_cast<unsigned>(1 + aside.below(5));
  out.tells_delegations_again = aside.percent(kChange);
  out.delegates_twice = aside.percent(kChange);
  return out;
}

void Habits::draw_v3(Chance& chance) {
  constexpr unsigned kChange = 20;
  // One that is slow and forgetful may execute a call again that was answered long ago, over what came after it:
  // no client of NFSv3 can do anything about that.
  if (chance.percent(kChange) && stall_percent == 0)
    recent_calls = static_cast<std::uint32_t>(chance.below(64));
  if (chance.percent(kChange)) untold_percent = static_cast<unsigned>(1 + chance.below(100));
  creates_exclusively = !chance.percent(kChange);
  lists_with_attributes = !chance.percent(kChange);
}

void Habits::draw_v40(Chance& chance) {
  constexpr unsigned kChange = 20;
  confirms_owners = chance.coin();
  // As with NFSv3.
  if (chance.percent(kChange) && stall_percent == 0)
    recent_calls = static_cast<std::uint32_t>(chance.below(64));
}

}  // namespace nfsrdma::testing
