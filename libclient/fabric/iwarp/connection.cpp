#include "fabric/iwarp/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "fabric/address.h"
#include "fabric/iwarp/tcp_connection.h"

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr std::size_t min_send_budget = 128 * 1024;
constexpr std::size_t max_send_budget = 1024 * 1024;
constexpr unsigned sends_per_refresh = 256;  // the segment size is read again after this many sends
constexpr auto first_nudge = std::chrono::milliseconds(100);
constexpr auto last_nudge = std::chrono::seconds(2);
constexpr int rounds_per_event = 16;  // then other descriptors have their turn
constexpr std::size_t most_kept = 16 * 1024;

/// Returns a source of STags that no peer can predict (RFC 8166 8.1.2).
RegionTable::Random stags(async::Loop& loop) {
  return [&loop] { return loop.random<std::uint32_t>(); };
}

}  // namespace

std::unique_ptr<Connection> connect(async::Loop& loop, ConnectOptions options, Handler& handler) {
  return std::make_unique<TcpConnection>(loop, std::move(options), handler);
}

TcpConnection::TcpConnection(async::Loop& loop, ConnectOptions options, Handler& handler)
    : loop_(loop),
      handler_(handler),
      options_(std::move(options)),
      peer_(peer_text(options_.address, options_.host)),
      stream_(*this, stags(loop)),
      send_budget_(min_send_budget) {
  if (options_.private_data.size() > mpa_private_data_room(true)) {
    fail_later(error(ErrorKind::usage, EINVAL, "more than 508 octets of private data"));
    return;
  }
  initiator_.emplace(options_.crc, options_.depths, options_.private_data, peer_);
  if (options_.deadline != async::TimePoint::max()) {
    deadline_ = loop_.at(options_.deadline, [this] {
      deadline_ = 0;
      on_deadline();
    });
  }
  start_attempt();
}

TcpConnection::TcpConnection(async::Loop& loop, Socket socket, std::string peer, const Agreement& agreement,
                             std::vector<std::byte> early, Handler& handler)
    : loop_(loop),
      handler_(handler),
      peer_(std::move(peer)),
      socket_(std::move(socket)),
      early_(std::move(early)),
      stream_(*this, stags(loop)),
      send_budget_(min_send_budget) {
  established_ = established(agreement);
  post(&TcpConnection::announce);
}

TcpConnection::~TcpConnection() {
  release();
}

/// Runs `then` from the loop, if this object still exists.
void TcpConnection::post(void (TcpConnection::*then)()) {
  loop_.post([this, then, token = std::weak_ptr(alive_)] {
    if (!token.expired()) (this->*then)();
  });
}

// ---- Connecting ----

void TcpConnection::start_attempt() {
  state_ = State::connecting;
  reply_.clear();
  socket_ = Socket::open(options_.address.ss_family);
  if (!socket_.valid()) {
    return fail_later(
        error(ErrorKind::local, errno, std::string("cannot create a socket: ") + std::strerror(errno)));
  }
  const auto* address = reinterpret_cast<const sockaddr*>(&options_.address);
  if (::connect(socket_.fd(), address, address_size(options_.address)) != 0 && errno != EINPROGRESS) {
    return fail_later(connect_error(errno));
  }
  loop_.watch(socket_.fd(), EPOLLOUT, [this](std::uint32_t events) { on_event(events); });
}

