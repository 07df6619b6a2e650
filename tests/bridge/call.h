// A Call as it comes from an RDMA client, turned into what the bridge has to do for it. Pure: no I/O.
//
// An RPC Call that travelled in parts (RFC 8166 3.4.5, 3.5) is laid out as the one TCP record that the server
// will get: what came inline is copied to its place, and for each Read segment there is a Fetch, to be done
// by RDMA Read straight into its place. With the Read chunk's round-up padding made again (3.4.5.2):
//
//   stream as sent      | header … count=5 |                  more |        one Read chunk, position 40, 5 bytes
//   record         mark | header … count=5 | 5 bytes | 0 0 0 | more
//
// A Long Call (RDMA_NOMSG) is the same with the Position Zero Read chunk in the place of the inline part.
//
// Ownership: values. A CallPlan's record must not move while its fetches are under way; moving the CallPlan
// leaves the record where it is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/header.h"
#include "xdr/encoder.h"

namespace nfsrdma::bridge {

using fabric::Bytes;
using fabric::ConstBytes;
using fabric::RemoteSegment;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

/// In front of every record on TCP (RFC 5531 11): the last-fragment bit and the length.
inline constexpr std::size_t kRecordMark = 4;
inline constexpr std::uint32_t kLastFragment = 0x80000000U;

/// RFC 5531 9, msg_type.
inline constexpr std::uint32_t kCall = 0, kReply = 1;

/// What the bridge does with a message from the client.
enum class Verdict : std::uint8_t {
  call,            ///< do the fetches, then send the record to the server
  backward_reply,  ///< the answer to a Call of the server's (RFC 8167): send the record to it
  backward_error,  ///< RDMA_ERROR: the client could not take a Call of the server's
  discard,         ///< under 28 bytes, or not to be answered (RFC 8166 4.5)
  err_vers,        ///< answer with RDMA_ERROR (4.5.1)
  err_chunk,       ///< answer with RDMA_ERROR (4.5.2)
};

struct Fetch {
  std::size_t at = 0;  ///< in the record
  RemoteSegment from;
};

struct CallPlan {
  Verdict verdict = Verdict::discard;
  rdma_msg header;
  xdr::Buffer record;  ///< the record mark and the RPC message
  std::vector<Fetch> fetches;
  const char* why = "";  ///< for the log, with discard and err_chunk

  [[nodiscard]] ConstBytes message() const { return record.bytes().subspan(kRecordMark); }
};

/// `max_call`: no RPC message larger than that is accepted (ERR_CHUNK).
[[nodiscard]] CallPlan plan_call(ConstBytes received, std::size_t max_call);

/// Which procedure a Call is for; what the reduction of its Reply depends on.
struct Route {
  std::uint32_t program = 0, version = 0, procedure = 0;
  /// False under RPCSEC_GSS integrity and privacy (RFC 8166 8.2.2.3).
  bool may_reduce = false;
};

/// Reads the header of a complete RPC Call; nothing where it is none, or has another xid (4.5.2).
[[nodiscard]] std::optional<Route> route_of(ConstBytes message, std::uint32_t xid);

}  // namespace nfsrdma::bridge
