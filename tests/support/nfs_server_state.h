// Private to the test server: the file system, clients, sessions and state, and the execution of COMPOUNDs.
// Written from RFC 8881, 7862 and 8276; where they leave a choice, Habits says what this server does.
//
// Pure: no I/O and no clock of its own. Time is what `now` says, chance comes from a seed, and nothing is
// iterated in an order that depends on an address, so that the same calls give the same answers. What comes
// with time (leases, grace, recalls that nobody answered) is looked at when the next COMPOUND begins, and in
// look_at_time().
//
// A COMPOUND is executed in two steps. begin() decodes it and deals with SEQUENCE, which gives the request
// its slot; finish() executes the rest. What lies between, an operation that takes long, is the caller's.
// Confined to one thread.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "async/loop.h"
#include "security/names.h"
#include "support/nfs_server_content.h"
#include "support/nfs_server_habits.h"
#include "support/seen_call.h"
#include "wire/nfs3/acl.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/ops_callback.h"
#include "xdr/decoder.h"

namespace nfsrdma::testing {

using Octets = std::vector<std::byte>;
using Instant = async::TimePoint;

struct Inode {
  std::uint64_t id = 0;  // in file handles
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  std::uint32_t file_system = 0;             // the number of its export; 0: the pseudo root's
  std::uint64_t fileid = 0, mounted_on = 0;  // mounted_on: of an export's root; else 0
  std::uint64_t parent = 0;                  // of a directory
  Content content;                           // of a file
  std::set<std::uint64_t> unstable_of;       // who wrote what is not committed: writer_of()
  struct Loss {
    std::uint64_t change = 0, size_before = 0;
  };
  std::optional<Loss> loss;  // of what was not committed; `change` is that behind it
  std::string link;          // of a symbolic link
  nfs4::specdata4 device{};  // of a device
  std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> entries;  // by cookie
  std::map<std::string, std::uint64_t> cookies;
  std::uint64_t next_cookie = 3;  // 0 to 2 have a meaning of their own (RFC 8881 18.23.3)
  std::uint32_t mode = 0644, links = 1;
  std::string owner = "0", group = "0";
  std::uint64_t change = 1;
  nfs4::nfstime4 accessed{1000, 1}, modified{1000, 2}, altered{1000, 2};
  std::optional<nfs4::verifier4> exclusive;
  nfs4::nfstime4 altered_before{1000, 1};  // what `altered` was before it was set last
  std::map<std::string, std::vector<std::byte>> xattrs;
};

/// Why a client has lost state and not freed it yet.
enum class Revoked : std::uint8_t { no, expired, by_admin, recallable };

struct OpenState {
  nfs4::clientid4 client = 0;
  std::uint64_t inode = 0;
  std::uint32_t seqid = 1, access = 0, deny = 0;
  Octets owner;
  unsigned had = 0;  // a bit for each share_access that it was opened with: what it may be downgraded to
  bool unconfirmed = false;  // NFSv4.0: its owner's first, and of no use until OPEN_CONFIRM
  Revoked revoked = Revoked::no;
};

/// The requests of an open or lock owner of NFSv4.0 (RFC 7530 9.1.7), and the last one's result.
struct OwnerSequence {
  nfs4::seqid4 last = 0;
  bool confirmed = false;
  nfs4::nfs_opnum4 op = nfs4::OP_ILLEGAL;
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  Octets result;              // the operation's number and what follows
  std::uint64_t current = 0;  // the inode behind it
};
/// Client, whether it is a lock owner, name.
using OwnerKey = std::tuple<nfs4::clientid4, bool, Octets>;
/// An owner whose request it is, and which one it says that it is.
struct CountedRequest {
  OwnerKey owner;
  nfs4::seqid4 seqid = 0;
};

struct LockPiece {
  std::uint64_t begin = 0, end = 0;
  bool write = false;
};

/// What one lock owner has on one file. Client 0: somebody who is no client of this server.
struct LockOwnerState {
  nfs4::clientid4 client = 0;
  std::uint64_t inode = 0, open = 0;
  std::uint32_t seqid = 0;
  Octets owner;
  std::vector<LockPiece> pieces;
  Revoked revoked = Revoked::no;
  // The request that was granted the first lock. Once its slot has been used again the client knows of the lock.
  nfs4::sessionid4 session{};
  nfs4::slotid4 slot = 0;
  nfs4::sequenceid4 sequence = 0;
  Instant granted{};       // the first lock
  bool was_lost = false;   // something was locked when it was revoked
  std::uint64_t loss = 0;  // ServerState::losses_ when it was revoked
  bool told = false;       // an answer has told the client that it was revoked
};

struct DelegationState {
  nfs4::clientid4 client = 0;
  std::uint64_t inode = 0;
  Revoked revoked = Revoked::no;
  std::optional<Instant> recalled;  // when
  bool writes = false;
  nfs4::changeid4 granted = 0;  // the file's attribute change then, as clients are told it
  // CB_GETATTR: a question is out, the file's change attribute as of then; and it was answered.
  std::optional<nfs4::changeid4> asked;
  bool told = false;
  std::uint32_t seqid = 1;
  bool return_refused = false;  // a DELEGRETURN of it was answered with an error without being executed
  bool unanswered = false;      // the answer that granted it was lost, and was not cached
};

struct Slot {
  std::uint32_t sequence = 0;
  bool used = false, at_work = false, cached = false;  // at_work: the request has no answer yet
  bool may_begin_anew = false;                         // it was retired, and came back
  bool cachethis = false;
  std::uint32_t operations = 0;         // of the request
  std::uint64_t digest = 0;             // of the request behind SEQUENCE
  std::uint64_t granted = 0;            // the delegation that its OPEN was granted
  std::set<std::uint64_t> known_locks;  // of the client when the request was executed
  nfs4::SEQUENCE4resok answer;
  Octets reply;  // what stands behind the RPC header, items put in
};

struct SessionState {
  nfs4::clientid4 client = 0;
  std::vector<Slot> slots;
  std::uint32_t granted = 0;  // slots that are in use; those behind are retired
  nfs4::channel_attrs4 fore;
  std::uint32_t minor = 0;
  std::set<unsigned> connections;        // associated with the fore channel
  std::set<unsigned> backchannels;       // the connections that it may be called over
  std::map<unsigned, unsigned> refused;  // connections that were told CONN_NOT_BOUND, and how often
  std::uint32_t callback_program = 0;
  nfs4::sequenceid4 callback_sequence = 0;  // of slot 0, used last
};

/// Who sent a request, as its AUTH_SYS credential says.
struct Principal {
  std::uint32_t uid = 0, gid = 0;
  bool known = false;
  /// `encoded`: flavor, length, body.
  static Principal of(xdr::ConstBytes encoded);
  friend bool operator==(const Principal&, const Principal&) = default;
};

/// A COPY that is made beside.
struct CopyState {
  nfs4::clientid4 client = 0;
  std::uint64_t from = 0, to = 0;  // inodes
  std::uint64_t from_offset = 0, to_offset = 0, count = 0;
  std::uint64_t copied = 0;
  Principal who;
  std::optional<nfs4::nfsstat4> ended;
};

struct ClientState {
  Octets owner;
  nfs4::verifier4 verifier{};
  Principal principal;
  bool confirmed = false, reclaimed = false;             // reclaimed: it has said RECLAIM_COMPLETE
  nfs4::sequenceid4 sequence = 1;                        // of the next CREATE_SESSION
  std::optional<nfs4::CREATE_SESSION4res> last_created;  // the answer to the one before
  unsigned sessions = 0;                                 // made so far
  bool was_delayed = false;                              // by the answer to its last CREATE_SESSION
  Instant renewed{};
  unsigned at_work = 0;                           // requests without an answer yet
  std::map<std::uint64_t, std::uint32_t> opened;  // in this boot: inode → share_access
  bool has_revoked = false;                       // it may have state that was revoked and not freed
  bool v40 = false;                               // of NFSv4.0: nobody says when it has reclaimed all
  bool survived =
      false;  // the last restart, which took its open state, and has not said RECLAIM_COMPLETE since
};

// What stands in stateid4::other: the server's boot, and a number.
inline std::uint32_t boot_of(const nfs4::stateid4& stateid) {
  return xdr::load_u32(stateid.other.data());
}
inline std::uint64_t number_of(const nfs4::stateid4& stateid) {
  return xdr::load_u64(stateid.other.data() + 4);
}

// RFC 8881 8.2.2: seqids wrap around, leaving out 0.
inline std::uint32_t seqid_behind(std::uint32_t seqid) {
  return seqid == ~0U ? 1 : seqid + 1;
}
inline bool is_older_seqid(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

nfs4::nfs_fh4 handle_of(std::uint64_t inode);

/// The whole of a message, its items and their padding put back.
Octets flattened(const xdr::Message& message);

/// `op` gets `status` and is not executed, `times` times, after `skip` others.
struct Rule {
  nfs4::nfs_opnum4 op;
  nfs4::nfsstat4 status;
  unsigned times, skip;
};

/// A modifying operation that was executed.
struct Executed {
  Instant at{};
  std::string client;  // its owner id
  nfs4::sessionid4 session{};
  nfs4::slotid4 slot = 0;
  nfs4::sequenceid4 sequence = 0;
  unsigned connection = 0;
  nfs4::nfs_opnum4 op = nfs4::OP_ILLEGAL;
  std::uint64_t inode = 0;  // the current file handle's
  std::string gist;         // of the arguments: names, offsets
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
};
std::string to_string(const Executed& one);

/// The answer to one COMPOUND: the encoded results, with READ and READLINK data beside them.
struct Answer {
  xdr::Message message;
  std::deque<std::string> storage;  // what message.items refer to
  /// For each eligible result of no bytes, how many of message.items are in front of it.
  std::vector<std::size_t> empty_results;
  /// Of message.items: those that no Write chunk is for, and those whose length the Reply is longer by.
  std::vector<std::size_t> kept_inline, doubled;
  bool replayed = false;
};

class ServerState;

/// A call of NFSv3 that the server may be sent again (RFC 1813 4.8).
struct Recent {
  std::uint32_t xid = 0, procedure = 0;
  Octets body;
  std::optional<Octets> reply;  // none yet: it is being executed
  bool twice = false;           // over two connections (Habits::counts_twice)
  [[nodiscard]] bool same(const Recent& other) const;
};

/// One COMPOUND between begin() and finish(). Its bytes stay the caller's and outlive it.
class Execution {
 public:
  enum class Stage : std::uint8_t {
    broken,    ///< no COMPOUND: GARBAGE_ARGS
    answered,  ///< from the reply cache, or refused
    parked,    ///< its first execution is under way: begin() again when that one's slot is free
    ready,     ///< for finish()
    dropped,   ///< NFSv3 and 4.0: its first execution is under way, and it gets no answer
  };
  Stage stage = Stage::ready;
  std::unique_ptr<Answer> answer;
  std::uint64_t boot = 0;  ///< of the server: one of an earlier boot is never finished
  nfs4::sessionid4 session{};
  nfs4::slotid4 slot = 0;

 private:
  friend class ServerState;
  explicit Execution(xdr::ConstBytes all) : body(all), in(all) {}
  xdr::ConstBytes body;
  xdr::Decoder in;
  std::size_t request_size = 0, count_at = 0;
  std::uint32_t count = 0, done = 0, minor = 0;
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  std::uint64_t current = 0, saved = 0;  // inodes; 0: none
  std::optional<nfs4::stateid4> current_stateid, saved_stateid;
  nfs4::clientid4 client = 0;
  Principal who;
  Security security = Security::sys;
  unsigned connection = 0;
  bool in_session = false, cachethis = false, replay = false;
  std::uint64_t losses_before = 0;  // ServerState::losses_ when the request arrived
  std::uint64_t granted = 0;        // the delegation that its OPEN was granted
  bool may_pass_locks = false;      // ServerState::is_truncated()
  nfs4::sequenceid4 sequence = 0;
  std::size_t largest = ~std::size_t{0};  // that the Reply may be, RPC header included
  nfs4::nfsstat4 too_large = nfs4::NFS4ERR_REP_TOO_BIG;
  std::uint64_t digest = 0;                // of what stands behind SEQUENCE
  std::optional<std::uint32_t> procedure;  // of NFSv3
  std::optional<Recent> recent;            // of NFSv3 and 4.0
};

/// The operations that this server has.
// clang-format off
#define NFS_SERVER_OPERATIONS(DO) \
  DO(ACCESS) DO(BACKCHANNEL_CTL) DO(CLOSE) DO(COMMIT) DO(CREATE) DO(GETATTR) DO(GETFH) DO(LINK) \
  DO(LOOKUP) DO(OPEN) DO(PUTFH) DO(PUTPUBFH) DO(PUTROOTFH) DO(READ) DO(READDIR) DO(READLINK) \
  DO(REMOVE) DO(RENAME) DO(SAVEFH) DO(SECINFO) DO(SECINFO_NO_NAME) DO(SETATTR) DO(WRITE) \
  DO(BIND_CONN_TO_SESSION) DO(EXCHANGE_ID) DO(CREATE_SESSION) DO(DESTROY_SESSION) \
  DO(DESTROY_CLIENTID) DO(SEQUENCE) DO(RECLAIM_COMPLETE) DO(SEEK) DO(DELEGRETURN) DO(TEST_STATEID) \
  DO(FREE_STATEID) DO(LOOKUPP) DO(RESTOREFH) DO(LOCK) DO(LOCKT) DO(LOCKU) DO(OPEN_DOWNGRADE) \
  DO(ALLOCATE) DO(DEALLOCATE) DO(READ_PLUS) DO(COPY) DO(CLONE) DO(OFFLOAD_STATUS) DO(OFFLOAD_CANCEL) \
  DO(GETXATTR) DO(SETXATTR) DO(LISTXATTRS) DO(REMOVEXATTR) DO(SETCLIENTID) DO(SETCLIENTID_CONFIRM) \
  DO(RENEW) DO(OPEN_CONFIRM) DO(RELEASE_LOCKOWNER)
// clang-format on

class ServerState {
 public:
  using Now = std::function<Instant()>;
  explicit ServerState(Now now, std::uint64_t seed = 1);

  // ---- what is there ----
  /// The inode of `path`; made if it is not there, and the directories on the way, too.
  Inode& make(const std::string& path, nfs4::nfs_ftype4 type);
  /// A directory that is the root of a file system of its own.
  Inode& make_export(const std::string& path);
  /// What an export takes, the pseudo root's under number 0; those without a row take everything.
  std::map<std::uint32_t, std::vector<Security>> flavors;
  Inode* find(const std::string& path);
  /// Every path, in order: "/a/b 17" with the inode's number.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::uint64_t volatile_bytes() const;
  void set_content(Inode& inode, std::string text);

  // ---- what befalls it ----
  void restart(Instant::duration grace);
  /// Storage fails: data without COMMIT is lost, and the write verifier says so.
  void fail_writeback();
  void problem(const std::string& text);
  void on_connection_lost(unsigned connection);
  void look_at_time();
  /// Ends spells in which an operation fails or is delayed for a while (Habits::failing_percent, busy_percent). From then on
  /// operations fail now and then, as before, and none for long.
  void end_long_failures() {
    spells_.clear();
    busy_until_.clear();
    habits.longest_failing = std::chrono::milliseconds(1);
  }
  /// All that the client has is gone, and nothing on stable storage knows it.
  void discard_client(nfs4::clientid4 client);
  void revoke_all(nfs4::clientid4 client, Revoked why);
  void revoke_delegation(std::uint64_t number, Revoked why);
  /// One lock owner's locks on one file, and nothing else.
  void revoke_lock(std::uint64_t number, Revoked why);
  /// Makes the copy, as far as there is room; it is known of until it is taken out of `copies`.
  void end_copy(std::uint64_t number);
  /// A lock of somebody else's, on the server itself.
  void lock_locally(std::uint64_t inode, LockPiece piece);
  void unlock_locally(std::uint64_t inode);

  [[nodiscard]] nfs4::stateid4 stateid_of(std::uint64_t number, std::uint32_t seqid) const;
  [[nodiscard]] nfs4::verifier4 write_verifier() const;
  [[nodiscard]] bool in_grace() const { return now_() < grace_until; }
  [[nodiscard]] Instant now() const { return now_(); }

  // ---- requests ----
  /// Which operations a COMPOUND has; what is wrong with it.
  static std::string look(xdr::Decoder in, SeenCall& seen);
  /// `body` stands at the tag. Fills in what `seen` says of the COMPOUND; its connection is read.
  std::unique_ptr<Execution> begin(xdr::ConstBytes body, std::size_t request_size, const Principal& who,
                                   SeenCall& seen);
  /// What a procedure of NFSv3 is among the operations that rules, tricks and counts go by.
  static nfs4::nfs_opnum4 operation_of(std::uint32_t procedure);
  /// The same for a procedure of NFSv3.
  std::unique_ptr<Execution> begin3(xdr::ConstBytes body, std::uint32_t procedure, const Principal& who,
                                    SeenCall& seen);
  /// Executes what is left, and gives the answer. The slot is free then.
  std::unique_ptr<Answer> finish(Execution& run);
  /// Whether it is of a session that is gone: it is never executed, and has to be begun again to be answered.
  bool gives_up(Execution& run);

  // ---- knobs ----
  Habits habits;
  static constexpr std::uint32_t kVersion2 = 100;  // and those of NFSv2 behind this one
  static constexpr std::uint32_t kNfsacl = 21;   // NFSACL's procedures are those of NFSv3 behind this number
  std::map<std::uint64_t, nfs3::secattr> acls3;  // by inode
  std::map<std::uint64_t, std::vector<std::byte>> acls4;
  Chance chance;
  std::uint32_t slots = 64, max_request = 2U << 20, max_response = 2U << 20, max_operations = 64,
                newest_minor = 2, oldest_minor = 0;
  std::uint32_t lease = 90;                 // seconds
  std::uint32_t largest_io = 1U << 20;      // FSINFO's rtmax and wtmax
  std::uint64_t largest_file = 1ULL << 32;  // and maxfilesize
  /// Owners of clients some of whose state was taken from them: a lease ran out, a grace period passed
  /// without them, a delegation was not returned in time.
  std::set<Octets> lost_state;
  /// By the owner of a client: files for which it may believe to hold a delegation for writing, because the server has lost
  /// the delegation and the client has not recovered since.
  std::map<Octets, std::set<std::uint64_t>> delegated_before;
  std::chrono::seconds clock_ahead{};  ///< what the wall clock says differs from the world's by so much
  std::uint32_t target_highest = ~0U;
  std::optional<nfs4::nfsstat4> copy_fails;  // of those that are made beside
  std::uint64_t clone_block = 1;             // where CLONEs may begin and end
  std::uint32_t first_seqid = 1;             // of opens and locks: as if they had been there for long
  bool gap = false;                          // READ_PLUS leaves a byte out between its elements
  bool circular_listing = false;             // READDIR begins anew where it should end
  bool pseudo_root_is_read_only = false;
  std::optional<std::uint64_t> space;  // bytes that all files together may have
  std::uint32_t flags = 0;             // of SEQUENCE, for `flags_times`
  unsigned flags_times = 0;
  std::vector<Rule> rules;
  bool keeps_opens = false;     // whether seen_opens is written
  bool keeps_stateids = false;  // whether seen_stateids is written

  // ---- what it asks of its owner; may be empty ----
  /// CB_NOTIFY_LOCK to whoever waits.
  std::function<void(nfs4::clientid4, const nfs4::CB_NOTIFY_LOCK4args&)> call_waiter;
  /// end_copy() of the one with this number, when its time has come.
  std::function<void(std::uint64_t number)> call_copier;
  /// CB_RECALL of the delegation with this number.
  std::function<void(std::uint64_t number)> call_holder;
  /// A delegation for writing has been returned.
  std::function<void()> on_returned;
  /// Whether a program may be setting the size of the inode by truncate(2). That has no descriptor, and so goes by no lock
  /// (nfsrdma-fuse(8), SEMANTICS, Locks).
  std::function<bool(std::uint64_t inode)> is_truncated;
  [[nodiscard]] std::optional<std::uint64_t> write_delegation(const std::string& path);
  /// CB_GETATTR to whoever has the delegation with this number.
  std::function<void(std::uint64_t number)> ask_holder;
  /// His answer, if there was one. False: the delegation is to be recalled.
  bool hear_of(std::uint64_t delegation, const std::optional<nfs4::fattr4>& told);

  // ---- state ----
  std::map<std::uint64_t, Inode> inodes;
  std::map<nfs4::clientid4, ClientState> clients;
  std::map<nfs4::sessionid4, SessionState> sessions;
  std::map<std::uint64_t, OpenState> opens;              // by the number in stateid4::other
  std::map<std::uint64_t, DelegationState> delegations;  // by the same
  std::map<std::uint64_t, LockOwnerState> locks;         // by the same
  std::vector<LockOwnerState> waiting;                   // for a lock that was denied
  std::map<std::uint64_t, CopyState> copies;             // by the number in stateid4::other
  std::uint64_t boot = 1, next_id = 1;
  Instant grace_until{};
  std::uint64_t used = 0;  // bytes of all files
  /// The attribute change of an object that was changed `count` times.
  [[nodiscard]] nfs4::changeid4 change_told(const Inode& inode, std::uint64_t count) const;

  // ---- records ----
  std::map<nfs4::nfs_opnum4, unsigned> seen_ops, good_ops;
  std::optional<nfs4::EXCHANGE_ID4args> last_exchange_id;
  std::optional<nfs4::CREATE_SESSION4args> last_create_session;
  std::optional<nfs4::SETCLIENTID4args> last_setclientid;
  std::vector<nfs4::OPEN4args> seen_opens;
  /// What each READ, WRITE, size and the like was asked under: d(elegation), l(ock), o(pen), a(nonymous).
  std::string seen_stateids;
  std::vector<Executed> executed;
  std::string problems;

 private:
  template <class Op>
  bool one(Execution& at, xdr::Encoder& out);
  [[nodiscard]] bool takes(Security security, const Inode& inode) const;
  [[nodiscard]] nfs4::SECINFO4resok offers_at(const Inode& inode) const;
  /// What the operation needs is there under another flavour only.
  [[nodiscard]] bool is_wrong_flavor(const Execution& at, nfs4::nfs_opnum4 number) const;
  bool operation(Execution& at, std::uint32_t number, xdr::Encoder& out);
  std::optional<nfs4::nfsstat4> injected(nfs4::nfs_opnum4 op);
  /// What passes, by Habits::trouble_percent.
  template <class Op>
  std::optional<nfs4::nfsstat4> trouble(const Execution& at, const typename Op::Args& args);
  /// NFS4ERR_DELAY, by Habits::busy_percent.
  std::optional<nfs4::nfsstat4> busy(nfs4::nfs_opnum4 op);
  /// What passes after a while, by Habits::failing_percent.
  template <class Op>
  std::optional<nfs4::nfsstat4> failing(const Execution& at, const typename Op::Args& args);
  /// One of the statuses that a kind of operation may fail with, and whether it may do so for a while.
  std::optional<nfs4::nfsstat4> spell(nfs4::nfs_opnum4 op, std::span<const nfs4::nfsstat4> statuses,
                                      bool lasts);
  nfs4::nfsstat4 start(std::uint32_t minor, const std::vector<nfs4::nfs_opnum4>& ops);
  static void conclude(Execution& at);
  void settle(Execution& at);
  void replay(Execution& at);
  void log(const Execution& at, nfs4::nfs_opnum4 op, std::uint64_t inode, std::string gist,
           nfs4::nfsstat4 status);

  // nfs_server_v40.cpp
  bool begin40(Execution& run, const SeenCall& seen);
  [[nodiscard]] bool is_executed_twice(const Execution& run) const;
  void end40(const Execution& run, bool good);
  nfs4::nfsstat4 name_client(Execution& at, nfs4::clientid4 client);
  nfs4::nfsstat4 client_of_lock(Execution& at, const nfs4::LOCK4args& args);
  [[nodiscard]] std::optional<OwnerKey> open_owner_of(const nfs4::stateid4& stateid) const;
  std::vector<CountedRequest> counted(const nfs4::OPEN4args& args);
  std::vector<CountedRequest> counted(const nfs4::OPEN_CONFIRM4args& args);
  std::vector<CountedRequest> counted(const nfs4::CLOSE4args& args);
  std::vector<CountedRequest> counted(const nfs4::OPEN_DOWNGRADE4args& args);
  std::vector<CountedRequest> counted(const nfs4::LOCK4args& args);
  std::vector<CountedRequest> counted(const nfs4::LOCKU4args& args);
  /// What the request gets that is the last one once more: its result; or what is wrong with it.
  const OwnerSequence* check_sequence(const std::vector<CountedRequest>& requests, nfs4::nfs_opnum4 op,
                                      nfs4::nfsstat4& status);
  void count(const std::vector<CountedRequest>& requests, const OwnerSequence& now);
  bool needs_confirmation(const Execution& at, const nfs4::OPEN4args& args);
  void forget_sequences(nfs4::clientid4 client);

  // nfs_server_names.cpp
  static constexpr std::uint64_t kRoot = 1;
  Inode* current(Execution& at);
  static void set_current(Execution& at, std::uint64_t inode);
  static nfs4::nfsstat4 check_regular(const Inode& inode);
  nfs4::nfsstat4 check_directory(Execution& at, Inode*& directory);
  nfs4::nfsstat4 check_writable(const Inode& inode) const;
  static nfs4::nfsstat4 check_name(const std::string& name);
  nfs4::nfsstat4 check_place(Execution& at, const std::string& name, Inode*& directory);
  Inode* child(const Inode& directory, const std::string& name);
  void attach(Inode& directory, const std::string& name, std::uint64_t id);
  void detach(Inode& directory, const std::string& name);
  void touch(Inode& inode);
  void unlinked(Inode& inode);
  void bury();
  Inode& fresh(nfs4::nfs_ftype4 type, std::uint32_t file_system);
  bool set_attributes(Inode& inode, const nfs4::fattr4& wanted);
  nfs4::WireAttributes attributes(const Inode& inode, bool in_listing) const;
  nfs4::change_info4 changed(const Inode& inode, std::uint64_t before) const;
  nfs4::change_info4 changed(const Inode& inode) const { return changed(inode, inode.change - 1); }
  [[nodiscard]] nfs4::nfstime4 wall_time() const;
  [[nodiscard]] bool is_descendant(const Inode& directory, std::uint64_t of) const;
  [[nodiscard]] nfs4::verifier4 cookie_verifier(const Inode& directory) const;

  // nfs_server_sessions.cpp
  nfs4::nfsstat4 create_session(Execution& at, ClientState& client, const nfs4::CREATE_SESSION4args& args,
                                nfs4::CREATE_SESSION4res& res);
  nfs4::nfsstat4 check_connection(SessionState& session, const Execution& at);
  [[nodiscard]] nfs4::nfsstat4 status_of_ended(const nfs4::sessionid4& session) const;
  bool is_stranger(const SessionState& session, unsigned connection);
  nfs4::nfsstat4 check_retry(Execution& at, Slot& slot, const nfs4::SEQUENCE4args& args);
  [[nodiscard]] std::uint32_t status_flags(const Execution& at, const SessionState& session) const;
  void retire_slots(SessionState& session, const nfs4::SEQUENCE4args& args);
  [[nodiscard]] bool has_state(nfs4::clientid4 client) const;

  // nfs_server_recovery.cpp
  [[nodiscard]] bool is_expired(const ClientState& client) const;
  void outlive_restart();
  [[nodiscard]] nfs4::nfsstat4 status_of_old_boot() const;
  void end_grace();
  void expire(nfs4::clientid4 client, bool purges);
  void end_courtesy(nfs4::clientid4 client);
  void note_freed(nfs4::clientid4 client);
  [[nodiscard]] nfs4::nfsstat4 check_reclaim(const Execution& at);
  static nfs4::nfsstat4 status_of_revoked(Revoked why, nfs4::nfsstat4 otherwise);

  // nfs_server_opens.cpp
  struct Opening;
  nfs4::nfsstat4 resolve(const nfs4::stateid4& given, Execution& at, nfs4::stateid4& stateid);
  nfs4::nfsstat4 check_known(const nfs4::stateid4& stateid, std::uint32_t seqid, nfs4::clientid4 owner,
                             std::uint64_t inode, Revoked revoked, Execution& at);
  nfs4::nfsstat4 check_open(const nfs4::stateid4& given, Execution& at, std::uint64_t& number);
  /// For READ, WRITE and their like: any stateid that allows `access`.
  nfs4::nfsstat4 check_io(const nfs4::stateid4& given, Execution& at, std::uint32_t access);
  void note_stateid(char kind);
  /// RFC 8881 8.2.5: a change under the stateid of the open with that number.
  void look_for_lost_locks(std::uint64_t open, const Execution& at);
  [[nodiscard]] bool is_known(const LockOwnerState& lock) const;
  /// The locks of the client that it knows of.
  [[nodiscard]] std::set<std::uint64_t> known_locks(nfs4::clientid4 client) const;
  void note_delayed(const Execution& at);
  nfs4::nfsstat4 check_change(const nfs4::stateid4& given, Execution& at);
  nfs4::nfsstat4 check_claim(Execution& at, const nfs4::OPEN4args& args, Opening& opening);
  nfs4::nfsstat4 create(Execution& at, const nfs4::createhow4& how, Opening& opening);
  void keep_verifier(Inode& made, const nfs4::verifier4& verifier, nfs4::bitmap4& attrset) const;
  nfs4::nfsstat4 check_share(const Execution& at, const nfs4::OPEN4args& args, const Inode& inode,
                             nfs4::nfsstat4 conflict);
  nfs4::stateid4 grant(const Execution& at, const nfs4::OPEN4args& args, const Inode& inode);
  [[nodiscard]] bool is_open(std::uint64_t inode) const;
  void erase_open(std::uint64_t number);

  // nfs_server_v3.cpp
  struct Run3;
  template <class P>
  bool procedure3(Execution& at);
  // nfs_server_v2.cpp
  struct Run2;
  bool procedure2(Execution& at);
  /// The procedure of NFSv3 that one of v2 is executed by.
  static std::uint32_t as_version3(std::uint32_t procedure);
  std::unique_ptr<Answer> finish3(Execution& run);
  void remember(const Recent& call);
  void keep(const Recent& call);
  /// CREATE of a regular file in the current directory (nfs_server_opens.cpp); it is the current object then.
  nfs4::nfsstat4 create_named(Execution& at, const std::string& name, const nfs4::createhow4& how);

  // nfs_server_data.cpp
  nfs4::nfsstat4 make_room(Inode& inode, std::uint64_t end, bool unstable, std::uint64_t& most);
  void put(const Principal& who, Inode& inode, std::uint64_t offset, std::string_view data, bool stable);
  void resize(Inode& inode, std::uint64_t size);
  [[nodiscard]] bool is_full() const { return space && used >= *space; }
  /// A number for the client that sent it; where the request has no client id one for its connection.
  static std::uint64_t writer_of(const Execution& at);
  void drop_unstable(Inode& inode);
  nfs4::nfsstat4 copy(const CopyState& one, std::uint64_t& copied);
  [[nodiscard]] nfs4::nfsstat4 check_copy(const Execution& at, const nfs4::stateid4& stateid) const;
  nfs4::nfsstat4 check_two(Execution& at, const nfs4::stateid4& from, const nfs4::stateid4& to);

  // nfs_server_delegations.cpp
  [[nodiscard]] bool has_backchannel(nfs4::clientid4 client) const;
  void lose_delegations(nfs4::clientid4 id);
  void delegate(Execution& at, const nfs4::OPEN4args& args, const Inode& inode, nfs4::open_delegation4& out);
  /// NFS4ERR_DELAY while somebody else has a delegation of it, which is recalled.
  nfs4::nfsstat4 recall_others(const Execution& at, std::uint64_t inode, bool writers_only = false);
  /// NFS4ERR_DELAY while somebody else has one for writing and has not said what the file looks like.
  nfs4::nfsstat4 ask_others(const Execution& at, const Inode& inode);
  void revoke_late();
  [[nodiscard]] nfs4::nfsstat4 delegation_status(const nfs4::stateid4& stateid, const Execution& at);

  // nfs_server_locks.cpp
  bool conflict(std::uint64_t inode, const LockOwnerState& mine, const LockPiece& wanted,
                nfs4::LOCK4denied& denied);
  void wake_waiters(std::uint64_t inode);
  nfs4::nfsstat4 find_lock_owner(Execution& at, const nfs4::LOCK4args& args, std::uint64_t& number);
  nfs4::nfsstat4 check_lock(const nfs4::stateid4& given, Execution& at, std::uint64_t& number);

  /// The result that is nothing but a status.
  template <class Res>
  static nfs4::nfsstat4 plain(Res& res, nfs4::nfsstat4 status) {
    nfs4::set_status(res, status);
    return status;
  }

#define NFS_OP(NAME)                                                                  \
  nfs4::nfsstat4 run(Execution& at, nfs4::op::NAME, const nfs4::op::NAME::Args& args, \
                     nfs4::op::NAME::Res& res);
  NFS_SERVER_OPERATIONS(NFS_OP)
#undef NFS_OP

  const Now now_;
  const Instant begun_;
  bool grace_is_open_ = false;
  std::uint64_t verifier_ = 0;                   // counts failures of storage
  std::set<unsigned> ended_;                     // connections
  std::deque<Recent> recent_;                    // calls of NFSv3 and 4.0, the oldest first
  std::map<OwnerKey, OwnerSequence> sequences_;  // of NFSv4.0
  // Requests of sessions that were asked to wait, by client and Execution::digest, with the numbers of the locks that the
  // client knew of when it sent the request first.
  std::map<std::pair<nfs4::clientid4, std::uint64_t>, std::set<std::uint64_t>> delayed_;
  std::uint64_t losses_ = 0;                  // number of locks that were lost, each counted when it was
  std::set<std::uint64_t> expired_;           // of NFSv4.0: numbers in stateids whose lease has ended
  std::map<std::uint64_t, OwnerKey> closed_;  // opens of NFSv4.0, by the number in their stateid
  std::set<Octets> recorded_;                 // on stable storage: owners that may have state
  std::set<Octets> may_reclaim_;              // in this grace period
  /// On stable storage: owners, and files of which an administrator has taken a lock away from them. They had not freed it when
  /// the server restarted, so they may not know of it.
  std::set<std::pair<Octets, std::uint64_t>> taken_before_;
  std::map<Octets, std::map<std::uint64_t, std::uint32_t>> opened_before_;  // the last boot's: owner → inodes
  std::set<std::uint64_t> doomed_;  // inodes that may have lost their last user
  std::uint32_t file_systems_ = 0;
  std::map<std::uint32_t, std::uint64_t> next_fileid_;  // of exports
  std::map<nfs4::nfs_opnum4, Instant> busy_until_;
  struct Spell {
    Instant until{};
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
  };
  std::map<nfs4::nfs_opnum4, Spell> spells_;
  std::map<unsigned, bool> strangers_;  // connections, and whether they lead to another server
};

}  // namespace nfsrdma::testing
