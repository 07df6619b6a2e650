#include "sim/coverage.h"

#include <fcntl.h>

#include <string_view>

namespace nfsrdma::sim {
namespace {

constexpr std::array<std::string_view, 7> kFlagNames{"none",  "append", "direct", "sync",
                                                     "creat", "excl",   "trunc"};
constexpr std::array<std::string_view, 6> kSizeNames{"0", "<512", "<4096", "4096", "<=16384", ">16384"};
constexpr std::array<std::string_view, 7> kStateNames{"plain",     "unsynced", "elsewhere", "locked",
                                                      "restarted", "nameless", "delegated"};

/// Which flags, sizes and states an operation can have: a bit for each name above.
struct Row {
  std::string_view name;
  unsigned flags, sizes, states;
};
constexpr unsigned kData = 0b0001111, kOpening = 0b1111111, kOnly = 1;
constexpr std::size_t kFirstEmptying = 5;  // of the flags: excl and trunc
constexpr unsigned kMapped = 0b0001011;    // of the flags
constexpr unsigned kAnySize = 0b111111, kSome = kAnySize & ~1U, kStored = 0b000010;
constexpr unsigned kAny = 0b1111111, kNotLocked = kAny & ~0b0001000U, kNotPlain = kAny & ~1U,
                   kJustOpened = kAny & ~0b0010000U;
constexpr std::array kRows{
    Row{"open", kOpening, kAnySize, kJustOpened}, Row{"read", kData, kSome, kAny},
    Row{"write", 0b0001101, kSome, kAny},         Row{"append", 0b0001110, kSome, kAny},
    Row{"fstat", kData, kAnySize, kAny},          Row{"truncate", kData, kAnySize, kAny},
    Row{"allocate", kData, kSome, kAny},          Row{"punch", kData, kSome, kAny},
    Row{"seek", kData, kAnySize, kAny},           Row{"copy", kData, kSome, kAny},
    Row{"lock", kData, kAnySize, kNotLocked},     Row{"unlock", kData, kAnySize, kNotPlain},
    Row{"fsync", kData, kAnySize, kAny},          Row{"close", kData, kAnySize, kAny},
    Row{"load", kMapped, kAnySize, kAny},         Row{"store", kMapped, kStored, kAny},
    Row{"rename", kOnly, kOnly, kOnly},           Row{"link", kOnly, kOnly, kOnly},
    Row{"remove", kOnly, kOnly, kOnly},           Row{"list", kOnly, kOnly, kOnly},
};
static_assert(kRows.size() == Coverage::kOperations);

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

bool has(unsigned bits, std::size_t index) {
  return (bits >> index & 1U) != 0;
}

}  // namespace

void Coverage::count(Operation operation, int flags, std::uint64_t size, unsigned states) {
  const auto row = static_cast<std::size_t>(operation);
  const unsigned flag_bits = flags_of(flags) & kRows.at(row).flags;
  const unsigned state_bits = states == kPlain ? 1 : states << 1U;
  for (std::size_t flag = 0; flag < kFlags; ++flag) {
    for (std::size_t state = 0; state < kStates; ++state) {
      if (has(flag_bits, flag) && has(state_bits, state))
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

std::string Coverage::table() const {
  std::string counts = "coverage: operation, and how often with each flag, size and state\n", never;
  std::size_t seen = 0, all = 0;
  for (std::size_t row = 0; row < kOperations; ++row) {
    const Row& may = kRows.at(row);
    std::array<std::uint64_t, kFlags> by_flag{};
    std::array<std::uint64_t, kSizes> by_size{};
    std::array<std::uint64_t, kStates> by_state{};
    for (std::size_t flag = 0; flag < kFlags; ++flag) {
      for (std::size_t state = 0; state < kStates; ++state) {
        std::string missing;
        for (std::size_t size = 0; size < kSizes; ++size) {
          const std::uint64_t count = cells_.at(row).at(flag).at(size).at(state);
          by_flag.at(flag) += count;
          by_size.at(size) += count;
          by_state.at(state) += count;
          if (!has(may.flags, flag) || !has(may.sizes, size) || !has(may.states, state)) continue;
          // What is made or cut is empty.
          if (flag >= kFirstEmptying && size != 0) continue;
          ++all;
          if (count != 0)
            ++seen;
          else
            missing += " " + std::string(kSizeNames.at(size));
        }
        if (missing.empty()) continue;
        never += "  " + std::string(may.name) + ", " + std::string(kFlagNames.at(flag)) + ", " +
                 std::string(kStateNames.at(state)) + ":" + missing + "\n";
      }
    }
    const auto add_all = [&](const auto& by, const auto& names, unsigned bits) {
      counts += " |";
      for (std::size_t at = 0; at < names.size(); ++at) {
        if (has(bits, at)) counts += " " + std::string(names.at(at)) + " " + std::to_string(by.at(at));
      }
    };
    counts += "  " + std::string(may.name);
    add_all(by_flag, kFlagNames, may.flags);
    add_all(by_size, kSizeNames, may.sizes);
    add_all(by_state, kStateNames, may.states);
    counts += "\n";
  }
  return counts + std::to_string(seen) + " of " + std::to_string(all) +
         " classes occurred; those that never did (operation, flag, state: sizes):\n" + never;
}

}  // namespace nfsrdma::sim
