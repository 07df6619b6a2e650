#include "fs/name_changes.h"

namespace nfsrdma::fs {

NameChanges::Verdict NameChanges::judge(const std::string& name, std::uint64_t as_of) const {
  if (as_of < forgotten_) return Verdict::doubtful;
  const auto found = changes_.find(name);
  if (found == changes_.end()) return Verdict::as_listed;
  const Change& change = found->second;
  if (change.under_way != 0) return Verdict::doubtful;
  if (change.at <= as_of) return Verdict::as_listed;
  return change.gone ? Verdict::gone : Verdict::doubtful;
}

void NameChanges::begin(const std::string& name) {
  Change& change = changes_[name];
  change.at = ++count_;
  ++change.under_way;
}

void NameChanges::end(const std::string& name, bool gone) {
  const auto found = changes_.find(name);
  Change& change = found->second;
  change.at = ++count_;
  change.gone = gone;
  --change.under_way;
  if (readers_ == 0 && change.under_way == 0) changes_.erase(found);
  if (changes_.size() > kMost) forget_ended();
}

void NameChanges::leave() {
  if (--readers_ == 0) forget_ended();
}

void NameChanges::forget_ended() {
  std::erase_if(changes_, [](const auto& change) { return change.second.under_way == 0; });
  forgotten_ = count_;
}

}  // namespace nfsrdma::fs
