// Small messages of an iWARP stream, which are laid out as they are posted and taken in one step (post_copy(),
// take_whole()): the same as the long way in everything that a peer or an owner can see.
#include <doctest/doctest.h>

#include <cstring>

#include "unit/fabric/iwarp/pair.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::iwarp;
using namespace nfsrdma::fabric::iwarp::testing;

namespace {

constexpr std::size_t kMulpdu = 1442;

Stream::Config settings(bool crc) {
  return stream_config(crc, kMulpdu);
}

/// What `end` has for the wire, however it was posted.
std::vector<std::byte> posted(bool copied, bool crc, const std::vector<std::vector<std::byte>>& messages) {
  End end(1, settings(crc));
  for (const auto& message : messages) {
    const ConstBytes pieces[] = {message};
    if (copied) {
      CHECK(end.stream.post_copy(message));
    } else {
      end.stream.post_send({.cookie = 1, .pieces = pieces, .invalidate = {}, .solicited = false});
    }
  }
  return end.take_all();
}

}  // namespace

TEST_CASE("small: copied Sends are on the wire what posted ones are") {
  const std::vector<std::vector<std::byte>> messages{noise(0, 1), noise(1, 2), noise(200, 3), noise(201, 4),
                                                     noise(kMulpdu - ddp_untagged_size, 5)};
  for (const bool crc : {false, true}) {
    const auto wire = posted(true, crc, messages);
    CHECK(!wire.empty());
    CHECK(wire == posted(false, crc, messages));
  }
}

TEST_CASE("small: what does not fit one FPDU, or comes before the handshake's end, is for post_send()") {
  End end(1, settings(false));
  CHECK_FALSE(end.stream.post_copy(noise(kMulpdu - ddp_untagged_size + 1, 1)));
  CHECK(end.take_all().empty());
  Stream early(end, [] { return 1U; });
  CHECK_FALSE(early.post_copy(noise(10, 1)));
  CHECK_FALSE(early.wants_to_send());
}

TEST_CASE("small: copied and posted messages, Writes and Reads arrive in their order, in every cut") {
  for (const bool crc : {false, true}) {
    for (const std::size_t most : {std::size_t{1}, std::size_t{9}, std::size_t{300}, std::size_t{5000}}) {
      CAPTURE(crc);
      CAPTURE(most);
      std::mt19937 random(static_cast<unsigned>(most));
      End a(11, settings(crc));
      End b(22, settings(crc));
      b.receives(64, 4096);
      auto source = noise(3000, 4);
      const auto readable = b.stream.expose(source, Reach::remote_read);
      std::vector<std::vector<std::byte>> sent;
      std::vector<std::vector<std::byte>> targets;
      std::vector<std::vector<std::byte>> lasting;  // what post_send() is given stays until it is done
      std::vector<std::byte> fetched(3000);
      lasting.reserve(64);
      targets.reserve(64);
      std::size_t expected_completions = 0;
      for (unsigned i = 0; i < 40; ++i) {
        sent.push_back(noise(random() % 300, i));
        switch (random() % 4) {
          case 0: {
            targets.emplace_back(1 + random() % 2000);
            lasting.push_back(noise(targets.back().size(), 100 + i));
            const auto to = b.stream.expose(targets.back(), Reach::remote_write);
            a.stream.post_rdma_write(lasting.back(), to[0], 1000 + i);
            ++expected_completions;
            [[fallthrough]];
          }
          case 1: {
            auto message = sent.back();
            CHECK(a.stream.post_copy(message));
            std::ranges::fill(message, std::byte{0xee});  // it is the caller's again
            break;
          }
          default:
            lasting.push_back(sent.back());
            a.send(lasting.back(), 2 * i);
            ++expected_completions;
        }
        if (i == 20) a.stream.post_rdma_read(fetched, readable[0], 5000);
        // Between one message and the next some of it leaves, or not.
        if (random() % 3 == 0) carry(a, b, random, most);
      }
      carry(a, b, random, most);
      REQUIRE_FALSE(a.stream.failure());
      REQUIRE_FALSE(b.stream.failure());
      REQUIRE(b.messages.size() == sent.size());
      for (std::size_t i = 0; i < sent.size(); ++i) CHECK(b.messages[i].bytes == sent[i]);
      for (const auto& target : targets) {
        CHECK(std::ranges::any_of(lasting, [&](const auto& one) { return one == target; }));
      }
      CHECK(fetched == source);
      CHECK(a.completed.size() == expected_completions + 1);
      CHECK_FALSE(a.stream.wants_to_send());
    }
  }
}

TEST_CASE("small: a stream that fails in the middle of copied Sends ends the FPDU under way, and says why") {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{30}, fpdu_size(18 + 100),
                                fpdu_size(18 + 100) + 50, 2 * fpdu_size(18 + 100)}) {
    CAPTURE(cut);
    End a(1, settings(false));
    End b(2, settings(false));
    b.receives(8, 200);
    for (unsigned i = 0; i < 4; ++i) CHECK(a.stream.post_copy(noise(100, i)));
    std::vector<std::byte> wire = cut == 0 ? std::vector<std::byte>() : a.take(cut);
    a.give_all(fpdu(tagged(Opcode::rdma_write, 0x01010101, 0, true), noise(10, 1)));  // to nowhere
    REQUIRE(a.stream.failure());
    const auto rest = a.take_all();
    wire.insert(wire.end(), rest.begin(), rest.end());
    b.give_all(wire);
    CHECK(b.messages.size() == (cut + fpdu_size(18 + 100) - 1) / fpdu_size(18 + 100));
    REQUIRE(b.stream.failure());
    CHECK(b.stream.failure()->message().find("Terminate") != std::string::npos);
    CHECK(a.stream.post_copy(noise(10, 1)));  // goes nowhere, as with post_send()
    CHECK(a.take_all().empty());
  }
}

