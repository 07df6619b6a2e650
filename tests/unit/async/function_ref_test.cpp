#include "async/function_ref.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace nfsrdma::async {
namespace {
int twice(FunctionRef<int(int)> call, int value) {
  return call(call(value));
}
int next(int value) {
  return value + 1;
}
}  // namespace

TEST_CASE("async: a function reference calls what its user brings along, without a copy of it") {
  int calls = 0;
  const auto add = [&calls, step = std::make_unique<int>(3)](int value) {  // cannot be copied
    ++calls;
    return value + *step;
  };
  CHECK(twice(add, 1) == 7);
  CHECK(calls == 2);
  CHECK(twice([&](int value) { return value * 10; }, 2) == 200);
  auto* const pointer = next;
  CHECK(twice(pointer, 5) == 7);
}

TEST_CASE("async: a function reference calls what may change, and arguments are passed on as they are") {
  struct Counter {
    int count = 0;
    std::string operator()(std::unique_ptr<int> value, std::string& seen) {
      seen += std::to_string(*value);
      return std::to_string(++count);
    }
  };
  Counter counter;
  const FunctionRef<std::string(std::unique_ptr<int>, std::string&)> call(counter);
  std::string seen;
  CHECK(call(std::make_unique<int>(4), seen) == "1");
  const auto again = call;
  CHECK(again(std::make_unique<int>(2), seen) == "2");
  CHECK(seen == "42");
  CHECK(counter.count == 2);
}

}  // namespace nfsrdma::async
