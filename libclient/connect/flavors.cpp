#include "connect/flavors.h"

#include <unistd.h>

#include <utility>

#include "aux/rpcbind.h"
#include "gss/flavor.h"
#include "krb5/kerberos.h"
#include "rpc/make_call.h"
#include "rpc/message.h"
#include "security/choice.h"
#include "security/sys.h"

namespace nfsrdma::connect {
namespace {

gss::Service service_of(Security security) {
  switch (security) {
    case Security::krb5i:
      return gss::Service::integrity;
    case Security::krb5p:
      return gss::Service::privacy;
    default:
      return gss::Service::none;
  }
}

std::shared_ptr<security::Flavor> make_one(Security security, async::Loop& loop, const Target& target,
                                           const std::vector<rpc::Address>& addresses,
                                           const Surroundings& surroundings,
                                           const Server::NoticeSink& notices) {
  const Options& options = target.options;
  if (security == Security::sys)
    return std::make_shared<security::Sys>(surroundings.host, own_identity(options), notices);
  krb5::KerberosOptions how;
  how.server = target.host;
  // Contexts are made over TCP (RFC 8166 8.2.2.1).
  for (const rpc::Address& address : addresses)
    how.addresses.push_back(aux::with_port(address, options.gss_port));
  how.version = options.version.value_or(how.version);
  how.service = service_of(security);
  how.host = surroundings.host;
  how.keytab = options.keytab;
  how.ccache = options.ccache;
  how.no_core = options.no_core;
  how.many_users = surroundings.many_users;
  const bool is_machine = surroundings.many_users && ::geteuid() == 0;
  if (how.keytab.empty() && how.ccache.empty() && is_machine) how.keytab = krb5::system_keytab();
  // Less than the calls' timeout, so that calls waiting for a context still have time to report why there is
  // none.
  how.patience = options.timeout * 3 / 4;
  return std::make_shared<gss::Gss>(loop, how.service, krb5::make_kerberos(loop, how), target.host, notices);
}

}  // namespace

std::vector<Security> permitted(const Options& options) {
  if (!options.security.empty()) return options.security;
  // A user who names a uid or gid means an identity given by numbers.
  if (options.uid || options.gid) return {Security::sys};
  return {Security::krb5p, Security::krb5i, Security::krb5, Security::sys};
}

std::shared_ptr<security::Flavor> make_flavor(async::Loop& loop, const Target& target,
                                              const std::vector<rpc::Address>& addresses,
                                              const Surroundings& surroundings,
                                              const Server::NoticeSink& notices) {
  const auto make = [=, &loop, &target, &addresses, &surroundings, &notices](Security security) {
    return make_one(security, loop, target, addresses, surroundings, notices);
  };
  std::vector<Security> all = permitted(target.options);
  if (all.size() == 1) return make(all.front());
  std::optional<Security> standard;
  if (target.options.security.empty()) standard = Security::sys;
  return std::make_shared<security::Choice>(loop, std::move(all), standard, make);
}

async::Task<void> say_farewell(security::Flavor& flavor, rpc::Channel& channel, std::uint32_t version,
                               async::TimePoint deadline) {
  std::vector<security::Voucher> last = flavor.farewells();
  for (security::Voucher& one : last) {
    if (!channel.up() || channel.loop().now() >= deadline) co_return;
    rpcrdma::Call call;
    call.message = channel.take_message();
    rpc::begin_call(call.message, rpc::kNfsProgram, version, 0, one.credential);
    call.seal = one.protection.get();
    call.reply_max_inline = call.reply_max_reduced = one.credential.largest_reply_header();
    call.deadline = deadline;
    rpc::Outcome outcome = co_await rpc::make_call(channel, std::move(call), one.protection.get());
    channel.give_back(std::move(outcome.message));
    if (outcome.reply) channel.give_back(std::move(*outcome.reply));
  }
}

}  // namespace nfsrdma::connect
