// Private to the requester: the backward direction (RFC 8167). The server calls, and we answer.
//
// What is served. A backward Call that is an RDMA_MSG without chunks is delivered to the layer above, which
// answers it, now or later, or declines to: then RDMA_ERROR, ERR_CHUNK, says that no answer is possible (RFC 8166
// 4.5.3). There are no chunks in this direction: a Call that has any is answered with ERR_CHUNK (RFC 8167 5.3), and
// so is one whose transport header cannot be read (RFC 8166 4.5.2); one of another version gets ERR_VERS (4.5.1).
// Config::backward_credits of 0 means no backward service: then every such message is discarded, and nothing of this
// costs anything.
//
// Whose message is it? Its RPC message type says so (2.4), never its xid, which may be under way both ways.
// RFC 8166 asks for opposite things: a responder MUST answer an error in a Call's transport header, a
// requester MUST discard a Reply with one (4.5), and never sends RDMA_ERROR (4.2.4). So nothing is answered
// that is not recognisably a Call:
//
//   header            taken for a Call if                                        answer
//   good RDMA_MSG     the payload says CALL                                      the Reply; ERR_CHUNK if it
//                                                                                has chunks
//     other xid       … and also version 2 of RPC, since the xid does not help   ERR_CHUNK (4.5.2)
//   good RDMA_NOMSG   it has a Read list, which no Reply may have (4.3.1), and   ERR_CHUNK
//                     does not return the Reply chunk of an RPC of ours
//   unreadable, or    behind it stand the xid, CALL and version 2 of RPC,        ERR_CHUNK, or ERR_VERS for
//   RDMA_MSGP         on a boundary of four, before any "xid, REPLY"             another version than 1
//   RDMA_ERROR        never; nor RDMA_DONE (4.6.2), nor what has under 28 bytes  none
//
// Whatever else is wrong (an RDMA_NOMSG without chunks, lists that are cut off together with the payload)
// says nothing about its direction and is discarded.
//
// Credits (4.1). The server may have backward_credits Calls unanswered; each answer grants that many. Its own
// credit field is a request, and changes nothing: least of all the forward grant. A Call beyond that ends the
// connection, as does any for whose answer or error there is no room: so the server learns that no answer will come
// (RFC 8166 4.5.4). Receives: one for each credit is posted on top of those for forward Replies, whether Calls are
// waiting for their answers or not (4.3.1).
//
// Answers leave as SendAnswer. Their bytes are owned here until on_answer_sent() or the end of the
// connection; a server that calls without ever taking its answers finds room for two windows of them and a
// few errors, since the end of a Send may be seen later than the Call that follows it. A connection that ends
// takes everything along: an answer to an earlier connection's Call goes nowhere, the server calls again
// (5.4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rpcrdma/header.h"
#include "rpcrdma/requester.h"
#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {

/// What a message is that is no answer to an RPC of ours.
enum class BackwardForm : std::uint8_t {
  none,  ///< not recognisably a Call
  plain,
  chunks,
  bad_header,
  bad_version,
};

/// `header`, `decoded`: what decode() made of `message`. The message returns no Reply chunk of ours.
[[nodiscard]] BackwardForm backward_form(const rdma_msg& header, const Decoded& decoded, ConstBytes message);

/// The Calls without an answer, and the answers under way. Both are few: searched in order.
class BackwardTable {
 public:
  struct Answer {
    BackwardId id = 0;
    xdr::Buffer bytes;
  };

  explicit BackwardTable(std::uint32_t credits) : credits_(credits) {}

  /// Room for another Call and for its answer.
  [[nodiscard]] bool accepts_call() const { return calls_.size() < credits_ && accepts_answer(); }
  [[nodiscard]] bool accepts_answer() const {
    return calls_.size() + answers_.size() < 2 * std::size_t{credits_} + kFewErrors;
  }
  BackwardId add_call(std::uint32_t xid);
  /// The Call's xid, if it is still to be answered; then it no longer is.
  std::optional<std::uint32_t> take_call(BackwardId id);

  /// An empty buffer that stays until remove_answer(). Id 0: of a Call that was never delivered.
  Answer& add_answer(BackwardId id = 0);
  void remove_answer(BackwardId id);
  /// The connection is gone.
  void clear();

 private:
  static constexpr std::size_t kFewErrors = 4;
  struct Call {
    BackwardId id = 0;
    std::uint32_t xid = 0;
  };
  void give_back(std::unique_ptr<Answer> answer);

  const std::uint32_t credits_;
  BackwardId last_id_ = 0;  // never used again, on no connection
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Answer>> answers_;
  std::vector<std::unique_ptr<Answer>> free_;
};

}  // namespace nfsrdma::rpcrdma
