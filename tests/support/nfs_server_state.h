// Private to the test server: the file system, clients and sessions, and the execution of one COMPOUND. No
// I/O. Confined to the server's thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nfs4/types/attributes.h"
#include "nfs4/types/ops_callback.h"
#include "support/seen_call.h"
#include "xdr/decoder.h"

namespace nfsrdma::testing {

using Octets = std::vector<std::byte>;
using Instant = std::chrono::steady_clock::time_point;

struct Inode {
  std::uint64_t id = 0;
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  std::string data, stable;                        // of a file; of a link: its text
  std::map<std::uint64_t, std::uint64_t> extents;  // begin → end; empty: all of it is data
  std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> entries;  // by cookie
  std::map<std::string, std::uint64_t> cookies;
  std::uint64_t next_cookie = 3;
  std::uint32_t mode = 0644, links = 1;
  std::string owner = "0", group = "0";
  std::uint64_t change = 1;
  nfs4::nfstime4 accessed{1000, 1}, modified{1000, 2};
  std::optional<nfs4::verifier4> exclusive;
  std::map<std::string, std::vector<std::byte>> xattrs;
};

struct OpenState {
  nfs4::clientid4 client = 0;
  std::uint64_t inode = 0;
  std::uint32_t seqid = 1, access = 0;
  Octets owner;
  unsigned had = 0;  // a bit for each share_access that it was opened with: what it may be downgraded to
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
};

struct Slot {
  std::uint32_t sequence = 0;
  bool cached = false;
  Octets reply;  // what stands behind the RPC header, items put in
};

struct DelegationState {
  nfs4::clientid4 client = 0;
  std::uint64_t inode = 0;
  bool revoked = false;  // and the client has not said yet that it knows
};

struct SessionState {
  nfs4::clientid4 client = 0;
  std::vector<Slot> slots;
  nfs4::channel_attrs4 fore;
  std::uint32_t minor = 0;
  std::set<unsigned> backchannels;  // the connections that it may be called over
  std::uint32_t callback_program = 0;
  nfs4::sequenceid4 callback_sequence = 0;  // of slot 0, used last
};

// What stands in stateid4::other: the server's boot, and a number.
inline std::uint32_t boot_of(const nfs4::stateid4& stateid) {
  return xdr::load_u32(stateid.other.data());
}
inline std::uint64_t number_of(const nfs4::stateid4& stateid) {
  return xdr::load_u64(stateid.other.data() + 4);
}

nfs4::nfs_fh4 handle_of(std::uint64_t inode);

struct ClientState {
  Octets owner;
  nfs4::verifier4 verifier{};
  bool confirmed = false, reclaimed = false;
  std::uint32_t sequence = 1;  // of the next CREATE_SESSION
  std::optional<nfs4::CREATE_SESSION4resok> last_created;
};

struct Rule {
  nfs4::nfs_opnum4 op;
  nfs4::nfsstat4 status;
  unsigned times, skip;
};

/// The answer to one COMPOUND: the encoded results, with READ and READLINK data beside them.
struct Answer {
  xdr::Message message;
  std::deque<std::string> storage;  // what message.items refer to
  bool replayed = false;
};

class ServerState {
 public:
  using Now = std::function<Instant()>;
  explicit ServerState(Now now);

  Inode& make(const std::string& path, nfs4::nfs_ftype4 type);
  Inode* find(const std::string& path);
  void restart(Instant::duration grace);
  void problem(const std::string& text) { problems += text + "\n"; }
  [[nodiscard]] nfs4::stateid4 stateid_of(std::uint64_t number, std::uint32_t seqid) const;
  /// A lock of somebody else's, on the server itself.
  void lock_locally(std::uint64_t inode, LockPiece piece);
  void unlock_locally(std::uint64_t inode);

  /// Which operations a COMPOUND has; what is wrong with it.
  static std::string look(xdr::Decoder in, SeenCall& seen);
  /// Executes a COMPOUND: `in` stands at its tag. Fills in `seen`.
  std::unique_ptr<Answer> compound(xdr::Decoder& in, std::size_t request_size, SeenCall& seen);

  // knobs
  std::uint32_t slots = 64, max_request = 2U << 20, max_response = 2U << 20, max_operations = 64,
                newest_minor = 2;
  std::uint32_t lease = 90;
  std::uint32_t short_reads = ~0U, short_writes = ~0U, target_highest = ~0U;
  bool stable_writes = false, no_sequence_hint = false, delegate_reads = false, backchannel = true;
  bool notify_locks = true, synchronous_copies = true, unstable_copies = false, gap = false;
  bool careless_close = false;
  bool circular_listings = false;
  std::uint32_t xattrs_at_once = ~0U;
  /// CB_NOTIFY_LOCK to whoever waits.
  std::function<void(nfs4::clientid4, const nfs4::CB_NOTIFY_LOCK4args&)> call_waiter;
  std::uint32_t flags = 0;
  unsigned flags_times = 0;
  std::vector<Rule> rules;

  // state
  std::map<std::uint64_t, Inode> inodes;
  std::map<nfs4::clientid4, ClientState> clients;
  std::map<nfs4::sessionid4, SessionState> sessions;
  std::map<std::uint64_t, OpenState> opens;              // by the number in stateid4::other
  std::map<std::uint64_t, DelegationState> delegations;  // by the same
  std::map<std::uint64_t, LockOwnerState> locks;         // by the same
  std::vector<LockOwnerState> waiting;                   // for a lock that was denied
  std::uint64_t boot = 1, next_id = 1;
  Instant grace_until{};

