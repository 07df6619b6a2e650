// One call of a program beside NFS, over TCP or UDP, by libtirpc: it blocks, so it runs on a helper's thread, each
// with a connection of its own, and ends with its deadline.
//
// Whoever calls one program often keeps its TCP connections (Remote::kept): a call takes one that is idle, and leaves it
// behind. What such a call finds closed, since the server had enough of it or has restarted, is made anew once, so that
// the server may execute the call twice.
//
//     auto exports = co_await call<EXPORT3>(loop, {address, "server", Transport::tcp}, identity, {}, deadline);
//
// libtirpc makes the messages and the connection; arguments and results are this project's own types (xdr/xdr.h),
// whose decoder bounds what a server may say.
//
// Confined to the loop's thread, but for call_and_wait(), which any thread may call.
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
/// For the calls of one program and version at one address.
std::shared_ptr<KeptConnections> keep_connections();

struct Remote {
  rpc::Address address;  ///< with the port
  std::string server;    ///< as the user calls it, for messages
  Transport transport = Transport::tcp;
  std::shared_ptr<KeptConnections> kept = nullptr;  ///< none: each call has a connection of its own
};

/// A credential of any flavor, with a verifier that is none (RFC 5531 8.2).
struct RawCredential {
  std::uint32_t flavor = 0;
  std::vector<std::byte> body;
};

struct RawReply {
  std::vector<std::byte> results;
  std::vector<std::byte> verifier;
};

/// As numbers and bytes: what libtirpc is given.
struct RawCall {
  std::uint32_t program = 0, version = 0, procedure = 0;
  const char* name = "";
  std::vector<std::byte> arguments;
};

/// Ends at the deadline. An Error of kind server where the server refused the call; EPROTONOSUPPORT then says
/// that it does not have the program or the version.
Result<std::vector<std::byte>> call_and_wait(const Remote& remote, const security::Identity& identity,
                                             const RawCall& call, async::TimePoint deadline);
Result<RawReply> call_and_wait(const Remote& remote, const RawCredential& credential, const RawCall& call,
                               async::TimePoint deadline);

async::Task<Result<std::vector<std::byte>>> call_raw(async::Loop& loop, Remote remote,
                                                     security::Identity identity, RawCall call,
                                                     async::TimePoint deadline);
/// The answer cannot be decoded.
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
