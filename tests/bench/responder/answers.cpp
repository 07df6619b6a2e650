#include "responder/answers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "responder/attributes.h"
#include "responder/coding.h"
#include "responder/version3.h"
#include "wire/nfs4/types.h"

namespace nfsrdma::bench {
namespace {

using namespace nfs4;
using xdr::ConstBytes;

constexpr std::uint32_t kMostSlots = 256;
constexpr std::uint32_t kAuthSys = 1;
constexpr std::uint32_t kMountProgram = 100005, kPortmapProgram = 100000;
constexpr std::uint32_t kProgramUnavailable = 1, kProcedureUnavailable = 3;
constexpr std::size_t kStateid = 16;

/// accept_stat and what is in front of it.
void put_reply_head(xdr::Encoder& out, std::uint32_t xid, std::uint32_t status = 0) {
  for (const std::uint32_t word : {xid, 1U, 0U, 0U, 0U, status}) out.u32(word);
}

Identity identity_of(ConstBytes credential) {
  Identity out;
  In in(credential);
  in.u32();
  in.opaque();
  out.uid = in.u32();
  out.gid = in.u32();
  return out;
}

}  // namespace

void set_data(Node& node, std::uint64_t offset, ConstBytes data) {
  if (!data.empty()) {
    std::byte* const to = node.memory->data() + offset;
    if (data.data() != to) std::memcpy(to, data.data(), data.size());
  }
  node.size.raise_to(offset + data.size());
  node.touch();
}

ConstBytes read_data(In& in, const Placed* placed) {
  if (placed == nullptr) return in.opaque();
  const std::uint32_t length = in.u32();
  const bool is_it = in.position() == placed->position && length == placed->data.size();
  return is_it ? placed->data : in.bytes(length);
}

std::size_t put_data(xdr::Encoder& out, Reply& reply, Node& node, const Access& access, std::uint64_t offset,
                     std::uint32_t count) {
  const std::uint64_t end = node.size;
  const std::uint64_t there = offset < end ? end - offset : 0;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>({count, there, kMostData}));
  if (size == 0) reply.empty.push_back(reply.message.items.size());
  out.eligible(size == 0 ? ConstBytes() : ConstBytes(node.memory->data() + offset, size));
  if (size != 0) reply.memories.push_back(node.memory_for(access));
  return size;
}

/// One COMPOUND.
class Answers::Compound {
 public:
  Compound(Answers& server, Access& access, In& in, const Placed* placed, Identity caller, Reply& reply)
      : server_(server),
        access_(access),
        in_(in),
        placed_(placed),
        caller_(caller),
        reply_(reply),
        out_(reply.message) {}

  void run() {
    const ConstBytes tag = in_.opaque();
    in_.u32();  // the minor version: what an operation says does not depend on it
    const std::uint32_t count = in_.u32();
    const std::size_t head = out_.position();
    out_.u32(0);
    out_.opaque(tag);
    const std::size_t count_at = out_.position();
    out_.u32(0);
    std::uint32_t status = NFS4_OK, done = 0;
    while (done < count && status == NFS4_OK) {
      const std::uint32_t operation = in_.u32();
      out_.u32(operation);
      const std::size_t status_at = out_.position();
      out_.u32(0);
      status = one(operation);
      if (!in_.ok()) status = NFS4ERR_BADXDR;
      set_u32(out_, status_at, status);
      ++done;
    }
    set_u32(out_, head, status);
    set_u32(out_, count_at, done);
  }

 private:
  std::uint32_t one(std::uint32_t operation);
  std::uint32_t exchange_id();
  std::uint32_t create_session();
  std::uint32_t sequence();
  std::uint32_t open();
  void put_delegation(std::uint32_t access);
  std::uint32_t create();
  std::uint32_t read_directory();
  std::uint32_t read();
  std::uint32_t write();

