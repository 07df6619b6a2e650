// A small NFSv4.1/4.2 server in memory, over iWARP and RPC-over-RDMA, for tests of the client: what a client
// needs of a server, and a knob for each way in which servers and networks misbehave.
//
//     NfsServer server;
//     server.add_file("/a", "text");
//     auto client = Client::connect(server.target());
//     server.answer(OP_READ, NFS4ERR_DELAY, 3);
//     …
//     CHECK(server.count(OP_READ) == 4);
//     CHECK(server.problems() == "");       // what the client did that no client may do
//
// It listens on 127.0.0.1 and runs on a thread of its own: every member may be called from any thread. Or it
// is on a machine of a simulation, and its time is virtual. A change takes effect before the call returns.
// What it holds in memory is split as on a disk: `content` is what a READ gives, and what a COMMIT has not
// reached is lost in restart().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/options.h"
#include "nfsrdma/options.h"
#include "support/seen_call.h"

namespace nfsrdma::sim {
class Host;
class Network;
}  // namespace nfsrdma::sim

namespace nfsrdma::testing {

class Responder;

class NfsServer {
 public:
  NfsServer();
  /// On a simulated machine: it runs while the simulation does, and is confined to its thread.
  NfsServer(sim::Network& network, sim::Host& host);
  ~NfsServer();
  NfsServer(const NfsServer&) = delete;
  NfsServer& operator=(const NfsServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Of a server on a simulated machine; null for others.
  [[nodiscard]] sim::Network* network() const;
  [[nodiscard]] sim::Host* host() const;
  /// To connect to, with options as on a command line ("timeo=500ms,vers=4.1").
  [[nodiscard]] Target target(const std::string& options = "") const;
  /// The same for what the library has below its public interface.
  [[nodiscard]] connect::Target connect_target(const std::string& options = "") const;

  // ---- what is there; directories on the way are made ----
  void add_file(const std::string& path, const std::string& data);
  void add_directory(const std::string& path);
  void add_symlink(const std::string& path, const std::string& text);
  /// Bytes [begin, end) of the file hold data, everything else is a hole.
  void add_extent(const std::string& path, std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] std::optional<std::string> content(const std::string& path) const;
  /// What would be left after restart().
  [[nodiscard]] std::optional<std::string> stable_content(const std::string& path) const;

  // ---- what it agrees to; for sessions and connections made from then on ----
  void set_slots(std::uint32_t slots);
  void set_limits(std::uint32_t max_request, std::uint32_t max_response, std::uint32_t max_operations);
  void set_newest_minor(std::uint32_t minor);
  void set_lease(std::uint32_t seconds);
  void set_credits(std::uint32_t credits);  ///< at once
  /// Private data (RFC 8797) to send; without, thresholds are 1024.
  void set_announce(bool announce);

  /// OPENs that want a read delegation get one, over a session with a backchannel, one for a client and a
  /// file. Nobody else's OPEN takes it away: recall() does.
  void set_delegations(bool on);
  /// Besides: for writing, to whoever opens a file for that and wants one, or to him alone who opens it for both.
  void set_write_delegations(bool only_for_both);
  void set_backchannel(bool on);  ///< whether CREATE_SESSION grants one; by default it does

  // ---- Calls to the client, in slot 0 of the session's backchannel ----
  // Each waits for its answer and gives the status of the CB_COMPOUND; nothing where none came in time. A
  // Call that finds no connection with a backchannel, or loses its connection, is made when there is one
  // again.
  static constexpr std::chrono::milliseconds kCallbackTime{3000};
  /// CB_RECALL of the file's delegation; where it has none, of a stateid that nobody was ever given.
  std::optional<nfs4::nfsstat4> recall(const std::string& path,
                                       std::chrono::milliseconds most = kCallbackTime);
  /// The same without waiting.
  std::future<nfs4::nfsstat4> start_recall(const std::string& path);
  std::optional<nfs4::nfsstat4> recall_any(std::uint32_t objects_to_keep, const nfs4::bitmap4& types);
  /// CB_RECALL_SLOT, and SEQUENCE says the same from then on.
  std::optional<nfs4::nfsstat4> recall_slot(std::uint32_t target_highest_slot);
  std::optional<nfs4::nfsstat4> null_callback();
  /// Connections stay, and none of them is a backchannel any more.
  void lose_backchannels();
  /// The file's delegations are revoked. SEQUENCE says so until the client frees them.
  void revoke(const std::string& path);

  // ---- locks, copies, extended attributes ----
  /// Somebody on the server itself locks [begin, end) of the file, or lets go of all that he has on it.
  void lock(const std::string& path, std::uint64_t begin, std::uint64_t end, bool write = true);
  void unlock(const std::string& path);
  /// Whether a lock that comes free is told to those who wait (CB_NOTIFY_LOCK), and OPEN promises so.
  void set_notify_locks(bool on);
  /// What clients hold, in order: "0-10w 20-30r".
  [[nodiscard]] std::string locks(const std::string& path) const;
  [[nodiscard]] std::size_t lock_states() const;
  /// Without, a COPY goes on beside that was not to, and nothing can be known of it.
  void set_synchronous_copies(bool on);
  void set_unstable_copies(bool on);
  void set_xattrs_at_once(std::uint32_t most);
  /// READ_PLUS leaves a byte out between its elements.
  void set_gap(bool on);
  /// CLOSE does not look at the stateid's seqid (Ganesha).
  void set_careless_close(bool on);
  /// The last entry of a directory has the cookie of its first, and is not the end.
  void set_circular_listings(bool on);

  // ---- faults ----
  /// The next `times` occurrences of `op` get `status` and are not executed, after `skip` more of them.
  void answer(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status, unsigned times = 1, unsigned skip = 0);
  /// The next COMPOUND with `op` in it loses its connection, before or after it was executed.
  void drop_before(nfs4::nfs_opnum4 op);
  void drop_after(nfs4::nfs_opnum4 op);
  /// The next COMPOUND with `op` in it is answered by RDMA_ERROR ERR_CHUNK, or GARBAGE_ARGS, and not
  /// executed.
  void err_chunk(nfs4::nfs_opnum4 op);
  void garbage_args(nfs4::nfs_opnum4 op);
  /// COMPOUNDs with `op` in them (OP_ILLEGAL: all) are executed and their answers, RDMA Writes and all, kept
  /// back until release(). With `execute` false they are executed only then.
  void hold(nfs4::nfs_opnum4 op, bool execute = true);
  void release();
  /// Lets the one go that was kept first. The others stay, and hold() goes on.
  void release_first();
  [[nodiscard]] std::size_t held() const;
  void set_reply_delay(std::chrono::milliseconds delay);
  void set_short_reads(std::uint32_t most);
  void set_short_writes(std::uint32_t most);
  /// WRITEs are answered FILE_SYNC4.
  void set_stable_writes(bool stable);
  void set_target_highest_slot(std::uint32_t slot);
  /// The next `times` answers to SEQUENCE have these in sr_status_flags.
  void set_sequence_flags(std::uint32_t flags, unsigned times);
  /// EXCHANGE_ID tells a wrong eir_sequenceid where it says CONFIRMED_R, as RFC 8881 18.35.3 allows.
  void set_no_sequence_hint(bool on);
  /// Everything volatile is lost: clients, sessions, open state, data without COMMIT. Connections end.
  void restart(std::chrono::milliseconds grace = std::chrono::milliseconds(0));
  /// Sessions are lost, client ids and open state are not.
  void forget_sessions();
  /// Stateids are lost, nothing else.
  void forget_stateids();
  void drop_connections();
  void drop_connection(unsigned number);
  /// Nobody listens until come_back(); connections stay.
  void stop_listening();
  /// Nobody listens until come_back(), and connections end.
  void go_away();
  void come_back();

  /// All that a Responder and its ServerState offer, on the server's thread.
  void on_server(const std::function<void(Responder&)>& fn);

  // ---- what it saw ----
  [[nodiscard]] std::vector<SeenCall> calls() const;
  void clear_calls();
  /// How often an operation came, executed or not.
  [[nodiscard]] unsigned count(nfs4::nfs_opnum4 op) const;
  /// How often it was executed with NFS4_OK.
  [[nodiscard]] unsigned succeeded(nfs4::nfs_opnum4 op) const;
  [[nodiscard]] std::optional<nfs4::EXCHANGE_ID4args> last_exchange_id() const;
  [[nodiscard]] std::optional<nfs4::CREATE_SESSION4args> last_create_session() const;
  [[nodiscard]] std::vector<nfs4::OPEN4args> opens() const;
  [[nodiscard]] std::string credential() const;  ///< of the last Call, encoded
  [[nodiscard]] std::size_t open_connections() const;
  [[nodiscard]] unsigned connections() const;  ///< ever
  [[nodiscard]] std::size_t open_states() const;
  /// That are out, and that were revoked and not freed.
  [[nodiscard]] std::size_t delegations() const;
  [[nodiscard]] std::size_t backchannels() const;  ///< connections
  [[nodiscard]] std::size_t sessions() const;
  [[nodiscard]] std::size_t clients() const;
  /// What broke a rule, one per line.
  [[nodiscard]] std::string problems() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nfsrdma::testing
