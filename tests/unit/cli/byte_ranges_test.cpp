// Ranges as users write them, and the bytes that they stand for.
#include "cli/byte_ranges.h"

#include <doctest/doctest.h>

#include <string>

namespace nfsrdma::cli {
namespace {

/// "BEGIN-END" of each range in a file of this size; "none" for one behind its end.
std::string resolved(std::string_view text, std::uint64_t size) {
  const auto ranges = parse_ranges(text);
  if (!ranges) return "malformed";
  std::string out;
  for (const ByteRange& one : *ranges) {
    const auto span = resolve(one, size);
    out += (out.empty() ? "" : " ") +
           (span ? std::to_string(span->begin) + "-" + std::to_string(span->end) : std::string("none"));
  }
  return out;
}

}  // namespace

TEST_CASE("byte ranges: as curl -r has them, with both ends included") {
  CHECK(resolved("0-499", 1000) == "0-500");
  CHECK(resolved("500-", 1000) == "500-1000");
  CHECK(resolved("-500", 1000) == "500-1000");
  CHECK(resolved("0-0,-1", 1000) == "0-1 999-1000");
  CHECK(resolved("999-2000", 1000) == "999-1000");
  CHECK(resolved("-2000", 1000) == "0-1000");
  CHECK(resolved("0-18446744073709551615", 7) == "0-7");
  CHECK(resolved("-1", 0) == "0-0");
}

TEST_CASE("byte ranges: a range behind the end stands for nothing, and is no empty one") {
  CHECK(resolved("1000-", 1000) == "none");
  CHECK(resolved("5000-6000,0-", 1000) == "none 0-1000");
  CHECK(resolved("0-", 0) == "none");
}

TEST_CASE("byte ranges: what is no range is refused") {
  for (const char* text : {"", "-", "5", "x-", "5-4", "-0", "1-2-3", "1-2,", ",1-2", " 1-2", "+1-2", "0x1-",
                           "18446744073709551616-", "1-2;3-4"}) {
    CAPTURE(text);
    CHECK(resolved(text, 100) == "malformed");
  }
}

}  // namespace nfsrdma::cli
