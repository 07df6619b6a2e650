// How an identity is said on the wire (RFC 5531 8), and what protects Calls and Replies. One Flavor serves all
// callers of a client.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/loop.h"
#include "async/task.h"
#include "nfsrdma/options.h"
#include "nfsrdma/result.h"
#include "rpc/message.h"
#include "rpc/protection.h"
#include "security/identity.h"

namespace nfsrdma::security {

/// What one Call says of its caller.
struct Voucher {
  const rpc::Credential& credential;            ///< the flavor's, until it is asked again
  std::unique_ptr<rpc::Protection> protection;  ///< null: the Call goes out as it stands
};

/// One of the flavours that a client may use; 0: that which it uses where nothing else is said. A file handle has it as
/// its mark (xdr::ShortOpaque): what is found below a directory is asked about as the directory is.
using Mark = std::uint8_t;

class Flavor {
 public:
  Flavor() = default;
  virtual ~Flavor();
  Flavor(const Flavor&) = delete;
  Flavor& operator=(const Flavor&) = delete;

  [[nodiscard]] virtual Voucher vouch(const Caller& caller) = 0;
  /// By the one with that mark, of those that choose() has given.
  [[nodiscard]] virtual Voucher vouch_by(Mark /*mark*/, const Caller& caller) { return vouch(caller); }
  /// As in `sec=`.
  [[nodiscard]] virtual std::string_view name_of(Mark mark) const = 0;
  /// Nobody else can say what the client says on its own behalf (SP4_MACH_CRED, RFC 8881 2.4.3).
  [[nodiscard]] virtual bool is_tamper_proof() const { return false; }
  /// How many Calls each has vouched for, where there are several.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> uses() const { return {}; }
  /// Whether there is anything to choose from.
  [[nodiscard]] virtual bool has_choice() const { return false; }
  /// Before the first Call: an Error where there is none that the client could use for itself.
  virtual async::Task<Status> settle(async::TimePoint deadline);
  /// Which of those that a server offers is to be used there: the one that is liked best, and that the caller has what
  /// it takes for. An Error says what the user can do.
  virtual async::Task<Result<Mark>> choose(std::vector<Security> offers, Caller caller,
                                           async::TimePoint deadline);
  /// Whether there is what it takes to vouch for the caller; an Error says why not. The user is not told.
  virtual async::Task<Status> can_vouch(Caller caller, async::TimePoint deadline);
  /// For one Call of procedure NULL each, at the end of the client: what the server then need not keep any more.
  [[nodiscard]] virtual std::vector<Voucher> farewells();
};

/// What choose() says where none of them may be used.
Error not_offered(const std::vector<Security>& offers);

}  // namespace nfsrdma::security
