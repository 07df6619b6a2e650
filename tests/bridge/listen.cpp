#include "bridge/listen.h"

#include <cerrno>
#include <utility>

#include "fabric/iwarp/listener.h"
#include "fabric/verbs/library.h"
#include "fabric/verbs/listener.h"

namespace nfsrdma::bridge {
namespace {

namespace iwarp = fabric::iwarp;

/// A request on iWARP, accepted with the CRC policy of the options.
class WithCrc final : public fabric::Incoming {
 public:
  WithCrc(std::unique_ptr<iwarp::Incoming> incoming, iwarp::CrcPolicy crc)
      : incoming_(std::move(incoming)), crc_(crc) {}
  [[nodiscard]] fabric::ConstBytes private_data() const override { return incoming_->private_data(); }
  [[nodiscard]] const std::string& peer_name() const override { return incoming_->peer_name(); }
  [[nodiscard]] bool move_to(async::Loop& loop) override { return incoming_->move_to(loop); }
  [[nodiscard]] Result<std::unique_ptr<fabric::Connection>> accept(std::vector<std::byte> private_data,
                                                                   fabric::Handler& handler) override {
    return incoming_->accept(iwarp::AcceptOptions{std::move(private_data), crc_, {}}, handler);
  }
  void reject(fabric::ConstBytes private_data) override { incoming_->reject(private_data); }

 private:
  std::unique_ptr<iwarp::Incoming> incoming_;
  iwarp::CrcPolicy crc_;
};

Result<std::unique_ptr<fabric::Listener>> listen_iwarp(async::Loop& loop, const ListenOptions& options,
                                                       const sockaddr_storage& address,
                                                       fabric::Listener::Callback callback) {
  auto made = iwarp::Listener::listen(
      loop, address,
      [crc = options.crc, callback = std::move(callback)](std::unique_ptr<iwarp::Incoming> incoming) {
        callback(std::make_unique<WithCrc>(std::move(incoming), crc));
      });
  if (!made) return made.error();
  return std::unique_ptr<fabric::Listener>(std::move(*made));
}

Result<std::unique_ptr<fabric::Listener>> listen_verbs(async::Loop& loop, const ListenOptions& options,
                                                       const sockaddr_storage& address,
                                                       fabric::Listener::Callback callback) {
  if (const std::string missing = fabric::verbs::missing_device(); !missing.empty())
    return Error(ErrorKind::local, ENODEV, "--fabric", "verbs", missing + "; use --fabric iwarp");
  auto made = fabric::verbs::Listener::listen(loop, address, options.queues, std::move(callback));
  if (!made) return made.error();
  return std::unique_ptr<fabric::Listener>(std::move(*made));
}

}  // namespace

Result<std::unique_ptr<fabric::Listener>> listen(async::Loop& loop, const ListenOptions& options,
                                                 const sockaddr_storage& address,
                                                 fabric::Listener::Callback callback) {
  if (options.fabric == "iwarp") return listen_iwarp(loop, options, address, std::move(callback));
  if (options.fabric == "verbs") return listen_verbs(loop, options, address, std::move(callback));
  return Error(ErrorKind::usage, EINVAL, "--fabric", options.fabric, "it takes iwarp or verbs");
}

}  // namespace nfsrdma::bridge
