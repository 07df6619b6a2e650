#include "rpc/make_call.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "async/backoff.h"

namespace nfsrdma::rpc {
namespace {

using namespace std::chrono_literals;

/// How often a call that the server could not decode is sealed and sent again, as in Linux.
constexpr int kIllegibleAgain = 2;
constexpr async::Clock::duration kFirstPause = 100ms, kLongestPause = 5s;

/// Returns a copy of the call without its message.
rpcrdma::Call frame_of(const rpcrdma::Call& call) {
  return {.message = {},
          .seal = call.seal,
          .results = call.results,
          .reply_max_inline = call.reply_max_inline,
          .reply_max_reduced = call.reply_max_reduced,
          .deadline = call.deadline,
          .health_check = call.health_check,
          .first = call.first,
          .losses = call.losses};
}

/// Returns the Outcome of a call that has no Reply.
Outcome ended(rpcrdma::Failure failure, Error why, xdr::Message message, std::uint32_t sends) {
  Outcome out;
  out.failure = failure;
  out.error = std::move(why);
  out.message = std::move(message);
  out.sends = sends;
  return out;
}

Error too_late(const std::string& server) {
  return {ErrorKind::timeout, ETIMEDOUT, "RPC", server,
          "the server discards each security context before it is used; see its log"};
}

Error not_answering(const std::string& server) {
  return {ErrorKind::timeout, ETIMEDOUT, "RPC", server,
          "earlier calls have not completed in time; the server is not answering"};
}

/// The outcome of a call with regard to the security context that sealed it.
enum class Verdict : std::uint8_t {
  stands,
  outdated,   ///< the call failed because the context is outdated
  illegible,  ///< the server could not decode the sealed call
};
Verdict verdict_on(const Outcome& outcome, Protection& protection) {
  const auto outdated = [](bool is) { return is ? Verdict::outdated : Verdict::stands; };
  if (outcome.failure == rpcrdma::Failure::cannot_construct)
    return outdated(protection.outdated(std::nullopt));
  if (!outcome.reply) return Verdict::stands;
  xdr::Decoder in(outcome.reply->message);
  const ReplyHeader header = read_reply(in);
  if (protection.was_illegible(header, in.rest())) return Verdict::illegible;
  return outdated(header.refusal == Refusal::authentication && protection.outdated(header.detail));
}

async::Task<Outcome> call_protected(Channel& channel, rpcrdma::Call call, Protection& protection) {
  async::Loop& loop = channel.loop();
  async::Backoff pause(kFirstPause, kLongestPause);
  std::uint32_t sends = 0;  // sendings that the server may have executed
  int illegible = 0;
  for (bool again = false;; again = true) {
    if (!protection.is_ready()) {
      auto ready = co_await protection.ready(call.deadline);
      if (!ready)
        co_return ended(rpcrdma::Failure::cannot_construct, ready.error(), std::move(call.message), sends);
    }
    while (!protection.takes_turn()) {
      if (loop.now() >= call.deadline)
        co_return ended(rpcrdma::Failure::timed_out, not_answering(channel.server()), std::move(call.message),
                        sends);
      co_await protection.turn(call.deadline);
    }
    rpcrdma::Call once = frame_of(call);
    once.message = std::exchange(call.message, xdr::Message());
    Outcome outcome = co_await channel.call(std::move(once));
    outcome.sends += sends;
    if (outcome.reply) outcome.reply->trip.sends += sends;
    const Verdict verdict = verdict_on(outcome, protection);
    const bool garbled = verdict == Verdict::illegible && illegible++ < kIllegibleAgain;
    if (!garbled && verdict != Verdict::outdated) co_return outcome;
    // The first repetition is made at once.
    const async::TimePoint next = again ? loop.now() + pause.take() : loop.now();
    sends = outcome.sends;
    if (outcome.reply) {
      // An illegible Call was not executed by the words of the Reply, but no signature vouches for these
      // words, so its sending still counts. A Call that was refused because of an outdated context does not
      // count.
      if (!garbled) --sends;
      channel.give_back(std::move(*outcome.reply));
    }
    call.message = std::move(outcome.message);
    if (next >= call.deadline)
      co_return ended(rpcrdma::Failure::timed_out, too_late(channel.server()), std::move(call.message),
                      sends);
    if (again) co_await loop.sleep_until(next);
  }
}

}  // namespace

bool Protection::is_ready() {
  return true;
}

async::Task<Status> Protection::ready(async::TimePoint /*deadline*/) {
  co_return Status();
}

bool Protection::takes_turn() {
  return true;
}

async::Task<void> Protection::turn(async::TimePoint /*deadline*/) {
  co_return;
}

bool Protection::was_illegible(const ReplyHeader& /*header*/, xdr::ConstBytes /*results*/) const {
  return false;
}

bool Protection::outdated(std::optional<std::uint32_t> /*auth_stat*/) {
  return false;
}

MadeCall::MadeCall(Channel& channel, rpcrdma::Call call, Protection* protection) {
  if (protection != nullptr)
    protected_.emplace(call_protected(channel, std::move(call), *protection));
  else
    plain_.emplace(channel, std::move(call));
}

}  // namespace nfsrdma::rpc
