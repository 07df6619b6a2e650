// RFC 8797 private data from any bytes. The input is what a peer's connection manager delivered.
//
// What is found stands in the input octet by octet, and what is agreed on lies within both sides' sizes.
#include "rpcrdma/private_data.h"

#include <algorithm>

#include "fuzz.h"

using namespace nfsrdma;
using namespace nfsrdma::rpcrdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ConstOctets received = fuzz::Script(data, size, 1024).rest();
  const std::optional<PrivateData> peer = find_private_data(received);
  if (peer) {
    const auto octets = encode(*peer);
    FUZZ_CHECK(std::ranges::search(received, octets).begin() != received.end());
    FUZZ_CHECK(find_private_data(octets) == peer);
  }
  const std::optional<PrivateData> mine[] = {std::nullopt, PrivateData{true, 4096, 4096},
                                             PrivateData{false, 1, 1}, PrivateData{true, 1U << 20, 100000}};
  for (const auto& own : mine) {
    const Negotiated agreed = negotiate(own, peer);
    const PrivateData a = own.value_or(PrivateData{});
    const PrivateData b = peer.value_or(PrivateData{});
    FUZZ_CHECK(agreed.call_threshold >= kDefaultThreshold && agreed.reply_threshold >= kDefaultThreshold);
    FUZZ_CHECK(agreed.call_threshold <= b.receive_size && agreed.call_threshold <= sayable_size(a.send_size));
    FUZZ_CHECK(agreed.reply_threshold <= b.send_size &&
               agreed.reply_threshold <= sayable_size(a.receive_size));
    FUZZ_CHECK(!agreed.remote_invalidation || (a.remote_invalidation && b.remote_invalidation));
  }
  return 0;
}
