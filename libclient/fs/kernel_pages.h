// A record of one file's pages that the kernel may have cached, and of the file size that the kernel knows.
//
// The kernel does not report what it caches. This part infers it from what the kernel was given: each read and each write
// that goes through the page cache puts pages up to its end, and a page stays until the kernel is asked to drop it. So
// end() is an upper bound: no page begins at or behind it. Dirty pages (stores in mappings, and what a write-back cache
// has gathered) are among them.
//
// known_size() is a lower bound of the kernel's i_size, which decides where a mapping ends in SIGBUS. It grows only with
// what surely enlarges i_size (a write of the kernel's that was answered, FUSE_NOTIFY_STORE), and falls with every answer
// that may cut it: attributes, and reads that are shorter than asked for. A larger size in attributes does not raise the
// bound, since the kernel ignores attributes that something has overtaken.
//
// The code that asks the kernel to drop pages calls begin_drop() first. A plain container, confined to the loop's
// thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nfsrdma::fs {

class KernelPages {
 public:
  static constexpr std::uint64_t kPage = 4096;

  /// The kernel caches what lies before `end`, or a part of it.
  void put(std::uint64_t end) { end_ = std::max(end_, end); }
  /// A read into pages up to `end` is under way, until end_read().
  void begin_read(std::uint64_t end) {
    put(end);
    ++reading_;
    ++reads_;
  }
  void end_read() { --reading_; }
  [[nodiscard]] unsigned reading() const { return reading_; }
  /// All reads into pages that were ever begun. Compare two readings to learn whether there was one in between.
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

  [[nodiscard]] bool any() const { return end_ != 0; }
  /// Whether the page of `offset` may be cached, or one behind it.
  [[nodiscard]] bool any_from(std::uint64_t offset) const { return end_ > page_of(offset); }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// The kernel is asked to drop the page of `offset` and all behind it. Those that are being read may come after that.
  void begin_drop(std::uint64_t offset) {
    if (reading_ == 0) end_ = std::min(end_, page_of(offset));
  }

  [[nodiscard]] std::uint64_t known_size() const { return known_size_; }
  /// The kernel's i_size is `size` or more now.
  void reaches(std::uint64_t size) { known_size_ = std::max(known_size_, size); }
  /// The kernel was given an answer by which the file may be as short as this.
  void may_end_at(std::uint64_t size) { known_size_ = std::min(known_size_, size); }

 private:
  static std::uint64_t page_of(std::uint64_t offset) { return offset / kPage * kPage; }
  std::uint64_t end_ = 0;
  std::uint64_t known_size_ = 0;
  std::uint64_t reads_ = 0;
  unsigned reading_ = 0;
};

}  // namespace nfsrdma::fs
