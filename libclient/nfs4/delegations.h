// Delegations (RFC 8881 10.4): while this client has one, nobody else changes the file, nor, if it is one for writing,
// sees what is in it.
//
// A server grants a delegation to the client, not to an open owner: there is one in a file's record (file_record.h), even
// if several OPENs of different owners return it, and the opens concerned share it. A recall or revocation ends it for all
// of them. If the server grants another one for the file, which it should not, the earlier one is returned.
//
// A delegation stands beside the open state of its file, which goes on without it. So one
// that is recalled is returned at once: recall() and recall_any() say what is to be returned, and
// return_recalled() does it behind the answer to the server's call. A DELEGRETURN without an answer, or with a refusal
// that may pass, is made again until there is a final one, or another client id.
//
// One for writing is of use to who keeps data of a file behind its close(2) (engine/writers.h). Only for him it is asked
// for, and only then kept. He writes that data out before it is returned. The server may ask what the file looks like
// (attributes()): where that is not what the server itself could say, the delegation is returned instead.
//
// A recall may overtake the OPEN that brings the delegation: while OPENs are under way (openings.h) the recall
// of a delegation that nobody knows is remembered until those have ended, and not answered by DELEGRETURN for a short
// time (kMostPutOff): OPENs may wait without end for what another client has to return, which may wait for this client.
// A delegation that an OPEN under way returns although it has gone back meanwhile is not kept. And where the answer
// to an OPEN was lost, the server may recall what nobody here knows of: that is returned, too.
//
// While there is one, or one is being returned, the connections are kept up, for the recall to come (RFC 8167
// 5.4): hold_connections() tells whoever keeps them. What delegations promise can be relied upon as long as
// good() holds. On reconnect nothing changes; after a restart of the server OpenRecovery (open_recovery.h) asks
// for them again with their opens.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/modifications.h"
#include "engine/statistics.h"
#include "engine/writers.h"
#include "nfs4/callback.h"
#include "nfs4/lease.h"
#include "nfs4/leftovers.h"
#include "nfs4/openings.h"
#include "nfs4/opens.h"

namespace nfsrdma::nfs4 {

class Delegations {
 public:
  using HoldSink = std::function<void(bool recallable)>;
  using EndSink = std::function<void(const nfs_fh4&)>;

  /// What it stands on: each must outlive it. It hears from `opens` and `openings` by their hooks.
  struct Around {
    Calls& calls;
    const Lease& lease;
    Opens& opens;
    Openings& openings;
    Leftovers& leftovers;
    Outstanding& outstanding;
    const engine::Modifications& modifications;
    engine::ServerCounters& counters;
    HoldSink hold;  ///< told whether there is something that the server may recall
  };
  /// How long the return of a recalled delegation is put off that an OPEN under way may be about to bring.
  static constexpr async::Clock::duration kMostPutOff = std::chrono::seconds(1);

  explicit Delegations(Around around);
  ~Delegations();
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  /// Null: nobody keeps data, and no delegation for writing is of use.
  void writers(engine::Writers* who) { writers_ = who; }
  /// OPEN4_SHARE_ACCESS_WANT_*: the delegation that would be of use to who opens a file for this access.
  [[nodiscard]] std::uint32_t wanted_for(std::uint32_t access) const;
  /// OPEN brought this along: keeps it, or returns it where it is of no use.
  void take(Open& open, const open_delegation4& delegation);
  /// Of what OPEN brought; null if that is none.
  static const stateid4* stateid_in(const open_delegation4& delegation);
  /// Returns a delegation that OPEN granted for a file which is not kept open, unless other opens share it.
  void return_stray(const nfs_fh4& file, const open_delegation4& delegation);
  /// The file's attributes, as they were after the OPEN that granted its delegation, before anything else was done.
  static void granted_with(Open& open, const open_delegation4& delegation, const Attributes& attributes);
  /// Ends when the server has what is kept of the file. To be awaited before a delegation for writing is returned.
  async::Task<void> write_out(nfs_fh4 file);
  /// This client is about to change who may open the file, or cannot tell who may.
  void rights_change(const nfs_fh4& file);
  /// DELEGRETURN, beside whatever else is done.
  void start_return(Open& open);
  /// The stateid for a DELEGRETURN after the open's CLOSE; none if there is no delegation, or other opens share it.
  /// A recall that arrives meanwhile is answered OK.
  std::optional<stateid4> return_with_close(Open& open);
  /// Ends what return_with_close() began. `gone`: the server has executed the DELEGRETURN; else it is sent alone.
  void returned_with_close(Open& open, const stateid4& stateid, bool gone);
  /// What was recalled while the file was parked goes back by itself, if that has not gone with its CLOSE.
  void finish_recall(Open& open);
  /// The server does not keep to it any more, and need not be told.
  void end(Open& open);
  /// The file's state is another one, to which the delegation does not belong. The server that granted the
  /// delegation under this client id is told.
  void end_of_before(Open& open);
  /// The open is closed. Where others have the delegation, too, it goes on.
  void leave(Open& open);
  /// The server has revoked it.
  void revoked(Open& open, const stateid4& stateid);
  /// Called with the file's handle when what a delegation promised ends: before the server hears of it, where
  /// it is returned.
  void on_end(EndSink sink) { end_sink_ = std::move(sink); }

