#include "fs/inodes.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fs/open_handle.h"

namespace nfsrdma::fs {
namespace {
std::size_t hash_of(std::uint64_t directory, const std::string& name) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  return std::hash<std::string>()(name) ^ static_cast<std::size_t>(directory * kOdd);
}

/// Gives back buckets that an index has needed for many more inodes than it has now. A container does not do so by
/// itself when elements are erased: after a million inodes each index would keep 8 to 16 MB.
template <class Index>
void shrink(Index& index) {
  constexpr std::size_t kFew = 4096, kTimes = 8;
  if (index.bucket_count() > kFew && index.bucket_count() / kTimes > index.size())
    index.rehash(2 * index.size());
}

/// Returns the predicate that is true of the other name that stands at this place. Arguments must outlive it.
auto is_at(const std::uint64_t& directory, const std::string& name) {
  return [&](const OtherNames::Name& one) { return one.is_at(directory, name); };
}
}  // namespace

std::uint64_t Inode::end() const {
  const KnownAttributes::Answer* const newest = attributes.newest();
  const std::uint64_t end =
      newest ? writes.end_of(newest->attributes.size, newest->as_of) : writes.furthest();
  return std::max(end, end_in_doubt());
}

/// Any open file of the inode knows the unstable data of all its open files.
std::uint64_t Inode::end_in_doubt() const {
  return open.empty() ? 0 : open.front()->file()->end_in_doubt();
}

Inodes::Inodes(async::Loop& loop, const FileHandle& root) : loop_(loop) {
  auto inode = std::make_shared<Inode>(loop);
  inode->id = kRoot;
  inode->lookups = 1;  // never forgotten
  inode->type = FileType::directory;
  inode->label.assign(1, '/');
  inode->handle = root;
  by_handle_.emplace(inode->handle.chars(), kRoot);
  by_id_.emplace(kRoot, std::move(inode));
}

std::shared_ptr<Inode> Inodes::look_up(const FileHandle& handle, const std::string& label, FileType type) {
  auto inode = find(handle);
  if (!inode) {
    const auto again = remembered_.take(handle);
    inode = std::make_shared<Inode>(loop_);
    inode->id = again ? *again : ++last_;
    inode->handle = handle;
    inode->label = label;
    by_handle_.emplace(inode->handle.chars(), inode->id);
    by_id_.emplace(inode->id, inode);
  }
  look_up_again(*inode, type);
  return inode;
}

