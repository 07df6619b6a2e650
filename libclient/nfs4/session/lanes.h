// The connections (lanes) of a session (RFC 8881 2.10.3): which of them takes a call, and how the server
// learns that a connection belongs to the session.
//
// Calls. A call goes to the connection with the least to do (rpc/route.h) among those that are usable: up,
// and bound to the session. The connection that CREATE_SESSION went over is bound by that. Every other one
// has to be bound by BIND_CONN_TO_SESSION. This is done in the background whenever a connection comes up, and
// when the session is replaced (rebind_all()). While no connection is usable, a call waits on the first.
// A connection may belong to several sessions (2.10.3.1): a request that is left over from a session which was
// replaced may need a connection bound to that session as well (bind_to_earlier()).
//
// Calls that need no session (EXCHANGE_ID, CREATE_SESSION, ...) may also go over a connection that is not
// bound: after a restart of the server none is, and the first may be down (route_alone()).
//
// Failure. When a connection ends while another one is usable, the calls on it are handed back, and their
// callers make them again elsewhere. When a connection becomes usable, the calls that wait on connections
// that are down are handed back, too. A connection is left alone from then on if the server refuses
// BIND_CONN_TO_SESSION for good, or if one new session after the next is unknown on it although it works
// elsewhere (another server behind the same address). A refusal that may pass (wire/nfs4/status.h) is no such
// verdict: the connection is bound later, with pauses that grow.
//
// Connections are kept up even without a call that needs them (RFC 8167 5.4) if there is state that the
// server may recall, which hold() says, or if there are several.
//
// Addresses. Some connections lead to other addresses of the server (rpc::Channel::elsewhere()). Each time
// such a connection is made, it must be proven that it leads to this server before it is bound (prove_by()).
// If it leads to another server, it is left alone.
//
// Backchannel. Every connection that is bound serves as backchannel. If the server has lost track of the
// backchannel, mend_backchannel() announces it anew.
//
// Owns none of the channels: they must outlive this. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "async/backoff.h"
#include "async/event.h"
#include "nfs4/compound/call_layer.h"
#include "nfs4/compound/pacing.h"

namespace nfsrdma::nfs4 {

class Lanes {
 public:
  /// Takes a Call of the server that came over the channel.
  using BackwardSink =
      std::function<void(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message)>;

  /// `first`: the connection that the session begins on. `callback_slots`: 0 if there is
  /// to be no backchannel.
  Lanes(CallLayer& calls, rpc::Channel& first, std::uint32_t callback_slots, BackwardSink backward);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Returns whether a channel to another address leads to the session's server. An Error whose status is not
  /// final (wire/nfs4/status.h) means that the question is to be asked again.
  using Proof = std::function<async::Task<Result<bool>>(rpc::Channel& channel)>;
  void prove_by(Proof proof) { proof_ = std::move(proof); }
  /// Adds a connection. The Error is that of connecting. If the server does not want the connection for the
  /// session, the user gets a notice.
  async::Task<Status> add(rpc::Channel& channel, async::TimePoint deadline);
  /// Returns how many connections are up and bound to the session.
  [[nodiscard]] std::size_t usable() const;
  /// Returns how many connections all channels have made since the beginning.
  [[nodiscard]] std::uint64_t connections_made() const;
  /// Returns the connection for the next call, which moves `size` bytes of data.
  rpc::Channel& route(std::size_t size = 0);
  /// Returns the connection for a call that needs no session: `before`, if it still takes such calls; else
  /// one that is usable; else one that is up and leads to the server; else the first.
  rpc::Channel& route_alone(const rpc::Channel* before = nullptr);
  /// Makes a call that needs no session (CallLayer::begin_alone) over any connection that takes it, and
  /// repeats it while the server asks to wait (DELAY, BACK_CHAN_BUSY). `over`, if not null, receives the
  /// connection of the last try, and must outlive the call.
  async::Task<Result<CompoundReply>> call_alone(Compound compound, async::TimePoint deadline,
                                                rpc::Channel** over = nullptr);

