#include "sim/fabric/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nfsrdma::sim::detail {
namespace {

using namespace std::chrono_literals;

/// How long the system tries to connect where nobody says how long to.
constexpr auto kLongestDial = 127s;
/// Of a Send that is copied; iwarp's is what a segment of the path holds.
constexpr std::size_t kLongestCopy = 1400;

}  // namespace

// ---- beginning and end ----

SimConnection::SimConnection(Host& host, std::shared_ptr<Pair> pair, fabric::DialOptions options,
                             const DeviceHabits& habits, fabric::Handler& handler)
    : host_(host),
      loop_(host.loop()),
      pair_(std::move(pair)),
      side_(Side::dialer),
      habits_(habits),
      handler_(handler),
      peer_(pair_ ? pair_->peer_name(Side::dialer) : options.host) {
  begin();
  const auto deadline = std::min(options.deadline, loop_.now() + kLongestDial);
  deadline_ = loop_.at(deadline, [this] {
    deadline_ = 0;
    end(error(ErrorKind::timeout, ETIMEDOUT, "the peer does not answer"));
  });
  if (!pair_) {
    end(error(ErrorKind::connection, EHOSTUNREACH, "there is no such machine"));
    return;
  }
  Random& random = simulation().random();
  const LinkConditions& link = pair_->link();
  if (random.per_mille(link.dials_lost)) return;
  if (random.per_mille(link.dials_refused)) {
    simulation().after(2 * link.latency, [this, alive = alive_] {
      if (*alive) end(error(ErrorKind::connection, ECONNREFUSED, "nobody listens there"));
    });
    return;
  }
  if (random.per_mille(link.dials_reset)) {
    const Duration when = random.between(Duration{}, 4 * link.latency);
    simulation().after(when, [pair = pair_] { pair->cut({}); });
  }
  Piece piece;
  piece.kind = Passing::Kind::setup;
  piece.signal = Signal::request;
  if (options.private_data) piece.bytes = options.private_data(traits());
  pair_->send(side_, std::move(piece));
}

SimConnection::SimConnection(Host& host, std::shared_ptr<Pair> pair,
                             std::vector<std::byte> peers_private_data, const DeviceHabits& habits,
                             fabric::Handler& handler)
    : host_(host),
      loop_(host.loop()),
      pair_(std::move(pair)),
      side_(Side::listener),
      habits_(habits),
      handler_(handler),
      peer_(pair_->peer_name(Side::listener)) {
  begin();
  set_up(std::move(peers_private_data));
}

SimConnection::~SimConnection() {
  close();
}

void SimConnection::begin() {
  if (pair_) pair_->attach(side_, *this);
  hook_ = loop_.at_end_of_turn([this] { flush(); });
}

void SimConnection::set_up(std::vector<std::byte> peers_private_data) {
  if (state_ != State::connecting) return;
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  state_ = State::established;
  established_.private_data = std::move(peers_private_data);
  established_.fabric = "sim";
  established_.reason = "there is no other";
  established_.traits = traits();
  queue({News::Kind::established, 0, {}, {}, {}});
}

/// No handle outlives its connection, and no work that was under way completes (fabric.h).
void SimConnection::let_go() {
  exposed_.clear();
  reads_.clear();
  outbox_.clear();
  receives_.clear();
}

void SimConnection::end(const Error& why) {
  if (state_ == State::ended || state_ == State::closed) return;
  simulation().say(host_.number(), "connection ends", why.text());
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  state_ = State::ended;
  if (hook_ != 0) loop_.remove_end_of_turn(std::exchange(hook_, 0));
  let_go();
  if (pair_) pair_->detach(side_);
  queue({News::Kind::ended, 0, {}, {}, why});
}

void SimConnection::close() {
  const State before = state_;
  if (before == State::closed) return;
  fall_silent();
  if (pair_ && before != State::ended) pair_->leave(side_);
}

void SimConnection::fall_silent() {
  state_ = State::closed;
  *alive_ = false;
  if (deadline_ != 0) loop_.cancel(std::exchange(deadline_, 0));
  if (hook_ != 0) loop_.remove_end_of_turn(std::exchange(hook_, 0));
  let_go();
  news_.clear();
}

