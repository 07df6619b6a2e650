// Notices that a directory's listing goes in circles: a server that gives a cookie again which it gave before
// makes a client that follows the cookies list for ever.
//
//     CookieLoop loop;                                   // one for each reader of a directory
//     for (each page, as the server gives it behind `cookie`)
//       if (loop.closes_with_page(cookie, page.entries)) return CookieLoop::error("READDIR", path);
//
// A page that comes behind another cookie than that of the last entry begins another listing (rewinddir,
// seekdir): what came before says nothing about it.
//
// A remembered cookie is compared with each that follows, and is replaced by the current one at every power
// of two (Brent's way to find a cycle). That takes two numbers whatever the directory's size. A circle is
// found at the latest when three times as many entries have come as there are before and in it.
//
// The same cookie several times in a row is no circle yet: file systems that make cookies of hashes give one
// to each of two names that collide, and the listing goes on behind them.
//
// For every version of the protocol: cookies are opaque numbers in all of them. Pure.
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
  /// Takes the next entry's cookie. True: the listing has been here before.
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

  /// The same for the entries that came behind the cookie `behind`, each of which has a `cookie`.
  template <class Entries>
  [[nodiscard]] bool closes_with_page(std::uint64_t behind, const Entries& entries) {
    if (behind != last_) *this = {};
    return std::ranges::any_of(entries, [&](const auto& entry) { return closes_with(entry.cookie); });
  }

  /// What to tell whoever lists `path`.
  [[nodiscard]] static Error error(std::string operation, std::string path) {
    return {ErrorKind::protocol, ELOOP, std::move(operation), std::move(path),
            "the server's listing of this directory goes in circles: it gives the same cookie again and "
            "again; report it to the maker of the server or of its file system"};
  }

 private:
  static constexpr std::uint32_t kLongestRun = 64;
  std::uint64_t remembered_ = 0, last_ = 0;
  std::uint64_t count_ = 0, next_power_ = 1;
  std::uint32_t run_ = 0;  // how often `last_` has come again at once
};

}  // namespace nfsrdma::engine
