#include "rpc/channel.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fabric/address.h"
#include "rpc/message.h"

namespace nfsrdma::rpc {
namespace {

/// The top bits of a cookie tell the kinds of completions apart: of a Call's Send, of its Revoke (with the
/// same CallId), and of an answer to a Call of the server's (a BackwardId). Ids count from 1.
constexpr std::uint64_t kRevokeCookie = 1ULL << 63;
constexpr std::uint64_t kAnswerCookie = 1ULL << 62;
constexpr std::size_t kSpareMessages = 128;
/// Calls count as seldom if more than this time is between them.
constexpr auto kSeldom = std::chrono::seconds(1);

/// Returns the sizes of the queues: twice the credits, because the server may make as many Calls of its own
/// (RFC 8167 4.1). If there are few credits, the receive queue has room for all Receives that the requester
/// posts.
fabric::Queues queues_of(const ChannelOptions& options) {
  fabric::Queues out;
  out.receive_size = options.rdma.receive_size;
  out.send_size = options.rdma.send_size;
  out.send_count = 2 * options.rdma.credits_wanted;
  out.receive_count = std::max(out.send_count, rpcrdma::most_receives(options.rdma));
  out.busy_poll = options.busy_poll;
  return out;
}

}  // namespace

Channel::Channel(async::Loop& loop, ChannelOptions options, NoticeSink notices)
    : loop_(loop),
      options_(std::move(options)),
      notices_(std::move(notices)),
      requester_(options_.rdma, *this, loop.random<std::uint32_t>(), options_.server) {}

Channel::~Channel() {
  *alive_ = false;
  if (timer_ != 0) loop_.cancel(timer_);
  end_tap(nullptr);
  if (connection_) connection_->close();
}

// ---- calls ----

void Channel::begin(rpcrdma::Call&& call, Waiter& waiter) {
  call.owner = &waiter;
  waiter.id_ = requester_.submit(std::move(call), loop_.now());
  // The pump may complete the call at once (if it cannot be constructed), and the waiter may then be
  // destroyed: do not use it after this.
  pump();
}

void Channel::leave(Waiter& waiter) {
  if (waiter.id_ == 0) return;
  const rpcrdma::CallId id = std::exchange(waiter.id_, 0);
  requester_.disown(id);
  requester_.cancel(id, loop_.now());
  take_memory_back(id);
  pump();
}

/// Takes the memory of a call back at once, also from inside of an action, because its waiter goes away and
/// cannot keep the memory until the call ends.
void Channel::take_memory_back(rpcrdma::CallId id) {
  using Memory = rpcrdma::Requester::Memory;
  std::optional<rpcrdma::Revoke> revoke;
  if (requester_.want_back(id, revoke) == Memory::free) return;
  if (revoke) perform(*revoke);
  const Memory now = requester_.want_back(id, revoke);
  if (now == Memory::free || !connection_) return;
  if (now == Memory::taken_back && connection_->settle()) return;
  // RFC 8166 4.5.4: only the end of the connection takes the memory back.
  drop_connection();
  if (now == Memory::taken_back) requester_.on_revoked(id, false, loop_.now());
}

void Channel::Awaiter::await_suspend(std::coroutine_handle<> waiting) {
  waiting_ = waiting;
  channel_.begin(std::move(call_), *this);
}

void Channel::Awaiter::on_complete(rpcrdma::Complete& how) {
  outcome_ = {how.failure, std::move(how.error), std::move(how.reply), std::move(how.message), how.sends,
              how.losses};
  waiting_.resume();
}

void Channel::perform(rpcrdma::Complete& action) {
  if (action.owner == nullptr) {
    give_back(std::move(action.message));
    if (action.reply) give_back(std::move(*action.reply));
    return;
  }
  Waiter& waiter = *static_cast<Waiter*>(action.owner);
  waiter.id_ = 0;
  waiter.on_complete(action);
}

void Channel::hand_calls_back() {
  for (const rpcrdma::CallId id : requester_.owned()) requester_.cancel(id, loop_.now());
  pump();
}

xdr::Message Channel::take_message() {
  if (spare_messages_.empty()) return {};
  xdr::Message message = std::move(spare_messages_.back());
  spare_messages_.pop_back();
  return message;
}

void Channel::give_back(xdr::Message message) {
  message.clear();
  if (spare_messages_.size() < kSpareMessages) spare_messages_.push_back(std::move(message));
}

void Channel::give_back(rpcrdma::Reply reply) {
  if (reply.buffer) keep_buffer(std::move(*reply.buffer));
}

void Channel::keep_buffer(fabric::ReceiveBuffer buffer) {
  if (spare_buffers_.size() >= options_.rdma.credits_wanted + options_.rdma.backward_credits) return;
  spare_buffers_.push_back(std::move(buffer));
}

// ---- the server's calls ----

void Channel::perform(rpcrdma::Deliver& action) {
  if (backward_ != nullptr) {
    backward_->on_backward_call(action.id, action.message);
  } else {
    requester_.decline(action.id);
  }
  keep_buffer(std::move(action.buffer));
}

void Channel::answer(rpcrdma::BackwardId id, xdr::Message reply) {
  requester_.answer(id, reply);
  give_back(std::move(reply));
  pump();
}

void Channel::decline(rpcrdma::BackwardId id) {
  requester_.decline(id);
  pump();
}

void Channel::hold(bool on) {
  requester_.hold(on, loop_.now());
  pump();
}

// ---- the pump: performs the actions that follow from the inputs ----

void Channel::pump() {
  if (pumping_) return;  // called back from inside an action; the loop below performs the new actions
  pumping_ = true;
  while (rpcrdma::Action* const action = requester_.next()) {
    std::visit([this](auto& a) { perform(a); }, *action);
  }
  pumping_ = false;
  arm_timer();
}

void Channel::arm_timer() {
  // A timer that finds nothing to do wakes an idle process. So if calls are seldom, the timer is cancelled
  // when the answer has arrived, and only the one for the next health check is left.
  if (lonely_ && up_ && requester_.pending() == 0) {
    const async::TimePoint check = requester_.next_health_check();
    if (timer_ != 0 && timer_at_ == check) return;
    if (timer_ != 0) loop_.cancel(std::exchange(timer_, 0));
    if (check != async::TimePoint::max()) set_timer(check);
    return;
  }
  // If calls are frequent, an armed timer stays as it is: when it fires too early it finds nothing to do and
  // is armed again, which is cheaper than moving it with every call.
  const auto next = requester_.next_deadline();
  if (next && (timer_ == 0 || timer_at_ > *next)) set_timer(*next);
}

void Channel::set_timer(async::TimePoint when) {
  if (timer_ != 0) {
    loop_.cancel(timer_);
  } else {
    const async::TimePoint now = loop_.now();
    if (now - armed_at_ < kSeldom) lonely_ = false;
    armed_at_ = now;
    calls_when_armed_ = requester_.facts().calls;
  }
  timer_at_ = when;
  timer_ = loop_.at(timer_at_, [this] {
    timer_ = 0;
    lonely_ = requester_.pending() == 0 && requester_.facts().calls - calls_when_armed_ <= 1;
    requester_.on_time(loop_.now());
    if (requester_.wants_health_check(loop_.now())) check_now();
    pump();
  });
}

void Channel::check_health(std::chrono::milliseconds every, std::uint32_t version, HealthCheck by) {
  check_every_ = every;
  check_version_ = version;
  check_ = std::move(by);
  requester_.check_health(every, loop_.now());
  pump();
}

void Channel::end_health_checks() {
  check_ = nullptr;
  requester_.check_health(rpcrdma::Duration::max(), loop_.now());
  pump();
}

void Channel::check_now() {
  if (check_ && check_()) return;
  rpcrdma::Call call;
  call.message = take_message();
  const Credential nobody = Credential::none();
  begin_call(call.message, kNfsProgram, check_version_, 0, nobody);
  call.reply_max_inline = call.reply_max_reduced = nobody.largest_reply_header() + kMostAuthBytes;
  call.health_check = true;
  // The deadline is later than the end of a connection that does not answer, and ensures that the call ends.
  call.deadline = loop_.now() + 3 * check_every_;
  requester_.submit(std::move(call), loop_.now());
}

void Channel::perform(rpcrdma::PostReceives& action) {
  if (!connection_) return;
  for (std::uint32_t i = 0; i < action.count; ++i) {
    if (spare_buffers_.empty()) {
      connection_->post_receive(fabric::ReceiveBuffer(options_.rdma.receive_size));
    } else {
      connection_->post_receive(std::move(spare_buffers_.back()));
      spare_buffers_.pop_back();
    }
  }
}

void Channel::perform(rpcrdma::Send& action) {
  post_send(action.bytes, action.cookie);
}

void Channel::perform(rpcrdma::SendAnswer& action) {
  post_send(action.bytes, action.cookie | kAnswerCookie);
}

void Channel::post_send(fabric::ConstBytes bytes, std::uint64_t cookie) {
  if (!connection_) return;
  if (is_tapped()) [[unlikely]]
    tap_->sent(bytes);
  fabric::SendWork work;
  work.cookie = cookie;
  work.pieces = {&bytes, 1};
  connection_->post_send(work);
}

void Channel::perform(rpcrdma::Revoke& action) {
  // The connection is gone, and its handles with it.
  if (!connection_) {
    requester_.on_revoked(action.cookie, true, loop_.now());
    return;
  }
  if (is_tapped()) [[unlikely]]
    tap_->taken_back(action.segments);
  const std::uint64_t cookie = action.cookie | kRevokeCookie;
  const Status done = action.abandoned ? connection_->abandon(action.segments, cookie)
                                       : connection_->revoke(action.segments, cookie);
  if (!done) requester_.on_revoked(action.cookie, false, loop_.now());
}

void Channel::perform(rpcrdma::Forget& action) {
  if (connection_) connection_->forget(action.segments);
}

void Channel::perform(rpcrdma::Close& action) {
  const bool was_dialing = dialing_;
  end_tap(&action.why);
  drop_connection();
  if (was_dialing) {
    requester_.on_connect_failed(action.why, false, loop_.now());
  } else {
    requester_.on_disconnected(action.why, loop_.now());
    if (link_sink_) link_sink_(false);
  }
}

void Channel::perform(rpcrdma::Notice& action) {
  if (notices_) notices_(action);
}

// ---- connections ----

void Channel::perform(rpcrdma::Connect&) {
  address_index_ = 0;
  dial();
}

void Channel::dial() {
  dialing_ = true;
  up_ = false;
  const Address& address = options_.addresses[address_index_];
  address_ = fabric::peer_text(address.storage, "");
  fabric::DialOptions options;
  options.choice = options_.fabric;
  options.address = address.storage;
  options.host = options_.server;
  if (options_.tap) tap_ = options_.tap({address.storage, options_.server});
  options.private_data = [this](const fabric::Traits& traits) {
    auto data = requester_.private_data(traits.remote_invalidation);
    if (tap_) tap_->announced(data);
    return data;
  };
  options.crc = options_.crc;
  options.queues = queues_of(options_);
  options.carrier = options_.carrier;
  // The remaining time is divided among the addresses that are left to try.
  const auto now = loop_.now();
  const auto deadline = std::min(first_deadline_, now + options_.connect_timeout);
  options.deadline = now + (deadline - now) / static_cast<long>(options_.addresses.size() - address_index_);
  connection_ = options_.dial(loop_, std::move(options), *this);
}

/// Closes the connection, and destroys it later, because this may be called from inside one of its callbacks.
void Channel::drop_connection() {
  dialing_ = up_ = false;
  end_tap(nullptr);
  if (!connection_) return;
  connection_->close();
  loop_.post([old = std::shared_ptr<fabric::Connection>(std::move(connection_))] {});
}

/// Ends the Tap of the connection. `why` is null if this side closes the connection.
void Channel::end_tap(const Error* why) {
  if (const auto tap = std::move(tap_)) tap->closed(why);
}

void Channel::on_established(const fabric::Established& established) {
  if (tap_) tap_->established(established);
  dialing_ = false;
  up_ = true;
  ++generation_;
  made_at_ = loop_.now();
  established_ = established;
  // The sink's calls to the server go before the calls that have waited for a connection.
  if (link_sink_) link_sink_(true);
  requester_.on_connected(established_.private_data, loop_.now());
  connect_settled({});
  pump();
}

void Channel::on_closed(const Error& why) {
  const bool was_up = up_;
  end_tap(&why);
  drop_connection();
  if (was_up) {
    requester_.on_disconnected(why, loop_.now());
    if (link_sink_) link_sink_(false);
    pump();
    return;
  }
  if (++address_index_ < options_.addresses.size()) {
    dial();
    return;
  }
  const bool permanent =
      connect_waiter_ != nullptr;  // true for the first connection, whose error is the answer to connect()
  requester_.on_connect_failed(why, permanent, loop_.now());
  connect_settled(why);
  pump();
}

void Channel::connect_settled(Status status) {
  if (!connect_waiter_) return;
  connect_result_ = std::move(status);
  // Resume the waiting task later, not from inside the fabric's callback.
  loop_.post([this, alive = alive_] {
    if (*alive && connect_waiter_) std::exchange(connect_waiter_, nullptr).resume();
  });
}

async::Task<Status> Channel::connect(async::TimePoint deadline) {
  // After shut_down() no event would end the wait.
  if (shut_) co_return shut_error();
  if (requester_.connected()) co_return Status();
  first_deadline_ = deadline;
  struct Settled {
    Channel& channel;
    explicit Settled(Channel& c) : channel(c) {}
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;
    // A task that is destroyed while it waits (an interrupted connect) must not be resumed, and its deadline
    // no longer counts.
    ~Settled() {
      channel.connect_waiter_ = nullptr;
      channel.first_deadline_ = async::TimePoint::max();
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
      channel.connect_waiter_ = waiting;
      channel.requester_.connect(channel.loop_.now());
      channel.pump();
    }
    void await_resume() const noexcept {}
  };
  co_await Settled(*this);
  co_return *std::exchange(connect_result_, std::nullopt);
}

void Channel::shut_down() {
  shut_ = true;
  requester_.shut_down(loop_.now());
  pump();
  drop_connection();
  connect_settled(shut_error());
}

Error Channel::shut_error() const {
  return {ErrorKind::cancelled, ESHUTDOWN, "connect", options_.server,
          "shut down before there was a connection"};
}

void Channel::on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) {
  if (is_tapped()) [[unlikely]]
    tap_->received(buffer.message(), invalidated);
  requester_.on_received(std::move(buffer), invalidated, loop_.now());
  pump();
}

void Channel::on_completed(std::uint64_t cookie) {
  if ((cookie & kRevokeCookie) != 0) {
    requester_.on_revoked(cookie & ~kRevokeCookie, true, loop_.now());
  } else if ((cookie & kAnswerCookie) != 0) {
    requester_.on_answer_sent(cookie & ~kAnswerCookie);
  } else {
    requester_.on_sent(cookie, loop_.now());
  }
  pump();
}

Status Channel::expose(fabric::Bytes memory, fabric::Reach reach, std::vector<rpcrdma::RemoteSegment>& to) {
  if (!connection_) {
    return Error(ErrorKind::connection, ENOTCONN, "expose memory", options_.server, "there is no connection");
  }
  if (!is_tapped()) [[likely]]
    return connection_->expose(memory, reach, to);
  const std::size_t before = to.size();
  Status done = connection_->expose(memory, reach, to);
  if (done) tap_->exposed(memory, std::span(to).subspan(before));
  return done;
}

std::size_t Channel::segments_for(std::size_t length) const {
  return connection_ ? connection_->segments_for(length) : 1;
}

}  // namespace nfsrdma::rpc
