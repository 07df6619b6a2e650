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
#include <vector>

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
/// The Error of an answer that cannot be decoded.
Error undecodable(const RawCall& call, const Remote& remote);

template <class P>
async::Task<Result<typename P::Res>> call(async::Loop& loop, Remote remote, security::Identity identity,
                                          typename P::Args args, async::TimePoint deadline) {
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, args);
  RawCall raw{P::program, P::version, P::number, P::name, {}};
  const xdr::ConstBytes bytes = message.stream.bytes();
  raw.arguments.assign(bytes.begin(), bytes.end());
  auto results = co_await call_raw(loop, remote, std::move(identity), raw, deadline);
  if (!results) co_return results.error();
  typename P::Res res;
  xdr::Decoder in(*results);
  if (!xdr::decode(in, res) || !in.finish()) co_return undecodable(raw, remote);
  co_return std::move(res);
}

}  // namespace nfsrdma::aux