Error SimConnection::error(ErrorKind kind, int errno_value, std::string text) const {
  return {kind, errno_value, "", peer_, std::move(text)};
}

// ---- what the owner hears ----

void SimConnection::queue(News news) {
  news_.push_back(std::move(news));
  if (waking_) return;
  waking_ = true;
  const Duration late = simulation().random().between(Duration{}, habits_.longest_wakeup);
  if (late.count() == 0) return wake_owner();
  simulation().after(late, [this, alive = alive_] {
    if (*alive) wake_owner();
  });
}

void SimConnection::wake_owner() {
  loop_.post([this, alive = alive_] {
    if (*alive) tell();
  });
}

void SimConnection::tell() {
  waking_ = false;
  const auto alive = alive_;
  while (*alive && !news_.empty()) {
    News news = std::move(news_.front());
    news_.pop_front();
    tell(news);
  }
}

void SimConnection::tell(News& news) {
  // What was under way when the connection ended does not complete.
  if (news.kind == News::Kind::completed && state_ == State::ended) return;
  switch (news.kind) {
    case News::Kind::established:
      return handler_.on_established(established_);
    case News::Kind::received:
      return handler_.on_received(std::move(*news.buffer), news.invalidated);
    case News::Kind::completed:
      return handler_.on_completed(news.cookie);
    case News::Kind::ended:
      return handler_.on_closed(*news.why);
  }
}

void SimConnection::completed_later(std::uint64_t cookie, Duration delay) {
  simulation().after(delay, [this, alive = alive_, cookie] {
    if (*alive && state_ == State::established) queue({News::Kind::completed, cookie, {}, {}, {}});
  });
}

void SimConnection::received_there(std::uint64_t cookie) {
  if (state_ == State::established) queue({News::Kind::completed, cookie, {}, {}, {}});
}

// ---- sending ----

void SimConnection::post_receive(fabric::ReceiveBuffer buffer) {
  if (state_ == State::connecting || state_ == State::established) receives_.push_back(std::move(buffer));
}

void SimConnection::post_send(const fabric::SendWork& work) {
  if (state_ != State::established) return;
  Work out;
  out.cookie = work.cookie;
  out.invalidate = work.invalidate;
  for (const fabric::ConstBytes piece : work.pieces)
    out.bytes.insert(out.bytes.end(), piece.begin(), piece.end());
  outbox_.push_back(std::move(out));
}

bool SimConnection::send_copy(fabric::ConstBytes message) {
  if (!habits_.at_once || message.size() > kLongestCopy) return false;
  if (state_ != State::established) return true;
  Work out;
  out.completes = false;
  out.bytes.assign(message.begin(), message.end());
  outbox_.push_back(std::move(out));
  return true;
}

void SimConnection::post_rdma_write(fabric::ConstBytes local, const fabric::RemoteSegment& remote,
                                    std::uint64_t cookie) {
  if (state_ != State::established) return;
  Work out;
  out.kind = Passing::Kind::write;
  out.cookie = cookie;
  out.local = local;
  out.remote = remote;
  outbox_.push_back(std::move(out));
}

void SimConnection::post_rdma_read(fabric::Bytes local, const fabric::RemoteSegment& remote,
                                   std::uint64_t cookie) {
  if (state_ != State::established) return;
  Work out;
  out.kind = Passing::Kind::read_request;
  out.cookie = next_read_++;
  out.remote = remote;
  reads_.emplace(out.cookie, Read{local, cookie});
  outbox_.push_back(std::move(out));
}

void SimConnection::flush() {
  for (Work& work : std::exchange(outbox_, {})) {
    if (state_ == State::established) transmit(work);
  }
}

void SimConnection::transmit(Work& work) {
  Piece head;
  head.kind = work.kind;
  head.cookie = work.cookie;
  head.remote = work.remote;
  if (work.kind == Passing::Kind::read_request) return pair_->send(side_, std::move(head));
  head.invalidate = work.invalidate;
  head.solicits_completion = work.completes && habits_.completes_when_received;
  send_pieces(std::move(head),
              work.kind == Passing::Kind::write ? work.local : fabric::ConstBytes(work.bytes));
  if (work.completes && !habits_.completes_when_received)
    queue({News::Kind::completed, work.cookie, {}, {}, {}});
}

