// The inodes that somebody knows by number: a mount's kernel, until it forgets them.
//
// An inode is a file handle. It lives while it was looked up more often than forgotten, or while a file of it
// is open; so the table is as large as the kernel's cache, and no larger. Numbers are never used again.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/event.h"
#include "fs/engine.h"

namespace nfsrdma::fs {

class OpenHandle;

/// Bytes that whoever wrote them has been told are written, and that are not with the server yet.
struct PendingWrite {
  std::uint64_t offset = 0, end = 0;
};

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
  std::vector<OpenHandle*> open;
  /// Removed while open: the name that it has until the last of `open` is closed (a "silly rename").
  struct Hidden {
    FileHandle directory;
    std::string name;
  };
  std::optional<Hidden> hidden;

  // ---- writes behind ----
  std::list<PendingWrite> writes;
  /// FileSystem's count of changes as of the last one here: attributes that were asked for before that are
  /// old.
  std::uint64_t changed = 0;
  /// The same count, as of which `cached_change` goes with what was written here.
  std::uint64_t synced = 0;
  async::Event settled;             // one of them ended, or one of `open` was closed
  std::optional<Error> late_error;  // for the next fsync or close
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
