// Completion queues: for programs that collect what has become of their calls, in place of callbacks.
//
//     auto queue = nfsrdma::Queue::create(*client);
//     for (std::uint64_t i = 0; i < 32; ++i)
//       (void)file->queue_read(**queue, i, buffers[i], i * size);     // i is the tag
//     std::vector<nfsrdma::Completion> done(32);
//     for (std::size_t left = 32; left != 0;) {
//       const std::size_t count = (*queue)->reap(done);
//       for (std::size_t i = 0; i < count; ++i) use(done[i].tag(), done[i].result());
//       left -= count;
//     }
//
// A queued call is sent when reap() is called, or Client::submit(), or any other call is made that is not
// queued or started. Nothing of the library runs the program's code then. Client::cancel() cancels calls by
// their tags.
//
// Thread-safety: a Queue may be used from any thread, and several threads may reap it; each completion goes
// to one of them. Completions are plain values.
//
// Ownership: a Queue must not outlive its Client. Its destructor cancels the calls whose completions were
// not reaped; when it returns, their buffers are out of the server's reach.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

class Client;

/// The end of a queued call.
class Completion {
 public:
  Completion() = default;
  Completion(Completion&& other) noexcept : completion_(std::exchange(other.completion_, {})) {}
  Completion& operator=(Completion&& other) noexcept {
    std::swap(completion_, other.completion_);
    return *this;
  }
  ~Completion() { nfsrdma_error_free(completion_.error); }

  /// Returns the number that the program gave to the call.
  [[nodiscard]] std::uint64_t tag() const { return completion_.tag; }
  explicit operator bool() const { return completion_.result >= 0; }
  /// Returns the number of bytes that were read or written, or why the call failed.
  [[nodiscard]] Result<std::size_t> result() const {
    if (completion_.result < 0) return error_from(completion_.error);
    return static_cast<std::size_t>(completion_.result);
  }

 private:
  nfsrdma_completion completion_{};
};
// Queue::reap() has the library fill an array of them.
static_assert(sizeof(Completion) == sizeof(nfsrdma_completion));

class Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Client& client);  // defined in client.h
  ~Queue() { nfsrdma_queue_free(queue_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Stores completions in `room` and returns how many. Waits until there are `least`, at most `most`
  /// (milliseconds::max(): for as long as it takes), and no longer than calls of the queue are under way.
  std::size_t reap(std::span<Completion> room, std::size_t least = 1,
                   std::chrono::milliseconds most = std::chrono::milliseconds::max()) {
    for (Completion& old : room) old = Completion();
    const std::int64_t count = nfsrdma_reap(queue_, reinterpret_cast<nfsrdma_completion*>(room.data()),
                                            room.size(), least, api_detail::c_timeout(most));
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  /// Adds a completion with this tag and the result 0, and so wakes a thread that waits in reap(). The Status
  /// says whether there will be one.
  Status post(std::uint64_t tag) {
    auto call = api_detail::sized<nfsrdma_call>();
    call.queue = queue_;
    call.tag = tag;
    api_detail::OwnedError error;
    if (nfsrdma_post(client_, &call, error.room()) < 0) return error_from(error.get());
    return {};
  }
  /// Returns a descriptor that stays the Queue's, for poll(2). When it is readable, call reap() with a `most`
  /// of 0, which also does the client's work that is due and may find no completion.
  int descriptor() { return nfsrdma_queue_descriptor(queue_); }
  /// Returns the number of calls whose completions were not reaped yet.
  [[nodiscard]] std::size_t pending() const { return nfsrdma_queue_pending(queue_); }
  /// Returns the queue of the C interface. It stays this object's.
  [[nodiscard]] nfsrdma_queue* handle() const { return queue_; }

 private:
  Queue(nfsrdma_client* client, nfsrdma_queue* queue) : client_(client), queue_(queue) {}
  nfsrdma_client* const client_;
  nfsrdma_queue* const queue_;
};

}  // namespace nfsrdma
