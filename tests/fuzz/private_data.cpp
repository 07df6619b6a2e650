// RFC 8797 private data from any bytes. The input is what a peer's connection manager delivered.
//
// What is found stands in the input octet by octet, reserved flags aside, and what is agreed on lies within both sides' sizes.
#include "rpcrdma/private_data.h"

#include <algorithm>

#include "fuzz.h"

using namespace nfsrdma;
using namespace nfsrdma::rpcrdma;

namespace {

/// Whether `octets`, which have no reserved flags, are the message.
bool says(fuzz::ConstOctets message, fuzz::ConstOctets octets) {
  constexpr std::size_t kFlags = 5;
  return std::ranges::equal(message.first(kFlags), octets.first(kFlags)) &&
         (message[kFlags] & octets[kFlags]) == octets[kFlags] &&
         std::ranges::equal(message.subspan(kFlags + 1), octets.subspan(kFlags + 1));
}

bool has(fuzz::ConstOctets received, fuzz::ConstOctets octets) {
  for (std::size_t at = 0; at + octets.size() <= received.size(); ++at) {
    if (says(received.subspan(at, octets.size()), octets)) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ConstOctets received = fuzz::Script(data, size, 1024).rest();
  const std::optional<PrivateData> peer = find_private_data(received);
  if (peer) {
    const auto octets = encode(*peer);
    FUZZ_CHECK(has(received, octets));
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
