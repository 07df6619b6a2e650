// What this mount does to the names of one file, by itself.
#include "fs/file_names.h"

#include <doctest/doctest.h>

#include <chrono>

#include "support/virtual_world.h"

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;

engine::FileHandle handle(std::byte number) {
  engine::FileHandle out;
  out.length = 1;
  out.bytes[0] = number;
  return out;
}

struct Names {
  testing::VirtualWorld world;
  async::Loop loop{world};
  async::Event settled{loop};
  FileNames names{settled};
  const engine::FileHandle here = handle(std::byte{1}), there = handle(std::byte{2});
};

}  // namespace

TEST_CASE(
    "F8 file names: a link count counts for the only one who takes a name, and nobody else took one since") {
  Names m;
  CHECK_FALSE(m.names.counts_links(1));
  const auto mine = m.names.leaving();
  CHECK(m.names.is_being_left());
  CHECK(m.names.counts_links(0));
  m.names.lost_one(5);
  CHECK_FALSE(m.names.counts_links(4));
  CHECK(m.names.counts_links(5));
  const auto another = m.names.leaving();
  CHECK_FALSE(m.names.counts_links(5));
}

TEST_CASE("F8 file names: opens and removals are under way while somebody says so") {
  Names m;
  {
    const auto one = m.names.opening(), two = m.names.opening();
    CHECK(m.names.is_being_opened());
    CHECK_FALSE(m.names.is_being_left());
  }
  CHECK_FALSE(m.names.is_being_opened());
}

TEST_CASE("F8 file names: a hidden one is where it is, until it is renamed or taken") {
  Names m;
  m.names.hide({m.here, "a", nullptr});
  m.names.hide({m.there, "b", nullptr});
  CHECK(m.names.is_hidden());
  CHECK(m.names.is_hidden_in(m.there));
  CHECK(m.names.is_hidden_at(m.here, "a"));
  CHECK_FALSE(m.names.is_hidden_at(m.here, "b"));
  m.names.unhide(m.here, "b", true);  // it is not there
  m.names.unhide(m.there, "b", true);
  CHECK_FALSE(m.names.is_hidden_in(m.there));
  m.names.unhide(m.here, "a", false);  // it may be there still
  CHECK_FALSE(m.names.is_hidden());
  CHECK(m.names.is_hidden_at(m.here, "a"));
  CHECK(m.names.take_hidden().size() == 1);
  CHECK_FALSE(m.names.any_hidden());
}

TEST_CASE("F19 file names: a name is believed for as long as was said, unless there is doubt") {
  Names m;
  const auto now = m.loop.now();
  m.names.believe(now + 2s);
  CHECK(m.names.is_believed(now + 1s));
  m.names.believe_less(1s);
  CHECK_FALSE(m.names.is_believed(now + 1s));
  CHECK(m.names.is_believed(now));
  m.names.doubt();
  CHECK_FALSE(m.names.is_believed(now));
}

}  // namespace nfsrdma::fs
