// Open and lock owners of NFSv4.0, whose requests the server counts (RFC 7530 9.1.7). An owner has one
// request under way at a time, and each request has the seqid after that of the one before.
//
//     auto turn = co_await owners.take(OwnedOperation::Whose::open_owner, 7, deadline);
//     turn->seqid(epoch) …goes into the request
//     turn->answered(status)           // or unsent(), or doubt(): whether the server has counted it
//     turn.reset()                     // the next one
//
// If the answer to a request is lost, the server may have counted the request or not. The next request is
// sent as if the lost one had been counted. If the server refuses that (BAD_SEQID), it is sent again as if
// the lost one had not been counted. After several lost requests, it is sent as if the last ones had not been
// counted, one by one. (The opposite order is never used: to a seqid that it has counted the server returns
// the answer of that earlier request.) The number of doubtful requests has no limit, because each of them
// costs one refusal at most. In particular an owner never gives up its name because of doubts: the server
// counts requests for state that was opened under a name (CLOSE, LOCK) by that name, so they would fail.
//
// If no seqid fits, the server counts differently from this client. The owner then goes on under another name
// (its generation), which is new to the server, so that the server accepts any seqid. A turn does this once
// at most. An operation without the owner's name fails instead, because it refers to state under that name.
//
// The first LOCK of a lock owner has two seqids, that of the open owner and that of the lock owner, and
// BAD_SEQID does not say which of them is wrong. Each owner has its own doubts, and the LOCK is sent with each
// pair of seqids once at most, until the server accepts one. All of the lock owner's seqids, from the highest
// to the lowest, are tried with the highest one of the open owner, then all of them with the next lower one,
// and so on. A server looks at the open owner's seqid first, and at the lock owner's if that one fits (Linux
// repeats the answer of the open owner's last request without a look at the lock owner's seqid). So in this
// order no seqid below the right one is ever looked at. The number of refusals is at most the product of the
// numbers of seqids to be tried:
//
//     doubts: 1 of the open owner, 2 of the lock owner. The server has counted none of the requests.
//     open seqid   5  5  5  4  4  4
//     lock seqid   9  8  7  9  8  7        BAD_SEQID up to the last one
//
// If no pair fits, the lock owner goes on under another name, and the open owner's seqids are tried once more,
// each with the first seqid of that name. If none of them fits either, the LOCK fails.
//
// A server may count a request twice that was sent again over another connection while it executed the first
// one (Linux does), and it may do so after the answer has come. After a request that was sent more than once,
// the next one is therefore sent as if each transmission had been counted, and then as above. If the server
// counts the duplicate only later, the next OPEN has the seqid of the last request that the server counted,
// and is answered with the stateid and the file of that request. The answer to a new OPEN never has the
// stateid of the OPEN before, because the seqid in it grows. opened() uses this to find a repeated answer,
// and the OPEN is sent again.
//
// Counting begins anew, under another name, with each epoch. A turn belongs to the epoch that its seqid was
// asked for.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "async/mutex.h"
#include "nfs4/compound/compound.h"

namespace nfsrdma::nfs4 {

class Owners {
  struct Owner;

 public:
  explicit Owners(async::Loop& loop) : loop_(loop) {}
  Owners(const Owners&) = delete;
  Owners& operator=(const Owners&) = delete;

  /// The one request of its owner that may be under way.
  class Turn {
   public:
    Turn(std::shared_ptr<Owner> owner, async::Mutex::Lock lock);
    /// A request that was sent, and whose outcome was not reported, counts as doubt().
    ~Turn() {
      if (sent_ != 0) doubt();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Returns the seqid for a request that is about to be sent under the client id of the epoch.
    seqid4 seqid(std::uint64_t epoch);
    /// Returns the generation of the owner's name, in the epoch of the seqid. Each generation is another
    /// name.
    [[nodiscard]] std::uint64_t generation() const;
    /// Called when the server has executed the operation that had the seqid, with this status. `names_owner`:
    /// the operation has the owner's name in it, so it can be sent again under another name. Other operations
    /// refer to state that was opened or locked under the old name, and are of no use if the server counts
    /// differently. `sent_again`: number of transmissions after the first one. The server may have counted
    /// the request as many more times.
    void answered(nfsstat4 status, bool names_owner, std::uint32_t sent_again = 0);
    /// Called instead of answered() of both turns if the status is BAD_SEQID and the operation has both
    /// seqids, which only the first LOCK of a lock owner has.
    static void refused_both(Turn& open, Turn& lock);
    /// Called when the server may have executed the operation.
    void doubt();
    /// Called when the server has not seen the operation, or did not get to it.
    void unsent() { sent_ = 0; }
    /// Whether the server refused the seqid (BAD_SEQID), and the operation is to be sent again, in this turn,
    /// with another one.
    [[nodiscard]] bool try_again() const { return again_; }
    /// Called with the stateid in the answer to an OPEN. Returns false if the server has repeated its answer
    /// to the OPEN before, which is possible only if it may have counted a request twice.
    [[nodiscard]] bool opened(const stateid4& stateid);

   private:
    bool be_another();

    const std::shared_ptr<Owner> owner_;
    const async::Mutex::Lock lock_;
    seqid4 sent_ = 0;
    /// Number of the last doubtful requests that a LOCK with two seqids leaves out of the count at present.
    seqid4 left_out_ = 0;
    bool again_ = false;
    bool renamed_ = false;  // in this turn
  };

  /// Waits for the owner's turn. Returns null if the deadline came first.
  async::Task<std::shared_ptr<Turn>> take(OwnedOperation::Whose whose, std::uint64_t number,
                                          async::TimePoint deadline);
  /// Forgets an owner that will not be used again.
  void forget(OwnedOperation::Whose whose, std::uint64_t number) { owners_.erase({whose, number}); }
  [[nodiscard]] std::size_t count() const { return owners_.size(); }

 private:
  using Key = std::pair<OwnedOperation::Whose, std::uint64_t>;

  async::Loop& loop_;
  std::map<Key, std::shared_ptr<Owner>> owners_;
};

}  // namespace nfsrdma::nfs4
