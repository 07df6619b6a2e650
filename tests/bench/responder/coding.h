// What the answers of all versions share: reading arguments without looking at each step whether there was one, handles,
// and numbers that are known only later.
#pragma once

#include <string_view>

#include "responder/tree.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::bench {

/// What is missing is zero; ok() tells.
class In {
 public:
  explicit In(xdr::ConstBytes bytes) : from_(bytes), whole_(bytes.size()) {}
  std::uint32_t u32() {
    std::uint32_t out = 0;
    (void)from_.u32(out);
    return out;
  }
  std::uint64_t u64() {
    std::uint64_t out = 0;
    (void)from_.u64(out);
    return out;
  }
  xdr::ConstBytes bytes(std::size_t length) {
    xdr::ConstBytes out;
    (void)from_.view(length, out);
    return out;
  }
  xdr::ConstBytes opaque() {
    xdr::ConstBytes out;
    (void)from_.opaque(xdr::ConstBytes::extent - 1, out);
    return out;
  }
  std::string_view text() {
    const xdr::ConstBytes out = opaque();
    return {reinterpret_cast<const char*>(out.data()), out.size()};
  }
  /// 0: a handle that no server of this kind gave.
  NodeId handle() {
    const xdr::ConstBytes out = opaque();
    return out.size() == sizeof(NodeId) ? xdr::load_u64(out.data()) : 0;
  }
  [[nodiscard]] bool ok() const { return from_.ok(); }
  [[nodiscard]] std::size_t position() const { return whole_ - from_.remaining(); }

 private:
  xdr::Decoder from_;
  std::size_t whole_;
};

inline void put_handle(xdr::Encoder& out, NodeId id) {
  out.u32(sizeof id);
  out.u64(id);
}
inline void put_text(xdr::Encoder& out, std::string_view text) {
  out.opaque(std::as_bytes(std::span(text.data(), text.size())));
}
/// A number for which there is room at `position`.
inline void set_u32(xdr::Encoder& out, std::size_t position, std::uint32_t value) {
  xdr::store_u32(out.message().stream.data() + position, value);
}

}  // namespace nfsrdma::bench
