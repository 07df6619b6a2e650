// Delegations (RFC 8881 10.4): while this client has one, nobody else changes the file, nor, if it is one for writing,
// sees what is in it.
//
// A delegation stands beside the open state of its file (Open::delegation), which goes on without it. So one
// that is recalled is returned at once: recall() and recall_any() say what is to be returned, and
// return_recalled() does it behind the answer to the server's call. A DELEGRETURN without an answer, or with a refusal
// that may pass, is made again until there is a final one, or another client id.
//
// One for writing is of use to who keeps data of a file behind its close(2) (engine/writers.h). Only for him it is asked
// for, and only then kept. He writes that data out before it is returned. The server may ask what the file looks like
// (attributes()): where that is not what the server itself could say, the delegation is returned instead.
//
// A recall may overtake the OPEN that brings the delegation: while an OPEN is under way (openings.h) the recall
// of a delegation that nobody knows is remembered. And where the answer to an OPEN was lost, the server may
// recall what nobody here knows of: that is returned, too.
//
// While there is one, or one is being returned, the connections are kept up, for the recall to come (RFC 8167
// 5.4): hold_connections() tells whoever keeps them. What delegations promise can be relied upon as long as
// good() holds. On reconnect nothing changes; after a restart of the server OpenRecovery (open_recovery.h) asks
// for them again with their opens.
//
// Confined to the loop's thread.
#pragma once

#include <functional>
#include <vector>

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
    engine::ServerCounters& counters;
    HoldSink hold;  ///< told whether there is something that the server may recall
  };
  explicit Delegations(Around around);
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
  /// The same for an OPEN of what nobody has open: returns it.
  void return_stray(const nfs_fh4& file, const open_delegation4& delegation);
  /// The file's attributes, as they were after the OPEN that granted its delegation, before anything else was done.
  static void granted_with(Open& open, const open_delegation4& delegation, const Attributes& attributes);
  /// Ends when the server has what is kept of the file. To be awaited before a delegation for writing is returned.
  async::Task<void> write_out(nfs_fh4 file);
  /// This client is about to change who may open the file, or cannot tell who may.
  void rights_change(const nfs_fh4& file);
  /// DELEGRETURN, beside whatever else is done.
  void start_return(Open& open);
  /// Call this before a COMPOUND with DELEGRETURN is sent, so that a recall that arrives meanwhile is answered
  /// OK.
  void about_to_return(Open& open);
  /// What was recalled while the file was parked goes back by itself, if that has not gone with its CLOSE.
  void finish_recall(Open& open);
  /// The server does not keep to it any more, and need not be told.
  void end(Open& open);
  /// The file's state is another one, to which the delegation does not belong. The server that granted the
  /// delegation under this client id is told.
  void end_of_before(Open& open);
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
  void on_last_opening();
  bool take_early_recall(const stateid4& stateid);
  void set_recalled(Open& open);
  Recalled taken_from(Open& open);
  void return_beside(const Recalled& what);
  async::Task<void> give_back(Recalled what);

  const Around around_;
  EndSink end_sink_;
  engine::Writers* writers_ = nullptr;
  std::vector<Recalled> early_recalls_;  // of what an OPEN that is under way may bring
  std::vector<Recalled> recalled_;       // by the Call that is being answered
  std::vector<stateid4> returning_;      // DELEGRETURNs under way
  bool suspected_ = false;
};

}  // namespace nfsrdma::nfs4
