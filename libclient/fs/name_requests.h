// The kernel's requests for names in directories: LOOKUP, and those that make, remove and rename.
//
// On a mount for several users (CacheOptions::several_users) the kernel checks no rights, neither by mode
// bits nor by the names in its cache: names are given to it with a validity of zero, so that it looks up each
// name of a path on behalf of the user who walks it. The server checks that user's rights, by LOOKUP. What it
// grants is remembered for a while (search_rights.h), and meanwhile known names and attributes are returned
// without asking it again. The rights of a user who opens a file are checked by the server's OPEN
// (opening.h).
//
// rename(2) and link(2) first save data whose close(2) did not wait for it (deferred_closes.h), so that no name
// survives a crash of this client without its data.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fs/attribute_requests.h"
#include "fs/deferred_closes.h"
#include "fs/entries.h"
#include "fs/listing.h"
#include "fs/name_checks.h"
#include "fs/part.h"
#include "fs/removal.h"

namespace nfsrdma::fs {

class NameRequests : Part {
 public:
  NameRequests(MountState& state, NameChecks& name_checks, Entries& entries, Listing& listing,
               AttributeRequests& attributes, DeferredCloses& deferred_closes, Removal& removal)
      : Part(state),
        missing_names_(state.missing_names),
        name_checks_(name_checks),
        entries_(entries),
        listing_(listing),
        attributes_(attributes),
        deferred_closes_(deferred_closes),
        removal_(removal) {}

  /// Looks a name up. "." and ".." are allowed, because the kernel uses them to find inodes that it has
  /// forgotten (open_by_handle_at(2)): "." is the inode itself, as long as its number is remembered, and ".."
  /// is the directory above it. The kernel must not cache these two names.
  async::Task<Result<Entry>> lookup(Caller caller, std::uint64_t directory, std::string name);
  /// Does the same for a name of which known_entry() has just said nothing.
  async::Task<Result<Entry>> look_up_unknown(Caller caller, std::uint64_t directory, std::string name);
  /// Returns what lookup() would return without a question to the server and without a wait; none if it would need
  /// either. The Entry counts as a lookup.
  std::optional<Entry> known_entry(const Caller& caller, std::uint64_t directory, const std::string& name);
  /// Returns the path of the name below the root ("a/b/name"), if an object was found there that the kernel
  /// may know.
  [[nodiscard]] std::optional<std::string> known_path(std::uint64_t directory, const std::string& name) const;

  async::Task<Result<Entry>> make_directory(Caller caller, std::uint64_t directory, std::string name,
                                            std::uint32_t mode);
  async::Task<Result<Entry>> make_symlink(Caller caller, std::uint64_t directory, std::string name,
                                          std::string text);
  async::Task<Result<Entry>> make_node(Caller caller, std::uint64_t directory, std::string name,
                                       std::uint32_t mode, std::uint64_t device);
  async::Task<Result<Entry>> link(Caller caller, std::uint64_t inode, std::uint64_t directory,
                                  std::string name);
  async::Task<Status> remove_file(Caller caller, std::uint64_t directory, std::string name);
  async::Task<Status> remove_directory(Caller caller, std::uint64_t directory, std::string name);
  async::Task<Status> rename(Caller caller, std::uint64_t from, std::string old_name, std::uint64_t to,
                             std::string new_name);

 private:
  async::Task<Result<Entry>> find_again(Caller caller, std::uint64_t id);
  async::Task<Result<Entry>> find_above(Caller caller, std::uint64_t directory);
  [[nodiscard]] std::shared_ptr<Inode> believed_at(const Inode& directory, const Caller& caller,
                                                   const std::string& name) const;
  Entry found_there(const std::shared_ptr<Inode>& inode, const Inode& directory, const std::string& name,
                    Attributed told);
  async::Task<Result<std::optional<Entry>>> find_known(Caller caller, std::shared_ptr<Inode> directory,
                                                       std::string name, std::shared_ptr<Inode> inode);
  [[nodiscard]] bool may_search(const Inode& directory, const Caller& caller) const;
  void may_search_from_now(Inode& directory, const Caller& caller, std::uint64_t as_of,
                           async::TimePoint asked);

  MissingNames& missing_names_;
  NameChecks& name_checks_;
  Entries& entries_;
  Listing& listing_;
  AttributeRequests& attributes_;
  DeferredCloses& deferred_closes_;
  Removal& removal_;
};

}  // namespace nfsrdma::fs
