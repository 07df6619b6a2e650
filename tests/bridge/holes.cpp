#include "bridge/holes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bridge/reduce.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::bridge {
namespace {

using namespace nfs4;

constexpr std::size_t kBlock = 4096;  // of a file system

bool is_zero(ConstBytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// How far the data is of one kind from `at` on: whole blocks of zeros, or not.
std::size_t run_at(ConstBytes data, std::size_t at, bool& zeros) {
  const auto block_at = [&](std::size_t from) {
    return data.subspan(from, std::min(kBlock, data.size() - from));
  };
  zeros = is_zero(block_at(at));
  std::size_t end = at;
  while (end < data.size() && is_zero(block_at(end)) == zeros) end += block_at(end).size();
  return end - at;
}

}  // namespace

std::optional<xdr::Buffer> with_holes(const Route& route, ConstBytes reply) {
  const auto begin = find_read_plus(route, reply);
  if (!begin) return std::nullopt;
  xdr::Decoder in(reply.subspan(*begin));
  READ_PLUS4res res;
  if (!xdr::decode(in, res) || in.remaining() != 0) return std::nullopt;
  const auto* good = res.get<NFS4_OK>();
  if (good == nullptr || good->rpr_contents.value.size() != 1) return std::nullopt;
  const data4* all = good->rpr_contents.value.front().get<NFS4_CONTENT_DATA>();
  if (all == nullptr) return std::nullopt;
  const ConstBytes data = all->d_data.data;

  struct Element {
    std::size_t at = 0, length = 0;
    bool hole = false;
  };
  std::vector<Element> elements;
  std::size_t at = 0;
  while (at < data.size() && elements.size() < kReadPlusElements) {
    Element& one = elements.emplace_back(Element{at, 0, false});
    one.length = run_at(data, at, one.hole);
    at += one.length;
  }
  if (std::ranges::none_of(elements, &Element::hole)) return std::nullopt;

  xdr::Message out;
  xdr::Encoder to(out);
  std::memcpy(out.stream.extend(*begin), reply.data(), *begin);
  to.u32(NFS4_OK);
  to.u32(good->rpr_eof && at == data.size() ? 1 : 0);
  to.u32(static_cast<std::uint32_t>(elements.size()));
  for (const Element& one : elements) {
    to.u32(one.hole ? NFS4_CONTENT_HOLE : NFS4_CONTENT_DATA);
    to.u64(all->d_offset + one.at);
    if (one.hole)
      to.u64(one.length);
    else
      to.opaque(data.subspan(one.at, one.length));
  }
  return std::move(out.stream);
}

}  // namespace nfsrdma::bridge
