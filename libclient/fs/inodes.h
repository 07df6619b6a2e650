// The inodes that somebody knows by number: a mount's kernel, until it forgets them.
//
// An inode is a file handle. It lives while it was looked up more often than forgotten, or while a file of it
// is open; so the table is as large as the kernel's cache, and no larger. Numbers are never used again for
// another file.
//
// Of those that were forgotten last the number is remembered, for whoever kept it in a handle of his own
// (open_by_handle_at(2)): handle_of() says which file it was, and look_up() of that file gives the same
// number.
//
// Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/event.h"
#include "engine/engine.h"
#include "fs/file_names.h"
#include "fs/file_writes.h"
#include "fs/kernel_pages.h"
#include "fs/name_changes.h"
#include "fs/search_rights.h"

namespace nfsrdma::fs {

using namespace engine;  // NOLINT: this layer speaks in its words

class OpenHandle;

struct Inode {
  explicit Inode(async::Loop& loop) : settled(loop) {}
  std::uint64_t id = 0;
  FileHandle handle;
  std::uint64_t lookups = 0;
  /// The directory that it was found in last, and its name there (Inodes::place). 0: not known, or not any
  /// more; then the name serves messages only.
  std::uint64_t parent = 0;
  std::string label;
  FileType type = FileType::unknown;
  SearchRights searchers;  ///< of a directory, on a mount for several users
  NameChanges entries;     ///< of a directory: what this mount does to the names in it

  /// Open files of it.
  std::vector<OpenHandle*> open;
  /// Notified when one of `open` was closed, and when what its parts say is under way has come to its end.
  async::Event settled;

  // ---- attributes: what Freshness knows of it ----
  // As the kernel was told last:
  std::uint64_t number = 0;  // st_ino
  std::uint64_t size = 0;
  bool sticky = false;  // a directory where only a file's owner may remove it
  bool set_id = false;  // who may write it has the server clear these bits
  /// The change attribute that goes with them; none: they may be of several states.
  std::optional<std::uint64_t> told_change;
  /// Its attributes were given out for as long as its delegation lasts.
  bool lifted = false;
  /// Attributes that came along with something else, for whoever asks next (Freshness::keep).
  struct Fresh {
    Attributes attributes;
    async::TimePoint until;
    std::uint64_t as_of = 0;  ///< Freshness::now() when the server was asked for them
    std::uint64_t version = 0;
  };
  std::optional<Fresh> fresh;
  /// What came along with a WRITE, for whoever asks while others are under way.
  struct Brought {
    Attributes attributes;
    async::TimePoint when;
    std::uint64_t as_of = 0;    ///< Freshness::now() when it was sent
    std::uint64_t namings = 0;  ///< and its count of changes of names
  };
  std::optional<Brought> brought;
  async::TimePoint wanted_at{};  ///< when a WRITE was last sent that is to bring some
  unsigned naming = 0;           // operations of this mount under way that change a directory
  std::uint64_t named = 0;       // and all that there were
  /// Freshness::now() as of when this mount changed the attributes last, and as of when the kernel was told
  /// newer ones: a page of a directory that was asked for before has older ones.
  std::uint64_t altered = 0, told = 0;
  /// The same count as of the last change of the contents: attributes that were asked for before are old.
  std::uint64_t changed = 0;
  /// The same count, as of when the size was last set or lost, by something else than a write.
  std::uint64_t resized = 0;
  /// Freshness::now() when the file was last opened, locked or resized, or a write of it failed. Attributes are stale if
  /// the server was asked for them before that.
  std::uint64_t valid_from = 0;
  /// The same count, as of which `cached_change` goes with what was written here.
  std::uint64_t synced = 0;
  /// The change attribute that goes with what the kernel has cached of the contents.
  std::optional<std::uint64_t> cached_change;
  /// The server's latest answer, in the order of asking: an answer to an older question does not replace it.
  struct Said {
    std::uint64_t as_of = 0;  ///< Freshness::now() when it was asked
    std::optional<std::uint64_t> change;
    std::uint64_t size = 0;
    async::TimePoint came{};
  };
  Said said;
  /// Counts whatever may make bytes that were read before differ from those that are there now: own writes
  /// as they begin and end, locks, sizes that are set, delegations that end, and changes of others as they become known.
  std::uint64_t contents = 0;

  FileNames names{settled};

  FileWrites writes{settled};
  /// What the kernel may have cached of the contents, and the size that it knows.
  KernelPages pages{settled};
};

class Inodes {
 public:
  static constexpr std::uint64_t kRoot = 1;
  static constexpr std::size_t kMostRemembered = 10'000;  ///< some 300 bytes each

  Inodes(async::Loop& loop, const FileHandle& root);
  /// One more lookup of it.
  std::shared_ptr<Inode> look_up(const FileHandle& handle, const std::string& label, FileType type);
  /// It was found there, or renamed to that. An inode with several names has the place that it was found in
  /// last.
  void place(Inode& inode, std::uint64_t directory, const std::string& name);
  /// It may not be there any more.
  void displace(Inode& inode);
  /// Whichever was found there last; null: none is known.
  [[nodiscard]] std::shared_ptr<Inode> at(std::uint64_t directory, const std::string& name) const;
  [[nodiscard]] std::shared_ptr<Inode> find(std::uint64_t id) const;
  [[nodiscard]] std::shared_ptr<Inode> find(const FileHandle& handle) const;
  /// Of one that is there or remembered.
  [[nodiscard]] std::optional<FileHandle> handle_of(std::uint64_t id) const;
  /// Gives the inode where that was the last of its lookups, and no file of it is open. One that is open stays; whoever
  /// closes the last file of an inode without lookups calls this again, with none.
  std::shared_ptr<Inode> forget(std::uint64_t id, std::uint64_t lookups);
  [[nodiscard]] std::size_t size() const { return by_id_.size(); }

 private:
  async::Loop& loop_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Inode>> by_id_;
  std::unordered_map<std::string, std::uint64_t> by_handle_;
  /// In memory of its own: between what was given back it would keep all those pages in use.
  class Remembered {
   public:
    void add(std::uint64_t id, const FileHandle& handle);
    [[nodiscard]] std::optional<FileHandle> find(std::uint64_t id) const;
    /// Its number, which is remembered no more.
    std::optional<std::uint64_t> take(const FileHandle& handle);

   private:
    struct One {
      FileHandle handle;
      std::pmr::list<std::uint64_t>::iterator place;
    };
    std::pmr::unsynchronized_pool_resource memory_;
    std::pmr::unordered_map<std::uint64_t, One> by_id_{&memory_};
    std::pmr::unordered_map<std::string_view, std::uint64_t> by_handle_{&memory_};  // of by_id_'s handles
    std::pmr::list<std::uint64_t> order_{&memory_};  // those that were forgotten first stand first
  };
  Remembered remembered_;
  std::unordered_multimap<std::size_t, std::uint64_t> by_place_;  // by hash, which is smaller than a name
  std::uint64_t last_ = kRoot;
};

}  // namespace nfsrdma::fs
