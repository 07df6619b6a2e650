#include "fs/lookups_ahead.h"

#include <algorithm>
#include <utility>

#include "async/buggify.h"

namespace nfsrdma::fs {

LookupsAhead::~LookupsAhead() {
  if (timer_ != 0) loop_.cancel(timer_);
}

bool LookupsAhead::is_believed(const Kept& kept) const {
  const auto age = loop_.now() - kept.page->read->came;
  return age < (kept.listed ? async::Clock::duration(kKept) : async::Clock::duration(kBelieved));
}

LookupsAhead::Directory* LookupsAhead::find(std::uint64_t inode) {
  const auto at = std::ranges::find(directories_, inode, &Directory::inode);
  if (at == directories_.end()) return nullptr;
  directories_.splice(directories_.begin(), directories_, at);
  return &directories_.front();
}

LookupsAhead::Directory& LookupsAhead::find_or_add(std::uint64_t inode, const Caller& caller) {
  Directory* found = find(inode);
  if (found == nullptr) {
    directories_.emplace_front().inode = inode;
    if (directories_.size() > kMostDirectories) directories_.pop_back();
    found = &directories_.front();
    tidy_later();
  }
  // The pages belong to one user, because another may have no right to list the directory.
  if (!is_same(found->caller, caller)) {
    found->pages.clear();
    found->in_a_row = 0;
    found->go_on = 0;
    found->caller = caller;
  }
  return *found;
}

void LookupsAhead::add(Directory& directory, std::shared_ptr<DirectoryHandle> page, bool listed) {
  Kept& kept = directory.pages.emplace_front();
  kept.page = std::move(page);
  kept.listed = listed;
  if (directory.pages.size() > kMostPages) directory.pages.pop_back();
}

// ---- names ----

std::optional<std::size_t> LookupsAhead::Kept::find(const std::string& name) {
  if (places.empty()) {
    places.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) places.emplace(entries()[i].name, i);
  }
  const auto found = places.find(name);
  if (found == places.end()) return std::nullopt;
  return found->second;
}

/// Names are listed in the page's order, so the search begins at the next one.
std::optional<std::size_t> LookupsAhead::Kept::find_listed(std::uint64_t cookie) {
  for (std::size_t i = 0; i < size(); ++i) {
    const std::size_t place = (next + i) % size();
    if (entries()[place].cookie != cookie) continue;
    next = place + 1;
    return place;
  }
  return std::nullopt;
}

bool LookupsAhead::Kept::give(std::size_t place) {
  is_given.resize(size());
  if (is_given[place]) return false;
  is_given[place] = true;
  return true;
}

std::optional<LookupsAhead::Found> LookupsAhead::take(const Inode& directory, const Caller& caller,
                                                      const std::string& name) {
  Directory* const at = find(directory.id);
  if (at == nullptr || at->pages.empty() || !is_same(at->caller, caller)) return std::nullopt;
  forget_old(*at);
  for (Kept& kept : at->pages) {
    const auto place = kept.find(name);
    if (!place) continue;
    if (!kept.give(*place)) return std::nullopt;  // the pages after this one are older
    ++kept.given;
    at->wanted_at = loop_.now();
    return Found{kept.page, &kept.entries()[*place]};
  }
  return std::nullopt;
}

void LookupsAhead::keep(const DirectoryHandle& listing) {
  Directory& at = find_or_add(listing.inode->id, listing.caller);
  at.wanted_at = loop_.now();
  auto page = std::make_shared<DirectoryHandle>(listing.inode, listing.caller);
  page->read = listing.read;
  add(at, std::move(page), true);
}

void LookupsAhead::gave(const DirectoryHandle& listing, const Listed& listed) {
  Directory* const at = find(listing.inode->id);
  if (at == nullptr) return;
  for (Kept& kept : at->pages) {
    const bool is_it = kept.page->read == listing.read;
    const auto place = is_it ? kept.find_listed(listed.cookie) : kept.find(listed.name);
    if (place) (void)kept.give(*place);
    if (is_it) return;  // take() does not search the pages after this one
  }
}

