#include "sim/fabric/pair.h"

#include <cerrno>

#include "sim/fabric/connection.h"
#include "sim/fabric/listener.h"

namespace nfsrdma::sim::detail {
namespace {

const char* name_of(const Piece& piece) {
  switch (piece.kind) {
    case Passing::Kind::send:
      return "send arrives";
    case Passing::Kind::write:
      return "write arrives";
    case Passing::Kind::read_request:
      return "read arrives";
    case Passing::Kind::read_answer:
      return "read's answer arrives";
    case Passing::Kind::setup:
      break;
  }
  switch (piece.signal) {
    case Signal::request:
      return "dial arrives";
    case Signal::reply:
      return "dial's answer arrives";
    case Signal::refusal:
      return "refusal arrives";
    default:
      return "end arrives";
  }
}

Error lost(int errno_value, const std::string& peer, std::string text) {
  return {ErrorKind::connection, errno_value, "", peer, std::move(text)};
}

}  // namespace

Pair::Pair(Network& network, std::uint64_t number, Host& dialer, Host& listener, std::uint16_t port)
    : network_(network), number_(number), port_(port), link_(network.between(dialer, listener)) {
  ends_[0].host = &dialer;
  ends_[1].host = &listener;
}

bool Pair::is_between(const Host& a, const Host& b) const {
  return (ends_[0].host == &a && ends_[1].host == &b) || (ends_[0].host == &b && ends_[1].host == &a);
}

bool Pair::has(const Host& host) const {
  return ends_[0].host == &host || ends_[1].host == &host;
}

bool Pair::is_parted() const {
  return network_.parted(*ends_[0].host, *ends_[1].host);
}

bool Pair::stands() const {
  const auto up = [](const End& one) { return one.face != nullptr && one.face->established(); };
  return !cut_ && up(ends_[0]) && up(ends_[1]);
}

std::string Pair::peer_name(Side of) {
  return host(other(of)).name() + ":" + std::to_string(of == Side::dialer ? port_ : 0);
}

Duration Pair::delay() {
  return link_.latency + simulation().random().between(Duration{}, link_.jitter);
}

void Pair::send(Side from, Piece piece) {
  if (cut_) return reset_later(from);
  End& to = end(other(from));
  // A message on the wire takes its time, and then the way takes its own; the order stays.
  const auto size = static_cast<std::int64_t>(piece.bytes.size() + 60);
  const auto rate = static_cast<std::int64_t>(std::max<std::uint64_t>(link_.bytes_per_second, 1));
  to.sent_until = std::max(to.sent_until, simulation().now()) + Duration(size * 1'000'000'000 / rate);
  to.last_arrival = piece.arrives = std::max(to.last_arrival, to.sent_until + delay());
  const bool first = to.coming.empty();
  to.coming.push_back(std::move(piece));
  if (!first) return;  // drain() looks for the next
  simulation().at(to.last_arrival, [self = shared_from_this(), side = other(from)] { self->drain(side); });
}

void Pair::drain(Side side) {
  End& to = end(side);
  while (!to.coming.empty()) {
    const Time when = to.coming.front().arrives;
    if (when > simulation().now()) {
      simulation().at(when, [self = shared_from_this(), side] { self->drain(side); });
      return;
    }
    // wake() and heal() go on here. The system of a stopped program still acknowledges the bytes, so that
    // nobody gives up.
    if (to.host->asleep() || is_parted()) return give_up_later(side);
    if (!to.host->runs()) return;
    Piece piece = std::move(to.coming.front());
    to.coming.pop_front();
    ++to.arrived;
    if (!ration(to, piece)) {
      to.coming.clear();
      return;
    }
    const Passing passing{
        end(other(side)).host->number(), to.host->number(), number_, piece.kind, piece.bytes, piece.last};
    const Fate fate = network_.watch_ && !cut_ ? network_.watch_(passing) : Fate::arrives;
    if (fate == Fate::vanishes) continue;
    if (fate != Fate::cut_before) take_in(side, piece);
    if (fate == Fate::arrives) continue;
    cut({});
    to.coming.clear();
    return;
  }
}

/// After a cut only the first bytes still arrive, and of a message that is not whole the data that is placed
/// as it comes. False: nothing of this one does.
bool Pair::ration(End& to, Piece& piece) {
  if (!to.left) return true;
  if (piece.bytes.size() <= *to.left && piece.kind != Passing::Kind::setup) {
    *to.left -= piece.bytes.size();
    return true;
  }
  const bool placed = piece.kind == Passing::Kind::write || piece.kind == Passing::Kind::read_answer;
  if (!placed || *to.left == 0) return false;
  piece.bytes.resize(*to.left);
  piece.last = false;
  to.left = 0;
  return true;
}

void Pair::take_in(Side side, Piece& piece) {
  End& to = end(side);
  std::uint64_t mark = 0;
  if (piece.kind == Passing::Kind::send) {
    mark = hash_of({reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()});
  }
  simulation().note(to.host->number(), name_of(piece), piece.bytes.size(), mark);
  if (piece.kind == Passing::Kind::setup) return take_setup(side, piece);
  if (to.face == nullptr) return reset_later(other(side));
  switch (piece.kind) {
    case Passing::Kind::send:
      to.face->place_send(piece);
      break;
    case Passing::Kind::write:
      to.face->place_write(piece);
      break;
    case Passing::Kind::read_request:
      to.face->answer_read(piece);
      break;
    case Passing::Kind::read_answer:
      to.face->place_read_answer(piece);
      break;
    case Passing::Kind::setup:
      break;
  }
  SimConnection* const sender = end(other(side)).face;
  if (!piece.last || !piece.solicits_completion || sender == nullptr || cut_) return;
  simulation().after(delay(), [self = shared_from_this(), from = other(side), cookie = piece.cookie] {
    if (SimConnection* const face = self->end(from).face; face != nullptr && !self->cut_) {
      face->received_there(cookie);
    }
  });
}

void Pair::take_setup(Side side, Piece& piece) {
  SimConnection* const face = end(side).face;
  switch (piece.signal) {
    case Signal::request: {
      SimListener* const listener = network_.listener_of(host(side), port_);
      if (listener == nullptr) {
        Piece refusal;
        refusal.kind = Passing::Kind::setup;
        refusal.signal = Signal::refusal;
        return send(side, std::move(refusal));
      }
      return listener->take(shared_from_this(), std::move(piece.bytes));
    }
    case Signal::reply:
      if (face == nullptr) return reset_later(other(side));
      return face->set_up(std::move(piece.bytes));
    case Signal::refusal:
      return tell(side, lost(ECONNREFUSED, peer_name(side), "nobody listens there"));
    case Signal::end:
      cut_ = true;
      return tell(side, lost(ECONNRESET, peer_name(side), "the peer has closed the connection"));
    case Signal::none:
      return;
  }
}

void Pair::tell(Side side, const Error& why) {
  if (SimConnection* const face = end(side).face) face->end(why);
}

void Pair::leave(Side side) {
  end(side).face = nullptr;
  end(side).coming.clear();
  if (cut_) return;
  Piece piece;
  piece.kind = Passing::Kind::setup;
  piece.signal = Signal::end;
  send(side, std::move(piece));
}

void Pair::cut(const Told& told) {
  if (cut_) return;
  cut_ = true;
  simulation().note(0, "connection is cut", number_);
  for (const Side side : {Side::dialer, Side::listener}) {
    End& one = end(side);
    std::size_t under_way = 0;
    for (const Piece& piece : one.coming) under_way += piece.bytes.size();
    one.left = simulation().random().below(under_way + 1);
    const auto& when = side == Side::dialer ? told.dialer : told.listener;
    if (!when) continue;
    simulation().after(*when, [self = shared_from_this(), side] {
      self->tell(side, lost(ECONNRESET, self->peer_name(side), "the connection was reset"));
    });
  }
}

void Pair::vanish(const Host& host) {
  cut_ = true;
  for (End& one : ends_) {
    if (one.host != &host) {
      one.left = 0;  // what it sent last is lost with it
      continue;
    }
    one.coming.clear();
    if (one.face != nullptr) one.face->fall_silent();
    one.face = nullptr;
  }
}

/// Nothing gets through to that side: its peer gives the connection up if that stays so.
void Pair::give_up_later(Side to) {
  simulation().after(link_.gives_up_after, [self = shared_from_this(), to, before = end(to).arrived] {
    if (self->cut_ || self->end(to).arrived != before) return;
    self->cut({std::nullopt, std::nullopt});
    self->tell(other(to), lost(ETIMEDOUT, self->peer_name(other(to)), "the peer does not answer any more"));
  });
}

/// It sends over a connection that the other side knows nothing of any more.
void Pair::reset_later(Side side) {
  if (end(side).face == nullptr) return;
  const Duration when = is_parted() ? link_.gives_up_after : 2 * delay();
  simulation().after(when, [self = shared_from_this(), side] {
    self->tell(side, lost(ECONNRESET, self->peer_name(side), "the connection was reset"));
  });
}

}  // namespace nfsrdma::sim::detail
