#include "rpc/message.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace nfsrdma::rpc {
namespace {

constexpr std::uint32_t kCall = 0, kReply = 1;
constexpr std::uint32_t kRpcVersion = 2;
constexpr std::uint32_t kAccepted = 0, kDenied = 1;
constexpr std::uint32_t kRpcMismatch = 0, kAuthError = 1;
/// The meaning of each accept_stat, indexed by its number.
constexpr Refusal kVerdicts[] = {Refusal::none,      Refusal::program,      Refusal::version,
                                 Refusal::procedure, Refusal::garbage_args, Refusal::system};
constexpr std::uint32_t kAuthNone = 0, kAuthSys = 1;
constexpr std::size_t kMaxGroups = 16, kMaxMachineName = 255;  // RFC 5531 appendix A

std::vector<std::byte> bytes_of(const xdr::Message& message) {
  const auto bytes = message.stream.bytes();
  return {bytes.begin(), bytes.end()};
}

void no_verifier(xdr::Encoder& out) {
  out.u32(kAuthNone);
  out.u32(0);
}

}  // namespace

Credential Credential::none() {
  xdr::Message message;
  xdr::Encoder out(message);
  no_verifier(out);
  no_verifier(out);
  Credential credential;
  credential.encoded_ = bytes_of(message);
  return credential;
}

Credential Credential::to_be_sealed(std::size_t largest_verifier) {
  Credential credential = none();
  credential.largest_verifier_ = xdr::padded(largest_verifier);
  return credential;
}

Credential Credential::sys(std::string_view machine, std::uint32_t uid, std::uint32_t gid,
                           std::span<const std::uint32_t> groups) {
  xdr::Message body;
  xdr::Encoder in(body);
  in.u32(0);  // the stamp is "arbitrary", and nothing uses it
  machine = machine.substr(0, kMaxMachineName);
  in.opaque(std::as_bytes(std::span(machine.data(), machine.size())));
  in.u32(uid);
  in.u32(gid);
  groups = groups.first(std::min(groups.size(), kMaxGroups));
  in.u32(static_cast<std::uint32_t>(groups.size()));
  for (const std::uint32_t group : groups) in.u32(group);

  xdr::Message message;
  xdr::Encoder out(message);
  out.u32(kAuthSys);
  out.opaque(body.stream.bytes());
  no_verifier(out);
  Credential credential;
  // RFC 5531 appendix A: the Reply's verifier may be an AUTH_SHORT, an opaque of up to 400 bytes that stands
  // for the whole credential.
  credential.largest_verifier_ = kMostAuthBytes;
  credential.encoded_ = bytes_of(message);
  return credential;
}

void begin_call(xdr::Message& message, std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                const Credential& credential) {
  xdr::Encoder out(message);
  out.u32(0);
  out.u32(kCall);
  out.u32(kRpcVersion);
  out.u32(program);
  out.u32(version);
  out.u32(procedure);
  out.fixed(credential.encoded());
}

ReplyHeader read_reply(xdr::Decoder& in) {
  std::uint32_t xid = 0, direction = 0, stat = 0;
  ReplyHeader header;
  if (!in.u32(xid) || !in.u32(direction) || !in.u32(stat) || direction != kReply) return header;
  if (stat == kAccepted) {
    std::uint32_t verdict = 0;
    if (!in.u32(header.verifier_flavor) || !in.opaque(kMostAuthBytes, header.verifier) || !in.u32(verdict))
      return header;
    if (verdict >= std::size(kVerdicts)) return header;
    if (kVerdicts[verdict] == Refusal::version && (!in.u32(header.detail) || !in.u32(header.highest)))
      return header;
    header.refusal = kVerdicts[verdict];
  } else if (stat == kDenied) {
    std::uint32_t why = 0;
    if (!in.u32(why) || !in.u32(header.detail)) return header;
    if (why == kRpcMismatch && in.u32(header.highest)) header.refusal = Refusal::rpc_version;
    if (why == kAuthError) header.refusal = Refusal::authentication;
  }
  return header;
}

