#include "krb5/kerberos.h"

#include <gssapi/gssapi_krb5.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include "async/helper.h"
#include "aux/remote.h"
#include "krb5/context.h"
#include "krb5/status.h"
#include "krb5/tickets.h"
#include "rpc/message.h"

namespace nfsrdma::krb5 {
namespace {

using namespace std::chrono_literals;

/// Upper bound for the Calls of one negotiation. Kerberos needs one.
constexpr int kMostCalls = 8;
constexpr std::size_t kMostToken = 1U << 20;
/// Room in a credential after four numbers and the length.
constexpr std::size_t kMostHandle = rpc::kMostAuthBytes - 5 * 4;

/// rpc_gss_init_res (RFC 2203 5.2.3.1).
struct Answer {
  gss::Octets handle, token;
  Status status;
  std::uint32_t window = 0;
};

std::optional<Answer> decoded(const std::vector<std::byte>& bytes) {
  Answer out;
  xdr::ConstBytes handle, token;
  xdr::Decoder in(bytes);
  std::uint32_t major = 0, minor = 0;
  if (!in.opaque(kMostHandle, handle) || !in.u32(major) || !in.u32(minor) || !in.u32(out.window) ||
      !in.opaque(kMostToken, token) || !in.finish()) {
    return std::nullopt;
  }
  out.handle.assign(handle.begin(), handle.end());
  out.token.assign(token.begin(), token.end());
  out.status = {major, minor};
  return out;
}

class Name {
 public:
  explicit Name(const std::string& server) {
    const std::string service = "nfs@" + server;
    gss_buffer_desc text{service.size(), const_cast<char*>(service.data())};  // NOLINT: only read
    status_.major = ::gss_import_name(&status_.minor, &text, GSS_C_NT_HOSTBASED_SERVICE, &name_);
  }
  ~Name() {
    OM_uint32 minor = 0;
    (void)::gss_release_name(&minor, &name_);
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] gss_name_t get() const { return name_; }

 private:
  Status status_;
  gss_name_t name_ = GSS_C_NO_NAME;
};

/// Makes one context, on a helper thread; owns everything that it uses.
class Making {
 public:
  Making(KerberosOptions options, Whose whose, async::TimePoint deadline)
      : options_(std::move(options)),
        whose_(std::move(whose)),
        about_{whose_.name(), options_.server, whose_.keytab, whose_.ccache},
        deadline_(deadline) {}

  Result<Established> run() {
    auto ticket = find_ticket(whose_, about_);
    if (!ticket) return ticket.error();
    const Name name(options_.server);
    if (!name.status().ok()) return client_failure(name.status(), about_);
    gss::Octets token;  // the server's last token
    for (int calls = 0; calls < kMostCalls; ++calls) {
      auto next = step(ticket->get(), name.get(), token);
      if (!next) return next.error();
      if (!next->empty()) {
        auto answered = ask(*next);
        if (!answered) return answered.error();
        token = std::move(*answered);
      }
      if (is_complete_ && is_served_) return finish();
      if (is_complete_ && next->empty()) break;
    }
    return lies("it does not finish the negotiation");
  }

 private:
  /// Lets GSSAPI do one step. Returns the token for the server; empty: there is none.
  Result<gss::Octets> step(gss_cred_id_t ticket, gss_name_t name, gss::Octets& token) {
    if (is_complete_) return gss::Octets();
    gss_buffer_desc in{token.size(), token.data()}, out{};
    gss_ctx_id_t context = out_.context.release();
    Status status;
    // GSS_C_SEQUENCE_FLAG and GSS_C_REPLAY_FLAG are not set, because RPCSEC_GSS has sequence numbers of its
    // own (RFC 2203 5.2.2).
    status.major = ::gss_init_sec_context(&status.minor, ticket, &context, name,
                                          const_cast<gss_OID>(gss_mech_krb5),  // NOLINT: only read
                                          GSS_C_MUTUAL_FLAG | GSS_C_CONF_FLAG | GSS_C_INTEG_FLAG, 0,
                                          GSS_C_NO_CHANNEL_BINDINGS, token.empty() ? GSS_C_NO_BUFFER : &in,
                                          nullptr, &out, nullptr, &out_.seconds);
    out_.context.reset(context);
    const auto* const bytes = static_cast<const std::byte*>(out.value);
    gss::Octets next(bytes, bytes + out.length);
    OM_uint32 minor = 0;
    (void)::gss_release_buffer(&minor, &out);
    if (!status.ok()) {
      // If the server has sent a token, that token may be what is wrong.
      return token.empty() ? client_failure(status, about_) : server_failure(status, about_);
    }
    is_complete_ = status.major == GSS_S_COMPLETE;
    return next;
  }

