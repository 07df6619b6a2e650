// The state that the server keeps for one open file, without its data (RFC 8881 8.2, 9.7 to 9.11,
// 18.2, 18.16, 18.18): calls that use its stateid, the openers of this client that need it, and
// how it is given back.
//
// Ownership. There is one FileState for each file and open owner. It has the stateid from the first OPEN on.
// Until close_state() it is registered with the ClientLease, which recovers it after a restart of the server.
// OpenFiles (files/open_files.h) makes it, counts who has the file open, and decides when state is given
// back.
//
// Concurrency. Several calls may use the stateid at the same time, also while an OPEN is under way. CLOSE and
// OPEN_DOWNGRADE come one at a time (Changing). LOCK waits until none of them is under way (settled()).
//
// Failure. A call whose stateid the server does not know any more has the file opened again
// (OpenRecovery::reopen) and is repeated. If the stateid was a lock's and the open is good, the lock is lost.
// If the file cannot be opened again, or locks were lost (files/locks.h), every further use returns that
// error.
//
// Confined to the loop's thread. Must not be destroyed while one of its tasks runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/function_ref.h"
#include "async/under_way.h"
#include "nfs4/state/client_lease.h"
#include "nfs4/state/range_stateid.h"
#include "nfs4/state/sent_request.h"

namespace nfsrdma::nfs4 {

class FileState {
 public:
  struct Whose {
    nfs_fh4 file;
    std::uint64_t owner = 0;  ///< makes the open owner unique
    Caller caller;
    std::string path;                         ///< for messages
    std::optional<engine::Place> place = {};  ///< Open::place
  };
  /// `stateid`: from the OPEN that the file was opened by. opened() finds out whether the
  /// server still has it.
  FileState(ClientLease& session, const Whose& whose, const stateid4& stateid);
  ~FileState();
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;

  [[nodiscard]] ClientLease& session() { return session_; }
  [[nodiscard]] Open& state() { return open_; }
  [[nodiscard]] const Open& state() const { return open_; }
  [[nodiscard]] const nfs_fh4& handle() const { return open_.file; }
  [[nodiscard]] stateid4 stateid() const { return open_.current(); }
  [[nodiscard]] const std::string& path() const { return open_.path; }
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// Whether the file is open for this access, and has not been lost.
  [[nodiscard]] bool serves(std::uint32_t access) const {
    return is_open_ && (open_.access & access) == access && open_.unusable() == nullptr;
  }
  /// Whether the file has a delegation that can be relied upon, so that no other client changes it.
  [[nodiscard]] bool relies_on_delegation() const {
    return open_.delegated() && session_.delegations().good();
  }

  /// Whether, under such a delegation, this client can open the file for the access without asking the
  /// server, provided that the file is open for that access.
  [[nodiscard]] bool is_delegated_for(std::uint32_t access) const {
    return relies_on_delegation() && !open_.delegation()->rights_unknown &&
           (access == OPEN4_SHARE_ACCESS_READ || open_.delegation()->writes);
  }

  // ---- calls with the stateid ----

  /// Returns why the file cannot be used for `what`: it is closed, or lost. Returns none if it can be used.
  [[nodiscard]] std::optional<Error> useless_for(const char* what) const;
  [[nodiscard]] bool is_useful() const { return is_open_ && open_.unusable() == nullptr; }
  /// Counts a call with the stateid as under way, for as long as the result lives.
  [[nodiscard]] async::Use use() { return {uses_, changed_}; }
  /// Sends a COMPOUND of PUTFH and what `add(compound)` adds, which may use stateid(); `take(reply)` takes
  /// those results. The call is repeated after a lost stateid has been recovered. `sent_request`: the first
  /// transmission, if it has been sent already. `range`: the stateid that `add` uses in place of stateid().
  async::Task<Status> call(const char* what, async::FunctionRef<void(Compound&)> add,
                           async::FunctionRef<bool(CompoundReply&)> take,
                           std::unique_ptr<SentRequest> sent_request = nullptr,
                           RangeStateid* range = nullptr);
  /// Waits until no lock of the file is being claimed again. A call that is sent before then could change
  /// data whose lock turns out to be lost.
  async::Task<Status> locks_claimed(const char* what, async::TimePoint deadline);
  /// Called when the server has refused the stateid of `range` although the open is good. If the stateid was
  /// a lock's, that lock is lost.
  void lose_lock_of(const RangeStateid& range, const Error& why);
  /// Calls OpenRecovery::reopen(), unless the answer to an OPEN under way shows what the state is now.
  async::Task<Status> reopen(stateid4 used, nfsstat4 why, async::TimePoint deadline);
  /// Called when the server refused a call with the stateid `used` because the file is not open for such a
  /// call (NFS4ERR_OPENMODE). Returns true if the call is to be made again: its stateid has changed
  /// meanwhile, or the file has been opened again here for all who need it, which sets `completed` and is
  /// tried once for each call. An Error says why it could not be opened again.
  async::Task<Result<bool>> regain_access(stateid4 used, bool& completed, async::TimePoint deadline);

