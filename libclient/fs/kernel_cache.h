// Keeps the kernel's page cache in agreement with the server: fetches what programs have stored in pages, drops pages
// that no longer match the file, and notifies the kernel of a new end of the file. KernelPages (kernel_pages.h) records
// which pages of a file the kernel may have.
//
// Before an operation that has to see earlier writes (a lock, an unlock, lseek(2) for data, the source of a copy, a
// read or write that bypasses the kernel): data that programs have stored in mappings, and with a write-back cache data
// that they have written, is only in the kernel's pages, and is fetched. Such data can exist only if the kernel has
// pages of the file at all and the file is open for writing; a mapping keeps its file open.
//
// After a write: the kernel caches pages at the offsets where it believes the data to be. A file that is open for
// appending only gets no pages (OpenHandle::uncached). A file that is also open for reading does; its pages are dropped
// if the kernel was wrong about the end of the file. Pages are also dropped if an O_DIRECT write bypassed pages that
// were being read, after a write that bypassed the kernel altogether, after a lock was granted, and if data was lost.
//
// The end of the file: the kernel requests attributes again before a read(2), but not when a page of a mapping is
// touched, and behind the end that it knows that is SIGBUS. So the kernel is notified of a new end, unless no program
// can have the file mapped. That happens at an open for reading, after an open with O_TRUNC, after a lock was
// granted, after an append that the kernel put in the wrong place, and after a write that bypassed the kernel.
//
// Dropping pages takes a thread's help and a write-back. It is only done when both ways are used for one file, and costs
// nothing as long as one of them is.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "fs/open_handle.h"
#include "fs/part.h"

namespace nfsrdma::fs {

/// The kernel's request for a write, and the page reads that were under way at that time.
struct WriteRequest {
  int flags = 0;
  bool written_back = false;
  std::uint64_t kernels_offset = 0;
  std::uint64_t page_reads = 0;
  bool paging = false;
  [[nodiscard]] bool appends() const;
  [[nodiscard]] bool is_stable() const;
};

class KernelCache final : Part {
 public:
  explicit KernelCache(MountState& state);

  /// A task that ends when the kernel has dropped its pages of the inode from `offset` on (`length` 0: to the
  /// end). As soon as the task has begun, the kernel ignores the answers to GETATTRs that it had sent before.
  using DropPages =
      std::function<async::Task<void>(std::uint64_t inode, std::uint64_t offset, std::uint64_t length)>;
  void on_stale_pages(DropPages sink) { drop_pages_ = std::move(sink); }
  /// A task that ends when the kernel knows that the file ends at `end`, or behind it. The kernel's pages stay as they are,
  /// because a program may have written or stored newer bytes in them, of which the mount has not heard yet.
  using Lengthen = std::function<async::Task<void>(std::uint64_t inode, std::uint64_t end)>;
  void on_lengthened(Lengthen sink) { lengthen_ = std::move(sink); }

  // ---- before operations that have to see what programs have stored ----

  /// Returns whether a mapping may have stores that are not written back. That takes a file open for reading
  /// and writing, and pages in the kernel's cache.
  [[nodiscard]] bool may_have_stores(const Inode& inode) const;
  /// Has the kernel write dirty pages back, and drop all of its pages, if any may be dirty.
  async::Task<void> fetch_pages(Inode& inode);
  /// Sends all that programs have written to the file, or stored in mappings of it, to the server. The kernel
  /// writes mappings back at close(2) and fsync(2), but neither for a lock nor for lseek(2), nor at the source
  /// of copy_file_range(2).
  async::Task<void> send_out(Inode& inode);

  // ---- after changes ----

  /// Called after a write of the kernel. Drops or corrects the pages that do not match the file any more. The kernel
  /// caches pages of what it writes, and drops the pages in the range of an O_DIRECT write before it sends the
  /// write.
  async::Task<void> drop_stale_pages(std::shared_ptr<OpenHandle> file, WriteRequest how, std::uint64_t offset,
                                     std::size_t size);
  /// Called after a write that bypassed the kernel, up to `end`. With the pages the kernel drops its idea of the file's
  /// size and times.
  async::Task<void> bypassed(Inode& inode, std::uint64_t end);
  /// Called when an open(2) with O_TRUNC is about to be answered; the file has `size` bytes now. The kernel sets its
  /// i_size to 0 when it takes the answer (fuse_truncate_update_attr()), and drops all pages. It takes no attributes for
  /// that, and holds no lock that a ring's write takes (without a write-back cache not even i_rwsem). So a write that the
  /// server has executed after the cut may have been answered already, and its end, of which the kernel was notified, is
  /// lost. The kernel is notified again, because a mapping would end in SIGBUS at 0.
  void will_be_emptied(const std::shared_ptr<OpenHandle>& file, std::uint64_t size);
  /// Called after a lock was granted, because other clients may have written the file while they held theirs.
  /// The attributes that this asks for answer the kernel's next question.
  async::Task<void> see_as_locked(std::shared_ptr<OpenHandle> file);
  /// Notifies the kernel that the file has `size` bytes, as the server has reported or a write of this mount
  /// has reached. If the kernel knows fewer, a mapping ends in SIGBUS there, and copy_file_range(2) copies
  /// nothing from behind. Its pages are dropped first, because a page at the old end would show zeros behind that
  /// end, and would be written back with them.
  async::Task<void> tell_size(std::shared_ptr<OpenHandle> file, std::uint64_t size);

 private:
  void forget_pages(Inode& inode);
  async::Task<void> drop_lost_pages(std::shared_ptr<Inode> inode);
  async::Task<void> drop_pages(Inode& inode, std::uint64_t offset = 0, std::uint64_t length = 0);
  [[nodiscard]] bool may_be_mapped(const Inode& inode) const;
  async::Task<void> tell_length(Inode& inode, std::uint64_t end);
  async::Task<void> tell_appended(Inode& inode, std::uint64_t end);
  async::Task<void> tell_size_after_open(std::shared_ptr<OpenHandle> file, std::uint64_t size);
  async::Task<void> correct_pages(std::shared_ptr<OpenHandle> file, std::uint64_t end);

  DropPages drop_pages_;
  Lengthen lengthen_;
};

}  // namespace nfsrdma::fs
