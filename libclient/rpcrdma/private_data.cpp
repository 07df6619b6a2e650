#include "rpcrdma/private_data.h"

#include <algorithm>

#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {
namespace {

constexpr std::byte kVersion{1};
constexpr std::byte kR{1};

std::byte size_octet(std::uint32_t bytes) {
  return static_cast<std::byte>(sayable_size(bytes) / kSizeUnit - 1);
}

std::uint32_t size_said(std::byte octet) {
  return (std::to_integer<std::uint32_t>(octet) + 1) * kSizeUnit;
}

}  // namespace

std::array<std::byte, kPrivateDataSize> encode(const PrivateData& data) {
  std::array<std::byte, kPrivateDataSize> out{};
  xdr::store_u32(out.data(), kFormatIdentifier);
  out[4] = kVersion;
  out[5] = data.remote_invalidation ? kR : std::byte{0};
  out[6] = size_octet(data.send_size);
  out[7] = size_octet(data.receive_size);
  return out;
}

std::optional<PrivateData> find_private_data(fabric::ConstBytes received) {
  std::array<std::byte, 4> identifier{};
  xdr::store_u32(identifier.data(), kFormatIdentifier);
  const auto found = std::ranges::search(received, identifier);  // RFC 8797 5.2: at any offset, unaligned
  const auto message = received.subspan(static_cast<std::size_t>(found.begin() - received.begin()));
  if (message.size() < kPrivateDataSize || message[4] != kVersion) return std::nullopt;
  // RFC 8797 4: a receiver ignores the reserved flags.
  return PrivateData{(message[5] & kR) == kR, size_said(message[6]), size_said(message[7])};
}

Negotiated negotiate(const std::optional<PrivateData>& mine, const std::optional<PrivateData>& peer) {
  // RFC 8797 5.1: a side that sends nothing is treated by its peer like one that sent zeros.
  const PrivateData own = mine.value_or(PrivateData{});
  const PrivateData other = peer.value_or(PrivateData{});
  return {std::min(sayable_size(own.send_size), other.receive_size),
          std::min(other.send_size, sayable_size(own.receive_size)),
          own.remote_invalidation && other.remote_invalidation};
}

}  // namespace nfsrdma::rpcrdma
