// AUTH_SYS (RFC 5531 appendix A): numbers that the server believes.
//
// It has room for 16 groups. Of a caller who is in more of them the first 16 are said, and whoever has a
// right by another one only is refused, unless the server looks the groups up by itself (Linux: manage-gids
// in nfs.conf). That is said once for each user.
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

  /// `own`: whose rights count where there is no caller. `machine`: its name in every credential.
  Sys(std::string machine, const Identity& own, NoticeSink notices = {});

  [[nodiscard]] Voucher vouch(const Caller& caller) override { return {credential(caller), nullptr}; }
  [[nodiscard]] std::string_view name_of(Mark /*mark*/) const override {
    return security_name(Security::sys);
  }
  [[nodiscard]] const rpc::Credential& credential(const Caller& caller);

 private:
  /// What one of many users costs; those of all are made anew when there are more.
  static constexpr std::size_t kMostKnown = 1000;

  [[nodiscard]] rpc::Credential encode(const Identity& identity);

  const std::string machine_;
  const NoticeSink notices_;
  std::set<std::uint32_t> told_;  // users whose groups are too many
  const rpc::Credential own_;
  std::map<Identity, rpc::Credential> known_;
  // The caller before, who mostly is the next one, too. Kept alive, so that no other has his address.
  Caller last_;
  const rpc::Credential* last_credential_ = nullptr;
};

}  // namespace nfsrdma::security
