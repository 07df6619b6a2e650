#include "fabric/iwarp/mpa.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string_view>

#include "fabric/iwarp/wire.h"

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr std::string_view request_key = "MPA ID Req Frame";
constexpr std::string_view reply_key = "MPA ID Rep Frame";
static_assert(request_key.size() == mpa_key_size && reply_key.size() == mpa_key_size);

constexpr std::uint8_t flag_markers = 0x80;
constexpr std::uint8_t flag_crc = 0x40;
constexpr std::uint8_t flag_reject = 0x20;
constexpr std::uint8_t flag_enhanced = 0x10;

// The upper two bits of the IRD word are the flags A and B, those of the ORD word C and D.
constexpr std::uint16_t upper_flag = 0x8000;
constexpr std::uint16_t lower_flag = 0x4000;

std::string_view key_of(MpaFrameKind kind) {
  return kind == MpaFrameKind::request ? request_key : reply_key;
}

std::uint16_t depth_word(std::uint16_t depth, bool upper, bool lower) {
  return static_cast<std::uint16_t>(std::min(depth, mpa_max_depth) | (upper ? upper_flag : 0) |
                                    (lower ? lower_flag : 0));
}

MpaEnhanced decode_enhanced(const std::byte* from) {
  const auto ird = load_be<std::uint16_t>(from);
  const auto ord = load_be<std::uint16_t>(from + 2);
  return {.peer_to_peer = (ird & upper_flag) != 0,
          .rtr_send = (ird & lower_flag) != 0,
          .rtr_write = (ord & upper_flag) != 0,
          .rtr_read = (ord & lower_flag) != 0,
          .ird = static_cast<std::uint16_t>(ird & mpa_max_depth),
          .ord = static_cast<std::uint16_t>(ord & mpa_max_depth)};
}

}  // namespace

std::vector<std::byte> encode(const MpaFrame& frame) {
  assert(frame.private_data.size() <= mpa_private_data_room(frame.enhanced.has_value()));
  const std::size_t enhanced_size = frame.enhanced ? mpa_enhanced_size : 0;
  const std::size_t length = enhanced_size + frame.private_data.size();
  std::vector<std::byte> out(mpa_frame_head + length);
  std::memcpy(out.data(), key_of(frame.kind).data(), mpa_key_size);
  out[16] = static_cast<std::byte>((frame.markers ? flag_markers : 0) | (frame.crc ? flag_crc : 0) |
                                   (frame.reject ? flag_reject : 0) | (frame.enhanced ? flag_enhanced : 0));
  out[17] = static_cast<std::byte>(frame.revision);
  store_be(&out[18], static_cast<std::uint16_t>(length));
  if (frame.enhanced) {
    const MpaEnhanced& e = *frame.enhanced;
    store_be(&out[mpa_frame_head], depth_word(e.ird, e.peer_to_peer, e.rtr_send));
    store_be(&out[mpa_frame_head + 2], depth_word(e.ord, e.rtr_write, e.rtr_read));
  }
  std::ranges::copy(frame.private_data,
                    out.begin() + static_cast<std::ptrdiff_t>(mpa_frame_head + enhanced_size));
  return out;
}

MpaDecoded decode(MpaFrameKind expected, std::span<const std::byte> bytes) {
  MpaDecoded out;
  const std::size_t key_seen = std::min(bytes.size(), mpa_key_size);
  if (key_seen > 0 && std::memcmp(bytes.data(), key_of(expected).data(), key_seen) != 0) {
    out.state = MpaDecoded::State::not_mpa;
    return out;
  }
  if (bytes.size() < mpa_frame_head) return out;

  const auto flags = std::to_integer<std::uint8_t>(bytes[16]);
  MpaFrame& frame = out.frame;
  frame.kind = expected;
  frame.markers = (flags & flag_markers) != 0;
  frame.crc = (flags & flag_crc) != 0;
  frame.reject = (flags & flag_reject) != 0;
  frame.revision = std::to_integer<std::uint8_t>(bytes[17]);
  // RFC 5044 7.1.1: a receiver that cannot interoperate with the revision must close the connection.
  if (frame.revision != 1 && frame.revision != 2) {
    out.state = MpaDecoded::State::bad_revision;
    return out;
  }
  const std::size_t length = load_be<std::uint16_t>(&bytes[18]);
  if (length > mpa_max_private_data) {
    out.state = MpaDecoded::State::bad;
    out.problem = "more than 512 octets of private data";
    return out;
  }
  // In revision 1 the S bit is a reserved bit, and reserved bits are not checked on receipt. A rejection
  // without room for IRD and ORD is still a rejection.
  const bool enhanced =
      frame.revision == 2 && (flags & flag_enhanced) != 0 && !(frame.reject && length < mpa_enhanced_size);
  if (enhanced && length < mpa_enhanced_size) {
    out.state = MpaDecoded::State::bad;
    out.problem = "an enhanced frame without room for IRD and ORD";
    return out;
  }
  if (bytes.size() < mpa_frame_head + length) return out;

  auto data = bytes.subspan(mpa_frame_head, length);
  if (enhanced) {
    frame.enhanced = decode_enhanced(data.data());
    data = data.subspan(mpa_enhanced_size);
  }
  frame.private_data.assign(data.begin(), data.end());
  out.consumed = mpa_frame_head + length;
  out.state = MpaDecoded::State::ok;
  return out;
}

}  // namespace nfsrdma::fabric::iwarp
