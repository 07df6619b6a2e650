#include "sim/kernel_model.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/fast_read.h"

namespace nfsrdma::sim {
namespace {

using async::Task;

constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};
/// How long a mapping may have the octets of an append in the wrong place, once that is answered.
constexpr auto kMisplaced = std::chrono::milliseconds(20);
/// How long a directory is locked when the mount has a name of it dropped.
constexpr auto kDirectoryBusy = std::chrono::milliseconds(5);

std::uint64_t page_at(std::uint64_t offset) {
  return offset / KernelModel::kPage;
}
/// Behind the last page of a range.
std::uint64_t page_behind(std::uint64_t end) {
  return end == kNoEnd ? kNoEnd : (end + KernelModel::kPage - 1) / KernelModel::kPage;
}

}  // namespace

/// i_rwsem, held for writing.
class KernelModel::Exclusive {
 public:
  explicit Exclusive(NodeRef node) : node_(std::move(node)) {}
  ~Exclusive() {
    node_->exclusive = false;
    node_->changed.notify_all();
  }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  const NodeRef node_;
};

KernelModel::KernelModel(fs::FileSystem& files) : files_(files), loop_(files.loop()), notified_(loop_) {
  files_.on_stale_pages([this](std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
    return stale(inode, offset, length);
  });
  files_.on_lengthened([this](std::uint64_t inode, std::uint64_t end) { return lengthen(inode, end); });
  files_.on_wrong_name(
      [this](std::uint64_t directory, std::string name) { return drop_name(directory, std::move(name)); });
  files_.on_doubt([this](std::uint64_t inode) {
    if (const auto found = nodes_.find(inode); found != nodes_.end()) forget_attributes(*found->second);
  });
}

/// Files that are open go with their inodes, which may begin to write and to ask for pages.
KernelModel::~KernelModel() {
  files_.on_stale_pages(nullptr);
  files_.on_lengthened(nullptr);
  files_.on_wrong_name(nullptr);
  files_.on_doubt(nullptr);
}

KernelModel::NodeRef KernelModel::node(std::uint64_t inode) {
  NodeRef& out = nodes_[inode];
  if (!out) {
    out = std::make_shared<Node>(loop_);
    out->inode = inode;
  }
  return out;
}

Task<void> KernelModel::lock(NodeRef node) {
  while (node->exclusive) (void)co_await node->changed.wait_until(async::TimePoint::max());
  node->exclusive = true;
}

// ---- attributes ----

void KernelModel::forget_attributes(Node& node) {
  changed_here(node);
  node.believed_until = {};
}

/// truncate_pagecache(): pages behind the end go, and what the last one has behind it is zeros.
Task<void> KernelModel::cut(NodeRef node, std::uint64_t size) {
  node->size = size;
  for (std::uint64_t index = page_at(size);;) {
    const auto at = node->pages.lower_bound(index);
    if (at == node->pages.end()) co_return;
    index = at->first;
    Page& page = *at->second;
    if (page.locked || page.writing) {
      (void)co_await node->changed.wait_until(async::TimePoint::max());
    } else if (index * kPage < size) {
      std::ranges::fill(page.data.begin() + static_cast<std::ptrdiff_t>(size % kPage), page.data.end(), '\0');
      ++index;
    } else {
      node->pages.erase(at);
    }
  }
}

/// fuse_change_attributes().
Task<void> KernelModel::believe(NodeRef node, Attributes told, fs::Seconds valid, std::uint64_t version) {
  if (node->version > version || node->resizing != 0) co_return;
  node->believed_until = loop_.now() + std::chrono::duration_cast<async::Clock::duration>(valid);
  changed_here(*node);
  const bool same_size = node->size == told.size;
  const bool same = same_size && node->modified == told.modified;
  node->modified = told.modified;
  if (!same_size) co_await cut(node, told.size);
  if (!same) co_await drop(node, 0, kNoEnd);
}

Task<void> KernelModel::entered(fs::Entry entry, std::uint64_t version) {
  if (entry.inode == 0) co_return;
  const bool is_new = !nodes_.contains(entry.inode);
  const NodeRef known = node(entry.inode);
  ++known->lookups;
  ++known->held;
  if (is_new) {
    known->size = entry.attributes.size;
    known->modified = entry.attributes.modified;
  }
  co_await believe(known, entry.attributes, entry.attributes_valid, version);
}

