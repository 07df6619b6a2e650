// Places where the product may choose another behaviour that is correct, too: a shorter WRITE, a call on
// another connection, a delegation returned without a recall. With them a simulation finds a fault that needs
// such a behaviour long before it occurs in the field.
//
//     if (buggify(loop)) length = 512;
//
// A seed decides whether each place is on; a place that is on fires now and then. No place fires outside of a
// simulation, and in a build without NFSRDMA_BUGGIFY buggify() is a constant false.
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
