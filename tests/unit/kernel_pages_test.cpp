#include "fs/kernel_pages.h"

#include <doctest/doctest.h>

namespace nfsrdma::fs {

TEST_CASE("F13 kernel pages: those that were dropped are gone, those in front of them stay") {
  constexpr std::uint64_t kPage = KernelPages::kPage;
  KernelPages pages;
  CHECK_FALSE(pages.any());
  CHECK_FALSE(pages.any_from(0));
  pages.put(3 * kPage);
  pages.put(kPage);
  CHECK(pages.any());
  CHECK(pages.any_from(3 * kPage - 1));
  CHECK_FALSE(pages.any_from(3 * kPage));
  pages.begin_drop(2 * kPage + 1);  // the page of it, too
  CHECK_FALSE(pages.any_from(2 * kPage));
  CHECK(pages.any_from(2 * kPage - 1));
  pages.begin_drop(5 * kPage);
  CHECK(pages.any());
  SUBCASE("one is being read, and may come behind the drop") {
    pages.begin_read(kPage);
    CHECK(pages.reading() == 1);
    CHECK(pages.reads() == 1);
    pages.begin_drop(0);
    CHECK(pages.any());
    pages.end_read();
    CHECK(pages.reading() == 0);
    CHECK(pages.reads() == 1);
  }
  SUBCASE("none is being read") {}
  pages.begin_drop(0);
  CHECK_FALSE(pages.any());
}

TEST_CASE("F30 kernel pages: the size that the kernel surely knows falls with whatever may have cut it") {
  KernelPages pages;
  CHECK(pages.known_size() == 0);
  pages.reaches(100);
  pages.reaches(50);
  CHECK(pages.known_size() == 100);
  pages.may_end_at(200);
  CHECK(pages.known_size() == 100);
  pages.may_end_at(30);
  CHECK(pages.known_size() == 30);
}

}  // namespace nfsrdma::fs
