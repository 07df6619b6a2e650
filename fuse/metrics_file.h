// The file of the option `metrics`: the text of metrics.h, for node_exporter's textfile collector, which reads
// *.prom files in a directory.
//
// The option names a file or a directory. In a directory each mount has a file of its own, so that one line of
// nfsrdma.conf(5) serves all mounts.
//
// A reader sees the whole text of one moment: each text is written to a new file beside the old one, which it
// replaces by rename(2). A file that exists is replaced only if it is a regular file that is empty or has such
// metrics, because a mistyped name must not destroy another file. The directory is opened anew each time,
// because packages remove and make such directories while a mount lives.
//
// The functions that touch the file system may wait for a slow disk, so the loop's thread does not call them
// (metrics_writer.h). Thread-safety: one thread at a time.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "async/descriptor.h"
#include "nfsrdma/result.h"

namespace nfsrdma::fuse {

/// Returns the name of a mount's file in a directory: "nfsrdma-mnt-data.prom" for /mnt/data. Characters that
/// could be ambiguous are written as \xHH, as systemd-escape(1) does.
std::string metrics_name(std::string_view mountpoint);

class MetricsFile {
 public:
  /// `path` is absolute.
  MetricsFile(std::string path, std::string mountpoint)
      : path_(std::move(path)), mountpoint_(std::move(mountpoint)) {}

  Status write(std::string_view text);
  /// Removes the file that write() made last, because collectors would read the metrics of a mount that has ended as
  /// those of an idle one.
  void remove();

 private:
  /// An open directory, and the file's name in it.
  struct Place {
    async::Descriptor directory;
    std::string name, path;
  };
  [[nodiscard]] Result<Place> find_place() const;

  const std::string path_, mountpoint_;
  std::optional<struct stat> written_;
};

}  // namespace nfsrdma::fuse