  // records
  std::map<nfs4::nfs_opnum4, unsigned> seen_ops, good_ops;
  std::optional<nfs4::EXCHANGE_ID4args> last_exchange_id;
  std::optional<nfs4::CREATE_SESSION4args> last_create_session;
  std::vector<nfs4::OPEN4args> seen_opens;
  std::string problems;

 private:
  const Now now_;

  struct Context {
    std::uint64_t current = 0, saved = 0;  // inodes; 0: none
    nfs4::clientid4 client = 0;
    std::uint32_t minor = 0;
    unsigned connection = 0;
    SessionState* session = nullptr;
    Slot* slot = nullptr;
    bool replay = false;  // the slot's cached answer is wanted
    Answer* answer = nullptr;
  };
  void drop_former_lives(nfs4::clientid4 now);
  template <class Op>
  bool one(Context& at, xdr::Decoder& in, xdr::Encoder& out, nfs4::nfsstat4& status);
  bool operation(Context& at, std::uint32_t number, xdr::Decoder& in, xdr::Encoder& out,
                 nfs4::nfsstat4& status);
  std::optional<nfs4::nfsstat4> injected(nfs4::nfs_opnum4 op);
  nfs4::nfsstat4 start(std::uint32_t minor, const std::vector<nfs4::nfs_opnum4>& ops);

  Inode* current(Context& at) { return inodes.contains(at.current) ? &inodes.at(at.current) : nullptr; }
  nfs4::nfsstat4 check_directory(Context& at, Inode*& directory);
  Inode* child(Inode& directory, const std::string& name);
  void attach(Inode& directory, const std::string& name, std::uint64_t id);
  void detach(Inode& directory, const std::string& name);
  Inode& fresh(nfs4::nfs_ftype4 type);
  bool change(Inode& inode, const nfs4::fattr4& wanted);
  nfs4::WireAttributes attributes(const Inode& inode) const;
  nfs4::nfsstat4 check_state(const nfs4::stateid4& stateid, const Context& at);
  nfs4::stateid4 grant(Context& at, const nfs4::OPEN4args& args, Inode& inode);
  // nfs_server_callbacks.cpp
  [[nodiscard]] bool has_backchannel(nfs4::clientid4 client) const;
  void delegate(const Context& at, const nfs4::OPEN4args& args, const Inode& inode,
                nfs4::open_delegation4& out);
  [[nodiscard]] nfs4::nfsstat4 delegation_status(const nfs4::stateid4& stateid, nfs4::clientid4 client) const;
  // nfs_server_locks.cpp
  nfs4::LOCK4denied* conflict(std::uint64_t inode, const LockOwnerState& mine, const LockPiece& wanted,
                              nfs4::LOCK4denied& denied);
  void wake_waiters(std::uint64_t inode);
  nfs4::nfsstat4 find_lock_owner(const Context& at, const nfs4::LOCK4args& args, std::uint64_t& number);
  nfs4::nfsstat4 check_lock(const nfs4::stateid4& stateid, const Context& at);
  // nfs_server_v42.cpp
  static bool is_data(const Inode& inode, std::uint64_t offset);
  static std::uint64_t end_of_piece(const Inode& inode, std::uint64_t offset);
  nfs4::nfsstat4 check_two(Context& at, const nfs4::stateid4& from, const nfs4::stateid4& to);
  [[nodiscard]] nfs4::verifier4 write_verifier() const;
  [[nodiscard]] bool in_grace() const { return now_() < grace_until; }

  template <class Res>
  static nfs4::nfsstat4 plain(Res& res, nfs4::nfsstat4 status) {
    nfs4::set_status(res, status);
    return status;
  }

#define NFS_OP(NAME) \
  nfs4::nfsstat4 run(Context& at, nfs4::op::NAME, const nfs4::op::NAME::Args& args, nfs4::op::NAME::Res& res)
  NFS_OP(ACCESS);
  NFS_OP(CLOSE);
  NFS_OP(COMMIT);
  NFS_OP(CREATE);
  NFS_OP(GETATTR);
  NFS_OP(GETFH);
  NFS_OP(LINK);
  NFS_OP(LOOKUP);
  NFS_OP(OPEN);
  NFS_OP(PUTFH);
  NFS_OP(PUTROOTFH);
  NFS_OP(READ);
  NFS_OP(READDIR);
  NFS_OP(READLINK);
  NFS_OP(REMOVE);
  NFS_OP(RENAME);
  NFS_OP(SAVEFH);
  NFS_OP(SETATTR);
  NFS_OP(WRITE);
  NFS_OP(BIND_CONN_TO_SESSION);
  NFS_OP(EXCHANGE_ID);
  NFS_OP(CREATE_SESSION);
  NFS_OP(DESTROY_SESSION);
  NFS_OP(DESTROY_CLIENTID);
  NFS_OP(SEQUENCE);
  NFS_OP(RECLAIM_COMPLETE);
  NFS_OP(SEEK);
  NFS_OP(DELEGRETURN);
  NFS_OP(TEST_STATEID);
  NFS_OP(FREE_STATEID);
  NFS_OP(LOOKUPP);
  NFS_OP(RESTOREFH);
  NFS_OP(LOCK);
  NFS_OP(LOCKT);
  NFS_OP(LOCKU);
  NFS_OP(OPEN_DOWNGRADE);
  NFS_OP(ALLOCATE);
  NFS_OP(DEALLOCATE);
  NFS_OP(READ_PLUS);
  NFS_OP(COPY);
  NFS_OP(CLONE);
  NFS_OP(GETXATTR);
  NFS_OP(SETXATTR);
  NFS_OP(LISTXATTRS);
  NFS_OP(REMOVEXATTR);
#undef NFS_OP
};

}  // namespace nfsrdma::testing
