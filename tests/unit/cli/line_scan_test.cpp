// Lines counted from either end of a file, across the borders of blocks.
#include "cli/line_scan.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace nfsrdma::cli {
namespace {

ReadAt reader_of(const std::string& text) {
  return [&text](std::uint64_t offset, std::size_t count) -> Result<std::string> {
    return offset >= text.size() ? std::string() : text.substr(offset, count);
  };
}

std::string last_lines(const std::string& text, std::uint64_t lines) {
  const auto start = start_of_last_lines(reader_of(text), text.size(), lines);
  return start ? text.substr(*start) : "failed";
}

std::string first_lines(const std::string& text, std::uint64_t lines) {
  const auto end = end_of_first_lines(reader_of(text), text.size(), lines);
  return end ? text.substr(0, *end) : "failed";
}

}  // namespace

TEST_CASE("line scan: the last lines, with and without a newline at the end") {
  CHECK(last_lines("a\nb\nc\n", 1) == "c\n");
  CHECK(last_lines("a\nb\nc\n", 2) == "b\nc\n");
  CHECK(last_lines("a\nb\nc", 1) == "c");
  CHECK(last_lines("a\nb\nc", 3) == "a\nb\nc");
  CHECK(last_lines("a\nb\nc", 99) == "a\nb\nc");
  CHECK(last_lines("\n\n\n", 2) == "\n\n");
  CHECK(last_lines("a\n", 0).empty());
  CHECK(last_lines("", 5).empty());
}

TEST_CASE("line scan: the first lines") {
  CHECK(first_lines("a\nb\nc\n", 1) == "a\n");
  CHECK(first_lines("a\nb\nc", 2) == "a\nb\n");
  CHECK(first_lines("a\nb\nc", 3) == "a\nb\nc");
  CHECK(first_lines("a\nb", 0).empty());
  CHECK(first_lines("", 1).empty());
}

TEST_CASE("line scan: a line that is longer than a block, and newlines at the borders of blocks") {
  constexpr std::size_t block = 64 * 1024;
  for (const std::size_t length : {block - 2, block - 1, block, block + 1, 3 * block}) {
    CAPTURE(length);
    const std::string line = std::string(length, 'x') + "\n";
    CHECK((last_lines(line + line + line, 2) == line + line));
    CHECK((first_lines(line + line + line, 2) == line + line));
  }
}

TEST_CASE("line scan: a failure to read ends the search, and a file that has become shorter does, too") {
  const ReadAt failing = [](std::uint64_t, std::size_t) -> Result<std::string> {
    return Error(ErrorKind::server, EIO, "READ", "f", "input/output error");
  };
  CHECK_FALSE(start_of_last_lines(failing, 10, 1));
  CHECK_FALSE(end_of_first_lines(failing, 10, 1));
  const std::string text = "abc";
  const auto end = end_of_first_lines(reader_of(text), 1'000'000'000'000, 1);
  REQUIRE(end);
  CHECK(*end == 1'000'000'000'000);
}

}  // namespace nfsrdma::cli