  /// CB_RECALL: what to answer.
  nfsstat4 recall(const Recall& recall);
  /// CB_GETATTR. Nullopt: there is no delegation for writing, or there was, and it is being returned.
  std::optional<DelegatedAttributes> attributes(const nfs_fh4& file);
  /// CB_RECALL_ANY.
  void recall_any(std::uint32_t objects_to_keep, const bitmap4& types);
  /// Begins to return what was recalled. To be called behind the answer, which tells the server that it need
  /// not ask again.
  void return_recalled();

  [[nodiscard]] std::size_t count() const;
  /// Whether what a delegation promises can be relied upon: the lease lasts (RFC 8881 10.2.1), and nothing is
  /// known to have been revoked or lost.
  [[nodiscard]] bool good() const {
    return around_.lease.lasts() && !around_.calls.recovering() && !suspected_;
  }
  /// The server says that it has revoked something, and it is not known yet what.
  void suspect(bool suspected) { suspected_ = suspected; }
  void hold_connections();

 private:
  struct Recalled {
    nfs_fh4 file;
    stateid4 stateid;
    bool writes = false;
  };
  /// A delegation that an OPEN under way may bring, and that the server has recalled, or has back already.
  struct Expected {
    Recalled what;
    std::uint64_t epoch;    // servers may number stateids anew after a restart
    std::uint64_t until;    // Openings::now() at that time
    async::TimePoint due;   // when it is returned, whatever is under way; max(): not before an OPEN brings it
    bool returned = false;  // the server has it back, or DELEGRETURN is under way
  };
  /// A DELEGRETURN that is under way.
  struct Returning {
    stateid4 stateid;
    std::uint64_t epoch;
    nfs_fh4 file;  // the recall's, until an OPEN's answer brings one whose security flavour is known
  };
  void told_again(Open& open, const Delegation& now, bool recalled);
  void on_opening_ended();
  void arm(async::TimePoint due);
  void return_what_is_due();
  std::optional<Expected> take_expected(const stateid4& stateid);
  void expect_no_more(const nfs_fh4& file, const stateid4& stateid);
  void set_recalled(FileRecord& file);
  void forget(FileRecord& file);
  void end(FileRecord& file);
  void end_of_before(FileRecord& file);
  void about_to_return(FileRecord& file);
  Recalled taken(FileRecord& file);
  void return_beside(const Recalled& what);
  [[nodiscard]] std::shared_ptr<Returning> find_returning(const stateid4& stateid) const;
  void not_returned(const stateid4& stateid);
  async::Task<void> give_back(Recalled what);

  const Around around_;
  EndSink end_sink_;
  engine::Writers* writers_ = nullptr;
  std::size_t held_ = 0;  // records of files that have one
  std::vector<Expected> expected_;
  async::Loop::TimerId timer_ = 0;  // of return_what_is_due()
  std::vector<Recalled> recalled_;  // by the Call that is being answered
  std::vector<std::shared_ptr<Returning>> returning_;
  bool suspected_ = false;
};

}  // namespace nfsrdma::nfs4
