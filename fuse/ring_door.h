// Gives rings to programs: the two ioctls, the socket, and the limits for each user
// (libclient/ring/layout.h).
//
// Rights: the kernel checks them. An ioctl comes with the open file that it was issued on, so a program that
// has the descriptor can attach the file, and no other can. A ring belongs to the program that has its token:
// 16 random bytes which the kernel hands to the process that asked, and which admit one connection, of the
// same user (SO_PEERCRED), within kOfferFor. The socket's name is abstract: a program in another network
// namespace does not reach it, and goes through the kernel.
//
// Lifetime: a connection is one ring. The program is gone when the socket is closed, or when the process that
// connected has ended (pidfd_open(2), because a child may still have the socket). Bytes on the socket only
// wake the other end. Each end sends and receives without waiting, so neither can block the other.
//
// Limits: there are bounds for rings and bytes, of one user and of all, and for offers. A user may have as
// many connections that have not sent a token yet as the user has offers. The bytes of a ring count until no
// request uses its memory (RingBytes), even after the ring has ended.
//
// Confined to the loop's thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "async/loop.h"
#include "fuse/ring_service.h"
#include "ring/layout.h"

namespace nfsrdma::fuse {

class RingDoor {
 public:
  /// A ring that asks for more bytes than kMostBytes gets that many. Rings beyond the other limits are refused.
  static constexpr std::size_t kMostRings = 256, kMostRingsOfUser = 64, kMostOffers = 256;
  static constexpr std::uint64_t kMostBytes = 256U << 20, kMostBytesOfUser = 1U << 30,
                                 kMostBytesOfAll = std::uint64_t{4} << 30;

  RingDoor(async::Loop& loop, RingService& service);
  ~RingDoor();
  RingDoor(const RingDoor&) = delete;
  RingDoor& operator=(const RingDoor&) = delete;

  /// Handles RING_OPEN from a process of this user. Returns an errno, or 0 with `asked` filled in.
  int open(uid_t user, ring_open& asked);
  /// Handles RING_ATTACH on this open file, likewise. ENOENT: the token is of no ring of this mount.
  int attach(ring_attach& asked, const RingService::Handle& file);
  /// Ends all rings, and refuses to give new ones.
  void close();
  [[nodiscard]] const RingBytes& bytes() const { return *bytes_; }

 private:
  using Token = std::array<std::uint8_t, RING_TOKEN_SIZE>;
  struct Offer {
    uid_t user = 0;
    RingBounds bounds;
    async::TimePoint until;
  };
  /// The daemon's end of a socket, and the process that the loop watches.
  struct Connection {
    int socket = -1, process = -1;
    uid_t user = 0;
    pid_t pid = 0;
    RingService::RingId ring = 0;  // 0: no token has come yet
    Token token{};
    async::TimePoint until;  // latest time for the token
  };
  using Number = std::uint64_t;

  bool listen();
  void watch_socket();
  [[nodiscard]] bool is_expected(uid_t user) const;
  void accept();
  void heard(Number number);
  bool admit(Number number, Connection& connection, const Token& token);
  static bool hand_over(int socket, int memory);
  void watch_process(Number number, Connection& connection);
  void end(Number number);
  void drop_late();
  [[nodiscard]] int room_for(uid_t user, std::uint64_t bytes) const;
  [[nodiscard]] bool has_place_for(uid_t user) const;

  async::Loop& loop_;
  RingService& service_;
  std::string name_;
  int socket_ = -1;                   // listens, from the first offer on
  async::Loop::TimerId pausing_ = 0;  // timer after which the socket is watched again
  bool closed_ = false;
  const std::shared_ptr<RingBytes> bytes_ = std::make_shared<RingBytes>();
  std::map<Token, Offer> offers_;
  std::map<Number, Connection> connections_;
  std::map<Token, Number> by_token_;
  Number last_ = 0;
};

}  // namespace nfsrdma::fuse
