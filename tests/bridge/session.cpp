#include "bridge/session.h"

#include <algorithm>
#include <utility>

#include "bridge/holes.h"

namespace nfsrdma::bridge {
namespace {

constexpr std::size_t kPauseAt = 32U << 20, kResumeAt = 8U << 20;
constexpr std::uint32_t kBackwardCredits = 16;  // asked for, and the most that are used
constexpr std::size_t kBackwardQueue = 64;
/// For a client that is a little over its credits: it is to get an answer, not a broken connection.
constexpr std::uint32_t kSpareReceives = 4;
constexpr std::chrono::milliseconds kBehindAtMost{50}, kLate{250};
/// Private data that a fault announces may ask for larger Receives than the options do.
constexpr std::uint32_t kLeastReceive = 4096;

std::string hex(std::uint32_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[number >> static_cast<unsigned>(shift) & 0xfU];
  return out;
}

/// RFC 5531 9: accepted, no verifier, SYSTEM_ERR; with its record mark.
xdr::Buffer system_error(std::uint32_t xid) {
  constexpr std::uint32_t kSystemErr = 5;
  xdr::Buffer out;
  for (const std::uint32_t word : {kLastFragment | 24U, xid, kReply, 0U, 0U, 0U, kSystemErr})
    xdr::store_u32(out.extend(4), word);
  return out;
}

std::uint32_t receive_size(const SessionOptions& options) {
  return std::max(options.inline_receive, kLeastReceive);
}
std::uint32_t receive_count(const SessionOptions& options) {
  return options.credits + kBackwardCredits + kSpareReceives;
}

}  // namespace

fabric::verbs::Queues queues_of(const SessionOptions& options) {
  fabric::verbs::Queues out;
  out.receive_size = receive_size(options);
  out.receive_count = receive_count(options);
  // The fault oversized-message sends more than the client's Receives hold.
  out.send_size = std::max(options.inline_send, kLeastReceive) + rpcrdma::kSizeUnit;
  out.send_count = options.credits + kBackwardCredits;
  return out;
}

Session::Session(async::Loop& loop, const SessionOptions& options, Faults& faults, Log log)
    : loop_(loop), options_(options), faults_(faults), log_(std::move(log)) {}

Session::~Session() {
  for (const async::Loop::TimerId id : timers_) loop_.cancel(id);
  if (!over_ && rdma_) rdma_->close();
}

bool Session::start(fabric::Incoming& incoming, const sockaddr_storage& server, std::function<void()> ended) {
  ended_ = std::move(ended);
  std::vector<std::byte> announced;
  if (options_.announce) {
    const auto octets = rpcrdma::encode(
        rpcrdma::PrivateData{options_.remote_invalidation, options_.inline_send, options_.inline_receive});
    announced.assign(octets.begin(), octets.end());
  }
  announced = sabotaged_private_data(std::move(announced), faults_);
  // What the client makes of it counts, not what was meant.
  const auto mine = rpcrdma::find_private_data(announced);
  const auto peer = rpcrdma::find_private_data(incoming.private_data());
  agreed_ = rpcrdma::negotiate(mine, peer);
  client_receives_ = peer ? peer->receive_size : rpcrdma::kDefaultThreshold;

  auto accepted = incoming.accept(std::move(announced), *this);
  if (!accepted) {
    log_("not accepted: " + accepted.error().text());
    return false;
  }
  rdma_ = std::move(*accepted);
  post_receives(receive_count(options_));
  TcpPeer::Events& events = *this;
  tcp_ = std::make_unique<TcpPeer>(loop_, server, options_.largest_message, events);
  return true;
}

void Session::post_receives(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count && !over_; ++i)
    rdma_->post_receive(fabric::ReceiveBuffer(receive_size(options_)));
}

void Session::end(const std::string& why) {
  if (over_) return;
  over_ = true;
  log_("ended: " + why + " (" + std::to_string(calls_) + " calls, " + std::to_string(replies_) +
       " replies, " + std::to_string(invalidations_) + " with Invalidate, " +
       std::to_string(backward_calls_) + " backward calls)");
  rdma_->close();
  if (tcp_) tcp_->close();
  works_.clear();
  loop_.post(ended_);
}

void Session::later(std::chrono::milliseconds delay, std::function<void()> then) {
  const auto id = std::make_shared<async::Loop::TimerId>(0);
  *id = loop_.at(loop_.now() + delay, [this, id, then = std::move(then)] {
    timers_.erase(*id);
    if (!over_) then();
  });
  timers_.insert(*id);
}

std::uint64_t Session::work(std::size_t bytes, std::function<void()> done) {
  bytes_out_ += bytes;
  if (bytes_out_ > kPauseAt && !paused_) {
    paused_ = true;
    tcp_->pause(true);
  }
  works_.emplace(next_cookie_, Work{bytes, std::move(done)});
  return next_cookie_++;
}

