// Calls of NFSv4.0 (RFC 7530), which has no sessions: owners, the client id and its lease, recovery.
//
// An attempt of a call (the loop around it is in state/client_lease.h):
//   the turns of its owners (owners.h) → a place among the calls under way → client id and seqids filled in →
//   the Channel with the least to do → verdict on the seqids, and if the server refused them, the same with
//   others in the same turns (owners.h) → a client id that the server has forgotten is recovered.
//
// A request is sent again over its channel's next connection with the same xid. A server that remembers the
// request returns the same answer. A server that has forgotten it executes it a second time. For a request of
// an owner the seqid reveals this. A request that makes, removes or replaces names, was sent more than once,
// and is answered with EXIST or NOENT, ends with ErrorKind::unknown_outcome, and its caller looks at the
// names (nfs4/files/outcome.cpp).
//
// A call that waits for a turn has no place yet, so that one owner's queue does not hold up calls of others.
// This cannot deadlock, because a call that has a place waits for the server alone.
//
// After a successful OPEN the owner's turn stays with the Reply until settle_owner(). If the server asks for
// it, settle_owner() confirms the owner (OPEN_CONFIRM) before any other request of the owner. That takes no
// place, and no other turn.
//
// Calls wait for a recovery (nfs40_recovery.h) up to their own deadlines. So do calls whose stateid the server
// refused as stale: they find another one afterwards.
//
// Confined to the thread that runs the loop.
#pragma once

#include <vector>

#include "async/places.h"
#include "nfs4/state/client_lease.h"
#include "nfs4/v40/callbacks.h"
#include "nfs4/v40/nfs40_recovery.h"
#include "nfs4/v40/owners.h"
#include "nfs4/v40/registration.h"

namespace nfsrdma::nfs4 {

class Nfs40Client final : public ClientLease {
 public:
  /// `channels`: at least one; the first is connected. They must outlive this object.
  Nfs40Client(std::vector<rpc::Channel*> channels, SessionOptions options, NoticeSink notices);
  ~Nfs40Client() override;

  async::Task<Status> open(async::TimePoint deadline) override;
  /// Makes the server drop what it may still have of this client's state. If it has none, nothing is sent,
  /// because the server forgets an idle client by itself.
  async::Task<Status> close(async::TimePoint deadline) override;

  async::Task<Status> settle_owner(CompoundReply& reply, OPEN4resok& ok, nfs_fh4 file,
                                   Caller caller) override;
  Compound renewal() override;
  /// Checks each connection by RENEW.
  void check_connections(std::chrono::milliseconds every) override;
  void forget_lock_owner(std::uint64_t unique) override;

  [[nodiscard]] const MinorVersion& version() const override { return kNfs40; }
  [[nodiscard]] const SessionFacts& facts() const override { return registration_.facts(); }
  [[nodiscard]] engine::ServerHoldings holdings() const override;
  [[nodiscard]] std::size_t connections() const;
  /// Answers a Call of the server that arrived at the address of SessionOptions::callback. Returns false if
  /// the message is no such Call.
  [[nodiscard]] bool answer_callback(xdr::ConstBytes call, xdr::Message& reply) {
    return callbacks_.answer(call, reply);
  }

 private:
  [[nodiscard]] std::uint64_t connections_made() const override;
  Compound begin_alone(const char* what) override { return begin(what, nullptr); }
  async::Task<Result<CompoundReply>> call_over(rpc::Channel& channel, Compound& compound,
                                               async::TimePoint deadline) override;

  using Turn = std::shared_ptr<Owners::Turn>;
  struct Turns {
    Turn open, lock;
    [[nodiscard]] bool try_again() const {
      return (open && open->try_again()) || (lock && lock->try_again());
    }
  };
  async::Task<Result<CompoundReply>> attempt(Compound& compound, Course& course, Attempt& attempt) override;
  async::Task<void> settle(const Compound& compound, const Result<CompoundReply>& reply, Course& course,
                           Attempt& attempt) override;
  Recovery& recovery() override { return recovery_; }
  [[nodiscard]] const Recovery& recovery() const override { return recovery_; }
  async::Task<Result<CompoundReply>> transmit(rpc::Channel& channel, Compound& compound,
                                              async::TimePoint deadline, const Turns& turns,
                                              std::uint32_t& sends);
  async::Task<Status> take_turns(const Compound& compound, async::TimePoint deadline, Turns& turns);
  void fill_in(Compound& compound, const Turns& turns);
  static void judge(const Compound& compound, const Turns& turns, const Result<CompoundReply>& reply,
                    std::uint32_t sends);
  bool is_had_anew(const CompoundReply& reply, const char* why);
  bool handle_reply(const CompoundReply& reply, bool named);
  async::Task<void> renew_callback();

  const std::vector<rpc::Channel*> channels_;
  Owners owners_;
  Registration registration_;
  Callbacks callbacks_;
  async::Places places_;   // one for each call under way
  bool in_doubt_ = false;  // the server may have state of this client that is not known here
  Nfs40Recovery recovery_;
};

}  // namespace nfsrdma::nfs4
