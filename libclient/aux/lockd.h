// The lock service of a server of NFSv3 or v2: NLM over TCP, and over UDP where that is not served. NFSv3 has version 4
// (RFC 1813 appendix II); NFSv2 has version 1, or 3 where only that is served.
//
// Who we are to it. Linux's lockd tells lock owners apart by the caller's address and `svid` alone, so that svids are
// drawn at random from the upper half, which the kernel's own client, counting from 0, does not reach. `oh` and
// `caller_name` name this client: caller_name is the host's name with a suffix of this client's own, so that nobody
// else's SM_NOTIFY frees what is ours. A server that wants to look the name up refuses that (NLM4_DENIED_NOLOCKS);
// then it is the host's name.
//
// Waiting. A server calls NLM_GRANTED where the rpcbind of this machine says that its lockd is. Where nobody has that
// place, it is taken with the first lock that is waited for, and the server queues whoever waits. Else, as with a mount
// of the kernel's, or another one of ours, only locks that do not block are asked for: who waits asks again.
//
// Restarts of the server. The machine's statd monitors for its own lockd. The server's statd tells its state number to
// whoever asks (SM_STAT); nfs3/locks.h asks it while locks are held.
//
// Restarts of ours. SM_NOTIFY is not sent: to Linux it means that this whole machine has restarted, and the locks of the
// kernel's client and of other mounts go with it. Instead who may hold a lock is on record (lock_records.h), and settle()
// unlocks what a client that was killed has left.
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
  std::string server;                   ///< for messages
  std::vector<rpc::Address> addresses;  ///< of the server; the port does not count
  unsigned nfs_version = 3;             ///< whose locks these are: 3 or 2
  unsigned nlm_version = 0;             ///< that lockd speaks at `port`; 0: what is usual
  std::uint16_t port = 0;               ///< of lockd; 0: ask rpcbind
  std::uint16_t nsm_port = 0;           ///< of statd; 0: ask rpcbind
  std::string host;                     ///< this machine's name
  /// The port at which the server's rpcbind is asked. Tests have one of their own.
  std::uint16_t rpcbind_port = kRpcbindPort;
  std::chrono::milliseconds call_timeout{10000};
  /// How long a service that refuses is looked for that was never there.
  std::chrono::milliseconds first_search{5000};
  security::Identity identity;  ///< where the caller has none
  bool listens = false;         ///< the server may call
  bool registers = true;        ///< this machine's rpcbind is told where
  std::string records;          ///< the directory of lock_records.h; empty: there are none
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

  /// Unlocks what clients of this machine's that were killed hold still. How many owners' locks; an Error: some of it
  /// could not be unlocked, and is tried again the next time.
  async::Task<Result<std::size_t>> settle(async::TimePoint deadline);

  /// Looks beside everything else whether the server could call, for how().
  void look();
  /// Where the server may call; port 0: it may not.
  [[nodiscard]] rpc::Address address() const { return server_ ? server_->address() : rpc::Address(); }
  /// Gives the place at the machine's rpcbind up.
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
  template <template <std::uint32_t> class P, std::uint32_t V>
  async::Task<Result<typename P<4>::Res>> ask_narrow(Remote remote, security::Identity identity,
                                                     typename P<4>::Args args, async::TimePoint deadline);
  template <template <std::uint32_t> class P>
  async::Task<Result<typename P<4>::Res>> ask_there(Remote remote, security::Identity identity,
                                                    typename P<4>::Args args, async::TimePoint deadline);
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
  const netobj own_;              // every lock's oh
  std::string caller_name_;       // the host's alone, where the server refused ours
  std::optional<Remote> remote_;  // where lockd is
  std::uint32_t version_;         // of NLM, that it speaks
  bool found_ = false;            // it was there once
  // By lock owner; of those who may hold something, or are asking.
  std::map<std::uint64_t, std::int32_t> svids_;
  std::map<std::int32_t, std::uint64_t> owners_;  // the other way
  std::uint32_t next_svid_;
  async::Places places_;  // questions under way: each has a thread

  const std::vector<std::string> ways_;  // to it, as the records have them
  LockRecords records_;                  // of what may be locked

  // ---- the server's calls ----
  std::multimap<LockOwner, Waiter> waiters_;
  std::multiset<LockOwner> asking_;  // questions that are under way
  LockCalls calls_;
  async::Places telling_;  // answers to them under way: each has a thread, and anybody can call
  std::unique_ptr<RecordServer> server_;  // it listens, and
  std::unique_ptr<Registration> place_;   // rpcbind says so
  bool tried_ = false;                    // to have both
  std::optional<Error> why_not_;          // as far as it is known
  bool looked_ = false;
  async::Mutex listening_;  // held while it is tried
  async::Tasks beside_;     // the last: what the tasks use is there until they are gone
};

}  // namespace nfsrdma::aux
