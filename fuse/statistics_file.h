// .nfsrdma-stats, a file in the root of a mount that exists on no server: it has the mount's statistics at
// the time of its open().
//
// The file has an inode number of its own, and stands in front of the operations. A request for it, by that
// number or by its name in the root, is answered here; any other is passed on. For those this costs a
// comparison of the number (of the name only in the root), and a call by pointer.
//
// The user who mounted sees the file, and so does root if root may see the mount; for all others the name
// does not exist. The file is in no listing, and no user can make, rename or remove it. An object of this
// name on the server is out of reach. The kernel asks for the name each time, because the answer depends on
// the user who asks.
//
// Confined to the loop's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fuse/requests.h"
#include "fuse/statistics.h"

namespace nfsrdma::fuse {

class StatisticsFile {
 public:
  /// Is free, because fs::Inodes counts from 1.
  static constexpr fuse_ino_t kInode = ~fuse_ino_t{0};
  static constexpr std::string_view kName = kStatisticsName;

  explicit StatisticsFile(std::function<std::string()> text);
  /// Returns the operations `behind`, with this file in front of them. The user data of each request is the
  /// Mount.
  fuse_lowlevel_ops in_front_of(const fuse_lowlevel_ops& behind);
  static bool is_name(fuse_ino_t directory, std::string_view name) {
    return directory == fs::Inodes::kRoot && name == kName;
  }

  // ---- its own requests ----
  void look_up(fuse_req_t raw) const;
  void attributes(fuse_req_t raw) const;
  void access(fuse_req_t raw, int mask) const;
  void open(fuse_req_t raw, const fuse_file_info& info);
  void read(fuse_req_t raw, std::size_t size, off_t offset, const fuse_file_info& info) const;
  void release(fuse_req_t raw, const fuse_file_info& info);
  [[nodiscard]] const fuse_lowlevel_ops& behind() const { return behind_; }

 private:
  [[nodiscard]] bool shows_itself(fuse_req_t raw) const;
  [[nodiscard]] struct stat stat() const;

  const std::function<std::string()> text_;
  const uid_t owner_;
  const gid_t group_;
  fuse_lowlevel_ops behind_{};
  std::unordered_map<std::uint64_t, std::string> open_;
  /// Counts down, so that no open file of the operations behind has such a number.
  std::uint64_t last_number_ = ~std::uint64_t{0};
};

}  // namespace nfsrdma::fuse
