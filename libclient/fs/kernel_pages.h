// A record of one file's pages that the kernel may have cached, and of the file size that the kernel knows.
//
// The kernel does not report what it caches. This class infers it from what the kernel was given: each read
// and each write through the page cache puts pages into the cache up to its end, and a page stays until the
// kernel is asked to drop it. So end() is an upper bound: no page begins at or behind it. Dirty pages (stores
// in mappings, and data that a write-back cache has gathered) are among them.
//
// known_size() is a lower bound of the kernel's i_size, which decides where a mapping ends in SIGBUS. It
// grows only with events that surely enlarge i_size (an answered write of the kernel, FUSE_NOTIFY_STORE), and
// falls with every answer that may lower i_size: attributes, reads that are shorter than asked for, and opens
// with O_TRUNC. A larger size in attributes does not raise the bound, because the kernel ignores attributes that another
// event has overtaken.
//
// Rules:
//   Which pages may be cached?       Those before end(). The source is what the kernel was given. A drop
//                                    takes pages away when it begins, unless reads into pages are under way,
//                                    whose pages may be put after the drop.
//   May stores be unwritten?         If any page may be cached, or pages are being dropped: the kernel writes
//                                    dirty pages back before the drop ends (may_hold_stores()).
//   Where does a mapping end?        At known_size() or behind it.
//   Is the kernel unaware of an      If lags(): a write that bypassed the kernel ended behind known_size()
//   enlargement?                     while no program could have the file mapped, or an open with O_TRUNC has
//                                    made the kernel forget the end of a write that the server executed after
//                                    the cut. The next open(2) for reading notifies the kernel of the size in
//                                    any case.
//   May attributes be given?         Not while pages are being dropped or the size is being sent
//                                    (is_changing()): the kernel ignores attributes that such a notification
//                                    overtakes.
//
// The code that asks the kernel for a change holds a guard meanwhile (dropping(), lengthening()). A plain
// container, confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "async/under_way.h"

namespace nfsrdma::fs {

class KernelPages {
 public:
  static constexpr std::uint64_t kPage = 4096;

  /// `settled` is notified when the kernel has made the last change that it was asked for.
  explicit KernelPages(async::Event& settled) : settled_(settled) {}

  /// Called when the kernel may cache the pages before `end`, or some of them.
  void put(std::uint64_t end) { end_ = std::max(end_, end); }
  /// Called when a read into pages up to `end` begins. end_read() follows.
  void begin_read(std::uint64_t end) {
    put(end);
    ++reading_;
    ++reads_;
  }
  void end_read() { --reading_; }
  [[nodiscard]] unsigned reading() const { return reading_; }
  /// Returns the number of reads into pages that have ever begun. Compare two readings to learn whether one
  /// began in between.
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

  [[nodiscard]] bool any() const { return end_ != 0; }
  /// Returns whether the page of `offset`, or one behind it, may be cached.
  [[nodiscard]] bool any_from(std::uint64_t offset) const { return end_ > page_of(offset); }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// While the guard lives, the kernel is being asked to drop the pages of a range (`length` 0: up to the end).
  [[nodiscard]] async::Counted dropping(std::uint64_t offset, std::uint64_t length = 0) {
    if (reading_ == 0 && length == 0) end_ = std::min(end_, page_of(offset));
    return {dropping_, settled_};
  }
  [[nodiscard]] bool is_dropping() const { return dropping_ != 0; }
  [[nodiscard]] bool may_hold_stores() const { return any() || is_dropping(); }

  [[nodiscard]] std::uint64_t known_size() const { return known_size_; }
  /// Called when the kernel's i_size is surely at least `size`.
  void reaches(std::uint64_t size) { known_size_ = std::max(known_size_, size); }
  /// While the guard lives, a FUSE_NOTIFY_STORE enlarges the file to `end`. It puts no bytes into the cache.
  [[nodiscard]] async::Counted lengthening(std::uint64_t end) {
    reaches(end);
    lags_ = false;
    return {lengthening_, settled_};
  }
  [[nodiscard]] bool is_changing() const { return is_dropping() || lengthening_ != 0; }
  /// Called when the file was enlarged and the kernel has not been notified yet.
  void lag() { lags_ = true; }
  [[nodiscard]] bool lags() const { return lags_; }
  /// Called when the kernel was given an answer that may lower its i_size to `size`.
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
