// The private data of connection setup (RFC 8797).
#include "rpcrdma/private_data.h"
#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

Octets encoded(const PrivateData& data) {
  const auto array = encode(data);
  return {array.begin(), array.end()};
}

const Octets kGood = octets({0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7});

}  // namespace

TEST_CASE("P1 the message is eight octets, sizes as bytes/1024 - 1") {
  CHECK(encoded({false, 4096, 4096}) == octets({0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3}));
  CHECK(encoded({true, 1024, 262144}) == octets({0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 255}));
  // What an octet cannot say is rounded down to what it can.
  CHECK(encoded({true, 5000, 1 << 20}) == octets({0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 255}));
  Config config;
  config.send_size = 8192;
  config.receive_size = 16384;
  CHECK(Driver(config).requester.private_data() == octets({0xf6, 0xab, 0x0e, 0x18, 1, 0, 7, 15}));
  config.announce = false;
  CHECK(Driver(config).requester.private_data().empty());
}

TEST_CASE("P2 the identifier is found at any offset, whatever is in front") {
  for (std::size_t offset = 0; offset < 48; ++offset) {
    Octets data = pattern(offset, 200);
    append(data, kGood);
    const auto found = find_private_data(data);
    REQUIRE(found);
    CHECK(*found == PrivateData{true, 4096, 8192});
    append(data, pattern(5));  // and whatever follows
    CHECK(find_private_data(data) == found);
  }
  CHECK_FALSE(find_private_data({}));
  CHECK_FALSE(find_private_data(pattern(100)));
}

TEST_CASE("P3 reserved flags are ignored") {
  for (const unsigned reserved : {0x02U, 0x80U, 0xfeU}) {
    CAPTURE(reserved);
    Octets data = kGood;
    data[5] |= static_cast<std::byte>(reserved);
    CHECK(find_private_data(data) == find_private_data(kGood));
    data[5] &= ~std::byte{1};
    const auto without = find_private_data(data);
    REQUIRE(without);
    CHECK_FALSE(without->remote_invalidation);
  }
}

TEST_CASE("P3 another version, or a message cut short count as nothing") {
  Octets data = kGood;
  SUBCASE("version 0") {
    data[4] = std::byte{0};
  }
  SUBCASE("version 2") {
    data[4] = std::byte{2};
  }
  SUBCASE("cut short by one") {
    data.resize(7);
  }
  SUBCASE("only the identifier") {
    data.resize(4);
  }
  SUBCASE("not even that") {
    data.resize(3);
  }
  CHECK_FALSE(find_private_data(data));
  Config config;
  config.remote_invalidation = true;
  Driver driver(config);
  driver.requester.connect(driver.now);
  driver.run();
  driver.connect_with(data);
  CHECK_FALSE(driver.requester.facts().private_data_seen);
  CHECK(driver.requester.facts().call_threshold == 1024);
  CHECK(driver.requester.facts().reply_threshold == 1024);
  CHECK_FALSE(driver.requester.facts().remote_invalidation);
}

TEST_CASE("P4 each threshold is the smaller of the sender's and the receiver's size") {
  Config config;
  config.send_size = 8192;
  config.receive_size = 4096;
  const auto thresholds = [&](std::uint32_t peer_sends, std::uint32_t peer_receives) {
    Driver driver(config);
    driver.establish(8, sizes(peer_sends, peer_receives));
    CHECK(driver.requester.facts().private_data_seen);
    return std::pair(driver.requester.facts().call_threshold, driver.requester.facts().reply_threshold);
  };
  CHECK(thresholds(65536, 65536) == std::pair(8192U, 4096U));
  CHECK(thresholds(2048, 65536) == std::pair(8192U, 2048U));
  CHECK(thresholds(65536, 2048) == std::pair(2048U, 4096U));
  CHECK(thresholds(1024, 1024) == std::pair(1024U, 1024U));
}

TEST_CASE("P4 a peer that was told nothing takes us for one of 1024 bytes") {
  Config config;
  config.announce = false;
  Driver driver(config);
  driver.establish(8, sizes(4096, 4096));
  CHECK(driver.requester.facts().reply_threshold == 1024);
}

TEST_CASE("P5 every connection negotiates anew, and Calls are marshalled anew for it") {
  Config config;
  config.send_size = config.receive_size = 4096;
  Driver driver(config);
  driver.establish(8, sizes(4096, 4096));
  const Octets data = pattern(1200);
  const auto make = [&] {
    Call call = write_call(200, data, 20);
    call.reply_max_inline = call.reply_max_reduced = 2000;
    return call;
  };
  driver.submit(make());
  CallView call = driver.take_sent();
  CHECK(call.header.rdma_reads.empty());
  CHECK_FALSE(call.header.has_rdma_reply);
  SUBCASE("the values shrink") {
    driver.disconnect();
    driver.connect(sizes(1024, 1024));
    call = driver.take_sent();
    CHECK(call.header.rdma_reads.size() == 1);
    CHECK(call.header.has_rdma_reply);
  }
  SUBCASE("the message disappears") {
    driver.disconnect();
    driver.connect();
    call = driver.take_sent();
    CHECK(call.header.rdma_reads.size() == 1);
    CHECK(call.header.has_rdma_reply);
    CHECK_FALSE(driver.requester.facts().private_data_seen);
  }
  SUBCASE("one value shrinks below what a Long Call was not needed for") {
    driver.disconnect();
    driver.connect(sizes(4096, 1024));
    call = driver.take_sent();
    CHECK(call.header.rdma_reads.size() == 1);
    CHECK_FALSE(call.header.has_rdma_reply);
  }
  driver.reply(ReplyMaker(call));
  CHECK(driver.take_completed().failure == Failure::none);
}

TEST_CASE("P7 what is announced leaves room for the layers below") {
  // 56 octets are InfiniBand's, and enhanced MPA needs four of its own in front.
  CHECK(Driver().requester.private_data().size() + 4 <= 56);
  CHECK(Driver().requester.private_data().size() == 8);
}

}  // namespace nfsrdma::rpcrdma::testing
