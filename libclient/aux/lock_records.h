// Who of ours may hold locks of NFSv3, in a file that outlives the process: a server keeps the locks of a client that
// was killed, and hears of that from nobody. The next client of this machine's finds the file, and unlocks them.
//
//     LockRecords records(directory, "10.77.0.2-10.77.0.1", own_handle);
//     records.add(holder);                 // before the first lock is asked for
//     records.remove(holder);              // there is none any more
//
//     for (LeftLocks& left : left_locks(directory, {"10.77.0.2-10.77.0.1"})) { …unlock all of left.holders()…; left.forget(); }
//
// Whose process lives is told by a lock of the file (flock): it goes with the process. One file for each client; lines
// are only added to it, until it is long or nothing is held.
//
// Records are a help, and fail silently: on a full disk, in a directory that cannot be made. Without a directory there
// are none.
//
// Confined to one thread. What is written is small, and not forced onto the disk: records outlive the process, and the
// machine mostly.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "aux/programs.h"
#include "security/identity.h"

namespace nfsrdma::aux {

/// One owner of locks on one file.
struct LockOwner {
  std::int32_t svid = 0;
  std::vector<std::byte> file;  ///< its handle
  friend bool operator==(const LockOwner&, const LockOwner&) = default;
  friend std::strong_ordering operator<=>(const LockOwner& a, const LockOwner& b) {
    if (a.svid != b.svid) return a.svid <=> b.svid;
    // Octet by octet: g++ 12 warns of what it makes of the vectors' own.
    const auto octets = [](std::byte x, std::byte y) { return x <=> y; };
    return std::lexicographical_compare_three_way(a.file.begin(), a.file.end(), b.file.begin(), b.file.end(),
                                                  octets);
  }
};
/// Who asked for them, and how that was said.
struct LockAsker {
  std::string caller_name;
  security::Identity identity;
};
using LockOwners = std::map<LockOwner, LockAsker>;

/// A file that is open and locked.
class RecordFile {
 public:
  RecordFile() = default;
  RecordFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&& other) noexcept;
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Removes it from its directory.
  void remove();

 private:
  int fd_ = -1;
  std::string path_;
};

class LockRecords {
 public:
  /// `server`: its address and ours. `own`: every lock's oh.
  LockRecords(std::string directory, std::string server, netobj own);
  /// Where everything has been unlocked nothing is left behind.
  ~LockRecords();
  LockRecords(const LockRecords&) = delete;
  LockRecords& operator=(const LockRecords&) = delete;

  /// Of one that is there already: the name that it is asked for under from now on.
  void add(const LockOwner& owner, const LockAsker& asker);
  void remove(const LockOwner& owner);
  /// Something of it, on whatever file.
  [[nodiscard]] bool has(std::int32_t svid) const;

 private:
  void begin_file();
  void write(const std::string& text);

  const std::string directory_, server_;
  const netobj own_;
  LockOwners held_;
  RecordFile file_;
  std::size_t written_ = 0;
  bool failed_ = false;  // it is not tried again
};

/// What a client that is gone has left on a server.
class LeftLocks {
 public:
  LeftLocks(RecordFile file, netobj handle, LockOwners owners)
      : file_(std::move(file)), handle_(std::move(handle)), owners_(std::move(owners)) {}
  [[nodiscard]] const netobj& handle() const { return handle_; }
  [[nodiscard]] const LockOwners& owners() const { return owners_; }
  /// All of it is unlocked.
  void forget() { file_.remove(); }

 private:
  RecordFile file_;
  netobj handle_;
  LockOwners owners_;
};

/// On one of these servers.
std::vector<LeftLocks> left_locks(const std::string& directory, const std::vector<std::string>& servers);

/// What stands in such a file; false: it is none of ours. What cannot be read in it is passed over.
bool read_lock_records(const std::string& text, netobj& handle, LockOwners& owners);

}  // namespace nfsrdma::aux
