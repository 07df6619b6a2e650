#include "aux/remote.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "async/descriptor.h"
#include "fabric/address.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;

/// Bounds lists of exports and of mounts, which have no bound of their own.
constexpr std::size_t kMostResults = 4U << 20;
constexpr unsigned kDatagram = 8800;
/// A datagram or its answer may be lost: it is sent again after this time, and then each time after twice as
/// long.
constexpr timeval kFirstAgain{1, 0};

async::Clock::duration left(async::TimePoint deadline) {
  return std::max(deadline - async::Clock::now(), async::Clock::duration::zero());
}
timeval to_timeval(async::Clock::duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return {us / 1000000, us % 1000000};
}

struct DestroyClient {
  void operator()(CLIENT* client) const { clnt_destroy(client); }
};
struct DestroyAuth {
  void operator()(AUTH* auth) const { auth_destroy(auth); }
};

/// Members in the order of dependence: the client uses the socket.
struct Connected {
  explicit Connected(int fd) : socket(fd) {}
  const async::Descriptor socket;
  std::unique_ptr<CLIENT, DestroyClient> client;
};

// ---- arguments and results for libtirpc: bytes that are XDR already ----

struct Raw {
  std::vector<std::byte> bytes;
};

bool_t put_raw(XDR* xdrs, void* argument) {
  auto& raw = *static_cast<Raw*>(argument);
  if (xdrs->x_op != XDR_ENCODE) return TRUE;
  return xdr_opaque(xdrs, reinterpret_cast<char*>(raw.bytes.data()), static_cast<u_int>(raw.bytes.size()));
}

/// Takes the rest of the record, word by word, because the record's end shows only as a word that cannot be
/// read.
bool_t take_raw(XDR* xdrs, void* argument) {
  auto& raw = *static_cast<Raw*>(argument);
  if (xdrs->x_op != XDR_DECODE) return TRUE;
  while (raw.bytes.size() < kMostResults) {
    std::uint32_t word = 0;
    if (xdr_uint32_t(xdrs, &word) == FALSE) return TRUE;
    std::array<std::byte, 4> bytes{};
    xdr::store_u32(bytes.data(), word);
    raw.bytes.insert(raw.bytes.end(), bytes.begin(), bytes.end());
  }
  return FALSE;
}

/// Binds to a privileged port, because servers usually require one (exports(5): secure). If none is free, an
/// ordinary port is used.
void bind_low(int fd, int family) {
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  (void)::bindresvport_sa(fd, reinterpret_cast<sockaddr*>(&any));
}

/// Returns 0, or an errno.
int connect_until(int fd, const rpc::Address& address, async::TimePoint deadline) {
  const int flags = ::fcntl(fd, F_GETFL);
  (void)::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length);
  if (result != 0 && errno == EINPROGRESS) {
    pollfd one{fd, POLLOUT, 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(deadline)).count();
    if (::poll(&one, 1, static_cast<int>(ms)) <= 0) return ETIMEDOUT;
    int why = 0;
    socklen_t size = sizeof why;
    (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size);
    result = why;
  } else if (result != 0) {
    result = errno;
  }
  (void)::fcntl(fd, F_SETFL, flags);
  return result;
}

Error failure(const Remote& remote, const RawCall& call, int errno_value, std::string text) {
  return {ErrorKind::connection, errno_value, call.name,
          fabric::peer_text(remote.address.storage, remote.server), std::move(text)};
}

Error not_reached(const Remote& remote, const RawCall& call, int errno_value) {
  const bool silent = errno_value == ETIMEDOUT;
  return failure(remote, call, errno_value,
                 silent ? "no answer; a firewall may drop the packets to this port"
                        : std::string(std::strerror(errno_value)) + "; is the service running there?");
}