void KernelModel::believe_name(std::uint64_t directory, const std::string& name, const fs::Entry& entry) {
  if (entry.inode == 0) return;
  const auto until = loop_.now() + std::chrono::duration_cast<async::Clock::duration>(entry.name_valid);
  names_[{directory, name}] = {entry.inode, until};
}

std::uint64_t KernelModel::believed(std::uint64_t directory, const std::string& name) {
  const auto found = names_.find({directory, name});
  if (found == names_.end() || loop_.now() >= found->second.until) return 0;
  ++node(found->second.inode)->held;
  return found->second.inode;
}

Task<void> KernelModel::opened(fs::OpenedFile file, std::uint64_t inode, int flags) {
  const NodeRef known = node(inode);
  known->open.push_back(file.handle);
  let_go(inode);
  if ((flags & O_TRUNC) != 0) {
    changed_here(*known);
    known->believed_until = {};
    co_await cut(known, 0);
  }
  const bool is_created = file.entry.inode != 0;  // FUSE_CREATE: its attributes are those that were entered
  if (!is_created && !file.keep_attributes) forget_attributes(*known);
  if (!file.keep_cache) co_await drop(known, 0, kNoEnd);
}

/// Asks for attributes if what is known is not believed any more.
Task<Status> KernelModel::update(NodeRef node) {
  if (loop_.now() < node->believed_until) co_return Status();
  const std::uint64_t before = version_;
  auto got = co_await files_.attributes(nullptr, node->inode);
  if (!got) co_return got.error();
  co_await believe(node, got->attributes, got->valid, before);
  co_return Status();
}

Task<Result<std::uint64_t>> KernelModel::size(std::uint64_t inode) {
  const NodeRef known = node(inode);
  if (loop_.now() < known->believed_until) co_return known->size;
  const std::uint64_t before = version_;
  auto got = co_await files_.attributes(nullptr, inode);
  if (!got) co_return got.error();
  const std::uint64_t told = got->attributes.size;
  co_await believe(known, std::move(got->attributes), got->valid, before);
  co_return told;
}

// ---- reading ----

Task<Result<std::string>> KernelModel::read_file(Handle file, std::uint64_t offset, std::size_t size) {
  if (files_.begin_plain_read(*file, offset, size)) {
    const async::Memory memory = loop_.memory().take(size);
    auto fast = co_await engine::FastReadWait(*file->file(), {memory.data.get(), size}, offset);
    Result<std::size_t> got = fast.count;
    if (fast.rest) got = co_await std::move(*fast.rest);
    files_.end_plain_read(*file, got ? *got : 0);
    if (!got) co_return got.error();
    if (*got < size) fs::FileSystem::has_ended(*file, offset + *got);
    co_return std::string(reinterpret_cast<const char*>(memory.data.get()), *got);
  }
  auto got = co_await files_.read(std::move(file), offset, size);
  if (!got) co_return got.error();
  // The answer of a shard's thread.
  if (loop_.random<std::uint8_t>() % 16 == 0) co_await loop_.sleep_for(1ms);
  std::string out;
  for (const iovec& piece : got->pieces) out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  co_return out;
}

/// The page, read with as many of those behind it as are wanted and not there.
Task<Result<KernelModel::PageRef>> KernelModel::fetch(NodeRef node, Handle file, std::uint64_t index,
                                                      std::uint64_t wanted) {
  constexpr std::uint64_t kMostAtOnce = 4;
  for (;;) {
    const auto found = node->pages.find(index);
    if (found == node->pages.end()) break;
    if (found->second->filled) co_return found->second;
    if (!found->second->locked) break;
    (void)co_await node->changed.wait_until(async::TimePoint::max());
  }
  std::vector<PageRef> run;
  for (std::uint64_t at = index; at < index + std::min(wanted, kMostAtOnce); ++at) {
    PageRef& page = node->pages[at];
    if (page && (page->filled || page->locked)) break;
    page = std::make_shared<Page>();
    page->locked = true;
    run.push_back(page);
  }
  const std::uint64_t before = version_;
  auto got = co_await read_file(std::move(file), index * kPage, run.size() * kPage);
  for (std::size_t i = 0; i < run.size(); ++i) {
    run[i]->locked = false;
    if (!got) continue;
    const std::string_view all(*got);
    const std::string_view part = all.substr(std::min(all.size(), i * kPage), kPage);
    std::ranges::copy(part, run[i]->data.begin());
    run[i]->filled = true;
  }
  node->changed.notify_all();
  if (!got) co_return got.error();
  // fuse_read_update_size(): the file is shorter than it was known to be.
  const std::uint64_t end = index * kPage + got->size();
  if (got->size() < run.size() * kPage && node->version <= before && end < node->size &&
      node->resizing == 0) {
    changed_here(*node);
    node->size = end;
  }
  co_return run.front();
}

