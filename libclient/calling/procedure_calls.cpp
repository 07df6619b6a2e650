#include "calling/procedure_calls.h"

#include <cerrno>
#include <string>

#include "rpc/make_call.h"
#include "rpc/route.h"

namespace nfsrdma::calling {
namespace {

using namespace std::chrono_literals;

/// The longest pause is that of Linux for JUKEBOX.
constexpr async::Clock::duration kFirstPause = 20ms, kMostPause = 5s;

}  // namespace

ProcedureCalls::ProcedureCalls(std::vector<rpc::Channel*> channels, CallOptions options)
    : channels_(std::move(channels)),
      options_(std::move(options)),
      places_(channels_.front()->loop(), options_.most) {}

std::uint64_t ProcedureCalls::connections() const {
  std::uint64_t out = 0;
  for (const rpc::Channel* channel : channels_) out += 2 * channel->generation() - (channel->up() ? 1 : 0);
  return out;
}

void ProcedureCalls::hold(bool on) {
  for (rpc::Channel* channel : channels_) channel->hold(on);
}

std::uint64_t ProcedureCalls::connections_made() const {
  std::uint64_t out = 0;
  for (const rpc::Channel* channel : channels_) out += channel->generation();
  return out;
}

ProcedureCalls::Request ProcedureCalls::begin(std::uint32_t program, std::uint32_t version,
                                              std::uint32_t procedure, const Caller& caller,
                                              security::Mark mark) {
  security::Voucher voucher = options_.flavor->vouch_by(mark, caller);
  Request out{.called = {program == rpc::kNfsProgram ? "NFS" : "NFSACL", version},
              .what = "",
              .idempotent = true,
              .deadline = default_deadline(),
              .message = channels_.front()->take_message(),
              .protection = std::move(voucher.protection),
              .results = {},
              .size = {},
              .pause = {kFirstPause, kMostPause},
              .sends = 1};
  rpc::begin_call(out.message, program, version, procedure, voucher.credential);
  out.size = reply_sizing::begin(voucher.credential.largest_reply_header() +
                                 (out.protection ? out.protection->reply_growth() : 0));
  return out;
}

/// Sends the request until the server gives an answer, or asks to wait beyond the deadline.
async::Task<Result<rpc::ReplyInHand>> ProcedureCalls::send_until_done(
    Request& request, async::FunctionRef<Decoded(xdr::Decoder&)> decode) {
  for (;;) {
    auto reply = co_await send(request);
    if (!reply) {
      end(request);
      co_return reply;
    }
    request.sends += reply->sends() - 1;
    const Decoded decoded = decode(reply->results());
    const bool busy = decoded == Decoded::asks_to_wait;
    bool again = busy;
    if (busy) again = co_await waits(request);
    if (again) continue;
    end(request);
    if (decoded == Decoded::nothing) co_return undecodable(request, reply->results().fault());
    if (busy && may_have_been_done(request)) co_return in_doubt(request, still_busy(request));
    co_return reply;
  }
}

/// Sends the request after it has got a place among the calls in progress.
async::Task<Result<rpc::ReplyInHand>> ProcedureCalls::send(Request& request) {
  // A caller without a security context (ticket) waits for one before it takes a place, because other calls
  // wait for places.
  if (rpc::Protection* const seal = request.protection.get(); seal != nullptr && !seal->is_ready()) {
    if (auto ready = co_await seal->ready(request.deadline); !ready) {
      if (may_have_been_done(request)) co_return in_doubt(request, ready.error());
      co_return ready.error();
    }
  }
  const auto begun = loop().now();
  if (places_.must_wait()) {
    ++counters_.slot_waits;
    const bool in_time = co_await places_.wait(request.deadline);
    if (!in_time) {
      const Error late(ErrorKind::timeout, ETIMEDOUT, request.what, server(),
                       "earlier calls have not completed in time; the server is not answering");
      if (may_have_been_done(request)) co_return in_doubt(request, late);
      co_return late;
    }
    counters_.slot_waited_us += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(loop().now() - begun).count());
  }
  const async::Places::Place place(places_);
  co_return co_await send_once(request);
}

/// Makes the call with one xid, sending it as often as necessary, until there is an answer or the deadline
/// has passed.
async::Task<Result<rpc::ReplyInHand>> ProcedureCalls::send_once(Request& request) {
  reply_sizing::ReplySize size = request.size;
  rpcrdma::Call call;
  call.message = std::move(request.message);
  call.seal = request.protection.get();
  call.results = request.results;
  rpc::Channel& channel = rpc::route(channels_, call.data_size());
  for (rpcrdma::ResultTarget& result : call.results) {
    if (!request.protection || !request.protection->covers_data()) continue;
    result.wanted_inline = true;
    size.max_reduced = size.max_inline;
  }
  call.reply_max_inline = size.max_inline;
  call.reply_max_reduced = size.max_reduced;
  call.deadline = request.deadline;
  rpc::Outcome outcome = co_await rpc::make_call(channel, std::move(call), request.protection.get());
  request.message = std::move(outcome.message);
  engine::CallCounters& counted = counters_.of(request.what);
  counted.ended(request.message, outcome);
  if (outcome.failure != rpcrdma::Failure::none) {
    const bool left = outcome.sends != 0 && !request.idempotent;
    if (left || may_have_been_done(request)) co_return in_doubt(request, *outcome.error);
    co_return *outcome.error;
  }
  rpc::ReplyInHand reply(channel, std::move(*outcome.reply));
  auto begun = reply.begin(request.protection.get(), request.called, request.what, server());
  if (!begun) {
    ++counted.refused;
    // A Reply that was not accepted may have been the answer to an executed call, and a refusal says nothing
    // about earlier sendings.
    const bool repeated = reply.sends() > 1 || may_have_been_done(request);
    if ((repeated || begun.error().kind() == ErrorKind::protocol) && !request.idempotent)
      co_return in_doubt(request, begun.error());
    co_return begun.error();
  }
  co_return std::move(reply);
}

/// Called when the server has asked to wait: pauses and returns true, or returns false if the deadline would
/// pass.
async::Task<bool> ProcedureCalls::waits(Request& request) {
  if (loop().now() + request.pause.next() >= request.deadline) co_return false;
  co_await loop().sleep_for(request.pause.take());
  co_return true;
}

Error ProcedureCalls::still_busy(const Request& request) const {
  return {
      ErrorKind::server, EAGAIN,
      kJukebox,          request.what,
      server(),          "the server kept asking to wait until the time for this call was over; try again"};
}

Error ProcedureCalls::in_doubt(const Request& request, const Error& why) const {
  return {ErrorKind::unknown_outcome,
          why.errno_value(),
          why.status(),
          request.what,
          server(),
          why.message() + "; whether the server did it is not known: check before you repeat it"};
}

Error ProcedureCalls::undecodable(const Request& request, xdr::Fault fault) const {
  const Error why(ErrorKind::protocol, EPROTO, request.what, server(),
                  std::string("the server's answer cannot be decoded (") + xdr::to_string(fault) +
                      "); please report this with a capture of the traffic");
  return request.idempotent ? why : in_doubt(request, why);
}

}  // namespace nfsrdma::calling
