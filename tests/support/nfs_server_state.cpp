#include "support/nfs_server_state.h"

#include <algorithm>
#include <cstring>

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using xdr::Encoder;

constexpr std::uint64_t kRoot = 1;

xdr::ConstBytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(xdr::ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> names_of(const std::string& path) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) names.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  return names;
}

template <std::size_t N>
std::array<std::byte, N> numbered(std::uint64_t high, std::uint64_t low) {
  std::array<std::byte, N> out{};
  xdr::store_u32(out.data(), static_cast<std::uint32_t>(high));
  xdr::store_u64(out.data() + 4, low);
  return out;
}

change_info4 changed(const Inode& inode) {
  return {true, inode.change - 1, inode.change};
}

/// Calls f with the struct of operation `number`; false for one that this server does not have.
template <class F>
bool with_op(std::uint32_t number, F f) {
  switch (number) {
#define NFS_OP(NAME) \
  case OP_##NAME:    \
    return f(op::NAME{})
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
    default:
      return false;
  }
}

}  // namespace

nfs_fh4 handle_of(std::uint64_t inode) {
  nfs_fh4 handle;
  handle.length = 12;
  xdr::store_u32(handle.bytes.data(), 0x66683031);
  xdr::store_u64(handle.bytes.data() + 4, inode);
  return handle;
}

stateid4 ServerState::stateid_of(std::uint64_t number, std::uint32_t seqid) const {
  return {seqid, numbered<12>(boot, number)};
}

bool SeenCall::has(nfs_opnum4 wanted) const {
  return std::ranges::find(ops, wanted) != ops.end();
}

ServerState::ServerState(Now now) : now_(std::move(now)) {
  next_id = kRoot;
  Inode& root = fresh(NF4DIR);
  root.mode = 0755;
}

// ---- the file system ----

Inode& ServerState::fresh(nfs_ftype4 type) {
  Inode& inode = inodes[next_id];
  inode.id = next_id++;
  inode.type = type;
  if (type == NF4DIR) inode.mode = 0755;
  return inode;
}

Inode* ServerState::child(Inode& directory, const std::string& name) {
  const auto found = directory.cookies.find(name);
  return found == directory.cookies.end() ? nullptr : &inodes.at(directory.entries.at(found->second).second);
}

void ServerState::attach(Inode& directory, const std::string& name, std::uint64_t id) {
  const std::uint64_t cookie = directory.next_cookie++;
  directory.cookies[name] = cookie;
  directory.entries[cookie] = {name, id};
  ++directory.change;
}

void ServerState::detach(Inode& directory, const std::string& name) {
  const auto found = directory.cookies.find(name);
  if (found == directory.cookies.end()) return;
  directory.entries.erase(found->second);
  directory.cookies.erase(found);
  ++directory.change;
}

Inode* ServerState::find(const std::string& path) {
  Inode* at = &inodes.at(kRoot);
  for (const std::string& name : names_of(path)) {
    at = child(*at, name);
    if (at == nullptr) return nullptr;
  }
  return at;
}

Inode& ServerState::make(const std::string& path, nfs_ftype4 type) {
  Inode* at = &inodes.at(kRoot);
  const auto names = names_of(path);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Inode* next = child(*at, names[i]);
    if (next == nullptr) {
      const std::uint64_t directory = at->id;
      const std::uint64_t made = fresh(i + 1 == names.size() ? type : NF4DIR).id;
      attach(inodes.at(directory), names[i], made);
      next = &inodes.at(made);
    }
    at = next;
  }
  return *at;
}

void ServerState::restart(Instant::duration grace) {
  ++boot;
  clients.clear();
  sessions.clear();
  opens.clear();
  delegations.clear();
  std::erase_if(locks, [](const auto& entry) { return entry.second.client != 0; });
  waiting.clear();
  for (auto& [id, inode] : inodes) {
    if (inode.type == NF4REG) inode.data = inode.stable;
  }
  grace_until = now_() + grace;
}

verifier4 ServerState::write_verifier() const {
  verifier4 verifier{};
  xdr::store_u64(verifier.data(), 0xab00 + boot);
  return verifier;
}

