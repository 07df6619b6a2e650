#include "fabric/iwarp/handshake.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace nfsrdma::fabric::iwarp {
namespace {

// The most RDMA Reads towards us that we agree to. A peer may want more than we offered, and software can
// serve them, up to this number.
constexpr std::uint32_t most_inbound_reads = 128;

std::vector<std::byte> copy(ConstBytes bytes) {
  return {bytes.begin(), bytes.end()};
}

// Returns the smaller of both wishes. A peer's 0x3fff means "not negotiated here" (RFC 6581 9.1); then our
// own wish is used.
std::uint32_t limit(std::uint16_t ours, std::uint16_t theirs) {
  return theirs == mpa_max_depth ? ours : std::min(ours, theirs);
}

}  // namespace

Established established(const Agreement& agreement) {
  Established out;
  out.private_data = agreement.private_data;
  out.fabric = "iwarp";
  out.traits = iwarp_traits();
  out.mpa_revision = agreement.revision;
  out.crc = agreement.crc;
  out.ird = agreement.ird;
  out.ord = agreement.ord;
  out.detail = "MPA revision " + std::to_string(agreement.revision) + ", CRC " +
               (agreement.crc ? "on" : "off") + ", markers off, IRD " + std::to_string(agreement.ird) +
               ", ORD " + std::to_string(agreement.ord);
  return out;
}

// ---- Initiator ----

Initiator::Initiator(CrcPolicy policy, Depths depths, ConstBytes private_data, std::string peer)
    : policy_(policy), depths_(depths), private_data_(copy(private_data)), peer_(std::move(peer)) {
  assert(private_data.size() <= mpa_private_data_room(true));
  switch (policy) {
    case CrcPolicy::automatic:
      attempts_ = {{2, false}, {2, true}, {1, false}};
      break;
    case CrcPolicy::on:
      attempts_ = {{2, true}, {1, true}};
      break;
    case CrcPolicy::off:
      attempts_ = {{2, false}, {1, false}};
      break;
  }
}

std::vector<std::byte> Initiator::request() const {
  MpaFrame frame;
  frame.kind = MpaFrameKind::request;
  frame.crc = attempt().crc;
  frame.revision = attempt().revision;
  if (frame.revision == 2) {
    frame.enhanced.emplace();
    frame.enhanced->ird = depths_.ird;
    frame.enhanced->ord = depths_.ord;
  }
  frame.private_data = private_data_;
  return encode(frame);
}

Initiator::Outcome Initiator::received(ConstBytes so_far) {
  MpaDecoded decoded = decode(MpaFrameKind::reply, so_far);
  switch (decoded.state) {
    case MpaDecoded::State::more:
      return {};
    case MpaDecoded::State::not_mpa:
      return fail(
          ErrorKind::protocol, EPROTO,
          "something listens there, but it does not speak iWARP (its answer is not an MPA Reply). Check "
          "the port: NFS/RDMA uses 20049");
    case MpaDecoded::State::bad_revision:
      return fail(ErrorKind::protocol, EPROTONOSUPPORT,
                  "the peer speaks MPA revision " + std::to_string(decoded.frame.revision) +
                      ", and only revisions 1 and 2 are known here. Configure the peer for one of them");
    case MpaDecoded::State::bad:
      return fail(ErrorKind::protocol, EPROTO,
                  std::string("the peer's MPA Reply is malformed: ") + decoded.problem +
                      ". Report it to the maker of the peer's iWARP stack");
    case MpaDecoded::State::ok:
      break;
  }
  if (decoded.frame.reject) {
    was_refused_ = true;
    return next_attempt("refused", decoded.frame.revision < attempt().revision);
  }
  return accepted(std::move(decoded.frame), decoded.consumed);
}

Initiator::Outcome Initiator::accepted(MpaFrame reply, std::size_t consumed) {
  // RFC 5044 7.1.1: M in the Reply demands markers in what we send.
  if (reply.markers) {
    return fail(ErrorKind::protocol, EPROTONOSUPPORT,
                "the peer demands MPA markers, which are not supported here. Turn them off on the peer");
  }
  if (reply.crc && policy_ == CrcPolicy::off) {
    return fail(ErrorKind::connection, EPROTONOSUPPORT,
                "the peer demands CRC and crc=off forbids it. Use crc=auto");
  }
  if (reply.revision > attempt().revision) {
    return fail(ErrorKind::protocol, EPROTO,
                "the peer answered an MPA Request of revision 1 with revision " +
                    std::to_string(reply.revision) + ". Report it to the maker of the peer's iWARP stack");
  }
  agreement_.revision = reply.revision;
  agreement_.crc = reply.crc || attempt().crc;
  agreement_.ird = depths_.ird;
  agreement_.ord = depths_.ord;
  if (reply.enhanced) {
    agreement_.ord = limit(depths_.ord, reply.enhanced->ird);
    // RFC 6581 9.1 has the initiator terminate when the responder's ORD is more than its IRD. Room is cheap
    // here, so we raise our IRD instead, and refuse only an unreasonable ORD.
    const std::uint32_t wanted = reply.enhanced->ord;
    if (wanted != mpa_max_depth) agreement_.ird = std::max<std::uint32_t>(depths_.ird, wanted);
    if (agreement_.ird > most_inbound_reads) {
      return fail(ErrorKind::protocol, EPROTO,
                  "the peer insists on " + std::to_string(wanted) +
                      " RDMA Reads at once (ORD), more than the " + std::to_string(most_inbound_reads) +
                      " possible here. Lower it on the peer");
    }
  }
  agreement_.private_data = std::move(reply.private_data);
  return {Verdict::established, consumed};
}

