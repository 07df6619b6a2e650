#include "fabric/carried.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "fabric/iwarp/stream.h"

namespace nfsrdma::fabric {
namespace {

/// The largest piece of memory that one handle can expose.
constexpr std::size_t kMostOfSegment = iwarp::RegionTable::max_length;

Error closed_error(const std::string& peer) {
  return {ErrorKind::connection, ENOTCONN, "", peer, "the connection is closed. Connect again"};
}

}  // namespace

// ---- Carrier: who hears what ----

std::uint64_t Carrier::join(CarriedConnection& connection) {
  members_.push_back({++last_number_, &connection});
  return last_number_;
}

void Carrier::leave(std::uint64_t number) {
  std::erase_if(members_, [number](const Member& one) { return one.number == number; });
}

void Carrier::carry_out(Order& order) {
  order.of->carry_out(order);
}

void Carrier::tell(News& news) {
  const auto found = std::ranges::find(members_, news.of, &Member::number);
  if (found != members_.end()) found->connection->hear(news);
}

// ---- on the carrier's loop ----

void Carried::carry_out(Order& order) {
  std::visit([this](auto& what) { perform(what); }, order.what);
}

void Carried::perform(Order::Begin& order) {
  connection_ = order.make(carrier_.loop(), *this);
}

void Carried::perform(Order::Receive& order) {
  if (!closed_) connection_->post_receive(std::move(order.buffer));
}

void Carried::perform(Order::Send& order) {
  if (closed_) return;
  if (order.rest.empty()) {
    order.work.pieces = {&order.first, 1};
  } else {
    order.rest.insert(order.rest.begin(), order.first);
    order.work.pieces = order.rest;
  }
  connection_->post_send(order.work);
}

void Carried::perform(Order::Expose& order) {
  if (closed_ || connection_->expose_as(order.handle, order.memory, order.reach)) return;
  // Handles does not give a handle twice, but the connection draws the handles for its own RDMA Reads at
  // random (post_rdma_read), and one of these may be equal.
  fail({ErrorKind::connection, EBUSY, "", peer_, "the memory handle is already in use. Retry"});
}

void Carried::perform(Order::TakeBack& order) {
  if (closed_) return;
  const Status done = order.abandons ? connection_->abandon(order.segments, order.cookie)
                                     : connection_->revoke(order.segments, order.cookie);
  if (!done) fail(done.error());
}

void Carried::perform(Order::Forget& order) {
  if (!closed_) connection_->forget(order.segments);
}

void Carried::perform(Order::RdmaWrite& order) {
  if (!closed_) connection_->post_rdma_write(order.local, order.remote, order.cookie);
}

void Carried::perform(Order::RdmaRead& order) {
  if (!closed_) connection_->post_rdma_read(order.local, order.remote, order.cookie);
}

void Carried::perform(Order::End& /*order*/) {
  closed_ = true;
  connection_->close();
  connection_.reset();
}

/// Closes the connection, which is of no use any more, and reports the reason to its owner.
void Carried::fail(const Error& why) {
  connection_->close();
  on_closed(why);
}

void Carried::on_established(const Established& established) {
  carrier_.report({number_, established});
}

void Carried::on_received(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) {
  carrier_.report({number_, News::Received{std::move(buffer), invalidated}});
}

void Carried::on_completed(std::uint64_t cookie) {
  carrier_.report({number_, News::Completed{cookie}});
}

void Carried::on_closed(const Error& why) {
  closed_ = true;
  carrier_.report({number_, why});
}

// ---- on the owner's ----

namespace {

/// The function of one round. It need not be reversible, so it returns the upper bits of two multiplications,
/// to which every bit of `half` and of `key` contributes.
std::uint16_t mixed(std::uint16_t half, std::uint64_t key) {
  std::uint64_t out = (half ^ key) * 0x9e3779b97f4a7c15U;
  out = (out ^ (out >> 32U)) * 0xd6e8feb86659fd93U;
  return static_cast<std::uint16_t>(out >> 48U);
}

}  // namespace

Handles::Handles(async::Loop& loop) {
  loop.random(std::as_writable_bytes(std::span(keys_)));
}

std::uint32_t Handles::next() {
  std::uint32_t out = 0;
  while (out == 0) out = permuted(count_++);
  return out;
}

std::uint32_t Handles::permuted(std::uint32_t number) const {
  auto left = static_cast<std::uint16_t>(number >> 16U);
  auto right = static_cast<std::uint16_t>(number);
  for (const std::uint64_t key : keys_) {
    left = std::exchange(right, static_cast<std::uint16_t>(left ^ mixed(right, key)));
  }
  return static_cast<std::uint32_t>(left) << 16U | right;
}

CarriedConnection::CarriedConnection(async::Loop& loop, std::shared_ptr<Carrier> carrier, std::string peer,
                                     MakeConnection make, Handler& handler)
    : carrier_(std::move(carrier)),
      peer_(std::move(peer)),
      handler_(handler),
      number_(carrier_->join(*this)),
      carried_(*carrier_, number_, peer_),
      handles_(loop) {
  order(Order::Begin{std::move(make)});
}

CarriedConnection::~CarriedConnection() {
  close();
}

template <class What>
void CarriedConnection::order(What what) {
  if (!ended_) carrier_->order({&carried_, std::move(what)});
}

void CarriedConnection::post_receive(ReceiveBuffer buffer) {
  order(Order::Receive{std::move(buffer)});
}

void CarriedConnection::post_send(const SendWork& work) {
  Order::Send send{work, {}, {}};
  send.work.pieces = {};
  if (!work.pieces.empty()) {
    send.first = work.pieces.front();
    send.rest.assign(work.pieces.begin() + 1, work.pieces.end());
  }
  order(std::move(send));
}

Status CarriedConnection::expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) {
  if (closed_) return closed_error(peer_);
  do {
    const Bytes part = memory.first(std::min(memory.size(), kMostOfSegment));
    const std::uint32_t handle = handles_.next();
    order(Order::Expose{handle, part, reach});
    to.push_back({handle, static_cast<std::uint32_t>(part.size()), 0});
    memory = memory.subspan(part.size());
  } while (!memory.empty());
  return {};
}