  // ---- OPEN, and who has the file open ----

  /// Takes the answer to an OPEN for `access`, which may have been overtaken by the answer to a CLOSE.
  void opened(const OPEN4resok& ok, std::uint32_t access, const Openings::Guard& guard,
              const CompoundReply& reply);
  /// Counts an opener for `access` in or out. The server is not informed.
  void count_in(std::uint32_t access);
  void count_out(std::uint32_t access);
  /// Returns the OPEN4_SHARE_ACCESS_* that all openers together need.
  [[nodiscard]] std::uint32_t needed() const;
  [[nodiscard]] bool is_last_writer(std::uint32_t access) const;
  /// Opens the file at the server for everything that is needed here, if the present state gives less:
  /// because an OPEN showed that the server had lost the earlier state, or because an OPEN was undone
  /// before its answer came.
  async::Soon<Status> complete();

  // ---- giving it back ----

  /// Ends when no CLOSE, OPEN_DOWNGRADE or OPEN by handle of the file is under way. Returns false if the
  /// deadline came first. A server that does not look at the seqid of CLOSE closes a state that an OPEN has
  /// renewed, and locks that were set before that are lost with it.
  async::Soon<bool> settled(async::TimePoint deadline);
  /// Guard of a task that gives something back: settled() waits for its end.
  class Changing {
   public:
    explicit Changing(FileState& state) : flag_(state.changing_, state.changed_) {}

   private:
    async::Flagged flag_;
  };
  /// Whether calls with the stateid are under way. unused() waits for the end of the last of them, or for any
  /// other change, and returns false if the deadline came first.
  [[nodiscard]] bool in_use() const { return uses_ != 0; }
  [[nodiscard]] async::Event::Wait unused(async::TimePoint deadline) { return changed_.wait_until(deadline); }
  /// Sends CLOSE. The file stays open, also if an Error is returned, only if the server executed an OPEN of
  /// it first, or if it is needed again by now.
  async::Task<Status> close_state();
  /// Sends OPEN_DOWNGRADE to `access`. Returns false if the server keeps more than that until CLOSE.
  async::Task<Result<bool>> downgrade(std::uint32_t access);

 private:
  [[nodiscard]] bool is_complete() const { return (needed() & ~open_.access) == 0; }
  async::Task<Status> complete_now();
  void is_closed();
  async::Task<Status> close_once();
  async::Task<Result<std::optional<nfsstat4>>> close_alone(stateid4 used, async::TimePoint deadline);
  async::Task<Result<std::optional<nfsstat4>>> close_with_others(stateid4 used);
  async::Task<Status> downgrade_once(std::uint32_t access);
  [[nodiscard]] Error discarded(nfsstat4 why) const;
  [[nodiscard]] bool is_overtaken(const stateid4& used, nfsstat4 status) const;
  async::Task<bool> look_again(stateid4& used, nfsstat4 status, int tries);
  async::Task<void> open_once_more();

  ClientLease& session_;
  const std::shared_ptr<Open> state_ = std::make_shared<Open>();  // shared with recovery
  Open& open_ = *state_;
  bool is_open_ = true;
  unsigned counts_[4] = {};       // openers, by OPEN4_SHARE_ACCESS_*
  bool changing_ = false;         // a Changing exists
  bool access_changing_ = false;  // an OPEN_DOWNGRADE, or an OPEN for more, is under way
  unsigned uses_ = 0;             // calls with its stateid under way: CLOSE waits for them
  async::Event changed_;          // notified when any of these or the stateid changes
};

}  // namespace nfsrdma::nfs4
