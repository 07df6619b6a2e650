// Files in the root of a mount that exist on no server: each has the mount's statistics at the time of its
// open(), in a format of its own. One of them, kTraceName, says whether the mount writes a trace, and what is
// written to it switches the trace (trace_control.h).
//
// The files have inode numbers of their own, and stand in front of the operations. A request for one of them, by
// such a number or by its name in the root, is answered here; any other is passed on. For those this costs a
// comparison of the number (of the name only in the root), and a call by pointer.
//
// The user who mounted sees the files, and so does root if root may see the mount; for all others the names
// do not exist. The files are in no listing, and no user can make, rename or remove them. Objects of these
// names on the server are out of reach. The kernel asks for a name each time, because the answer depends on
// the user who asks.
//
// Confined to the loop's thread.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fuse/metrics.h"
#include "fuse/mountstats.h"
#include "fuse/requests.h"
#include "fuse/statistics.h"

namespace nfsrdma::fuse {

class StatisticsFiles {
 public:
  struct File {
    std::string_view name;
    Show text;
  };
  static constexpr std::string_view kTraceName = ".nfsrdma-trace";
  static constexpr std::array<File, 4> kFiles{{{kStatisticsName, statistics_text},
                                               {".nfsrdma-stats.prom", metrics_text},
                                               {".nfsrdma-mountstats", mountstats_text},
                                               {kTraceName, trace_text}}};
  /// The inode number of a file of kFiles. They are free, because fs::Inodes counts from 1.
  static constexpr fuse_ino_t inode_of(std::size_t number) { return ~fuse_ino_t{number}; }
  static constexpr bool is_inode(fuse_ino_t inode) { return ~inode < kFiles.size(); }
  /// Returns the inode number of the file, or 0 if none of them has this name.
  static fuse_ino_t find(fuse_ino_t directory, std::string_view name);

  /// Carries out what was written to kTraceName. Returns 0 or an errno.
  using Control = std::function<int(std::string_view command)>;
  /// `show` calls the function that it is given with the Picture of the moment, and returns its result.
  StatisticsFiles(std::function<std::string(Show)> show, Control control);
  /// Returns the operations `behind`, with these files in front of them. The user data of each request is the
  /// Mount.
  fuse_lowlevel_ops in_front_of(const fuse_lowlevel_ops& behind);

  // ---- requests for the files ----
  void look_up(fuse_req_t raw, fuse_ino_t inode) const;
  void attributes(fuse_req_t raw, fuse_ino_t inode) const;
  void access(fuse_req_t raw, fuse_ino_t inode, int mask) const;
  void open(fuse_req_t raw, fuse_ino_t inode, const fuse_file_info& info);
  void read(fuse_req_t raw, std::size_t size, off_t offset, const fuse_file_info& info) const;
  /// A command is one write at the beginning of the file.
  void write(fuse_req_t raw, fuse_ino_t inode, std::string_view text, off_t offset) const;
  /// Answers a change of attributes, of which only the size can be set, to no effect: truncate(2) precedes a
  /// write where a program opens the file without O_TRUNC.
  void set_attributes(fuse_req_t raw, fuse_ino_t inode, int which) const;
  void release(fuse_req_t raw, const fuse_file_info& info);
  [[nodiscard]] const fuse_lowlevel_ops& behind() const { return behind_; }

 private:
  [[nodiscard]] bool shows_itself(fuse_req_t raw) const;
  static bool is_writable(fuse_ino_t inode) { return kFiles[~inode].name == kTraceName; }
  [[nodiscard]] struct stat stat(fuse_ino_t inode) const;

  const std::function<std::string(Show)> show_;
  const Control control_;
  const uid_t owner_;
  const gid_t group_;
  fuse_lowlevel_ops behind_{};
  std::unordered_map<std::uint64_t, std::string> open_;
  /// Counts down, so that no open file of the operations behind has such a number.
  std::uint64_t last_number_ = ~std::uint64_t{0};
};

}  // namespace nfsrdma::fuse