void TcpConnection::on_event(std::uint32_t events) {
  switch (state_) {
    case State::connecting:
      return on_connected();
    case State::handshaking:
      return on_handshake();
    case State::closed:
      return;
    case State::established:
      break;
  }
  if ((events & EPOLLOUT) != 0) send_pending();
  if (state_ != State::established || (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return;
  gathering_.in_time();
  receive();
  if (state_ == State::established) gather();
}

void TcpConnection::on_connected() {
  if (const int failed = socket_.take_error(); failed != 0) return finish(connect_error(failed));
  std::vector<std::byte> request = initiator_->request();
  iovec whole{.iov_base = request.data(), .iov_len = request.size()};
  // A frame has at most 532 octets and the socket is empty, so the socket takes all of it, or the peer is
  // gone.
  if (socket_.send({&whole, 1}) != static_cast<ssize_t>(request.size())) {
    // An event of an earlier socket with this descriptor number.
    if (errno == EAGAIN || errno == ENOTCONN) return;
    return handshake_outcome(initiator_->closed());
  }
  state_ = State::handshaking;
  loop_.change(socket_.fd(), EPOLLIN);
}

void TcpConnection::on_handshake() {
  std::array<std::byte, mpa_max_frame> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  iovec whole{.iov_base = bytes.data(), .iov_len = bytes.size()};
  const ssize_t count = socket_.receive({&whole, 1});
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) return handshake_outcome(initiator_->closed());
  reply_.insert(reply_.end(), bytes.begin(), bytes.begin() + count);
  handshake_outcome(initiator_->received(reply_));
}

void TcpConnection::handshake_outcome(Initiator::Outcome outcome) {
  switch (outcome.verdict) {
    case Initiator::Verdict::more:
      return;
    case Initiator::Verdict::failed:
      return finish(initiator_->failure());
    case Initiator::Verdict::again:
      loop_.unwatch(socket_.fd());
      socket_.reset();
      return start_attempt();
    case Initiator::Verdict::established:
      break;
  }
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  established_ = established(initiator_->agreement());
  established_.reason = options_.reason;
  early_.assign(reply_.begin() + static_cast<std::ptrdiff_t>(outcome.consumed), reply_.end());
  announce();
}

void TcpConnection::on_deadline() {
  const std::string tried =
      initiator_->history().empty() ? "" : " (before that: " + initiator_->history() + ")";
  if (state_ == State::handshaking) {
    return finish(
        error(ErrorKind::timeout, ETIMEDOUT,
              "the peer accepts TCP connections on this port and does not answer the MPA Request" + tried +
                  ". There seems to be no iWARP listener, or it is overloaded: check the port and the "
                  "server"));
  }
  finish(error(ErrorKind::timeout, ETIMEDOUT,
               "no answer" + tried + ". Check the address, the network and the firewalls for TCP port " +
                   std::to_string(port_of(options_.address))));
}

/// Starts the stream and reports the connection to its owner. Called when the frames have been exchanged.
void TcpConnection::announce() {
  if (state_ == State::closed) return;
  if (!initiator_) loop_.watch(socket_.fd(), EPOLLIN, [this](std::uint32_t events) { on_event(events); });
  state_ = State::established;
  set_interest();
  Stream::Config config;
  config.crc = established_.crc;
  config.responder = !initiator_.has_value();
  config.ird = established_.ird;
  config.ord = established_.ord;
  config.peer = peer_;
  stream_.start(std::move(config));
  refresh_segment_size();
  hook_ = loop_.at_end_of_turn([this] { flush(); });
  if (initiator_) nudge_later(first_nudge);
  handler_.on_established(established_);
  if (state_ == State::established && !early_.empty()) {
    stream_.inject(std::exchange(early_, {}));
    if (state_ == State::established && stream_.failure()) finish_failed();
  }
}

// ---- The interface ----

void TcpConnection::post_receive(ReceiveBuffer buffer) {
  if (state_ != State::closed) stream_.post_receive(std::move(buffer));
}

void TcpConnection::post_send(const SendWork& work) {
  stream_.post_send(work);
}

bool TcpConnection::send_copy(ConstBytes message) {
  return stream_.post_copy(message);
}

void TcpConnection::post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  stream_.post_rdma_write(local, remote, cookie);
}

void TcpConnection::post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) {
  stream_.post_rdma_read(local, remote, cookie);
}

