// A mounted file system: translates the kernel's requests into operations of a protocol's engine
// (engine/engine.h).
//
// The kernel names an object by its inode number (inodes.h), and every operation carries the caller whose
// rights count. Each operation is one round trip if the server permits that. FileSystem is the face of these
// parts, which do the work; each part's header describes its operations:
//   NameRequests       name_requests.h       names: looked up, made, linked, renamed, removed
//   AttributeRequests  attribute_requests.h  attributes, rights, symbolic links
//   Listing            listing.h             directories
//   Opening            opening.h             open(2) and creat(2); close-to-open consistency
//   NameChecks         name_checks.h         whether the name by which the kernel opens a file still leads to it
//   EarlyReads         early_reads.h         small files, read while they are opened
//   Reading            reading.h             reads, by the kernel and past it
//   Writing            writing.h             writes, by the kernel and past it; fsync(2), fallocate(2), copies
//   KernelCache        kernel_cache.h        the kernel's pages of a file, kept in agreement with the server
//   FileLocks          file_locks.h          locks
//   Closing            closing.h             close(2), and inodes that the kernel forgets
//   Xattrs             xattrs.h              extended attributes and access control lists
// They share (part.h):
//   Inodes             inodes.h              the objects that the kernel knows, and what is known of each
//   Freshness          freshness.h           known attributes, and how long each is valid
//   WriteBehind        write_behind.h        writes that are answered before they are on the server
//   ReadWindow         read_window.h         the amount of read-ahead, for each open file and for all
//   LookupsAhead       lookups_ahead.h       lookups that are answered from directory pages in memory
//   Entries            entries.h             what the kernel is told of a name
//   Removal            removal.h             removal and renaming of files that are open here
//   DeferredCloses     deferred_closes.h     files whose close(2) returned before their data was safe
//
// Confined to the loop's thread. Tasks may not outlive the FileSystem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/tasks.h"
#include "fs/attribute_requests.h"
#include "fs/closing.h"
#include "fs/early_reads.h"
#include "fs/entries.h"
#include "fs/file_locks.h"
#include "fs/kernel_cache.h"
#include "fs/listing.h"
#include "fs/name_checks.h"
#include "fs/name_requests.h"
#include "fs/opening.h"
#include "fs/part.h"
#include "fs/reading.h"
#include "fs/writing.h"
#include "fs/xattrs.h"

namespace nfsrdma::fs {

class FileSystem {
 public:
  /// `root` is the directory that is mounted.
  FileSystem(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root);
  ~FileSystem();
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  using Id = std::uint64_t;  ///< the number of an inode
  using File = std::shared_ptr<OpenHandle>;
  using Directory = std::shared_ptr<DirectoryHandle>;

  // ---- names (name_requests.h) ----
  auto lookup(Caller caller, Id directory, std::string name) {
    return names_.lookup(std::move(caller), directory, std::move(name));
  }
  void forget(Id inode, std::uint64_t lookups) { closing_.forget(inode, lookups); }
  [[nodiscard]] auto known_path(Id directory, const std::string& name) const {
    return names_.known_path(directory, name);
  }
  auto make_directory(Caller caller, Id directory, std::string name, std::uint32_t mode) {
    return names_.make_directory(std::move(caller), directory, std::move(name), mode);
  }
  auto make_symlink(Caller caller, Id directory, std::string name, std::string text) {
    return names_.make_symlink(std::move(caller), directory, std::move(name), std::move(text));
  }
  auto make_node(Caller caller, Id directory, std::string name, std::uint32_t mode, std::uint64_t device) {
    return names_.make_node(std::move(caller), directory, std::move(name), mode, device);
  }
  auto link(Caller caller, Id inode, Id directory, std::string name) {
    return names_.link(std::move(caller), inode, directory, std::move(name));
  }
  auto remove_file(Caller caller, Id directory, std::string name) {
    return names_.remove_file(std::move(caller), directory, std::move(name));
  }
  auto remove_directory(Caller caller, Id directory, std::string name) {
    return names_.remove_directory(std::move(caller), directory, std::move(name));
  }
  auto rename(Caller caller, Id from, std::string old_name, Id to, std::string new_name) {
    return names_.rename(std::move(caller), from, std::move(old_name), to, std::move(new_name));
  }