Status CarriedConnection::revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  order(Order::TakeBack{{segments.begin(), segments.end()}, cookie, false});
  return {};
}

Status CarriedConnection::abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  order(Order::TakeBack{{segments.begin(), segments.end()}, cookie, true});
  return {};
}

bool CarriedConnection::settle() {
  carrier_->settle();
  return true;
}

void CarriedConnection::forget(std::span<const RemoteSegment> segments) {
  order(Order::Forget{{segments.begin(), segments.end()}});
}

void CarriedConnection::post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  order(Order::RdmaWrite{local, remote, cookie});
}

void CarriedConnection::post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  order(Order::RdmaRead{local, remote, cookie});
}

void CarriedConnection::flush() {
  carrier_->hand_over();
}

std::size_t CarriedConnection::segments_for(std::size_t length) const {
  return iwarp::Stream::segments_for(length);
}

void CarriedConnection::close() {
  if (ended_) return;
  closed_ = true;
  carrier_->leave(number_);
  order(Order::End{});
  ended_ = true;
  carrier_->settle();
}

void CarriedConnection::hear(News& news) {
  if (closed_) return;
  if (const auto* established = std::get_if<Established>(&news.what)) {
    handler_.on_established(*established);
  } else if (auto* received = std::get_if<News::Received>(&news.what)) {
    handler_.on_received(std::move(received->buffer), received->invalidated);
  } else if (const auto* completed = std::get_if<News::Completed>(&news.what)) {
    handler_.on_completed(completed->cookie);
  } else {
    closed_ = true;
    handler_.on_closed(std::get<Error>(news.what));
  }
}

}  // namespace nfsrdma::fabric