Error refused(const Remote& remote, const RawCall& call, CLIENT& client, clnt_stat status) {
  rpc_err why{};
  clnt_geterr(&client, &why);
  const auto make = [&](int errno_value, std::string text) {
    return Error(ErrorKind::server, errno_value, call.name,
                 fabric::peer_text(remote.address.storage, remote.server), std::move(text));
  };
  switch (status) {
    case RPC_TIMEDOUT:
      return not_reached(remote, call, ETIMEDOUT);
    case RPC_CANTSEND:
    case RPC_CANTRECV:
      return failure(remote, call, why.re_errno != 0 ? why.re_errno : ECONNRESET,
                     std::string("the connection was lost: ") + std::strerror(why.re_errno));
    case RPC_PROGUNAVAIL:
      return make(EPROTONOSUPPORT, "the server does not offer this service on this port");
    case RPC_PROGVERSMISMATCH:
      return make(EPROTONOSUPPORT, "the server speaks versions " + std::to_string(why.re_vers.low) + " to " +
                                       std::to_string(why.re_vers.high) + " of this service, not " +
                                       std::to_string(call.version));
    case RPC_PROCUNAVAIL:
      return make(EOPNOTSUPP, "the server does not have this procedure");
    case RPC_AUTHERROR:
      return make(EACCES, "the server refused the credential (auth_stat " +
                              std::to_string(static_cast<int>(why.re_why)) + ")");
    default:
      return make(EIO, std::string("the call failed: ") + clnt_sperrno(status));
  }
}

}  // namespace

/// The idle connections. For use from any thread.
class KeptConnections {
 public:
  /// Returns null if there is none.
  std::unique_ptr<Connected> take() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto last = std::move(idle_.back());
    idle_.pop_back();
    return last;
  }
  void give(std::unique_ptr<Connected> one) {
    constexpr std::size_t kMost = 4;
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < kMost) idle_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connected>> idle_;
};

std::shared_ptr<KeptConnections> keep_connections() {
  return std::make_shared<KeptConnections>();
}

namespace {

Result<std::unique_ptr<Connected>> connected(const Remote& remote, const RawCall& call,
                                             async::TimePoint deadline) {
  const int family = remote.address.storage.ss_family;
  const bool tcp = remote.transport == Transport::tcp;
  auto out =
      std::make_unique<Connected>(::socket(family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0));
  const int fd = out->socket.get();
  if (fd < 0)
    return failure(remote, call, errno, std::string("cannot create a socket: ") + std::strerror(errno));
  bind_low(fd, family);
  if (const int why = connect_until(fd, remote.address, deadline); why != 0)
    return not_reached(remote, call, why);
  netbuf to{remote.address.length, remote.address.length,
            const_cast<sockaddr_storage*>(&remote.address.storage)};  // NOLINT: libtirpc only reads it
  out->client.reset(tcp ? clnt_vc_create(fd, &to, call.program, call.version, 0, 0)
                        : clnt_dg_create(fd, &to, call.program, call.version, kDatagram, kDatagram));
  if (!out->client) return failure(remote, call, EIO, clnt_spcreateerror("cannot create an RPC client"));
  if (!tcp) {
    timeval again = kFirstAgain;
    (void)clnt_control(out->client.get(), CLSET_RETRY_TIMEOUT, reinterpret_cast<char*>(&again));
  }
  return out;
}

/// Makes one call over an open connection.
clnt_stat ask(CLIENT& client, AUTH* auth, const RawCall& call, Raw& results, async::TimePoint deadline) {
  AUTH* const before = client.cl_auth;
  if (auth != nullptr) client.cl_auth = auth;
  Raw arguments{call.arguments};
  const clnt_stat status =
      clnt_call(&client, call.procedure, reinterpret_cast<xdrproc_t>(&put_raw), &arguments,
                reinterpret_cast<xdrproc_t>(&take_raw), &results, to_timeval(left(deadline)));
  client.cl_auth = before;
  return status;
}

Result<std::vector<std::byte>> call_as(const Remote& remote, AUTH* auth, const RawCall& call,
                                       async::TimePoint deadline) {
  KeptConnections* const kept = remote.transport == Transport::tcp ? remote.kept.get() : nullptr;
  for (;;) {
    std::unique_ptr<Connected> over = kept != nullptr ? kept->take() : nullptr;
    const bool used = over != nullptr;
    if (!used) {
      auto fresh = connected(remote, call, deadline);
      if (!fresh) return fresh.error();
      over = std::move(*fresh);
    }
    Raw results;
    const clnt_stat status = ask(*over->client, auth, call, results, deadline);
    if (status == RPC_SUCCESS) {
      if (kept != nullptr) kept->give(std::move(over));
      return std::move(results.bytes);
    }
    const bool closed = status == RPC_CANTSEND || status == RPC_CANTRECV;
    if (!used || !closed) return refused(remote, call, *over->client, status);
  }
}

// ---- a given credential as libtirpc's AUTH ----

/// The object behind the AUTH's `ah_private`.
struct Given {
  const RawCredential& credential;
  RawReply reply;
};
Given& given(AUTH* auth) {
  return *static_cast<Given*>(auth->ah_private);
}

void next_verifier(AUTH* /*auth*/) {}
int put_credential(AUTH* auth, XDR* xdrs) {
  const RawCredential& credential = given(auth).credential;
  opaque_auth shown{};
  shown.oa_flavor = static_cast<enum_t>(credential.flavor);
  shown.oa_base =
      const_cast<char*>(reinterpret_cast<const char*>(credential.body.data()));  // NOLINT: only read
  shown.oa_length = static_cast<u_int>(credential.body.size());
  opaque_auth none{};
  return static_cast<int>(xdr_opaque_auth(xdrs, &shown) != FALSE && xdr_opaque_auth(xdrs, &none) != FALSE);
}
int keep_verifier(AUTH* auth, opaque_auth* verifier) {
  RawReply& reply = given(auth).reply;
  const auto* const bytes = reinterpret_cast<const std::byte*>(verifier->oa_base);
  reply.verifier.assign(bytes, bytes + verifier->oa_length);
  return TRUE;
}
int never_again(AUTH* /*auth*/, void* /*message*/) {
  return FALSE;
}
int as_it_is(AUTH* /*auth*/, XDR* xdrs, xdrproc_t code, caddr_t what) {
  // `code` has this type: it is put_raw or take_raw.
  return reinterpret_cast<bool_t (*)(XDR*, void*)>(code)(xdrs, what);
}
void leave(AUTH* /*auth*/) {}

}  // namespace

