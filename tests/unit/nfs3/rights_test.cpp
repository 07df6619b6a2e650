// What a caller may do with a file, as far as ACCESS has told (nfs3/rights.h).
#include "nfs3/rights.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "support/v3_fixture.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("nfs3: what a caller may do is known of him, of this file, and as long as it is the same") {
  KnownRights rights;
  const FileHandle file = handle_of(1), other = handle_of(2);
  const auto one = user(7, 100);
  constexpr std::uint64_t kChange = 5;
  CHECK_FALSE(rights.of(file, one, kChange));
  rights.learn(file, one, kChange, ACCESS3_READ);
  CHECK(rights.of(file, one, kChange) == ACCESS3_READ);
  CHECK(rights.of(file, user(7, 100), kChange) == ACCESS3_READ);  // the same numbers
  CHECK_FALSE(rights.of(file, one, kChange + 1));
  CHECK_FALSE(rights.of(other, one, kChange));
  CHECK_FALSE(rights.of(file, user(7, 101), kChange));
  CHECK_FALSE(rights.of(file, user(7, 100, {8}), kChange));
  CHECK_FALSE(rights.of(file, nullptr, kChange));
  // These may share a place with the one above.
  for (std::uint32_t uid = 8; uid < 8 + 1024; ++uid) CHECK_FALSE(rights.of(file, user(uid, 100), kChange));
}

}  // namespace nfsrdma::nfs3