Task<Result<std::string>> KernelModel::read(Handle file, std::uint64_t inode, std::uint64_t offset,
                                            std::size_t size) {
  const NodeRef known = node(inode);
  auto updated = co_await update(known);
  if (!updated) co_return updated.error();
  if (file->direct) {
    co_await write_out(known, offset, offset + size);
    if (offset >= known->size) co_return std::string();
    co_return co_await read_file(std::move(file), offset, size);
  }
  std::string out;
  for (std::uint64_t at = offset; at < std::min(offset + size, known->size); at = offset + out.size()) {
    const std::uint64_t last = page_behind(std::min(offset + size, known->size));
    auto page = co_await fetch(known, file, page_at(at), last - page_at(at));
    // read(2) would bring what is there, and the error the next time.
    if (!page) co_return page.error();
    const std::uint64_t end = std::min({(page_at(at) + 1) * kPage, offset + size, known->size});
    if (end <= at) break;
    out.append((*page)->data, at % kPage, end - at);
  }
  co_return out;
}

// ---- writing ----

Task<Status> KernelModel::write_file(Handle file, std::string data, std::uint64_t offset, int flags) {
  async::Memory memory = loop_.memory().take(data.size());
  std::memcpy(memory.data.get(), data.data(), data.size());
  const std::span<const std::byte> bytes(memory.data.get(), data.size());
  co_return co_await files_.write(std::move(file), std::move(memory), bytes, offset, flags);
}

/// fuse_perform_write(): the pages have the data before the mount has it.
Task<Status> KernelModel::write_cached(NodeRef node, Handle file, std::string data, std::uint64_t offset,
                                       int flags) {
  std::vector<PageRef> pages;
  const std::uint64_t end = offset + data.size();
  for (std::uint64_t index = page_at(offset); index < page_behind(end); ++index) {
    while (node->pages.contains(index) && (node->pages[index]->locked || node->pages[index]->writing))
      (void)co_await node->changed.wait_until(async::TimePoint::max());
    PageRef& page = node->pages[index];
    if (!page) page = std::make_shared<Page>();
    const std::uint64_t from = std::max(offset, index * kPage), to = std::min(end, (index + 1) * kPage);
    page->data.replace(from % kPage, to - from, data, from - offset, to - from);
    if (to - from == kPage) page->filled = true;
    if ((flags & O_APPEND) != 0) page->misplaced_until = async::TimePoint::max();
    page->locked = !page->filled;
    pages.push_back(page);
  }
  auto done = co_await write_file(std::move(file), std::move(data), offset, flags);
  for (const PageRef& page : pages) {
    page->locked = false;
    if ((flags & O_APPEND) != 0) page->misplaced_until = loop_.now() + kMisplaced;
    if (!done) page->filled = false;
  }
  // A part of a page that was not there is not kept.
  std::erase_if(node->pages, [](const auto& one) { return !one.second->filled && !one.second->locked; });
  node->changed.notify_all();
  co_return done;
}