bool ServerState::change(Inode& inode, const fattr4& wanted) {
  WireChanges changes;
  if (!decode_changes(wanted, changes)) return false;
  if (changes.size) {
    inode.data.resize(*changes.size);
    inode.stable = inode.data;
  }
  if (changes.mode) inode.mode = *changes.mode;
  if (changes.owner) inode.owner = changes.owner->value;
  if (changes.owner_group) inode.group = changes.owner_group->value;
  const auto set_time = [](const std::optional<settime4>& from, nfstime4& to) {
    if (!from) return;
    const nfstime4* given = from->get<SET_TO_CLIENT_TIME4>();
    to = given != nullptr ? *given : nfstime4{2000, 3};
  };
  set_time(changes.time_access_set, inode.accessed);
  set_time(changes.time_modify_set, inode.modified);
  ++inode.change;
  return true;
}

WireAttributes ServerState::attributes(const Inode& inode) const {
  WireAttributes out;
  out.type = inode.type;
  out.change = inode.change;
  out.size = inode.data.size();
  out.fsid = fsid4{7, 8};
  out.lease_time = lease;
  out.rdattr_error = NFS4_OK;
  out.filehandle = handle_of(inode.id);
  out.fileid = inode.id;
  out.xattr_support = true;
  out.maxread = 1U << 20;
  out.maxwrite = 1U << 20;
  out.mode = inode.mode;
  out.numlinks = inode.links;
  out.owner = principal4{inode.owner};
  out.owner_group = principal4{inode.group};
  out.rawdev = specdata4{};
  out.space_used = inode.data.size();
  out.space_total = 1'000'000;
  out.space_free = 600'000;
  out.space_avail = 500'000;
  out.files_total = 1000;
  out.files_free = 900;
  out.files_avail = 800;
  out.time_access = inode.accessed;
  out.time_metadata = inode.modified;
  out.time_modify = inode.modified;
  return out;
}

// ---- one COMPOUND ----

std::optional<nfsstat4> ServerState::injected(nfs_opnum4 op) {
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (rule->op != op) continue;
    if (rule->skip > 0) {
      --rule->skip;
      return std::nullopt;
    }
    const nfsstat4 status = rule->status;
    if (--rule->times == 0) rules.erase(rule);
    return status;
  }
  return std::nullopt;
}

template <class Op>
bool ServerState::one(Context& at, xdr::Decoder& in, Encoder& out, nfsstat4& status) {
  typename Op::Args args{};
  if (!xdr::decode(in, args)) return false;
  typename Op::Res res{};
  ++seen_ops[Op::number];
  if (const auto forced = injected(Op::number)) {
    status = plain(res, *forced);
  } else {
    status = run(at, Op{}, args, res);
    if (status == NFS4_OK) ++good_ops[Op::number];
  }
  if (at.replay) return true;
  out.u32(Op::number);
  xdr::encode(out, res);
  return true;
}

bool ServerState::operation(Context& at, std::uint32_t number, xdr::Decoder& in, Encoder& out,
                            nfsstat4& status) {
  bool decoded = true;
  const bool known = with_op(number, [&](auto op) {
    decoded = one<decltype(op)>(at, in, out, status);
    return true;
  });
  if (known) return decoded;
  out.u32(OP_ILLEGAL);
  status = NFS4ERR_OP_ILLEGAL;
  xdr::encode(out, status);
  return true;
}

/// RFC 8881 2.10.2.2: what may stand first, and what needs a session.
nfsstat4 ServerState::start(std::uint32_t minor, const std::vector<nfs_opnum4>& ops) {
  if (minor == 0 || minor > newest_minor) return NFS4ERR_MINOR_VERS_MISMATCH;
  if (ops.empty()) return NFS4_OK;
  switch (ops.front()) {
    case OP_SEQUENCE:
      return NFS4_OK;
    case OP_EXCHANGE_ID:
    case OP_CREATE_SESSION:
    case OP_BIND_CONN_TO_SESSION:
    case OP_DESTROY_SESSION:
    case OP_DESTROY_CLIENTID:
      if (ops.size() > 1) problem("an operation without SEQUENCE is not alone");
      return NFS4_OK;
    default:
      problem("a COMPOUND without SEQUENCE");
      return NFS4ERR_OP_NOT_IN_SESSION;
  }
}

std::string ServerState::look(xdr::Decoder in, SeenCall& seen) {
  xdr::ConstBytes tag;
  std::uint32_t count = 0;
  if (!in.opaque(1024, tag) || !in.u32(seen.minor) || !in.u32(count)) return "a COMPOUND that is none";
  seen.ops.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t number = 0;
    if (!in.u32(number)) return "a COMPOUND that is cut short";
    seen.ops.push_back(static_cast<nfs_opnum4>(number));
    const bool known = with_op(number, [&](auto op) {
      typename decltype(op)::Args args{};
      const bool good = xdr::decode(in, args);
      if constexpr (std::is_same_v<decltype(op), op::SEQUENCE>) seen.sequence = args;
      return good;
    });
    if (!known && in.ok()) return "";  // not known here: decoding ends
    if (!known) return "arguments that cannot be decoded: " + std::string(operation_name(number));
  }
  return in.remaining() == 0 ? "" : "bytes after the last operation";
}

