// How a program comes by a ring: the two ioctls, the socket, and who may have how much (libclient/ring/layout.h).
//
// Rights are the kernel's: an ioctl comes with the open file that it was issued on, so whoever has the descriptor may
// attach it, and nobody else can. The ring belongs to who has its token: 16 random bytes which the kernel hands to
// the process that asked, and which let in one connection, of the same user (SO_PEERCRED), within kOfferFor. The
// socket's name is abstract: a program in another network namespace does not reach it and goes through the kernel.
//
// A connection is one ring. Its program is gone when the socket is, or the process that connected (pidfd_open(2): a
// child may still have the socket). Bytes on it only wake; each end sends and receives without waiting, so neither
// can hold up the other.
//
// Bounded: rings and bytes of one user and of all, offers; connections that have not said a token yet are as many as
// their user was made offers. The bytes of a ring count until no request uses its memory (RingBytes), be the ring there
// or not.
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
  static constexpr std::size_t kMostRings = 256, kMostRingsOfUser = 64, kMostOffers = 256;
  static constexpr std::uint64_t kMostBytes = 256U << 20, kMostBytesOfUser = 1U << 30,
                                 kMostBytesOfAll = std::uint64_t{4} << 30;

  RingDoor(async::Loop& loop, RingService& service);
  ~RingDoor();
  RingDoor(const RingDoor&) = delete;
  RingDoor& operator=(const RingDoor&) = delete;

  /// RING_OPEN, by a process of this user: an errno, or 0 with `asked` filled in.
  int open(uid_t user, ring_open& asked);
  /// RING_ATTACH on this open file: the same. ENOENT: the token is of no ring of this mount.
  int attach(ring_attach& asked, const RingService::Handle& file);
  /// Every program finds its ring gone, and nobody gets another.
  void close();
  [[nodiscard]] const RingBytes& bytes() const { return *bytes_; }

 private:
  using Token = std::array<std::uint8_t, RING_TOKEN_SIZE>;
  struct Offer {
    uid_t user = 0;
    RingBounds bounds;
    async::TimePoint until;
  };
  /// One end of a socket, and what the loop watches of its program.
  struct Connection {
    int socket = -1, process = -1;
    uid_t user = 0;
    pid_t pid = 0;
    RingService::RingId ring = 0;  // 0: it has not said its token
    Token token{};
    async::TimePoint until;  // for a token
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
  int socket_ = -1;                   // that listens, from the first offer on
  async::Loop::TimerId pausing_ = 0;  // until it is watched again
  bool closed_ = false;
  const std::shared_ptr<RingBytes> bytes_ = std::make_shared<RingBytes>();
  std::map<Token, Offer> offers_;
  std::map<Number, Connection> connections_;
  std::map<Token, Number> by_token_;
  Number last_ = 0;
};

}  // namespace nfsrdma::fuse
