#include "support/nfs_server_habits.h"

#include <algorithm>
#include <array>
#include <optional>

#include "wire/nfs4/ops.h"

namespace nfsrdma::testing {

using namespace nfs4;

namespace {

/// Groups of habits with what puts each of them back to its default.
struct Group {
  std::string_view name;
  void (*reset)(Habits& habits, const Habits& plain);
};
constexpr std::array kGroups{
    Group{"verifiers",
          [](Habits& h, const Habits& plain) {
            h.new_verifier_percent = plain.new_verifier_percent;
            h.lost_at_commit_percent = plain.lost_at_commit_percent;
          }},
    Group{"survivals",
          [](Habits& h, const Habits& plain) {
            h.survives = plain.survives;
            h.another_owner = plain.another_owner;
            h.dead_sessions = plain.dead_sessions;
          }},
    Group{"delays", [](Habits& h, const Habits& plain) { h.busy_percent = plain.busy_percent; }},
    Group{"failures", [](Habits& h, const Habits& plain) { h.failing_percent = plain.failing_percent; }},
    Group{"promises",
          [](Habits& h, const Habits& plain) {
            h.upgrades_delegations = plain.upgrades_delegations;
            h.replaces_delegations = plain.replaces_delegations;
            h.delegates_unasked = plain.delegates_unasked;
            h.always_delegates_writing = plain.always_delegates_writing;
          }},
    Group{"changes",
          [](Habits& h, const Habits& plain) {
            h.change = plain.change;
            h.time_grain = plain.time_grain;
          }},
    Group{"limits",
          [](Habits& h, const Habits& plain) {
            h.most_slots = plain.most_slots;
            h.most_operations = plain.most_operations;
            h.grants_more = plain.grants_more;
            h.most_read = plain.most_read;
            h.most_written = plain.most_written;
            h.room = plain.room;
          }},
    Group{"holes",
          [](Habits& h, const Habits& plain) {
            h.elements = plain.elements;
            h.plus_chunk = plain.plus_chunk;
            h.has_read_plus = plain.has_read_plus;
          }},
    Group{"flags", [](Habits& h, const Habits& plain) { h.stuck_flags = plain.stuck_flags; }},
    Group{"strangers", [](Habits& h, const Habits& plain) { h.stranger_percent = plain.stranger_percent; }},
};

constexpr auto kGroupNames = [] {
  std::array<std::string_view, kGroups.size()> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = kGroups[i].name;
  return out;
}();

}  // namespace

std::span<const std::string_view> Habits::groups() {
  return kGroupNames;
}

void Habits::leave_out(std::string_view group) {
  const auto found = std::ranges::find(kGroups, group, &Group::name);
  if (found != kGroups.end()) found->reset(*this, Habits());
}

void Habits::leave_out_all() {
  for (const Group& group : kGroups) group.reset(*this, Habits());
}

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
  if (chance.percent(kChange)) out.most_copied = chance.coin() ? 0 : 1 + chance.below(65536);
  if (chance.percent(kChange)) {
    out.copies = chance.coin() ? Copies::in_background : Copies::in_background_unasked;
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
  out.draw_more(aside);
  return out;
}

/// Each by a chance of its own, so that what a seed means otherwise does not change when another one is added.
void Habits::draw_more(Chance chance) {
  constexpr unsigned kChange = 15;
  const auto drawn = [&chance](unsigned percent) {
    const Chance own(chance.next());
    Chance look = own;
    return look.percent(percent) ? std::optional(look) : std::nullopt;
  };
  // ---- verifiers ----
  if (auto own = drawn(kChange))
    new_verifier_percent = own->coin() ? 100 : static_cast<unsigned>(1 + own->below(30));
  if (auto own = drawn(kChange)) lost_at_commit_percent = static_cast<unsigned>(1 + own->below(30));
  // ---- survivals ----
  if (auto own = drawn(2 * kChange)) survives = own->coin() ? Survives::clients : Survives::sessions;
  another_owner = drawn(kChange).has_value();
  dead_sessions = drawn(kChange).has_value();
  // ---- delays, failures ----
  if (auto own = drawn(kChange)) {
    busy_percent = static_cast<unsigned>(1 + own->below(3));
    longest_busy = std::chrono::milliseconds(1 + own->below(3000));
  }
  if (auto own = drawn(kChange)) {
    failing_percent = static_cast<unsigned>(1 + own->below(20));
    longest_failing = std::chrono::milliseconds(1 + own->below(8000));
  }
  // ---- promises ----
  upgrades_delegations = drawn(kChange).has_value();
  replaces_delegations = drawn(kChange).has_value();
  delegates_unasked = drawn(kChange).has_value();
  always_delegates_writing = drawn(33).has_value();
  // ---- changes ----
  if (auto own = drawn(2 * kChange)) {
    change = static_cast<Change>(1 + own->below(3));
    if (change == Change::ctime) time_grain = std::chrono::milliseconds(1 + own->below(10));
  }
  // ---- limits ----
  if (auto own = drawn(kChange)) most_slots = static_cast<std::uint32_t>(1 + own->below(3));
  if (auto own = drawn(kChange)) most_operations = static_cast<std::uint32_t>(8 + own->below(8));
  grants_more = drawn(kChange).has_value();
  for (std::uint64_t Habits::* one : {&Habits::most_read, &Habits::most_written}) {
    auto own = drawn(kChange);
    if (!own) continue;
    // Not below what the library's programs give in one piece, which is not cut (File::start_write).
    const std::array<std::uint64_t, 4> values{0, 3000 + own->below(9000), 1ULL << 40, ~0ULL};
    this->*one = values.at(own->below(values.size()));
  }
  if (auto own = drawn(kChange)) room = own->coin() ? Room::none : Room::blocks;
  // ---- flags ----
  if (auto own = drawn(kChange)) {
    constexpr std::array kFlags{SEQ4_STATUS_CB_PATH_DOWN,
                                SEQ4_STATUS_CB_PATH_DOWN_SESSION,
                                SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING,
                                SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED,
                                SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED,
                                SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED,
                                SEQ4_STATUS_ADMIN_STATE_REVOKED,
                                SEQ4_STATUS_RECALLABLE_STATE_REVOKED,
                                SEQ4_STATUS_LEASE_MOVED,
                                SEQ4_STATUS_BACKCHANNEL_FAULT,
                                SEQ4_STATUS_DEVID_CHANGED,
                                SEQ4_STATUS_DEVID_DELETED};
    // Not SEQ4_STATUS_RESTART_RECLAIM_NEEDED: RFC 8881 18.46.3 has it end with RECLAIM_COMPLETE, without which a client
    // reclaims for ever.
    for (std::uint64_t count = 1 + own->below(2); count > 0; --count)
      stuck_flags |= static_cast<std::uint32_t>(kFlags.at(own->below(kFlags.size())));
  }
  // ---- strangers ----
  if (auto own = drawn(kChange)) stranger_percent = static_cast<unsigned>(10 + own->below(60));
  // ---- holes ----
  if (auto own = drawn(60)) {
    elements = static_cast<Elements>(own->below(6));
    if (own->percent(30)) plus_chunk = own->coin() ? PlusChunk::doubled : PlusChunk::unused;
    has_read_plus = !own->percent(10);
  }
}

std::string Habits::text() const {
  std::string out;
  const Habits plain;
  const auto add = [&out](bool differs, const std::string& what) {
    if (differs) out += (out.empty() ? "" : ", ") + what;
  };
  const auto number = [&add](const char* what, auto is, auto was) {
    add(is != was, std::string(what) + " " + std::to_string(is));
  };
  number("new verifiers", new_verifier_percent, plain.new_verifier_percent);
  number("losses at COMMIT", lost_at_commit_percent, plain.lost_at_commit_percent);
  add(survives == Survives::clients, "client ids survive");
  add(survives == Survives::sessions, "sessions survive");
  add(another_owner, "another owner");
  add(dead_sessions, "dead sessions");
  number("delays", busy_percent, plain.busy_percent);
  number("failures", failing_percent, plain.failing_percent);
  number("trouble", trouble_percent, plain.trouble_percent);
  add(tells_delegations_again, "delegations told again");
  add(delegates_twice, "delegations granted twice");
  add(always_delegates_writing, "write delegations always");
  add(upgrades_delegations, "delegations upgraded");
  add(replaces_delegations, "delegations replaced");
  add(delegates_unasked, "delegations unasked");
  add(change == Change::downwards, "changes downwards");
  add(change == Change::scattered, "changes scattered");
  add(change == Change::ctime, "changes are times");
  number("slots", most_slots, plain.most_slots);
  number("operations", most_operations, plain.most_operations);
  add(grants_more, "more than asked for");
  number("maxread", most_read, plain.most_read);
  number("maxwrite", most_written, plain.most_written);
  add(room != plain.room, "other space limits");
  number("elements", static_cast<unsigned>(elements), static_cast<unsigned>(plain.elements));
  add(plus_chunk == PlusChunk::doubled, "READ_PLUS doubles data");
  add(plus_chunk == PlusChunk::unused, "READ_PLUS uses no chunk");
  add(!has_read_plus, "no READ_PLUS");
  number("flags", stuck_flags, plain.stuck_flags);
  number("strangers", stranger_percent, plain.stranger_percent);
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
