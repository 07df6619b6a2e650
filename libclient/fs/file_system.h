// A mounted file system: translates the kernel's requests into operations of a protocol's engine
// (engine/engine.h).
//
// The kernel names an object by its inode number (inodes.h), and every operation carries the caller whose
// rights count. Each operation is one round trip if the server permits that. FileSystem has the operations of these
// parts; each part's header describes them:
//   NameRequests       name_requests.h       names: looked up, made, linked, renamed, removed
//   AttributeRequests  attribute_requests.h  attributes, rights, symbolic links
//   Listing            listing.h             directories
//   Opening            opening.h             open(2) and creat(2); close-to-open consistency
//   Closing            closing.h             close(2), and inodes that the kernel forgets
//   Reading            reading.h             reads, by the kernel and past it
//   Writing            writing.h             writes, by the kernel and past it; fsync(2), fallocate(2), copies
//   FileLocks          file_locks.h          locks
//   Xattrs             xattrs.h              extended attributes and access control lists
// They share these, which the kernel does not see:
//   Inodes             inodes.h              the objects that the kernel knows, and what is known of each
//   Freshness          freshness.h           known attributes, and how long each is valid
//   KernelCache        kernel_cache.h        the kernel's pages of a file, kept in agreement with the server
//   NameChecks         name_checks.h         whether the name by which the kernel opens a file still leads to it
//   Entries            entries.h             the answers to the kernel that carry a name's object
//   WriteBehind        write_behind.h        writes that are answered before they are on the server
//   ReadWindow         read_window.h         the amount of read-ahead, for each open file and for all
//   EarlyReads         early_reads.h         small files, read while they are opened
//   LookupsAhead       lookups_ahead.h       lookups that are answered from directory pages in memory
//   Removal            removal.h             removal and renaming of files that are open here
//   DeferredCloses     deferred_closes.h     files whose close(2) returned before their data was safe
//
// Confined to the loop's thread. Tasks may not outlive the FileSystem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

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

/// The parts that FileSystem's operations share.
struct InnerParts {
  InnerParts(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root,
             async::Tasks& background, ReadsElsewhere* elsewhere);
  MountState state;
  KernelCache kernel;
  NameChecks name_checks;
  Entries entries;
  EarlyReads early_reads;
  DeferredCloses deferred_closes;
  Removal removal;
};

class FileSystem : InnerParts,
                   public AttributeRequests,
                   public Listing,
                   public NameRequests,
                   public Opening,
                   public Reading,
                   public Writing,
                   public FileLocks,
                   public Closing,
                   public Xattrs {
 public:
  /// `root` is the directory that is mounted. `elsewhere`, if not null, makes READs on other threads, and must be there
  /// until the loop has no tasks any more.
  FileSystem(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root,
             ReadsElsewhere* elsewhere = nullptr);
  ~FileSystem() override;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // ---- notifications to the kernel ----
  /// `sink` is called with an inode whose cached attributes are no longer valid although their time has not
  /// run out.
  void on_doubt(std::function<void(std::uint64_t)> sink) { state.freshness.on_doubt(std::move(sink)); }
  void on_stale_pages(KernelCache::DropPages sink) { kernel.on_stale_pages(std::move(sink)); }
  void on_lengthened(KernelCache::Lengthen sink) { kernel.on_lengthened(std::move(sink)); }
  void on_wrong_name(NameChecks::DropName sink) { name_checks.on_wrong_name(std::move(sink)); }

  [[nodiscard]] bool kernel_gathers() const { return state.options.kernel_gathers; }
  [[nodiscard]] const Counters& counters() const { return state.counters; }
  [[nodiscard]] Holdings holdings() const;
  [[nodiscard]] std::size_t bytes_behind() const { return state.writes.bytes_behind(); }
  [[nodiscard]] async::Loop& loop() const { return state.loop; }

 private:
  async::Tasks background_;  // destroyed first, because its tasks use all parts
};

}  // namespace nfsrdma::fs