  // ---- attributes (attribute_requests.h) ----
  auto attributes(Caller caller, Id inode) { return attributes_.attributes(std::move(caller), inode); }
  auto set_attributes(Caller caller, Id inode, SetAttributes changes, File file) {
    return attributes_.set_attributes(std::move(caller), inode, std::move(changes), std::move(file));
  }
  auto access(Caller caller, Id inode, unsigned mode) {
    return attributes_.access(std::move(caller), inode, mode);
  }
  auto read_link(Caller caller, Id inode) { return attributes_.read_link(std::move(caller), inode); }
  auto space(Caller caller, Id inode) { return attributes_.space(std::move(caller), inode); }

  // ---- directories (listing.h) ----
  using Dots = Listing::Dots;
  auto open_directory(Caller caller, Id inode, int flags) {
    return listing_.open_directory(std::move(caller), inode, flags);
  }
  auto list(Directory directory, std::uint64_t cookie) { return listing_.list(std::move(directory), cookie); }
  [[nodiscard]] static bool is_gone(const DirectoryHandle& directory, const Listed& listed) {
    return Listing::is_gone(directory, listed);
  }
  Entry entry_of(const DirectoryHandle& directory, const Listed& listed) {
    return listing_.entry_of(directory, listed);
  }
  [[nodiscard]] Attributes brief_of(const Listed& listed) { return listing_.brief_of(listed); }
  auto dots(Directory directory) { return listing_.dots(std::move(directory)); }

  // ---- files (opening.h, closing.h) ----
  static constexpr int kForExecution = Opening::kForExecution;
  using Heard = fs::Heard;
  auto open(Caller caller, Id inode, int flags, std::uint32_t thread = 0) {
    return opening_.open(std::move(caller), inode, flags, thread);
  }
  auto create(Caller caller, Id directory, std::string name, std::uint32_t mode, int flags) {
    return opening_.create(std::move(caller), directory, std::move(name), mode, flags);
  }
  auto flush(File file, std::uint64_t lock_owner, Heard heard = {}) {
    return closing_.flush(std::move(file), lock_owner, std::move(heard));
  }
  auto close(File file) { return closing_.close(std::move(file)); }
  auto closed() { return closing_.closed(); }

  // ---- data (reading.h, writing.h) ----
  using DirectRead = Reading::DirectRead;
  static constexpr int kWrittenBack = Writing::kWrittenBack;
  auto read(File file, std::uint64_t offset, std::size_t size) {
    return reading_.read(std::move(file), offset, size);
  }
  [[nodiscard]] static bool begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size) {
    return Reading::begin_plain_read(file, offset, size);
  }
  void end_plain_read(OpenHandle& file, std::optional<std::size_t> got) {
    reading_.end_plain_read(file, got);
  }
  static void has_ended(OpenHandle& file, std::uint64_t end) { Reading::has_ended(file, end); }
  auto read_direct(File file, async::Memory memory, std::span<std::byte> data, std::uint64_t offset,
                   DirectRead how) {
    return reading_.read_direct(std::move(file), std::move(memory), data, offset, how);
  }
  auto seek(File file, std::uint64_t offset, int whence) {
    return reading_.seek(std::move(file), offset, whence);
  }
  auto write(File file, async::Memory memory, std::span<const std::byte> data, std::uint64_t offset,
             std::optional<int> flags = std::nullopt) {
    return writing_.write(std::move(file), std::move(memory), data, offset, flags);
  }
  auto write_direct(File file, async::Memory memory, std::span<const std::byte> data, std::uint64_t offset,
                    int flags) {
    return writing_.write_direct(std::move(file), std::move(memory), data, offset, flags);
  }
  auto sync(File file, Heard heard = {}) { return writing_.sync(std::move(file), std::move(heard)); }
  auto sync_past(File file) { return writing_.sync_past(std::move(file)); }
  auto allocate(File file, int mode, std::uint64_t offset, std::uint64_t length) {
    return writing_.allocate(std::move(file), mode, offset, length);
  }
  auto copy(File from, std::uint64_t from_offset, File to, std::uint64_t to_offset, std::uint64_t count) {
    return writing_.copy(std::move(from), from_offset, std::move(to), to_offset, count);
  }