std::shared_ptr<Inode> Inodes::find(std::uint64_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

std::shared_ptr<Inode> Inodes::find(const FileHandle& handle) const {
  const auto at = by_handle_.find(handle.chars());
  return at == by_handle_.end() ? nullptr : find(at->second);
}

std::optional<FileHandle> Inodes::handle_of(std::uint64_t id) const {
  if (const auto inode = find(id)) return inode->handle;
  return remembered_.find(id);
}

void Inodes::Remembered::add(std::uint64_t id, const FileHandle& handle) {
  if (order_.size() == kMostRemembered) {
    const auto oldest = by_id_.find(order_.front());
    by_handle_.erase(oldest->second.handle.chars());
    by_id_.erase(oldest);
    order_.pop_front();
  }
  const auto at = by_id_.emplace(id, One{handle, order_.insert(order_.end(), id)}).first;
  by_handle_.emplace(at->second.handle.chars(), id);
}

std::optional<FileHandle> Inodes::Remembered::find(std::uint64_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? std::nullopt : std::optional(at->second.handle);
}

std::optional<std::uint64_t> Inodes::Remembered::take(const FileHandle& handle) {
  const auto at = by_handle_.find(handle.chars());
  if (at == by_handle_.end()) return std::nullopt;
  const std::uint64_t id = at->second;
  by_handle_.erase(at);
  const auto one = by_id_.find(id);
  order_.erase(one->second.place);
  by_id_.erase(one);
  return id;
}

void Inodes::unindex(const Inode& inode, std::uint64_t directory, const std::string& name) {
  const auto [begin, end] = by_place_.equal_range(hash_of(directory, name));
  const auto found = std::find_if(begin, end, [&](const auto& one) { return one.second == inode.id; });
  if (found != end) by_place_.erase(found);
}

template <class Predicate>
void Inodes::drop_others(Inode& inode, Predicate is_meant) {
  for (const OtherNames::Name& one : inode.others.take(is_meant)) unindex(inode, one.directory, one.name);
}

void Inodes::place(Inode& inode, std::uint64_t directory, const std::string& name) {
  const std::uint64_t found = ++found_;
  const bool is_there = inode.is_at(directory, name);
  if (!is_there) displace(inode);
  inode.found = found;
  if (is_there) return;
  const auto known = inode.others.take(is_at(directory, name));
  if (known.empty()) by_place_.emplace(hash_of(directory, name), inode.id);
  inode.parent = directory;
  inode.label = name;
  inode.place_checked_under.reset();
  inode.believed_until = known.empty() ? async::TimePoint() : known.front().until;
}

void Inodes::displace(Inode& inode) {
  const async::TimePoint now = loop_.now();
  drop_others(inode, [now](const OtherNames::Name& one) { return one.until <= now; });
  if (inode.parent == 0) return;
  if (inode.believed_until > now && inode.type != FileType::directory) {
    inode.others.add({inode.parent, inode.label, inode.believed_until, inode.found});
  } else {
    unindex(inode, inode.parent, inode.label);
  }
  inode.parent = 0;
}

void Inodes::left(std::uint64_t directory, const std::string& name) {
  while (const auto inode = believed_at(directory, name).inode) {
    if (inode->is_at(directory, name)) {
      inode->believed_until = {};
      displace(*inode);
    }
    drop_others(*inode, is_at(directory, name));
  }
}

const OtherNames::Name* Inodes::lead_elsewhere(Inode& inode, std::uint64_t found) {
  if (inode.found == found) displace(inode);
  return inode.others.mark_wrong(found);
}

void Inodes::dropped(Inode& inode, std::uint64_t found) {
  inode.others.end(found, loop_.now() + OtherNames::kInUse);
}

std::shared_ptr<Inode> Inodes::at(std::uint64_t directory, const std::string& name) const {
  std::shared_ptr<Inode> out;
  const auto [begin, end] = by_place_.equal_range(hash_of(directory, name));
  for (auto one = begin; one != end; ++one) {
    auto inode = find(one->second);
    const bool is_its_place = inode && inode->is_at(directory, name);
    if (is_its_place && (!out || out->found < inode->found)) out = std::move(inode);
  }
  return out;
}

Inodes::Believed Inodes::believed_at(std::uint64_t directory, const std::string& name) const {
  Believed out;
  std::uint64_t last = 0;
  const auto consider = [&](const std::shared_ptr<Inode>& inode, std::uint64_t found,
                            async::TimePoint until) {
    if (found <= last) return;
    last = found;
    out = {inode, until};
  };
  const auto [begin, end] = by_place_.equal_range(hash_of(directory, name));
  for (auto one = begin; one != end; ++one) {
    const auto inode = find(one->second);
    if (!inode) continue;
    if (inode->is_at(directory, name)) consider(inode, inode->found, inode->believed_until);
    if (const auto* other = inode->others.find(directory, name)) consider(inode, other->found, other->until);
  }
  return out;
}

std::shared_ptr<Inode> Inodes::forget(std::uint64_t id, std::uint64_t lookups) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end() || id == kRoot) return nullptr;
  Inode& inode = *at->second;
  inode.lookups -= std::min(inode.lookups, lookups);
  // The kernel may forget an inode when it has released its files, although these may still have data to
  // write. A lookup of the file in the meantime has to find the inode with its state.
  if (inode.lookups != 0 || !inode.open.empty()) return nullptr;
  inode.believed_until = {};
  displace(inode);
  drop_others(inode, [](const OtherNames::Name& /*one*/) { return true; });
  by_handle_.erase(inode.handle.chars());
  remembered_.add(id, inode.handle);
  auto forgotten = std::move(at->second);
  by_id_.erase(at);
  shrink(by_id_);
  shrink(by_handle_);
  shrink(by_place_);
  return forgotten;
}

}  // namespace nfsrdma::fs
