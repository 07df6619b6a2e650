// What a server may do one way or another: the choices that the specifications leave open, and the ways in
// which servers in use differ from them. The test server behaves as its Habits say; a simulation draws them
// from its seed.
//
// A default one is what most unit tests expect: patient, without state that goes by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "wire/nfs4/base.h"

namespace nfsrdma::testing {

/// Chance from a seed (splitmix64): the same everywhere, unlike the standard library's distributions.
class Chance {
 public:
  explicit Chance(std::uint64_t seed = 1) : state_(seed) {}
  std::uint64_t next();
  /// Below `bound`, which is not 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool percent(unsigned chance) { return chance != 0 && below(100) < chance; }
  bool coin() { return percent(50); }

 private:
  std::uint64_t state_;
};

struct Habits {
  // ---- sessions (RFC 8881 2.10.6) ----
  /// What a retransmission gets whose first execution is under way: SEQUENCE says NFS4ERR_DELAY (Linux), or
  /// it waits until the first one has its answer.
  enum class AtWork : std::uint8_t { delay, hold };
  AtWork at_work = AtWork::delay;
  /// How a slot's sequence id that comes again with another request is noticed: never, so that the answer to
  /// the other request is given; by the number of operations and sa_cachethis (Linux); or always, as
  /// 2.10.6.1.3.1 allows.
  enum class FalseRetry : std::uint8_t { unnoticed, by_shape, exact };
  FalseRetry false_retry = FalseRetry::unnoticed;
  /// A reply that was not cached: RETRY_UNCACHED_REP stands behind a good SEQUENCE (Linux), not in it.
  bool uncached_behind_sequence = false;
  /// A connection is associated with the session of the first SEQUENCE on it (2.10.3.1); without, SEQUENCE
  /// says CONN_NOT_BOUND_TO_SESSION.
  bool associates_connections = true;
  bool checks_high_slot = false;  ///< BAD_HIGH_SLOT
  /// Slots above the target are gone once the client's sa_highest_slotid is not above it any more.
  bool retires_slots = false;
  /// CREATE_SESSION that failed has used its csa_sequence, and its failure is what a repetition gets
  /// (18.36.4); `with_delay`: NFS4ERR_DELAY, too.
  enum class Failures : std::uint8_t { forgotten, remembered, remembered_with_delay };
  Failures create_session_failures = Failures::forgotten;
  /// A session of this boot that the server has ended is answered NFS4ERR_DEADSESSION, not BADSESSION.
  bool dead_sessions = false;
  nfs4::sequenceid4 first_create_sequence = 1;
  /// EXCHANGE_ID tells a wrong eir_sequenceid where it says CONFIRMED_R, as 18.35.3 allows.
  bool no_sequence_hint = false;
  bool no_state_protection = false;  ///< EXCHANGE_ID answers SP4_NONE (Ganesha)
  std::uint32_t max_response_cached = ~0U;
  bool grants_backchannel = true;
  /// SEQ4_STATUS_CB_PATH_DOWN_SESSION and CB_PATH_DOWN where there is no backchannel.
  bool tells_path_down = false;
  /// SEQ4_STATUS flags that each SEQUENCE has, whatever the client does about them.
  std::uint32_t stuck_flags = 0;

  // ---- limits ----
  std::uint32_t most_slots = ~0U, most_operations = ~0U;  ///< that CREATE_SESSION grants
  /// CREATE_SESSION grants more than it was asked for, and SEQUENCE has a target above the slots that there are.
  bool grants_more = false;
  /// The attributes maxread and maxwrite. 0 says nothing.
  std::uint64_t most_read = 1U << 20, most_written = 1U << 20;
  /// The space_limit of write delegations: as much as the client likes or 64 KiB; or nothing at all; or blocks.
  enum class Room : std::uint8_t { some, none, blocks };
  Room room = Room::some;

  // ---- leases and restarts (8.3, 8.4) ----
  /// What happens to a client whose lease runs out: its state stays until somebody wants what it has (Linux
  /// since 5.19); its state is revoked, its sessions stay (8.4.3); or it is forgotten altogether.
  enum class Expiry : std::uint8_t { courtesy, revoke, purge };
  Expiry expiry = Expiry::courtesy;
  /// The courtesy ends for all that the client has, not only for what is in the way.
  bool conflict_purges = true;
  /// The grace period ends when all who may reclaim have said RECLAIM_COMPLETE.
  bool grace_ends_early = false;
  bool grace_stops_names = false;    ///< REMOVE and RENAME get NFS4ERR_GRACE meanwhile (Linux)
  bool reclaims_delegations = true;  ///< CLAIM_PREVIOUS gives a delegation back
  /// What a restart leaves of a client beside the name of its owner: nothing; its client id; or its sessions, too, with
  /// their reply caches (2.10.6.5). Open state is lost in any case, which SEQ4_STATUS_RESTART_RECLAIM_NEEDED says.
  enum class Survives : std::uint8_t { nothing, clients, sessions };
  Survives survives = Survives::nothing;
  /// eir_server_owner is another one after each restart; eir_server_scope is not (2.10.4).
  bool another_owner = false;

