#include "sim/coverage.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace nfsrdma::sim {
namespace {

constexpr std::array<std::string_view, 8> kFlagNames{"none",  "append", "direct", "sync",
                                                     "creat", "excl",   "trunc",  "ring"};
constexpr std::array<std::string_view, 6> kSizeNames{"0", "<512", "<4096", "4096", "<=16384", ">16384"};
constexpr std::array<std::string_view, 7> kStateNames{"plain",     "unsynced", "elsewhere", "locked",
                                                      "restarted", "nameless", "delegated"};

constexpr std::array<std::string_view, Coverage::kOperations> kOperationNames{
    "open", "read",   "write", "append", "fstat", "truncate", "touch",  "allocate", "punch",  "seek", "copy",
    "lock", "unlock", "fsync", "close",  "load",  "store",    "rename", "link",     "remove", "list"};

/// A bit for each operation, flag, size or state of a class.
template <typename... Places>
constexpr unsigned bits(Places... places) {
  return (0U | ... | (1U << static_cast<unsigned>(places)));
}
constexpr unsigned kAll = ~0U;

/// Classes that no program can have, or that are not told apart: those of these operations that also have one of these flags,
/// sizes and states.
struct Exclusion {
  unsigned operations, flags, sizes, states;
  std::string_view reason;
};
using enum Coverage::Operation;
constexpr unsigned kOfNames = bits(rename, link, remove, list);
constexpr std::array kExclusions{
    Exclusion{kAll & ~bits(open), bits(4, 5, 6), kAll, kAll, "flags of open(2) alone are counted there"},
    Exclusion{kAll & ~bits(read, write, append), bits(7), kAll, kAll,
              "only data goes past the kernel by a ring"},
    Exclusion{bits(open), bits(5, 6), kAll & ~bits(0), kAll, "a file that is made or cut is empty"},
    Exclusion{bits(open), kAll, kAll, bits(4), "the server does not restart between open(2) and its end"},
    Exclusion{bits(read, write, append, allocate, punch, copy, store), kAll, bits(0), kAll,
              "these operations have a size above 0"},
    Exclusion{bits(write), bits(1), kAll, kAll, "a write with O_APPEND is an append"},
    Exclusion{bits(append), bits(0), kAll, kAll, "an append has O_APPEND"},
    Exclusion{bits(load, store), bits(2), kAll, kAll,
              "nobody maps a descriptor with O_DIRECT (any_work.cpp)"},
    Exclusion{bits(store), kAll, kAll & ~bits(1), kAll, "a store has at most 300 bytes"},
    Exclusion{bits(lock), kAll, kAll, bits(3), "who has a lock gives it back before the next one"},
    Exclusion{bits(unlock), kAll, kAll, bits(0), "who unlocks has a lock"},
    Exclusion{kOfNames, kAll & ~bits(0), kAll, kAll, "names have no flags"},
    Exclusion{kOfNames, kAll, kAll & ~bits(0), kAll, "names have no size"},
    Exclusion{kOfNames, kAll, kAll, kAll & ~bits(0), "states of the files are not counted for names"},
};

unsigned flags_of(int flags) {
  unsigned out = 0;
  if ((flags & O_APPEND) != 0) out |= 1U << 1U;
  if ((flags & O_DIRECT) != 0) out |= 1U << 2U;
  if ((flags & O_SYNC) == O_SYNC) out |= 1U << 3U;
  if ((flags & O_CREAT) != 0) out |= 1U << 4U;
  if ((flags & O_EXCL) != 0) out |= 1U << 5U;
  if ((flags & O_TRUNC) != 0) out |= 1U << 6U;
  return out == 0 ? 1 : out;
}

std::size_t size_class(std::uint64_t size) {
  if (size == 0) return 0;
  if (size < 512) return 1;
  if (size < 4096) return 2;
  if (size == 4096) return 3;
  return size <= 16'384 ? 4 : 5;
}

bool has(unsigned set, std::size_t index) {
  return (set >> index & 1U) != 0;
}

/// Null: the class can occur.
const Exclusion* excluded(std::size_t operation, std::size_t flag, std::size_t size, std::size_t state) {
  const auto found = std::ranges::find_if(kExclusions, [&](const Exclusion& one) {
    return has(one.operations, operation) && has(one.flags, flag) && has(one.sizes, size) &&
           has(one.states, state);
  });
  return found == kExclusions.end() ? nullptr : &*found;
}

}  // namespace

