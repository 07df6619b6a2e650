// One opendir(3), with the page that was read last.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/cookie_loop.h"
#include "engine/engine.h"
#include "fs/inodes.h"

namespace nfsrdma::fs {

/// A page as it was read.
struct ReadPage {
  Page page;
  std::uint64_t begin = 0;                   ///< the cookie that it came behind
  std::uint64_t as_of = 0, names_as_of = 0;  ///< of the changes that were made here
  async::TimePoint came;                     ///< when it was answered
};

struct DirectoryHandle {
  DirectoryHandle(std::shared_ptr<Inode> directory, Caller opener)
      : inode(std::move(directory)), caller(std::move(opener)) {
    inode->names.join();
  }
  ~DirectoryHandle() { inode->names.leave(); }
  DirectoryHandle(const DirectoryHandle&) = delete;
  DirectoryHandle& operator=(const DirectoryHandle&) = delete;

  const std::shared_ptr<Inode> inode;
  const Caller caller;  ///< whose rights count, whoever lists it
  std::shared_ptr<const ReadPage> read = std::make_shared<ReadPage>();
  engine::CookieLoop circle;
  enum class Loaded : unsigned char { no, for_open, yes } loaded = Loaded::no;
};

}  // namespace nfsrdma::fs