CallHeader read_call(xdr::Decoder& in) {
  CallHeader call;
  std::uint32_t direction = 0, rpc_version = 0, verifier_flavor = 0;
  xdr::ConstBytes verifier;
  if (!in.u32(call.xid) || !in.u32(direction) || direction != kCall || !in.u32(rpc_version)) return call;
  if (rpc_version != kRpcVersion) {  // the rest has the format of that version
    call.verdict = {Refusal::rpc_version, kRpcVersion, kRpcVersion};
    return call;
  }
  if (!in.u32(call.program) || !in.u32(call.version) || !in.u32(call.procedure)) return call;
  if (!in.u32(call.flavor) || !in.opaque(kMostAuthBytes, call.credential)) {
    call.verdict = {Refusal::authentication, kAuthBadCred, 0};
  } else if (!in.u32(verifier_flavor) || !in.opaque(kMostAuthBytes, verifier)) {
    call.verdict = {Refusal::authentication, kAuthBadVerf, 0};
  } else {
    call.verdict = {Refusal::none, 0, 0};
  }
  return call;
}

void begin_reply(xdr::Message& message, std::uint32_t xid, const ReplyHeader& verdict) {
  assert(verdict.refusal != Refusal::undecodable);
  xdr::Encoder out(message);
  out.u32(xid);
  out.u32(kReply);
  if (verdict.refusal == Refusal::rpc_version || verdict.refusal == Refusal::authentication) {
    const bool mismatch = verdict.refusal == Refusal::rpc_version;
    out.u32(kDenied);
    out.u32(mismatch ? kRpcMismatch : kAuthError);
    out.u32(verdict.detail);
    if (mismatch) out.u32(verdict.highest);
    return;
  }
  out.u32(kAccepted);
  no_verifier(out);
  const auto* row = std::ranges::find(kVerdicts, verdict.refusal);
  out.u32(static_cast<std::uint32_t>(row - std::begin(kVerdicts)));
  if (verdict.refusal == Refusal::version) {
    out.u32(verdict.detail);
    out.u32(verdict.highest);
  }
}

Error refusal_error(const ReplyHeader& header, const Called& what, std::string operation, std::string peer) {
  const auto make = [&](int err, std::string text) {
    const ErrorKind kind = header.refusal == Refusal::undecodable ? ErrorKind::protocol : ErrorKind::server;
    return Error(kind, err, header.detail, std::move(operation), std::move(peer), std::move(text));
  };
  const std::string range = std::to_string(header.detail) + " to " + std::to_string(header.highest);
  const std::string program = what.program;
  const std::string version = std::to_string(what.version);
  switch (header.refusal) {
    case Refusal::program:
      return make(EPROTONOSUPPORT, "this port serves RPC, but not " + program +
                                       "; give the server's NFS/RDMA port with port=");
    case Refusal::version:
      return make(EPROTONOSUPPORT, "the server speaks " + program + " versions " + range + " here, not " +
                                       version + "; choose one of those with vers=, or enable " + program +
                                       "v" + version + " on the server");
    case Refusal::procedure:
      return make(EOPNOTSUPP, "the server does not have this procedure of " + program + "v" + version);
    case Refusal::garbage_args:
      return {ErrorKind::server,
              EIO,
              kGarbageArgs,
              std::move(operation),
              std::move(peer),
              "the server could not decode the request; please report this with a capture of the traffic"};
    case Refusal::system:
      return make(EIO, "the server had an internal error; look at its log, then try again");
    case Refusal::rpc_version:
      return make(EPROTO, "the server speaks RPC versions " + range + ", not 2");
    case Refusal::authentication:
      return make(EACCES,
                  "the server refused the credential (auth_stat " + std::to_string(header.detail) +
                      "); check that the export allows this client the security flavour in use (sec=)");
    case Refusal::none:
    case Refusal::undecodable:
      break;
  }
  return make(EPROTO,
              "the server's answer is not an RPC Reply; please report this with a capture of the traffic");
}

}  // namespace nfsrdma::rpc
