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
// Rules:
//   Which pages may be cached?  Those before end(). The source is what the kernel was given; a drop takes pages away when
//                               it begins, unless pages are being read, which may come behind the drop.
//   May stores be unwritten?    If any page may be cached, or pages are being dropped: the kernel writes dirty ones back
//                               before the drop ends (may_hold_stores()).
//   Where ends a mapping?       At known_size() or behind it.
//   Was the kernel not told?    lags(): a write past the kernel ended behind known_size() while nobody could map the file.
//                               The next open(2) for reading tells the kernel the size, whatever it was told before.
//   May attributes be given?    Not while pages are being dropped or the size is being told (is_changing()): the kernel
//                               ignores attributes that such a notification overtakes.
//
// The code that asks the kernel for a change holds a guard while it does (dropping(), lengthening()). A plain container,
// confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "async/under_way.h"

namespace nfsrdma::fs {

class KernelPages {
 public:
  static constexpr std::uint64_t kPage = 4096;

  /// `settled`: notified when the kernel has made the last change that it was asked for.
  explicit KernelPages(async::Event& settled) : settled_(settled) {}

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
  /// The kernel is asked to drop the page of `offset` and all behind it, while the guard lives.
  [[nodiscard]] async::Counted dropping(std::uint64_t offset) {
    if (reading_ == 0) end_ = std::min(end_, page_of(offset));
    return {dropping_, settled_};
  }
  [[nodiscard]] bool is_dropping() const { return dropping_ != 0; }
  [[nodiscard]] bool may_hold_stores() const { return any() || is_dropping(); }

  [[nodiscard]] std::uint64_t known_size() const { return known_size_; }
  /// The kernel's i_size is `size` or more now.
  void reaches(std::uint64_t size) { known_size_ = std::max(known_size_, size); }
  /// A FUSE_NOTIFY_STORE enlarges the file to `end` while the guard lives. It carries the last byte. If that is the only
  /// byte of its page, the kernel takes the page for complete and caches it.
  [[nodiscard]] async::Counted lengthening(std::uint64_t end) {
    reaches(end);
    lags_ = false;
    if (end % kPage == 1) put(end);
    return {lengthening_, settled_};
  }
  [[nodiscard]] bool is_changing() const { return is_dropping() || lengthening_ != 0; }
  /// The file was enlarged, and the kernel is not told yet.
  void lag() { lags_ = true; }
  [[nodiscard]] bool lags() const { return lags_; }
  /// The kernel was given an answer by which the file may be as short as this.
  void may_end_at(std::uint64_t size) { known_size_ = std::min(known_size_, size); }

 private:
  static std::uint64_t page_of(std::uint64_t offset) { return offset / kPage * kPage; }
  async::Event& settled_;
  std::uint64_t end_ = 0;
  std::uint64_t known_size_ = 0;
  std::uint64_t reads_ = 0;
  unsigned reading_ = 0;
  unsigned dropping_ = 0, lengthening_ = 0;
  bool lags_ = false;
};

}  // namespace nfsrdma::fs
