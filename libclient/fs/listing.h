// Lists directories, and answers lookups from directory pages in memory (lookups_ahead.h).
//
// Directories are read by pages, from which the kernel takes a few entries at a time. Attributes and names
// from a page are given out with the validity that remains since the page was read. If this mount has changed
// the name or the attributes since then, the entry is given without attributes, and the kernel looks it up.
// Names that this mount has removed since then are left out.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fs/attribute_requests.h"
#include "fs/directory_handle.h"
#include "fs/directory_pages.h"
#include "fs/entries.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class Listing : Part {
 public:
  Listing(MountState& state, Entries& entries, AttributeRequests& attributes)
      : Part(state), numbering_(state.numbering), entries_(entries), attributes_(attributes) {}

  /// Returns the directory for list(). The handle may be dropped at any time. `flags` are those of open(2).
  /// With O_DIRECTORY, which opendir(3) sets, the first page is read at once; this also shows whether the
  /// directory still exists.
  async::Task<Result<std::shared_ptr<DirectoryHandle>>> open_directory(Caller caller, std::uint64_t inode,
                                                                       int flags);
  /// Returns the names behind `cookie` (0: from the first), as many as the server sends at once; none at the
  /// end. The handle keeps the page until the next one is read, or until the page has to make room for others
  /// (directory_pages.h).
  async::Task<Result<ListedNames>> list(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie);
  /// Returns whether this mount has removed the name since it was listed.
  [[nodiscard]] static bool is_gone(const DirectoryHandle& directory, const Listed& listed);
  /// Returns the entry that a lookup of the name would return, and counts as one: the next lookup of the
  /// name asks the server. If the inode is 0 the name has to be looked up.
  Entry entry_of(const DirectoryHandle& directory, const Listed& listed);
  /// Returns what is known of an entry without a lookup: type and number.
  [[nodiscard]] Attributes brief_of(const Listed& listed);
  /// The st_ino of "." and "..".
  struct Dots {
    std::uint64_t self = 0, parent = 0;
  };
  async::Task<Dots> dots(std::shared_ptr<DirectoryHandle> directory);

  // ---- lookups from pages in memory ----

  /// Looks the name up in the pages of the directory that are in memory.
  std::optional<Entry> find_ahead(const Caller& caller, const Inode& directory, const std::string& name);
  /// Called when a LOOKUP has found a name in the directory. Reads a page ahead if that pays.
  void look_ahead(const Caller& caller, const std::shared_ptr<Inode>& directory);

  /// Returns the memory that pages of open directories take.
  [[nodiscard]] std::size_t bytes_listed() const { return directory_pages_->bytes(); }

 private:
  async::Task<Result<std::shared_ptr<const ReadPage>>> read_page(std::shared_ptr<DirectoryHandle> directory,
                                                                 std::uint64_t cookie);
  void keep_for_lookups(const DirectoryHandle& directory);
  void hold_page(DirectoryHandle& directory);
  async::Task<void> read_ahead(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie);
  [[nodiscard]] bool is_outdated(const DirectoryHandle& directory, const Listed& listed) const;
  Entry entry_in_page(const DirectoryHandle& directory, const Listed& listed);

  Numbering& numbering_;
  Entries& entries_;
  AttributeRequests& attributes_;
  /// Shared with the directory handles, because a handle that the kernel holds may outlive the file system.
  const std::shared_ptr<DirectoryPages> directory_pages_ = std::make_shared<DirectoryPages>();
};

}  // namespace nfsrdma::fs
