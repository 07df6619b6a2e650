// A client of the lock service of an NFSv3 or NFSv2 server: NLM over TCP, or over UDP if TCP is not served.
// NFSv3 uses version 4 (RFC 1813 appendix II); NFSv2 uses version 1, or 3 if only that is served.
//
// Identity. Linux's lockd distinguishes lock owners by the client's address and `svid` alone. Therefore svids
// begin at a random number in the upper half, which the kernel's own client does not reach, because it counts
// from 0. `oh` and `caller_name` name this client: caller_name is the host's name with a suffix that is this
// client's own, so that an SM_NOTIFY about another client does not free this client's locks. A server that
// wants to look the name up refuses it (NLM4_DENIED_NOLOCKS); then the host's name alone is used.
//
// Waiting. A server sends NLM_GRANTED to the port that this machine's rpcbind has for lockd. If that
// registration is free, this client takes it with the first lock that is waited for, and the server queues
// the waiters. Otherwise (a mount of the kernel's has it, or another one of ours) only non-blocking locks are
// requested, and a waiter asks again from time to time.
//
// Restarts of the server. This machine's statd monitors for its own lockd only. The server's statd reports
// its state number to any client that asks (SM_STAT); nfs3/locks.h asks for it while locks are held.
//
// Restarts of this client. SM_NOTIFY is not sent: to Linux it means that this whole machine has restarted,
// and it would free the locks of the kernel's client and of other mounts, too. Instead possible holders of
// locks are recorded (lock_records.h), and settle() releases what a client that was killed has left.
//
// Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "async/function_ref.h"
#include "async/mutex.h"
#include "async/places.h"
#include "async/tasks.h"
#include "aux/lock_calls.h"
#include "aux/lock_records.h"
#include "aux/programs.h"
#include "aux/record_server.h"
#include "aux/registration.h"
#include "aux/remote.h"
#include "engine/lock_manager.h"

namespace nfsrdma::aux {

struct LockdOptions {
  std::string server;                   ///< the server's name, for messages
  std::vector<rpc::Address> addresses;  ///< addresses of the server; their port is ignored
  unsigned nfs_version = 3;             ///< the NFS version that the locks are for: 3 or 2
  unsigned nlm_version = 0;             ///< version of NLM that lockd speaks at `port`; 0: the usual one
  std::uint16_t port = 0;               ///< port of lockd; 0: ask rpcbind
  std::uint16_t nsm_port = 0;           ///< port of statd; 0: ask rpcbind
  std::string host;                     ///< this machine's name
  /// The port on which the server's rpcbind is asked. Tests have one of their own.
  std::uint16_t rpcbind_port = kRpcbindPort;
  std::chrono::milliseconds call_timeout{10000};
  /// How long a service that was never reached is tried while it refuses connections.
  std::chrono::milliseconds first_search{5000};
  security::Identity identity;  ///< used if there is no caller
  bool listens = false;         ///< true: the server may call this client
  bool registers = true;        ///< true: the port is registered with this machine's rpcbind
  std::string records;          ///< the directory for lock_records.h; empty: no records
};

class Lockd final : public engine::LockManager {
 public:
  Lockd(async::Loop& loop, LockdOptions options);

  async::Task<Result<std::optional<LockHolder>>> test(Question question, async::TimePoint deadline) override;
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint deadline) override;
  async::Task<Status> cancel(Question question, async::TimePoint deadline) override;
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint deadline) override;
  void forget(const engine::FileHandle& file, std::uint64_t owner) override;
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint deadline) override;
  std::string how() const override;

  /// Releases the locks that killed clients of this machine still hold. Returns the number of owners. An
  /// Error means that some of the locks could not be released; the next client tries again.
  async::Task<Result<std::size_t>> settle(async::TimePoint deadline);

  /// Finds out in the background whether the server could call this client; how() reports the result.
  void look();
  /// The address that the server may call; port 0: it cannot call.
  [[nodiscard]] rpc::Address address() const { return server_ ? server_->address() : rpc::Address(); }
  /// Stops listening, and gives up the registration with this machine's rpcbind.
  async::Task<void> close(async::TimePoint deadline);

 private:
  struct Waiter {
    LockRange range;
    std::function<void()> call;
  };
  class Asking;
  template <template <std::uint32_t> class P>
  async::Task<Result<typename P<4>::Res>> ask(security::Caller caller, typename P<4>::Args args,
                                              async::TimePoint deadline);
  /// Makes one call with the NLM version that the server speaks.
  template <template <std::uint32_t> class P>
  async::Task<Status> ask_once(Remote remote, security::Identity identity, const typename P<4>::Args& args,
                               async::TimePoint deadline, typename P<4>::Res& res);
  using AskOnce = async::FunctionRef<async::Task<Status>(Remote, security::Identity, async::TimePoint)>;
  async::Task<Status> ask_until(security::Identity identity, const char* what, async::TimePoint deadline,
                                AskOnce once);
  async::Task<Result<Remote>> reach(async::TimePoint deadline);
  [[nodiscard]] nlm4_lock to_wire(const Question& question);
  [[nodiscard]] bool reaches(const LockRange& range) const;
  [[nodiscard]] Service place() const;
  std::int32_t svid_of(std::uint64_t owner);
  void drop_svid(std::uint64_t owner);
  void record(const Question& question, const std::string& caller_name);
  async::Task<Status> settle_one(const LeftLocks& left, async::TimePoint deadline);
  [[nodiscard]] std::optional<std::uint64_t> own_number(const nlm4_holder& holder) const;
  async::Task<Result<Verdict>> lock_once(Question question, async::TimePoint deadline,
                                         std::string caller_name, nlm4_stats* status);
  [[nodiscard]] LockOwner lock_owner_of(const Question& question);
  void stop_waiting(const LockOwner& by, const LockRange& range);
  async::Task<void> look_now();
  async::Task<void> listen();
  async::Task<Status> try_to_listen();
  bool given(const nlm4_testargs& what);
  async::Task<void> tell(nlm_res answer);

  async::Loop& loop_;
  const LockdOptions options_;
  const netobj own_;              // oh of every lock
  std::string caller_name_;       // without the suffix if the server refused it
  std::optional<Remote> remote_;  // where lockd listens
  std::uint32_t version_;         // version of NLM that lockd speaks
  bool found_ = false;            // lockd has been reached at least once
  // By lock owner: the svids of owners who may hold a lock, or have a question in flight.
  std::map<std::uint64_t, std::int32_t> svids_;
  std::map<std::int32_t, std::uint64_t> owners_;  // the inverse of svids_
  std::uint32_t next_svid_;
  async::Places places_;  // bounds the questions in flight, because each has a thread

  const std::vector<std::string> ways_;  // names of the paths to the server, as the records use them
  LockRecords records_;                  // records of possible holders of locks

  // ---- the server's calls ----
  std::multimap<LockOwner, Waiter> waiters_;
  std::multiset<LockOwner> asking_;  // owners of questions in flight
  LockCalls calls_;
  // Bounds the NLM_GRANTED_RES calls in flight, because each has a thread and anybody can cause one.
  async::Places telling_;
  std::unique_ptr<RecordServer> server_;  // listens for the server's calls
  std::unique_ptr<Registration> place_;   // its registration with rpcbind
  bool tried_ = false;                    // whether listening was tried
  std::optional<Error> why_not_;          // why the server cannot call, once known
  bool looked_ = false;
  async::Mutex listening_;   // held while listening is tried
  async::Tasks background_;  // last, so that what its tasks use outlives them
};

}  // namespace nfsrdma::aux