  std::uint32_t look_up(std::string_view name) {
    if (node_ == nullptr) return NFS4ERR_NOFILEHANDLE;
    if (!node_->is_directory) return NFS4ERR_NOTDIR;
    Node* const found = server_.tree_.look_up(*node_, name);
    if (found == nullptr) return NFS4ERR_NOENT;
    node_ = found;
    return NFS4_OK;
  }
  /// Called before the COMPOUND changes the tree. Returns false if another thread has removed the current node.
  bool exclude_others() {
    if (access_.excludes_others()) return true;
    const NodeId here = node_ != nullptr ? node_->id : 0;
    const NodeId saved = saved_ != nullptr ? saved_->id : 0;
    access_.exclude_others();
    node_ = server_.tree_.find(here);
    saved_ = server_.tree_.find(saved);
    return node_ != nullptr;
  }
  std::uint32_t go_to(NodeId id) {
    node_ = server_.tree_.find(id);
    return node_ != nullptr ? NFS4_OK : NFS4ERR_STALE;
  }
  void put_change(const Node& directory, std::uint64_t before) {
    out_.u32(1);
    out_.u64(before);
    out_.u64(directory.change);
  }
  void put_stateid(std::uint32_t number) {
    out_.u32(number);
    out_.u32(0);
    out_.u64(server_.next_number());
  }
  void put_verifier() { out_.u64(server_.boot_); }

  Answers& server_;
  Access& access_;
  In& in_;
  const Placed* const placed_;
  const Identity caller_;
  Reply& reply_;
  xdr::Encoder out_;
  Node* node_ = nullptr;  // the current filehandle's
  Node* saved_ = nullptr;
};