  /// Sends the token to the server and returns the server's token.
  Result<gss::Octets> ask(const gss::Octets& token) {
    xdr::Message credential, arguments;
    xdr::Encoder shown(credential);
    shown.u32(gss::kVersion);
    shown.u32(static_cast<std::uint32_t>(begun_ ? gss::Procedure::continue_init : gss::Procedure::init));
    shown.u32(0);
    shown.u32(static_cast<std::uint32_t>(options_.service));
    shown.opaque(out_.handle);
    xdr::Encoder(arguments).opaque(token);
    const auto octets = [](const xdr::Message& message) {
      const xdr::ConstBytes bytes = message.stream.bytes();
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const aux::RawCall call{rpc::kNfsProgram, options_.version, 0, "RPCSEC_GSS", octets(arguments)};
    auto reply = send({gss::kRpcsecGss, octets(credential)}, call);
    if (!reply) return reply.error();
    auto answer = decoded(reply->results);
    if (!answer) return lies("its answer cannot be decoded");
    if (GSS_ERROR(answer->status.major) != 0) return server_failure(answer->status, about_);
    begun_ = true;
    is_served_ = answer->status.major == GSS_S_COMPLETE;
    out_.handle = std::move(answer->handle);
    out_.window = answer->window;
    verifier_ = std::move(reply->verifier);
    return std::move(answer->token);
  }

  /// Sends the call to the first address that accepts a connection.
  Result<aux::RawReply> send(const aux::RawCredential& credential, const aux::RawCall& call) {
    std::optional<Error> first;
    while (!options_.addresses.empty()) {
      const aux::Remote remote{options_.addresses.front(), options_.server, aux::Transport::tcp, kept_};
      auto reply = aux::call_and_wait(remote, credential, call, deadline_);
      if (reply) return reply;
      if (!first) first = reply.error();
      if (reply.error().kind() != ErrorKind::connection) return explained(reply.error());
      options_.addresses.erase(options_.addresses.begin());
    }
    return explained(*first);
  }
  [[nodiscard]] Error explained(const Error& why) const {
    if (why.kind() == ErrorKind::connection && why.errno_value() == ETIMEDOUT) {
      return {why.kind(), why.errno_value(), "Kerberos", about_.server,
              "the server does not answer on TCP port 2049 (gssport=), where security contexts are created: "
              "check that rpc.svcgssd or gssproxy runs there, and that no firewall drops the packets"};
    }
    if (why.kind() == ErrorKind::connection) {
      return {why.kind(), why.errno_value(), "Kerberos", about_.server,
              "security contexts are created over TCP on port 2049 (gssport=), and the server was not "
              "reached there: " +
                  why.message()};
    }
    if (why.errno_value() != EACCES) return why;
    return {ErrorKind::server, EACCES, "Kerberos", about_.server,
            "the server does not accept Kerberos: check that rpc.svcgssd or gssproxy runs there, and that "
            "there is a key of nfs/" +
                about_.server + " in its keytab (" + why.message() + ")"};
  }

  Result<Established> finish() {
    std::array<std::byte, 4> window{};
    xdr::store_u32(window.data(), out_.window);
    gss_buffer_desc message{window.size(), window.data()}, code{verifier_.size(), verifier_.data()};
    OM_uint32 minor = 0;
    if (::gss_verify_mic(&minor, out_.context.get(), &message, &code, nullptr) != GSS_S_COMPLETE)
      return lies("its description of the context is not signed by it");
    if (out_.window == 0) return lies("it accepts no sequence number");
    return std::move(out_);
  }
  [[nodiscard]] Error lies(const std::string& how) const {
    return {ErrorKind::protocol, EACCES, "Kerberos", about_.server,
            "the server cannot be trusted: " + how + "; please report this with a capture of the traffic"};
  }

  KerberosOptions options_;
  const Whose whose_;
  const About about_;
  const async::TimePoint deadline_;
  // One connection is kept for all Calls, because a server may expect the negotiation on one.
  const std::shared_ptr<aux::KeptConnections> kept_ = aux::keep_connections();
  Established out_;
  std::vector<std::byte> verifier_;  // verifier of the server's last answer
  bool begun_ = false, is_complete_ = false, is_served_ = false;
};

class Kerberos final : public gss::Mechanism {
 public:
  Kerberos(async::Loop& loop, KerberosOptions options) : loop_(loop), options_(std::move(options)) {}

  async::Task<Result<std::shared_ptr<gss::Context>>> establish(security::Caller caller) override {
    using Made = Result<Established>;
    if (options_.no_core) (void)::prctl(PR_SET_DUMPABLE, 0);
    const Whose whose = whose_of(caller);
    const async::TimePoint now = loop_.now();
    const async::TimePoint deadline = now + options_.patience;
    const auto making = std::make_shared<Making>(options_, whose, deadline);
    const std::function<Made()> work = [making] { return making->run(); };
    auto made = co_await async::on_helper<Made>(loop_, deadline + 1s, work);
    if (!made) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "Kerberos", options_.server,
                      "no ticket for nfs/" + options_.server +
                          " could be obtained in time: check that the realm's KDC answers");
    }
    if (!*made) co_return made->error();
    co_return make_context(loop_, std::move(**made), now);
  }

  [[nodiscard]] std::string name_of(const security::Caller& caller) const override {
    return whose_of(caller).name();
  }
  [[nodiscard]] std::size_t longest_code() const override { return kLongestCode; }
  [[nodiscard]] std::size_t wrapping_adds() const override { return kWrappingAdds; }

 private:
  [[nodiscard]] Whose whose_of(const security::Caller& caller) const {
    const bool is_user = caller && options_.many_users && caller->uid != ::geteuid();
    if (is_user) return {"", "", "", Whose::User{caller->uid, caller->gid}};
    return {options_.keytab, options_.host, options_.ccache, std::nullopt};
  }

  async::Loop& loop_;
  const KerberosOptions options_;
};

}  // namespace

std::string system_keytab() {
  const char* const named = ::secure_getenv("KRB5_CLIENT_KTNAME");
  std::string path = named != nullptr ? named : "/etc/krb5.keytab";
  if (path.starts_with("FILE:")) path.erase(0, 5);
  return ::access(path.c_str(), R_OK) == 0 ? path : "";
}

std::shared_ptr<gss::Mechanism> make_kerberos(async::Loop& loop, KerberosOptions options) {
  return std::make_shared<Kerberos>(loop, std::move(options));
}

}  // namespace nfsrdma::krb5
