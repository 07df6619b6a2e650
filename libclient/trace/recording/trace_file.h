// The file that a trace is written to: made, bounded, rotated.
//
// A file never exceeds the size that it was opened with. When the next blocks would not fit, FILE is renamed
// to FILE.1, in place of an older FILE.1, and a new FILE begins. So a trace takes twice the size at most.
//
// The name. FILE is made new with mode 0600, and O_EXCL and O_NOFOLLOW, so that no link leads the writer
// elsewhere. A FILE that exists is replaced if it is a regular file that is empty or a pcapng file, and that
// no other process writes (flock(2)). Any other file is refused: a mistyped name must not destroy it.
//
// The directory is opened once, so that the trace stays in it whatever is mounted over its path later, and
// rotation touches no other file system.
//
// Failure. After an error of write(2), such as a full disk, the file is cut behind its last complete block,
// and closed. The caller gets the Error once.
//
// A child of fork(2) does not write: async::Descriptor closes the copy. Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "async/descriptor.h"
#include "nfsrdma/result.h"
#include "trace/format/pcapng.h"

namespace nfsrdma::trace {

class TraceFile {
 public:
  /// Makes the file. `name` must be an absolute path.
  Status open(const std::string& name, std::uint64_t most);
  void close() { descriptor_ = {}; }
  [[nodiscard]] bool is_open() const { return descriptor_.is_valid(); }
  /// Returns true if `count` bytes do not fit into the file any more.
  [[nodiscard]] bool is_full(std::size_t count) const { return size_ + count > most_; }
  Status rotate();
  /// Writes whole blocks.
  Status write(ConstBytes blocks);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Status create();
  Status make_way();
  Status end_with(int errno_value);

  std::string name_;  // the whole path
  std::string base_;  // its last component
  async::Descriptor directory_;
  std::uint64_t most_ = 0, size_ = 0;
  async::Descriptor descriptor_;
};

}  // namespace nfsrdma::trace
