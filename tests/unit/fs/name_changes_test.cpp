#include "fs/name_changes.h"

#include <doctest/doctest.h>

namespace nfsrdma::fs {

using Verdict = NameChanges::Verdict;

TEST_CASE("F8 a page is doubted for names that were changed since it was asked for") {
  NameChanges names;
  names.join();
  const auto before = names.now();
  names.begin("a");
  CHECK(names.judge("a", before) == Verdict::doubtful);
  const auto during = names.now();
  CHECK(names.judge("a", during) == Verdict::doubtful);
  SUBCASE("removed") {
    names.end("a", true);
    CHECK(names.judge("a", before) == Verdict::gone);
    CHECK(names.judge("a", during) == Verdict::gone);
    names.begin("a");
    names.end("a", false);
    CHECK(names.judge("a", before) == Verdict::doubtful);
  }
  SUBCASE("made, or not known") {
    names.end("a", false);
    CHECK(names.judge("a", before) == Verdict::doubtful);
  }
  CHECK(names.judge("b", before) == Verdict::as_listed);
  CHECK(names.judge("a", names.now()) == Verdict::as_listed);
  names.leave();
}

TEST_CASE("F8 a change that began before somebody lists the directory is known, too") {
  NameChanges names;
  names.begin("a");
  names.join();
  const auto during = names.now();
  names.end("a", true);
  CHECK(names.judge("a", during) == Verdict::gone);
  names.leave();
}

TEST_CASE("F22 names that changed are remembered up to a bound; pages from before it are doubted") {
  NameChanges names;
  names.join();
  const auto before = names.now();
  for (std::size_t i = 0; i <= NameChanges::kMost; ++i) {
    const std::string name = std::to_string(i);
    names.begin(name);
    names.end(name, true);
  }
  CHECK(names.judge("0", before) == Verdict::doubtful);
  CHECK(names.judge("another", before) == Verdict::doubtful);
  CHECK(names.judge("another", names.now()) == Verdict::as_listed);
  names.leave();
}

}  // namespace nfsrdma::fs