Task<Status> KernelModel::write(Handle file, std::uint64_t inode, std::string data, std::uint64_t offset,
                                int flags) {
  const NodeRef known = node(inode);
  co_await lock(known);
  const Exclusive exclusive(known);
  if ((flags & O_APPEND) != 0) {
    // Linux does not do this. It puts the octets behind the end that it knows of before the mount tells it where they went,
    // and if the page there is dirty by a mapping's store writes them out there, too. The mount cannot tell them apart.
    co_await write_out(known, known->size, kNoEnd);
    offset = known->size;
  }
  const std::uint64_t end = offset + data.size();
  Status done;
  if (file->uncached) {
    done = co_await write_file(file, std::move(data), offset, flags);
  } else if (file->direct) {
    co_await drop(known, offset, end);
    done = co_await write_file(file, std::move(data), offset, flags);
    co_await drop(known, offset, end);
  } else {
    done = co_await write_cached(known, file, std::move(data), offset, flags);
  }
  if (done) known->size = std::max(known->size, end);
  forget_attributes(*known);
  // generic_write_sync(), which a write that goes past the pages does not call (fuse_direct_write_iter()).
  const bool syncs = (flags & O_DSYNC) != 0 && !file->uncached;
  if (done && syncs) co_return co_await sync_range(known, std::move(file), offset, end);
  co_return done;
}

Task<void> KernelModel::write_page(NodeRef node, std::uint64_t index, PageRef page) {
  page->dirty = false;
  page->writing = true;
  // fuse_set_nowrite(): no page is sent while the size is being set, and what is beyond it then is not sent at all.
  while (node->resizing != 0) (void)co_await node->changed.wait_until(async::TimePoint::max());
  const std::uint64_t begin = index * kPage;
  const auto writes = [](const Handle& one) { return one->file()->access() != engine::Access::read; };
  const auto through = std::ranges::find_if(node->open, writes);
  if (begin < node->size && through != node->open.end()) {
    ++node->writing;
    std::string data = page->data.substr(0, std::min<std::uint64_t>(kPage, node->size - begin));
    auto done = co_await write_file(*through, std::move(data), begin, fs::FileSystem::kWrittenBack);
    --node->writing;
    for (const Handle& one : node->open) {
      if (!done) node->lost.insert_or_assign(one.get(), done.error());
    }
  }
  page->writing = false;
  node->changed.notify_all();
}

/// Pages of the range that are dirty, and those that are being written out, are with the mount then.
Task<void> KernelModel::write_out(NodeRef node, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t index = page_at(from);;) {
    const auto at = node->pages.lower_bound(index);
    if (at == node->pages.end() || at->first >= page_behind(to)) co_return;
    index = at->first;
    const PageRef page = at->second;
    if (page->writing) {
      (void)co_await node->changed.wait_until(async::TimePoint::max());
    } else if (page->dirty) {
      co_await write_page(node, index, page);
    } else {
      ++index;
    }
  }
}

/// invalidate_inode_pages2_range().
Task<void> KernelModel::drop(NodeRef node, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t index = page_at(from);;) {
    const auto at = node->pages.lower_bound(index);
    if (at == node->pages.end() || at->first >= page_behind(to)) co_return;
    index = at->first;
    const PageRef page = at->second;
    if (page->locked || page->writing) {
      (void)co_await node->changed.wait_until(async::TimePoint::max());
    } else if (page->dirty) {
      co_await write_page(node, index, page);
    } else {
      node->pages.erase(at);
    }
  }
}

/// truncate_pagecache_range(): what was stored in these bytes meanwhile goes with them.
Task<void> KernelModel::punch(NodeRef node, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t index = page_at(from);;) {
    const auto at = node->pages.lower_bound(index);
    if (at == node->pages.end() || at->first >= page_behind(to)) co_return;
    index = at->first;
    Page& page = *at->second;
    const std::uint64_t begin = std::max(from, index * kPage), end = std::min(to, (index + 1) * kPage);
    if (page.locked || page.writing) {
      (void)co_await node->changed.wait_until(async::TimePoint::max());
    } else if (end - begin == kPage) {
      node->pages.erase(at);
    } else {
      page.data.replace(begin % kPage, end - begin, end - begin, '\0');
      ++index;
    }
  }
}

// ---- mappings ----

/// Linux does not fetch the page again. It puts an append where it believes the end to be, and the mount, which puts it
/// elsewhere, can have it drop the page only when the append is answered. A mapping has the wrong octets until then, and a
/// store writes all of them out. The mount cannot tell them apart; so it is asked only that the page is gone soon.
Task<Result<KernelModel::PageRef>> KernelModel::mapped(NodeRef node, Handle file, std::uint64_t index) {
  for (;;) {
    auto page = co_await fetch(node, file, index, 1);
    if (!page || loop_.now() >= (*page)->misplaced_until || (*page)->dirty || (*page)->writing)
      co_return page;
    const auto now = node->pages.find(index);
    if (now != node->pages.end() && now->second == *page) node->pages.erase(now);
  }
}