std::uint32_t Answers::Compound::one(std::uint32_t operation) {
  switch (operation) {
    case OP_SEQUENCE:
      return sequence();
    case OP_PUTROOTFH:
    case OP_PUTPUBFH:
      return go_to(Tree::kRoot);
    case OP_PUTFH:
      return go_to(in_.handle());
    case OP_SAVEFH:
      saved_ = node_;
      return NFS4_OK;
    case OP_RESTOREFH:
      node_ = saved_;
      return NFS4_OK;
    case OP_EXCHANGE_ID:
      return exchange_id();
    case OP_CREATE_SESSION:
      return create_session();
    case OP_RECLAIM_COMPLETE:
      in_.u32();
      return NFS4_OK;
    case OP_DESTROY_SESSION:
      in_.bytes(NFS4_SESSIONID_SIZE);
      return NFS4_OK;
    case OP_DESTROY_CLIENTID:
    case OP_RENEW:
      in_.u64();
      return NFS4_OK;
    case OP_BIND_CONN_TO_SESSION: {
      const ConstBytes session = in_.bytes(NFS4_SESSIONID_SIZE);
      const std::uint32_t channels = in_.u32();
      in_.u32();
      out_.fixed(session);
      out_.u32(channels == CDFC4_FORE || !server_.delegates_ ? CDFS4_FORE : CDFS4_BOTH);
      out_.u32(0);
      return NFS4_OK;
    }
    case OP_SETCLIENTID:
      in_.bytes(NFS4_VERIFIER_SIZE);
      in_.opaque();
      in_.u32();
      in_.opaque();
      in_.opaque();
      in_.u32();
      out_.u64(server_.boot_ + server_.next_number());
      put_verifier();
      return NFS4_OK;
    case OP_SETCLIENTID_CONFIRM:
      in_.u64();
      in_.bytes(NFS4_VERIFIER_SIZE);
      return NFS4_OK;
    case OP_FREE_STATEID:
    case OP_DELEGRETURN:
      in_.bytes(kStateid);
      return NFS4_OK;
    case OP_SECINFO_NO_NAME:
    case OP_SECINFO:
      if (operation == OP_SECINFO) {
        const std::uint32_t found = look_up(in_.text());
        if (found != NFS4_OK) return found;
      } else {
        in_.u32();
      }
      out_.u32(1);
      out_.u32(kAuthSys);
      node_ = nullptr;  // RFC 8881 2.6.3.1.1.8
      return NFS4_OK;
    default:
      break;
  }
  if (node_ == nullptr) return NFS4ERR_NOFILEHANDLE;
  switch (operation) {
    case OP_GETFH:
      put_handle(out_, node_->id);
      return NFS4_OK;
    case OP_GETATTR:
      put_attributes(out_, read_bitmap(in_), *node_);
      return NFS4_OK;
    case OP_SETATTR: {
      if (!exclude_others()) return NFS4ERR_STALE;
      in_.bytes(kStateid);
      Wanted taken;
      const bool done = take_attributes(in_, node_, taken);
      put_bitmap(out_, taken);
      return done ? NFS4_OK : NFS4ERR_ATTRNOTSUPP;
    }
    case OP_ACCESS: {
      const std::uint32_t asked = in_.u32();
      out_.u32(asked);
      out_.u32(asked);
      return NFS4_OK;
    }
    case OP_LOOKUP:
      return look_up(in_.text());
    case OP_LOOKUPP:
      if (node_->id == Tree::kRoot) return NFS4ERR_NOENT;
      return go_to(node_->parent);
    case OP_OPEN:
      return open();
    case OP_OPEN_CONFIRM:
    case OP_OPEN_DOWNGRADE:
    case OP_CLOSE: {
      ConstBytes stateid;
      if (operation == OP_CLOSE) in_.u32();
      stateid = in_.bytes(kStateid);
      if (operation != OP_CLOSE) in_.u32();
      if (operation == OP_OPEN_DOWNGRADE) in_.u64();
      if (!in_.ok()) return NFS4ERR_BADXDR;
      out_.u32(xdr::load_u32(stateid.data()) + 1);
      out_.fixed(stateid.subspan(4));
      return NFS4_OK;
    }
    case OP_READ:
      return read();
    case OP_WRITE:
      return write();
    case OP_COMMIT:
      in_.u64();
      in_.u32();
      put_verifier();
      return NFS4_OK;
    case OP_CREATE:
      return create();
    case OP_REMOVE: {
      if (!exclude_others()) return NFS4ERR_STALE;
      const std::string_view name = in_.text();
      const std::uint64_t before = node_->change;
      if (server_.tree_.look_up(*node_, name) == nullptr) return NFS4ERR_NOENT;
      if (!server_.tree_.remove(*node_, name)) return NFS4ERR_NOTEMPTY;
      put_change(*node_, before);
      return NFS4_OK;
    }
    case OP_RENAME: {
      if (!exclude_others()) return NFS4ERR_STALE;
      const std::string_view from = in_.text(), to = in_.text();
      if (saved_ == nullptr) return NFS4ERR_NOFILEHANDLE;
      const std::uint64_t before_there = saved_->change, before_here = node_->change;
      if (!server_.tree_.rename(*saved_, from, *node_, to)) return NFS4ERR_NOENT;
      put_change(*saved_, before_there);
      put_change(*node_, before_here);
      return NFS4_OK;
    }
    case OP_READDIR:
      return read_directory();
    default:
      return NFS4ERR_NOTSUPP;
  }
}

std::uint32_t Answers::Compound::exchange_id() {
  in_.bytes(NFS4_VERIFIER_SIZE);
  in_.opaque();
  in_.u32();
  // SP4_NONE is what it gives, whatever was asked for; what else stands there is the last of this COMPOUND.
  out_.u64(server_.boot_ + server_.next_number());
  out_.u32(1);
  out_.u32(EXCHGID4_FLAG_USE_NON_PNFS);
  out_.u32(0);
  out_.u64(0);
  put_text(out_, "responder");
  put_text(out_, "responder");
  out_.u32(0);
  const std::uint32_t protection = in_.u32();
  if (protection != 0) return NFS4ERR_NOTSUPP;
  const std::uint32_t implementations = in_.u32();
  for (std::uint32_t i = 0; i < implementations && in_.ok(); ++i) {
    in_.opaque();
    in_.opaque();
    in_.u64();
    in_.u32();
  }
  return NFS4_OK;
}