  // ---- locks (file_locks.h) ----
  static auto test_lock(File file, LockRequest request) {
    return FileLocks::test_lock(std::move(file), request);
  }
  auto lock(File file, LockRequest request, std::shared_ptr<locking::LockWait> wait) {
    return locks_.lock(std::move(file), request, std::move(wait));
  }
  auto unlock(File file, std::uint64_t owner, LockRange range) {
    return locks_.unlock(std::move(file), owner, range);
  }
  auto release_locks(File file, std::uint64_t owner) { return locks_.release_locks(std::move(file), owner); }

  // ---- extended attributes (xattrs.h) ----
  auto get_xattr(Caller caller, Id inode, std::string name) {
    return xattrs_.get_xattr(std::move(caller), inode, std::move(name));
  }
  auto set_xattr(Caller caller, Id inode, std::string name, std::vector<std::byte> value, int flags) {
    return xattrs_.set_xattr(std::move(caller), inode, std::move(name), std::move(value), flags);
  }
  auto remove_xattr(Caller caller, Id inode, std::string name) {
    return xattrs_.remove_xattr(std::move(caller), inode, std::move(name));
  }
  auto list_xattrs(Caller caller, Id inode) { return xattrs_.list_xattrs(std::move(caller), inode); }

  // ---- notifications to the kernel ----
  /// `sink` is called with an inode whose cached attributes are no longer valid although their time has not
  /// run out.
  void on_doubt(std::function<void(Id)> sink) { shared_.freshness.on_doubt(std::move(sink)); }
  void on_stale_pages(KernelCache::DropPages sink) { kernel_.on_stale_pages(std::move(sink)); }
  void on_lengthened(KernelCache::Lengthen sink) { kernel_.on_lengthened(std::move(sink)); }
  void on_wrong_name(NameChecks::DropName sink) { name_checks_.on_wrong_name(std::move(sink)); }
  /// `sink` is called with the number of bytes that should be requested ahead of one reader, when it has
  /// changed by half (read_window.h). The kernel need not read that far ahead itself: the rest is read ahead
  /// here.
  void on_read_window(std::function<void(std::size_t)> sink) {
    shared_.read_window.on_change(std::move(sink));
  }

  [[nodiscard]] bool kernel_gathers() const { return shared_.options.kernel_gathers; }
  [[nodiscard]] const Counters& counters() const { return shared_.counters; }
  [[nodiscard]] Holdings holdings() const;
  [[nodiscard]] std::size_t bytes_behind() const { return shared_.writes.bytes_behind(); }
  [[nodiscard]] async::Loop& loop() const { return shared_.loop; }

 private:
  Shared shared_;
  KernelCache kernel_;
  NameChecks name_checks_;
  Entries entries_;
  AttributeRequests attributes_;
  Listing listing_;
  DeferredCloses deferred_closes_;
  Removal removal_;
  NameRequests names_;
  EarlyReads early_reads_;
  Opening opening_;
  Reading reading_;
  Writing writing_;
  FileLocks locks_;
  Closing closing_;
  Xattrs xattrs_;
  async::Tasks background_;  // the last member, because its tasks use all the others
};

}  // namespace nfsrdma::fs