Status TcpConnection::expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) {
  if (state_ == State::closed || stream_.failure()) {
    return error(ErrorKind::connection, ENOTCONN, "the connection is closed. Connect again");
  }
  stream_.expose(memory, reach, to);
  return {};
}

bool TcpConnection::expose_as(std::uint32_t handle, Bytes memory, Reach reach) {
  // A connection that has ended reports success here, because its owner is about to hear of the end.
  return state_ == State::closed || stream_.failure() || stream_.expose_as(handle, memory, reach);
}

bool TcpConnection::revoke_now(std::span<const RemoteSegment> segments) {
  for (const RemoteSegment& segment : segments) stream_.revoke(segment.handle);
  return true;
}

Status TcpConnection::revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  revoke_now(segments);
  if (state_ != State::closed) handler_.on_completed(cookie);
  return {};
}

Status TcpConnection::abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) {
  for (const RemoteSegment& segment : segments) stream_.abandon(segment.handle);
  if (state_ != State::closed) handler_.on_completed(cookie);
  return {};
}

void TcpConnection::forget(std::span<const RemoteSegment> segments) {
  for (const RemoteSegment& segment : segments) stream_.forget(segment.handle);
}

std::size_t TcpConnection::segments_for(std::size_t length) const {
  return Stream::segments_for(length);
}

void TcpConnection::flush() {
  if (state_ == State::established && !broken_) send_pending();
  // Octets that were peeked at stay in the socket until the message that they belong to is complete and the
  // owner's answer to it has been sent (gathering.h).
  if (std::exchange(message_seen_, false) && state_ == State::established) take_kept();
}

void TcpConnection::close() {
  release();
}

void TcpConnection::on_message(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) {
  message_seen_ = true;
  handler_.on_received(std::move(buffer), invalidated);
}

void TcpConnection::on_completed(std::uint64_t cookie) {
  handler_.on_completed(cookie);
}

// ---- Bytes ----

/// Reads what is in the socket. Returns the number of new octets.
std::size_t TcpConnection::receive() {
  std::array<iovec, 1 + Stream::max_plan> iov;  // NOLINT(cppcoreguidelines-pro-type-member-init): see below
  std::array<std::byte, most_kept> waste;       // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t total = 0;
  for (int round = 0; round < rounds_per_event; ++round) {
    const Stream::Plan plan = stream_.plan(std::span(iov).last<Stream::max_plan>());
    iov[0] = {.iov_base = waste.data(), .iov_len = kept_};
    const auto into = std::span(iov).first(1 + plan.count).subspan(kept_ > 0 ? 0 : 1);
    const bool keep = !gathering_.waits() && kept_ < most_kept / 2;
    const ssize_t got = keep ? socket_.peek(into) : socket_.receive(into);
    if (got <= static_cast<ssize_t>(kept_)) {
      stream_.received(0);
      if (got > 0) {  // no new octets; the end of the connection shows only once the old octets are taken out
        if (!keep) kept_ = 0;
        take_kept();
        continue;
      }
      if (got == 0) {
        finish(broken_ ? *broken_
                       : error(ErrorKind::connection, ECONNRESET,
                               stream_.mid_message()
                                   ? "the peer closed the connection in the middle of a message. Retry"
                                   : "the peer closed the connection. Retry"));
      } else if (errno != EAGAIN) {
        finish(broken_ ? *broken_ : socket_error(errno));
      }
      return total;
    }
    const std::size_t count = static_cast<std::size_t>(got) - kept_;
    kept_ = keep ? static_cast<std::size_t>(got) : 0;
    if (kept_ > most_kept) take_kept();
    heard_ = true;
    total += count;
    stream_.received(count);
    if (state_ == State::closed) return total;
    if (stream_.failure()) {
      finish_failed();
      return total;
    }
    if (count < plan.bytes) return total;  // the socket is empty
  }
  set_interest();  // edge-triggered: this asks for another event if there is more
  return total;
}

