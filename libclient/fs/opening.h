// open(2) and creat(2) of a mounted file.
//
// Consistency is close-to-open, as with every NFS client. An open obtains the change attribute; if it differs
// from that of the contents which the kernel has cached, the kernel drops them. close() and fsync() end when
// the data is on the server's disk (closing.h). In between, attributes and names are valid for a while (CacheOptions). A
// file with a delegation is opened and closed without a call to the server, and stays open for that after its
// last close (Promises::keep_delegated).
//
// The kernel relies on a name that it may have cached: name_checks.h says how that name is checked.
//
// The rights of a user who opens a file are checked by the server's OPEN. Because servers let a user who may only execute
// a file read it, on a mount for several users ACCESS distinguishes the two rights.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fs/attribute_requests.h"
#include "fs/early_reads.h"
#include "fs/entries.h"
#include "fs/kernel_cache.h"
#include "fs/name_checks.h"
#include "fs/open_handle.h"
#include "fs/part.h"
#include "fs/removal.h"

namespace nfsrdma::fs {

struct OpenedFile {
  std::shared_ptr<OpenHandle> handle;
  bool keep_cache = false;  ///< the kernel's cached pages of the file are still valid
  /// The attributes that the kernel has cached are still valid, too.
  bool keep_attributes = false;
  Entry entry;  ///< create() only
};

class Opening : Part {
 public:
  Opening(MountState& state, KernelCache& kernel, NameChecks& name_checks, Entries& entries,
          AttributeRequests& attributes, EarlyReads& early_reads, Removal& removal)
      : Part(state),
        read_window_(state.read_window),
        reads_elsewhere_(state.reads_elsewhere),
        kernel_(kernel),
        name_checks_(name_checks),
        entries_(entries),
        attributes_(attributes),
        early_reads_(early_reads),
        removal_(removal) {}

  /// The flag of open(2) that marks an open for execve(2) (FMODE_EXEC of Linux, which FUSE passes on).
  static constexpr int kForExecution = 0x20;
  /// `flags` are those of open(2). `thread` is the kernel's number of the thread that opens the file.
  async::Task<Result<OpenedFile>> open(Caller caller, std::uint64_t inode, int flags,
                                       std::uint32_t thread = 0);
  async::Task<Result<OpenedFile>> create(Caller caller, std::uint64_t directory, std::string name,
                                         std::uint32_t mode, int flags, std::uint32_t thread = 0);

 private:
  [[nodiscard]] std::optional<Place> place_of(const Inode& inode, bool fresh) const;
  async::Task<Status> may_read(Caller caller, std::uint64_t id, int flags,
                               const std::optional<Attributes>& told);
  std::uint64_t keep_in_kernel(OpenedFile& out, Inode& inode, const std::optional<Attributes>& told,
                               const Freshness::Asked& asked) const;

  ReadWindow& read_window_;
  ReadsElsewhere* const reads_elsewhere_;
  KernelCache& kernel_;
  NameChecks& name_checks_;
  Entries& entries_;
  AttributeRequests& attributes_;
  EarlyReads& early_reads_;
  Removal& removal_;
};

}  // namespace nfsrdma::fs
