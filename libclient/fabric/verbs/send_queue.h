// The send side of a queue pair: one list of work in order, of which the device holds a part. Internal.
//
//   post(…) → waiting → flush() → under way → retire(a completion) → Done
//
// The device never gets more than its queue holds: each entry under way takes one work request, and whatever
// is beyond waits here. Completions come in order, so one stands for all before it; Sends and binds are
// signalled only every few, everything that somebody waits for always.
//
// A Send's octets are copied when it is posted: into a piece of the slab, or beside it while none is free. So
// a Send is done for its owner at once, and only its piece of the slab is still in use.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "fabric/verbs/endpoint.h"

namespace nfsrdma::fabric::verbs {

/// One entry.
struct Work {
  enum class Kind : std::uint8_t { send, bind, invalidate, write, read };
  Kind kind = Kind::send;
  bool last = true;             ///< of the entries that belong to one cookie
  bool solicited = false;       ///< send
  bool invalidates = false;     ///< send: `handle` is the peer's
  std::uint32_t handle = 0;     ///< send: invalidated with it. bind: the new one. invalidate: which
  std::uint32_t key = 0;        ///< write, read: of the local memory
  std::uint32_t remote = 0;     ///< write, read: the peer's handle
  std::uint64_t offset = 0;     ///< write, read: the peer's
  std::byte* memory = nullptr;  ///< bind, write, read. send: its piece of the slab
  std::size_t length = 0;
  ibv_mr* registration = nullptr;  ///< bind: below the window. write, read: ends with the work
  ibv_mw* window = nullptr;        ///< bind
  Reach reach = Reach::remote_read;
  std::uint64_t cookie = 0;       ///< write, read: the owner's. invalidate: as given
  std::vector<std::byte> octets;  ///< send: what has no piece of the slab yet
};

class SendQueue {
 public:
  /// Work that somebody waits for has completed.
  using Done = std::function<void(const Work&)>;

  SendQueue(Endpoint& endpoint, Done done);

  /// Copies the pieces. False: they are larger than what was agreed on when the queue was made.
  [[nodiscard]] bool post_send(const SendWork& work);
  void post(Work work) { waiting_.push_back(std::move(work)); }

  /// Takes a bind back that the device was not given yet. False: it was.
  bool retract_bind(std::uint32_t handle);

  /// Gives the device what it has room for. 0, or the errno of a device that refuses.
  [[nodiscard]] int flush();
  /// A completion that reports success.
  void retire(std::uint64_t id);

  /// Whether a completion is wanted soon: somebody waits for it, or for the room that it makes.
  [[nodiscard]] bool awaits() const { return awaited_ != 0 || !waiting_.empty(); }
  /// Hands out what `registration`s are left, waiting or under way, and forgets everything.
  [[nodiscard]] std::vector<ibv_mr*> clear();

 private:
  /// What the device is given at a time, as it wants it.
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
  std::uint64_t first_id_ = 0;  // of under_way_.front()
  std::vector<std::uint32_t> free_pieces_;
  std::size_t without_piece_ = 0;  // Sends in waiting_ that have none
  std::size_t awaited_ = 0;        // under way: somebody waits for it
  std::uint32_t unsignalled_ = 0;
  const std::uint32_t most_unsignalled_;
  std::vector<Request> batch_;
};

}  // namespace nfsrdma::fabric::verbs
