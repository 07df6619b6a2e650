// The places in a directory that the kernel is told, for the cookies of the server.
#include "fuse/directory_offsets.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>

namespace nfsrdma::fuse {
TEST_CASE("F8 fuse: a place in a directory leads behind its name, whatever cookie the server has for that") {
  for (const std::uint64_t before_all : {0U, 1U, 2U}) CHECK(cookie_at(before_all) == 0);
  std::set<std::uint64_t> places{0, 1, 2};
  for (const std::uint64_t cookie : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                                     std::uint64_t{1} << 32U, ~std::uint64_t{0} >> 1U, ~std::uint64_t{0}}) {
    CAPTURE(cookie);
    CHECK(cookie_at(offset_behind(cookie)) == cookie);
    CHECK(places.insert(offset_behind(cookie)).second);
  }
  CHECK(static_cast<std::int64_t>(offset_behind(2)) > 0);
}

}  // namespace nfsrdma::fuse
