// Setting up a connection, on both sides, without a socket: decides which MPA frames to send, and interprets
// the answers (RFC 5044 7.1, RFC 6581).
//
// The initiator asks for revision 2, without CRC and without markers. Linux's siw accepts this in its default
// configuration, and a peer that needs CRC can say so in its Reply, which is enough (RFC 5044 7.1.1: either
// side's C bit turns it on for both). Some peers refuse instead of asking for CRC. So a refused attempt is
// followed by another on a fresh TCP connection:
//
//   crc=auto   revision 2 → revision 2 with CRC → revision 1
//   crc=on     revision 2 with CRC → revision 1 with CRC
//   crc=off    revision 2 → revision 1, and a peer that wants CRC is an error
//
// A peer that knows only revision 1 must close the connection without an answer (RFC 5044 7.1.1), so a close
// leads to revision 1 as well. As in every client/server protocol the client sends the first FPDU, which is
// MPA's own model. Therefore no RTR frame is needed and flag A stays clear (RFC 6581 section 9).
//
// The objects own their frames. They know neither time nor sockets, and every input leads to an Outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/choices.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/mpa.h"

namespace nfsrdma::fabric::iwarp {

/// The user's choice for FPDU CRCs.
using CrcPolicy = nfsrdma::Crc;

/// The read depths that we offer: RDMA Reads in flight towards us (ird) and from us (ord).
struct Depths {
  std::uint16_t ird = 16;
  std::uint16_t ord = 16;
};

/// The parameters of the connection, as both sides know them after the frames have been exchanged.
struct Agreement {
  unsigned revision = 2;
  bool crc = false;
  std::uint32_t ird = 0;
  std::uint32_t ord = 0;
  std::vector<std::byte> private_data;  ///< the peer's private data
};

/// Returns the traits of every iWARP connection. It has no device, and every handle is an entry of the
/// Stream's own table, which a Send with Invalidate removes.
[[nodiscard]] inline Traits iwarp_traits() {
  Traits out;
  out.remote_invalidation = true;
  return out;
}

/// Returns the part of `fabric::Established` that the handshake knows.
[[nodiscard]] Established established(const Agreement& agreement);

class Initiator {
 public:
  enum class Verdict : std::uint8_t {
    more,         ///< the Reply is not complete yet
    established,  ///< agreement() is valid; the octets behind the Reply are FPDUs
    again,        ///< the caller closes this TCP connection, opens another, and sends request()
    failed,       ///< failure() says why
  };
  struct Outcome {
    Verdict verdict = Verdict::more;
    std::size_t consumed = 0;  ///< size of the Reply, with established
  };

  /// `private_data` has at most mpa_private_data_room(true) octets. `peer` names the peer in messages.
  Initiator(CrcPolicy policy, Depths depths, ConstBytes private_data, std::string peer);

  /// Returns the Request frame of the current attempt.
  [[nodiscard]] std::vector<std::byte> request() const;

  /// Interprets everything that has arrived on this TCP connection.
  [[nodiscard]] Outcome received(ConstBytes so_far);
  /// Called when the peer closed or reset the TCP connection before its Reply was complete.
  [[nodiscard]] Outcome closed();

  [[nodiscard]] const Agreement& agreement() const { return agreement_; }
  [[nodiscard]] const Error& failure() const { return *failure_; }
  /// The attempts so far, for messages: "revision 2 without CRC (refused), revision 2 with CRC (closed)".
  [[nodiscard]] const std::string& history() const { return history_; }

 private:
  struct Attempt {
    std::uint8_t revision;
    bool crc;
  };
  [[nodiscard]] const Attempt& attempt() const { return attempts_.front(); }
  Outcome next_attempt(const char* what_happened, bool revision_1_only);
  Outcome fail(ErrorKind kind, int errno_value, std::string message);
  Outcome accepted(MpaFrame reply, std::size_t consumed);

  CrcPolicy policy_;
  Depths depths_;
  std::vector<std::byte> private_data_;
  std::string peer_;
  std::vector<Attempt> attempts_;  // the current attempt first
  std::string history_;
  bool was_refused_ = false;
  Agreement agreement_;
  std::optional<Error> failure_;
};

class Responder {
 public:
  enum class Verdict : std::uint8_t {
    more,
    request,  ///< the owner decides about request(): accept() or reject()
    refuse,   ///< send reject() and close, because we cannot do what the request demands
    drop,     ///< close without an answer, because the octets are not MPA or cannot be understood
  };

  /// Interprets everything that has arrived. After `request`, its first consumed() octets are the frame.
  [[nodiscard]] Verdict received(ConstBytes so_far);
  [[nodiscard]] const MpaFrame& request() const { return request_; }
  [[nodiscard]] std::size_t consumed() const { return consumed_; }

  /// Returns the parameters that we would agree to; nothing if `policy` forbids what the request demands. The
  /// caller then uses reject().
  [[nodiscard]] std::optional<Agreement> agree(CrcPolicy policy, Depths depths) const;
  /// Return the Reply frames. `private_data` has at most mpa_private_data_room(true) octets.
  [[nodiscard]] std::vector<std::byte> accept(const Agreement& agreement, ConstBytes private_data) const;
  [[nodiscard]] std::vector<std::byte> reject(ConstBytes private_data) const;

 private:
  MpaFrame request_;
  std::size_t consumed_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
