// One seed: a world, its climate, work in it, and the verdict.
#pragma once

#include <cstdint>
#include <string>

#include "sim/coverage.h"
#include "sim/simulation.h"

namespace nfsrdma::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  unsigned operations = 300;  ///< of all workers together
  bool faults = true;         ///< without: the network and the server are calm
  bool anything = false;      ///< all programs are those of any_work.h
  bool habits = false;        ///< servers have the habits of Habits::groups()
  bool prints = false;        ///< the trace, as it comes
  std::string without;        ///< kinds of trouble (climate.h), with commas between them
};

enum class Verdict : std::uint8_t { right = 0, wrong = 1, unfinished = 3 };

struct Outcome {
  Verdict verdict = Verdict::right;
  std::string text;  ///< what is wrong, one per line
  std::string tail;  ///< of the trace
  std::uint64_t operations = 0;
  Duration time{};  ///< virtual
  std::uint64_t hash = 0;
  Coverage coverage;
};

[[nodiscard]] Outcome run(const RunOptions& options);

}  // namespace nfsrdma::sim
