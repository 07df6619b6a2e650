// RPC messages that travel in pieces, put together: a Call from its Send and its Read chunks (RFC 8166 3.4.5,
// 3.5.3), a Reply from its Reply chunk (3.5.4).
//
// The result is a message of RPC-over-RDMA without chunks: a transport header of 28 bytes, and the RPC message
// up to a limit, or up to the first byte that is not known.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "rpcrdma/header.h"
#include "trace/format/pcapng.h"

namespace nfsrdma::trace {

class Whole {
 public:
  /// Begins with a transport header without chunks. `limit` is the number of bytes behind it that are kept.
  Whole(const rpcrdma::rdma_msg& header, std::size_t limit);
  /// Adds a piece of `size` bytes. `known` are its first bytes.
  void add(ConstBytes known, std::uint64_t size);
  [[nodiscard]] ConstBytes bytes() const { return bytes_; }
  /// The number of bytes that were added and are not in bytes().
  [[nodiscard]] std::uint64_t missing() const { return missing_; }

 private:
  Octets bytes_;
  std::size_t limit_ = 0;
  std::uint64_t missing_ = 0;
  bool gap_ = false;
};

/// Returns what is known of a segment's content: its first bytes.
using MemoryOf = std::function<ConstBytes(const fabric::RemoteSegment&)>;

/// `inline_part` is what follows the transport header in the Send.
[[nodiscard]] Whole whole_call(const rpcrdma::rdma_msg& header, ConstBytes inline_part, std::size_t limit,
                               const MemoryOf& memory_of);
[[nodiscard]] Whole whole_reply(const rpcrdma::rdma_msg& header, std::size_t limit,
                                const MemoryOf& memory_of);

[[nodiscard]] std::vector<fabric::RemoteSegment> segments_of(std::span<const rpcrdma::xdr_read_chunk> list);

}  // namespace nfsrdma::trace
