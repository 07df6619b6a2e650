#include "fs/directory_pages.h"

#include <utility>

namespace nfsrdma::fs {

std::size_t DirectoryPages::size_of(const engine::Page& page) {
  // The length up to which a string has no memory of its own.
  static const std::size_t kInside = std::string().capacity();
  std::size_t out = page.entries.capacity() * sizeof(engine::Listed);
  for (const engine::Listed& one : page.entries) {
    for (const std::string* text : {&one.name, &one.attributes.owner, &one.attributes.group})
      if (text->capacity() > kInside) out += text->capacity();
  }
  return out;
}

void DirectoryPages::held(const std::shared_ptr<DirectoryPages>& all, Holder& holder,
                          std::optional<std::uint32_t> user, std::size_t size) {
  holder.dropped();
  OfUser& of = all->users_[user];
  holder.all_ = all;
  holder.user_ = user;
  holder.size_ = size;
  holder.used_ = ++all->uses_;
  holder.place_ = of.holders.insert(of.holders.end(), &holder);
  of.bytes += size;
  all->bytes_ += size;
  while (of.bytes > kMostOfUser && of.holders.front() != &holder) drop(*of.holders.front());
  while (all->bytes_ > kMost) {
    Holder* const first = all->oldest();
    if (first == &holder) break;
    drop(*first);
  }
}

void DirectoryPages::drop(Holder& holder) {
  holder.dropped();
  holder.drop_page();
}

void DirectoryPages::used(Holder& holder) {
  if (!holder.all_) return;
  std::list<Holder*>& all = holder.all_->users_.at(holder.user_).holders;
  all.splice(all.end(), all, holder.place_);
  holder.used_ = ++holder.all_->uses_;
}

void DirectoryPages::Holder::dropped() {
  const auto all = std::exchange(all_, nullptr);
  if (!all) return;
  const auto of = all->users_.find(user_);
  of->second.holders.erase(place_);
  of->second.bytes -= size_;
  all->bytes_ -= size_;
  if (of->second.holders.empty()) all->users_.erase(of);
}

DirectoryPages::Holder* DirectoryPages::oldest() const {
  Holder* out = nullptr;
  for (const auto& [user, of] : users_) {
    Holder* const first = of.holders.front();
    if (out == nullptr || first->used_ < out->used_) out = first;
  }
  return out;
}

std::size_t DirectoryPages::bytes_of(std::optional<std::uint32_t> user) const {
  const auto of = users_.find(user);
  return of == users_.end() ? 0 : of->second.bytes;
}

}  // namespace nfsrdma::fs
