// What the programs of any_work.h have done, counted by operation, flag of the open file, size and state of the file.
//
// An operation is counted once for each of its flags and each of the file's states, as IOCov counts for tests of file systems.
// The flag "ring" is that of a read or write past the kernel, as rings do them; it comes beside those of the open file. A class
// that never occurred is one that the simulation says nothing about. table() names those, and apart from them the
// reasons for which the others cannot occur: what is not excluded by one of these reasons is expected.
//
// A value; thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace nfsrdma::sim {

class Coverage {
 public:
  enum class Operation : std::uint8_t {
    open,
    read,
    write,
    append,
    stat,
    truncate,
    touch,
    allocate,
    punch,
    seek,
    copy,
    lock,
    unlock,
    sync,
    close,
    load,
    store,
    rename,
    link,
    remove,
    list
  };
  static constexpr std::size_t kOperations = 21;
  /// Bits: what the file is beside being open.
  enum State : unsigned {
    kPlain = 0,            ///< nothing of the others
    kUnsynced = 1U << 0,   ///< this client has written what it has not synced
    kElsewhere = 1U << 1,  ///< another client has it open
    kLocked = 1U << 2,     ///< this program has a lock on it
    kRestarted = 1U << 3,  ///< the server has restarted or failed over since it was opened
    kNameless = 1U << 4,   ///< it has lost a name
    kDelegated = 1U << 5   ///< a client has a delegation for writing on it
  };

  /// `flags`: those of open(2). `size`: of what is read or written, else of the file. `past`: a ring's, past the kernel.
  void count(Operation operation, int flags, std::uint64_t size, unsigned states, bool past = false);
  void add(const Coverage& other);
  /// Counts for each operation, why classes cannot occur, and those that can and never did.
  [[nodiscard]] std::string table() const;
  /// How many classes can occur and never did.
  [[nodiscard]] std::size_t missing() const;

 private:
  template <typename Fn>
  void for_each_possible(Fn fn) const;
  static constexpr std::size_t kFlags = 8, kSizes = 6, kStates = 7;
  using Cells = std::array<std::array<std::array<std::uint64_t, kStates>, kSizes>, kFlags>;
  std::array<Cells, kOperations> cells_{};
};

}  // namespace nfsrdma::sim
