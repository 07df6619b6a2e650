// Open and lock owners of NFSv4.0, whose requests the server counts (RFC 7530 9.1.7): one at a time for each owner,
// each with the seqid behind that of the one before.
//
//     auto turn = co_await owners.take(OwnedOperation::Whose::open_owner, 7, deadline);
//     turn->seqid(epoch) …goes into the request
//     turn->answered(status)           // or unsent(), or doubt(): whether the server has counted it
//     turn.reset()                     // the next one
//
// A request whose answer is lost may have been counted or not. The next one is sent as if it had been, and if that is
// refused (BAD_SEQID) as if it had not; behind several of that kind, as if the last ones had not, one by one. (Never
// the other way round: a number that the server has counted gets the answer of then.) Where nothing fits the server
// counts otherwise than this client; then the owner goes on under another name (its generation), which the server has
// never heard of.
//
// A server may count a request twice that was sent again over another connection while it executed the first one (Linux
// does), and it may do so after the answer has come. So behind a request that was sent more than once the next one is
// sent as if it had been counted as often, as above. If the server counts it only later, the next OPEN has the seqid of
// the last request that the server counted, and is answered with the stateid and the file of that one. A new OPEN never
// brings the stateid of the one before, since the seqid in it grows: opened() finds that out, and the OPEN is sent again.
//
// Counting begins anew, under another name, with each epoch: a turn belongs to the one that its seqid was asked for.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "async/mutex.h"
#include "nfs4/compound.h"

namespace nfsrdma::nfs4 {

class Owners {
  struct Owner;

 public:
  explicit Owners(async::Loop& loop) : loop_(loop) {}
  Owners(const Owners&) = delete;
  Owners& operator=(const Owners&) = delete;

  /// The one request of its owner that is under way.
  class Turn {
   public:
    Turn(std::shared_ptr<Owner> owner, async::Mutex::Lock lock);
    /// A request that was sent and has not ended() is in doubt.
    ~Turn() {
      if (sent_ != 0) doubt();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// For a request that is about to be sent under the client id of the epoch.
    seqid4 seqid(std::uint64_t epoch);
    /// The owner's name is another one with each. Of the epoch that the seqid is of.
    [[nodiscard]] std::uint64_t generation() const;
    /// The server has executed the operation that had the seqid, with this status. `names_owner`: it has the owner's
    /// name in it, so that another one can be had by it. The others are of what was opened or locked under a name, and
    /// are of no use where the server counts otherwise.
    /// `sent_again`: how often the request was sent after the first time; the server may have counted it as often again.
    void answered(nfsstat4 status, bool names_owner, std::uint32_t sent_again = 0);
    /// It may have executed it.
    void doubt();
    /// It has not seen it, or did not come to it.
    void unsent() { sent_ = 0; }
    /// The server has refused the seqid (BAD_SEQID): what was just answered() is to be sent again with another one.
    [[nodiscard]] bool try_again() const { return again_; }
    /// Called with the stateid in the answer to an OPEN. Returns false if the server has repeated its answer to the OPEN
    /// before, which it can only have done where it may have counted a request twice.
    [[nodiscard]] bool opened(const stateid4& stateid);

   private:
    void be_another();

    const std::shared_ptr<Owner> owner_;
    const async::Mutex::Lock lock_;
    seqid4 sent_ = 0;
    bool again_ = false;
  };

  /// Null where the deadline came first.
  async::Task<std::shared_ptr<Turn>> take(OwnedOperation::Whose whose, std::uint64_t number,
                                          async::TimePoint deadline);
  /// It will not be heard of again.
  void forget(OwnedOperation::Whose whose, std::uint64_t number) { owners_.erase({whose, number}); }
  [[nodiscard]] std::size_t count() const { return owners_.size(); }

 private:
  using Key = std::pair<OwnedOperation::Whose, std::uint64_t>;

  async::Loop& loop_;
  std::map<Key, std::shared_ptr<Owner>> owners_;
};

}  // namespace nfsrdma::nfs4
