// Private to the requester: the backward direction (RFC 8167), in which the server calls and this client
// answers.
//
// Which Calls are served. A backward Call that is an RDMA_MSG without chunks is delivered to the layer above.
// That layer answers it, now or later, or declines to; then RDMA_ERROR with ERR_CHUNK tells the server that
// no answer is possible (RFC 8166 4.5.3). Chunks are not used in this direction: a Call that has any is
// answered with ERR_CHUNK (RFC 8167 5.3), and so is one whose transport header cannot be read (RFC 8166
// 4.5.2). A Call of another version gets ERR_VERS (4.5.1). Config::backward_credits of 0 means no backward
// service: then every such message is discarded, and backward service costs nothing.
//
// How a backward Call is recognised. The RPC message type decides (2.4), never the xid, because one
// xid may be in use in both directions. RFC 8166 asks for opposite reactions to an error in the transport
// header: a responder MUST answer if the message is a Call, a requester MUST discard it if the message is a
// Reply (4.5), and a requester never sends RDMA_ERROR (4.2.4). So this client answers only messages that are
// recognisably Calls:
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
// Any other fault (an RDMA_NOMSG without chunks, lists that are cut off together with the payload) does not
// show the direction of the message, so the message is discarded.
//
// Credits (4.1). The server may have backward_credits Calls unanswered; each answer grants that many. The
// credit field of a backward Call is only a request and changes nothing, in particular not the forward grant.
// A Call beyond the credits ends the connection, as does any Call for whose answer or error there is no room:
// this tells the server that no answer will come (RFC 8166 4.5.4). Receives: one for each credit is posted in
// addition to those for forward Replies, whether or not Calls are waiting for their answers (4.3.1).
//
// Answers leave as SendAnswer. Their bytes are owned here until on_answer_sent() or the end of the
// connection. There is room for two windows of answers and a few errors, for a server that sends Calls
// without taking the answers; two windows, because the end of a Send may be seen later than the Call that
// follows it. The end of a connection discards all Calls and answers: an answer to an earlier connection's
// Call is not sent, and the server calls again (5.4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rpcrdma/header.h"
#include "rpcrdma/requester.h"
#include "xdr/encoder.h"

namespace nfsrdma::rpcrdma {

/// The form of a message that is not an answer to an RPC of ours.
enum class BackwardForm : std::uint8_t {
  none,  ///< not recognisably a Call
  plain,
  chunks,
  bad_header,
  bad_version,
};

/// Returns the form of `message`. `header` and `decoded` are the results of decode(). The message must not
/// return a Reply chunk of ours.
[[nodiscard]] BackwardForm backward_form(const rdma_msg& header, const Decoded& decoded, ConstBytes message);

/// The Calls without an answer, and the answers that are being sent. Both lists are short and are searched in
/// order.
class BackwardTable {
 public:
  struct Answer {
    BackwardId id = 0;
    xdr::Buffer bytes;
  };

  explicit BackwardTable(std::uint32_t credits) : credits_(credits) {}

  /// Returns whether there is room for another Call and for its answer.
  [[nodiscard]] bool accepts_call() const { return calls_.size() < credits_ && accepts_answer(); }
  [[nodiscard]] bool accepts_answer() const {
    return calls_.size() + answers_.size() < 2 * std::size_t{credits_} + kFewErrors;
  }
  BackwardId add_call(std::uint32_t xid);
  /// Returns the Call's xid, if it is still to be answered, and removes the Call.
  std::optional<std::uint32_t> take_call(BackwardId id);

  /// Adds an empty buffer, which stays until remove_answer(). With id 0 it gets an id of its own, for a Call
  /// that was never delivered.
  Answer& add_answer(BackwardId id = 0);
  void remove_answer(BackwardId id);
  /// Called when the connection is gone.
  void clear();

 private:
  static constexpr std::size_t kFewErrors = 4;
  struct Call {
    BackwardId id = 0;
    std::uint32_t xid = 0;
  };
  void give_back(std::unique_ptr<Answer> answer);

  const std::uint32_t credits_;
  BackwardId last_id_ = 0;  // an id is never reused, also not on a later connection
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Answer>> answers_;
  std::vector<std::unique_ptr<Answer>> free_;
};

}  // namespace nfsrdma::rpcrdma