void SimConnection::send_pieces(Piece head, fabric::ConstBytes bytes) {
  const std::size_t most = std::max<std::size_t>(pair_->link().piece, 1);
  std::uint64_t at = 0;
  do {
    const auto part = bytes.first(std::min(most, bytes.size()));
    bytes = bytes.subspan(part.size());
    Piece piece = head;
    piece.bytes.assign(part.begin(), part.end());
    piece.at = at;
    piece.remote.offset += at;
    piece.last = bytes.empty();
    at += part.size();
    pair_->send(side_, std::move(piece));
  } while (!bytes.empty());
}

// ---- memory ----

std::size_t SimConnection::segments_for(std::size_t length) const {
  return std::max<std::size_t>((length + habits_.largest_segment - 1) / habits_.largest_segment, 1);
}

Status SimConnection::expose(fabric::Bytes memory, fabric::Reach reach,
                             std::vector<fabric::RemoteSegment>& to) {
  if (state_ != State::established) {
    return error(ErrorKind::connection, ENOTCONN, "the connection is closed. Connect again");
  }
  do {
    const auto part = memory.first(std::min(memory.size(), habits_.largest_segment));
    memory = memory.subspan(part.size());
    std::uint32_t handle = 0;
    while (handle == 0 || exposed_.contains(handle)) handle = loop_.random<std::uint32_t>();
    // Offsets begin anywhere: on some devices they are addresses.
    const std::uint64_t base = loop_.random<std::uint32_t>() * std::uint64_t{4096};
    exposed_.emplace(handle, Exposed{part, base, part.size(), reach, false});
    to.push_back({handle, static_cast<std::uint32_t>(part.size()), base});
  } while (!memory.empty());
  return {};
}

bool SimConnection::expose_as(std::uint32_t handle, fabric::Bytes memory, fabric::Reach reach) {
  if (state_ != State::established) return true;  // of its end its owner is about to hear
  return exposed_.emplace(handle, Exposed{memory, 0, memory.size(), reach, false}).second;
}

Status SimConnection::revoke(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) {
  return take_back(segments, cookie, false);
}

bool SimConnection::revoke_now(std::span<const fabric::RemoteSegment> segments) {
  if (!habits_.at_once) return false;
  withdraw(segments, false);
  return true;
}

Status SimConnection::abandon(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie) {
  return take_back(segments, cookie, true);
}

void SimConnection::forget(std::span<const fabric::RemoteSegment> segments) {
  for (const auto& segment : segments) {
    const auto found = exposed_.find(segment.handle);
    if (found != exposed_.end() && found->second.abandoned) exposed_.erase(found);
  }
}

void SimConnection::withdraw(std::span<const fabric::RemoteSegment> segments, bool keeps_names) {
  for (const auto& segment : segments) {
    const auto found = exposed_.find(segment.handle);
    if (found == exposed_.end()) continue;  // the peer has invalidated it
    if (keeps_names) {
      found->second.abandoned = true;
      found->second.memory = {};
    } else {
      exposed_.erase(found);
    }
  }
}

Status SimConnection::take_back(std::span<const fabric::RemoteSegment> segments, std::uint64_t cookie,
                                bool keeps_names) {
  const bool any =
      std::ranges::any_of(segments, [this](const auto& s) { return exposed_.contains(s.handle); });
  Random& random = simulation().random();
  if (state_ == State::established && any) {
    if (random.per_mille(habits_.revokes_failed)) {
      return error(ErrorKind::local, EIO, "the device does not take it back");
    }
    if (random.per_mille(habits_.revokes_never)) {
      simulation().note(host_.number(), "revoke hangs", cookie);
      return {};
    }
    if (random.per_mille(habits_.revokes_late)) {
      const Duration late = random.between(Duration{}, habits_.longest_revoke);
      simulation().after(late, [this, alive = alive_, keeps_names, cookie,
                                all = std::vector(segments.begin(), segments.end())] {
        if (!*alive || state_ != State::established) return;
        withdraw(all, keeps_names);
        queue({News::Kind::completed, cookie, {}, {}, {}});
      });
      return {};
    }
  }
  withdraw(segments, keeps_names);
  handler_.on_completed(cookie);
  return {};
}

