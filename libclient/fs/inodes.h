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
#include "fs/known_attributes.h"
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

  // Four parts. The head of each class lists the questions that it answers, their sources, and who writes there.
  KnownAttributes attributes;
  FileNames names{settled};
  FileWrites writes{settled};
  KernelPages pages{settled};

  /// The end of the file by the server's newest answer, this mount's later writes, and data that the server may have lost.
  [[nodiscard]] std::uint64_t end() const;
  /// The end of the data that the server may have lost.
  [[nodiscard]] std::uint64_t end_in_doubt() const;
  /// Returns true if this mount may have changed the attributes since the server was asked for them.
  [[nodiscard]] bool changed_since(std::uint64_t as_of) const {
    return attributes.changed_since(as_of) || names.lost() > as_of;
  }
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
