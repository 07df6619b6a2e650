// Local files as ends of a transfer: sinks for get and cat, sources for put.
//
// A download to a regular file gets a temporary name in the same directory, which becomes the real one at the
// end or disappears. Devices, FIFOs and standard output are written in place.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/chunk_ring.h"
#include "cli/descriptor.h"
#include "cli/traits.h"
#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Writes chunks one after the other: standard output, devices, FIFOs.
class StreamSink : public LocalEnd {
 public:
  explicit StreamSink(int fd);
  int run(Chunk& chunk, const StopFlag& stop) override;
  [[nodiscard]] bool immediate() const override { return immediate_; }

 private:
  int fd_;
  bool immediate_;  ///< /dev/null
};

/// Writes chunks where they belong in a regular file, and starts writing them to the disk as they come, so
/// that the fsync at the end finds little to do.
class FileSink : public LocalEnd {
 public:
  explicit FileSink(int fd) : fd_(fd) {}
  int run(Chunk& chunk, const StopFlag& stop) override;

 private:
  int write_at(std::span<const std::byte> data, std::uint64_t offset, const StopFlag& stop) const;
  int write_without_zeros(std::span<const std::byte> data, std::uint64_t offset, const StopFlag& stop) const;

  int fd_;
  std::uint64_t flush_from_ = 0, pending_ = 0;
};

/// Bytes [begin, end) of a file, as far as it has them.
struct FileRange {
  std::uint64_t begin = 0, end = UINT64_MAX;
};

/// Fills chunks from a descriptor. With `sparse` it skips holes that the file system reports (SEEK_DATA).
class Source : public LocalEnd {
 public:
  /// `range`: the part of a regular file that is read.
  Source(int fd, bool regular, bool sparse, FileRange range = {})
      : fd_(fd), regular_(regular), sparse_(sparse), position_(range.begin), end_(range.end) {}
  int run(Chunk& chunk, const StopFlag& stop) override;

 private:
  /// Moves position_ to the next data and sets data_end_. Returns false at the end of the file, or with an
  /// errno in `fault`.
  bool find_data(int& fault);

  int fd_;
  bool regular_, sparse_;
  bool dense_tail_ = false;  ///< the file system knows no holes
  bool ended_ = false;       ///< a terminal must not be asked again after its end of file
  std::uint64_t position_ = 0, data_end_ = 0;
  const std::uint64_t end_;
};

/// The attributes that a finished download gets.
struct Finished {
  std::uint64_t size = 0;
  std::uint32_t mode = 0;       ///< permissions, where `exact` is not given
  std::optional<Traits> exact;  ///< traits of the source
};

/// The version of a source that a part is a copy of (part_file.h).
struct PartOf {
  std::uint64_t size = 0;
  Time modified;
};

/// A regular file under a temporary name, which only its owner can use. Unlinked on scope exit unless
/// commit() succeeded.
class TemporaryFile {
 public:
  /// Creates the file in the directory of `path`, which may exist already. Follows `path` if it is a symbolic
  /// link.
  static Result<TemporaryFile> create(const std::string& path);
  /// Opens the part of a copy of `path` that was cut off, or begins one (part_file.h). It is not unlinked, unless
  /// drop() was called.
  static Result<TemporaryFile> open_part(const std::string& path, const PartOf& of);
  TemporaryFile(TemporaryFile&& other) noexcept
      : path_(std::move(other.path_)),
        name_(std::exchange(other.name_, {})),
        fd_(std::move(other.fd_)),
        begin_(other.begin_),
        is_part_(other.is_part_) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns how many bytes a part has already.
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] bool is_part() const { return is_part_; }
  void drop() { is_part_ = false; }
  /// Sets size, owner, mode and times, calls fsync, and renames the file to its real name.
  Status commit(const Finished& finished);

 private:
  TemporaryFile() = default;
  std::string path_, name_;
  Descriptor fd_;
  std::uint64_t begin_ = 0;
  bool is_part_ = false;
};

/// Returns true if the path leads to a directory.
bool is_directory(const std::string& path);

/// Returns ".name.nfsrdma-XXXXXX" within `limit` bytes: the name of a temporary file for `name`, before its
/// Xs are filled.
std::string temporary_template(std::string_view name, std::size_t limit = 255);

}  // namespace nfsrdma::cli
