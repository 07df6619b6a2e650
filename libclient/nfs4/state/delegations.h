// Delegations (RFC 8881 10.4). While this client has a delegation of a file, no other client changes the
// file. If it is a write delegation, no other client reads the file, either.
//
// Ownership. A server grants a delegation to the client, not to an open owner. So there is one delegation in
// a file's record (file_record.h), even if the answers to several OPENs of different owners have it, and the
// opens concerned share it. A recall or revocation ends it for all of them. If the server grants another
// delegation for the file, which it should not, the earlier one is returned.
//
// Recall. The open state of a file does not depend on its delegation, so a delegation that is recalled is
// returned at once: recall() and recall_any() note what is to be returned, and return_recalled() begins to
// return it after the server's call has been answered. A DELEGRETURN without an answer, or with a refusal
// that may pass, is sent again until there is a final answer, or another client id.
//
// Write delegations serve a component that keeps the data of a file behind close(2)
// (engine/write_back_owner.h; the mount does). They are requested and kept only if there is such a component.
// It writes the data out before the delegation is returned. The server may ask for the file's attributes
// (attributes()). If the server does not have all data of the file, the delegation is returned instead.
//
// A recall may overtake the answer to the OPEN that grants the delegation. So while OPENs are under way
// (openings.h), the recall of an unknown delegation is remembered until those have ended. DELEGRETURN is put
// off, but only for a short time (kMostPutOff), because the OPENs may wait for something that another client
// has to return, and that client may wait for this one. If an OPEN grants a delegation that has been returned
// meanwhile, the delegation is not kept. If the answer to an OPEN was lost, the server may recall a
// delegation that this client has never seen; that one is returned, too.
//
// Without a backchannel no recall can arrive. When another client wants conflicting access, the server makes it
// wait for one lease time and then revokes the delegation. This client hears of the revocation with its next
// SEQUENCE, and relies on the delegation until then. So a delegation is kept only if the session has a
// backchannel (SessionFacts::backchannel). If there is none, OPEN asks for no delegation (WANT_NO_DELEG), and a
// delegation that is granted all the same is returned at once. When a new session begins without a backchannel,
// those that are held are returned (return_all()). RFC 8881 10.2 expects servers to grant none without a
// backchannel, and Linux grants none. Ganesha checks only a flag of its NFSv4.0 callback channel.
//
// While there is a delegation, or one is being returned, the connections are kept up so that the recall can
// arrive (RFC 8167 5.4): hold_connections() reports this to the owner of the connections. The promises of
// delegations can be relied upon as long as good() holds. On reconnect nothing changes. After a restart of
// the server OpenRecovery (open_recovery.h) reclaims delegations with their opens.
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
#include "engine/write_back_owner.h"
#include "nfs4/compound/callback.h"
#include "nfs4/state/lease.h"
#include "nfs4/state/leftovers.h"
#include "nfs4/state/openings.h"
#include "nfs4/state/opens.h"

namespace nfsrdma::nfs4 {

class Delegations {
 public:
  using HoldSink = std::function<void(bool recallable)>;
  using EndSink = std::function<void(const nfs_fh4&)>;

  /// The parts that Delegations uses; each must outlive it. `opens` and `openings` report
  /// to it by their hooks.
  struct Dependencies {
    CallLayer& calls;
    const Lease& lease;
    Opens& opens;
    Openings& openings;
    Leftovers& leftovers;
    Outstanding& outstanding;
    const engine::Modifications& modifications;
    engine::ServerCounters& counters;
    HoldSink hold;  ///< called with whether there is something that the server may recall
  };
  /// How long the return of a recalled delegation is put off if the answer to an OPEN under way may
  /// be about to have it.
  static constexpr async::Clock::duration kMostPutOff = std::chrono::seconds(1);