std::unique_ptr<Answer> ServerState::compound(xdr::Decoder& in, std::size_t request_size, SeenCall& seen) {
  const xdr::Decoder whole = in;
  xdr::ConstBytes tag;
  std::uint32_t count = 0;
  if (!in.opaque(1024, tag) || !in.u32(seen.minor) || !in.u32(count) || count > 1000) return nullptr;
  if (const std::string wrong = look(whole, seen); !wrong.empty()) {
    problem(wrong);
    return nullptr;
  }
  auto answer = std::make_unique<Answer>();
  Context at;
  at.answer = answer.get();
  at.minor = seen.minor;
  at.connection = seen.connection;
  Encoder out(answer->message);
  nfsstat4 status = start(seen.minor, seen.ops);
  out.u32(0);
  out.opaque(tag);
  const std::size_t count_at = out.position();
  out.u32(0);
  std::uint32_t done = 0;
  for (; status == NFS4_OK && done < count; ++done) {
    std::uint32_t number = 0;
    if (!in.u32(number) || !operation(at, number, in, out, status)) return nullptr;
    if (at.replay) {
      auto again = std::make_unique<Answer>();
      Encoder(again->message).fixed(at.slot->reply);
      again->replayed = true;
      return again;
    }
    if (at.session != nullptr) {
      if (request_size > at.session->fore.ca_maxrequestsize) problem("a request over ca_maxrequestsize");
      if (seen.ops.size() > at.session->fore.ca_maxoperations) problem("more than ca_maxoperations");
    }
  }
  xdr::store_u32(answer->message.stream.data(), status);
  xdr::store_u32(answer->message.stream.data() + count_at, done);
  if (at.slot != nullptr && seen.sequence.sa_cachethis) {
    // The whole of it, items put back: a replay needs no chunk that the first answer had.
    at.slot->cached = true;
    at.slot->reply.clear();
    std::size_t from = 0;
    const auto append = [&](xdr::ConstBytes bytes) {
      at.slot->reply.insert(at.slot->reply.end(), bytes.begin(), bytes.end());
    };
    for (const xdr::Item& item : answer->message.items) {
      append(answer->message.stream.bytes().subspan(from, item.stream_offset - from));
      append(item.data);
      at.slot->reply.resize(at.slot->reply.size() + xdr::padding(item.data.size()));
      from = item.stream_offset;
    }
    append(answer->message.stream.bytes().subspan(from));
  }
  return answer;
}

// ---- clients and sessions ----

nfsstat4 ServerState::run(Context&, op::EXCHANGE_ID, const EXCHANGE_ID4args& args, EXCHANGE_ID4res& res) {
  last_exchange_id = args;
  // Of a client that has started again there may be two until its new life is confirmed.
  const auto same = std::ranges::find_if(clients, [&](const auto& c) {
    return c.second.owner == args.eia_clientowner.co_ownerid.value &&
           c.second.verifier == args.eia_clientowner.co_verifier;
  });
  bool confirmed = false;
  clientid4 id = 0;
  if (same != clients.end()) {
    id = same->first;
    confirmed = same->second.confirmed;
  } else {
    id = (boot << 32) + next_id++;
    clients[id] = {
        args.eia_clientowner.co_ownerid.value, args.eia_clientowner.co_verifier, false, false, 1, {}};
  }
  EXCHANGE_ID4resok& ok = res.emplace<NFS4_OK>();
  ok.eir_clientid = id;
  ok.eir_sequenceid = confirmed && no_sequence_hint ? 0xdead : clients[id].sequence;
  ok.eir_flags = EXCHGID4_FLAG_USE_NON_PNFS | (confirmed ? EXCHGID4_FLAG_CONFIRMED_R : 0);
  const std::string owner = "test server";
  ok.eir_server_owner.so_major_id.value.assign(bytes_of(owner).begin(), bytes_of(owner).end());
  ok.eir_server_scope.value = ok.eir_server_owner.so_major_id.value;
  nfs_impl_id4 implementation;
  implementation.nii_domain.value = "example.org";
  implementation.nii_name.value = "in memory";
  implementation.nii_date = {1234, 0};
  ok.eir_server_impl_id.value.push_back(implementation);
  return NFS4_OK;
}

