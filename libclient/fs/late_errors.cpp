#include "fs/late_errors.h"

#include <algorithm>

namespace nfsrdma::fs {
namespace {
/// Limit of remembered owners, because a shell may have thousands of children that all inherit one
/// description. An owner that is forgotten may get an error twice.
constexpr std::size_t kMostOwners = 64;
}  // namespace

Status LateErrors::Listener::tell() {
  errors_.told_ = true;
  return *errors_.last_;
}

Status LateErrors::Listener::at_fsync() {
  owners_.clear();
  if (std::exchange(told_, errors_.count_) == errors_.count_) return {};
  return tell();
}

Status LateErrors::Listener::at_close(std::uint64_t owner) {
  if (told_ == errors_.count_) return {};
  const auto known = std::ranges::find(owners_, owner, &std::pair<std::uint64_t, std::uint64_t>::first);
  if (known != owners_.end()) {
    if (std::exchange(known->second, errors_.count_) == errors_.count_) return {};
    return tell();
  }
  if (owners_.size() == kMostOwners) owners_.pop_front();
  owners_.emplace_back(owner, errors_.count_);
  return tell();
}

Status LateErrors::Listener::untold() const {
  const auto knows = [this](const auto& owner) { return owner.second == errors_.count_; };
  if (told_ == errors_.count_ || std::ranges::any_of(owners_, knows)) return {};
  return *errors_.last_;
}

}  // namespace nfsrdma::fs
