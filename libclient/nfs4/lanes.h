// The connections of a session (RFC 8881 2.10.3): which of them takes a call, and how the server gets to know
// one.
//
// Calls go to the connection with the least to do (rpc/route.h) among those that stand and that the server knows to be
// the session's. The connection that CREATE_SESSION went over is; every other one has to be told by
// BIND_CONN_TO_SESSION, which is done beside whenever a connection begins, and when the session is another one
// (rebind_all()). Without any that is usable a call waits on the first.
//
// What needs no session (EXCHANGE_ID, CREATE_SESSION, …) also goes over a connection that the server does not
// take for the session's: after a restart of the server none is, and the first may be down (route_alone()).
//
// When a connection ends while another one is usable, the calls on it are handed back, for their callers to
// make them again elsewhere. So are those that wait on connections that are down when one becomes usable. A
// connection that the server does not want (BIND_CONN_TO_SESSION refused for good), or where one new session after the
// other is not known although it works elsewhere (another server behind the same address), is left alone from then on.
// A refusal that may pass (types/status.h) is no such verdict: the connection is bound later, with pauses that grow. The
// connections are kept up without a call that needs them (RFC 8167 5.4) where there is state that the server
// may recall, which hold() tells, or where there are several.
//
// Some lead to other addresses of the server (rpc::Channel::elsewhere()). That it is the server is proven on each of their
// connections anew, before they are bound; if it is another, they are left alone.
//
// The backchannel is on every connection that the server takes for it. Where the server has lost sight of it,
// mend_backchannel() announces it anew.
//
// Owns none of the channels: they must outlive this. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "async/backoff.h"
#include "async/event.h"
#include "nfs4/calls.h"
#include "nfs4/pacing.h"

namespace nfsrdma::nfs4 {

class Lanes {
 public:
  /// Takes a Call of the server's, which came over the channel.
  using BackwardSink =
      std::function<void(rpc::Channel& over, rpcrdma::BackwardId id, fabric::ConstBytes message)>;

  /// `first`: the connection that the session begins on. `callback_slots`: 0 where there is to be no
  /// backchannel.
  Lanes(Calls& calls, rpc::Channel& first, std::uint32_t callback_slots, BackwardSink backward);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Whether a channel leads to the server that the session is of; for those that lead elsewhere. An Error whose status
  /// is not final (types/status.h): that is to be asked again.
  using Proof = std::function<async::Task<Result<bool>>(rpc::Channel& channel)>;
  void prove_by(Proof proof) { proof_ = std::move(proof); }
  /// One more connection, beside those that there are. Its Error is that of connecting: one that the server
  /// does not want for the session is told of in a notice.
  async::Task<Status> add(rpc::Channel& channel, async::TimePoint deadline);
  /// Those that stand and are the session's.
  [[nodiscard]] std::size_t usable() const;
  /// Since the beginning, of all of them.
  [[nodiscard]] std::uint64_t connections_made() const;
  /// The connection for the next call, which moves so much data.
  rpc::Channel& route(std::size_t size = 0);
  /// The connection for a call that needs no session: `before`, if that takes it still; else one that is
  /// usable; else one that stands and leads to the server; else the first.
  rpc::Channel& route_alone(const rpc::Channel* before = nullptr);
  /// A call that needs no session (Calls::begin_alone), over whichever connection takes it. Makes it again
  /// where the server asks to wait (DELAY, BACK_CHAN_BUSY). `over`, if any, is told which connection the last try went over; it must
  /// outlive the call.
  async::Task<Result<CompoundReply>> call_alone(Compound compound, async::TimePoint deadline,
                                                rpc::Channel** over = nullptr);

  /// After CREATE_SESSION over `bound`: the others are strangers to the new session.
  void rebind_all(const rpc::Channel& bound);
  /// CONN_NOT_BOUND_TO_SESSION: the server does not take the connection for one of the session's (RFC 8881
  /// 2.10.3.1).
  void unbound(const rpc::Channel& channel) { lane_of(channel).bound = false; }
  /// Has it bound, or waits `pause` for it to come back. False if neither this connection nor another can be
  /// had for the session, which is then of no use.
  async::Task<bool> bind_again(const rpc::Channel& channel, async::Clock::duration pause,
                               async::TimePoint deadline);

  [[nodiscard]] bool wants_backchannel() const { return callback_slots_ != 0; }
  /// What the backchannel can take: what fits every connection that stands, both ways and without chunks.
  [[nodiscard]] channel_attrs4 backchannel_attributes() const;
  /// The server has lost sight of the backchannel: binds every connection anew, or has the session replaced.
  /// Not more often than is useful.
  void mend_backchannel(bool by_new_session);
  /// Whether there is state that the server may recall.
  void hold(bool recallable);

  /// Makes a health check of the connection, which the server knows to be the session's; false if that cannot be now.
  using HealthCheck = std::function<bool(rpc::Channel& over)>;
  /// Calls::check_connections().
  void check_health(std::chrono::milliseconds every, HealthCheck by);

 private:
  /// A server that cannot bind a connection for long is asked twice in a minute.
  static constexpr async::Clock::duration kMostBindingPause = std::chrono::seconds(30);

  struct Lane final : rpc::BackwardService {
    Lane(Lanes& l, rpc::Channel& c) : lanes(l), channel(c) {}
    void on_backward_call(rpcrdma::BackwardId id, fabric::ConstBytes message) override {
      lanes.backward_(channel, id, message);
    }
    Lanes& lanes;
    rpc::Channel& channel;
    bool bound = false;  ///< to the session of the moment
    bool binding = false;
    bool refused = false;  ///< the server does not want it, or is another
    bool proven = false;   ///< its connection leads to the server
    unsigned strange = 0;  ///< so many times in a row the session or its client id was not known there
    async::Loop::TimerId timer = 0;  ///< of bind_later(); 0: it is not to be bound later
    async::Backoff pause{kFirstDelay, kMostBindingPause};
    [[nodiscard]] bool usable() const { return channel.up() && bound; }
    /// Takes what needs no session.
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
  Compound bind_arguments();
  async::Task<Result<CompoundReply>> call_patiently(Compound compound, async::TimePoint deadline,
                                                    rpc::Channel* by, rpc::Channel** over = nullptr);
  void hold_all();
  void check_health(Lane& lane);

  Calls& calls_;
  const std::uint32_t callback_slots_;
  const BackwardSink backward_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Proof proof_;
  async::Event bind_ended_;
  bool recallable_ = false;
  std::chrono::milliseconds check_every_{};  // 0: not yet
  HealthCheck check_;
  async::TimePoint last_mended_{};
};

}  // namespace nfsrdma::nfs4
