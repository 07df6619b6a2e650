// DDP segment headers, and the fields that RDMAP puts into them (RFC 5041 section 4, RFC 5040 section 4).
//
// One FPDU carries one DDP segment. Its first two octets say which of two shapes follows:
//
//   octet 0: T (0x80) tagged | L (0x40) last | reserved | DDP version 1 (0x03)
//   octet 1: RDMAP version 1 (0xC0) | reserved | opcode (0x0f)
//
//   tagged (14):   octets 0-1, STag 4, TO 8                         goes straight to registered memory
//   untagged (18): octets 0-1, rsvdULP 4, QN 4, MSN 4, MO 4         goes to the queue's next posted buffer
//
// rsvdULP of a Send with Invalidate is the STag to invalidate; otherwise it is zero and not checked.
//
// Worked example, the FPDU of a 4-octet Send, the first on its connection, CRC off:
//
//   0016            ULPDU_Length: 18 + 4
//   41 43           untagged, last, DDP 1; RDMAP 1, opcode 3 (Send)
//   00000000        rsvdULP
//   00000000 00000001 00000000   QN 0, MSN 1, MO 0
//   deadbeef        payload
//                   no pad: 2 + 22 is a multiple of 4
//   00000000        CRC field, not used
//
// Encoding and decoding are total: a decoded header says what was on the wire, also when it is wrong, and the
// stream decides. They read no more than the sizes below.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/iwarp/wire.h"

namespace nfsrdma::fabric::iwarp {

inline constexpr std::size_t ddp_control_size = 2;
inline constexpr std::size_t ddp_tagged_size = ddp_control_size + 4 + 8;
inline constexpr std::size_t ddp_untagged_size = ddp_control_size + 4 + 4 + 4 + 4;
inline constexpr std::size_t read_request_size = 4 + 8 + 4 + 4 + 8;
static_assert(ddp_tagged_size == 14 && ddp_untagged_size == 18 && read_request_size == 28);

inline constexpr std::uint8_t ddp_version = 1;
inline constexpr std::uint8_t rdmap_version = 1;

/// The operations of RFC 5040 4.3, figure 4.
enum class Opcode : std::uint8_t {
  rdma_write = 0,
  read_request = 1,
  read_response = 2,
  send = 3,
  send_invalidate = 4,
  send_solicited = 5,
  send_solicited_invalidate = 6,
  terminate = 7,
};

[[nodiscard]] constexpr bool is_send(Opcode op) {
  return op >= Opcode::send && op <= Opcode::send_solicited_invalidate;
}
[[nodiscard]] constexpr bool invalidates(Opcode op) {
  return op == Opcode::send_invalidate || op == Opcode::send_solicited_invalidate;
}

/// The untagged queues (RFC 5040 5.1).
inline constexpr std::uint32_t queue_send = 0;
inline constexpr std::uint32_t queue_read_request = 1;
inline constexpr std::uint32_t queue_terminate = 2;
inline constexpr std::size_t queue_count = 3;

struct DdpHeader {
  bool tagged = false;
  bool last = false;
  std::uint8_t ddp_version = iwarp::ddp_version;
  std::uint8_t rdmap_version = iwarp::rdmap_version;
  Opcode opcode = Opcode::send;
  std::uint32_t stag = 0;  ///< tagged: the target. Untagged: rsvdULP
  std::uint64_t to = 0;    ///< tagged only
  std::uint32_t qn = 0;    ///< the rest: untagged only
  std::uint32_t msn = 0;
  std::uint32_t mo = 0;
  [[nodiscard]] constexpr std::size_t size() const { return tagged ? ddp_tagged_size : ddp_untagged_size; }
  friend bool operator==(const DdpHeader&, const DdpHeader&) = default;
};

/// Returns the header size that the first octet announces.
[[nodiscard]] inline std::size_t ddp_header_size(std::byte first) {
  return (first & std::byte{0x80}) != std::byte{0} ? ddp_tagged_size : ddp_untagged_size;
}

inline void encode(const DdpHeader& h, std::byte* to) {
  to[0] = static_cast<std::byte>((h.tagged ? 0x80U : 0U) | (h.last ? 0x40U : 0U) | (h.ddp_version & 3U));
  to[1] = static_cast<std::byte>((h.rdmap_version & 3U) << 6 | (static_cast<unsigned>(h.opcode) & 0x0fU));
  store_be(to + 2, h.stag);
  if (h.tagged) {
    store_be(to + 6, h.to);
    return;
  }
  store_be(to + 6, h.qn);
  store_be(to + 10, h.msn);
  store_be(to + 14, h.mo);
}

/// Decodes a header. `from` has ddp_header_size(from[0]) octets.
[[nodiscard]] inline DdpHeader decode_ddp(const std::byte* from) {
  DdpHeader h;
  const auto first = std::to_integer<unsigned>(from[0]);
  const auto second = std::to_integer<unsigned>(from[1]);
  h.tagged = (first & 0x80U) != 0;
  h.last = (first & 0x40U) != 0;
  h.ddp_version = static_cast<std::uint8_t>(first & 3U);
  h.rdmap_version = static_cast<std::uint8_t>(second >> 6);
  h.opcode = static_cast<Opcode>(second & 0x0fU);
  h.stag = load_be<std::uint32_t>(from + 2);
  if (h.tagged) {
    h.to = load_be<std::uint64_t>(from + 6);
    return h;
  }
  h.qn = load_be<std::uint32_t>(from + 6);
  h.msn = load_be<std::uint32_t>(from + 10);
  h.mo = load_be<std::uint32_t>(from + 14);
  return h;
}

/// The payload of an RDMA Read Request, RFC 5040 4.4.
struct ReadRequest {
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint32_t size = 0;
  std::uint32_t source_stag = 0;
  std::uint64_t source_to = 0;
  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

inline void encode(const ReadRequest& r, std::byte* to) {
  store_be(to, r.sink_stag);
  store_be(to + 4, r.sink_to);
  store_be(to + 12, r.size);
  store_be(to + 16, r.source_stag);
  store_be(to + 20, r.source_to);
}

[[nodiscard]] inline ReadRequest decode_read_request(const std::byte* from) {
  return {.sink_stag = load_be<std::uint32_t>(from),
          .sink_to = load_be<std::uint64_t>(from + 4),
          .size = load_be<std::uint32_t>(from + 12),
          .source_stag = load_be<std::uint32_t>(from + 16),
          .source_to = load_be<std::uint64_t>(from + 20)};
}

}  // namespace nfsrdma::fabric::iwarp