void Session::on_completed(std::uint64_t cookie) {
  const auto found = works_.find(cookie);
  if (found == works_.end()) return;
  const Work work = std::move(found->second);
  works_.erase(found);
  bytes_out_ -= work.bytes;
  if (paused_ && bytes_out_ < kResumeAt) {
    paused_ = false;
    tcp_->pause(false);
  }
  if (work.done) work.done();
}

// ---- from the client ----

void Session::on_established(const fabric::Established& agreed) {
  log_("connected: " + agreed.fabric + ", " + agreed.detail + ", inline " +
       std::to_string(agreed_.reply_threshold) + " in, " + std::to_string(agreed_.call_threshold) + " out");
}

void Session::on_closed(const Error& why) {
  end(why.text());
}

void Session::on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t> /*invalidated*/) {
  if (over_) return;
  CallPlan plan = plan_call(buffer.message(), options_.largest_message);
  switch (plan.verdict) {
    case Verdict::call:
      return take_call(std::move(plan));
    case Verdict::backward_reply:
    case Verdict::backward_error:
      take_backward_answer(std::move(plan));
      break;
    case Verdict::discard:
      log_(std::string("discarded a message: ") + plan.why);
      break;
    case Verdict::err_vers:
      log_("answered version " + std::to_string(plan.header.rdma_vers) + " with ERR_VERS");
      send_error(plan.header, rpcrdma::rpc_rdma_errcode::ERR_VERS);
      break;
    case Verdict::err_chunk:
      log_("answered " + hex(plan.header.rdma_xid) + " with ERR_CHUNK: " + plan.why);
      send_error(plan.header, rpcrdma::rpc_rdma_errcode::ERR_CHUNK);
      break;
  }
  post_receives(1);
}

void Session::take_call(CallPlan plan) {
  ++calls_;
  const auto shared = std::make_shared<CallPlan>(std::move(plan));
  const auto left = std::make_shared<std::size_t>(shared->fetches.size());
  if (*left == 0) return fetched(shared);
  for (const Fetch& one : shared->fetches) {
    const std::uint64_t cookie = work(0, [this, shared, left] {
      if (--*left == 0) fetched(shared);
    });
    const Bytes into(shared->record.data() + one.at, one.from.length);
    rdma_->post_rdma_read(into, one.from, cookie);
    if (over_) return;
  }
}

void Session::fetched(const std::shared_ptr<CallPlan>& plan) {
  const auto route = route_of(plan->message(), plan->header.rdma_xid);
  if (!route) {
    log_("answered " + hex(plan->header.rdma_xid) + " with ERR_CHUNK: its RPC header is none, or another's");
    send_error(plan->header, rpcrdma::rpc_rdma_errcode::ERR_CHUNK);
    return post_receives(1);
  }
  waiting_.emplace(plan->header.rdma_xid, offer_of(plan->header, *route));
  tcp_->send(std::move(plan->record));
}

void Session::send_error(const rdma_msg& call, rpcrdma::rpc_rdma_errcode code) {
  xdr::Buffer message;
  rpcrdma::encode(error_header(call.rdma_xid, call.rdma_vers, options_.credits, code), message);
  post_send(std::move(message));
}

void Session::take_backward_answer(CallPlan plan) {
  const std::uint32_t xid = plan.header.rdma_xid;
  backward_.granted = std::clamp<std::uint32_t>(plan.header.rdma_credit, 1, kBackwardCredits);
  const auto found = backward_.under_way.find(xid);
  if (found == backward_.under_way.end())
    return log_("an answer to backward Call " + hex(xid) + ", of no server's");
  backward_.under_way.erase(found);
  // An RDMA_ERROR is the end of the Call (RFC 8166 4.5), so the server gets an end as well.
  tcp_->send(plan.verdict == Verdict::backward_reply ? std::move(plan.record) : system_error(xid));
  send_backward_calls();
}

// ---- from the server ----

void Session::on_server_lost(const std::string& why) {
  end("server: " + why);
}

void Session::on_record(xdr::Buffer message) {
  if (over_) return;
  if (message.size() < 2 * rpcrdma::kWord) return end("server: a record that is no RPC message");
  const std::uint32_t type = xdr::load_u32(message.data() + rpcrdma::kWord);
  if (type == kCall) return take_backward_call(std::move(message));
  if (type == kReply) return take_reply(std::move(message));
  end("server: a record that is no RPC message");
}

