// An open directory (opendir(3)), with the page that was read last, for as long as there is room for it
// (directory_pages.h).
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "engine/cookie_loop.h"
#include "engine/engine.h"
#include "fs/directory_pages.h"
#include "fs/inodes.h"

namespace nfsrdma::fs {

/// A page of a directory as it was read.
struct ReadPage {
  Page page;
  std::uint64_t begin = 0;                   ///< the cookie behind which the page begins
  std::uint64_t as_of = 0, names_as_of = 0;  ///< counts of this mount's changes when the page was asked for
  async::TimePoint came;                     ///< when the answer arrived
};

/// Names of a directory. They are stored in a page, which lives as long as this object.
class ListedNames : public std::span<const Listed> {
 public:
  ListedNames() = default;
  ListedNames(std::shared_ptr<const ReadPage> page, std::span<const Listed> names)
      : span(names), page_(std::move(page)) {}

 private:
  std::shared_ptr<const ReadPage> page_;
};

struct DirectoryHandle final : DirectoryPages::Holder {
  DirectoryHandle(std::shared_ptr<Inode> directory, Caller opener)
      : inode(std::move(directory)), caller(std::move(opener)) {
    inode->directory().entries.join();
  }
  ~DirectoryHandle() override { inode->directory().entries.leave(); }
  DirectoryHandle(const DirectoryHandle&) = delete;
  DirectoryHandle& operator=(const DirectoryHandle&) = delete;

  const std::shared_ptr<Inode> inode;
  const Caller caller;  ///< the user who opened the directory; his rights count for all readers of the handle
  /// The page. If `loaded` is `no` it lacks its entries; the rest is still needed, to continue from there and
  /// to judge names by the page's times.
  std::shared_ptr<const ReadPage> read = std::make_shared<ReadPage>();
  engine::CookieLoop circle;
  enum class Loaded : unsigned char { no, for_open, yes } loaded = Loaded::no;

 private:
  void drop_page() override {
    const auto rest = std::make_shared<ReadPage>();
    rest->page.verifier = read->page.verifier;
    rest->begin = read->begin;
    rest->as_of = read->as_of;
    rest->names_as_of = read->names_as_of;
    rest->came = read->came;
    read = rest;
    loaded = Loaded::no;
  }
};

}  // namespace nfsrdma::fs