std::uint32_t Answers::Compound::create_session() {
  const std::uint64_t client = in_.u64();
  const std::uint32_t number = in_.u32();
  const std::uint32_t flags = in_.u32();
  out_.u64(client);
  out_.u64(server_.boot_);
  out_.u32(number);
  // Nothing outlives a restart, and nobody is ever called.
  out_.u32(server_.delegates_ ? flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN : 0);
  for (int channel = 0; channel < 2; ++channel) {
    for (int i = 0; i < 5; ++i) out_.u32(in_.u32());
    out_.u32(std::min(in_.u32(), kMostSlots));
    for (std::uint32_t words = in_.u32(); words > 0 && in_.ok(); --words) in_.u32();
    out_.u32(0);
  }
  in_.u32();
  for (std::uint32_t left = in_.u32(); left > 0 && in_.ok(); --left) {
    const std::uint32_t flavor = in_.u32();
    if (flavor == 0) continue;
    if (flavor != kAuthSys) return NFS4ERR_ENCR_ALG_UNSUPP;
    in_.u32();
    in_.opaque();
    in_.u64();
    for (std::uint32_t groups = in_.u32(); groups > 0 && in_.ok(); --groups) in_.u32();
  }
  return NFS4_OK;
}

std::uint32_t Answers::Compound::sequence() {
  const ConstBytes session = in_.bytes(NFS4_SESSIONID_SIZE);
  const std::uint32_t number = in_.u32(), slot = in_.u32();
  in_.u32();
  in_.u32();
  if (!in_.ok()) return NFS4ERR_BADXDR;
  if (xdr::load_u64(session.data() + 8) != server_.boot_) return NFS4ERR_BADSESSION;
  out_.fixed(session);
  for (const std::uint32_t word : {number, slot, kMostSlots - 1, kMostSlots - 1, 0U}) out_.u32(word);
  return NFS4_OK;
}

std::uint32_t Answers::Compound::open() {
  enum : std::uint32_t { kUnchecked, kGuarded, kExclusive, kExclusive41 };
  enum : std::uint32_t { kByName = 0, kByHandle = 4 };
  in_.u32();
  const std::uint32_t access = in_.u32();
  in_.u32();
  in_.u64();
  in_.opaque();
  const bool creates = in_.u32() == 1;
  if (creates && !exclude_others()) return NFS4ERR_STALE;
  Node& directory = *node_;
  const std::uint32_t how = creates ? in_.u32() : kUnchecked;
  if (how == kExclusive || how == kExclusive41) in_.u64();
  // What is to be set is known before what it is to be set on.
  const In attributes = in_;
  Wanted taken;
  if (creates && how != kExclusive && !take_attributes(in_, nullptr, taken)) return NFS4ERR_ATTRNOTSUPP;
  const std::uint32_t claim = in_.u32();
  const std::uint64_t before = directory.change;
  taken = {};
  if (claim == kByName) {
    const std::string_view name = in_.text();
    if (!directory.is_directory) return NFS4ERR_NOTDIR;
    Node* found = server_.tree_.look_up(directory, name);
    if (found == nullptr && !creates) return NFS4ERR_NOENT;
    if (found != nullptr && creates && how == kGuarded) return NFS4ERR_EXIST;
    if (found == nullptr) {
      found = &server_.tree_.make(directory, name, false);
      found->uid = caller_.uid;
      found->gid = caller_.gid;
      In again = attributes;
      if (how != kExclusive) (void)take_attributes(again, found, taken);
    } else if (creates && how == kUnchecked) {
      In again = attributes;
      (void)take_attributes(again, found, taken);
    }
    node_ = found;
  } else if (claim != kByHandle) {
    return NFS4ERR_NOTSUPP;
  }
  if (node_->is_directory) return NFS4ERR_ISDIR;
  put_stateid(1);
  put_change(directory, before);
  out_.u32(OPEN4_RESULT_LOCKTYPE_POSIX);
  put_bitmap(out_, taken);
  put_delegation(access);
  return NFS4_OK;
}

