// What this mount writes into one file, by itself: its end, and what was lost.
#include "fs/file_writes.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "support/virtual_world.h"

namespace nfsrdma::fs {
namespace {

struct Writes {
  testing::VirtualWorld world;
  async::Loop loop{world};
  async::Event settled{loop};
  FileWrites writes{settled};
  const Error lost{ErrorKind::server, ENOSPC, "WRITE", "a", "no"};
};

}  // namespace

TEST_CASE("F1 file writes: a write moves the end while it is under way, and once it has ended") {
  Writes m;
  CHECK(m.writes.end_of(7, 0) == 7);
  const auto write = m.writes.begin(0, 100, true);
  CHECK(m.writes.any_append());
  CHECK(m.writes.end_of(7, 0) == 100);  // answered or not
  CHECK(m.writes.end_of(700, 0) == 700);
  m.writes.end(write, true, 5);
  CHECK_FALSE(m.writes.any_append());
  CHECK(m.writes.ended() == 1);
  CHECK(m.writes.end_of(7, 4) == 100);  // the server was asked before
  CHECK(m.writes.end_of(7, 5) == 7);    // somebody else has cut it
  m.writes.end(m.writes.begin(100, 100), false, 6);
  CHECK(m.writes.ended() == 2);
  CHECK(m.writes.end_of(7, 4) == 100);  // one that failed leaves nothing
  m.writes.forget_ended();
  CHECK(m.writes.end_of(7, 4) == 7);
}

TEST_CASE("F6 file writes: data that was lost is failing until an fsync or close goes well") {
  Writes m;
  CHECK_FALSE(m.writes.errors().failing());
  m.writes.errors().add(m.lost);
  CHECK(m.writes.errors().failing());
  CHECK_FALSE(m.writes.errors().behind_close());
  m.writes.errors().went_well();
  CHECK_FALSE(m.writes.errors().failing());
  m.writes.errors().add_behind_close(m.lost);
  CHECK(m.writes.errors().failing());
  REQUIRE(m.writes.errors().behind_close());
  m.writes.errors().went_well();
  CHECK_FALSE(m.writes.errors().failing());
  CHECK_FALSE(m.writes.errors().behind_close());
  CHECK(m.writes.errors().count() == 1);
}

TEST_CASE("F25 file writes: saves and questions for the end are under way while somebody says so") {
  Writes m;
  {
    const auto one = m.writes.saving(), two = m.writes.saving();
    const auto finding = m.writes.finding_end();
    CHECK(m.writes.is_saving());
    CHECK(m.writes.is_finding_end());
  }
  CHECK_FALSE(m.writes.is_saving());
  CHECK_FALSE(m.writes.is_finding_end());
}

}  // namespace nfsrdma::fs
