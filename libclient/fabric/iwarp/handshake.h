// Setting a connection up, on both sides, without a socket: which MPA frames to send, and what the answers
// mean (RFC 5044 7.1, RFC 6581).
//
// The initiator asks for revision 2, without CRC and without markers: that is what Linux's siw accepts as it
// is shipped, and a peer that needs CRC says so in its Reply, which is enough (RFC 5044 7.1.1: either side's
// C bit turns it on for both). Some peers refuse instead of asking. So a refused attempt is followed by
// another on a fresh TCP connection:
//
//   crc=auto   revision 2 → revision 2 with CRC → revision 1
//   crc=on     revision 2 with CRC → revision 1 with CRC
//   crc=off    revision 2 → revision 1, and a peer that wants CRC is an error
//
// A peer that knows only revision 1 must close the connection without a word (RFC 5044 7.1.1), so that leads
// to revision 1 as well. As in every client/server protocol we send the first FPDU, which is MPA's own model;
// therefore no RTR frame is needed and flag A stays clear (RFC 6581 section 9).
//
// The objects own their frames; they know neither time nor sockets, and every input leads to an Outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/iwarp/mpa.h"

namespace nfsrdma::fabric::iwarp {

/// What the user wants of FPDU CRCs.
enum class CrcPolicy : std::uint8_t { automatic, on, off };

/// Read depths we offer: RDMA Reads under way towards us (ird) and from us (ord).
struct Depths {
  std::uint16_t ird = 16;
  std::uint16_t ord = 16;
};

/// What both sides hold true once the frames have been exchanged.
struct Agreement {
  unsigned revision = 2;
  bool crc = false;
  std::uint32_t ird = 0;
  std::uint32_t ord = 0;
  std::vector<std::byte> private_data;  ///< the peer's
};

/// There is no device, and every handle is an entry of the Stream's own table, which a Send with Invalidate
/// takes out.
[[nodiscard]] inline Traits iwarp_traits() {
  Traits out;
  out.remote_invalidation = true;
  return out;
}

/// The part of `fabric::Established` that comes from here.
[[nodiscard]] Established established(const Agreement& agreement);

class Initiator {
 public:
  enum class Verdict : std::uint8_t {
    more,         ///< the Reply is not complete yet
    established,  ///< agreement() holds; the rest of the bytes is FPDUs
    again,        ///< close this TCP connection, open another, send request()
    failed,       ///< failure() says why
  };
  struct Outcome {
    Verdict verdict = Verdict::more;
    std::size_t consumed = 0;  ///< with established
  };

  /// `private_data` has at most mpa_private_data_room(true) octets. `peer` is for messages.
  Initiator(CrcPolicy policy, Depths depths, ConstBytes private_data, std::string peer);

  /// The Request frame of the present attempt.
  [[nodiscard]] std::vector<std::byte> request() const;

  /// Everything that has arrived on this TCP connection.
  [[nodiscard]] Outcome received(ConstBytes so_far);
  /// The peer closed or reset the TCP connection before its Reply was complete.
  [[nodiscard]] Outcome closed();

  [[nodiscard]] const Agreement& agreement() const { return agreement_; }
  [[nodiscard]] const Error& failure() const { return *failure_; }
  /// "revision 2 without CRC (refused), revision 2 with CRC (closed)": the attempts so far, for messages.
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
  std::vector<Attempt> attempts_;  // the present one first
  std::string history_;
  bool was_refused_ = false;
  Agreement agreement_;
  std::optional<Error> failure_;
};

class Responder {
 public:
  enum class Verdict : std::uint8_t {
    more,
    request,  ///< request() is for the owner to judge: accept() or reject()
    refuse,   ///< send reject() and close: we cannot do what the request demands
    drop,     ///< not MPA, or beyond repair: close without a word
  };

  /// Everything that has arrived. After `request`, consumed() octets of it were the frame.
  [[nodiscard]] Verdict received(ConstBytes so_far);
  [[nodiscard]] const MpaFrame& request() const { return request_; }
  [[nodiscard]] std::size_t consumed() const { return consumed_; }

  /// What we would agree on; nothing where `policy` forbids what the request demands: then reject().
  [[nodiscard]] std::optional<Agreement> agree(CrcPolicy policy, Depths depths) const;
  /// The Reply frames. `private_data` has at most mpa_private_data_room(true) octets.
  [[nodiscard]] std::vector<std::byte> accept(const Agreement& agreement, ConstBytes private_data) const;
  [[nodiscard]] std::vector<std::byte> reject(ConstBytes private_data) const;

 private:
  MpaFrame request_;
  std::size_t consumed_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
