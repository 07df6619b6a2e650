#include "fabric/iwarp/terminate.h"

#include <algorithm>
#include <array>

#include "fabric/iwarp/wire.h"

namespace nfsrdma::fabric::iwarp {
namespace {

struct Row {
  Reason reason;
  const char* text;
};

constexpr std::array rows{
    Row{{0, 0, 0}, "RDMAP: local catastrophic error"},
    Row{remote_invalid_stag, "RDMAP remote protection error: invalid STag"},
    Row{remote_bounds, "RDMAP remote protection error: base or bounds violation"},
    Row{remote_access, "RDMAP remote protection error: access rights violation"},
    Row{{0, 1, 3}, "RDMAP remote protection error: STag not associated with this stream"},
    Row{remote_to_wrap, "RDMAP remote protection error: tagged offset wraps"},
    Row{remote_cannot_invalidate, "RDMAP remote protection error: STag cannot be invalidated"},
    Row{{0, 1, 0xff}, "RDMAP remote protection error: unspecified"},
    Row{operation_version, "RDMAP remote operation error: invalid RDMAP version"},
    Row{operation_opcode, "RDMAP remote operation error: unexpected opcode"},
    Row{{0, 2, 7}, "RDMAP remote operation error: catastrophic error of this stream"},
    Row{{0, 2, 8}, "RDMAP remote operation error: catastrophic error of the whole device"},
    Row{{0, 2, 9}, "RDMAP remote operation error: STag cannot be invalidated"},
    Row{operation_unspecified, "RDMAP remote operation error: unspecified"},
    Row{{1, 0, 0}, "DDP: local catastrophic error"},
    Row{tagged_invalid_stag, "DDP tagged buffer error: invalid STag"},
    Row{tagged_bounds, "DDP tagged buffer error: base or bounds violation"},
    Row{{1, 1, 2}, "DDP tagged buffer error: STag not associated with this stream"},
    Row{tagged_to_wrap, "DDP tagged buffer error: tagged offset wraps"},
    Row{tagged_version, "DDP tagged buffer error: invalid DDP version"},
    Row{untagged_invalid_qn, "DDP untagged buffer error: invalid queue number"},
    Row{untagged_no_buffer, "DDP untagged buffer error: no buffer for this message"},
    Row{untagged_msn_range, "DDP untagged buffer error: message sequence number out of range"},
    Row{untagged_mo, "DDP untagged buffer error: invalid message offset"},
    Row{untagged_too_long, "DDP untagged buffer error: message too long for its buffer"},
    Row{untagged_version, "DDP untagged buffer error: invalid DDP version"},
    Row{{2, 0, 1}, "MPA: TCP connection closed, terminated or lost"},
    Row{mpa_crc_error, "MPA: CRC error"},
    Row{mpa_framing, "MPA: markers or the ULPDU length do not fit the stream"},
    Row{{2, 0, 4}, "MPA: invalid request or reply frame"},
    Row{{2, 0, 5}, "MPA: local catastrophic error"},
    Row{mpa_insufficient_ird, "MPA: insufficient IRD"},
    Row{{2, 0, 7}, "MPA: no matching RTR option"},
};

const char* find(Reason reason) {
  const auto row = std::ranges::find(rows, reason, &Row::reason);
  return row == rows.end() ? nullptr : row->text;
}

constexpr std::byte header_control_segment{0x80};  // M
constexpr std::byte header_control_ddp{0x40};      // D
constexpr std::byte header_control_rdmap{0x20};    // R

}  // namespace

std::string text(Reason reason) {
  const std::string numbers = " (" + std::to_string(reason.layer) + "/" + std::to_string(reason.type) + "/" +
                              std::to_string(reason.code) + ")";
  if (const char* known = find(reason)) return known + numbers;
  // siw describes the first octet by C bit fields, and therefore sends layer and type swapped on
  // little-endian machines.
  if (const char* swapped = find({reason.type, reason.layer, reason.code})) {
    return std::string(swapped) + ", taking layer and type as swapped" + numbers;
  }
  return "an unknown reason" + numbers;
}

std::vector<std::byte> encode(const Terminate& terminate) {
  std::vector<std::byte> out(terminate_control_size);
  out[0] = static_cast<std::byte>((terminate.reason.layer & 0x0fU) << 4 | (terminate.reason.type & 0x0fU));
  out[1] = static_cast<std::byte>(terminate.reason.code);
  if (terminate.ddp_header.empty()) return out;
  out[2] = header_control_segment | header_control_ddp;
  out.resize(out.size() + 2);
  store_be(&out[terminate_control_size], terminate.segment_length);
  out.insert(out.end(), terminate.ddp_header.begin(), terminate.ddp_header.end());
  if (!terminate.rdma_header.empty()) {
    out[2] |= header_control_rdmap;
    out.insert(out.end(), terminate.rdma_header.begin(), terminate.rdma_header.end());
  }
  return out;
}

std::optional<Reason> decode_terminate(std::span<const std::byte> payload) {
  if (payload.size() < terminate_control_size) return std::nullopt;
  const auto first = std::to_integer<unsigned>(payload[0]);
  return Reason{static_cast<std::uint8_t>(first >> 4), static_cast<std::uint8_t>(first & 0x0fU),
                std::to_integer<std::uint8_t>(payload[1])};
}

}  // namespace nfsrdma::fabric::iwarp