// ---- the device ----

/// It is the peer's fault or ours; either way the connection is of no use any more, and both are told.
void SimConnection::refuse(const std::string& what) {
  pair_->network().problems_ += host_.name() + ": " + what + "\n";
  end(error(ErrorKind::protocol, EPROTO, what));
  pair_->cut({pair_->link().latency, pair_->link().latency});
}

SimConnection::Allowed SimConnection::allow(const fabric::RemoteSegment& remote, std::size_t length,
                                            fabric::Reach reach, fabric::Bytes& memory) {
  const auto found = exposed_.find(remote.handle);
  if (found == exposed_.end()) {
    refuse("the peer names memory that is not exposed");
    return Allowed::no;
  }
  const Exposed& exposed = found->second;
  const bool inside = remote.offset >= exposed.base && length <= exposed.length &&
                      remote.offset - exposed.base <= exposed.length - length;
  if (exposed.reach != reach || !inside) {
    refuse(inside ? "the peer does with exposed memory what it may not"
                  : "the peer goes beyond exposed memory");
    return Allowed::no;
  }
  if (exposed.abandoned && reach == fabric::Reach::remote_write) return Allowed::thrown_away;
  if (exposed.abandoned) {
    end(error(ErrorKind::cancelled, ECANCELED, "the peer reads what was given up"));
    pair_->cut({pair_->link().latency, pair_->link().latency});
    return Allowed::no;
  }
  memory = exposed.memory.subspan(remote.offset - exposed.base, length);
  return Allowed::yes;
}

void SimConnection::place_write(const Piece& piece) {
  if (state_ != State::established) return;
  fabric::Bytes memory;
  if (allow(piece.remote, piece.bytes.size(), fabric::Reach::remote_write, memory) != Allowed::yes) return;
  std::ranges::copy(piece.bytes, memory.begin());
}

void SimConnection::answer_read(const Piece& piece) {
  if (state_ != State::established) return;
  fabric::Bytes memory;
  if (allow(piece.remote, piece.remote.length, fabric::Reach::remote_read, memory) != Allowed::yes) return;
  Piece head;
  head.kind = Passing::Kind::read_answer;
  head.cookie = piece.cookie;
  send_pieces(std::move(head), memory);
}

void SimConnection::place_read_answer(const Piece& piece) {
  const auto found = reads_.find(piece.cookie);
  if (state_ != State::established || found == reads_.end()) return;
  const Read& read = found->second;
  if (piece.at <= read.into.size() && piece.bytes.size() <= read.into.size() - piece.at) {
    std::ranges::copy(piece.bytes, read.into.begin() + static_cast<std::ptrdiff_t>(piece.at));
  }
  if (!piece.last) return;
  const std::uint64_t cookie = read.cookie;
  reads_.erase(found);
  queue({News::Kind::completed, cookie, {}, {}, {}});
}

void SimConnection::place_send(Piece& piece) {
  if (state_ != State::established) return;
  if (!piece.last || !arriving_.empty()) {
    arriving_.insert(arriving_.end(), piece.bytes.begin(), piece.bytes.end());
    if (!piece.last) return;
    piece.bytes = std::exchange(arriving_, {});
  }
  if (receives_.empty()) return refuse("a Send finds no Receive");
  fabric::ReceiveBuffer buffer = std::move(receives_.front());
  receives_.pop_front();
  if (buffer.storage().size() < piece.bytes.size()) return refuse("a Send finds a Receive that is too small");
  if (piece.invalidate) {
    if (!habits_.remote_invalidation || exposed_.erase(*piece.invalidate) == 0) {
      return refuse("the peer invalidates what it may not");
    }
  }
  std::ranges::copy(piece.bytes, buffer.storage().begin());
  buffer.set_length(piece.bytes.size());
  queue({News::Kind::received, 0, std::move(buffer), piece.invalidate, {}});
}

}  // namespace nfsrdma::sim::detail