/// RFC 8881 18.36.3, phase 4: what the owner had before it started again goes with its first session.
void ServerState::drop_former_lives(clientid4 now) {
  std::set<clientid4> former;
  for (const auto& [id, client] : clients) {
    if (id != now && client.owner == clients.at(now).owner) former.insert(id);
  }
  const auto is_theirs = [&](const auto& entry) { return former.contains(entry.second.client); };
  std::erase_if(sessions, is_theirs);
  std::erase_if(opens, is_theirs);
  std::erase_if(delegations, is_theirs);
  std::erase_if(locks, is_theirs);
  std::erase_if(waiting, [&](const LockOwnerState& one) { return former.contains(one.client); });
  for (const clientid4 id : former) clients.erase(id);
}

nfsstat4 ServerState::run(Context& at, op::CREATE_SESSION, const CREATE_SESSION4args& args,
                          CREATE_SESSION4res& res) {
  last_create_session = args;
  const auto found = clients.find(args.csa_clientid);
  if (found == clients.end()) return plain(res, NFS4ERR_STALE_CLIENTID);
  ClientState& client = found->second;
  if (client.last_created && args.csa_sequence + 1 == client.sequence) {
    res.emplace<NFS4_OK>() = *client.last_created;
    return NFS4_OK;
  }
  if (args.csa_sequence != client.sequence) return plain(res, NFS4ERR_SEQ_MISORDERED);
  client.confirmed = true;
  ++client.sequence;
  drop_former_lives(found->first);
  CREATE_SESSION4resok ok;
  ok.csr_sessionid = numbered<16>(boot, next_id++);
  ok.csr_sequence = args.csa_sequence;
  ok.csr_fore_chan_attrs = args.csa_fore_chan_attrs;
  channel_attrs4& fore = ok.csr_fore_chan_attrs;
  fore.ca_maxrequestsize = std::min(fore.ca_maxrequestsize, max_request);
  fore.ca_maxresponsesize = std::min(fore.ca_maxresponsesize, max_response);
  fore.ca_maxoperations = std::min(fore.ca_maxoperations, max_operations);
  fore.ca_maxrequests = std::min(fore.ca_maxrequests, slots);
  ok.csr_back_chan_attrs = args.csa_back_chan_attrs;
  SessionState& session = sessions[ok.csr_sessionid];
  session.client = args.csa_clientid;
  session.slots.resize(fore.ca_maxrequests);
  session.fore = fore;
  session.minor = at.minor;
  session.callback_program = args.csa_cb_program;
  if (backchannel) ok.csr_flags = args.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  if (ok.csr_flags != 0) session.backchannels.insert(at.connection);
  client.last_created = ok;
  res.emplace<NFS4_OK>() = ok;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context&, op::DESTROY_SESSION, const DESTROY_SESSION4args& args,
                          DESTROY_SESSION4res& res) {
  return plain(res, sessions.erase(args.dsa_sessionid) != 0 ? NFS4_OK : NFS4ERR_BADSESSION);
}

nfsstat4 ServerState::run(Context& at, op::BIND_CONN_TO_SESSION, const BIND_CONN_TO_SESSION4args& args,
                          BIND_CONN_TO_SESSION4res& res) {
  const auto found = sessions.find(args.bctsa_sessid);
  if (found == sessions.end()) return plain(res, NFS4ERR_BADSESSION);
  if (args.bctsa_dir != CDFC4_FORE) found->second.backchannels.insert(at.connection);
  auto& ok = res.emplace<NFS4_OK>();
  ok.bctsr_sessid = args.bctsa_sessid;
  ok.bctsr_dir = args.bctsa_dir == CDFC4_FORE ? CDFS4_FORE : CDFS4_BOTH;
  return NFS4_OK;
}

