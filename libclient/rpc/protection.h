// The protection of one Call and its Reply: a verifier that proves who asks and, if the service is integrity
// or privacy, protection of the arguments and the results, too (RFC 2203 5.3.2, 5.3.3).
//
//     before a slot is taken, and in make_call() → ready(), if there is no security context
//     make_call() → takes_turn(), turn()
//     Compound → rpcrdma::Call::seal → at each sending: seal() → bytes
//     bytes → read_reply() → open() → the results in clear
//
// A security::Flavor makes one for each Call that needs it. Confined to the loop's thread.
#pragma once

#include <optional>

#include "async/loop.h"
#include "async/task.h"
#include "rpc/message.h"
#include "rpcrdma/requester.h"

namespace nfsrdma::rpc {

class Protection : public rpcrdma::Seal {
 public:
  /// Returns how many bytes the results may grow by the protection at most, apart from the Reply's verifier.
  [[nodiscard]] virtual std::size_t reply_growth() const = 0;
  /// Returns whether the security context that seals the Call is available; if not, ready() establishes it.
  /// Checked before the call takes a resource that other calls wait for.
  [[nodiscard]] virtual bool is_ready();
  /// Establishes the security context. An Error means that this is not possible, and says what the user can
  /// do.
  virtual async::Task<Status> ready(async::TimePoint deadline);
  /// Returns whether the Call may be sealed and sent now. If so, the caller must do this next.
  [[nodiscard]] virtual bool takes_turn();
  /// Waits until it may be this Call's turn.
  virtual async::Task<void> turn(async::TimePoint deadline);
  /// Reports that the context that sealed the Call cannot be used any more: seal() has failed, or the server
  /// has refused the Call with `auth_stat` (RFC 2203 5.3.3.3) without looking at it. Returns true if ready()
  /// may establish another context.
  [[nodiscard]] virtual bool outdated(std::optional<std::uint32_t> auth_stat);
  /// Returns whether the Reply says, in any of the possible ways, that the server could not decode the Call,
  /// so did not execute it.
  [[nodiscard]] virtual bool was_illegible(const ReplyHeader& header, xdr::ConstBytes results) const;
  /// Checks the Reply to the Call that was sealed last, whose header says that the Call was executed.
  /// `results` is the part behind the header; it is decrypted in place, in the Reply's own memory. Returns
  /// the results in clear, which are in that memory, too.
  virtual Result<xdr::ConstBytes> open(const ReplyHeader& header, xdr::ConstBytes results) = 0;
};

}  // namespace nfsrdma::rpc
