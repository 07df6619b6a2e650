// pcapng blocks: their bytes, and what a reader does with those of others, with ends and with lies.
#include "trace/format/pcapng.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace nfsrdma::trace {
namespace {

Octets raw(std::initializer_list<int> values) {
  Octets out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

/// A file with one packet of three bytes.
Octets file_with_packet(const std::string& comment = "hello") {
  Octets out;
  append_section(out, "test");
  append_interface(out, "if", "");
  const Octets bytes = raw({1, 2, 3});
  append_packet(out, {0x0102030405060708, bytes, 9, comment});
  return out;
}

/// The same blocks as a machine of the other byte order writes them: a section, an interface, a packet.
Octets big_endian_file() {
  return raw({0x0A, 0x0D, 0x0D, 0x0A, 0,    0,    0,    28, 0x1A, 0x2B, 0x3C, 0x4D, 0, 1,  0, 0, 0xff,
              0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,  0,    0,    28,   0,    0, 0,  1, 0, 0,
              0,    20,   0,    1,    0,    0,    0,    0,  0,    0,    0,    0,    0, 20, 0, 0, 0,
              6,    0,    0,    0,    36,   0,    0,    0,  0,    0,    0,    0,    0, 0,  0, 0, 5,
              0,    0,    0,    2,    0,    0,    0,    2,  7,    8,    0,    0,    0, 0,  0, 36});
}

}  // namespace

TEST_CASE("trace: the bytes of a section, an interface and a packet") {
  Octets out;
  append_section(out, "test");
  CHECK(out ==
        raw({0x0A, 0x0D, 0x0D, 0x0A, 40, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
             0xff, 0xff, 0xff, 0xff, 4,  0, 4, 0, 't',  'e',  's',  't',  0, 0, 0, 0, 40,   0,    0,    0}));
  out.clear();
  append_interface(out, "if", "");
  CHECK(out == raw({1,   0,   0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2,  0, 2, 0,
                    'i', 'f', 0, 0, 9,  0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0}));
  out.clear();
  const Octets bytes = raw({1, 2, 3});
  append_packet(out, {0x0102030405060708, bytes, 9, "hi"});
  CHECK(out == raw({6, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 4,   3,   2, 1, 8, 7, 6, 5, 3,  0, 0, 0,
                    9, 0, 0, 0, 1,  2, 3, 0, 1, 0, 2, 0, 'h', 'i', 0, 0, 0, 0, 0, 0, 48, 0, 0, 0}));
}

TEST_CASE("trace: a packet comes back as it was written, however its bytes arrive") {
  const Octets file = file_with_packet();
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}, file.size()}) {
    CAPTURE(step);
    BlockReader reader;
    unsigned packets = 0;
    for (std::size_t at = 0; at < file.size(); at += step) {
      reader.add(ConstBytes(file).subspan(at, std::min(step, file.size() - at)));
      while (const auto packet = reader.next()) {
        ++packets;
        CHECK(packet->time_ns == 0x0102030405060708);
        CHECK(std::ranges::equal(packet->bytes, raw({1, 2, 3})));
        CHECK(packet->original_size == 9);
        CHECK(packet->comment == "hello");
      }
    }
    CHECK(packets == 1);
    CHECK(reader.fault().empty());
    CHECK(reader.pending() == 0);
    CHECK(reader.position() == file.size());
  }
}

TEST_CASE("trace: a file of the other byte order, with times in microseconds") {
  BlockReader reader;
  reader.add(big_endian_file());
  const auto packet = reader.next();
  REQUIRE(packet);
  CHECK(packet->time_ns == 5000);
  CHECK(std::ranges::equal(packet->bytes, raw({7, 8})));
}

TEST_CASE("trace: a file that is cut gives what is complete, and says how much is left") {
  const Octets file = file_with_packet();
  BlockReader reader;
  reader.add(ConstBytes(file).first(file.size() - 1));
  CHECK_FALSE(reader.next());
  CHECK(reader.fault().empty());
  CHECK(reader.pending() > 0);
  reader.begin_file();
  reader.add(file);
  CHECK(reader.next());
  CHECK(reader.pending() == 0);
}

TEST_CASE("trace: a file that is no pcapng, and lengths that lie") {
  const auto fault_of = [](const Octets& bytes) {
    BlockReader reader;
    reader.add(bytes);
    CHECK_FALSE(reader.next());
    return reader.fault();
  };
  CHECK(fault_of(raw({'#', '!', '/', 'b', 'i', 'n', '/', 's'})) == "not a pcapng file");
  Octets file = file_with_packet();
  Octets huge = file;
  huge[40 + 4 + 3] = std::byte{0x7f};  // the length of the interface's block
  CHECK(fault_of(huge).find("impossible length") != std::string::npos);
  Octets other = file;
  other[40 + 40 - 4] = std::byte{44};  // its second one
  CHECK(fault_of(other).find("lengths differ") != std::string::npos);
  // A packet that claims more bytes than its block has is skipped.
  Octets lying = file;
  lying[80 + 8 + 12 + 1] = std::byte{0x10};
  CHECK(fault_of(lying).empty());
}

}  // namespace nfsrdma::trace
