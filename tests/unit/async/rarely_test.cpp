// A value that is seldom there.
#include "async/rarely.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>

namespace nfsrdma::async {

static_assert(sizeof(Rarely<std::string>) == sizeof(void*));

TEST_CASE(
    "async: a value that is seldom there is a pointer's size, copied with what it has, and stays in place") {
  Rarely<std::string> one;
  CHECK_FALSE(one);
  CHECK_FALSE(Rarely<std::string>(one));
  CHECK_FALSE(Rarely<std::string>(std::optional<std::string>()));
  one = std::string("a");
  REQUIRE(one);
  const std::string* const at = &*one;
  Rarely<std::string> copy(one);
  one = std::string("b");
  CHECK(&*one == at);
  CHECK(*one == "b");
  CHECK(*copy == "a");
  CHECK(copy->size() == 1);
  copy = one;
  CHECK(*copy == "b");
  CHECK(&*copy != at);
  Rarely<std::string> moved(std::move(one));
  CHECK(&*moved == at);
  moved.reset();
  CHECK_FALSE(moved);
  copy = Rarely<std::string>(std::optional(std::string("c")));
  CHECK(*copy == "c");
}

}  // namespace nfsrdma::async
