// A security context: the keys and the state on which a caller and a server have agreed, by any mechanism
// (RFC 2743). flavor.h frames RPC messages with it.
//
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "async/task.h"
#include "nfsrdma/result.h"
#include "security/identity.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::gss {

using Octets = std::vector<std::byte>;
/// Consecutive pieces of one message.
using Pieces = std::span<const xdr::ConstBytes>;

class Context {
 public:
  Context() = default;
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns the server's name for the context.
  [[nodiscard]] virtual xdr::ConstBytes handle() const = 0;
  /// Returns the size of the sequence window: how far below the highest sequence number that the server has
  /// seen it still accepts a number.
  [[nodiscard]] virtual std::uint32_t window() const = 0;
  /// Returns true if it is time to establish another context, while this one can still be used.
  [[nodiscard]] virtual bool ends_soon() const = 0;
  /// Returns true if the context cannot be used any more.
  [[nodiscard]] virtual bool has_ended() const = 0;

  /// Returns a Message Integrity Code. EKEYEXPIRED: the context has expired.
  virtual Result<Octets> sign(Pieces message) = 0;
  [[nodiscard]] virtual bool is_signed(Pieces message, xdr::ConstBytes code) = 0;
  /// Appends the message to `out`, encrypted and signed.
  virtual Status wrap(Pieces message, xdr::Buffer& out) = 0;
  /// Decrypts in place and returns the content. An Error means that this is not what the server wrapped.
  virtual Result<xdr::ConstBytes> unwrap(std::span<std::byte> wrapped) = 0;
};

/// Makes contexts with one server.
class Mechanism {
 public:
  Mechanism() = default;
  virtual ~Mechanism() = default;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  /// Establishes a context for the caller. An Error says what the caller can do, such as to run kinit; kind
  /// connection or timeout means that a later attempt may succeed. The task ends by itself: it has a time
  /// limit of its own.
  virtual async::Task<Result<std::shared_ptr<Context>>> establish(security::Caller caller) = 0;
  /// Returns a name for the caller, for messages.
  [[nodiscard]] virtual std::string name_of(const security::Caller& caller) const = 0;
  /// Upper bounds for all contexts: the length of a code, and how many bytes wrapping adds to a message.
  [[nodiscard]] virtual std::size_t longest_code() const = 0;
  [[nodiscard]] virtual std::size_t wrapping_adds() const = 0;
};

}  // namespace nfsrdma::gss
