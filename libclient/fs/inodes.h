// The table of inodes, which the kernel knows by number until it forgets them.
//
// An inode stands for a file handle. It lives as long as the kernel has looked it up more often than it has
// forgotten it, or a file of it is open; so the table is as large as the kernel's cache. A number is never
// reused for another file.
//
// The numbers of the inodes that were forgotten last are remembered, for programs that have stored one in a
// file handle of their own (open_by_handle_at(2)): handle_of() returns the file of a number, and look_up() of
// that file returns its old number.
//
// Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstddef>
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
#include "fs/known_attributes.h"
#include "fs/name_changes.h"
#include "fs/other_names.h"
#include "fs/search_rights.h"

namespace nfsrdma::fs {

using namespace engine;  // NOLINT: this layer speaks in its words

class OpenHandle;

struct Inode {
  explicit Inode(async::Loop& loop) : settled(loop) {}
  std::uint64_t id = 0;
  FileHandle handle;
  std::uint64_t lookups = 0;
  /// The directory in which it was found last, and its name there (Inodes::place). 0: the directory is not
  /// known, or no longer known; the name is then only used in messages.
  std::uint64_t parent = 0;
  std::string label;
  std::uint64_t found = 0;  ///< increases each time the inode is found at a place; orders these events
  async::TimePoint believed_until{};  ///< when the kernel's entry for this place expires
  OtherNames others;                  ///< other places that the kernel may use without a LOOKUP
  /// A delegation keeps other clients from renaming or removing the file, so under one an open asks the server for
  /// nothing, if the place was found to lead here since it was granted. It was if these numbers are equal.
  std::uint64_t delegations_ended = 0;
  std::optional<std::uint64_t> place_checked_under;
  FileType type = FileType::unknown;

  /// The open files of this inode.
  std::vector<OpenHandle*> open;
  /// Notified when one of `open` was closed, and when an activity that one of the parts below reports has
  /// ended.
  async::Event settled;

  // The four parts. The opening comment of each class lists the questions that it answers, the sources of the
  // answers, and which code changes the part.
  KnownAttributes attributes;
  FileNames names{settled};
  FileWrites writes{settled};
  KernelPages pages{settled};

  /// Parts that only a directory has. Most inodes are files, so they are made when they are first asked for.
  struct OfDirectory {
    SearchRights searchers;  ///< on a mount for several users
    NameChanges entries;     ///< changes of names by this mount
  };
  [[nodiscard]] OfDirectory& directory() {
    if (!directory_) directory_ = std::make_unique<OfDirectory>();
    return *directory_;
  }
  [[nodiscard]] bool may_search(const Caller& caller, async::TimePoint now) const {
    return directory_ && directory_->searchers.has(caller, now);
  }
  void forget_searchers() {
    if (directory_) directory_->searchers.forget();
  }
  /// Returns whether this is the place where the inode was found last.
  [[nodiscard]] bool is_at(std::uint64_t directory, const std::string& name) const {
    return parent == directory && label == name;
  }
  /// Returns the end of the file: the greatest of the server's newest size, the ends of this mount's later
  /// writes, and the end of data that the server may have lost.
  [[nodiscard]] std::uint64_t end() const;
  /// Returns the end of the data that the server may have lost; 0 if there is none.
  [[nodiscard]] std::uint64_t end_in_doubt() const;
  /// Returns true if this mount may have changed the attributes since the server was asked for them.
  [[nodiscard]] bool changed_since(std::uint64_t as_of) const {
    return attributes.changed_since(as_of) || names.lost() > as_of;
  }

 private:
  std::unique_ptr<OfDirectory> directory_;
};

class Inodes {
 public:
  static constexpr std::uint64_t kRoot = 1;
  static constexpr std::size_t kMostRemembered = 10'000;  ///< about 300 bytes each