  // ---- open files (18.16) ----
  /// A file that was removed is gone although it is open: NFS4ERR_STALE.
  bool forgets_unlinked = false;
  bool preserves_unlinked = false;    ///< OPEN4_RESULT_PRESERVE_UNLINKED, and they outlive a restart
  bool downgrades_to_unions = false;  ///< 18.18.3; else only to what was opened by itself, as Linux
  bool careless_close = false;        ///< CLOSE does not look at the stateid's seqid (Ganesha)
  /// The server stores the verifier of an exclusive create in the times of the file, names them in attrset, and loses
  /// the verifier with the next WRITE, or SETATTR of a time (Linux).
  bool verifier_in_times = false;

  // ---- delegations (10.4) ----
  enum class Delegate : std::uint8_t { never, wanted, readers };
  Delegate delegates = Delegate::never;
  unsigned delegation_percent = 100;
  bool delegates_writing = false;  ///< to who opens for writing and wants one, and is the only one
  bool delegates_writing_with_reading = false;  ///< only to who opens for both, as Linux 6.6 to 6.15
  bool asks_writers = false;                    ///< CB_GETATTR where others want to know; else it recalls
  bool delegates_to_writers = true;             ///< also where somebody has the file open for writing
  bool recalls_on_conflict = false;             ///< and answers NFS4ERR_DELAY meanwhile; else nobody minds
  bool explains_no_delegation = false;          ///< OPEN_DELEGATE_NONE_EXT for who wanted one
  /// OPEN tells each owner of the client's delegation on the file, not only the one that it was granted with.
  bool tells_delegations_again = false;
  /// A client that has a delegation on the file may be granted another one beside it (RFC 8881 10.4 wants one).
  bool delegates_twice = false;
  /// All who open for writing, want a delegation for that, and may have one are granted it, whatever stands above.
  bool always_delegates_writing = false;
  /// An OPEN for writing makes a write delegation of the client's read delegation, under the next seqid.
  bool upgrades_delegations = false;
  /// A delegation that is granted takes the place of the one that the client has on the file.
  bool replaces_delegations = false;
  /// Delegations are granted to clients that cannot be called, and to those that want none.
  bool delegates_unasked = false;
  bool notify_locks = true;  ///< CB_NOTIFY_LOCK, promised by OPEN

  // ---- chunks (RFC 8267 4.3) ----
  /// A READ that gives no bytes takes no Write chunk: what follows is placed one chunk too early (Linux).
  bool skips_empty_results = false;
  /// Which elements an answer to READ_PLUS has (RFC 7862 15.10): what is there, with a hole in full even where that reaches
  /// over what was asked for; or not beyond that; or one element only; or data in two parts; or all as data (Linux);
  /// or nothing, and that it is the end (Ganesha 4.3).
  enum class Elements : std::uint8_t { in_full, within, one, split, data_only, nothing };
  Elements elements = Elements::in_full;
  /// What becomes of READ_PLUS's Write chunk: the first data is written there (RFC 8267 4.1.1); and the Reply is longer by as
  /// many bytes of anything (Linux 6.1); or all data does, and the chunk comes back unused.
  enum class PlusChunk : std::uint8_t { used, doubled, unused };
  PlusChunk plus_chunk = PlusChunk::used;
  bool has_read_plus = true;  ///< else NFS4ERR_NOTSUPP
  /// The status of the LOOKUP after so many more is NFS4ERR_NOENT, although it was executed, as what follows is: Linux
  /// leaves there what was in memory, where a status comes to lie across a page of a long Reply. 0: none.
  unsigned garbled_lookup = 0;

  // ---- names and attributes ----
  /// How the attribute change follows from how often an object was changed (5.8.1.4): it counts up; it counts down; it
  /// is a number without any order; or it is time_metadata, which goes in steps of time_grain.
  enum class Change : std::uint8_t { upwards, downwards, scattered, ctime };
  Change change = Change::upwards;
  std::chrono::nanoseconds time_grain{1};  ///< of time_metadata and of time_modify where the server sets it
  bool atomic_change_info = true;
  bool tells_rdattr_error = true;  ///< READDIR's entries have it with value 0, where it was asked for (Linux)
  bool checks_cookie_verifier = false;
  std::uint32_t entries_at_once = ~0U;
  std::uint32_t most_granted = ~0U;  ///< ACCESS grants none but these rights

