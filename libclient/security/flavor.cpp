#include "security/flavor.h"

#include <cerrno>
#include <string>

namespace nfsrdma::security {

Flavor::~Flavor() = default;

std::vector<Voucher> Flavor::farewells() {
  return {};
}

async::Task<Status> Flavor::settle(async::TimePoint /*deadline*/) {
  co_return Status();
}

async::Task<Result<Mark>> Flavor::choose(std::vector<Security> offers, Caller /*caller*/,
                                         async::TimePoint /*deadline*/) {
  for (const Security one : offers) {
    if (security_name(one) == name_of(0)) co_return Mark{0};
  }
  co_return not_offered(offers);
}

async::Task<Status> Flavor::can_vouch(Caller /*caller*/, async::TimePoint /*deadline*/) {
  co_return Status();
}

Error not_offered(const std::vector<Security>& offers) {
  std::string text;
  for (const Security one : offers) text += (text.empty() ? "" : " or ") + std::string(security_name(one));
  if (text.empty()) {
    return {ErrorKind::server, EPERM, "security", "",
            "the server offers no security flavour that this client supports"};
  }
  return {ErrorKind::server, EPERM, "security", "",
          "the server requires sec=" + text + " here; choose it with sec=, or omit sec="};
}

}  // namespace nfsrdma::security
