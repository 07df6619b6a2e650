// Reads the statistics of the mounts of this machine, without being held up by a mount that hangs.
//
// Opening a file on such a mount blocks until its server answers. Each mount therefore has a thread of its own, which
// opens and reads; the caller waits for all of them until a deadline. A thread that has not come back by then is
// left alone, and asked again only once it has. The threads are detached: they share their state with the reader, and
// the kernel ends them with the process, because a wait in FUSE can be killed.
//
// Thread-safety: one thread uses a MountReader.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/mount_statistics.h"

namespace nfsrdma::cli {

/// Returns the mount points of all mounts of nfsrdma-fuse, from the text of /proc/self/mountinfo.
std::vector<std::string> nfsrdma_mounts(std::string_view mountinfo);
/// Returns the mount points that this process can see.
std::vector<std::string> nfsrdma_mounts();

/// The outcome of reading a mount's file.
struct MountReading {
  std::optional<MountSample> sample;
  std::string trouble;  ///< if there is no sample: "no answer", or what the system said
};

class MountReader {
 public:
  explicit MountReader(const std::string& mountpoint);

  /// Begins a reading, unless an earlier one is under way.
  void begin();
  /// Returns what the reading came to, at the latest at `deadline`. `interrupt` is a descriptor that ends the wait.
  MountReading wait(std::chrono::steady_clock::time_point deadline, int interrupt);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace nfsrdma::cli