/// What the client would like to have.
void Answers::Compound::put_delegation(std::uint32_t access) {
  const std::uint32_t wanted = access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
  const bool writes = wanted == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;
  if (!server_.delegates_ || (!writes && wanted != OPEN4_SHARE_ACCESS_WANT_READ_DELEG))
    return out_.u32(OPEN_DELEGATE_NONE);
  out_.u32(writes ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ);
  put_stateid(1);
  out_.u32(0);  // not recalled
  if (writes) {
    out_.u32(NFS_LIMIT_SIZE);
    out_.u64(std::numeric_limits<std::uint64_t>::max());
  }
  for (int i = 0; i < 3; ++i) out_.u32(0);
  put_text(out_, "");
}

std::uint32_t Answers::Compound::create() {
  constexpr std::uint32_t kDirectory = 2;
  if (!exclude_others()) return NFS4ERR_STALE;
  if (in_.u32() != kDirectory) return NFS4ERR_NOTSUPP;
  const std::string_view name = in_.text();
  if (!node_->is_directory) return NFS4ERR_NOTDIR;
  if (server_.tree_.look_up(*node_, name) != nullptr) return NFS4ERR_EXIST;
  Node& directory = *node_;
  const std::uint64_t before = directory.change;
  node_ = &server_.tree_.make(directory, name, true);
  node_->uid = caller_.uid;
  node_->gid = caller_.gid;
  Wanted taken;
  (void)take_attributes(in_, node_, taken);
  put_change(directory, before);
  put_bitmap(out_, taken);
  return NFS4_OK;
}

std::uint32_t Answers::Compound::read() {
  in_.bytes(kStateid);
  const std::uint64_t offset = in_.u64();
  const std::uint32_t count = in_.u32();
  if (node_->is_directory) return NFS4ERR_ISDIR;
  const std::size_t eof_at = out_.position();
  out_.u32(0);
  const std::size_t size = put_data(out_, reply_, *node_, access_, offset, count);
  set_u32(out_, eof_at, offset + size >= node_->size ? 1 : 0);
  return NFS4_OK;
}

std::uint32_t Answers::Compound::write() {
  in_.bytes(kStateid);
  const std::uint64_t offset = in_.u64();
  const std::uint32_t stable = in_.u32();
  const ConstBytes data = read_data(in_, placed_);
  if (!in_.ok()) return NFS4ERR_BADXDR;
  if (node_->is_directory) return NFS4ERR_ISDIR;
  const std::uint64_t end = offset + data.size();
  if (!node_->has_room(end)) {
    if (!exclude_others()) return NFS4ERR_STALE;
    if (!node_->reach(end)) return NFS4ERR_FBIG;
  }
  set_data(*node_, offset, data);
  out_.u32(static_cast<std::uint32_t>(data.size()));
  out_.u32(stable);
  put_verifier();
  return NFS4_OK;
}

