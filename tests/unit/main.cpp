// The one translation unit of nfsrdma_tests that holds doctest's implementation and main(). The last line that it prints
// counts the test cases that this machine could not run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

#include "support/skipped.h"

int main(int argc, char** argv) {
  // What the user of this machine has configured must not change what the tests see.
  ::setenv("NFSRDMA_CONFIG", "none", 1);
  ::unsetenv("NFSRDMA_OPTIONS");
  doctest::Context context(argc, argv);
  const int failed = context.run();
  // Otherwise it was asked for a list, or for help.
  if (!context.shouldExit()) nfsrdma::testing::print_skipped(std::cout);
  return failed;
}