/// RFC 8881 18.50.3: not while there are sessions, open state or delegations.
nfsstat4 ServerState::run(Context&, op::DESTROY_CLIENTID, const DESTROY_CLIENTID4args& args,
                          DESTROY_CLIENTID4res& res) {
  if (!clients.contains(args.dca_clientid)) return plain(res, NFS4ERR_STALE_CLIENTID);
  const auto is_its = [&](const auto& entry) { return entry.second.client == args.dca_clientid; };
  if (std::ranges::any_of(sessions, is_its) || std::ranges::any_of(opens, is_its)) {
    return plain(res, NFS4ERR_CLIENTID_BUSY);
  }
  const auto holds = [&](const auto& entry) { return is_its(entry) && !entry.second.revoked; };
  if (std::ranges::any_of(delegations, holds)) {
    problem("delegations are out when their client goes");
    return plain(res, NFS4ERR_CLIENTID_BUSY);
  }
  clients.erase(args.dca_clientid);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::SEQUENCE, const SEQUENCE4args& args, SEQUENCE4res& res) {
  const auto found = sessions.find(args.sa_sessionid);
  if (found == sessions.end()) return plain(res, NFS4ERR_BADSESSION);
  SessionState& session = found->second;
  if (args.sa_slotid >= session.slots.size()) {
    problem("a slot that was not granted");
    return plain(res, NFS4ERR_BADSLOT);
  }
  if (args.sa_highest_slotid < args.sa_slotid) problem("sa_highest_slotid below sa_slotid");
  Slot& slot = session.slots[args.sa_slotid];
  if (args.sa_sequenceid == slot.sequence && slot.sequence != 0) {
    if (!slot.cached) return plain(res, NFS4ERR_RETRY_UNCACHED_REP);
    at.slot = &slot;
    at.replay = true;
    return NFS4_OK;
  }
  if (args.sa_sequenceid != slot.sequence + 1) {
    problem("a sequence id out of order");
    return plain(res, NFS4ERR_SEQ_MISORDERED);
  }
  slot.sequence = args.sa_sequenceid;
  slot.cached = false;
  at.slot = &slot;
  at.session = &session;
  at.client = session.client;
  const auto last = static_cast<std::uint32_t>(session.slots.size() - 1);
  SEQUENCE4resok& ok = res.emplace<NFS4_OK>();
  ok = {args.sa_sessionid, args.sa_sequenceid, args.sa_slotid, last, std::min(last, target_highest), 0};
  if (flags_times > 0) {
    --flags_times;
    ok.sr_status_flags = flags;
  }
  const auto is_revoked = [&](const auto& entry) {
    return entry.second.client == at.client && entry.second.revoked;
  };
  if (std::ranges::any_of(delegations, is_revoked))
    ok.sr_status_flags |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::RECLAIM_COMPLETE, const RECLAIM_COMPLETE4args&,
                          RECLAIM_COMPLETE4res& res) {
  ClientState& client = clients.at(at.client);
  if (client.reclaimed) return plain(res, NFS4ERR_COMPLETE_ALREADY);
  client.reclaimed = true;
  return plain(res, NFS4_OK);
}

// ---- names ----

nfsstat4 ServerState::check_directory(Context& at, Inode*& directory) {
  directory = current(at);
  if (directory == nullptr) return NFS4ERR_NOFILEHANDLE;
  if (directory->type == NF4LNK) return NFS4ERR_SYMLINK;
  return directory->type == NF4DIR ? NFS4_OK : NFS4ERR_NOTDIR;
}

