// MPA: the frames that set up a connection, and the sizes of an FPDU (RFC 5044, RFC 6581).
//
// Setup. The initiator sends one Request frame, the responder answers with one Reply frame, and from then on
// both directions carry FPDUs only. A frame, RFC 5044 7.1.1 with RFC 6581 section 4:
//
//   0   key, 16 octets: "MPA ID Req Frame" or "MPA ID Rep Frame"
//   16  M C R S and four reserved bits        M: "send me markers"; C: "use CRC"; R: rejected; S: enhanced
//   17  revision: 1, or 2 for RFC 6581
//   18  PD_Length, at most 512
//   20  private data. With S its first four octets are MPA's own: A B IRD(14) C D ORD(14)
//
// A decoded frame refers to nothing outside itself and was checked completely: the private data is inside the
// bytes given. Decoding returns `more` until enough has arrived, and returns `bad` as soon as one octet is
// known to be wrong, so that a peer which speaks another protocol is recognised by its first octet.
//
// FPDU, RFC 5044 4.1, without markers (we never ask for them and never send them):
//
//   ULPDU_Length (2) | ULPDU | pad to a multiple of 4 with zeros | CRC (4)
//
// The CRC field is present also when CRCs are off; it is then zero and not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nfsrdma::fabric::iwarp {

inline constexpr std::size_t mpa_key_size = 16;
inline constexpr std::size_t mpa_frame_head = mpa_key_size + 1 + 1 + 2;
inline constexpr std::size_t mpa_max_private_data = 512;  ///< RFC 5044 7.1.1
inline constexpr std::size_t mpa_enhanced_size = 4;       ///< RFC 6581 section 9: IRD and ORD
inline constexpr std::size_t mpa_max_frame = mpa_frame_head + mpa_max_private_data;
inline constexpr std::uint16_t mpa_max_depth = 0x3fff;  ///< the largest IRD or ORD; also "not negotiated"

inline constexpr std::size_t fpdu_length_size = 2;
inline constexpr std::size_t fpdu_crc_size = 4;
inline constexpr std::size_t max_ulpdu = 65535;
inline constexpr std::size_t min_mulpdu = 128;  ///< RFC 5044 4.1: never less, however small the MSS is

/// The octets after the ULPDU: pad and CRC.
[[nodiscard]] constexpr std::size_t fpdu_trailer(std::size_t ulpdu) {
  return (4 - (fpdu_length_size + ulpdu) % 4) % 4 + fpdu_crc_size;
}
[[nodiscard]] constexpr std::size_t fpdu_size(std::size_t ulpdu) {
  return fpdu_length_size + ulpdu + fpdu_trailer(ulpdu);
}
/// The largest ULPDU whose FPDU fits a TCP segment of `emss` octets, without markers: RFC 5044 4.3.
[[nodiscard]] constexpr std::size_t mulpdu_for(std::size_t emss) {
  constexpr std::size_t overhead = fpdu_length_size + fpdu_crc_size;
  if (emss < min_mulpdu + overhead + 3) return min_mulpdu;
  const std::size_t ulpdu = emss - (overhead + emss % 4);
  return ulpdu < max_ulpdu ? ulpdu : max_ulpdu;
}
static_assert(mulpdu_for(1460) == 1454 && fpdu_size(1454) == 1460);
static_assert(mulpdu_for(1448) == 1442 && fpdu_size(1442) == 1448);
static_assert(fpdu_size(mulpdu_for(1461)) <= 1461 && mulpdu_for(536) == 530 && mulpdu_for(80) == min_mulpdu);

/// The octets that RFC 6581 section 9 adds to a frame. The flags matter to peer-to-peer connections only:
/// with A the initiator promises a first "ready to receive" FPDU of one of the kinds B, C or D.
struct MpaEnhanced {
  bool peer_to_peer = false;  ///< A
  bool rtr_send = false;      ///< B: zero-length Send
  bool rtr_write = false;     ///< C: zero-length RDMA Write
  bool rtr_read = false;      ///< D: zero-length RDMA Read
  std::uint16_t ird = 0;
  std::uint16_t ord = 0;
  friend bool operator==(const MpaEnhanced&, const MpaEnhanced&) = default;
};

enum class MpaFrameKind : std::uint8_t { request, reply };

struct MpaFrame {
  MpaFrameKind kind = MpaFrameKind::request;
  bool markers = false;
  bool crc = false;
  bool reject = false;
  std::uint8_t revision = 2;
  std::optional<MpaEnhanced> enhanced;  ///< revision 2 with the S bit
  std::vector<std::byte> private_data;  ///< without the enhanced octets
  friend bool operator==(const MpaFrame&, const MpaFrame&) = default;
};

/// Returns the space for private data, which the enhanced octets reduce.
[[nodiscard]] constexpr std::size_t mpa_private_data_room(bool enhanced) {
  return mpa_max_private_data - (enhanced ? mpa_enhanced_size : 0);
}

/// `frame.private_data` must fit mpa_private_data_room().
[[nodiscard]] std::vector<std::byte> encode(const MpaFrame& frame);

struct MpaDecoded {
  enum class State : std::uint8_t {
    more,  ///< correct so far, and not complete
    ok,
    not_mpa,       ///< another protocol: the key is wrong
    bad_revision,  ///< a revision other than 1 and 2; frame.revision has it
    bad,           ///< an MPA frame that is malformed; `problem` says how
  };
  State state = State::more;
  MpaFrame frame;
  std::size_t consumed = 0;  ///< size of the frame, with ok; FPDUs follow it
  const char* problem = "";
};

/// Decodes a frame from everything that has arrived so far.
[[nodiscard]] MpaDecoded decode(MpaFrameKind expected, std::span<const std::byte> bytes);

}  // namespace nfsrdma::fabric::iwarp
