// The eight octets that peers exchange when they connect (RFC 8797), and the inline thresholds that follow.
//
//   f6 ab 0e 18   format identifier
//   01            version
//   01            flags: R, "my handles may be invalidated remotely"; the other seven are reserved and zero
//   03            send size, 4096 = (3 + 1) * 1024
//   03            receive size, likewise
//
// A peer that sends nothing, or something else, is one that knows RFC 8166 only: 1024 bytes each way and no
// remote invalidation (5.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabric/fabric.h"

namespace nfsrdma::rpcrdma {

inline constexpr std::uint32_t kFormatIdentifier = 0xf6ab0e18;
// RFC 8797 4.2: the largest size that the octet can express.
inline constexpr std::uint32_t kDefaultThreshold = 1024;
inline constexpr std::uint32_t kSizeUnit = 1024;
inline constexpr std::uint32_t kLargestSize = 256 * kSizeUnit;  // 8797 4.2: what the octet can say
inline constexpr std::size_t kPrivateDataSize = 4 + 1 + 1 + 1 + 1;
static_assert(kPrivateDataSize == 8 && kLargestSize == 262144);

// The private data shares its room with the layers below: InfiniBand leaves 56 octets of the request's, and
// enhanced MPA (RFC 6581) puts its IRD and ORD in front.
inline constexpr std::size_t kInfiniBandRoom = 56;
inline constexpr std::size_t kEnhancedMpa = 2 + 2;
static_assert(kEnhancedMpa + kPrivateDataSize <= kInfiniBandRoom);

struct PrivateData {
  bool remote_invalidation = false;
  std::uint32_t send_size = kDefaultThreshold;     ///< bytes: a multiple of 1024
  std::uint32_t receive_size = kDefaultThreshold;  ///< bytes: a multiple of 1024
  friend bool operator==(const PrivateData&, const PrivateData&) = default;
};

/// Returns the largest size that an octet can express and that is not over `bytes`; 1024 at least (RFC 8797
/// 4.2).
[[nodiscard]] constexpr std::uint32_t sayable_size(std::uint32_t bytes) {
  if (bytes < kSizeUnit) return kSizeUnit;
  if (bytes > kLargestSize) return kLargestSize;
  return bytes - bytes % kSizeUnit;
}

[[nodiscard]] std::array<std::byte, kPrivateDataSize> encode(const PrivateData& data);

/// Finds the message in the peer's private data, at any offset, because lower layers may put data in front of
/// it (RFC 8797 5.2).
[[nodiscard]] std::optional<PrivateData> find_private_data(fabric::ConstBytes received);

/// The limits of a connection after the exchange.
struct Negotiated {
  std::uint32_t call_threshold = kDefaultThreshold;
  std::uint32_t reply_threshold = kDefaultThreshold;
  bool remote_invalidation = false;
};
/// Computes the limits. `mine` is the message that we sent, nothing if we sent none; `peer` is the message
/// found.
[[nodiscard]] Negotiated negotiate(const std::optional<PrivateData>& mine,
                                   const std::optional<PrivateData>& peer);

}  // namespace nfsrdma::rpcrdma
