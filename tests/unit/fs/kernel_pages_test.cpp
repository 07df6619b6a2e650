#include "fs/kernel_pages.h"

#include <doctest/doctest.h>

#include "support/virtual_world.h"

namespace nfsrdma::fs {
namespace {
struct Pages {
  testing::VirtualWorld world;
  async::Loop loop{world};
  async::Event settled{loop};
  KernelPages pages{settled};
  /// The kernel is asked to drop pages, and has done it.
  void drop(std::uint64_t offset) { const auto dropping = pages.dropping(offset); }
};
}  // namespace

TEST_CASE("F13 kernel pages: those that were dropped are gone, those in front of them stay") {
  constexpr std::uint64_t kPage = KernelPages::kPage;
  Pages m;
  KernelPages& pages = m.pages;
  CHECK_FALSE(pages.any());
  CHECK_FALSE(pages.any_from(0));
  pages.put(3 * kPage);
  pages.put(kPage);
  CHECK(pages.any());
  CHECK(pages.any_from(3 * kPage - 1));
  CHECK_FALSE(pages.any_from(3 * kPage));
  m.drop(2 * kPage + 1);  // the page of it, too
  CHECK_FALSE(pages.any_from(2 * kPage));
  CHECK(pages.any_from(2 * kPage - 1));
  m.drop(5 * kPage);
  CHECK(pages.any());
  SUBCASE("one is being read, and may come behind the drop") {
    pages.begin_read(kPage);
    CHECK(pages.reading() == 1);
    CHECK(pages.reads() == 1);
    m.drop(0);
    CHECK(pages.any());
    pages.end_read();
    CHECK(pages.reading() == 0);
    CHECK(pages.reads() == 1);
  }
  SUBCASE("a range is dropped, and what lies behind it stays") {
    {
      const auto dropping = pages.dropping(0, kPage);
      CHECK(pages.is_changing());
    }
    CHECK(pages.any_from(kPage));
  }
  SUBCASE("none is being read") {}
  m.drop(0);
  CHECK_FALSE(pages.any());
}

TEST_CASE("F30 kernel pages: the size that the kernel surely knows falls with whatever may have cut it") {
  Pages m;
  KernelPages& pages = m.pages;
  CHECK(pages.known_size() == 0);
  pages.reaches(100);
  pages.reaches(50);
  CHECK(pages.known_size() == 100);
  pages.may_end_at(200);
  CHECK(pages.known_size() == 100);
  pages.may_end_at(30);
  CHECK(pages.known_size() == 30);
}

TEST_CASE("F30 kernel pages: a change is under way until the kernel has made it") {
  constexpr std::uint64_t kPage = KernelPages::kPage;
  Pages m;
  m.pages.put(kPage);
  {
    const auto dropping = m.pages.dropping(0);
    CHECK_FALSE(m.pages.any());
    CHECK(m.pages.may_hold_stores());  // the kernel may not have written them back yet
    const auto lengthening = m.pages.lengthening(100);
    CHECK(m.pages.is_dropping());
  }
  CHECK_FALSE(m.pages.may_hold_stores());
  CHECK(m.pages.known_size() == 100);
  CHECK_FALSE(m.pages.is_changing());
  CHECK_FALSE(m.pages.any());
}

}  // namespace nfsrdma::fs