Result<std::vector<std::byte>> call_and_wait(const Remote& remote, const security::Identity& identity,
                                             const RawCall& call, async::TimePoint deadline) {
  char host[256] = "localhost";
  (void)::gethostname(host, sizeof host - 1);
  std::vector<gid_t> groups(identity.groups.begin(),
                            identity.groups.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                          identity.groups.size(), NGRPS)));
  const std::unique_ptr<AUTH, DestroyAuth> auth(
      authunix_create(host, identity.uid, identity.gid, static_cast<int>(groups.size()), groups.data()));
  return call_as(remote, auth.get(), call, deadline);
}

Result<RawReply> call_and_wait(const Remote& remote, const RawCredential& credential, const RawCall& call,
                               async::TimePoint deadline) {
  Given given{credential, {}};
  AUTH::auth_ops how{next_verifier, put_credential, keep_verifier, never_again, leave, as_it_is, as_it_is};
  AUTH auth{};
  auth.ah_cred.oa_flavor = static_cast<enum_t>(credential.flavor);
  auth.ah_ops = &how;
  auth.ah_private = &given;
  auto results = call_as(remote, &auth, call, deadline);
  if (!results) return results.error();
  given.reply.results = std::move(*results);
  return std::move(given.reply);
}

async::Task<Result<std::vector<std::byte>>> call_raw(async::Loop& loop, Remote remote,
                                                     security::Identity identity, RawCall call,
                                                     async::TimePoint deadline) {
  using Bytes = Result<std::vector<std::byte>>;
  const std::function<Bytes()> work = [remote, identity, call, deadline] {
    return call_and_wait(remote, identity, call, deadline);
  };
  // The call ends by itself at the deadline and reports how; the extra second lets it.
  auto done = co_await async::on_helper<Bytes>(loop, deadline + 1s, work);
  if (!done) co_return not_reached(remote, call, ETIMEDOUT);
  co_return std::move(*done);
}

async::Task<Status> call_raw(async::Loop& loop, Remote remote, security::Identity identity, RawCall call,
                             async::TimePoint deadline, async::FunctionRef<bool(xdr::Decoder&)> decode) {
  auto results = co_await call_raw(loop, remote, std::move(identity), call, deadline);
  if (!results) co_return results.error();
  xdr::Decoder in(*results);
  if (decode(in) && in.finish()) co_return Status();
  co_return Error(ErrorKind::protocol, EPROTO, call.name,
                  fabric::peer_text(remote.address.storage, remote.server),
                  "the server's answer cannot be decoded; please report this with a capture of the traffic");
}

}  // namespace nfsrdma::aux
