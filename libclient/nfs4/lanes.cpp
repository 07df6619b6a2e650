// The connections of a session (RFC 8881 2.10.3): which of them takes a call, and how the server gets to know
// one.
#include <algorithm>
#include <cerrno>

#include "async/buggify.h"
#include "nfs4/session.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {

Session::Lane& Session::add_lane(rpc::Channel& channel) {
  Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>(*this, channel));
  channel.set_link_sink([this, &lane](bool up) { on_link(lane, up); });
  channel.set_backward(&lane);
  hold_connections();
  return lane;
}

async::Task<Status> Session::add(rpc::Channel& channel, async::TimePoint deadline) {
  Lane& lane = add_lane(channel);
  lane.binding = true;  // below, not by on_link()
  const auto connected = co_await channel.connect(deadline);
  lane.binding = false;
  if (connected) co_await bind(lane);
  co_return connected;
}

std::size_t Session::usable_connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lanes_, [](const auto& lane) { return lane->usable(); }));
}

/// The connection for the next call. With none that stands it waits for the first.
Session::Lane& Session::route() {
  Lane* best = lanes_.front().get();
  if (lanes_.size() == 1) return *best;
  const bool any = async::buggify(loop());
  for (const auto& lane : lanes_) {
    if (!lane->usable()) continue;
    if (any) return *lane;
    if (!best->usable() || lane->channel.load() < best->channel.load()) best = lane.get();
  }
  return *best;
}

/// What the backchannel can take (U13): what fits every connection that stands, both ways and without chunks.
channel_attrs4 Session::backchannel_attributes() const {
  const bool some_up = std::ranges::any_of(lanes_, [](const auto& lane) { return lane->channel.up(); });
  std::uint32_t receive = ~0U, send = ~0U;
  for (const auto& lane : lanes_) {
    if (some_up && !lane->channel.up()) continue;  // what it will be able to take is not known
    receive = std::min(receive, lane->channel.facts().reply_threshold);
    send = std::min(send, lane->channel.facts().call_threshold);
  }
  return back_channel(receive, send, std::max(options_.callback_slots, 1U));
}

void Session::on_link(Lane& lane, bool up) {
  if (up) {
    bind_if_needed(lane);
    return;
  }
  lane.bound = false;
  if (usable_connections() != 0) lane.channel.hand_calls_back();
}

void Session::bind_if_needed(Lane& lane) {
  // Alone and without a backchannel it is known by the first SEQUENCE (RFC 8881 2.10.3.1).
  if (lanes_.size() == 1 && !wants_backchannel()) lane.bound = true;
  if ((open_ || closing_) && !lane.bound && !lane.binding && !lane.refused && lane.channel.up())
    beside_.spawn(bind(lane));
}

/// After CREATE_SESSION over `bound`: the others are strangers to the new session.
void Session::rebind_all(const rpc::Channel& bound) {
  for (const auto& lane : lanes_) lane->bound = &lane->channel == &bound;
  for (const auto& lane : lanes_) bind_if_needed(*lane);
}

/// `again`: the server has lost sight of the connection as a backchannel.
async::Task<void> Session::bind(Lane& lane, bool again) {
  if (lane.binding || (lane.bound && !again)) co_return;
  lane.binding = true;
  Compound compound(channel_.take_message(), options_.credential, facts_.minor_version,
                    "BIND_CONN_TO_SESSION", false);
  const sessionid4 session = facts_.session_id;
  BIND_CONN_TO_SESSION4args args;
  args.bctsa_sessid = session;
  args.bctsa_dir = wants_backchannel() ? CDFC4_FORE_OR_BOTH : CDFC4_FORE;
  args.bctsa_use_conn_in_rdma_mode = false;
  compound.add<op::BIND_CONN_TO_SESSION>(args);
  auto reply = co_await call_raw(compound, default_deadline(), &lane.channel);
  channel_.give_back(compound.take_message());
  lane.binding = false;
  bind_ended_.notify_all();
  if (session != facts_.session_id) {
    bind_if_needed(lane);
    co_return;
  }
  if (!reply) co_return;  // the connection; its next beginning tries again
  BIND_CONN_TO_SESSION4res res;
  if (reply->take<op::BIND_CONN_TO_SESSION>(res)) {
    lane.bound = true;
    co_return;
  }
  const nfsstat4 status = reply->failed_status();
  if (status == NFS4ERR_BADSESSION || status == NFS4ERR_DEADSESSION || status == NFS4ERR_STALE_CLIENTID) {
    start_recovery("the session is gone");
    co_return;
  }
  lane.refused = true;
  hold_connections();
  notices_(error_of(*reply, "BIND_CONN_TO_SESSION", channel_.server()).text());
}

/// CONN_NOT_BOUND_TO_SESSION: the server does not take the connection for one of the session's (RFC 8881
/// 2.10.3.1). False if neither this one nor another can be had for the session, which is then of no use.
async::Task<bool> Session::bind_again(Lane& lane, async::Clock::duration pause, async::TimePoint deadline) {
  if (lane.binding) {
    (void)co_await bind_ended_.wait_until(deadline);
  } else if (lane.channel.up()) {
    co_await bind(lane);
  } else {
    co_await loop().sleep_for(pause);
  }
  co_return !recovering_ && (!lane.refused || usable_connections() != 0);
}

}  // namespace nfsrdma::nfs4
