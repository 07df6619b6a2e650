#include "nfs4/session/lanes.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "async/buggify.h"
#include "nfs4/compound/callback.h"
#include "rpc/route.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

constexpr async::Clock::duration kBetweenMendings = 1s;
/// How many times in a row the session or the client id may be unknown on a connection, as while the server
/// restarts, before the connection is refused.
constexpr unsigned kMostStrange = 8;
constexpr const char* kStranger =
    ": a connection leads to a server that does not know the session, as behind a load balancer, and is not "
    "used; use nconnect=1";

}  // namespace

Lanes::Lanes(CallLayer& calls, rpc::Channel& first, std::uint32_t callback_slots, BackwardSink backward)
    : calls_(calls),
      callback_slots_(callback_slots),
      backward_(std::move(backward)),
      bind_ended_(first.loop()) {
  add_lane(first).bound = true;  // CREATE_SESSION goes over it
}

Lanes::~Lanes() {
  for (const auto& lane : lanes_) {
    if (lane->timer != 0) calls_.loop().cancel(lane->timer);
    lane->channel.set_link_sink(nullptr);
    lane->channel.set_backward(nullptr);
    lane->channel.hold(false);
    lane->channel.end_health_checks();
  }
}

Lanes::Lane& Lanes::add_lane(rpc::Channel& channel) {
  Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>(*this, channel));
  channel.set_link_sink([this, &lane](bool up) { on_link(lane, up); });
  channel.set_backward(&lane);
  hold_all();
  check_health(lane);
  return lane;
}

Lanes::Lane& Lanes::lane_of(const rpc::Channel& channel) {
  return **std::ranges::find_if(lanes_, [&](const auto& lane) { return &lane->channel == &channel; });
}

async::Task<Status> Lanes::add(rpc::Channel& channel, async::TimePoint deadline) {
  Lane& lane = add_lane(channel);
  lane.binding = true;  // bound below, not by on_link()
  const auto connected = co_await channel.connect(deadline);
  lane.binding = false;
  if (connected) co_await bind(lane);
  co_return connected;
}

std::size_t Lanes::usable() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lanes_, [](const auto& lane) { return lane->usable(); }));
}

std::uint64_t Lanes::connections_made() const {
  std::uint64_t out = 0;
  for (const auto& lane : lanes_) out += lane->channel.generation();
  return out;
}

rpc::Channel& Lanes::route(std::size_t size) {
  rpc::Channel& first = lanes_.front()->channel;
  if (lanes_.size() == 1) return first;
  rpc::Route route(size);
  const bool any = async::buggify(calls_.loop());
  for (const auto& lane : lanes_) {
    if (!lane->usable()) continue;
    if (any) return lane->channel;
    route.consider(lane->channel);
  }
  return route.best() != nullptr ? *route.best() : first;
}

// ---- calls without a session ----

rpc::Channel& Lanes::route_alone(const rpc::Channel* before) {
  if (before != nullptr) {
    const Lane& lane = lane_of(*before);
    if (lane.takes_alone()) return lane.channel;
  }
  if (usable() != 0) return route();
  const auto found = std::ranges::find_if(lanes_, [](const auto& lane) { return lane->takes_alone(); });
  return found != lanes_.end() ? (*found)->channel : lanes_.front()->channel;
}

async::Task<Result<CompoundReply>> Lanes::call_alone(Compound compound, async::TimePoint deadline,
                                                     rpc::Channel** over) {
  return call_patiently(std::move(compound), deadline, nullptr, over);
}

/// Makes a call that needs no session, and repeats it while the server asks to wait. `by`: the connection
/// that the call has to go over; null: any.
async::Task<Result<CompoundReply>> Lanes::call_patiently(Compound compound, async::TimePoint deadline,
                                                         rpc::Channel* by, rpc::Channel** over) {
  async::Backoff delay(50ms, 2s);
  for (;;) {
    rpc::Channel& channel = by != nullptr ? *by : route_alone();
    if (over != nullptr) *over = &channel;
    auto reply = co_await calls_.call_over(channel, compound, deadline);
    if (by == nullptr && CallLayer::was_handed_back(reply)) continue;
    // A server destroys a session with callbacks under way only when they have been answered
    // (BACK_CHAN_BUSY, RFC 8881 18.37.3).
    const bool wait = reply && retry_of(reply->status()) == Retry::later;
    if (!wait || calls_.loop().now() + delay.next() >= deadline) {
      lanes_.front()->channel.give_back(compound.take_message());
      co_return reply;
    }
    co_await calls_.loop().sleep_for(delay.take());
  }
}

