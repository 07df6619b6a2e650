// Detects a directory listing that goes in circles: if a server returns a cookie that it returned before, a
// client that follows the cookies lists the directory for ever.
//
//     CookieLoop loop;                                   // one for each reader of a directory
//     for (each page, as the server gives it behind `cookie`)
//       if (loop.closes_with_page(cookie, page.entries)) return CookieLoop::error("READDIR", path);
//
// A page that was asked for with another cookie than that of the last entry begins a new listing (rewinddir,
// seekdir). The cookies before it do not count for the new listing.
//
// One remembered cookie is compared with each later one. At each power of two it is replaced by the current
// cookie (Brent's algorithm for finding a cycle). This takes two numbers whatever the directory's size. A
// circle is found after at most three times as many entries as there are before it and in it.
//
// Equal cookies in immediate succession are not a circle yet: file systems that derive cookies from hashes
// give equal cookies to two names that collide, and the listing continues behind them.
//
// Used by every version of the protocol, because cookies are opaque numbers in all of them. Pure.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "nfsrdma/result.h"

namespace nfsrdma::engine {

class CookieLoop {
 public:
  /// Takes the next entry's cookie. Returns true if the listing has been at this cookie before.
  [[nodiscard]] bool closes_with(std::uint64_t cookie) {
    if (count_ != 0 && cookie == last_) return ++run_ > kLongestRun;
    run_ = 0;
    last_ = cookie;
    if (count_ != 0 && cookie == remembered_) return true;
    if (++count_ == next_power_) {
      remembered_ = cookie;
      next_power_ *= 2;
    }
    return false;
  }

  /// Takes a page: the entries that the server returned behind the cookie `behind`. Each entry has a
  /// `cookie`.
  template <class Entries>
  [[nodiscard]] bool closes_with_page(std::uint64_t behind, const Entries& entries) {
    if (behind != last_) *this = {};
    return std::ranges::any_of(entries, [&](const auto& entry) { return closes_with(entry.cookie); });
  }

  /// Returns the error for the caller that lists `path`.
  [[nodiscard]] static Error error(std::string operation, std::string path) {
    return {ErrorKind::protocol, ELOOP, std::move(operation), std::move(path),
            "the server's listing of this directory does not end: it repeats the same cookie; report it to "
            "the maker of the server or of its file system"};
  }

 private:
  static constexpr std::uint32_t kLongestRun = 64;
  std::uint64_t remembered_ = 0, last_ = 0;
  std::uint64_t count_ = 0, next_power_ = 1;
  std::uint32_t run_ = 0;  // how often `last_` has been repeated in immediate succession
};

}  // namespace nfsrdma::engine
