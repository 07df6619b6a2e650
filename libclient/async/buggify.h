// Places where the product may do something else that is right, too: a shorter WRITE, a call on another
// connection, a delegation given back unasked. A fault that needs it comes up in a simulation long before it
// does in the world.
//
//     if (buggify(loop)) length = 512;
//
// Each place is switched on by a seed, or not, and then fires now and then. Nowhere but in a simulation, and
// in a build without NFSRDMA_BUGGIFY it is nothing.
#pragma once

#include "async/loop.h"

#ifdef NFSRDMA_BUGGIFY
#include <source_location>
#endif

namespace nfsrdma::async {

#ifdef NFSRDMA_BUGGIFY
inline bool buggify(Loop& loop, unsigned percent = 25,
                    std::source_location place = std::source_location::current()) {
  return loop.whim(place.file_name(), place.line(), percent);
}
#else
constexpr bool buggify(const Loop& /*loop*/, unsigned /*percent*/ = 25) {
  return false;
}
#endif

}  // namespace nfsrdma::async
