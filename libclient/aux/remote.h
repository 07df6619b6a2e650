// Makes one call to a service other than NFS (rpcbind, mountd, lockd, statd), over TCP or UDP. libtirpc makes
// the call and blocks, so each call runs on a helper thread, with a connection of its own, and ends at its
// deadline.
//
// A caller that calls one program often keeps its TCP connections (Remote::kept): a call takes an idle
// connection and puts it back. If a call finds such a connection closed, because the server dropped it or has
// restarted, the call is made again on another one; the server may therefore execute it more than once.
//
//     const Remote remote{address, "server", Transport::tcp};
//     auto exports = co_await call<EXPORT3>(loop, remote, identity, {}, deadline);
//
// libtirpc makes the messages and the connection. Arguments and results are this project's own types
// (xdr/xdr.h), whose decoder limits what a server can send.
//
// Confined to the loop's thread, except call_and_wait(), which any thread may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/function_ref.h"
#include "async/helper.h"
#include "nfsrdma/result.h"
#include "rpc/channel.h"
#include "security/identity.h"
#include "xdr/procedure.h"

namespace nfsrdma::aux {

enum class Transport : std::uint8_t { tcp, udp };

class KeptConnections;
/// Makes an empty set of kept connections, for calls to one version of one program at one address.
std::shared_ptr<KeptConnections> keep_connections();

struct Remote {
  rpc::Address address;  ///< includes the port
  std::string server;    ///< the server's name as the user gave it, for messages
  Transport transport = Transport::tcp;
  std::shared_ptr<KeptConnections> kept = nullptr;  ///< null: each call has a connection of its own
};

/// A credential of any flavor. Its verifier is AUTH_NONE (RFC 5531 8.2).
struct RawCredential {
  std::uint32_t flavor = 0;
  std::vector<std::byte> body;
};

struct RawReply {
  std::vector<std::byte> results;
  std::vector<std::byte> verifier;
};

/// A call in numbers and bytes, as libtirpc gets it.
struct RawCall {
  std::uint32_t program = 0, version = 0, procedure = 0;
  const char* name = "";
  std::vector<std::byte> arguments;
};

/// Makes the call and returns at the deadline at the latest. An Error of kind server means that the server
/// refused the call; with EPROTONOSUPPORT it does not have the program or the version.
Result<std::vector<std::byte>> call_and_wait(const Remote& remote, const security::Identity& identity,
                                             const RawCall& call, async::TimePoint deadline);
Result<RawReply> call_and_wait(const Remote& remote, const RawCredential& credential, const RawCall& call,
                               async::TimePoint deadline);

async::Task<Result<std::vector<std::byte>>> call_raw(async::Loop& loop, Remote remote,
                                                     security::Identity identity, RawCall call,
                                                     async::TimePoint deadline);
/// Makes the call and has its results decoded. `decode` returns false if they are not what it expects; octets behind
/// them are not expected either.
async::Task<Status> call_raw(async::Loop& loop, Remote remote, security::Identity identity, RawCall call,
                             async::TimePoint deadline, async::FunctionRef<bool(xdr::Decoder&)> decode);

/// Returns a call of P with these arguments.
template <class P>
RawCall raw_call(const typename P::Args& args) {
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, args);
  const xdr::ConstBytes bytes = message.stream.bytes();
  return {P::program, P::version, P::number, P::name, {bytes.begin(), bytes.end()}};
}

template <class P>
async::Task<Result<typename P::Res>> call(async::Loop& loop, Remote remote, security::Identity identity,
                                          typename P::Args args, async::TimePoint deadline) {
  typename P::Res res;
  auto done = co_await call_raw(loop, std::move(remote), std::move(identity), raw_call<P>(args), deadline,
                                [&](xdr::Decoder& in) { return xdr::decode(in, res); });
  if (!done) co_return done.error();
  co_return std::move(res);
}

}  // namespace nfsrdma::aux
