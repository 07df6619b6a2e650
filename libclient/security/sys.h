// AUTH_SYS (RFC 5531 appendix A): numbers that the server trusts.
//
// The credential has room for 16 groups. If a caller is in more, only the first 16 are sent, and access that
// another group would grant is refused, unless the server looks up the groups itself (Linux: manage-gids in
// nfs.conf). A notice says so once for each user.
//
// Confined to the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "security/flavor.h"

namespace nfsrdma::security {

class Sys final : public Flavor {
 public:
  static constexpr std::size_t kMostGroups = 16;
  using NoticeSink = std::function<void(const std::string&)>;

  /// `own`: the identity used if there is no caller. `machine`: the machine name in every credential.
  Sys(std::string machine, const Identity& own, NoticeSink notices = {});

  [[nodiscard]] Voucher vouch(const Caller& caller) override { return {credential(caller), nullptr}; }
  [[nodiscard]] std::string_view name_of(Mark /*mark*/) const override {
    return security_name(Security::sys);
  }
  [[nodiscard]] const rpc::Credential& credential(const Caller& caller);

 private:
  /// Bounds the memory for credentials: when there are more callers, all are encoded again.
  static constexpr std::size_t kMostKnown = 1000;

  [[nodiscard]] rpc::Credential encode(const Identity& identity);

  const std::string machine_;
  const NoticeSink notices_;
  std::set<std::uint32_t> told_;  // users who got the notice about too many groups
  const rpc::Credential own_;
  std::map<Identity, rpc::Credential> known_;
  // The previous caller, who is usually the next one, too. Kept alive, so that no other caller can have its
  // address.
  Caller last_;
  const rpc::Credential* last_credential_ = nullptr;
};

}  // namespace nfsrdma::security