TEST_CASE("small: taken in one step or octet by octet, the same comes of it") {
  const auto data = noise(500, 1);
  const auto hello = noise(90, 2);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{13}, SIZE_MAX}) {
    CAPTURE(cut);
    End b(2, settings(false));
    b.receives(8, 200);
    std::vector<std::byte> whole(500), larger(600);
    const auto to_whole = b.stream.expose(whole, Reach::remote_write).front();
    const auto to_larger = b.stream.expose(larger, Reach::remote_write).front();
    CHECK(b.stream.awaited() == 1100);
    std::vector<std::byte> wire;
    const auto add = [&wire](const std::vector<std::byte>& one) {
      wire.insert(wire.end(), one.begin(), one.end());
    };
    add(fpdu(tagged(Opcode::rdma_write, to_whole.handle, 0, true), data));
    add(fpdu(untagged(Opcode::send, 0, 1), hello));
    add(fpdu(tagged(Opcode::rdma_write, to_larger.handle, 0, true), data));
    add(fpdu(untagged(Opcode::send_solicited, 0, 2), {}));
    add(fpdu(untagged(Opcode::send, 0, 3, 0, false), hello));
    add(fpdu(untagged(Opcode::send, 0, 3, 90, true), hello));
    add(fpdu(untagged(Opcode::send_invalidate, 0, 4, 0, true, to_larger.handle), hello));
    ConstBytes rest(wire);
    while (!rest.empty()) rest = rest.subspan(b.give(rest, cut));
    REQUIRE_FALSE(b.stream.failure());
    CHECK(whole == data);
    CHECK(std::ranges::equal(std::span(larger).first(500), data));
    CHECK(b.stream.awaited() == 0);
    REQUIRE(b.messages.size() == 4);
    CHECK(b.messages[0].bytes == hello);
    CHECK(b.messages[1].bytes.empty());
    CHECK(b.messages[2].bytes.size() == 180);
    CHECK(b.messages[3].invalidated == to_larger.handle);
    CHECK_FALSE(b.stream.mid_message());
  }
}

TEST_CASE("small: with CRC, a whole FPDU whose CRC is wrong is not taken, and its bytes come to nobody") {
  struct Kind {
    const char* name;
    Opcode opcode;
  };
  const auto data = noise(64, 1);
  for (const Kind& kind : {Kind{"a Send", Opcode::send}, Kind{"a solicited Send", Opcode::send_solicited},
                           Kind{"a Write that fills its region", Opcode::rdma_write}}) {
    CAPTURE(kind.name);
    // Counted from the end: no octet, one of the CRC, one of the payload.
    for (const std::size_t wrong : {std::size_t{0}, std::size_t{1}, std::size_t{10}}) {
      CAPTURE(wrong);
      End b(2, settings(true));
      b.receives(1, 200);
      std::vector<std::byte> memory(data.size());
      const auto handle = b.stream.expose(memory, Reach::remote_write).front().handle;
      const bool writes = kind.opcode == Opcode::rdma_write;
      auto wire =
          fpdu(writes ? tagged(kind.opcode, handle, 0, true) : untagged(kind.opcode, 0, 1), data, true);
      if (wrong != 0) wire[wire.size() - wrong] ^= std::byte{0x10};
      b.give_all(wire);
      if (wrong == 0) {
        CHECK_FALSE(b.stream.failure());
        CHECK((writes ? memory : b.messages.at(0).bytes) == data);
      } else {
        REQUIRE(b.stream.failure());
        CHECK(b.stream.failure()->message().find("MPA: CRC error") != std::string::npos);
        CHECK(b.messages.empty());
      }
    }
  }
}

TEST_CASE("small: a whole Send in the middle of another one is a fault, and is not taken") {
  End b(2, settings(false));
  b.receives(2, 200);
  b.give_all(fpdu(untagged(Opcode::send, 0, 1, 0, false), noise(10, 1)));
  b.give_all(fpdu(untagged(Opcode::send, 0, 1), noise(20, 2)));
  REQUIRE(b.stream.failure());
  CHECK(b.stream.failure()->message().find("message offset 0 where 10 was due") != std::string::npos);
  CHECK(b.messages.empty());
}

TEST_CASE("small: a Write for memory that was given up, or that is only to be read, is not placed") {
  End b(2, settings(false));
  std::vector<std::byte> memory(100, std::byte{1});
  const auto abandoned = b.stream.expose(memory, Reach::remote_write).front();
  b.stream.abandon(abandoned.handle);
  b.give_all(fpdu(tagged(Opcode::rdma_write, abandoned.handle, 0, true), noise(100, 1)));
  CHECK_FALSE(b.stream.failure());
  const auto readable = b.stream.expose(memory, Reach::remote_read).front();
  b.give_all(fpdu(tagged(Opcode::rdma_write, readable.handle, 0, true), noise(100, 1)));
  CHECK(b.stream.failure());
  CHECK(std::ranges::all_of(memory, [](std::byte one) { return one == std::byte{1}; }));
}