nfsstat4 ServerState::run(Context& at, op::PUTROOTFH, const xdr::Void&, PUTROOTFH4res& res) {
  at.current = kRoot;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::PUTFH, const PUTFH4args& args, PUTFH4res& res) {
  if (args.object.length != 12) return plain(res, NFS4ERR_BADHANDLE);
  const std::uint64_t id = xdr::load_u64(args.object.bytes.data() + 4);
  if (!inodes.contains(id)) return plain(res, NFS4ERR_STALE);
  at.current = id;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::SAVEFH, const xdr::Void&, SAVEFH4res& res) {
  at.saved = at.current;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::GETFH, const xdr::Void&, GETFH4res& res) {
  res.emplace<NFS4_OK>().object = handle_of(at.current);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::LOOKUP, const LOOKUP4args& args, LOOKUP4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  if (args.objname.value.empty() || args.objname.value.size() > 255) {
    return plain(res, args.objname.value.empty() ? NFS4ERR_INVAL : NFS4ERR_NAMETOOLONG);
  }
  const Inode* next = child(*directory, args.objname.value);
  if (next == nullptr) return plain(res, NFS4ERR_NOENT);
  at.current = next->id;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Context& at, op::GETATTR, const GETATTR4args& args, GETATTR4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  res.emplace<NFS4_OK>().obj_attributes = encode_attributes(attributes(*inode), args.attr_request);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::SETATTR, const SETATTR4args& args, SETATTR4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (args.stateid != stateid4{}) {
    if (const auto bad = check_state(args.stateid, at); bad != NFS4_OK) return plain(res, bad);
  }
  if (!change(*inode, args.obj_attributes)) return plain(res, NFS4ERR_ATTRNOTSUPP);
  res.attrsset = args.obj_attributes.attrmask;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::ACCESS, const ACCESS4args& args, ACCESS4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  std::uint32_t granted = 0;
  if ((inode->mode & 0400) != 0) granted |= ACCESS4_READ;
  if ((inode->mode & 0200) != 0) granted |= ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE;
  if ((inode->mode & 0100) != 0) granted |= ACCESS4_LOOKUP | ACCESS4_EXECUTE;
  res.emplace<NFS4_OK>() = {args.access, args.access & granted};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::CREATE, const CREATE4args& args, CREATE4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  if (child(*directory, args.objname.value) != nullptr) return plain(res, NFS4ERR_EXIST);
  const std::uint64_t in = directory->id;
  Inode& made = fresh(args.objtype.tag());
  if (const linktext4* link = args.objtype.get<NF4LNK>()) made.data = text_of(link->data);
  if (!change(made, args.createattrs)) return plain(res, NFS4ERR_ATTRNOTSUPP);
  attach(inodes.at(in), args.objname.value, made.id);
  at.current = made.id;
  res.emplace<NFS4_OK>().cinfo = changed(inodes.at(in));
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::REMOVE, const REMOVE4args& args, REMOVE4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  Inode* target = child(*directory, args.target.value);
  if (target == nullptr) return plain(res, NFS4ERR_NOENT);
  if (target->type == NF4DIR && !target->entries.empty()) return plain(res, NFS4ERR_NOTEMPTY);
  --target->links;
  detach(*directory, args.target.value);
  res.emplace<NFS4_OK>().cinfo = changed(*directory);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::RENAME, const RENAME4args& args, RENAME4res& res) {
  Inode* to = nullptr;
  if (const auto bad = check_directory(at, to); bad != NFS4_OK) return plain(res, bad);
  if (!inodes.contains(at.saved)) return plain(res, NFS4ERR_NOFILEHANDLE);
  Inode& from = inodes.at(at.saved);
  if (from.type != NF4DIR) return plain(res, NFS4ERR_NOTDIR);
  const Inode* moved = child(from, args.oldname.value);
  if (moved == nullptr) return plain(res, NFS4ERR_NOENT);
  const std::uint64_t id = moved->id;
  const Inode* old = child(*to, args.newname.value);
  if (old != nullptr && old->type == NF4DIR && !old->entries.empty()) return plain(res, NFS4ERR_NOTEMPTY);
  detach(from, args.oldname.value);
  detach(*to, args.newname.value);
  attach(*to, args.newname.value, id);
  res.emplace<NFS4_OK>() = {changed(from), changed(*to)};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::LINK, const LINK4args& args, LINK4res& res) {
  Inode* to = nullptr;
  if (const auto bad = check_directory(at, to); bad != NFS4_OK) return plain(res, bad);
  if (!inodes.contains(at.saved)) return plain(res, NFS4ERR_NOFILEHANDLE);
  Inode& existing = inodes.at(at.saved);
  if (existing.type == NF4DIR) return plain(res, NFS4ERR_ISDIR);
  if (child(*to, args.newname.value) != nullptr) return plain(res, NFS4ERR_EXIST);
  ++existing.links;
  attach(*to, args.newname.value, existing.id);
  res.emplace<NFS4_OK>().cinfo = changed(*to);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::READLINK, const xdr::Void&, READLINK4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (inode->type != NF4LNK) return plain(res, NFS4ERR_WRONG_TYPE);
  res.emplace<NFS4_OK>().link.data = bytes_of(at.answer->storage.emplace_back(inode->data));
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::READDIR, const READDIR4args& args, READDIR4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  READDIR4resok ok;
  std::uint64_t used = 4 + 8 + 4 + 4;  // status, verifier, end of list, eof
  auto entry = directory->entries.upper_bound(args.cookie);
  for (; entry != directory->entries.end(); ++entry) {
    entry4 one;
    one.cookie = entry->first;
    one.name.value = entry->second.first;
    one.attrs = encode_attributes(attributes(inodes.at(entry->second.second)), args.attr_request);
    used += 4 + xdr::encoded_size(one);
    if (used > args.maxcount) break;
    ok.reply.entries.value.push_back(std::move(one));
  }
  ok.reply.eof = entry == directory->entries.end();
  if (ok.reply.entries.value.empty() && !ok.reply.eof) return plain(res, NFS4ERR_TOOSMALL);
  if (circular_listings && ok.reply.eof && !ok.reply.entries.value.empty()) {
    ok.reply.entries.value.back().cookie = directory->entries.begin()->first;
    ok.reply.eof = false;
  }
  res.emplace<NFS4_OK>() = std::move(ok);
  return NFS4_OK;
}

