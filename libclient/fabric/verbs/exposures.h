// The caller's memory as the peer may reach it, for the life of one RPC. Internal.
//
// Where the device has type 2 memory windows (rxe, mlx5): the memory is registered without any remote right,
// and a window is bound over it by work posted ahead of the Send that names it. Its handle is a new one each
// time, in the octet that is ours to choose at random (RFC 8166 8.1.2). It ends by an Invalidate of ours,
// with a completion (on rxe by giving the window back, see Endpoint), or by the peer's Send with Invalidate
// (RFC 8797 4.1), at no cost here. Windows go back to a pool.
//
// Elsewhere (siw): the memory is registered with exactly the one remote right, and deregistered to revoke.
// Such a handle cannot be invalidated by the peer.
//
// No registration outlives its RPC, windows or not. User space does not hear of an munmap() by the program:
// a registration kept for the next time would pin pages that the program has given back and had replaced at
// the same address, and data would be placed in memory that nobody sees. Only who owns the buffers can keep
// registrations of them.
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "async/loop.h"
#include "fabric/verbs/send_queue.h"

namespace nfsrdma::fabric::verbs {

class Exposures {
 public:
  Exposures(async::Loop& loop, Endpoint& endpoint, SendQueue& queue)
      : loop_(loop), endpoint_(endpoint), queue_(queue) {}
  ~Exposures() { clear(); }
  Exposures(const Exposures&) = delete;
  Exposures& operator=(const Exposures&) = delete;

  /// The errors have no peer; the caller adds it.
  [[nodiscard]] Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to);

  enum class Revoked : std::uint8_t {
    done,
    later,   ///< invalidated() will give the cookie
    failed,  ///< the memory may still be reachable
  };
  /// Without a cookie nobody hears of the end. `at_once`: not later, by giving windows back, which costs more.
  [[nodiscard]] Revoked revoke(std::span<const RemoteSegment> segments, std::optional<std::uint64_t> cookie,
                               bool at_once);
  /// Invalidates of ours that have not completed.
  [[nodiscard]] std::size_t invalidations() const { return invalidations_; }
  /// An Invalidate of ours has completed. The cookie, if it was the revocation's last.
  [[nodiscard]] std::optional<std::uint64_t> invalidated(const Work& work);
  /// The peer has invalidated it.
  void invalidated_remotely(std::uint32_t handle);
  [[nodiscard]] bool knows(std::uint32_t handle) const { return exposed_.contains(handle); }

  /// Registers local memory for an RDMA Write or Read of ours.
  [[nodiscard]] ibv_mr* register_local(Bytes memory, Work::Kind kind);

  /// Deregisters everything. The queue pair must be gone, so that no window is in use.
  void clear();

 private:
  struct Exposed {
    ibv_mr* registration = nullptr;
    ibv_mw* window = nullptr;
  };
  [[nodiscard]] Error failure(int errno_value, std::size_t length) const;
  [[nodiscard]] Result<RemoteSegment> expose_one(Bytes memory, Reach reach);
  [[nodiscard]] ibv_mw* take_window();
  [[nodiscard]] bool release(std::uint32_t handle);
  [[nodiscard]] bool give_window_back(Exposed& one);

  async::Loop& loop_;
  Endpoint& endpoint_;
  SendQueue& queue_;
  std::unordered_map<std::uint32_t, Exposed> exposed_;
  std::size_t invalidations_ = 0;
  std::vector<ibv_mw*> windows_;  // all
  std::vector<ibv_mw*> free_windows_;
  std::byte nothing_{};  // stands for empty memory, which devices do not register
};

}  // namespace nfsrdma::fabric::verbs
