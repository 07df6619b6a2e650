// What protects one Call and its Reply: a verifier that proves who asks, and where the service is integrity
// or privacy, the arguments and the results, too (RFC 2203 5.3.2, 5.3.3).
//
//     before a slot is taken, and in make_call() → ready(), where what it takes to seal is not at hand
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
  /// How much longer than in clear the results get at most, the Reply's verifier aside.
  [[nodiscard]] virtual std::size_t reply_growth() const = 0;
  /// What it takes to seal is at hand; where it is not, ready() has it. Before anything is taken that others wait for.
  [[nodiscard]] virtual bool is_ready();
  /// An Error: it cannot be had, and says what the user can do.
  virtual async::Task<Status> ready(async::TimePoint deadline);
  /// It may be sealed and sent now, and is expected to be: nothing but that comes next.
  [[nodiscard]] virtual bool takes_turn();
  /// Waits until it may have become its turn.
  virtual async::Task<void> turn(async::TimePoint deadline);
  /// What it was sealed with cannot be used any more: seal() has failed, or the server has refused it with
  /// `auth_stat` (RFC 2203 5.3.3.3), and has not looked at the Call. True: ready() may have another one.
  [[nodiscard]] virtual bool outdated(std::optional<std::uint32_t> auth_stat);
  /// The Reply says that the server could make nothing of the Call, in whichever way it says so: it was not executed.
  [[nodiscard]] virtual bool was_illegible(const ReplyHeader& header, xdr::ConstBytes results) const;
  /// Judges the Reply to what was sealed last, whose header says that the Call was executed. `results`: what stands
  /// behind it, in memory of the Reply's own, where it is decrypted. Gives the results in clear, which are there, too.
  virtual Result<xdr::ConstBytes> open(const ReplyHeader& header, xdr::ConstBytes results) = 0;
};

}  // namespace nfsrdma::rpc
