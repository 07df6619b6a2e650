// Records, in a file that outlives the process, which of this machine's lock owners may hold locks of NFSv3.
// A server keeps the locks of a client that was killed, and nothing tells the server about its end. The next
// client on this machine finds the file and releases the locks.
//
//     LockRecords records(directory, "10.77.0.2-10.77.0.1", own_handle);
//     records.add(owner, asker);           // before the first lock is asked for
//     records.remove(owner);               // the owner holds no lock any more
//
//     for (LeftLocks& left : left_locks(directory, {"10.77.0.2-10.77.0.1"})) {
//       ... unlock for all of left.owners() ...
//       left.forget();
//     }
//
// A lock on the file (flock) shows whether the process lives, because it goes away with the process. Each
// client has one file. Lines are only appended to it, until it is too long or no lock is held.
//
// Records are an aid, and fail silently: on a full disk, or if the directory cannot be made. If no directory
// is given there are none.
//
// Confined to one thread. Writes are small and are not forced to the disk: the records outlive the process,
// and usually the machine's restart.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "async/descriptor.h"
#include "aux/programs.h"
#include "security/identity.h"

namespace nfsrdma::aux {

/// An owner of locks on one file.
struct LockOwner {
  std::int32_t svid = 0;
  std::vector<std::byte> file;  ///< its handle
  friend bool operator==(const LockOwner&, const LockOwner&) = default;
  friend std::strong_ordering operator<=>(const LockOwner& a, const LockOwner& b) {
    if (a.svid != b.svid) return a.svid <=> b.svid;
    // Compared octet by octet, because g++ 12 warns about the comparison of whole vectors.
    const auto octets = [](std::byte x, std::byte y) { return x <=> y; };
    return std::lexicographical_compare_three_way(a.file.begin(), a.file.end(), b.file.begin(), b.file.end(),
                                                  octets);
  }
};
/// The user who asked for the locks, and the caller_name in the request.
struct LockAsker {
  std::string caller_name;
  security::Identity identity;
};
using LockOwners = std::map<LockOwner, LockAsker>;

/// A record file that is open and locked with flock. A child of fork(2) does not keep the lock (async/descriptor.h), which
/// would hide the record after its own process has ended.
class RecordFile {
 public:
  RecordFile() = default;
  RecordFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  [[nodiscard]] bool valid() const { return fd_.is_valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Removes the file from its directory.
  void remove();

 private:
  async::Descriptor fd_;
  std::string path_;
};

class LockRecords {
 public:
  /// `server`: the server's address and this machine's, as left_locks() takes them. `own`: the oh of all
  /// locks.
  LockRecords(std::string directory, std::string server, netobj own);
  /// Removes the file if everything has been unlocked.
  ~LockRecords();
  LockRecords(const LockRecords&) = delete;
  LockRecords& operator=(const LockRecords&) = delete;

  /// Adds an owner. If the owner is there already under another caller_name, the new name replaces it.
  void add(const LockOwner& owner, const LockAsker& asker);
  void remove(const LockOwner& owner);
  /// Returns true if there is a record with this svid, for any file.
  [[nodiscard]] bool has(std::int32_t svid) const;

 private:
  void begin_file();
  void write(const std::string& text);

  const std::string directory_, server_;
  const netobj own_;
  LockOwners held_;
  RecordFile file_;
  std::size_t written_ = 0;
  bool failed_ = false;  // writing has failed, and is not tried again
};

/// The locks that a client which is gone has left on a server.
class LeftLocks {
 public:
  LeftLocks(RecordFile file, netobj handle, LockOwners owners)
      : file_(std::move(file)), handle_(std::move(handle)), owners_(std::move(owners)) {}
  [[nodiscard]] const netobj& handle() const { return handle_; }
  [[nodiscard]] const LockOwners& owners() const { return owners_; }
  /// Called when all of them are unlocked; removes the record.
  void forget() { file_.remove(); }

 private:
  RecordFile file_;
  netobj handle_;
  LockOwners owners_;
};

/// Returns what was left on any of these servers.
std::vector<LeftLocks> left_locks(const std::string& directory, const std::vector<std::string>& servers);

/// Parses a record file. Returns false if it is not a file of this kind. Lines that cannot be parsed are
/// skipped.
bool read_lock_records(const std::string& text, netobj& handle, LockOwners& owners);

}  // namespace nfsrdma::aux
