#include "sim/coverage.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <string>

namespace nfsrdma::sim {

TEST_CASE(
    "sim: coverage: an operation counts once for each of its flags and states, and what never occurred is "
    "named") {
  Coverage seen, more;
  more.count(Coverage::Operation::read, O_RDWR | O_APPEND | O_DIRECT, 4096,
             Coverage::kUnsynced | Coverage::kLocked);
  more.count(Coverage::Operation::read, O_RDONLY, 1, Coverage::kPlain);
  seen.add(more);
  seen.add(more);
  const std::string table = seen.table();
  const auto has = [&](const char* text) { return table.find(text) != std::string::npos; };
  CHECK(has("  read | none 2 append 4 direct 4 sync 0 ring 0 | <512 2 <4096 0 4096 8 "));
  CHECK(has("plain 2 unsynced 4 elsewhere 0 locked 4 "));
  CHECK(has("\n5 of "));
  CHECK(has("  read, none, plain: <4096 4096 <=16384 >16384\n"));
  CHECK(has("  read, append, locked: <512 <4096 <=16384 >16384\n"));
  CHECK(has("  list, none, plain: 0\n"));
}

}  // namespace nfsrdma::sim