Task<Result<std::optional<std::string>>> KernelModel::load(Handle file, std::uint64_t inode,
                                                           std::uint64_t offset) {
  const NodeRef known = node(inode);
  const std::optional<std::string> none;
  if (page_at(offset) >= page_behind(known->size)) co_return none;
  auto page = co_await mapped(known, std::move(file), page_at(offset));
  if (!page) co_return page.error();
  if (page_at(offset) >= page_behind(known->size)) co_return none;
  const std::uint64_t end = std::min((page_at(offset) + 1) * kPage, known->size);
  co_return std::optional((*page)->data.substr(offset % kPage, end > offset ? end - offset : 0));
}

std::size_t KernelModel::room(std::uint64_t inode, std::uint64_t offset, std::size_t size) const {
  const auto found = nodes_.find(inode);
  if (found == nodes_.end() || offset >= found->second->size) return 0;
  return std::min({size, static_cast<std::size_t>(found->second->size - offset),
                   static_cast<std::size_t>(kPage - offset % kPage)});
}

Task<Result<std::size_t>> KernelModel::store(Handle file, std::uint64_t inode, std::uint64_t offset,
                                             std::string data) {
  const NodeRef known = node(inode);
  for (;;) {
    if (room(inode, offset, data.size()) < data.size()) co_return 0;
    auto page = co_await mapped(known, file, page_at(offset));
    if (!page) co_return page.error();
    const auto now = known->pages.find(page_at(offset));
    const bool is_there = now != known->pages.end() && now->second == *page;
    if (is_there && room(inode, offset, data.size()) == data.size() && !now->second->writing) {
      now->second->data.replace(offset % kPage, data.size(), data);
      now->second->dirty = true;
      co_return data.size();
    }
    // page_mkwrite() waits for a page that is being written out, and finds one that was dropped gone.
    if (is_there && now->second->writing) (void)co_await known->changed.wait_until(async::TimePoint::max());
  }
}

// ---- the rest ----

Status KernelModel::told(Node& node, const fs::OpenHandle& file, Status done) {
  const auto lost = node.lost.extract(&file);
  if (done && lost) return lost.mapped();
  return done;
}

Task<Status> KernelModel::sync(Handle file, std::uint64_t inode) {
  co_return co_await sync_range(node(inode), std::move(file), 0, kNoEnd);
}

/// fuse_fsync().
Task<Status> KernelModel::sync_range(NodeRef node, Handle file, std::uint64_t from, std::uint64_t to) {
  co_await write_out(node, from, to);
  auto done = co_await files_.sync(file);
  co_return told(*node, *file, std::move(done));
}

Task<Status> KernelModel::flush(Handle file, std::uint64_t inode, std::uint64_t lock_owner) {
  const NodeRef known = node(inode);
  co_await write_out(known, 0, kNoEnd);
  auto done = co_await files_.flush(file, lock_owner);
  co_return told(*known, *file, std::move(done));
}

void KernelModel::released(const Handle& file, std::uint64_t inode) {
  Node& known = *node(inode);
  std::erase(known.open, file);
  known.lost.erase(file.get());
}

void KernelModel::let_go(std::uint64_t inode) {
  Node& known = *node(inode);
  known.held -= std::min(known.held, 1U);
}

void KernelModel::forget_unused(std::uint64_t inode) {
  const auto found = nodes_.find(inode);
  if (found == nodes_.end() || found->second->held != 0 || !found->second->open.empty()) return;
  const std::uint64_t lookups = found->second->lookups;
  std::erase_if(names_, [inode](const auto& one) { return one.second.inode == inode; });
  nodes_.erase(found);
  files_.forget(inode, lookups);
}

