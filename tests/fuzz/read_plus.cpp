// READ_PLUS results from any octets, with a Write chunk or without: decoded, and put together.
//
// Whatever is accepted fills the reader's memory with what its elements say, each byte by the first element that has it.
#include "nfs4/files/read_plus.h"

#include <algorithm>
#include <optional>

#include "fuzz.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

constexpr std::size_t kMost = 512;

/// By the elements alone, byte by byte: none where no element has it.
std::optional<std::byte> byte_at(const read_plus_res4& result, const fuzz::Octets& first_data,
                                 std::uint64_t at) {
  bool first = true;
  for (const read_plus_content& content : result.rpr_contents.value) {
    if (const data4* some = content.get<NFS4_CONTENT_DATA>()) {
      const fuzz::ConstOctets bytes = first ? fuzz::ConstOctets(first_data) : some->d_data.data;
      first = false;
      if (at >= some->d_offset && at - some->d_offset < bytes.size()) return bytes[at - some->d_offset];
    } else if (const data_info4* hole = content.get<NFS4_CONTENT_HOLE>()) {
      if (at >= hole->di_offset && at - hole->di_offset < hole->di_length) return std::byte{0};
    }
  }
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 4096);
  const std::uint64_t offset = script.u16();
  fuzz::Octets memory(script.u16() % kMost, std::byte{'?'});
  const bool offered = script.u8() % 2 == 1 && !memory.empty();
  xdr::Placement placement{memory, offered, 0};
  if (offered) placement.placed = static_cast<std::uint32_t>(script.u16() % (memory.size() + 1));
  for (std::size_t i = 0; i < placement.placed; ++i) memory[i] = static_cast<std::byte>(i);

  xdr::Decoder in(script.rest(), std::span(&placement, 1));
  read_plus_res4 result;
  if (!xdr::decode(in, result)) return 0;
  // It stands in `memory`, where it may be moved.
  fuzz::Octets first_data;
  for (const read_plus_content& content : result.rpr_contents.value) {
    const data4* const some = content.get<NFS4_CONTENT_DATA>();
    if (some == nullptr) continue;
    first_data.assign(some->d_data.data.begin(), some->d_data.data.end());
    break;
  }
  FUZZ_CHECK(first_data.size() == first_data_of(result));
  const auto filled = put_together(result, memory, offset);
  if (!filled) return 0;
  FUZZ_CHECK(filled->count <= memory.size());
  FUZZ_CHECK(filled->holes <= filled->count);
  FUZZ_CHECK(filled->hole_ends == 0 || filled->hole_ends >= offset + filled->count);
  for (std::size_t i = 0; i < filled->count; ++i)
    FUZZ_CHECK(byte_at(result, first_data, offset + i) == memory[i]);
  (void)has_long_zeros(memory);
  return 0;
}