  /// Called after CREATE_SESSION over `bound`. The new session does not know the remaining
  /// connections, so they are bound.
  void rebind_all(const rpc::Channel& bound);
  /// Called when the server answers CONN_NOT_BOUND_TO_SESSION: it does not take the connection for one of the
  /// session's (RFC 8881 2.10.3.1).
  void unbound(const rpc::Channel& channel) { lane_of(channel).bound = false; }
  /// Binds the connection, or waits `pause` for it to come back. Returns false if no connection can be used
  /// for the session any more. A recovery makes no difference, because the session that it replaces may still
  /// work, and because it makes calls itself. If the session is gone, the next SEQUENCE says so.
  async::Task<bool> bind_again(const rpc::Channel& channel, async::Clock::duration pause,
                               async::TimePoint deadline);
  /// Binds the connection to a session that was replaced and has requests under way. Does nothing if the
  /// connection is not usable for the present session. Returns false if the server refuses for good, but not
  /// if the earlier session is gone, which the next SEQUENCE says.
  async::Task<bool> bind_to_earlier(const rpc::Channel& channel, sessionid4 session,
                                    async::TimePoint deadline);

  /// Binds the connection to any session of the client id, for DESTROY_SESSION. Returns as bind_to_earlier() does.
  async::Task<bool> bind_to(const rpc::Channel& channel, sessionid4 session, async::TimePoint deadline);

  [[nodiscard]] bool wants_backchannel() const { return callback_slots_ != 0; }
  /// Returns what the backchannel can take: what fits every connection that is up, both
  /// ways and without chunks.
  [[nodiscard]] channel_attrs4 backchannel_attributes() const;
  /// Called when the server has lost track of the backchannel. Binds every connection anew, or has the
  /// session replaced; at most once in kBetweenMendings.
  void mend_backchannel(bool by_new_session);
  /// Sets whether there is state that the server may recall.
  void hold(bool recallable);

  /// Makes a health check of the connection, which the server knows to be the session's; returns
  /// false if it cannot now.
  using HealthCheck = std::function<bool(rpc::Channel& over)>;
  /// Implements CallLayer::check_connections(), with `by` as the check.
  void check_health(std::chrono::milliseconds every, HealthCheck by);

 private:
  /// Longest pause between tries to bind a connection. If the server cannot bind it for long, it is
  /// asked twice in a minute.
  static constexpr async::Clock::duration kMostBindingPause = std::chrono::seconds(30);

  struct Lane final : rpc::BackwardService {
    Lane(Lanes& l, rpc::Channel& c) : lanes(l), channel(c) {}
    void on_backward_call(rpcrdma::BackwardId id, fabric::ConstBytes message) override {
      lanes.backward_(channel, id, message);
    }
    Lanes& lanes;
    rpc::Channel& channel;
    bool bound = false;  ///< to the present session
    bool binding = false;
    bool refused = false;  ///< the server does not want the connection, or is another
    bool proven = false;   ///< the connection is known to lead to the server
    /// How many times in a row the session or its client id was unknown on the connection.
    unsigned strange = 0;
    async::Loop::TimerId timer = 0;  ///< of bind_later(); 0: none is set
    async::Backoff pause{kFirstDelay, kMostBindingPause};
    [[nodiscard]] bool usable() const { return channel.up() && bound; }
    /// Whether the connection takes calls that need no session.
    [[nodiscard]] bool takes_alone() const {
      return channel.up() && !refused && (!channel.elsewhere() || proven);
    }
  };
  Lane& add_lane(rpc::Channel& channel);
  [[nodiscard]] Lane& lane_of(const rpc::Channel& channel);
  void on_link(Lane& lane, bool up);
  void empty_those_down();
  void bind_if_needed(Lane& lane);
  async::Task<void> bind(Lane& lane, bool again = false);
  void bind_later(Lane& lane, bool again);
  void take_refusal(Lane& lane, bool again, const Error& error);
  async::Task<bool> prove(Lane& lane);
  void refuse(Lane& lane, const std::string& why);
  Compound bind_arguments(const sessionid4& session, bool backchannel);
  async::Task<Result<CompoundReply>> call_patiently(Compound compound, async::TimePoint deadline,
                                                    rpc::Channel* by, rpc::Channel** over = nullptr);
  void hold_all();
  void check_health(Lane& lane);

  CallLayer& calls_;
  const std::uint32_t callback_slots_;
  const BackwardSink backward_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Proof proof_;
  async::Event bind_ended_;
  bool recallable_ = false;
  std::chrono::milliseconds check_every_{};  // 0: not set yet
  HealthCheck check_;
  async::TimePoint last_mended_{};
};

}  // namespace nfsrdma::nfs4
