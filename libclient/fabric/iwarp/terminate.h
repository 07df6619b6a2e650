// The Terminate message: the reason why an RDMAP stream ends, for the peer and for people (RFC 5040 4.8, RFC
// 5041 7.2, RFC 5044 section 8, RFC 6581 section 6).
//
// A reason is three numbers: the layer that found it, the type of error, the code. The table in terminate.cpp
// has every reason that a specification defines, with its meaning. The payload on the wire:
//
//   0  layer 4 bits, type 4 bits | code 8 | HdrCt: M D R, 13 reserved
//   4  with M and D: DDP Segment Length (2), the DDP header of the segment that was wrong (14 or 18)
//   .. with R: the RDMA Read Request that was wrong (28)
//
// Pure. Decoding is bounded by the payload given. It needs only the first three numbers, so a payload that is
// cut short behind them is accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nfsrdma::fabric::iwarp {

struct Reason {
  std::uint8_t layer = 0;  ///< 0 RDMAP, 1 DDP, 2 the layer below (MPA)
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  friend bool operator==(const Reason&, const Reason&) = default;
};

// RDMAP's own reasons, RFC 5040 4.8.
inline constexpr Reason remote_invalid_stag{0, 1, 0};
inline constexpr Reason remote_bounds{0, 1, 1};
inline constexpr Reason remote_access{0, 1, 2};
inline constexpr Reason remote_to_wrap{0, 1, 4};
inline constexpr Reason remote_cannot_invalidate{0, 1, 9};
inline constexpr Reason operation_version{0, 2, 5};
inline constexpr Reason operation_opcode{0, 2, 6};
inline constexpr Reason operation_unspecified{0, 2, 0xff};
// The reasons of DDP, tagged and untagged, RFC 5041 7.2.
inline constexpr Reason tagged_invalid_stag{1, 1, 0};
inline constexpr Reason tagged_bounds{1, 1, 1};
inline constexpr Reason tagged_to_wrap{1, 1, 3};
inline constexpr Reason tagged_version{1, 1, 4};
inline constexpr Reason untagged_invalid_qn{1, 2, 1};
inline constexpr Reason untagged_no_buffer{1, 2, 2};
inline constexpr Reason untagged_msn_range{1, 2, 3};
inline constexpr Reason untagged_mo{1, 2, 4};
inline constexpr Reason untagged_too_long{1, 2, 5};
inline constexpr Reason untagged_version{1, 2, 6};
// The reasons of MPA, RFC 5044 section 8 and RFC 6581 section 6.
inline constexpr Reason mpa_crc_error{2, 0, 2};
inline constexpr Reason mpa_framing{2, 0, 3};
inline constexpr Reason mpa_insufficient_ird{2, 0, 6};

/// Returns the reason as text, for example "DDP tagged buffer error: invalid STag (1/1/0)".
[[nodiscard]] std::string text(Reason reason);

struct Terminate {
  Reason reason;
  std::uint16_t segment_length = 0;        ///< length of the segment whose header follows
  std::span<const std::byte> ddp_header;   ///< 14 or 18 octets, or none
  std::span<const std::byte> rdma_header;  ///< 28 octets, or none; never without the DDP header
};

inline constexpr std::size_t terminate_control_size = 4;
inline constexpr std::size_t max_terminate = terminate_control_size + 2 + 18 + 28;

[[nodiscard]] std::vector<std::byte> encode(const Terminate& terminate);

/// Returns the reason, or nothing if the control field is cut short.
[[nodiscard]] std::optional<Reason> decode_terminate(std::span<const std::byte> payload);

}  // namespace nfsrdma::fabric::iwarp
