// Makes the entries that the kernel is sent: of an object that a LOOKUP has found, that was listed, or that a program
// has made. Each entry counts as one lookup of its inode, until the kernel forgets it.
//
// How long a name is valid depends on its directory's attributes. On a mount for several users names are given to the
// kernel with a validity of zero (name_requests.h).
//
// Confined to the loop's thread. In the functions below, `as_of` is Freshness::count() at the time the attributes were
// asked for, and `when` is the count at the time they arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fs/entry.h"
#include "fs/name_checks.h"
#include "fs/part.h"

namespace nfsrdma::fs {

class Entries final : Part {
 public:
  Entries(MountState& state, NameChecks& name_checks) : Part(state), name_checks_(name_checks) {}

  /// `kernel_asked`: Freshness::count() when the kernel's request came. The kernel ignores attributes that a later event
  /// has overtaken.
  Entry entry(const FileHandle& handle, const Inode& directory, const std::string& name,
              const Attributes& told, std::uint64_t as_of, std::uint64_t when, std::uint64_t kernel_asked);
  /// Returns the entry of an object that was found without a name of it.
  Entry found_again(const FileHandle& handle, const Attributes& told, std::uint64_t as_of);
  /// Returns the entry of a name that does not exist.
  [[nodiscard]] Entry absent() const;
  /// Returns how long the absence of a name is valid. A change of the directory would end it, but this client
  /// is not notified of one.
  [[nodiscard]] async::Clock::duration missing_for() const;
  /// Returns the entry of an object that was found or made. Attributes are requested if none came with the
  /// answer, or if the size has been set since.
  async::Soon<Result<Entry>> made(Object object, std::shared_ptr<Inode> directory, std::string name,
                                  std::uint64_t as_of, std::uint64_t kernel_asked);
  /// Does the same for the answer to an operation that makes the name of `naming`.
  async::Soon<Result<Entry>> entered(Naming& naming, const Caller& caller, Result<Made> result);

 private:
  /// Asks for the attributes that made() lacks.
  async::Task<Result<Entry>> ask_for(Object object, std::shared_ptr<Inode> directory, std::string name,
                                     std::uint64_t kernel_asked);
  NameChecks& name_checks_;
};

}  // namespace nfsrdma::fs
