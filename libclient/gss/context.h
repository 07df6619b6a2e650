// A security context: what a caller and a server have agreed on, by whatever mechanism (RFC 2743). The framing that stands
// on it is flavor.h's.
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
/// What stands one behind the other.
using Pieces = std::span<const xdr::ConstBytes>;

class Context {
 public:
  Context() = default;
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The server's name for it.
  [[nodiscard]] virtual xdr::ConstBytes handle() const = 0;
  /// How far behind the highest sequence number that the server has seen it takes another one.
  [[nodiscard]] virtual std::uint32_t window() const = 0;
  /// It is time to have another one, while this one still serves.
  [[nodiscard]] virtual bool ends_soon() const = 0;
  /// It cannot be used any more.
  [[nodiscard]] virtual bool has_ended() const = 0;

  /// A Message Integrity Code. An Error of EKEYEXPIRED: the context has come to its end.
  virtual Result<Octets> sign(Pieces message) = 0;
  [[nodiscard]] virtual bool is_signed(Pieces message, xdr::ConstBytes code) = 0;
  /// Encrypted and signed, at the end of `out`.
  virtual Status wrap(Pieces message, xdr::Buffer& out) = 0;
  /// Decrypts where it stands, and gives what is in it. An Error: it is not what the server wrapped.
  virtual Result<xdr::ConstBytes> unwrap(std::span<std::byte> wrapped) = 0;
};

/// Makes contexts with one server.
class Mechanism {
 public:
  Mechanism() = default;
  virtual ~Mechanism() = default;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  /// An Error says what the caller can do, such as to call kinit. One of kind connection or timeout: later it may be had.
  /// Comes to its end by itself.
  virtual async::Task<Result<std::shared_ptr<Context>>> establish(security::Caller caller) = 0;
  /// The caller, for messages.
  [[nodiscard]] virtual std::string name_of(const security::Caller& caller) const = 0;
  /// Of all its contexts: how long a code is at most, and how much longer wrapping makes a message.
  [[nodiscard]] virtual std::size_t longest_code() const = 0;
  [[nodiscard]] virtual std::size_t wrapping_adds() const = 0;
};

}  // namespace nfsrdma::gss
