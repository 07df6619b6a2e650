// What is known of one object's attributes, by itself.
#include "fs/known_attributes.h"

#include <doctest/doctest.h>

#include <chrono>

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;

constexpr async::TimePoint kNow(1h);

Attributes said(std::uint64_t change, std::uint64_t size = 0) {
  Attributes out;
  out.type = FileType::regular;
  out.change = change;
  out.size = size;
  return out;
}

}  // namespace

TEST_CASE("F2 known attributes: the answer to the latest question is it, whenever it comes") {
  KnownAttributes of;
  CHECK_FALSE(of.newest());
  CHECK_FALSE(of.is_confirmed(kNow));
  CHECK(of.learn(said(2, 20), 5, kNow));
  const auto contents = of.contents();
  CHECK_FALSE(of.learn(said(1, 10), 4, kNow + 1s));
  CHECK(of.size() == 20);
  CHECK_FALSE(of.is_confirmed(kNow + 1s));
  CHECK(of.contents() == contents);
  CHECK(of.learn(said(2, 20), 6, kNow + 1s));
  CHECK(of.is_confirmed(kNow + 1s));
  CHECK(of.contents() == contents);
  CHECK(of.learn(said(3, 30), 7, kNow));
  CHECK(of.contents() == contents + 1);
  CHECK(of.is_current());
  of.valid_from(8);
  CHECK_FALSE(of.is_current());
  CHECK(of.is_stale(7));
  CHECK_FALSE(of.is_stale(8));
}

TEST_CASE("F2 known attributes: what altered the object says how it is then, whatever was asked meanwhile") {
  KnownAttributes of;
  of.begin_altering(5);
  of.learn(said(1), 6, kNow);  // answered before or behind the change
  CHECK(of.learn(said(2), 4, kNow));
  of.end_altering(7);
  CHECK(of.newest()->attributes.change == 2);
}

TEST_CASE("F2 known attributes: what was kept holds until something ends it") {
  KnownAttributes of;
  of.learn(said(1, 10), 5, kNow);
  of.keep(kNow + 3s, 1);
  REQUIRE(of.kept(1));
  CHECK_FALSE(of.kept(2));  // another version
  SUBCASE("the same state again") {
    of.learn(said(1, 10), 6, kNow);
    CHECK(of.kept(1));
    CHECK(of.kept_until() == kNow + 3s);
  }
  SUBCASE("another state") {
    of.learn(said(2, 20), 6, kNow);
    CHECK_FALSE(of.kept(1));
  }
  SUBCASE("an older state") {
    of.learn(said(2, 20), 4, kNow);
    CHECK(of.kept(1)->size == 10);
  }
  SUBCASE("stale by then, and not kept again by an answer that is not") {
    of.valid_from(6);
    CHECK_FALSE(of.kept(1));
    of.learn(said(1, 10), 7, kNow);
    CHECK_FALSE(of.kept(1));
  }
  SUBCASE("a write") {
    of.changed(6);
    CHECK_FALSE(of.kept(1));
  }
  SUBCASE("something else that changes it") {
    of.begin_altering(6);
    CHECK_FALSE(of.kept(1));
  }
}

TEST_CASE("F6 known attributes: what a WRITE brought is of it, until another state is known") {
  KnownAttributes of;
  of.came_with_write(5);
  CHECK_FALSE(of.is_of_write());
  of.learn(said(1), 5, kNow);
  of.came_with_write(4);  // an older one
  CHECK_FALSE(of.is_of_write());
  of.came_with_write(5);
  CHECK(of.is_of_write());
  of.learn(said(1), 6, kNow);
  CHECK(of.is_of_write());
  SUBCASE("another state") {
    of.learn(said(2), 7, kNow);
  }
  SUBCASE("it was stale") {
    of.valid_from(7);
    of.learn(said(1), 7, kNow);
  }
  CHECK_FALSE(of.is_of_write());
}

TEST_CASE("F2 known attributes: own changes, by writing and otherwise") {
  KnownAttributes of;
  of.changed(5);
  CHECK_FALSE(of.altered_since(0));
  CHECK(of.changed_since(4));
  CHECK_FALSE(of.changed_since(5));
  const auto one = of.begin_altering(6);
  CHECK(of.altered_since(6));
  CHECK(of.is_last_altering(one));
  const auto two = of.begin_altering(7);
  CHECK_FALSE(of.is_last_altering(one));
  CHECK_FALSE(of.is_last_altering(two));
  of.end_altering(8);
  CHECK_FALSE(of.is_last_altering(one));  // the other began later
  CHECK(of.is_last_altering(two));
  of.end_altering(9);
  CHECK_FALSE(of.is_being_altered());
  CHECK(of.altered_since(8));
  CHECK_FALSE(of.altered_since(9));
  CHECK(of.last_change() == 9);
}

TEST_CASE("F2 known attributes: the kernel believes in one state, or in none") {
  KnownAttributes of;
  of.tell_state(1, true, 0);
  CHECK(of.is_sent_to_kernel(1));
  of.tell_state(2, true, 0);  // which of the two it believes is not known
  CHECK_FALSE(of.is_sent_to_kernel(1));
  CHECK_FALSE(of.is_sent_to_kernel(2));
  of.tell_state(2, true, 0);
  CHECK(of.is_sent_to_kernel(2));
  of.tell_state(2, false, 0);
  CHECK_FALSE(of.is_sent_to_kernel(2));
}

TEST_CASE(
    "F2 known attributes: the kernel ignores an answer that it asked for before it was sent something else") {
  KnownAttributes of;
  of.kernel_changes(5);
  of.tell_state(1, true, 4);
  CHECK_FALSE(of.is_sent_to_kernel(1));
  of.tell_state(1, true, 5);
  CHECK(of.is_sent_to_kernel(1));
}

TEST_CASE(
    "F2 known attributes: what the kernel has cached is of the state of its last open, or of what was "
    "saved") {
  KnownAttributes of;
  CHECK_FALSE(of.cache(1));
  CHECK(of.cache(1));
  CHECK_FALSE(of.cache(2));
  of.changed(5);
  CHECK_FALSE(of.is_saved());
  of.saved(3, false);
  CHECK(of.is_saved());
  CHECK(of.cache(3));
  of.cache(std::nullopt);
  of.saved(4, true);  // data was lost before
  CHECK_FALSE(of.is_cached());
  CHECK_FALSE(of.cache(std::nullopt));
}

}  // namespace nfsrdma::fs
