// RPCSEC_GSS (RFC 2203): each caller has a context with the server, and each Call a sequence number of its own and a
// verifier. With integrity its arguments are signed, with privacy they are wrapped; so are the results.
//
//     Gss flavor(loop, Service::integrity, mechanism, "server");
//     security::Voucher voucher = flavor.vouch(caller);     // for one Call
//
// A context is made when the first Call of its caller is ready to be sent, and where the server does not know it any more
// (CREDPROBLEM, CTXPROBLEM); whoever comes meanwhile waits for it. Before it ends another one is made, while calls go on.
// Where it cannot be had the calls of that caller end with the reason, and nobody else's; where the reason may pass (a
// KDC that does not answer), it is tried until their deadlines. The user is told once a minute.
//
// A number is used once: a server drops what it has seen, so that a Call that is sent again gets another one. It drops
// what is further behind than its window, too, so that a Call is not ready while its number would push out one to which
// no Reply has come, unless that was sent a while ago.
//
// Confined to the loop's thread. What it has vouched for may outlive it.
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

  /// `server`: for messages.
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
  std::shared_ptr<Entry> own_;  // where there is no caller
  /// By uid: it is the tickets that say in which groups somebody is.
  std::map<std::uint32_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace nfsrdma::gss
