// A connection that is carried by another loop (carrier.h), as its owner sees it.
//
// Nothing is done at once here, so that send_copy() and revoke_now() are not to be had. The exception is expose(): the peer
// is told the handles before the carrier knows them, so they are made here, as unpredictable as there, and the carrier
// takes them over before the Send that names them, which comes behind. Not every fabric lets handles be chosen
// (Connection::expose_as); iwarp does.
//
// close() waits for the carrier (Carrier::settle()): all that was exposed is revoked when it returns, whatever it was doing.
//
// Thread-safety: none; everything happens on the owner's loop, which outlives it.
#pragma once

#include <memory>
#include <string>

#include "fabric/carrier.h"

namespace nfsrdma::fabric {

/// One end of it is this, on the carrier's loop: carries out Orders and reports. Its owner's otherwise, who destroys it
/// behind its End.
class Carried final : private Handler {
 public:
  Carried(Carrier& carrier, std::uint64_t number, std::string peer)
      : carrier_(carrier), number_(number), peer_(std::move(peer)) {}
  ~Carried() override = default;
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;

  void carry_out(Order& order);

 private:
  void on_established(const Established& established) override;
  void on_received(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override;
  void on_completed(std::uint64_t cookie) override;
  void on_closed(const Error& why) override;
  void perform(Order::Begin& order);
  void perform(Order::Receive& order);
  void perform(Order::Send& order);
  void perform(Order::Expose& order);
  void perform(Order::TakeBack& order);
  void perform(Order::Forget& order);
  void perform(Order::RdmaWrite& order);
  void perform(Order::RdmaRead& order);
  void perform(Order::End& order);
  void fail(const Error& why);

  Carrier& carrier_;
  const std::uint64_t number_;
  const std::string peer_;
  std::unique_ptr<Connection> connection_;
  bool closed_ = false;
};

class CarriedConnection final : public Connection {
 public:
  /// As for any Connection: the outcome comes from the loop, and Receives may be posted before.
  CarriedConnection(async::Loop& loop, std::shared_ptr<Carrier> carrier, std::string peer,
                    MakeConnection make, Handler& handler);
  ~CarriedConnection() override;
  CarriedConnection(const CarriedConnection&) = delete;
  CarriedConnection& operator=(const CarriedConnection&) = delete;

  void post_receive(ReceiveBuffer buffer) override;
  void post_send(const SendWork& work) override;
  Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) override;
  Status revoke(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  Status abandon(std::span<const RemoteSegment> segments, std::uint64_t cookie) override;
  void forget(std::span<const RemoteSegment> segments) override;
  void post_rdma_write(ConstBytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void post_rdma_read(Bytes local, const RemoteSegment& remote, std::uint64_t cookie) override;
  void flush() override;
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override;
  void close() override;
  [[nodiscard]] std::string peer_name() const override { return peer_; }

  /// The Carrier's.
  void hear(News& news);

 private:
  template <class What>
  void order(What what);

  async::Loop& loop_;
  const std::shared_ptr<Carrier> carrier_;
  const std::string peer_;
  Handler& handler_;
  const std::uint64_t number_;
  Carried carried_;
  bool closed_ = false;  // nothing is heard of it any more
  bool ended_ = false;   // it has had its End
};

}  // namespace nfsrdma::fabric
