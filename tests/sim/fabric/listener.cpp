#include "sim/fabric/listener.h"

#include <cerrno>

#include "sim/fabric/connection.h"

namespace nfsrdma::sim::detail {

SimListener::SimListener(Network& network, Host& host, std::uint16_t port, Callback callback)
    : network_(network), host_(host), port_(port), callback_(std::move(callback)) {
  network_.listeners_[{host.number(), port}] = this;
}

SimListener::~SimListener() {
  *alive_ = false;
  const auto mine = network_.listeners_.find({host_.number(), port_});
  if (mine != network_.listeners_.end() && mine->second == this) network_.listeners_.erase(mine);
}

void SimListener::take(std::shared_ptr<Pair> pair, std::vector<std::byte> private_data) {
  // Shared, as what is posted has to be copyable.
  auto incoming = std::make_shared<std::unique_ptr<SimIncoming>>(
      std::make_unique<SimIncoming>(std::move(pair), std::move(private_data)));
  host_.loop().post([this, alive = alive_, incoming] {
    if (*alive) callback_(std::move(*incoming));
  });
}

SimIncoming::SimIncoming(std::shared_ptr<Pair> pair, std::vector<std::byte> private_data)
    : pair_(std::move(pair)),
      private_data_(std::move(private_data)),
      peer_(pair_->peer_name(Side::listener)) {}

SimIncoming::~SimIncoming() {
  reject({});
}

Result<std::unique_ptr<fabric::Connection>> SimIncoming::accept(std::vector<std::byte> private_data,
                                                                fabric::Handler& handler) {
  const auto pair = std::exchange(pair_, nullptr);
  if (!pair || pair->face(Side::dialer) == nullptr) {
    return Error(ErrorKind::connection, ECONNRESET, "accept", peer_, "the peer has gone");
  }
  Host& host = pair->host(Side::listener);
  auto out =
      std::make_unique<SimConnection>(host, pair, private_data_, pair->network().habits(host), handler);
  Piece reply;
  reply.kind = Passing::Kind::setup;
  reply.signal = Signal::reply;
  reply.bytes = std::move(private_data);
  pair->send(Side::listener, std::move(reply));
  return std::unique_ptr<fabric::Connection>(std::move(out));
}

void SimIncoming::reject(fabric::ConstBytes /*private_data*/) {
  const auto pair = std::exchange(pair_, nullptr);
  if (!pair) return;
  Piece refusal;
  refusal.kind = Passing::Kind::setup;
  refusal.signal = Signal::refusal;
  pair->send(Side::listener, std::move(refusal));
}

}  // namespace nfsrdma::sim::detail
