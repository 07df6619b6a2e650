// ONC RPC messages (RFC 5531): the Call header with its credential, the Reply header with its verdict. Both
// kinds are written and read, because a client also answers Calls, those of its backchannel.
//
// A credential is encoded once and copied into each Call. Pure functions and values; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/result.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::rpc {

inline constexpr std::uint32_t kNfsProgram = 100003;

/// Size of the header of a Reply to a Call that was executed (RFC 5531 9): xid, REPLY, MSG_ACCEPTED, a
/// verifier without a body (flavor and length), SUCCESS.
inline constexpr std::size_t kReplyHeaderSize = 6 * 4;

/// RFC 5531 8.2: the body of a credential or verifier has at most this many bytes.
inline constexpr std::size_t kMostAuthBytes = 400;

/// An encoded credential and verifier (RFC 5531 8.2), in the form in which a Call has them.
class Credential {
 public:
  static Credential none();
  /// A placeholder that names no user, and is replaced when the Call is sealed. The verifier of a Reply has
  /// at most `largest_verifier` bytes.
  static Credential to_be_sealed(std::size_t largest_verifier);
  /// AUTH_SYS (RFC 5531 appendix A): at most 16 groups go in, and 255 bytes of machine name.
  static Credential sys(std::string_view machine, std::uint32_t uid, std::uint32_t gid,
                        std::span<const std::uint32_t> groups);
  [[nodiscard]] xdr::ConstBytes encoded() const { return encoded_; }
  /// Returns the largest header of a Reply to a Call with this credential, without the results.
  [[nodiscard]] std::size_t largest_reply_header() const { return kReplyHeaderSize + largest_verifier_; }

 private:
  std::vector<std::byte> encoded_;
  std::size_t largest_verifier_ = 0;  // the padded body of the verifier in a Reply
};

/// Starts a Call. The xid is left zero for the transport to fill in. The procedure's arguments follow.
void begin_call(xdr::Message& message, std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                const Credential& credential);

/// Why an RPC layer refused a Call (RFC 5531 9).
enum class Refusal : std::uint8_t {
  none,
  undecodable,    ///< not an RPC Reply
  program,        ///< PROG_UNAVAIL
  version,        ///< PROG_MISMATCH
  procedure,      ///< PROC_UNAVAIL
  garbage_args,   ///< GARBAGE_ARGS
  system,         ///< SYSTEM_ERR
  rpc_version,    ///< RPC_MISMATCH
  authentication  ///< AUTH_ERROR
};

struct ReplyHeader {
  Refusal refusal = Refusal::undecodable;
  std::uint32_t detail = 0;   ///< auth_stat, or the lowest version of a mismatch
  std::uint32_t highest = 0;  ///< the highest version of a mismatch
  // The fields below are valid if the Call was accepted.
  std::uint32_t verifier_flavor = 0;
  xdr::ConstBytes verifier = {};  ///< a view of the bytes that were read
};

/// Reads the header. If the Call was not refused, the decoder is then at the results.
ReplyHeader read_reply(xdr::Decoder& in);

/// The header of a Call that the peer sent.
struct CallHeader {
  std::uint32_t xid = 0, program = 0, version = 0, procedure = 0;
  std::uint32_t flavor = 0;    ///< flavor of the credential
  xdr::ConstBytes credential;  ///< body of the credential, a view of the bytes that were read
  /// The refusal that the header alone requires: another RPC version, a malformed credential or verifier.
  /// Refusal::undecodable means that this is not a Call, and there is nothing to answer.
  ReplyHeader verdict;
};
/// Reads the header. If nothing is to be refused, the decoder is then at the arguments.
CallHeader read_call(xdr::Decoder& in);

/// Starts the Reply to the Call `xid`, with an empty verifier. Writes the whole Reply if the verdict is a
/// refusal, else everything up to the results. The verdict must not be Refusal::undecodable.
void begin_reply(xdr::Message& message, std::uint32_t xid, const ReplyHeader& verdict);

inline constexpr std::uint32_t kAuthBadCred = 1, kAuthBadVerf = 3;  ///< auth_stat values, RFC 5531 9

/// The accept_stat that Error::status() returns, RFC 5531 9.
inline constexpr std::uint32_t kGarbageArgs = 4;

/// The program and version that were called, for messages.
struct Called {
  const char* program = "NFS";
  std::uint32_t version = 0;
};
/// Returns the Error for a refusal of a call to `what`, for `operation` at `peer`. EPROTONOSUPPORT means that
/// `what` is not served there.
Error refusal_error(const ReplyHeader& header, const Called& what, std::string operation, std::string peer);

}  // namespace nfsrdma::rpc