Initiator::Outcome Initiator::closed() {
  return next_attempt("closed without an answer", true);
}

Initiator::Outcome Initiator::next_attempt(const char* what_happened, bool revision_1_only) {
  if (!history_.empty()) history_ += ", ";
  history_ += "revision " + std::to_string(attempt().revision) +
              (attempt().crc ? " with CRC (" : " without CRC (") + what_happened + ")";
  const Attempt before = attempt();
  attempts_.erase(attempts_.begin());
  if (revision_1_only) {
    std::erase_if(attempts_, [&](const Attempt& a) { return a.revision >= before.revision; });
  }
  if (!attempts_.empty()) return {Verdict::again, 0};
  if (was_refused_) {
    return fail(ErrorKind::connection, ECONNREFUSED,
                "the peer refuses iWARP connections; tried MPA " + history_ +
                    ". Check that its NFS server listens for RDMA on this port and allows this client");
  }
  return fail(
      ErrorKind::connection, ECONNRESET,
      "the peer accepts TCP connections on this port and closes them without an MPA Reply; tried " +
          history_ +
          ". There seems to be no iWARP listener: check the port, and that the server has an iWARP or siw "
          "device");
}

Initiator::Outcome Initiator::fail(ErrorKind kind, int errno_value, std::string message) {
  failure_.emplace(kind, errno_value, "connect", peer_, std::move(message));
  return {Verdict::failed, 0};
}

// ---- Responder ----

Responder::Verdict Responder::received(ConstBytes so_far) {
  MpaDecoded decoded = decode(MpaFrameKind::request, so_far);
  if (decoded.state == MpaDecoded::State::more) return Verdict::more;
  // RFC 5044 7.1.1: an unknown revision, like every malformed frame, closes the connection.
  if (decoded.state != MpaDecoded::State::ok) return Verdict::drop;
  request_ = std::move(decoded.frame);
  consumed_ = decoded.consumed;
  // M in a Request demands markers in what we send (RFC 5044 7.1.1), which we never do.
  return request_.markers ? Verdict::refuse : Verdict::request;
}

std::optional<Agreement> Responder::agree(CrcPolicy policy, Depths depths) const {
  if (policy == CrcPolicy::off && request_.crc) return std::nullopt;
  Agreement agreement;
  agreement.revision = request_.revision;
  agreement.crc = request_.crc || policy == CrcPolicy::on;
  agreement.ird = depths.ird;
  agreement.ord = depths.ord;
  if (request_.enhanced) {
    agreement.ird = limit(depths.ird, request_.enhanced->ord);
    agreement.ord = limit(depths.ord, request_.enhanced->ird);
  }
  agreement.private_data = request_.private_data;
  return agreement;
}

std::vector<std::byte> Responder::accept(const Agreement& agreement, ConstBytes private_data) const {
  assert(private_data.size() <= mpa_private_data_room(true));
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.crc = agreement.crc;
  frame.revision = request_.revision;
  if (request_.enhanced) {
    MpaEnhanced& enhanced = frame.enhanced.emplace();
    enhanced.ird = static_cast<std::uint16_t>(agreement.ird);
    enhanced.ord = static_cast<std::uint16_t>(agreement.ord);
    // RFC 6581 9.2: the Reply says which first frame a peer-to-peer initiator has to send. All kinds are
    // harmless to us. The RDMA Write is preferred because it needs neither a posted Receive nor a Read
    // Response.
    if (request_.enhanced->peer_to_peer) {
      enhanced.peer_to_peer = true;
      const bool read_only = request_.enhanced->rtr_read && !request_.enhanced->rtr_write;
      (read_only ? enhanced.rtr_read : enhanced.rtr_write) = true;
    }
  }
  frame.private_data = copy(private_data);
  return encode(frame);
}

std::vector<std::byte> Responder::reject(ConstBytes private_data) const {
  assert(private_data.size() <= mpa_private_data_room(true));
  MpaFrame frame;
  frame.kind = MpaFrameKind::reply;
  frame.reject = true;
  frame.revision = request_.revision;
  if (request_.enhanced) frame.enhanced.emplace();
  frame.private_data = copy(private_data);
  return encode(frame);
}

}  // namespace nfsrdma::fabric::iwarp