// ---- binding ----

void Lanes::on_link(Lane& lane, bool up) {
  if (up) {
    bind_if_needed(lane);
    if (lane.usable()) empty_those_down();
    return;
  }
  lane.bound = lane.proven = false;
  if (usable() != 0) lane.channel.hand_calls_back();
}

/// Called when a connection has become usable. Calls that wait for other connections to come back are handed
/// back, and so made again over this one. A BIND_CONN_TO_SESSION that waits ends in this way, too; another
/// one is sent when its connection is up again.
void Lanes::empty_those_down() {
  if (usable() == 0) return;
  // The loop counts by index, because a caller that gets its call back may add a connection.
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    rpc::Channel& channel = lanes_[i]->channel;
    if (!channel.up()) channel.hand_calls_back();
  }
}

void Lanes::bind_if_needed(Lane& lane) {
  // A single connection without a backchannel is made known by its first SEQUENCE (RFC 8881 2.10.3.1).
  if (lanes_.size() == 1 && !wants_backchannel()) lane.bound = true;
  if (calls_.phase() != CallLayer::Phase::beginning && !lane.bound && !lane.binding && !lane.refused &&
      lane.channel.up())
    calls_.background().spawn(bind(lane));
}

void Lanes::rebind_all(const rpc::Channel& bound) {
  for (const auto& lane : lanes_) {
    lane->bound = &lane->channel == &bound;
    // The server has just created a session over the connection, so it wants the connection, whatever it said
    // of an earlier session.
    if (lane->bound && std::exchange(lane->refused, false)) hold_all();
  }
  for (const auto& lane : lanes_) bind_if_needed(*lane);
  empty_those_down();
}

Compound Lanes::bind_arguments(const sessionid4& session, bool backchannel) {
  Compound compound = calls_.begin_alone("BIND_CONN_TO_SESSION");
  BIND_CONN_TO_SESSION4args args;
  args.bctsa_sessid = session;
  args.bctsa_dir = backchannel ? CDFC4_FORE_OR_BOTH : CDFC4_FORE;
  args.bctsa_use_conn_in_rdma_mode = false;
  compound.add<op::BIND_CONN_TO_SESSION>(args);
  return compound;
}

/// Binds the connection to the session. `again`: the connection is bound, but the server has lost track of
/// it as a backchannel.
async::Task<void> Lanes::bind(Lane& lane, bool again) {
  if (lane.binding || (lane.bound && !again)) co_return;
  lane.binding = true;
  if (const bool leads_there = co_await prove(lane); !leads_there) {
    lane.binding = false;
    bind_ended_.notify_all();
    co_return;
  }
  const sessionid4 session = calls_.facts().session_id;
  auto reply = co_await call_patiently(bind_arguments(session, wants_backchannel()),
                                       calls_.default_deadline(), &lane.channel);
  lane.binding = false;
  bind_ended_.notify_all();
  if (session != calls_.facts().session_id) {
    bind_if_needed(lane);
    co_return;
  }
  if (!reply) {
    // If the connection has ended, it is bound when it is up again.
    bind_later(lane, again);
    co_return;
  }
  BIND_CONN_TO_SESSION4res res;
  if (reply->take<op::BIND_CONN_TO_SESSION>(res)) {
    lane.bound = true;
    lane.strange = 0;
    lane.pause = async::Backoff(kFirstDelay, kMostBindingPause);
    empty_those_down();
    co_return;
  }
  take_refusal(lane, again, calls_.error_of(*reply, "BIND_CONN_TO_SESSION", calls_.server()));
}

/// Acts on the server's refusal to bind the connection, by the table of statuses.
void Lanes::take_refusal(Lane& lane, bool again, const Error& error) {
  const Retry retry = retry_of(error);
  if (passes(retry)) return bind_later(lane, again);
  if (retry != Retry::with_new_session) return refuse(lane, error.text());
  if (++lane.strange > kMostStrange && usable() != 0) return refuse(lane, lane.channel.server() + kStranger);
  calls_.start_recovery("the server no longer has the session");
}

/// Binds the connection after a pause, unless the connection or the session ends before.
void Lanes::bind_later(Lane& lane, bool again) {
  if (lane.timer != 0 || !lane.channel.up() || calls_.ending()) return;
  lane.timer = calls_.loop().at(calls_.loop().now() + lane.pause.take(), [this, &lane, again] {
    lane.timer = 0;
    if (again && lane.bound && !lane.binding && !lane.refused && lane.channel.up() && !calls_.ending()) {
      calls_.background().spawn(bind(lane, true));
    } else if (!calls_.ending()) {
      bind_if_needed(lane);
    }
  });
}

