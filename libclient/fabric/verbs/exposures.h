// The caller's memory as the peer may access it, during one RPC. Internal.
//
// If the device has type 2 memory windows (rxe, mlx5): the memory is registered without any remote right, and
// a window is bound over it by a work request that is posted ahead of the Send that names it. The window's
// handle is a new one each time; the octet of it that we may choose is random (RFC 8166 8.1.2). The exposure
// ends by an Invalidate of ours, with a completion (on rxe by deallocating the window, see Endpoint), or by
// the peer's Send with Invalidate (RFC 8797 4.1), which costs nothing here. Windows go back to a pool.
//
// On other devices (siw): the memory is registered with exactly the one remote right, and deregistered to
// revoke it. The peer cannot invalidate such a handle.
//
// No registration outlives its RPC, with windows or without. User space does not hear of a munmap() by the
// program. A registration that is kept for later would pin pages that the program has unmapped and has
// replaced at the same address, and data would be placed in memory that the program cannot see. Only the
// owner of the buffers can keep registrations of them.
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

  /// Exposes the memory. An Error from here names no peer; the caller adds it.
  [[nodiscard]] Status expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to);

  enum class Revoked : std::uint8_t {
    done,
    later,   ///< invalidated() will return the cookie
    failed,  ///< the memory may still be reachable
  };
  /// Takes handles back. Without a cookie the end is not reported. With `at_once` the result is never
  /// `later`: windows are deallocated, which costs more.
  [[nodiscard]] Revoked revoke(std::span<const RemoteSegment> segments, std::optional<std::uint64_t> cookie,
                               bool at_once);
  /// The number of our Invalidates that have not completed.
  [[nodiscard]] std::size_t invalidations() const { return invalidations_; }
  /// Called when an Invalidate of ours has completed. Returns the cookie if it was the last Invalidate of its
  /// revocation.
  [[nodiscard]] std::optional<std::uint64_t> invalidated(const Work& work);
  /// Called when the peer has invalidated the handle.
  void invalidated_remotely(std::uint32_t handle);
  [[nodiscard]] bool knows(std::uint32_t handle) const { return exposed_.contains(handle); }

  /// Registers local memory for an RDMA Write or RDMA Read of ours.
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
  std::vector<ibv_mw*> windows_;  // all windows, free or not
  std::vector<ibv_mw*> free_windows_;
  std::byte nothing_{};  // registered in place of empty memory, which devices do not register
};

}  // namespace nfsrdma::fabric::verbs
