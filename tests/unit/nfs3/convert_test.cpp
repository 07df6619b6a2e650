// From the public API's values to NFSv3's (nfs3/convert.h).
#include "nfs3/convert.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace nfsrdma::nfs3 {
TEST_CASE("nfs3: a time that the wire has no room for is the nearest that it has") {
  SetAttributes changes;
  changes.accessed = Time{-5, 1};
  changes.modified = Time{std::int64_t{1} << 33U, 2};
  const sattr3 far = to_wire(changes);
  REQUIRE(far.atime.get<SET_TO_CLIENT_TIME>() != nullptr);
  REQUIRE(far.mtime.get<SET_TO_CLIENT_TIME>() != nullptr);
  CHECK(far.atime.get<SET_TO_CLIENT_TIME>()->seconds == 0);
  CHECK(far.mtime.get<SET_TO_CLIENT_TIME>()->seconds == 0xffffffff);
  CHECK(far.mtime.get<SET_TO_CLIENT_TIME>()->nseconds == 2);
  SetAttributes now;
  now.accessed_now = true;
  const sattr3 servers = to_wire(now);
  CHECK(servers.atime.tag() == SET_TO_SERVER_TIME);
  CHECK(servers.mtime.tag() == DONT_CHANGE);
}

}  // namespace nfsrdma::nfs3
