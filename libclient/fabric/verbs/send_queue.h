// The send side of a queue pair: one list of work in order, of which the device holds a part. Internal.
//
//   post(…) → waiting → flush() → under way → retire(a completion) → Done
//
// The device never gets more than its queue holds: each entry under way takes one work request, and all
// others wait here. Completions come in order, so one completion stands for all entries before it. Sends and
// binds are signalled only every few; entries that a caller waits for are always signalled.
//
// The octets of a Send are copied when it is posted: into a piece of the slab, or into memory of its own
// while no piece is free. So a Send is done for its owner at once, and only its piece of the slab is still in
// use.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "fabric/verbs/endpoint.h"

namespace nfsrdma::fabric::verbs {

/// An entry of the queue. The comments name the kinds that use a field.
struct Work {
  enum class Kind : std::uint8_t { send, bind, invalidate, write, read };
  Kind kind = Kind::send;
  bool last = true;          ///< true for the last of the entries that belong to one cookie
  bool solicited = false;    ///< send
  bool invalidates = false;  ///< send: true if `handle` is a handle of the peer's to invalidate
  /// send: the handle to invalidate. bind: the new handle. invalidate: our handle.
  std::uint32_t handle = 0;
  std::uint32_t key = 0;        ///< write, read: key of the local memory
  std::uint32_t remote = 0;     ///< write, read: the peer's handle
  std::uint64_t offset = 0;     ///< write, read: offset in the peer's memory
  std::byte* memory = nullptr;  ///< bind, write, read: the local memory. send: its piece of the slab
  std::size_t length = 0;
  /// bind: the registration below the window. write, read: released when the work completes.
  ibv_mr* registration = nullptr;
  ibv_mw* window = nullptr;  ///< bind
  Reach reach = Reach::remote_read;
  /// write, read: the owner's cookie. invalidate: the cookie given to revoke().
  std::uint64_t cookie = 0;
  std::vector<std::byte> octets;  ///< send: the octets, while the entry has no piece of the slab
};

class SendQueue {
 public:
  /// Called when work that a caller waits for has completed.
  using Done = std::function<void(const Work&)>;

  SendQueue(Endpoint& endpoint, Done done);

  /// Copies the pieces. Returns false if they are larger than the message size that was agreed on when the
  /// queue was made.
  [[nodiscard]] bool post_send(const SendWork& work);
  void post(Work work) { waiting_.push_back(std::move(work)); }

  /// Removes a bind that was not given to the device yet. Returns false if there is none.
  bool retract_bind(std::uint32_t handle);

  /// Posts as much work as the device has room for. Returns 0, or the errno of a device that refuses.
  [[nodiscard]] int flush();
  /// Called for a successful completion.
  void retire(std::uint64_t id);

  /// Returns whether a completion is wanted soon, because a caller waits for it, or because work waits for
  /// the room that it makes.
  [[nodiscard]] bool awaits() const { return awaited_ != 0 || !waiting_.empty(); }
  /// Forgets everything. Returns the registrations of RDMA Reads and Writes, waiting or under way; the caller
  /// releases them.
  [[nodiscard]] std::vector<ibv_mr*> clear();

 private:
  /// A work request with its one scatter/gather entry, as the device expects it.
  struct Request {
    ibv_send_wr wr;
    ibv_sge sge;
  };
  [[nodiscard]] bool give_slab(Work& work);
  void fill(Request& request, const Work& work, bool signalled) const;
  [[nodiscard]] bool signal(const Work& work);

  Endpoint& endpoint_;
  const Done done_;
  std::deque<Work> waiting_;
  std::deque<Work> under_way_;
  std::uint64_t first_id_ = 0;  // the id of under_way_.front()
  std::vector<std::uint32_t> free_pieces_;
  std::size_t without_piece_ = 0;  // Sends in waiting_ that have no piece of the slab
  std::size_t awaited_ = 0;        // entries under way that a caller waits for
  std::uint32_t unsignalled_ = 0;
  const std::uint32_t most_unsignalled_;
  std::vector<Request> batch_;
};

}  // namespace nfsrdma::fabric::verbs
