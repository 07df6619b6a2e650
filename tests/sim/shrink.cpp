#include "sim/shrink.h"

#include "sim/climate.h"

namespace nfsrdma::sim {

RunOptions shrunk(RunOptions options, unsigned tries) {
  options.prints = false;
  const auto take_if_it_fails = [&](const RunOptions& smaller) {
    if (tries == 0 || run(smaller).verdict == Verdict::right) return false;
    --tries;
    options = smaller;
    return true;
  };
  for (const std::string_view kind : Climate::kinds()) {
    RunOptions smaller = options;
    if (!smaller.without.empty()) smaller.without += ',';
    smaller.without += kind;
    (void)take_if_it_fails(smaller);
  }
  // Each operation changes what comes behind it: a smaller number may fail where a larger one does not.
  for (unsigned step = options.operations / 2; step > 0; step /= 2) {
    RunOptions smaller = options;
    while (smaller.operations > step) {
      smaller.operations -= step;
      if (!take_if_it_fails(smaller)) break;
    }
  }
  return options;
}

std::string command_line(const RunOptions& options) {
  std::string out = "nfsrdma_sim --seed " + std::to_string(options.seed) + " --ops " +
                    std::to_string(options.operations) + (options.faults ? "" : " --calm") +
                    (options.anything ? " --anything" : "") + (options.habits ? " --habits" : "");
  if (!options.without.empty()) out += " --without " + options.without;
  return out;
}

}  // namespace nfsrdma::sim