Task<Result<std::uint64_t>> KernelModel::set_attributes(Handle file, std::uint64_t inode,
                                                        SetAttributes changes, bool by_handle) {
  const NodeRef known = node(inode);
  co_await lock(known);
  const Exclusive exclusive(known);
  const bool resizes = changes.size.has_value();
  if (resizes) {
    ++known->resizing;
    while (known->writing != 0) (void)co_await known->changed.wait_until(async::TimePoint::max());
  }
  if (!by_handle) file = nullptr;
  auto done = co_await files_.set_attributes(nullptr, inode, changes, std::move(file));
  const std::uint64_t before = known->size;
  if (done) known->size = done->attributes.size;
  if (resizes) {
    --known->resizing;
    known->changed.notify_all();
  }
  if (!done) {
    forget_attributes(*known);
    co_return done.error();
  }
  changed_here(*known);
  known->believed_until = loop_.now() + std::chrono::duration_cast<async::Clock::duration>(done->valid);
  known->modified = done->attributes.modified;
  if (resizes || done->attributes.size != before) {
    co_await cut(known, done->attributes.size);
    co_await drop(known, 0, kNoEnd);
  }
  co_return done->attributes.size;
}

Task<Status> KernelModel::allocate(Handle file, std::uint64_t inode, int mode, std::uint64_t offset,
                                   std::uint64_t length) {
  const NodeRef known = node(inode);
  co_await lock(known);
  const Exclusive exclusive(known);
  const bool punches = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  if (punches) co_await write_out(known, offset, offset + length);
  auto done = co_await files_.allocate(std::move(file), mode, offset, length);
  if (done && !punches) known->size = std::max(known->size, offset + length);
  if (done && punches) co_await punch(known, offset, offset + length);
  forget_attributes(*known);
  co_return done;
}

Task<Result<std::uint64_t>> KernelModel::copy(Handle from, std::uint64_t from_inode,
                                              std::uint64_t from_offset, Handle to, std::uint64_t to_inode,
                                              std::uint64_t to_offset, std::uint64_t count,
                                              std::uint64_t& asked) {
  const NodeRef source = node(from_inode), target = node(to_inode);
  co_await write_out(source, from_offset, from_offset + count);
  co_await lock(target);
  const Exclusive exclusive(target);
  co_await write_out(target, to_offset, to_offset + count);
  // Behind the end that it knows it does not ask (generic_copy_file_checks()).
  count = asked = std::min(count, source->size - std::min(source->size, from_offset));
  if (count == 0) co_return std::uint64_t{0};
  auto done = co_await files_.copy(std::move(from), from_offset, std::move(to), to_offset, count);
  if (done && *done != 0) {
    // Linux discards these pages (truncate_inode_pages_range()), with what was stored in them while the copy was under way.
    // This model writes that out, so that a store is never lost without another client.
    co_await drop(target, to_offset, to_offset + *done);
    target->size = std::max(target->size, to_offset + *done);
  }
  forget_attributes(*target);
  co_return done;
}

// ---- what the mount tells ----

Task<void> KernelModel::stale(std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
  while (notifying_) (void)co_await notified_.wait_until(async::TimePoint::max());
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) co_return;
  const NodeRef known = found->second;
  notifying_ = true;
  forget_attributes(*known);
  const std::uint64_t end = length == 0 ? kNoEnd : offset + length;
  co_await drop(known, offset, end);
  notifying_ = false;
  notified_.notify_all();
}

/// FUSE_NOTIFY_INVAL_ENTRY. The kernel waits until no program looks a name up in the directory, or changes it.
Task<void> KernelModel::drop_name(std::uint64_t directory, std::string name) {
  co_await loop_.sleep_for(kDirectoryBusy);
  forget_name(directory, name);
}

/// FUSE_NOTIFY_STORE of one byte that cannot be read (CacheDropper::notify_end()): the kernel raises i_size, waits for the
/// lock of the page, and leaves the page as it is.
Task<void> KernelModel::lengthen(std::uint64_t inode, std::uint64_t end) {
  while (notifying_) (void)co_await notified_.wait_until(async::TimePoint::max());
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) co_return;
  const NodeRef known = found->second;
  notifying_ = true;
  if (end > known->size) {
    known->size = end;
    forget_attributes(*known);
  }
  const std::uint64_t index = page_at(end - 1);
  while (known->pages.contains(index) && known->pages[index]->locked)
    (void)co_await known->changed.wait_until(async::TimePoint::max());
  notifying_ = false;
  notified_.notify_all();
}

}  // namespace nfsrdma::sim