/// Proves that a connection to another address leads to the session's server. Returns false also if the
/// server cannot answer now: the proof is then tried again later, or when the connection is up the next time.
async::Task<bool> Lanes::prove(Lane& lane) {
  if (!lane.channel.elsewhere() || lane.proven) co_return true;
  auto leads_there = co_await proof_(lane.channel);
  if (!leads_there) {
    const Retry retry = retry_of(leads_there.error());
    // The client id is unknown there. The server may have restarted, which the session's remaining
    // connections find out.
    const bool strange = retry == Retry::with_new_session;
    const bool refused = strange ? ++lane.strange > kMostStrange && usable() != 0
                                 : leads_there.error().kind() == ErrorKind::server && !passes(retry);
    if (refused) {
      refuse(lane, strange ? lane.channel.server() + kStranger : leads_there.error().text());
    } else {
      bind_later(lane, false);
    }
    co_return false;
  }
  if (!*leads_there) {
    refuse(lane, lane.channel.server() + " is not the same server as " + calls_.server() +
                     ", and is not used; check remoteports=");
  }
  lane.proven = leads_there && *leads_there;
  co_return lane.proven;
}

void Lanes::refuse(Lane& lane, const std::string& why) {
  lane.refused = true;
  hold_all();
  calls_.notice(why);
}

async::Task<bool> Lanes::bind_again(const rpc::Channel& channel, async::Clock::duration pause,
                                    async::TimePoint deadline) {
  Lane& lane = lane_of(channel);
  if (lane.binding) {
    (void)co_await bind_ended_.wait_until(deadline);
  } else if (lane.channel.up()) {
    co_await bind(lane);
  } else {
    co_await calls_.loop().sleep_for(pause);
  }
  co_return !lane.refused || usable() != 0;
}

async::Task<bool> Lanes::bind_to_earlier(const rpc::Channel& channel, sessionid4 session,
                                         async::TimePoint deadline) {
  if (!lane_of(channel).usable()) co_return true;
  co_return co_await bind_to(channel, session, deadline);
}

async::Task<bool> Lanes::bind_to(const rpc::Channel& channel, sessionid4 session, async::TimePoint deadline) {
  auto reply = co_await call_patiently(bind_arguments(session, false), deadline, &lane_of(channel).channel);
  // Without an answer, the connection has ended. The request is sent again over the next one.
  if (!reply || reply->take<op::BIND_CONN_TO_SESSION>()) co_return true;
  const Retry retry = retry_of(reply->failed_status());
  co_return passes(retry) || retry == Retry::with_new_session;
}

// ---- the backchannel ----

channel_attrs4 Lanes::backchannel_attributes() const {
  const bool some_up = std::ranges::any_of(lanes_, [](const auto& lane) { return lane->channel.up(); });
  std::uint32_t receive = ~0U, send = ~0U;
  for (const auto& lane : lanes_) {
    if (some_up && !lane->channel.up()) continue;  // its limits are not known
    receive = std::min(receive, lane->channel.facts().reply_threshold);
    send = std::min(send, lane->channel.facts().call_threshold);
  }
  return back_channel(receive, send, std::max(callback_slots_, 1U));
}

void Lanes::mend_backchannel(bool by_new_session) {
  const async::TimePoint now = calls_.loop().now();
  if (!calls_.facts().backchannel || now - last_mended_ <= kBetweenMendings) return;
  last_mended_ = now;
  if (by_new_session) return calls_.start_recovery("the server lost track of its callbacks", true);
  for (const auto& lane : lanes_) {
    if (!lane->binding && !lane->refused && lane->channel.up()) calls_.background().spawn(bind(*lane, true));
  }
}

void Lanes::hold(bool recallable) {
  recallable_ = recallable;
  hold_all();
}

void Lanes::check_health(std::chrono::milliseconds every, HealthCheck by) {
  check_every_ = every;
  check_ = std::move(by);
  for (const auto& lane : lanes_) check_health(*lane);
}

void Lanes::check_health(Lane& lane) {
  if (check_every_.count() == 0) return;
  lane.channel.check_health(check_every_, NFS_V4,
                            [this, &lane] { return lane.usable() && check_(lane.channel); });
}

void Lanes::hold_all() {
  const bool held = !calls_.ending() && (lanes_.size() > 1 || recallable_);
  for (const auto& lane : lanes_) lane->channel.hold(held && !lane->refused);
}

}  // namespace nfsrdma::nfs4