std::uint32_t Answers::Compound::read_directory() {
  const std::uint64_t cookie = in_.u64();
  in_.u64();
  in_.u32();
  const std::uint32_t most = std::min(in_.u32(), kMostData);
  const Wanted wanted = read_bitmap(in_);
  if (!node_->is_directory) return NFS4ERR_NOTDIR;
  constexpr std::size_t kEnd = 8;  // no further entry, and whether it is the end
  const std::size_t begin = out_.position();
  put_verifier();
  bool ends = true;
  xdr::Message entry;
  for (auto at = node_->entries.upper_bound(cookie); at != node_->entries.end(); ++at) {
    const Node* const node = server_.tree_.find(at->second.second);
    entry.clear();
    xdr::Encoder one(entry);
    one.u32(1);
    one.u64(at->first);
    put_text(one, at->second.first);
    put_attributes(one, wanted, *node);
    ends = out_.position() - begin + one.position() + kEnd <= most;
    if (!ends) break;
    out_.fixed(entry.stream.bytes());
  }
  if (!ends && out_.position() == begin + 8) return NFS4ERR_TOOSMALL;
  out_.u32(0);
  out_.u32(ends ? 1 : 0);
  return NFS4_OK;
}

Answers::Answers(const Server& server, unsigned thread)
    : tree_(server.tree), delegates_(server.delegates), boot_(server.boot), thread_(thread), given_(thread) {}

std::optional<Place> Answers::place_of(ConstBytes call, std::size_t position, std::size_t length) {
  In in(call);
  in.bytes(12);
  in.u32();
  const std::uint32_t version = in.u32(), procedure = in.u32();
  for (int i = 0; i < 2; ++i) {
    in.u32();
    in.opaque();
  }
  Access access(tree_.lock(), thread_);
  Node* node = nullptr;
  std::uint64_t offset = 0;
  if (version == 3 && procedure == Version3::kWrite) {
    node = tree_.find(in.handle());
    offset = in.u64();
    in.u64();
    in.u32();
  } else if (version == 4) {
    in.opaque();
    in.u32();
    in.u32();
    std::uint32_t operation = in.u32();
    if (operation == OP_SEQUENCE) {
      in.bytes(NFS4_SESSIONID_SIZE + 4 * 4);
      operation = in.u32();
    }
    if (operation != OP_PUTFH) return std::nullopt;
    node = tree_.find(in.handle());
    if (in.u32() != OP_WRITE) return std::nullopt;
    in.bytes(kStateid);
    offset = in.u64();
    in.u64();
  }
  const bool is_there = in.ok() && in.position() == position && node != nullptr && !node->is_directory;
  if (!is_there || length == 0) return std::nullopt;
  if (!node->has_room(offset + length)) {
    const NodeId id = node->id;
    access.exclude_others();
    node = tree_.find(id);
    if (node == nullptr || !node->reach(offset + length)) return std::nullopt;
  }
  return Place{node->memory_for(access), {node->memory->data() + offset, length}};
}

bool Answers::answer(ConstBytes call, const Placed* placed, Reply& reply) {
  ++calls_;
  In in(call);
  xdr::Encoder out(reply.message);
  const std::uint32_t xid = in.u32();
  if (in.u32() != 0 || in.u32() != 2) return false;
  const std::uint32_t program = in.u32(), version = in.u32(), procedure = in.u32();
  const std::uint32_t flavor = in.u32();
  const ConstBytes credential = in.opaque();
  in.u32();
  in.opaque();
  if (!in.ok()) return false;
  const Identity caller = flavor == kAuthSys ? identity_of(credential) : Identity();
  const bool is_nfs = program == NFS4_PROGRAM && (version == 3 || version == 4);
  if (!is_nfs && program != kMountProgram && program != kPortmapProgram) {
    put_reply_head(out, xid, kProgramUnavailable);
    return true;
  }
  put_reply_head(out, xid);
  if (procedure == 0) return true;
  Access access(tree_.lock(), thread_);
  if (is_nfs && version == 4) {
    Compound(*this, access, in, placed, caller, reply).run();
    return true;
  }
  Version3 three(tree_, boot_, access, in, placed, caller, reply);
  const bool known = program == kMountProgram     ? three.mount(procedure)
                     : program == kPortmapProgram ? false
                                                  : three.run(procedure);
  if (!known) {
    reply.clear();
    put_reply_head(out, xid, kProcedureUnavailable);
  }
  return true;
}

}  // namespace nfsrdma::bench
