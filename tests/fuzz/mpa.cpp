// MPA connection setup on both sides, from any bytes in any cuts.
//
// Input: what the initiator wants (bits 0-1 CRC policy, bit 2 private data, bit 3 the peer closes at the end
// of each try), the cuts, then the peer's bytes. The initiator takes what follows a failed try as the answer
// to its next one. The same bytes go to a responder, and its answers to an initiator.
#include <algorithm>
#include <optional>

#include "fabric/iwarp/handshake.h"
#include "fuzz.h"

using namespace nfsrdma;
using namespace nfsrdma::fabric::iwarp;
using fuzz::ConstOctets;

namespace {

const Depths kDepths{.ird = 16, .ord = 16};

/// One frame: every prefix wants more, until one is judged; from then on nothing changes.
void check_decoder(MpaFrameKind kind, ConstOctets bytes) {
  const MpaDecoded whole = decode(kind, bytes);
  const std::size_t most = std::min<std::size_t>(bytes.size(), mpa_max_frame + 1);
  bool judged = false;
  for (std::size_t length = 0; length <= most; ++length) {
    const MpaDecoded part = decode(kind, bytes.first(length));
    using enum MpaDecoded::State;
    if (part.state == more) {
      FUZZ_CHECK(!judged);
      continue;
    }
    FUZZ_CHECK(part.state == ok ? part.consumed <= length : true);
    if (part.state == ok) {
      FUZZ_CHECK(whole.state == ok && whole.frame == part.frame && whole.consumed == part.consumed);
    } else {
      FUZZ_CHECK(whole.state != ok && whole.state != more);
    }
    judged = true;
  }
  if (whole.state != MpaDecoded::State::ok) return;
  FUZZ_CHECK(judged && whole.consumed <= mpa_max_frame);
  const auto encoded = encode(whole.frame);
  const MpaDecoded again = decode(kind, encoded);
  FUZZ_CHECK(encoded.size() == whole.consumed && again.state == MpaDecoded::State::ok &&
             again.frame == whole.frame);
}

/// An attempt is a TCP connection of its own; there are three at most.
void initiate(Initiator& initiator, ConstOctets bytes, fuzz::Cuts cuts, bool closes) {
  for (int attempt = 0;; ++attempt) {
    FUZZ_CHECK(attempt < 4);
    const auto request = initiator.request();
    const MpaDecoded sent = decode(MpaFrameKind::request, request);
    FUZZ_CHECK(sent.state == MpaDecoded::State::ok && sent.consumed == request.size());

    Initiator::Outcome outcome;
    std::size_t arrived = 0;
    while (outcome.verdict == Initiator::Verdict::more && arrived < bytes.size()) {
      arrived += std::min(cuts.next(), bytes.size() - arrived);
      outcome = initiator.received(bytes.first(arrived));
    }
    if (outcome.verdict == Initiator::Verdict::more) {
      if (!closes) return;
      outcome = initiator.closed();
    }
    FUZZ_CHECK(outcome.verdict != Initiator::Verdict::more);
    if (outcome.verdict == Initiator::Verdict::failed) {
      FUZZ_CHECK(!initiator.failure().text().empty());
      return;
    }
    if (outcome.verdict == Initiator::Verdict::established) {
      FUZZ_CHECK(outcome.consumed <= arrived && outcome.consumed <= mpa_max_frame);
      FUZZ_CHECK(initiator.agreement().private_data.size() <= mpa_max_private_data);
      static_cast<void>(established(initiator.agreement()));
      return;
    }
    bytes = bytes.subspan(arrived);
  }
}

void respond(CrcPolicy policy, ConstOctets private_data, ConstOctets bytes, fuzz::Cuts cuts) {
  Responder responder;
  auto verdict = responder.received({});
  std::size_t arrived = 0;
  while (verdict == Responder::Verdict::more && arrived < bytes.size()) {
    arrived += std::min(cuts.next(), bytes.size() - arrived);
    verdict = responder.received(bytes.first(arrived));
  }
  if (verdict == Responder::Verdict::refuse) {
    FUZZ_CHECK(decode(MpaFrameKind::reply, responder.reject(private_data)).state == MpaDecoded::State::ok);
  }
  if (verdict != Responder::Verdict::request) return;
  FUZZ_CHECK(responder.consumed() <= arrived && responder.request().kind == MpaFrameKind::request);
  const auto rejected = decode(MpaFrameKind::reply, responder.reject(private_data));
  FUZZ_CHECK(rejected.state == MpaDecoded::State::ok && rejected.frame.reject);
  const auto agreement = responder.agree(policy, kDepths);
  if (!agreement) return;
  FUZZ_CHECK(agreement->revision == responder.request().revision);
  FUZZ_CHECK(agreement->crc || (!responder.request().crc && policy != CrcPolicy::on));
  const auto reply = responder.accept(*agreement, private_data);
  const auto accepted = decode(MpaFrameKind::reply, reply);
  FUZZ_CHECK(accepted.state == MpaDecoded::State::ok && !accepted.frame.reject &&
             accepted.consumed == reply.size());
  FUZZ_CHECK(accepted.frame.crc == agreement->crc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 4096);
  const std::uint8_t flags = script.u8();
  const fuzz::Cuts cuts(script.u8());
  const auto policy = static_cast<CrcPolicy>((flags & 3U) % 3U);
  const fuzz::Octets private_data((flags & 4U) != 0 ? 8 : 0, std::byte{7});

  check_decoder(MpaFrameKind::request, script.rest());
  check_decoder(MpaFrameKind::reply, script.rest());
  Initiator initiator(policy, kDepths, private_data, "peer");
  initiate(initiator, script.rest(), cuts, (flags & 8U) != 0);
  respond(policy, private_data, script.rest(), cuts);
  return 0;
}