/// Takes the octets that receive() only peeked at out of the socket.
void TcpConnection::take_kept() {
  if (kept_ > 0) socket_.skip(std::exchange(kept_, 0));
}

/// Sends an empty RDMA Write if the peer stays silent. Linux's siw can miss the first FPDU: if it arrives
/// while the socket is being handed over to siw, it stays in the socket until more bytes arrive. The empty
/// RDMA Write provides such bytes and means nothing.
void TcpConnection::nudge_later(async::Clock::duration pause) {
  nudge_timer_ = loop_.at(loop_.now() + pause, [this, pause] {
    nudge_timer_ = 0;
    if (heard_ || state_ != State::established || pause > last_nudge) return;
    stream_.post_nudge();
    nudge_later(2 * pause);
  });
}

// ---- Letting octets gather (gathering.h) ----

/// Called after a read: chooses how many octets must arrive before the loop reports the socket readable
/// again.
void TcpConnection::gather() {
  if (gathering_.choose(stream_.awaited())) set_low_water();
  if (!gathering_.waits()) return;
  gathering_since_ = loop_.now();
  // A single timer serves many reads: if it fires before the patience of the latest read is over, it is set
  // again.
  if (gather_timer_ == 0) wait_for_the_rest(gathering_since_ + Gathering::patience);
}

void TcpConnection::wait_for_the_rest(async::TimePoint until) {
  gather_timer_ = loop_.at(until, [this] { on_gather_timer(); });
}

void TcpConnection::on_gather_timer() {
  gather_timer_ = 0;
  if (!gathering_.waits()) return;
  const async::TimePoint until = gathering_since_ + Gathering::patience;
  if (loop_.now() < until) return wait_for_the_rest(until);
  const std::size_t octets = receive();
  if (state_ != State::established) return;
  if (octets == 0) return stop_gathering();  // no octet is waiting, so report the next one
  gathering_.too_late();
  gather();
}

void TcpConnection::stop_gathering() {
  if (gathering_.stop()) set_low_water();
}

void TcpConnection::set_low_water() {
  socket_.set_low_water(gathering_.mark());
}

void TcpConnection::set_interest() {
  constexpr std::uint32_t in = std::uint32_t{EPOLLIN} | EPOLLET;
  loop_.change(socket_.fd(), in | (writable_wanted_ ? static_cast<std::uint32_t>(EPOLLOUT) : 0U));
}

void TcpConnection::send_pending() {
  if (sending_) return;  // called back from inside the loop below, which continues by itself
  if (stream_.failure()) return post(&TcpConnection::finish_failed);
  sending_ = true;
  bool blocked = false;
  for (int round = 0; round < rounds_per_event && stream_.wants_to_send() && !blocked; ++round) {
    if (sends_until_refresh_-- == 0) refresh_segment_size();
    const Stream::Plan plan = stream_.fill(send_iov_, send_budget_);
    const ssize_t count = socket_.send(std::span(send_iov_).first(plan.count));
    if (count < 0 && errno != EAGAIN) {
      fail_later(socket_error(errno));
      break;
    }
    const std::size_t taken = count < 0 ? 0 : static_cast<std::size_t>(count);
    blocked = taken < plan.bytes;
    // Octets that the socket does not take have to be laid out again, so the next attempt offers little more
    // than it took.
    send_budget_ = std::clamp(blocked ? taken * 2 : send_budget_ * 2, min_send_budget, max_send_budget);
    stream_.sent(taken);
    if (state_ == State::closed) {
      sending_ = false;
      return;
    }
  }
  sending_ = false;
  const bool more = !broken_ && stream_.wants_to_send();
  if (more && !blocked && writable_wanted_) set_interest();  // edge-triggered: this asks for another event
  want_writable(more);
}

void TcpConnection::refresh_segment_size() {
  sends_until_refresh_ = sends_per_refresh;
  if (const auto mss = socket_.segment_size()) stream_.set_mulpdu(mulpdu_for(*mss));
}

