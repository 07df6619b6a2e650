#include "xdr/decoder.h"

#include <algorithm>

namespace nfsrdma::xdr {

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "no fault";
    case Fault::truncated:
      return "the message ends in the middle of an item";
    case Fault::too_long:
      return "an item is longer than the protocol or the request allows";
    case Fault::bad_discriminant:
      return "a discriminant has a value that the protocol does not have";
    case Fault::trailing:
      return "bytes follow the last item";
    case Fault::ddp_count:
      return "an item's length differs from what was placed in its Write chunk";
    case Fault::ddp_violation:
      return "a result was reduced, or left inline, against the upper layer binding";
  }
  return "unknown fault";
}

bool Decoder::eligible(std::uint64_t cap, ConstBytes& out) {
  out = {};
  if (next_placement_ >= std::min(placements_.size(), placements_end_)) return opaque(cap, out);
  const Placement& place = placements_[next_placement_++];
  std::uint32_t length = 0;
  if (!u32(length)) return false;
  if (length > cap) return fail(Fault::too_long);
  if (place.placed != 0) {
    // RFC 8166 3.4.6: the sum of the chunk's lengths is the item's length.
    if (place.placed != length || length > place.destination.size()) return fail(Fault::ddp_count);
    out = place.destination.first(length);
    return true;
  }
  // RFC 8166 4.3.2: a result for which a chunk was offered is not to be left inline.
  if (place.offered && length != 0) return fail(Fault::ddp_violation);
  ConstBytes bytes;
  if (!view(length, bytes)) return false;
  if (place.destination.empty()) {
    out = bytes;
    return true;
  }
  if (length > place.destination.size()) return fail(Fault::too_long);
  if (length != 0) std::memcpy(place.destination.data(), bytes.data(), length);
  out = place.destination.first(length);
  return true;
}

bool Decoder::end_single_placement() {
  const std::size_t end = std::min(placements_.size(), placements_end_);
  placements_end_ = ~std::size_t{0};
  for (; next_placement_ < end; ++next_placement_) {
    if (placements_[next_placement_].placed != 0) return fail(Fault::ddp_violation);
  }
  return ok();
}

bool Decoder::finish() {
  if (!ok()) return false;
  if (remaining() != 0) return fail(Fault::trailing);
  for (; next_placement_ < placements_.size(); ++next_placement_) {
    // A chunk was filled, although no result of the reply was eligible for it.
    if (placements_[next_placement_].placed != 0) return fail(Fault::ddp_violation);
  }
  return true;
}

}  // namespace nfsrdma::xdr