void Session::take_reply(xdr::Buffer message) {
  const std::uint32_t xid = xdr::load_u32(message.data());
  const auto found = waiting_.find(xid);
  if (found == waiting_.end()) return log_("the server answers " + hex(xid) + ", which nobody asked");
  const Offer offer = std::move(found->second);
  waiting_.erase(found);
  const Limits limits{agreed_.call_threshold, options_.credits, agreed_.remote_invalidation, true};
  if (options_.reports_holes) {
    if (auto changed = with_holes(offer.route, message.bytes())) message = *std::move(changed);
  }
  const auto reply = std::make_shared<xdr::Buffer>(std::move(message));
  const auto ready = std::make_shared<Delivery>(
      plan_delivery(offer, reply->bytes(), limits, ++replies_, client_receives_, faults_));
  if (ready->plan.header.proc == rdma_proc::RDMA_ERROR)
    log_("answered " + hex(xid) + " with RDMA_ERROR: " + ready->plan.why);
  post_receives(1);
  deliver(ready, reply);
}

void Session::deliver(const Ready& ready, const std::shared_ptr<xdr::Buffer>& reply) {
  if (ready->disconnect) return end("a fault, disconnect-at");
  if (ready->drop) return;
  const auto now = [this, ready, reply] { deliver_now(ready, reply); };
  if (ready->delay.count() != 0) return later(ready->delay, now);
  if (ready->behind && !behind_) {
    behind_ = now;
    return later(kBehindAtMost, [this] {
      if (const auto waiting = std::exchange(behind_, nullptr)) waiting();
    });
  }
  now();
  if (const auto waiting = std::exchange(behind_, nullptr); waiting && !over_) waiting();
}

void Session::deliver_now(const Ready& ready, const std::shared_ptr<xdr::Buffer>& reply) {
  if (ready->cut_write) return cut_in_write(ready);
  for (xdr::Buffer& extra : ready->before) post_send(std::move(extra));
  for (const RemoteWrite& one : ready->plan.writes) post_write(one, reply);
  if (ready->twice) {
    xdr::Buffer copy;
    std::ranges::copy(ready->message.bytes(), copy.extend(ready->message.size()));
    post_send(std::move(copy));
  }
  post_send(std::move(ready->message), ready->plan.invalidate);
  if (ready->late_write) later(kLate, [this, ready] { write_late(ready); });
}

void Session::cut_in_write(const Ready& ready) {
  RemoteWrite half = ready->plan.writes.front();
  half.local = half.local.first(half.local.size() / 2);
  half.remote.length = static_cast<std::uint32_t>(half.local.size());
  if (!half.local.empty()) post_write(half, nullptr);
  rdma_->flush();
  end("a fault, disconnect-in-write");
}

void Session::write_late(const Ready& ready) {
  for (RemoteWrite one : ready->plan.writes) {
    const auto rubbish = std::make_shared<std::vector<std::byte>>(one.local.size(), std::byte{0xa5});
    one.local = *rubbish;
    post_write(one, rubbish);
  }
}

void Session::post_write(const RemoteWrite& write, std::shared_ptr<const void> keep) {
  if (over_) return;
  const std::uint64_t cookie = work(write.local.size(), [keep = std::move(keep)] {});
  rdma_->post_rdma_write(write.local, write.remote, cookie);
}

void Session::post_send(xdr::Buffer message, std::optional<std::uint32_t> invalidate) {
  if (over_) return;
  const auto kept = std::make_shared<xdr::Buffer>(std::move(message));
  const ConstBytes piece = kept->bytes();
  fabric::SendWork send;
  send.cookie = work(piece.size(), [kept] {});
  send.pieces = {&piece, 1};
  send.invalidate = invalidate;
  if (invalidate) ++invalidations_;
  rdma_->post_send(send);
}

// ---- the server's Calls ----

void Session::take_backward_call(xdr::Buffer message) {
  const std::uint32_t xid = xdr::load_u32(message.data());
  const bool fits = rpcrdma::kMinHeader + message.size() <= agreed_.call_threshold;
  if (!fits || backward_.queue.size() >= kBackwardQueue) {
    log_("backward Call " + hex(xid) + (fits ? " finds the queue full" : " is over the inline threshold"));
    return tcp_->send(system_error(xid));
  }
  backward_.queue.push_back(std::move(message));
  send_backward_calls();
}

void Session::send_backward_calls() {
  // The first message of a connection is the client's (RFC 5044 7.1): before it nothing may be sent.
  while (calls_ != 0 && !backward_.queue.empty() && backward_.under_way.size() < backward_.granted) {
    const xdr::Buffer call = std::move(backward_.queue.front());
    backward_.queue.pop_front();
    rdma_msg header;
    header.rdma_xid = xdr::load_u32(call.data());
    header.rdma_credit = kBackwardCredits;
    backward_.under_way.insert(header.rdma_xid);
    ++backward_calls_;
    xdr::Buffer message;
    rpcrdma::encode(header, message);
    std::ranges::copy(call.bytes(), message.extend(call.size()));
    post_send(std::move(message));
  }
}

}  // namespace nfsrdma::bridge
