#include "sim/name_oracle.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::sim {

NameOracle::NameOracle(OracleClock& clock) : clock_(clock) {
  changes_.push_back({last_, 1, 1, true, false, {""}, {}});
}

NameOracle::ChangeId NameOracle::begin(std::vector<File> to, std::vector<File> perhaps) {
  changes_.push_back({++last_, clock_.tick(), 0, true, false, std::move(to), std::move(perhaps)});
  return last_;
}

void NameOracle::end(ChangeId id, Outcome outcome, std::vector<File> to, bool sure) {
  const auto change = std::ranges::find(changes_, id, &Change::id);
  change->ended = clock_.tick();
  change->sure = sure && outcome == Outcome::done;
  change->loose = outcome == Outcome::unknown;
  change->to = std::move(to);
  if (outcome == Outcome::failed) changes_.erase(change);
  prune();
}

/// No change that had ended before the question began is behind it.
bool NameOracle::is_permitted(const Change& change, Tick begun) const {
  if (change.loose) return true;
  return std::ranges::none_of(changes_, [&](const Change& other) {
    return other.sure && other.ended != 0 && other.ended < begun && change.ended != 0 &&
           change.ended < other.begun;
  });
}

void NameOracle::prune() {
  const Tick horizon = clock_.horizon();
  std::erase_if(changes_, [&](const Change& change) { return !is_permitted(change, horizon); });
}

bool NameOracle::may_lead_to(const File& file, Tick begun, std::optional<ChangeId> but) const {
  return std::ranges::any_of(changes_, [&](const Change& change) {
    const bool fits =
        change.to.empty() ? !file.empty() : std::ranges::find(change.to, file) != change.to.end();
    return fits && change.id != but && is_permitted(change, begun);
  });
}

bool NameOracle::may_lead_somewhere(Tick begun) const {
  return std::ranges::any_of(changes_, [&](const Change& change) {
    const bool fits =
        change.to.empty() || std::ranges::any_of(change.to, [](const File& one) { return !one.empty(); });
    return fits && is_permitted(change, begun);
  });
}

std::vector<NameOracle::File> NameOracle::files(Tick begun) const {
  std::vector<File> out;
  for (const Change& change : changes_) {
    if (!is_permitted(change, begun)) continue;
    for (const File& file : change.to.empty() ? change.perhaps : change.to) {
      if (!file.empty() && std::ranges::find(out, file) == out.end()) out.push_back(file);
    }
  }
  return out;
}

bool NameOracle::may_lead_to_unknown(Tick begun, std::optional<ChangeId> but) const {
  return std::ranges::any_of(changes_, [&](const Change& change) {
    return change.id != but && change.to.empty() && is_permitted(change, begun);
  });
}

bool NameOracle::is_quiet_since(Tick begun, std::optional<ChangeId> but) const {
  return std::ranges::all_of(changes_, [&](const Change& change) {
    return change.id == but || (!change.loose && change.ended != 0 && change.ended < begun);
  });
}

}  // namespace nfsrdma::sim
