#include "fs/numbering.h"

#include <doctest/doctest.h>

#include <set>

namespace nfsrdma::fs {
namespace {

Attributes of(std::uint64_t major, std::uint64_t minor, std::uint64_t id) {
  Attributes out;
  out.type = FileType::regular;
  out.filesystem_major = major;
  out.filesystem_minor = minor;
  out.file_id = id;
  return out;
}

}  // namespace

TEST_CASE("F15 files of several file systems below one mount have numbers that differ") {
  const Attributes root = of(7, 8, 2);
  Numbering numbering(root);
  CHECK(numbering.numbered(of(7, 8, 1234)).file_id == 1234);
  // The upper 16 bits of each file system are its own: whatever stands in the lower 48 cannot collide.
  std::set<std::uint64_t> prefixes{0};
  constexpr std::uint64_t kFilesystems = 3000;
  constexpr std::uint64_t kLargest = (1ULL << 48U) - 1;
  for (std::uint64_t i = 1; i <= kFilesystems; ++i) {
    const std::uint64_t major = i * i * 0x10001 + 11, minor = i * 7919;
    const std::uint64_t low = numbering.numbered(of(major, minor, 0)).file_id;
    const std::uint64_t high = numbering.numbered(of(major, minor, kLargest)).file_id;
    CHECK((low >> 48U) == (high >> 48U));
    prefixes.insert(low >> 48U);
  }
  CHECK(prefixes.size() == kFilesystems + 1);
}

TEST_CASE("F15 a file's number stays what it is, in this mount and after it") {
  const Attributes root = of(7, 8, 2);
  Numbering numbering(root), after(root);
  const std::uint64_t number = numbering.numbered(of(1, 2, 3)).file_id;
  (void)numbering.numbered(of(2, 3, 3));
  CHECK(numbering.numbered(of(1, 2, 3)).file_id == number);
  CHECK(after.numbered(of(1, 2, 3)).file_id == number);
}

TEST_CASE("F15 what has no file system keeps the server's number") {
  Numbering numbering(of(7, 8, 2)), rootless(std::nullopt);
  Attributes brief = of(0, 0, 5);
  brief.type = FileType::unknown;
  CHECK(numbering.numbered(brief).file_id == 5);
  CHECK(rootless.numbered(of(1, 2, 5)).file_id == 5);
}

}  // namespace nfsrdma::fs
