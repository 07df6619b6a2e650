// The limit of --bwlimit, on a clock that the test moves.
#include "cli/pace.h"

#include <doctest/doctest.h>

#include "cli/transfer.h"

namespace nfsrdma::cli {

TEST_CASE("pace: what is moved has to wait until the rate allows it") {
  using namespace std::chrono_literals;
  Pace pace(1000);
  const Pace::Clock::time_point start(100s);
  CHECK(pace.take(500, start) == 0s);  // within the credit of one second
  CHECK(pace.take(500, start) == 0s);
  CHECK(pace.take(2000, start) == 2s);
  CHECK(pace.take(0, start + 1s) == 1s);
  CHECK(pace.take(1000, start + 2s) == 1s);
  // A long pause is credited up to one second.
  CHECK(pace.take(3000, start + 1000s) == 2s);
  CHECK(Pace().take(1U << 30, start) == 0s);
}

TEST_CASE("pace: chunks of a slow transfer last a quarter of a second at most, if that is not too small") {
  CHECK(chunk_size_for(1U << 20, 0) == 1U << 20);
  CHECK(chunk_size_for(1U << 20, 1U << 30) == 1U << 20);
  CHECK(chunk_size_for(1U << 20, 2U << 20) == 512U << 10);
  CHECK(chunk_size_for(1U << 20, 1000) == 64U << 10);
  CHECK(chunk_size_for(32U << 10, 1000) == 32U << 10);
}

}  // namespace nfsrdma::cli
