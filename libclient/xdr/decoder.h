// Decoder: reads XDR (RFC 4506) from untrusted bytes.
//
// Every length is checked against the bytes that are left and against the type's cap before anything is
// allocated. The first failure sticks: later reads give zeros, and fault() returns the first failure. Nothing
// here asserts on input.
//
// DDP-eligible results (RFC 8166 3.4.6, 4.3.2). The caller names the destination of each such result, in
// stream order. A result that the peer placed by RDMA Write is already there, and the stream has only its
// count; a result that came inline is copied there. Either way it is in the caller's memory afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "xdr/encoder.h"

namespace nfsrdma::xdr {

using Bytes = std::span<std::byte>;

enum class Fault : std::uint8_t {
  none,
  truncated,         ///< the bytes end before the item does
  too_long,          ///< a count over the protocol's cap or over the memory provided
  bad_discriminant,  ///< a union's or boolean's discriminant that the type does not have
  trailing,          ///< bytes after the last item
  ddp_count,         ///< an item's count differs from what was placed for it (T12)
  ddp_violation,     ///< left inline although it had a chunk, or reduced although this is not allowed (T25)
};
const char* to_string(Fault fault);

/// The destination of one DDP-eligible result, and the size of the data that the peer placed there.
struct Placement {
  /// The caller's memory; may be empty: then an inline result is returned as a view.
  Bytes destination;
  bool offered = false;      ///< a non-empty Write chunk was offered for it
  std::uint32_t placed = 0;  ///< bytes the peer says it wrote into that chunk
};

class Decoder {
 public:
  explicit Decoder(ConstBytes bytes, std::span<const Placement> placements = {})
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), placements_(placements) {}

  [[nodiscard]] bool ok() const { return fault_ == Fault::none; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
  [[nodiscard]] ConstBytes rest() const { return {at_, remaining()}; }
  bool fail(Fault fault) {
    if (fault_ == Fault::none) fault_ = fault;
    at_ = end_;
    return false;
  }

  bool u32(std::uint32_t& v) {
    if (remaining() < 4) {
      v = 0;
      return fail(Fault::truncated);
    }
    v = load_u32(at_);
    at_ += 4;
    return true;
  }
  bool u64(std::uint64_t& v) {
    if (remaining() < 8) {
      v = 0;
      return fail(Fault::truncated);
    }
    v = load_u64(at_);
    at_ += 8;
    return true;
  }
  /// Returns a view of `length` bytes, and skips their padding.
  bool view(std::size_t length, ConstBytes& out) {
    out = {};
    if (length > remaining() || padded(length) > remaining()) return fail(Fault::truncated);
    out = {at_, length};
    at_ += padded(length);
    return true;
  }
  bool fixed(Bytes out) {
    ConstBytes bytes;
    if (!view(out.size(), bytes)) return false;
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
    return true;
  }
  /// Returns a variable-length opaque of at most `cap` bytes, as a view.
  bool opaque(std::uint64_t cap, ConstBytes& out) {
    std::uint32_t length = 0;
    out = {};
    if (!u32(length)) return false;
    if (length > cap) return fail(Fault::too_long);
    return view(length, out);
  }
  /// Reads a DDP-eligible opaque: into the caller's memory if a Placement names some, else as a view.
  bool eligible(std::uint64_t cap, ConstBytes& out);

  /// For a result that has one Placement although it has several eligible items or none (READ_PLUS, RFC 8267
  /// 4.1.1). Between these two calls the first item takes the Placement, and the others are read as views
  /// from the stream. The Placement is skipped if there was no item.
  void begin_single_placement() { placements_end_ = next_placement_ + 1; }
  bool end_single_placement();

  /// Called when the Placements have been moved in memory.
  void placements_moved(std::span<const Placement> placements) { placements_ = placements; }

  /// Called when everything has been read. Fails if bytes are left in the stream, or if a chunk was filled
  /// that no result took.
  bool finish();

 private:
  const std::byte* at_;
  const std::byte* end_;
  std::span<const Placement> placements_;
  std::size_t next_placement_ = 0;
  std::size_t placements_end_ = ~std::size_t{0};
  Fault fault_ = Fault::none;
};

}  // namespace nfsrdma::xdr
