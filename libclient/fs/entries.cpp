#include "fs/entries.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nfsrdma::fs {

namespace {
/// The kernel does not say why it looks a name up: because a program walks through it, reads its attributes, or
/// wants to create it (mkdir(2), O_EXCL). A program that creates a name has to learn whether it exists now. So on
/// a mount for several users, where the kernel asks each time (its entries have a validity of 0), the mount answers
/// from memory for as long as attributes are valid only if the name is that of a directory which the caller has
/// walked through, and for any other name for this time.
constexpr Seconds kLeafBelieved{0.2};
}  // namespace

Entry Entries::entry(const FileHandle& handle, const Inode& directory, const std::string& name,
                     const Attributes& told, std::uint64_t as_of, std::uint64_t when,
                     std::uint64_t kernel_asked) {
  Entry out;
  const auto inode = inodes_.look_up(handle, name, told.type);
  out.inode = inode->id;
  inodes_.place(*inode, directory.id, name);
  inode->attributes.forget();  // the kept attributes are older than these
  Attributed now = freshness_.attributed(*inode, told, as_of, when, kernel_asked);
  out.attributes = std::move(now.attributes);
  out.attributes_valid = now.valid;
  // The validity of a name depends on its directory, which has no delegation.
  const bool may_believe = options_.names && !inode->others.is_full();
  const Seconds believed = may_believe ? freshness_.valid(out.attributes) : Seconds(0);
  const bool is_leaf = told.type != FileType::directory;
  const Seconds known = options_.several_users && is_leaf ? std::min(believed, kLeafBelieved) : believed;
  const auto until = loop_.now() + std::chrono::duration_cast<async::Clock::duration>(known);
  // The kernel counts the validity from the time at which it takes the answer.
  if (known > Seconds(0)) inode->believed_until = std::max(inode->believed_until, until + OtherNames::kInUse);
  if (is_leaf && told.links == 1) name_checks_.has_one_name(inode);
  if (options_.several_users) {
    inode->names.believe(until);
    freshness_.keep_told(*inode, told, as_of);
  } else {
    out.name_valid = known;
  }
  return out;
}

Entry Entries::found_again(const FileHandle& handle, const Attributes& told, std::uint64_t as_of) {
  const auto inode = inodes_.look_up(handle, "a file that was opened by its handle", told.type);
  Attributed now = freshness_.attributed(*inode, told, as_of);
  Entry out;
  out.inode = inode->id;
  out.attributes = std::move(now.attributes);
  out.attributes_valid = now.valid;
  return out;
}

async::Clock::duration Entries::missing_for() const {
  return std::chrono::duration_cast<async::Clock::duration>(std::min(options_.file_min, Seconds(1)));
}

Entry Entries::absent() const {
  Entry out;
  if (options_.names && options_.negative_names && !options_.several_users) out.name_valid = missing_for();
  return out;
}

async::Soon<Result<Entry>> Entries::made(Object object, std::shared_ptr<Inode> directory, std::string name,
                                         std::uint64_t as_of, std::uint64_t kernel_asked) {
  const auto known = inodes_.find(object.handle);
  const bool is_old = known && known->attributes.resized_since(as_of);
  if (object.attributes && !is_old) {
    return entry(object.handle, *directory, name, *object.attributes, as_of, freshness_.count(),
                 kernel_asked);
  }
  return ask_for(std::move(object), std::move(directory), std::move(name), kernel_asked);
}

async::Task<Result<Entry>> Entries::ask_for(Object object, std::shared_ptr<Inode> directory, std::string name,
                                            std::uint64_t kernel_asked) {
  const auto known = inodes_.find(object.handle);
  for (int tries = 2;; ++tries) {
    const std::uint64_t as_of = freshness_.count();
    auto told = co_await engine_->attributes(nullptr, object.handle);
    if (!told) co_return told.error();
    const bool is_old = known && known->attributes.resized_since(as_of) && tries < kMostTries;
    if (!is_old)
      co_return entry(object.handle, *directory, name, *told, as_of, freshness_.count(), kernel_asked);
  }
}

async::Soon<Result<Entry>> Entries::entered(Naming& naming, const Caller& caller, Result<Made> result) {
  if (!result) return result.error();
  naming.brought(result->directory);
  naming.granted(caller);
  return made(std::move(result->object), naming.directory(), naming.name(), naming.as_of(),
              naming.kernel_asked());
}

}  // namespace nfsrdma::fs
