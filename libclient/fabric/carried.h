// A connection that is carried by another loop (carrier.h), as its owner sees it.
//
// The owner's calls only queue Orders, so send_copy() and revoke_now() are not available here. The exception
// is expose(): the peer receives the handles before the carrier knows them. Therefore the handles are made
// here (Handles), as unpredictable as the carrier would make them, and the carrier registers them before it
// sends the Send that names them, because Orders are carried out in order. Not every fabric lets the caller
// choose handles (Connection::expose_as); iwarp does.
//
// close() and settle() wait for the carrier (Carrier::settle()). When settle() returns, memory that was
// revoked before is out of the peer's reach; when close() returns, all memory that was exposed is.
//
// Thread-safety: none; everything happens on the owner's loop, which outlives the connection.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/carrier.h"

namespace nfsrdma::fabric {

/// A generator of handles for memory. A party that does not know the keys cannot predict the next handle (RFC
/// 8166 8.1.2).
///
/// A handle is not repeated before 2^32 others have been given, so a new handle never equals one that is in
/// use, and this class need not know which handles are in use: an abandoned handle stays in use at the
/// carrier until it is forgotten, and a revoked one until the carrier carries out the Order. A handle is in
/// use for minutes at most, because no call waits longer for its Reply, while 2^32 handles take a day at
/// 40,000 a second. Random numbers would collide: with 32 handles in use, one new handle in 2^27 equals one
/// of them.
///
/// Own code because ciphers have blocks of 64 bits and more: a Feistel network turns a keyed function of 16
/// bits into a permutation of 32.
class Handles {
 public:
  explicit Handles(async::Loop& loop);
  /// Returns the next handle, which is never 0.
  [[nodiscard]] std::uint32_t next();

 private:
  [[nodiscard]] std::uint32_t permuted(std::uint32_t number) const;

  std::array<std::uint64_t, 4> keys_{};  // keys of the rounds; random, and constant after construction
  std::uint32_t count_ = 0;
};

/// The half of a carried connection that lives on the carrier's loop: carries out Orders and reports News.
/// The owner's thread creates it, and destroys it after its End has been carried out.
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
  /// The outcome is reported from the loop, as for any Connection, and Receives may be posted before it.
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

  /// Called by the Carrier for each News of this connection.
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
  bool closed_ = false;  // the handler hears of no more events
  bool ended_ = false;   // the Order End has been given
};

}  // namespace nfsrdma::fabric