  explicit Delegations(Dependencies parts);
  ~Delegations();
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  /// Sets the component that keeps data behind close(2). Null: there is none, so a write
  /// delegation is of no use.
  void write_back_owner(engine::WriteBackOwner* who) { write_back_owner_ = who; }
  /// Returns the OPEN4_SHARE_ACCESS_WANT_* for an OPEN with this access: the delegation that would be of use.
  [[nodiscard]] std::uint32_t wanted_for(std::uint32_t access) const;
  /// Takes a delegation that OPEN granted: keeps it, or returns it if it is of no use.
  void take(Open& open, const open_delegation4& delegation);
  /// Returns the stateid of the delegation that OPEN granted; null if it granted none.
  static const stateid4* stateid_in(const open_delegation4& delegation);
  /// Returns a delegation that OPEN granted for a file which is not kept open, unless other opens share it.
  void return_stray(const nfs_fh4& file, const open_delegation4& delegation);
  /// Takes the file's attributes as they were right after the OPEN that granted the delegation, before
  /// any other operation.
  static void granted_with(Open& open, const open_delegation4& delegation, const Attributes& attributes);
  /// Ends when the server has the data that is kept of the file. To be awaited before a write
  /// delegation is returned.
  async::Task<void> write_out(nfs_fh4 file);
  /// To be called when this client is about to change who may open the file, or cannot tell who may.
  void rights_change(const nfs_fh4& file);
  /// Ends the open's delegation, and sends DELEGRETURN in the background.
  void start_return(Open& open);
  /// The stateid for a DELEGRETURN after the open's CLOSE; none if there is no delegation, or other opens
  /// share it. A recall that arrives meanwhile is answered OK.
  std::optional<stateid4> return_with_close(Open& open);
  /// Ends what return_with_close() began. `gone`: the server has executed the DELEGRETURN;
  /// else it is sent alone.
  void returned_with_close(Open& open, const stateid4& stateid, bool gone);
  /// Returns a delegation that was recalled while the file was parked, unless it has gone
  /// with the file's CLOSE.
  void finish_recall(Open& open);
  /// Ends the open's delegation, which the server does not keep to any more, without a message to the server.
  void end(Open& open);
  /// Ends a delegation that does not belong to the file's present state. If the server granted it under this
  /// client id, it is returned to the server.
  void end_of_before(Open& open);
  /// Called when the open is closed. If other opens share the delegation, it goes on for them.
  void leave(Open& open);
  /// Called when the server has revoked the delegation with this stateid.
  void revoked(Open& open, const stateid4& stateid);
  /// Sets a sink that is called with the file's handle when what a delegation promised ends. If the
  /// delegation is returned, the call comes before the DELEGRETURN is sent.
  void on_end(EndSink sink) { end_sink_ = std::move(sink); }

  /// Acts on CB_RECALL, and returns the answer to it.
  nfsstat4 recall(const Recall& recall);
  /// Acts on CB_GETATTR. Returns nullopt if there is no write delegation, or if it is being returned.
  std::optional<DelegatedAttributes> attributes(const nfs_fh4& file);
  /// Acts on CB_RECALL_ANY.
  void recall_any(std::uint32_t objects_to_keep, const bitmap4& types);
  /// Begins to return what was recalled. To be called after the server's call has been answered, so that the
  /// server need not ask again.
  void return_recalled();
  /// Begins to return every delegation. To be called when the server cannot recall them any more.
  void return_all();

  [[nodiscard]] std::size_t count() const;
  /// Whether what a delegation promises can be relied upon: the lease lasts (RFC 8881 10.2.1), and nothing is
  /// known to have been revoked or lost.
  [[nodiscard]] bool good() const {
    return parts_.lease.lasts() && !parts_.calls.recovering() && !suspected_;
  }
  /// Sets whether the server says that it has revoked something, while it is not known yet what.
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
    std::uint64_t epoch;  // servers may number stateids anew after a restart
    // Openings::now() when it was recalled or returned.
    std::uint64_t until;
    // When it is returned even if OPENs are under way; max(): not before the answer to an OPEN has it.
    async::TimePoint due;
    bool returned = false;  // the server has it back, or DELEGRETURN is under way
  };
  /// A DELEGRETURN that is under way.
  struct Returning {
    stateid4 stateid;
    std::uint64_t epoch;
    // The recall's handle, until an OPEN's answer brings one whose security flavour is known.
    nfs_fh4 file;
  };
  void told_again(Open& open, const Delegation& now, bool recalled);
  void on_opening_ended();
  void arm(async::TimePoint due);
  void return_what_is_due();
  std::optional<Expected> take_expected(const stateid4& stateid);
  void expect_no_more(const nfs_fh4& file, const stateid4& stateid);
  void end_for_return(FileRecord& file);
  void forget(FileRecord& file);
  void end(FileRecord& file);
  void end_of_before(FileRecord& file);
  void about_to_return(FileRecord& file);
  Recalled end_and_take(FileRecord& file);
  void return_in_background(const Recalled& what);
  [[nodiscard]] std::shared_ptr<Returning> find_returning(const stateid4& stateid) const;
  void not_returned(const stateid4& stateid);
  async::Task<void> give_back(Recalled what);

  const Dependencies parts_;
  EndSink end_sink_;
  engine::WriteBackOwner* write_back_owner_ = nullptr;
  std::size_t held_ = 0;  // number of file records with a delegation
  std::vector<Expected> expected_;
  async::Loop::TimerId timer_ = 0;  // for return_what_is_due(); 0: none is set
  std::vector<Recalled> recalled_;  // by the server's Call that is being answered
  std::vector<std::shared_ptr<Returning>> returning_;
  bool suspected_ = false;
};

}  // namespace nfsrdma::nfs4
