// READ_PLUS results of every shape, put together (RFC 7862 15.10).
#include "nfs4/files/read_plus.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

constexpr std::uint64_t kOffset = 1000;

struct Put {
  std::string data = std::string(20, '?');
  Filled filled;
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
  const auto filled = put_together(result, std::as_writable_bytes(std::span(out.data)), kOffset);
  out.sound = filled.has_value();
  if (filled) out.filled = *filled;
  for (char& c : out.data) c = c == '\0' ? '0' : c;
  return out;
}

}  // namespace

TEST_CASE("read_plus: data and holes stand where they belong") {
  const std::string text = "abcde";
  const Put both = put({some_data(0, text), hole(kOffset + 5, 4)});
  CHECK(both.sound);
  CHECK(both.filled.count == 9);
  CHECK(both.data == "abcde0000???????????");
  const Put other = put({hole(kOffset, 4), some_data(4, text)});
  CHECK(other.sound);
  CHECK(other.filled.count == 9);
  CHECK(other.data == "0000abcde???????????");
}

TEST_CASE("read_plus: data that was placed at the beginning is moved behind the hole") {
  read_plus_res4 result;
  std::string data = "abcde" + std::string(15, '?');
  const auto bytes = std::as_writable_bytes(std::span(data));
  result.rpr_contents.value = {
      hole(kOffset, 3), read_plus_content::of<NFS4_CONTENT_DATA>(data4{kOffset + 3, {bytes.first(5)}})};
  const auto filled = put_together(result, bytes, kOffset);
  REQUIRE(filled);
  CHECK(filled->count == 8);
  CHECK(filled->holes == 3);
  CHECK(filled->hole_ends == 0);
  CHECK(data == std::string(3, '\0') + "abcde" + std::string(12, '?'));
}

TEST_CASE("read_plus: a hole may reach over both ends of what was asked for") {
  const Put all = put({hole(0, 5000)});
  CHECK(all.sound);
  CHECK(all.filled.count == 20);
  CHECK(all.data == std::string(20, '0'));
}

TEST_CASE("read_plus: a hole that reaches back over data leaves the data alone") {
  const std::string text = "abcde";
  for (const std::uint64_t begin : {kOffset - 7, kOffset, kOffset + 4}) {
    CAPTURE(begin);
    const Put both = put({some_data(0, text), hole(begin, kOffset + 8 - begin)});
    CHECK(both.sound);
    CHECK(both.filled.count == 8);
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

TEST_CASE("read_plus: whatever is accepted has each byte from the first element that has it") {
  std::mt19937 random(20'250'101);
  const auto below = [&random](std::uint64_t bound) { return random() % bound; };
  unsigned accepted = 0, refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    // Mostly elements that follow each other; now and then one that overlaps, leaves a gap, or is empty.
    std::string texts[2];
    std::vector<read_plus_content> contents;
    std::uint64_t next = kOffset;
    const std::uint64_t elements = below(3);
    for (std::uint64_t i = 0; i < elements; ++i) {
      const std::uint64_t begin = next + (below(8) == 0 ? below(7) - 3 : 0);
      const std::uint64_t length = below(8) == 0 ? 0 : below(8) == 0 ? below(200) : below(15);
      if (below(2) == 0) {
        texts[i].resize(length);
        for (char& c : texts[i]) c = static_cast<char>('a' + below(26));
        contents.push_back(some_data(begin - kOffset, texts[i]));
      } else {
        contents.push_back(hole(below(8) == 0 ? begin - below(20) : begin, length));
      }
      next = begin + length;
    }
    // The first data has come by a Write chunk, or stands in the Reply as the others do.
    std::string memory(20, '?');
    const auto bytes = std::as_writable_bytes(std::span(memory));
    read_plus_res4 result;
    result.rpr_contents.value = contents;
    if (below(2) == 0) {
      for (read_plus_content& content : result.rpr_contents.value) {
        data4* const some = content.get<NFS4_CONTENT_DATA>();
        if (some == nullptr) continue;
        if (some->d_data.data.size() > bytes.size()) break;  // refused by the decoder
        std::ranges::copy(some->d_data.data, bytes.begin());
        some->d_data.data = bytes.first(some->d_data.data.size());
        break;
      }
    }
    const auto filled = put_together(result, bytes, kOffset);
    ++(filled ? accepted : refused);
    if (!filled) continue;
    for (std::size_t i = 0; i < filled->count; ++i) {
      const std::uint64_t at = kOffset + i;
      std::optional<char> expected;
      for (const read_plus_content& content : contents) {
        const data4* const some = content.get<NFS4_CONTENT_DATA>();
        const data_info4* const none = content.get<NFS4_CONTENT_HOLE>();
        if (expected) break;
        if (some != nullptr && at >= some->d_offset && at - some->d_offset < some->d_data.data.size())
          expected = static_cast<char>(some->d_data.data[at - some->d_offset]);
        if (none != nullptr && at >= none->di_offset && at - none->di_offset < none->di_length)
          expected = '\0';
      }
      if (expected != memory[i]) FAIL("round " << round << ", byte " << i);
    }
  }
  CHECK(accepted > 10'000);
  CHECK(refused > 5000);
}

TEST_CASE("read_plus: long runs of zeros are found, short ones are not") {
  std::vector<std::byte> data(200U << 10, std::byte{'x'});
  CHECK_FALSE(has_long_zeros(data));
  std::fill_n(data.begin() + 4096, 60U << 10, std::byte{0});
  CHECK_FALSE(has_long_zeros(data));
  std::fill_n(data.begin() + 4096, 64U << 10, std::byte{0});
  CHECK(has_long_zeros(data));
  CHECK_FALSE(has_long_zeros(std::span(data).first(60U << 10)));
  CHECK_FALSE(has_long_zeros({}));
}
