#include "fs/listing.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

namespace nfsrdma::fs {

async::Task<Result<std::shared_ptr<DirectoryHandle>>> Listing::open_directory(Caller caller, std::uint64_t id,
                                                                              int flags) {
  auto inode = find(id);
  if (!inode) co_return inode.error();
  auto out = std::make_shared<DirectoryHandle>(*inode, std::move(caller));
  if ((flags & O_DIRECTORY) == 0) co_return out;
  auto read = co_await read_page(out, 0);
  handle_stale(**inode, read);
  if (!read) co_return read.error();
  keep_for_lookups(*out);
  hold_page(*out);
  out->loaded = DirectoryHandle::Loaded::for_open;
  co_return out;
}

async::Task<Result<std::shared_ptr<const ReadPage>>> Listing::read_page(
    std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie) {
  DirectoryHandle& at = *directory;
  const auto read = std::make_shared<ReadPage>();
  read->begin = cookie;
  read->as_of = freshness_.count();
  read->names_as_of = at.inode->directory().entries.now();
  const ListVerifier verifier = cookie == 0 ? ListVerifier() : at.read->page.verifier;
  auto page = co_await engine_->list(at.caller, at.inode->handle, cookie, verifier);
  if (!page) co_return page.error();
  if (at.circle.closes_with_page(cookie, page->entries))
    co_return engine::CookieLoop::error("READDIR", at.inode->label);
  read->page = std::move(*page);
  read->came = loop_.now();
  at.read = read;
  at.loaded = DirectoryHandle::Loaded::yes;
  co_return read;
}

/// Counts the page of a directory that a program has open as memory of the user who opened it.
void Listing::hold_page(DirectoryHandle& directory) {
  const auto user = directory.caller ? std::optional(directory.caller->uid) : std::nullopt;
  const std::size_t size = sizeof(ReadPage) + DirectoryPages::size_of(directory.read->page);
  DirectoryPages::held(directory_pages_, directory, user, size);
}

/// Keeps the page of a directory that a program lists, because the kernel does not take along all attributes
/// in it.
void Listing::keep_for_lookups(const DirectoryHandle& directory) {
  if (options_.names && !directory.read->page.entries.empty()) lookups_ahead_.keep(directory);
}

async::Task<Result<ListedNames>> Listing::list(std::shared_ptr<DirectoryHandle> directory,
                                               std::uint64_t cookie) {
  using Loaded = DirectoryHandle::Loaded;
  DirectoryHandle& at = *directory;
  const auto inside = [&] {
    if (at.loaded == Loaded::no) return false;
    // From the beginning the names are read anew, as rewinddir(3) demands. The first time the page of the
    // open is used.
    if (cookie == 0) return std::exchange(at.loaded, Loaded::yes) == Loaded::for_open;
    // A page that ends with the cookie behind which it begins is requested again. The pages that follow show
    // whether the server makes progress at all (CookieLoop).
    const Page& page = at.read->page;
    if (cookie == at.read->begin) return page.entries.empty() || page.entries.back().cookie != cookie;
    return std::ranges::any_of(page.entries, [&](const auto& entry) { return entry.cookie == cookie; }) &&
           (page.eof || page.entries.back().cookie != cookie);
  };
  std::shared_ptr<const ReadPage> page;
  if (inside()) {
    page = at.read;
    DirectoryPages::used(at);
  } else {
    auto read = co_await read_page(directory, cookie);
    handle_stale(*at.inode, read);
    if (!read) co_return read.error();
    page = std::move(*read);
    keep_for_lookups(at);
    hold_page(at);
  }
  const std::span<const Listed> all(page->page.entries);
  if (cookie == page->begin) co_return ListedNames(page, all);
  const auto before = std::ranges::find(all, cookie, &Listed::cookie);
  co_return ListedNames(page, all.subspan(static_cast<std::size_t>(before - all.begin()) + 1));
}

Attributes Listing::brief_of(const Listed& listed) {
  return numbering_.numbered(listed.attributes);
}

bool Listing::is_gone(const DirectoryHandle& directory, const Listed& listed) {
  return directory.inode->directory().entries.judge(listed.name, directory.read->names_as_of) ==
         NameChanges::Verdict::gone;
}

/// Returns whether this mount has changed what the page says of the entry, or has given the kernel newer
/// attributes.
bool Listing::is_outdated(const DirectoryHandle& directory, const Listed& listed) const {
  const auto verdict = directory.inode->directory().entries.judge(listed.name, directory.read->names_as_of);
  if (verdict != NameChanges::Verdict::as_listed) return true;
  return freshness_.is_outdated(listed.attributes, inodes_.find(*listed.handle).get(), directory.read->as_of);
}

Entry Listing::entry_of(const DirectoryHandle& directory, const Listed& listed) {
  Entry out = entry_in_page(directory, listed);
  if (out.inode != 0) lookups_ahead_.gave(directory, listed);
  return out;
}

Entry Listing::entry_in_page(const DirectoryHandle& directory, const Listed& listed) {
  if (!listed.handle || is_outdated(directory, listed)) return {};
  const auto passed = loop_.now() - directory.read->came;
  const Seconds age = passed;
  if (freshness_.valid(listed.attributes) <= age) return {};
  const std::uint64_t as_of = directory.read->as_of;
  Entry out =
      entries_.entry(*listed.handle, *directory.inode, listed.name, listed.attributes, as_of, as_of, as_of);
  out.attributes_valid -= age;
  out.name_valid = std::max(Seconds(0), out.name_valid - age);
  if (options_.several_users) {
    const auto inode = inodes_.find(out.inode);
    inode->names.believe_less(passed);
    inode->attributes.keep_less(passed);
  }
  return out;
}

async::Task<Listing::Dots> Listing::dots(std::shared_ptr<DirectoryHandle> directory) {
  const std::shared_ptr<Inode>& inode = directory->inode;
  if (inode->attributes.number() == 0) (void)co_await attributes_.attributes(directory->caller, inode->id);
  Dots out;
  out.self = out.parent = inode->attributes.number();
  // Only the kernel knows the directory above the mount.
  if (inode->id == Inodes::kRoot) co_return out;
  const auto parent = inodes_.find(inode->parent);
  if (parent && parent->attributes.number() != 0) {
    out.parent = parent->attributes.number();
    co_return out;
  }
  auto found = co_await engine_->parent(directory->caller, inode->handle);
  if (found && found->attributes) out.parent = numbering_.numbered(*found->attributes).file_id;
  co_return out;
}

// ---- lookups from pages in memory ----

std::optional<Entry> Listing::find_ahead(const Caller& caller, const Inode& directory,
                                         const std::string& name) {
  const auto found = lookups_ahead_.take(directory, caller, name);
  if (!found) return std::nullopt;
  Entry out;
  if (!is_gone(*found->page, *found->listed)) out = entry_in_page(*found->page, *found->listed);
  if (auto more = lookups_ahead_.given(found->page))
    background_.spawn(read_ahead(std::move(more->page), more->cookie));
  if (out.inode == 0) return std::nullopt;
  return out;
}

void Listing::look_ahead(const Caller& caller, const std::shared_ptr<Inode>& directory) {
  if (!options_.names || options_.file_max == Seconds(0)) return;
  if (auto wanted = lookups_ahead_.asked(directory, caller))
    background_.spawn(read_ahead(std::move(wanted->page), wanted->cookie));
}

async::Task<void> Listing::read_ahead(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie) {
  auto read = co_await read_page(directory, cookie);
  if (read) {
    lookups_ahead_.came(directory);
  } else {
    lookups_ahead_.failed(directory);
  }
}

}  // namespace nfsrdma::fs
