// READ_PLUS results of every shape, put together (RFC 7862 15.10).
#include "nfs4/read_plus.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

constexpr std::uint64_t kOffset = 1000;

struct Put {
  std::string data = std::string(20, '?');
  std::size_t count = 0;
  bool sound = false;
};

read_plus_content some_data(std::uint64_t at, const std::string& text) {
  return read_plus_content::of<NFS4_CONTENT_DATA>(
      data4{kOffset + at, {std::as_bytes(std::span(text.data(), text.size()))}});
}
read_plus_content hole(std::uint64_t at, std::uint64_t length) {
  return read_plus_content::of<NFS4_CONTENT_HOLE>(data_info4{at, length});
}

/// Zeros show as '0'.
Put put(std::vector<read_plus_content> contents) {
  read_plus_res4 result;
  result.rpr_contents.value = std::move(contents);
  Put out;
  out.sound = put_together(result, std::as_writable_bytes(std::span(out.data)), kOffset, out.count);
  for (char& c : out.data) c = c == '\0' ? '0' : c;
  return out;
}

}  // namespace

TEST_CASE("read_plus: data and holes stand where they belong") {
  const std::string text = "abcde";
  const Put both = put({some_data(0, text), hole(kOffset + 5, 4)});
  CHECK(both.sound);
  CHECK(both.count == 9);
  CHECK(both.data == "abcde0000???????????");
  const Put other = put({hole(kOffset, 4), some_data(4, text)});
  CHECK(other.sound);
  CHECK(other.count == 9);
  CHECK(other.data == "0000abcde???????????");
}

TEST_CASE("read_plus: data that was placed at the beginning is moved behind the hole") {
  read_plus_res4 result;
  std::string data = "abcde" + std::string(15, '?');
  const auto bytes = std::as_writable_bytes(std::span(data));
  result.rpr_contents.value = {
      hole(kOffset, 3), read_plus_content::of<NFS4_CONTENT_DATA>(data4{kOffset + 3, {bytes.first(5)}})};
  std::size_t count = 0;
  REQUIRE(put_together(result, bytes, kOffset, count));
  CHECK(count == 8);
  CHECK(data == std::string(3, '\0') + "abcde" + std::string(12, '?'));
}

TEST_CASE("read_plus: a hole may reach over both ends of what was asked for") {
  const Put all = put({hole(0, 5000)});
  CHECK(all.sound);
  CHECK(all.count == 20);
  CHECK(all.data == std::string(20, '0'));
}

TEST_CASE("read_plus: a hole that reaches back over data leaves the data alone") {
  const std::string text = "abcde";
  for (const std::uint64_t begin : {kOffset - 7, kOffset, kOffset + 4}) {
    CAPTURE(begin);
    const Put both = put({some_data(0, text), hole(begin, kOffset + 8 - begin)});
    CHECK(both.sound);
    CHECK(both.count == 8);
    CHECK(both.data == "abcde000????????????");
  }
}

TEST_CASE("read_plus: what contradicts itself is refused") {
  const std::string text = "abcde", long_text(21, 'x');
  CHECK_FALSE(put({some_data(1, text)}).sound);                        // a gap at the beginning
  CHECK_FALSE(put({some_data(0, text), hole(kOffset + 6, 4)}).sound);  // a gap in between
  CHECK_FALSE(put({some_data(0, text), some_data(4, text)}).sound);    // data over data
  CHECK_FALSE(put({some_data(0, text), hole(kOffset, 4)}).sound);      // a hole that brings nothing
  CHECK_FALSE(put({some_data(0, long_text)}).sound);                   // more than was asked for
  CHECK_FALSE(put({hole(kOffset, ~std::uint64_t{0})}).sound);          // wraps
  CHECK_FALSE(put({hole(kOffset, 20), some_data(20, text)}).sound);    // behind the end
  CHECK(put({}).sound);
}