void Coverage::count(Operation operation, int flags, std::uint64_t size, unsigned states, bool past) {
  const auto row = static_cast<std::size_t>(operation);
  const unsigned flag_bits = flags_of(flags) | (past ? 1U << 7U : 0U);
  const unsigned state_bits = states == kPlain ? 1 : states << 1U;
  for (std::size_t flag = 0; flag < kFlags; ++flag) {
    for (std::size_t state = 0; state < kStates; ++state) {
      const bool counts = has(flag_bits, flag) && has(state_bits, state);
      if (counts && excluded(row, flag, size_class(size), state) == nullptr)
        ++cells_.at(row).at(flag).at(size_class(size)).at(state);
    }
  }
}

void Coverage::add(const Coverage& other) {
  for (std::size_t row = 0; row < kOperations; ++row) {
    for (std::size_t flag = 0; flag < kFlags; ++flag) {
      for (std::size_t size = 0; size < kSizes; ++size) {
        for (std::size_t state = 0; state < kStates; ++state)
          cells_.at(row).at(flag).at(size).at(state) += other.cells_.at(row).at(flag).at(size).at(state);
      }
    }
  }
}

template <typename Fn>
void Coverage::for_each_possible(Fn fn) const {
  for (std::size_t row = 0; row < kOperations; ++row) {
    for (std::size_t flag = 0; flag < kFlags; ++flag) {
      for (std::size_t state = 0; state < kStates; ++state) {
        for (std::size_t size = 0; size < kSizes; ++size) {
          if (excluded(row, flag, size, state) == nullptr)
            fn(row, flag, size, state, cells_.at(row).at(flag).at(size).at(state));
        }
      }
    }
  }
}

std::size_t Coverage::missing() const {
  std::size_t out = 0;
  for_each_possible([&](auto, auto, auto, auto, std::uint64_t count) { out += count == 0 ? 1 : 0; });
  return out;
}

std::string Coverage::table() const {
  struct Sums {
    std::array<std::optional<std::uint64_t>, kFlags> flags;
    std::array<std::optional<std::uint64_t>, kSizes> sizes;
    std::array<std::optional<std::uint64_t>, kStates> states;
  };
  std::array<Sums, kOperations> sums;
  std::map<std::string, std::string> never;  // sizes by operation, flag and state
  std::size_t all = 0;
  for_each_possible(
      [&](std::size_t row, std::size_t flag, std::size_t size, std::size_t state, std::uint64_t count) {
        ++all;
        for (auto* sum :
             {&sums.at(row).flags.at(flag), &sums.at(row).sizes.at(size), &sums.at(row).states.at(state)})
          *sum = sum->value_or(0) + count;
        if (count != 0) return;
        std::string name(kOperationNames.at(row));
        name += ", " + std::string(kFlagNames.at(flag)) + ", " + std::string(kStateNames.at(state));
        never[name] += " " + std::string(kSizeNames.at(size));
      });
  std::string out = "coverage: operation, and how often with each flag, size and state\n";
  for (std::size_t row = 0; row < kOperations; ++row) {
    out += "  " + std::string(kOperationNames.at(row));
    const auto add = [&out](const auto& counts, const auto& names) {
      out += " |";
      for (std::size_t at = 0; at < names.size(); ++at) {
        if (counts.at(at)) out += " " + std::string(names.at(at)) + " " + std::to_string(*counts.at(at));
      }
    };
    add(sums.at(row).flags, kFlagNames);
    add(sums.at(row).sizes, kSizeNames);
    add(sums.at(row).states, kStateNames);
    out += "\n";
  }
  const std::size_t classes = kOperations * kFlags * kSizes * kStates;
  out +=
      std::to_string(classes - all) + " of " + std::to_string(classes) + " classes cannot occur, because\n";
  for (const Exclusion& one : kExclusions) out += "  " + std::string(one.reason) + "\n";
  out += std::to_string(all - missing()) + " of the other " + std::to_string(all) + " classes occurred";
  if (never.empty()) return out + "\n";
  out += "; these never did (operation, flag, state: sizes):\n";
  for (const auto& [name, sizes] : never) out += "  " + name + ":" + sizes + "\n";
  return out;
}

}  // namespace nfsrdma::sim
