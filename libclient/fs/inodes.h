// The inodes that somebody knows by number: a mount's kernel, until it forgets them.
//
// An inode is a file handle. It lives while it was looked up more often than forgotten, or while a file of it
// is open; so the table is as large as the kernel's cache, and no larger. Numbers are never used again.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/event.h"
#include "fs/engine.h"
#include "fs/late_errors.h"
#include "fs/pending_writes.h"

namespace nfsrdma::fs {

class OpenHandle;

struct Inode {
  explicit Inode(async::Loop& loop) : settled(loop) {}
  std::uint64_t id = 0;
  FileHandle handle;
  std::uint64_t lookups = 0;
  std::string label;  // a name that it was found by: for messages
  FileType type = FileType::unknown;
  /// Attributes that came along with something else, for whoever asks next (FileSystem::keep_fresh).
  struct Fresh {
    Attributes attributes;
    async::TimePoint until;
    std::uint64_t as_of = 0;
  };
  std::optional<Fresh> fresh;
  unsigned naming = 0;      // operations of this mount under way that change a directory
  std::uint64_t named = 0;  // and all that there were
  /// Its attributes were given out for as long as its delegation lasts.
  bool lifted = false;
  /// The change attribute that goes with what the kernel has cached of the contents.
  std::optional<std::uint64_t> cached_change;
  /// What the server last said it is, and when.
  std::optional<std::uint64_t> known_change;
  async::TimePoint known_at{};
  /// Counts whatever may make bytes that were read before differ from those that are there now: own writes
  /// as they begin and end, locks, sizes that are set, and changes of others as they become known.
  std::uint64_t contents = 0;
  std::vector<OpenHandle*> open;
  /// Removed while open: the name that it has until the last of `open` is closed (a "silly rename").
  struct Hidden {
    FileHandle directory;
    std::string name;
  };
  std::optional<Hidden> hidden;

  // ---- writes ----
  PendingWrites writes;
  /// FileSystem's count of changes as of the last one here: attributes that were asked for before that are
  /// old.
  std::uint64_t changed = 0;
  /// The same count, as of when the size was last set or lost, by something else than a write.
  std::uint64_t resized = 0;
  /// The same count, as of which `cached_change` goes with what was written here.
  std::uint64_t synced = 0;
  async::Event settled;     // one of them ended, or one of `open` was closed
  std::uint64_t ended = 0;  // how many of them did
  LateErrors errors;
  /// Data was lost since the last fsync or close that went well: writes are answered when they are on disk.
  bool failing = false;
  /// What came along with a WRITE, for whoever asks while others are under way.
  struct Brought {
    Attributes attributes;
    async::TimePoint when;
    std::uint64_t as_of = 0;    ///< FileSystem's count of changes when it was sent
    std::uint64_t namings = 0;  ///< and that of changes of names
  };
  std::optional<Brought> brought;
  async::TimePoint wanted_at{};  ///< when a WRITE was last sent that is to bring some
  /// Where the next append goes while others are under way.
  std::optional<std::uint64_t> append_at;
  bool finding_end = false;  ///< the server is being asked for that

  // ---- what the kernel may have cached of the contents ----
  bool paged = false;            ///< there may be pages
  unsigned paging = 0;           ///< reads into pages under way
  std::uint64_t page_reads = 0;  ///< and all that there were
};

class Inodes {
 public:
  static constexpr std::uint64_t kRoot = 1;

  Inodes(async::Loop& loop, const FileHandle& root);
  /// One more lookup of it.
  std::shared_ptr<Inode> look_up(const FileHandle& handle, const std::string& label, FileType type);
  [[nodiscard]] std::shared_ptr<Inode> find(std::uint64_t id) const;
  [[nodiscard]] std::shared_ptr<Inode> find(const FileHandle& handle) const;
  /// Gives the inode where that was the last of its lookups.
  std::shared_ptr<Inode> forget(std::uint64_t id, std::uint64_t lookups);
  [[nodiscard]] std::size_t size() const { return by_id_.size(); }

 private:
  async::Loop& loop_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Inode>> by_id_;
  std::unordered_map<std::string, std::uint64_t> by_handle_;
  std::uint64_t last_ = kRoot;
};

}  // namespace nfsrdma::fs