// ---- open files ----

stateid4 ServerState::grant(Context& at, const OPEN4args& args, Inode& inode) {
  // RFC 8881 9.1.4: one stateid for an owner and a file; its seqid counts.
  for (auto& [number, open] : opens) {
    if (open.client == at.client && open.inode == inode.id && open.owner == args.owner.owner.value) {
      open.access |= args.share_access & OPEN4_SHARE_ACCESS_BOTH;
      open.had |= 1U << (args.share_access & OPEN4_SHARE_ACCESS_BOTH);
      return stateid_of(number, ++open.seqid);
    }
  }
  const std::uint64_t number = next_id++;
  opens[number] = {at.client,
                   inode.id,
                   1,
                   args.share_access & OPEN4_SHARE_ACCESS_BOTH,
                   args.owner.owner.value,
                   1U << (args.share_access & OPEN4_SHARE_ACCESS_BOTH)};
  return stateid_of(number, 1);
}

nfsstat4 ServerState::check_state(const stateid4& stateid, const Context& at) {
  if (boot_of(stateid) != boot) return NFS4ERR_STALE_STATEID;
  const auto found = opens.find(number_of(stateid));
  if (found == opens.end() || found->second.client != at.client) return NFS4ERR_BAD_STATEID;
  if (found->second.inode != at.current) return NFS4ERR_BAD_STATEID;
  if (stateid.seqid != 0 && stateid.seqid < found->second.seqid) return NFS4ERR_OLD_STATEID;
  return stateid.seqid > found->second.seqid ? NFS4ERR_BAD_STATEID : NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::OPEN, const OPEN4args& args, OPEN4res& res) {
  seen_opens.push_back(args);
  const bool reclaim = args.claim.tag() == CLAIM_PREVIOUS;
  if (reclaim && (!in_grace() || clients.at(at.client).reclaimed)) return plain(res, NFS4ERR_NO_GRACE);
  if (!reclaim && (in_grace() || !clients.at(at.client).reclaimed)) return plain(res, NFS4ERR_GRACE);
  Inode* inode = current(at);
  std::uint64_t directory_id = 0;
  bitmap4 attrset;
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const component4* name = args.claim.get<CLAIM_NULL>()) {
    Inode* directory = nullptr;
    if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
    directory_id = directory->id;
    inode = child(*directory, name->value);
    if (const createhow4* how = args.openhow.get<OPEN4_CREATE>()) {
      const creatverfattr* exclusive = how->get<EXCLUSIVE4_1>();
      const fattr4* unchecked = how->get<UNCHECKED4>();
      const fattr4* guarded = how->get<GUARDED4>();
      const fattr4 none;
      const fattr4& wanted = exclusive != nullptr   ? exclusive->cva_attrs
                             : unchecked != nullptr ? *unchecked
                             : guarded != nullptr   ? *guarded
                                                    : none;
      if (exclusive != nullptr && (has_bit(wanted.attrmask, FATTR4_TIME_ACCESS_SET) ||
                                   has_bit(wanted.attrmask, FATTR4_TIME_MODIFY_SET))) {
        return plain(res, NFS4ERR_INVAL);  // as Linux, which keeps the verifier there
      }
      if (inode == nullptr) {
        inode = &fresh(NF4REG);
        if (!change(*inode, wanted)) return plain(res, NFS4ERR_ATTRNOTSUPP);
        if (exclusive != nullptr) inode->exclusive = exclusive->cva_verf;
        attach(inodes.at(directory_id), name->value, inode->id);
        attrset = wanted.attrmask;
      } else if (guarded != nullptr) {
        return plain(res, NFS4ERR_EXIST);
      } else if (exclusive != nullptr && inode->exclusive != exclusive->cva_verf) {
        return plain(res, NFS4ERR_EXIST);
      } else if (unchecked != nullptr && inode->type == NF4REG) {
        WireChanges changes;
        if (!decode_changes(wanted, changes)) return plain(res, NFS4ERR_ATTRNOTSUPP);
        if (changes.size == 0U) inode->data = inode->stable = "";
      }
    }
    if (inode == nullptr) return plain(res, NFS4ERR_NOENT);
  }
  if (inode->type == NF4LNK) return plain(res, NFS4ERR_SYMLINK);
  if (inode->type != NF4REG) return plain(res, NFS4ERR_ISDIR);
  OPEN4resok ok;
  ok.stateid = grant(at, args, *inode);
  ok.attrset = attrset;
  if (notify_locks) ok.rflags |= OPEN4_RESULT_MAY_NOTIFY_LOCK;
  delegate(at, args, *inode, ok.delegation);
  if (directory_id != 0) ok.cinfo = changed(inodes.at(directory_id));
  at.current = inode->id;
  res.emplace<NFS4_OK>() = ok;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::CLOSE, const CLOSE4args& args, CLOSE4res& res) {
  stateid4 closed = args.open_stateid;
  if (careless_close) closed.seqid = 0;
  if (const auto bad = check_state(closed, at); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t number = number_of(args.open_stateid);
  opens.erase(number);
  const auto is_of = [&](const auto& entry) {
    return entry.second.client != 0 && entry.second.open == number;
  };
  if (std::ranges::any_of(locks, [&](const auto& e) { return is_of(e) && !e.second.pieces.empty(); })) {
    problem("a file is closed that is still locked");
  }
  std::erase_if(locks, is_of);
  res.emplace<NFS4_OK>();
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::READ, const READ4args& args, READ4res& res) {
  const Inode* inode = current(at);
  if (const auto bad = check_state(args.stateid, at); bad != NFS4_OK) return plain(res, bad);
  if ((opens.at(number_of(args.stateid)).access & OPEN4_SHARE_ACCESS_READ) == 0)
    return plain(res, NFS4ERR_OPENMODE);
  const std::uint64_t size = inode->data.size();
  const std::uint64_t begin = std::min(args.offset, size);
  const std::uint64_t count = std::min<std::uint64_t>({args.count, size - begin, short_reads});
  READ4resok& ok = res.emplace<NFS4_OK>();
  ok.eof = begin + count == size;
  ok.data.data = bytes_of(at.answer->storage.emplace_back(inode->data.substr(begin, count)));
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::WRITE, const WRITE4args& args, WRITE4res& res) {
  Inode* inode = current(at);
  if (const auto bad = check_state(args.stateid, at); bad != NFS4_OK) return plain(res, bad);
  if ((opens.at(number_of(args.stateid)).access & OPEN4_SHARE_ACCESS_WRITE) == 0)
    return plain(res, NFS4ERR_OPENMODE);
  const std::string data = text_of(args.data.data).substr(0, short_writes);
  if (inode->data.size() < args.offset + data.size()) inode->data.resize(args.offset + data.size());
  inode->data.replace(args.offset, data.size(), data);
  ++inode->change;
  stable_how4 committed = args.stable;
  if (stable_writes) committed = FILE_SYNC4;
  if (committed != UNSTABLE4) inode->stable = inode->data;
  res.emplace<NFS4_OK>() = {static_cast<count4>(data.size()), committed, write_verifier()};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::COMMIT, const COMMIT4args&, COMMIT4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  inode->stable = inode->data;
  res.emplace<NFS4_OK>().writeverf = write_verifier();
  return NFS4_OK;
}

nfsstat4 ServerState::run(Context& at, op::SEEK, const SEEK4args& args, SEEK4res& res) {
  const Inode* inode = current(at);
  if (const auto bad = check_state(args.sa_stateid, at); bad != NFS4_OK) return plain(res, bad);
  const std::uint64_t size = inode->data.size();
  if (args.sa_offset >= size) return plain(res, NFS4ERR_NXIO);
  const bool wanted = args.sa_what == NFS4_CONTENT_DATA;
  std::vector<std::uint64_t> edges{args.sa_offset};
  for (const auto& [begin, end] : inode->extents) {
    edges.push_back(begin);
    edges.push_back(end);
  }
  std::ranges::sort(edges);
  for (const std::uint64_t edge : edges) {
    if (edge < args.sa_offset || edge >= size || is_data(*inode, edge) != wanted) continue;
    res.emplace<NFS4_OK>() = {false, edge};
    return NFS4_OK;
  }
  if (wanted) return plain(res, NFS4ERR_NXIO);
  res.emplace<NFS4_OK>() = {true, size};  // the hole behind the end
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
