// An opendir(3) that is open, with the page that was read last, as long as there is room for that (directory_pages.h).
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

/// A page as it was read.
struct ReadPage {
  Page page;
  std::uint64_t begin = 0;                   ///< the cookie that it came behind
  std::uint64_t as_of = 0, names_as_of = 0;  ///< of the changes that were made here
  async::TimePoint came;                     ///< when it was answered
};

/// Names of a directory. They stand in a page, which lives as long as this.
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
    inode->entries.join();
  }
  ~DirectoryHandle() override { inode->entries.leave(); }
  DirectoryHandle(const DirectoryHandle&) = delete;
  DirectoryHandle& operator=(const DirectoryHandle&) = delete;

  const std::shared_ptr<Inode> inode;
  const Caller caller;  ///< whose rights count, whoever lists it
  /// Without its entries where `loaded` is no: where to go on, and what is judged by the page's times, need the rest.
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