  Inodes(async::Loop& loop, const FileHandle& root);
  /// Returns the inode of the file, creating it if necessary, and counts one lookup.
  std::shared_ptr<Inode> look_up(const FileHandle& handle, const std::string& label, FileType type);
  /// Counts one lookup of an inode that is in the table.
  static void look_up_again(Inode& inode, FileType type) {
    inode.type = type;
    ++inode.lookups;
  }
  /// Notes that the inode was found at this place, or renamed to it. An inode with several names has the
  /// place where it was found last. Its earlier place moves to Inode::others if the kernel may still believe it.
  void place(Inode& inode, std::uint64_t directory, const std::string& name);
  /// Called when the inode may no longer be at its place. It then has none. The kernel may still believe it.
  void displace(Inode& inode);
  /// Called when this mount has removed or renamed the name, which the kernel therefore does not believe any more.
  void left(std::uint64_t directory, const std::string& name);
  /// Marks the place at which the inode was found at the time `found` as one that leads elsewhere, unless the inode
  /// was found there again. Returns that place if it is news and the kernel may still believe it.
  const OtherNames::Name* lead_elsewhere(Inode& inode, std::uint64_t found);
  /// Called when the kernel has dropped the entry of the place that was found at this time.
  void dropped(Inode& inode, std::uint64_t found);
  /// Returns the inode that has this place as its own and was found there last; null if none is known.
  [[nodiscard]] std::shared_ptr<Inode> at(std::uint64_t directory, const std::string& name) const;
  /// Returns the inode that was found at this place last, even if it was found at other places later, and the time at
  /// which the kernel's entry for the place expires.
  struct Believed {
    std::shared_ptr<Inode> inode;
    async::TimePoint until{};
  };
  [[nodiscard]] Believed believed_at(std::uint64_t directory, const std::string& name) const;
  [[nodiscard]] std::shared_ptr<Inode> find(std::uint64_t id) const;
  [[nodiscard]] std::shared_ptr<Inode> find(const FileHandle& handle) const;
  /// Returns the file handle of an inode that is in the table or remembered.
  [[nodiscard]] std::optional<FileHandle> handle_of(std::uint64_t id) const;
  /// Takes lookups away. Returns the inode if none is left and no file of it is open; it is then removed from
  /// the table. An inode with open files stays: the code that closes the last of them calls this again, with
  /// `lookups` 0.
  std::shared_ptr<Inode> forget(std::uint64_t id, std::uint64_t lookups);
  [[nodiscard]] std::size_t size() const { return by_id_.size(); }
  /// Returns how many buckets the indices have, which follow size() in both directions.
  [[nodiscard]] std::size_t buckets() const {
    return by_id_.bucket_count() + by_handle_.bucket_count() + by_place_.bucket_count();
  }

 private:
  async::Loop& loop_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Inode>> by_id_;
  std::unordered_map<std::string_view, std::uint64_t> by_handle_;  // the keys point into Inode::handle
  /// The inodes that were forgotten last. They have a memory pool of their own, because on the shared heap
  /// these small allocations would keep the pages of freed inodes in use.
  class Remembered {
   public:
    void add(std::uint64_t id, const FileHandle& handle);
    [[nodiscard]] std::optional<FileHandle> find(std::uint64_t id) const;
    /// Returns the number of the file, and forgets it.
    std::optional<std::uint64_t> take(const FileHandle& handle);

   private:
    struct One {
      FileHandle handle;
      std::pmr::list<std::uint64_t>::iterator place;
    };
    std::pmr::unsynchronized_pool_resource memory_;
    std::pmr::unordered_map<std::uint64_t, One> by_id_{&memory_};
    // The keys point into the handles of by_id_.
    std::pmr::unordered_map<std::string_view, std::uint64_t> by_handle_{&memory_};
    std::pmr::list<std::uint64_t> order_{&memory_};  // in the order in which they were forgotten
  };
  Remembered remembered_;
  void unindex(const Inode& inode, std::uint64_t directory, const std::string& name);
  template <class Predicate>
  void drop_others(Inode& inode, Predicate is_meant);
  // By hash of the place, which is smaller than a name: one for the place of each inode, and one for each of its other
  // names.
  std::unordered_multimap<std::size_t, std::uint64_t> by_place_;
  std::uint64_t found_ = 0;  // the greatest Inode::found
  std::uint64_t last_ = kRoot;
};

}  // namespace nfsrdma::fs
