// A Flavor expresses an identity on the wire (RFC 5531 8), and protects Calls and Replies. One Flavor serves
// all callers of a client.
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
#include "nfsrdma/result.h"
#include "rpc/message.h"
#include "rpc/protection.h"
#include "security/identity.h"
#include "security/names.h"

namespace nfsrdma::security {

/// The part of a Call that identifies its caller.
struct Voucher {
  const rpc::Credential& credential;  ///< owned by the flavor; valid until the flavor is asked again
  std::unique_ptr<rpc::Protection> protection;  ///< null: the Call is sent as it is
};

/// Names one of the flavors that a client may use; 0 is the client's standard flavor. A file handle carries
/// its flavor as a mark (xdr::ShortOpaque): an object found in a directory inherits the directory's mark, so
/// calls about both use the same flavor.
using Mark = std::uint8_t;

class Flavor {
 public:
  Flavor() = default;
  virtual ~Flavor();
  Flavor(const Flavor&) = delete;
  Flavor& operator=(const Flavor&) = delete;

  [[nodiscard]] virtual Voucher vouch(const Caller& caller) = 0;
  /// Like vouch(), with the flavor of `mark`, which choose() has returned before.
  [[nodiscard]] virtual Voucher vouch_by(Mark /*mark*/, const Caller& caller) { return vouch(caller); }
  /// Returns the flavor's name as `sec=` takes it.
  [[nodiscard]] virtual std::string_view name_of(Mark mark) const = 0;
  /// Returns true if only this client can send Calls in the client's own name (SP4_MACH_CRED, RFC 8881
  /// 2.4.3).
  [[nodiscard]] virtual bool is_tamper_proof() const { return false; }
  /// Returns how many Calls each flavor has vouched for, if there are several.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> uses() const { return {}; }
  /// Returns true if there are several flavors to choose from.
  [[nodiscard]] virtual bool has_choice() const { return false; }
  /// Called before the first Call. Fails if there is no flavor that the client could use for itself.
  virtual async::Task<Status> settle(async::TimePoint deadline);
  /// Returns the mark of the flavor to use where a server offers `offers`: the most preferred one for which
  /// the caller has credentials. An Error says what the user can do.
  virtual async::Task<Result<Mark>> choose(std::vector<Security> offers, Caller caller,
                                           async::TimePoint deadline);
  /// Returns success if the caller can be vouched for; an Error says why not. No notice is given to the user.
  virtual async::Task<Status> can_vouch(Caller caller, async::TimePoint deadline);
  /// Called at the end of the client. Each voucher returned is for one Call of procedure NULL, which tells
  /// the server what it need not keep any longer.
  [[nodiscard]] virtual std::vector<Voucher> farewells();
};

/// The Error of choose() if none of the offers may be used.
Error not_offered(const std::vector<Security>& offers);

}  // namespace nfsrdma::security
