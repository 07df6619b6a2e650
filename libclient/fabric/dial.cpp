#include "fabric/dial.h"

#include <algorithm>
#include <cerrno>

#include "fabric/address.h"
#include "fabric/carried.h"
#include "fabric/verbs/library.h"

namespace nfsrdma::fabric {
namespace {

using namespace std::chrono_literals;

/// Time allowed for address resolution. An address that leads to a device is resolved from a table, or by one
/// exchange in the local network.
constexpr auto resolve_time = 2s;

/// How many local ports are tried. The RDMA connection manager chooses a port without looking at TCP's ports,
/// and siw, which runs over TCP, may find it taken.
constexpr unsigned most_ports = 5;

/// A connection that is made over one fabric or the other, and from then on forwards every call to it.
class Dialing final : public Connection, private Handler {
 public:
  Dialing(async::Loop& loop, DialOptions options, Handler& handler, Fabrics fabrics)
      : loop_(loop),
        handler_(handler),
        options_(std::move(options)),
        fabrics_(std::move(fabrics)),
        peer_(peer_text(options_.address, options_.host)) {
    start();
  }
  ~Dialing() override = default;
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;

  void post_receive(ReceiveBuffer buffer) override {
    if (!established_) receives_.push_back(buffer.storage().size());
    if (inner_) inner_->post_receive(std::move(buffer));
  }
  void post_send(const SendWork& work) override {
    if (inner_) inner_->post_send(work);
  }
  bool send_copy(ConstBytes message) override { return inner_ && inner_->send_copy(message); }
  Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) override {
    if (inner_) return inner_->expose(memory, reach, to);
    return Error{ErrorKind::connection, ENOTCONN, "", peer_, "the connection is closed. Connect again"};
  }
  Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) override {
    if (inner_) return inner_->revoke(segments, cookie);
    return {};
  }
  bool revoke_now(std::span<const RemoteSegment> segments) override {
    return inner_ && inner_->revoke_now(segments);
  }
  bool settle() override { return !inner_ || inner_->settle(); }
  Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) override {
    if (inner_) return inner_->abandon(segments, cookie);
    return {};
  }
  void forget(std::span<const RemoteSegment> segments) override {
    if (inner_) inner_->forget(segments);
  }
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) override {
    if (inner_) inner_->post_rdma_write(local, remote, cookie);
  }
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) override {
    if (inner_) inner_->post_rdma_read(local, remote, cookie);
  }
  void flush() override {
    if (inner_) inner_->flush();
  }
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override {
    return inner_ ? inner_->segments_for(length) : 1;
  }
  void close() override {
    closed_ = true;
    if (inner_) inner_->close();
  }
  [[nodiscard]] std::string peer_name() const override { return peer_; }

 private:
  void start() {
    if (options_.choice == Choice::iwarp) return try_iwarp("fabric=iwarp was asked for");
    const std::string missing = fabrics_.missing_device();
    if (missing.empty()) return try_verbs();
    if (options_.choice == Choice::automatic) {
      not_tried_ = missing;
      return try_iwarp("fabric=auto: " + missing);
    }
    loop_.post([this, missing, token = std::weak_ptr(alive_)] {
      if (token.expired() || closed_) return;
      end({ErrorKind::local, ENODEV, "connect", peer_,
           "fabric=verbs is not possible: " + missing + ". Use fabric=iwarp"});
    });
  }

  void try_verbs() {
    over_verbs_ = true;
    const bool alone = options_.choice == Choice::verbs;
    const auto now = loop_.now();
    verbs::ConnectOptions options;
    options.address = options_.address;
    options.host = options_.host;
    options.queues = options_.queues;
    options.deadline = options_.deadline;
    if (!alone) {
      // Leave half of the remaining time for an attempt over iwarp.
      if (options_.deadline != async::TimePoint::max()) {
        options.deadline = now + (options_.deadline - std::min(now, options_.deadline)) / 2;
      }
      options.resolve_deadline = now + resolve_time;
    }
    options.reason = alone ? "fabric=verbs was asked for" : "fabric=auto: an RDMA device leads to the server";
    options.private_data = [this](const Traits& traits) {
      device_ = traits.device;
      return private_data(traits);
    };
    inner_ = fabrics_.verbs(loop_, std::move(options), *this);
    post_receives();
  }

  void try_iwarp(std::string reason) {
    over_verbs_ = false;
    iwarp::ConnectOptions options;
    options.address = options_.address;
    options.host = options_.host;
    options.crc = options_.crc;
    options.deadline = options_.deadline;
    options.private_data = private_data(iwarp::iwarp_traits());
    options.reason = std::move(reason);
    inner_ =
        options_.carrier ? carried(std::move(options)) : fabrics_.iwarp(loop_, std::move(options), *this);
    post_receives();
  }

  [[nodiscard]] std::unique_ptr<Connection> carried(iwarp::ConnectOptions options) {
    auto make = [connect = fabrics_.iwarp, options = std::move(options)](
                    async::Loop& there, Handler& handler) { return connect(there, options, handler); };
    Handler& self = *this;
    return std::make_unique<CarriedConnection>(loop_, options_.carrier, peer_, std::move(make), self);
  }

  /// Posts again, on the new inner connection, the Receives that the owner has posted so far.
  void post_receives() {
    for (const std::size_t capacity : receives_) inner_->post_receive(ReceiveBuffer(capacity));
  }
  /// Destroys the inner connection later, from the loop, because this is called from inside one of its
  /// callbacks.
  void drop_inner() {
    loop_.post([old = std::shared_ptr<Connection>(std::move(inner_))] {});
  }

  [[nodiscard]] std::vector<std::byte> private_data(const Traits& traits) const {
    return options_.private_data ? options_.private_data(traits) : std::vector<std::byte>();
  }

  /// Names verbs, with the device if one was found, for messages.
  [[nodiscard]] std::string verbs_text() const {
    return device_.empty() ? "verbs" : "verbs (" + device_ + ")";
  }

  void on_established(const Established& established) override {
    established_ = true;
    receives_ = {};
    handler_.on_established(established);
  }
  void on_received(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override {
    handler_.on_received(std::move(buffer), invalidated);
  }
  void on_completed(std::uint64_t cookie) override { handler_.on_completed(cookie); }

  void on_closed(const Error& why) override {
    if (closed_) return;
    if (established_) return end(why);
    if (over_verbs_ && why.errno_value() == EADDRINUSE && ++ports_taken_ < most_ports) {
      drop_inner();
      return try_verbs();
    }
    if (options_.choice != Choice::automatic) return end(why);
    if (!over_verbs_) return end(both(why));
    verbs_failure_ = why;
    drop_inner();
    try_iwarp("fabric=auto: " + verbs_text() + " failed: " + why.message());
  }
  // By value: `why` may be part of an object that is destroyed here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void end(Error why) {
    closed_ = true;
    handler_.on_closed(why);
  }
  /// Returns iwarp's error, with the outcome of the attempt over verbs added to its text.
  [[nodiscard]] Error both(const Error& why) const {
    std::string text = why.message();
    if (verbs_failure_) {
      text = "iwarp: " + text + "; " + verbs_text() + ": " + verbs_failure_->message();
    } else {
      text += " (tried over iwarp; not over verbs: " + not_tried_ + ")";
    }
    return {why.kind(), why.errno_value(), why.operation(), why.peer(), std::move(text)};
  }

  async::Loop& loop_;
  Handler& handler_;
  const DialOptions options_;
  const Fabrics fabrics_;
  const std::string peer_;
  std::unique_ptr<Connection> inner_;
  bool over_verbs_ = false;
  bool established_ = false;
  bool closed_ = false;
  unsigned ports_taken_ = 0;
  std::string device_;  // the device that verbs has found
  std::string not_tried_;
  std::optional<Error> verbs_failure_;
  std::vector<std::size_t> receives_;  // capacities of the Receives posted so far, for the next attempt
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

const Fabrics& system_fabrics() {
  static const Fabrics fabrics{&verbs::missing_device, &verbs::connect, &iwarp::connect};
  return fabrics;
}

std::unique_ptr<Connection> dial(async::Loop& loop, DialOptions options, Handler& handler,
                                 const Fabrics& fabrics) {
  return std::make_unique<Dialing>(loop, std::move(options), handler, fabrics);
}

Dialer system_dialer() {
  return [](async::Loop& loop, DialOptions options, Handler& handler) {
    return dial(loop, std::move(options), handler);
  };
}

}  // namespace nfsrdma::fabric
