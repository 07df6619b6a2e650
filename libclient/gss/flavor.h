// RPCSEC_GSS (RFC 2203). Each caller has a context with the server, and each Call has a sequence number of
// its own and a verifier. With integrity the arguments are signed, with privacy they are wrapped; so are the
// results.
//
//     Gss flavor(loop, Service::integrity, mechanism, "server");
//     security::Voucher voucher = flavor.vouch(caller);     // for one Call
//
// Contexts. A context is established when the first Call of its caller is to be sent, and again when the
// server does not know it any more (CREDPROBLEM, CTXPROBLEM); other Calls of the caller wait for it. Before a
// context expires, another one is established while calls go on.
//
// Failure. If no context can be established, the calls of that caller end with the reason, and calls of other
// callers are not affected. If the reason may be temporary (a KDC that does not answer), attempts go on until
// the calls' deadlines. The user gets a notice at most once a minute.
//
// Sequence numbers. A number is used once, because a server drops a number that it has seen; therefore a Call
// that is sent again gets another number. A server also drops numbers below its window. Therefore a Call is
// not sent while its number would push an unanswered number out of the window, unless that number was sent a
// while ago.
//
// Confined to the loop's thread. Vouchers may outlive the Gss.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gss/context.h"
#include "security/flavor.h"

namespace nfsrdma::gss {

/// rpc_gss_service_t (RFC 2203 5.3.1).
enum class Service : std::uint32_t { none = 1, integrity = 2, privacy = 3 };

inline constexpr std::uint32_t kRpcsecGss = 6;                           ///< the flavor's number
inline constexpr std::uint32_t kCredProblem = 13, kContextProblem = 14;  ///< auth_stat, 5.3.3.3
inline constexpr std::uint32_t kVersion = 1;                             ///< vers_no of rpc_gss_cred_t
/// gss_proc of rpc_gss_cred_t.
enum class Procedure : std::uint32_t { data, init, continue_init, destroy };
inline constexpr std::uint32_t kHighestNumber = 0x80000000;  ///< MAXSEQ, 5.3.3.1

class Gss final : public security::Flavor {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  /// `server`: the server's name, for messages.
  Gss(async::Loop& loop, Service service, const std::shared_ptr<Mechanism>& mechanism, std::string server,
      NoticeSink notices = {});
  ~Gss() override;

  [[nodiscard]] security::Voucher vouch(const security::Caller& caller) override;
  [[nodiscard]] std::vector<security::Voucher> farewells() override;
  [[nodiscard]] std::string_view name_of(security::Mark mark) const override;
  [[nodiscard]] bool is_tamper_proof() const override;
  async::Task<Status> can_vouch(security::Caller caller, async::TimePoint deadline) override;

 private:
  struct Shared;
  struct Use;
  struct Entry;
  class Protection;
  static constexpr std::size_t kMostKnown = 1000;

  std::shared_ptr<Entry> entry_of(const security::Caller& caller);

  const std::shared_ptr<const Shared> shared_;
  std::shared_ptr<Entry> own_;  // used if there is no caller
  /// By uid only, because the ticket, not the caller's group list, determines the groups.
  std::map<std::uint32_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace nfsrdma::gss
