// The steps of a client as for real use: whose rights count, the session, and the way back from the server.
#include <cerrno>

#include "async/helper.h"
#include "connect/flavors.h"
#include "diagnosis/examination.h"
#include "krb5/tickets.h"
#include "security/flavor.h"

namespace nfsrdma::diagnosis {
namespace {

using krb5::TicketFacts;

constexpr std::uint32_t kSecondsOfHour = 3600, kSecondsOfMinute = 60;

// ---- security ----

std::string user_text(const security::Identity& who) {
  std::string out = "user " + std::to_string(who.uid) + ", group " + std::to_string(who.gid);
  if (!who.groups.empty()) out += " and " + std::to_string(who.groups.size()) + " more";
  return out;
}

std::string for_how_long(std::uint32_t seconds) {
  if (seconds >= kSecondsOfHour) return std::to_string(seconds / kSecondsOfHour) + " h";
  return std::to_string(seconds / kSecondsOfMinute) + " min";
}

/// Returns the flavors with Kerberos that the options name.
std::vector<Security> named_kerberos(const connect::Options& options) {
  std::vector<Security> out = options.security;
  std::erase(out, Security::sys);
  return out;
}

async::Task<Result<TicketFacts>> own_ticket(Examination& at) {
  const krb5::Whose whose{at.options().keytab, at.means.around.host, at.options().ccache, std::nullopt};
  const std::function<Result<TicketFacts>()> work = [whose] { return krb5::ticket_facts(whose); };
  auto found = co_await async::on_helper<Result<TicketFacts>>(at.loop, at.until(kCallTime), work);
  if (found) co_return std::move(*found);
  co_return Error(ErrorKind::timeout, ETIMEDOUT, "Kerberos", at.target.host,
                  "no ticket could be read in time; check that the realm's KDC answers");
}

/// Makes a security context with the server, as the client will.
async::Task<Status> make_context(Examination& at, Security security) {
  connect::Target target = at.target;
  target.options.security = {security};
  const connect::Server::NoticeSink silent;
  const auto flavor = connect::make_flavor(at.loop, target, at.addresses, at.means.around, silent);
  co_return co_await flavor->can_vouch(nullptr, at.until(kCallTime));
}

async::Task<Finding> examine_kerberos(Examination& at, const std::vector<Security>& flavors) {
  auto ticket = co_await own_ticket(at);
  if (!ticket) co_return failure(ticket.error());
  const std::string name(security_name(flavors.front()));
  const std::string shown =
      "the ticket of " + ticket->principal + ", valid for " + for_how_long(ticket->seconds);
  auto made = co_await make_context(at, flavors.front());
  Finding out = made ? found("sec=" + name + ": the server accepts " + shown) : failure(made.error());
  if (!made) out.seen = "sec=" + name + ": " + out.seen + "; it was shown " + shown;
  co_return out.fact("principal", ticket->principal).fact("valid_seconds", ticket->seconds);
}

// ---- session ----

/// Returns true if the server's refusal may concern the path rather than the client.
bool is_about_path(const Error& why) {
  return why.kind() == ErrorKind::server && why.errno_value() != EPROTONOSUPPORT;
}

std::string implementation_of(const Info& info) {
  if (info.implementation_name.empty()) return "";
  return ", server " + info.implementation_name;
}

/// Linux's server answers NOENT for its very root if it has no export for the client.
Finding no_export_for(const std::string& client) {
  return failure("the server has no export for this machine, not even /",
                 "add this machine, " + client +
                     ", to an export on the server (Linux: /etc/exports, then `exportfs -ra`; `exportfs -v` "
                     "lists what is exported, and to whom)");
}

/// Names the operation and the service that failed, because a client of NFSv3 also asks rpcbind, mountd and lockd.
Finding no_session(const Examination& at, const Error& why) {
  const bool lacks_root = is_about_path(why) && why.errno_value() == ENOENT;
  if (lacks_root) return no_export_for(at.way.source);
  if (why.operation() == "Kerberos" || why.operation() == "security") return failure(why);
  return failure(Error(why.kind(), why.errno_value(), "", "", why.text()));
}

Finding session_seen(const Info& info) {
  const bool has_session = !info.session_id.empty();
  Finding out = found("NFS " + info.version +
                      (has_session ? " with " + std::to_string(info.slots) + " slots, lease of " +
                                         std::to_string(info.lease_seconds) + " s"
                                   : ", which has no sessions") +
                      implementation_of(info));
  out.fact("version", info.version).fact("slots", info.slots).fact("lease_seconds", info.lease_seconds);
  out.fact("max_request", info.max_request).fact("max_response", info.max_response);
  out.fact("max_response_cached", info.max_response_cached).fact("max_operations", info.max_operations);
  out.fact("implementation", info.implementation_name).fact("server_owner", info.server_owner);
  return out;
}

}  // namespace

async::Task<Finding> examine_security(Examination& at) {
  const std::vector<Security> kerberos = named_kerberos(at.options());
  if (!kerberos.empty()) {
    Finding out = co_await examine_kerberos(at, kerberos);
    const bool has_other = kerberos.size() < at.options().security.size();
    if (out.state == State::failed && has_other) out.state = State::warning;  // AUTH_SYS is allowed, too
    co_return out;
  }
  const security::Identity who = connect::own_identity(at.options());
  Finding out = found("AUTH_SYS as " + user_text(who));
  co_return out.fact("uid", who.uid).fact("gid", who.gid);
}

async::Task<Finding> examine_session(Examination& at) {
  // The connection that ends here may have resumed this task, so wait until the loop resumes it.
  co_await at.loop.sleep_until(at.loop.now());
  at.channel.reset();
  auto done = co_await at.open(at.target.path);
  if (!done && is_about_path(done.error())) {
    at.path_error = done.error();
    done = co_await at.open("/");
    if (!done) at.path_error.reset();
  }
  if (!done) co_return no_session(at, done.error());
  co_return session_seen(at.info);
}

async::Task<Finding> examine_backchannel(Examination& at) {
  const Info& info = at.info;
  if (!info.version.starts_with('4')) co_return skipped("NFS " + info.version + " has no callbacks");
  if (!info.backchannel) {
    co_return warning("the server cannot call back, so it grants no delegations",
                      info.version == "4.0"
                          ? "give an address of this machine that the server can reach with clientaddr="
                          : "enable callbacks over RDMA on the server");
  }
  Finding out = found(info.callback_address.empty() ? "the server can call back on the same connection"
                                                    : "the server can call back at " + info.callback_address);
  co_return out.fact("callback_address", info.callback_address);
}

}  // namespace nfsrdma::diagnosis