  // ---- data ----
  bool commits_whole_file = true;
  bool stable_writes = false;      ///< WRITEs are answered FILE_SYNC4
  bool ignores_stability = false;  ///< WRITEs are answered UNSTABLE4, whatever was asked for
  std::uint32_t short_reads = ~0U, short_writes = ~0U;
  /// Unstable WRITEs succeed on a full disk; COMMIT or a later WRITE fails and their data is lost.
  bool late_no_space = false;
  nfs4::nfsstat4 full_status = nfs4::NFS4ERR_NOSPC;
  /// With this chance the write verifier changes in front of a WRITE or COMMIT, and no data is lost (Linux does so for
  /// all files when the storage of one has failed). 100: it is never the same twice.
  unsigned new_verifier_percent = 0;
  /// With this chance a COMMIT finds that the storage has lost the file's unstable data: its verifier says so.
  unsigned lost_at_commit_percent = 0;
  bool unstable_copies = false;
  std::uint64_t most_copied =
      ~0ULL;  ///< by one COPY; 0 is what Linux's server copies while it is being stopped
  /// COPY is done before its answer; or beside, where the client lets it, else OFFLOAD_NO_REQS; or beside,
  /// whatever the client has asked for.
  enum class Copies : std::uint8_t { at_once, in_background, in_background_unasked };
  Copies copies = Copies::at_once;
  std::chrono::milliseconds copy_takes{0};  ///< beside
  bool tells_of_copies = true;              ///< CB_OFFLOAD, behind which a copy is forgotten
  bool knows_of_copies = true;              ///< OFFLOAD_STATUS and OFFLOAD_CANCEL
  std::uint32_t xattrs_at_once = ~0U;
  bool has_acls = false;        ///< NFSACL, and the attribute acl
  bool owners_by_name = false;  ///< it takes no numbers, as Linux with Kerberos

  // ---- NFSv3 (RFC 1813) ----
  /// How many calls it remembers that must not be executed twice, until it restarts (4.8).
  std::uint32_t recent_calls = 1024;
  unsigned untold_percent = 0;  ///< with this chance attributes or a handle do not come along
  bool creates_exclusively = true;
  bool confirms_owners = false;  ///< NFSv4.0: OPEN_CONFIRM is wanted of each new owner (Linux)
  /// NFSv4.0: a request of an owner that comes again over another connection while the first one is being executed is
  /// executed, too, and counted a second time (Linux). Not drawn: an OPEN that truncates a file is executed twice then, the
  /// second time over what was written behind the first, which no client can help.
  bool counts_twice = false;
  bool lists_with_attributes = true;  ///< READDIRPLUS

  [[nodiscard]] bool calls_clients() const { return grants_backchannel || always_delegates_writing; }

  // ---- trouble ----
  /// With this chance SERVERFAULT, RESOURCE or IO is the answer to what binds a connection, frees a stateid, or
  /// recovers a session, an open or a lock. The next time it may go well.
  unsigned trouble_percent = 0;
  /// With this chance an operation is answered NFS4ERR_DELAY where RFC 8881 15.2 allows it; and half the times so are
  /// all operations of its kind for a while. JUKEBOX in NFSv3.
  unsigned busy_percent = 0;
  std::chrono::milliseconds longest_busy{1};
  /// The same with statuses that ought to pass, for operations that make, bind, recover and end sessions and state
  /// (ServerState::trouble).
  unsigned failing_percent = 0;
  std::chrono::milliseconds longest_failing{1};
  /// With this chance a connection leads to another server behind the same address, which does not know the session, for
  /// as long as another connection of the session is there.
  unsigned stranger_percent = 0;

  // ---- time ----
  /// The execution of a COMPOUND takes a while with this chance; its slot is in use meanwhile.
  unsigned stall_percent = 0;
  std::chrono::milliseconds longest_stall{1};

  static Habits knfsd();
  static Habits ganesha();
  static Habits rfc_strict();
  /// One of the three, with some of its habits changed. What would make progress impossible is not drawn.
  static Habits drawn(Chance& chance);
  /// Names of groups of drawn habits that a world can be without, so that a failure can be shrunk.
  [[nodiscard]] static std::span<const std::string_view> groups();
  /// As if nothing had been drawn for that group.
  void leave_out(std::string_view group);
  /// Leaves out all groups.
  void leave_out_all();
  /// What was drawn of those groups, for a report.
  [[nodiscard]] std::string text() const;
  /// Those of NFSv3.
  void draw_v3(Chance& chance);
  void draw_v40(Chance& chance);

 private:
  void draw_more(Chance chance);
};

}  // namespace nfsrdma::testing