void TcpConnection::want_writable(bool wanted) {
  if (wanted == writable_wanted_) return;
  writable_wanted_ = wanted;
  set_interest();
}

// ---- The end ----

/// Records a failure that is found inside one of the owner's calls. The owner hears of it from the loop.
void TcpConnection::fail_later(Error reason) {
  if (broken_) return;
  broken_ = std::move(reason);
  post(&TcpConnection::finish_broken);
}

void TcpConnection::finish_broken() {
  // A Terminate that the peer sent before the socket broke explains more than the socket's error, so read it
  // first.
  if (state_ == State::established) receive();
  if (state_ != State::closed) finish(*broken_);
}

/// Called when the stream has failed: sends the Terminate, as far as the socket takes it without waiting, and
/// ends the connection.
void TcpConnection::finish_failed() {
  if (state_ == State::closed) return;
  const Stream::Plan plan = stream_.fill(send_iov_, max_send_budget);
  if (plan.count > 0 && socket_.send(std::span(send_iov_).first(plan.count)) > 0) {
    ::shutdown(socket_.fd(), SHUT_WR);
    // Closing a socket with unread bytes in it resets the connection, and the Terminate may be lost with it.
    std::array<std::byte, 65536> waste;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    iovec whole{.iov_base = waste.data(), .iov_len = waste.size()};
    for (int round = 0; round < rounds_per_event && socket_.receive({&whole, 1}) > 0; ++round) {
    }
  }
  finish(*stream_.failure());
}

// By value: `reason` may be part of a member that release() resets.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void TcpConnection::finish(Error reason) {
  if (state_ == State::closed) return;
  release();
  handler_.on_closed(reason);
}

void TcpConnection::release() {
  state_ = State::closed;
  stream_.close();
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  if (nudge_timer_ != 0) loop_.cancel(std::exchange(nudge_timer_, 0));
  if (gather_timer_ != 0) loop_.cancel(std::exchange(gather_timer_, 0));
  if (hook_ != 0) loop_.remove_end_of_turn(std::exchange(hook_, 0));
  if (socket_.valid()) {
    loop_.unwatch(socket_.fd());
    socket_.reset();
  }
}

Error TcpConnection::error(ErrorKind kind, int errno_value, std::string message) const {
  return {kind, errno_value, state_ == State::established ? "" : "connect", peer_, std::move(message)};
}

Error TcpConnection::connect_error(int errno_value) const {
  const std::string port = std::to_string(port_of(options_.address));
  switch (errno_value) {
    case ECONNREFUSED:
      return error(
          ErrorKind::connection, errno_value,
          "connection refused: nothing listens on TCP port " + port +
              ". Check the port, and that the server offers NFS over iWARP (siw or an iWARP card); RoCE and "
              "InfiniBand take an RDMA device on this machine");
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
      return error(ErrorKind::connection, errno_value,
                   std::string("the address cannot be reached: ") + std::strerror(errno_value) +
                       ". Check the address and the routes");
    case ETIMEDOUT:
      return error(ErrorKind::timeout, errno_value,
                   "no answer. Check the address, the network and the firewalls for TCP port " + port);
    default:
      return error(ErrorKind::connection, errno_value,
                   std::string("TCP failed: ") + std::strerror(errno_value) + ". Check the network");
  }
}

Error TcpConnection::socket_error(int errno_value) const {
  if (errno_value == ETIMEDOUT) {
    return error(ErrorKind::connection, errno_value,
                 "the peer no longer answers; the connection was given up. Retry, and check the network");
  }
  const bool reset = errno_value == ECONNRESET || errno_value == EPIPE;
  return error(
      ErrorKind::connection, errno_value,
      reset ? std::string("the peer reset the connection. Retry")
            : std::string("TCP failed: ") + std::strerror(errno_value) + ". Retry, and check the network");
}

}  // namespace nfsrdma::fabric::iwarp