void LookupsAhead::drop(std::uint64_t directory) {
  Directory* const at = find(directory);
  if (at == nullptr) return;
  at->pages.clear();
  at->in_a_row = 0;
  at->not_before = loop_.now() + kNotAgain;
}

// ---- pages ----

/// Called when a page that was read ahead is dropped, or is mostly used. Decides whether and where reading
/// ahead continues.
void LookupsAhead::judge(Directory& directory, const Kept& kept) const {
  const Page& page = kept.page->read->page;
  const bool mostly = 2 * kept.given >= kept.size();
  directory.go_on = kept.page->read->begin;
  if (mostly && !page.entries.empty()) directory.go_on = page.eof ? 0 : page.entries.back().cookie;
  directory.verifier = page.verifier;
  if (kept.given < kMany) directory.not_before = loop_.now() + kNotAgain;
}

void LookupsAhead::forget_old(Directory& directory) const {
  while (!directory.pages.empty() && !is_believed(directory.pages.back())) {
    if (!directory.pages.back().listed && directory.pages.size() == 1)
      judge(directory, directory.pages.back());
    directory.pages.pop_back();
  }
}

LookupsAhead::Wanted LookupsAhead::begin(Directory& directory, const std::shared_ptr<Inode>& inode) {
  directory.reading = true;
  directory.in_a_row = 0;
  auto page = std::make_shared<DirectoryHandle>(inode, directory.caller);
  const auto before = std::make_shared<ReadPage>();
  before->page.verifier = directory.verifier;
  page->read = before;
  return {std::move(page), directory.go_on};
}

std::optional<LookupsAhead::Wanted> LookupsAhead::asked(const std::shared_ptr<Inode>& directory,
                                                        const Caller& caller) {
  Directory& at = find_or_add(directory->id, caller);
  const auto now = loop_.now();
  if (now - std::exchange(at.wanted_at, now) > kInARow) at.in_a_row = 0;
  ++at.in_a_row;
  forget_old(at);
  const bool many = at.in_a_row >= kMany || async::buggify(loop_);
  if (!many || at.reading || now < at.not_before) return std::nullopt;
  // A page that was read ahead is here and did not have the name: names are wanted in another order than that
  // of the directory.
  if (!at.pages.empty() && !at.pages.front().listed) return std::nullopt;
  return begin(at, directory);
}

std::optional<LookupsAhead::Wanted> LookupsAhead::given(const std::shared_ptr<DirectoryHandle>& page) {
  Directory* const at = find(page->inode->id);
  if (at == nullptr || at->reading || at->pages.empty()) return std::nullopt;
  const Kept& newest = at->pages.front();
  if (newest.page != page || newest.listed || 4 * newest.given < 3 * newest.size() || page->read->page.eof)
    return std::nullopt;
  judge(*at, newest);
  if (loop_.now() < at->not_before) return std::nullopt;
  return begin(*at, page->inode);
}

void LookupsAhead::came(const std::shared_ptr<DirectoryHandle>& page) {
  Directory* const at = find(page->inode->id);
  if (at == nullptr) return;
  at->reading = false;
  if (loop_.now() < at->not_before || !is_same(at->caller, page->caller)) return;
  // The previous page stays, because it may have names that are still wanted.
  while (at->pages.size() > 1) at->pages.pop_back();
  add(*at, page, false);
}

void LookupsAhead::failed(const std::shared_ptr<DirectoryHandle>& page) {
  Directory* const at = find(page->inode->id);
  if (at == nullptr) return;
  at->reading = false;
  at->not_before = loop_.now() + kNotAgain;
}

void LookupsAhead::tidy_later() {
  if (timer_ != 0) return;
  timer_ = loop_.at(loop_.now() + kKept, [this] {
    timer_ = 0;
    std::erase_if(directories_, [this](const Directory& one) {
      return !one.reading && loop_.now() - one.wanted_at >= kKept;
    });
    if (!directories_.empty()) tidy_later();
  });
}

}  // namespace nfsrdma::fs
