// Calls of one procedure each, over the NFS connection: NFSv3, NFSv2, NFSACL. For NFSv4, Session has this
// role.
//
//     ProcedureCalls calls(channels, options);
//     auto answer = co_await calls.call<proc::GETATTR>(caller, args);
//     if (!answer) co_return answer.error();            // there is no answer that could be used
//     switch (answer->res.tag()) …                      // what the server says
//
// A call stays on the connection that it was given to. If that connection is lost, the call is sent again on
// its successor with the same xid, so that the server's duplicate request cache may recognise it (RFC 1813
// 4.8). The server does not report whether it recognised the call; Answer::sends shows that an answer may be
// that to a second execution.
//
// If a server asks to wait (JUKEBOX), the call is made again, with a new xid, after pauses that grow.
//
// A call whose deadline passes while the server may have executed it ends with ErrorKind::unknown_outcome, if
// executing it twice would do harm. A call that the RPC layer refuses when it is sent again ends in this way,
// too.
//
// Confined to the loop's thread. The Channels must outlive this object, and this object its tasks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "async/backoff.h"
#include "async/function_ref.h"
#include "async/places.h"
#include "async/task.h"
#include "engine/statistics.h"
#include "reply_sizing/reply_size.h"
#include "rpc/reply.h"
#include "security/flavor.h"
#include "xdr/marks.h"

namespace nfsrdma::calling {

using security::Caller;

struct CallOptions {
  std::shared_ptr<security::Flavor> flavor;
  std::chrono::milliseconds timeout{60000};
  /// How long an operation is tried, if not for `timeout`.
  std::optional<std::chrono::milliseconds> patience;
  std::uint32_t most = 64;  ///< calls in progress at one time; further ones wait
};

/// The answer to one call. Views in `res` are valid as long as this object.
template <class P>
struct Answer {
  std::optional<rpc::ReplyInHand> reply;  ///< none if the answer needed no call to the server
  typename P::Res res{};
  /// How often the call was sent. If more than once, the server may have executed it before it gave this
  /// answer. Sendings that the server answered by asking to wait do not count, because they were not
  /// executed.
  std::uint32_t sends = 1;
};

class ProcedureCalls {
 public:
  ProcedureCalls(std::vector<rpc::Channel*> channels, CallOptions options);
  ProcedureCalls(const ProcedureCalls&) = delete;
  ProcedureCalls& operator=(const ProcedureCalls&) = delete;

  /// Makes a call. The handles in the arguments decide the security flavour, and the handles in the results
  /// get their mark.
  /// `into` is the destination of data that may travel by itself, if the procedure returns some; it must be
  /// large enough for the largest result. `size` is the size of the largest result.
  template <class P>
  async::Task<Result<Answer<P>>> call(Caller caller, typename P::Args args, std::span<std::byte> into,
                                      reply_sizing::ResultSize size);

  [[nodiscard]] async::Loop& loop() { return channels_.front()->loop(); }
  [[nodiscard]] const std::string& server() const { return channels_.front()->server(); }
  [[nodiscard]] const engine::ServerCounters& counters() const { return counters_; }
  /// A number that changes when a connection has been lost or made.
  [[nodiscard]] std::uint64_t connections() const;
  /// While on, a lost connection is replaced even if no call needs it.
  void hold(bool on);
  /// The number of connections made so far. While it does not change, the server has not restarted, because a
  /// restart ends all connections.
  [[nodiscard]] std::uint64_t connections_made() const;
  [[nodiscard]] std::uint32_t most() const { return options_.most; }
  [[nodiscard]] async::TimePoint default_deadline() {
    return loop().now() + options_.patience.value_or(options_.timeout);
  }

 private:
  /// A Call from the first sending to the last.
  struct Request {
    rpc::Called called;
    const char* what;
    bool idempotent;
    async::TimePoint deadline;
    xdr::Message message;
    std::unique_ptr<rpc::Protection> protection;
    rpcrdma::Few<rpcrdma::ResultTarget> results;
    reply_sizing::ReplySize size;
    async::Backoff pause;
    std::uint32_t sends = 1;  ///< without the sendings that the server answered by asking to wait
  };
  Request begin(std::uint32_t program, std::uint32_t version, std::uint32_t procedure, const Caller& caller,
                security::Mark mark);
  enum class Decoded : std::uint8_t { nothing, asks_to_wait, results };
  async::Task<Result<rpc::ReplyInHand>> send_until_done(Request& request,
                                                        async::FunctionRef<Decoded(xdr::Decoder&)> decode);
  async::Task<Result<rpc::ReplyInHand>> send(Request& request);
  async::Task<Result<rpc::ReplyInHand>> send_once(Request& request);
  async::Task<bool> waits(Request& request);
  [[nodiscard]] Error undecodable(const Request& request, xdr::Fault fault) const;
  [[nodiscard]] Error in_doubt(const Request& request, const Error& why) const;
  [[nodiscard]] Error still_busy(const Request& request) const;
  /// Returns whether an earlier sending may have been executed, whatever the result of the last one was.
  [[nodiscard]] static bool may_have_been_done(const Request& request) {
    return !request.idempotent && request.sends > 1;
  }
  void end(Request& request) { channels_.front()->give_back(std::move(request.message)); }

  const std::vector<rpc::Channel*> channels_;
  const CallOptions options_;
  engine::ServerCounters counters_;
  async::Places places_;  // one place for each call in progress
};

/// The status of a server that is busy, in NFSv3 and in NFSACL of version 3 (RFC 1813 2.6: NFS3ERR_JUKEBOX).
inline constexpr std::uint32_t kJukebox = 10008, kJukeboxVersion = 3;

template <class P>
async::Task<Result<Answer<P>>> ProcedureCalls::call(Caller caller, typename P::Args args,
                                                    std::span<std::byte> into,
                                                    reply_sizing::ResultSize size) {
  const security::Mark mark = xdr::mark_of(args);
  Request request = begin(P::program, P::version, P::number, caller, mark);
  request.what = P::name;
  request.idempotent = P::idempotent;
  reply_sizing::grow(request.size, size);
  xdr::Encoder out(request.message);
  xdr::encode(out, args);
  if (size.eligible) request.results.push_back({into, false});
  Answer<P> answer;
  const auto decode = [&](xdr::Decoder& in) {
    answer.res = {};  // an earlier answer may have asked to wait
    if (!xdr::decode(in, answer.res) || !in.finish()) return Decoded::nothing;
    if (mark != 0) xdr::mark_all(answer.res, mark);
    if constexpr (P::version == kJukeboxVersion && requires { answer.res.tag(); }) {
      if (static_cast<std::uint32_t>(answer.res.tag()) == kJukebox) return Decoded::asks_to_wait;
    }
    return Decoded::results;
  };
  auto reply = co_await send_until_done(request, decode);
  if (!reply) co_return reply.error();
  answer.reply.emplace(std::move(*reply));
  answer.sends = request.sends;
  co_return std::move(answer);
}

}  // namespace nfsrdma::calling
