// A connection that is carried by another loop (carrier.h), as its owner sees it.
//
// Nothing is done at once here, so that send_copy() and revoke_now() are not to be had. The exception is expose(): the peer
// is told the handles before the carrier knows them, so they are made here (Handles), as unpredictable as there, and the
// carrier takes them over before the Send that names them, which comes behind. Not every fabric lets handles be chosen
// (Connection::expose_as); iwarp does.
//
// close() and settle() wait for the carrier (Carrier::settle()): what was exposed, or revoked before, is out of reach when
// they return, whatever it was doing.
//
// Thread-safety: none; everything happens on the owner's loop, which outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/carrier.h"

namespace nfsrdma::fabric {

/// Handles for memory, one after the other, such as nobody can predict who does not know the keys (RFC 8166 8.1.2).
///
/// None comes again before 2^32 others, so that none meets one that is alive, and nobody has to know here which are: an
/// abandoned handle lives on at the carrier until it is forgotten, and a revoked one until the carrier hears of it. A
/// handle lives for minutes at the most, since no Reply is waited for longer, while 2^32 take a day at 40,000 a second.
/// Random numbers would meet: of 2^27 one does where 32 handles are alive.
///
/// Own code because ciphers have blocks of 64 bits and more: a Feistel network turns a keyed function of 16 bits into a
/// permutation of 32.
class Handles {
 public:
  explicit Handles(async::Loop& loop);
  /// Never 0.
  [[nodiscard]] std::uint32_t next();

 private:
  [[nodiscard]] std::uint32_t permuted(std::uint32_t number) const;

  std::array<std::uint64_t, 4> keys_{};  // of the rounds; random, and constant
  std::uint32_t count_ = 0;
};

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
  bool settle() override;
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

  const std::shared_ptr<Carrier> carrier_;
  const std::string peer_;
  Handler& handler_;
  const std::uint64_t number_;
  Carried carried_;
  Handles handles_;
  bool closed_ = false;  // nothing is heard of it any more
  bool ended_ = false;   // it has had its End
};

}  // namespace nfsrdma::fabric
