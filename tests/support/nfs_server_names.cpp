// The test server's names and attributes (RFC 8881 5, 7, 18).
#include <algorithm>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;

constexpr std::size_t kNameMax = 255;
constexpr std::uint32_t kHandleSize = 12;
constexpr std::uint32_t kHandleMark = 0x66683031;   // "fh01"
constexpr std::int64_t kWallBegin = 1'700'000'000;  // where the server's wall clock starts

std::vector<std::string> names_of(const std::string& path) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) names.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  return names;
}

}  // namespace

nfs_fh4 handle_of(std::uint64_t inode) {
  nfs_fh4 handle;
  handle.length = kHandleSize;
  xdr::store_u32(handle.bytes.data(), kHandleMark);
  xdr::store_u64(handle.bytes.data() + 4, inode);
  return handle;
}

// ---- inodes ----

Inode& ServerState::fresh(nfs_ftype4 type, std::uint32_t file_system) {
  Inode& inode = inodes[next_id];
  inode.id = next_id++;
  inode.type = type;
  inode.file_system = file_system;
  // Exports count by themselves: two of them have objects of the same number.
  inode.fileid = file_system == 0 ? inode.id : ++next_fileid_[file_system];
  if (type == NF4DIR) inode.mode = 0755;
  inode.accessed = inode.modified = inode.altered = wall_time();
  return inode;
}

Inode* ServerState::child(const Inode& directory, const std::string& name) {
  const auto found = directory.cookies.find(name);
  return found == directory.cookies.end() ? nullptr : &inodes.at(directory.entries.at(found->second).second);
}

void ServerState::attach(Inode& directory, const std::string& name, std::uint64_t id) {
  const std::uint64_t cookie = directory.next_cookie++;
  directory.cookies[name] = cookie;
  directory.entries[cookie] = {name, id};
  if (Inode& inode = inodes.at(id); inode.type == NF4DIR) inode.parent = directory.id;
  touch(directory);
  directory.modified = directory.altered;
}

void ServerState::detach(Inode& directory, const std::string& name) {
  const auto found = directory.cookies.find(name);
  if (found == directory.cookies.end()) return;
  directory.entries.erase(found->second);
  directory.cookies.erase(found);
  touch(directory);
  directory.modified = directory.altered;
}

void ServerState::touch(Inode& inode) {
  ++inode.change;
  inode.altered_before = std::exchange(inode.altered, wall_time());
}

/// One of its names is gone.
void ServerState::unlinked(Inode& inode) {
  if (inode.type == NF4DIR) {
    inode.links = 0;
  } else {
    --inode.links;
  }
  touch(inode);
  doomed_.insert(inode.id);
}

/// Removes the inodes that have neither names nor OPENs any more. Only behind a COMPOUND: within it such an
/// inode may be the current file handle.
void ServerState::bury() {
  for (const std::uint64_t id : std::exchange(doomed_, {})) {
    const auto found = inodes.find(id);
    if (found == inodes.end() || found->second.links != 0) continue;
    const bool kept = habits.preserves_unlinked && in_grace();
    if (!habits.forgets_unlinked && (is_open(id) || kept)) continue;
    used -= found->second.content.size();
    const auto is_on = [&](const auto& entry) { return entry.second.inode == id; };
    std::erase_if(opens, is_on);
    std::erase_if(locks, is_on);
    std::erase_if(delegations, is_on);
    inodes.erase(found);
  }
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
      const std::uint64_t made = fresh(i + 1 == names.size() ? type : NF4DIR, at->file_system).id;
      attach(inodes.at(directory), names[i], made);
      next = &inodes.at(made);
    }
    at = next;
  }
  return *at;
}

Inode& ServerState::make_export(const std::string& path) {
  Inode& root = make(path, NF4DIR);
  root.mounted_on = root.fileid;
  root.file_system = ++file_systems_;
  root.fileid = ++next_fileid_[root.file_system];
  return root;
}

void ServerState::set_content(Inode& inode, std::string text) {
  used += text.size() - inode.content.size();
  inode.content.assign(std::move(text));
  touch(inode);
  inode.modified = inode.altered;
}

std::vector<std::string> ServerState::names() const {
  std::vector<std::string> out;
  const std::function<void(const Inode&, const std::string&)> walk = [&](const Inode& directory,
                                                                         const std::string& path) {
    for (const auto& [name, cookie] : directory.cookies) {
      const Inode& inode = inodes.at(directory.entries.at(cookie).second);
      out.push_back(path + "/" + name + " " + std::to_string(inode.id));
      if (inode.type == NF4DIR) walk(inode, path + "/" + name);
    }
  };
  walk(inodes.at(kRoot), "");
  return out;
}

std::uint64_t ServerState::volatile_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [id, inode] : inodes) total += inode.content.volatile_bytes();
  return total;
}

bool ServerState::is_descendant(const Inode& directory, std::uint64_t of) const {
  for (const Inode* at = &directory;; at = &inodes.at(at->parent)) {
    if (at->id == of) return true;
    if (at->parent == at->id || !inodes.contains(at->parent)) return false;
  }
}

// ---- attributes ----

nfstime4 ServerState::wall_time() const {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(now_() - begun_).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t into = since % kSecond / habits.time_grain.count() * habits.time_grain.count();
  return {kWallBegin + clock_ahead.count() + since / kSecond, static_cast<std::uint32_t>(into)};
}

changeid4 ServerState::change_told(const Inode& inode, std::uint64_t count) const {
  using Change = Habits::Change;
  switch (habits.change) {
    case Change::downwards:
      return ~count;
    case Change::scattered:
      return Chance(count).next();
    case Change::ctime: {
      const nfstime4& time = count == inode.change ? inode.altered : inode.altered_before;
      return static_cast<changeid4>(time.seconds) * 1'000'000'000 + time.nseconds;
    }
    case Change::upwards:
      break;
  }
  return count;
}

/// By an operation before which it had been changed `before` times. From a time nobody can tell whether something else
/// came between.
change_info4 ServerState::changed(const Inode& inode, std::uint64_t before) const {
  const bool atomic = habits.atomic_change_info && habits.change != Habits::Change::ctime;
  return {atomic, change_told(inode, before), change_told(inode, inode.change)};
}

bool ServerState::set_attributes(Inode& inode, const fattr4& wanted) {
  WireChanges changes;
  if (!decode_changes(wanted, changes)) return false;
  if (changes.size && inode.type == NF4REG) resize(inode, *changes.size);
  if (changes.mode) inode.mode = *changes.mode;
  if (changes.mode_umask) inode.mode = changes.mode_umask->mu_mode & ~changes.mode_umask->mu_umask;
  if (changes.owner) inode.owner = changes.owner->value;
  if (changes.owner_group) inode.group = changes.owner_group->value;
  const auto set_time = [&](const std::optional<settime4>& from, nfstime4& to) {
    if (!from) return;
    const nfstime4* given = from->get<SET_TO_CLIENT_TIME4>();
    to = given != nullptr ? *given : wall_time();
    if (habits.verifier_in_times) inode.exclusive.reset();
  };
  set_time(changes.time_access_set, inode.accessed);
  set_time(changes.time_modify_set, inode.modified);
  touch(inode);
  return true;
}

WireAttributes ServerState::attributes(const Inode& inode, bool in_listing) const {
  WireAttributes out;
  const std::uint64_t size = inode.type == NF4LNK ? inode.link.size() : inode.content.size();
  out.type = inode.type;
  out.change = change_told(inode, inode.change);
  out.size = size;
  out.fsid = fsid4{7, 8 + inode.file_system};
  out.lease_time = lease;
  if (in_listing && habits.tells_rdattr_error) out.rdattr_error = NFS4_OK;
  out.filehandle = handle_of(inode.id);
  out.fileid = inode.fileid;
  out.mounted_on_fileid = inode.mounted_on != 0 ? inode.mounted_on : inode.fileid;
  out.xattr_support = true;
  out.maxread = habits.most_read;
  out.maxwrite = habits.most_written;
  out.mode = inode.mode;
  out.numlinks = inode.links;
  if (habits.has_acls) out.supported_attrs = bitmap_of({FATTR4_SUPPORTED_ATTRS, FATTR4_ACL});
  out.owner = principal4{inode.owner};
  out.owner_group = principal4{inode.group};
  out.rawdev = inode.device;
  out.space_used = inode.type == NF4LNK ? size : inode.content.space_used();
  out.space_total = space ? *space : 1'000'000;
  out.space_free = space ? *space - std::min(*space, used) : 600'000;
  out.space_avail = space ? *out.space_free : 500'000;
  out.files_total = 1000;
  out.files_free = 900;
  out.files_avail = 800;
  out.time_access = inode.accessed;
  out.time_metadata = inode.altered;
  out.time_modify = inode.modified;
  return out;
}

// ---- file handles ----

Inode* ServerState::current(Execution& at) {
  const auto found = inodes.find(at.current);
  return found == inodes.end() ? nullptr : &found->second;
}

void ServerState::set_current(Execution& at, std::uint64_t inode) {
  at.current = inode;
  at.current_stateid.reset();
}

nfsstat4 ServerState::check_regular(const Inode& inode) {
  if (inode.type == NF4REG) return NFS4_OK;
  return inode.type == NF4DIR ? NFS4ERR_ISDIR : NFS4ERR_WRONG_TYPE;
}

nfsstat4 ServerState::check_directory(Execution& at, Inode*& directory) {
  directory = current(at);
  if (directory == nullptr) return NFS4ERR_NOFILEHANDLE;
  if (directory->type == NF4LNK) return NFS4ERR_SYMLINK;
  return directory->type == NF4DIR ? NFS4_OK : NFS4ERR_NOTDIR;
}

nfsstat4 ServerState::check_writable(const Inode& inode) const {
  return pseudo_root_is_read_only && inode.file_system == 0 ? NFS4ERR_ROFS : NFS4_OK;
}

nfsstat4 ServerState::check_name(const std::string& name) {
  if (name.empty()) return NFS4ERR_INVAL;
  if (name.size() > kNameMax) return NFS4ERR_NAMETOOLONG;
  if (name == "." || name == ".." || name.find('/') != std::string::npos) return NFS4ERR_BADNAME;
  return NFS4_OK;
}

/// For a name that is to be made or removed in the current directory.
nfsstat4 ServerState::check_place(Execution& at, const std::string& name, Inode*& directory) {
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return bad;
  if (const auto bad = check_name(name); bad != NFS4_OK) return bad;
  return check_writable(*directory);
}

nfsstat4 ServerState::run(Execution& at, op::PUTROOTFH, const xdr::Void&, PUTROOTFH4res& res) {
  set_current(at, kRoot);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::PUTPUBFH, const xdr::Void&, PUTPUBFH4res& res) {
  set_current(at, kRoot);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::PUTFH, const PUTFH4args& args, PUTFH4res& res) {
  if (args.object.length != kHandleSize) return plain(res, NFS4ERR_BADHANDLE);
  const std::uint64_t id = xdr::load_u64(args.object.bytes.data() + 4);
  if (!inodes.contains(id)) return plain(res, NFS4ERR_STALE);
  set_current(at, id);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::SAVEFH, const xdr::Void&, SAVEFH4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  at.saved = at.current;
  at.saved_stateid = at.current_stateid;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::RESTOREFH, const xdr::Void&, RESTOREFH4res& res) {
  if (at.saved == 0) return plain(res, NFS4ERR_NOFILEHANDLE);
  at.current = at.saved;
  at.current_stateid = at.saved_stateid;
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::GETFH, const xdr::Void&, GETFH4res& res) {
  if (current(at) == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  res.emplace<NFS4_OK>().object = handle_of(at.current);
  return NFS4_OK;
}

// ---- flavours (RFC 8881 2.6) ----

bool ServerState::takes(Security security, const Inode& inode) const {
  const auto wanted = flavors.find(inode.file_system);
  return wanted == flavors.end() || std::ranges::count(wanted->second, security) != 0;
}

bool ServerState::is_wrong_flavor(const Execution& at, nfs_opnum4 number) const {
  const auto inode = inodes.find(at.current);
  if (inode == inodes.end()) return false;
  switch (number) {
    // What these lead to, or ask about, counts, and not where they begin (2.6.3.1.1).
    case OP_LOOKUP:
    case OP_LOOKUPP:
    case OP_SECINFO:
    case OP_SECINFO_NO_NAME:
    case OP_PUTFH:
    case OP_PUTROOTFH:
    case OP_PUTPUBFH:
    case OP_SAVEFH:
    case OP_RESTOREFH:
      return false;
    default:
      return !takes(at.security, inode->second);
  }
}

SECINFO4resok ServerState::offers_at(const Inode& inode) const {
  static constexpr auto kKerberos =
      std::to_array<std::uint8_t>({0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02});
  SECINFO4resok out;
  for (const Security one : {Security::sys, Security::krb5, Security::krb5i, Security::krb5p}) {
    if (!takes(one, inode)) continue;
    secinfo4 offer;
    if (one == Security::sys) {
      offer.select(kAuthSys);
    } else {
      rpcsec_gss_info& info = offer.emplace<kRpcsecGss>();
      const auto oid = std::as_bytes(std::span(kKerberos));
      info.oid.value.assign(oid.begin(), oid.end());
      info.service = static_cast<rpc_gss_svc_t>(one);
    }
    out.value.push_back(offer);
  }
  return out;
}

nfsstat4 ServerState::run(Execution& at, op::SECINFO_NO_NAME, const SECINFO_NO_NAME4args& style,
                          SECINFO_NO_NAME4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (style == SECINFO_STYLE4_PARENT) inode = &inodes.at(inode->parent);
  res.emplace<NFS4_OK>() = offers_at(*inode);
  at.current = 0;  // 18.45.3: the current file handle is consumed
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::SECINFO, const SECINFO4args& args, SECINFO4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  if (const auto bad = check_name(args.name.value); bad != NFS4_OK) return plain(res, bad);
  const Inode* const there = child(*directory, args.name.value);
  if (there == nullptr) return plain(res, NFS4ERR_NOENT);
  res.emplace<NFS4_OK>() = offers_at(*there);
  if (at.minor != 0) at.current = 0;
  return NFS4_OK;
}

// ---- finding ----

nfsstat4 ServerState::run(Execution& at, op::LOOKUP, const LOOKUP4args& args, LOOKUP4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  if (const auto bad = check_name(args.objname.value); bad != NFS4_OK) return plain(res, bad);
  const Inode* next = child(*directory, args.objname.value);
  if (next == nullptr) return plain(res, NFS4ERR_NOENT);
  if (!takes(at.security, *next)) return plain(res, NFS4ERR_WRONGSEC);
  set_current(at, next->id);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::LOOKUPP, const xdr::Void&, LOOKUPP4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  if (directory->id == kRoot || !inodes.contains(directory->parent)) return plain(res, NFS4ERR_NOENT);
  if (!takes(at.security, inodes.at(directory->parent))) return plain(res, NFS4ERR_WRONGSEC);
  set_current(at, directory->parent);
  return plain(res, NFS4_OK);
}

nfsstat4 ServerState::run(Execution& at, op::GETATTR, const GETATTR4args& args, GETATTR4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto late = ask_others(at, *inode); late != NFS4_OK) return plain(res, late);
  fattr4& told = res.emplace<NFS4_OK>().obj_attributes;
  if (habits.has_acls && args.attr_request == bitmap_of({FATTR4_ACL})) {
    told.attrmask = args.attr_request;
    told.attr_vals.value = acls4[inode->id];
    if (told.attr_vals.value.empty()) told.attr_vals.value.resize(4);  // a list without entries
    return NFS4_OK;
  }
  told = encode_attributes(attributes(*inode, false), args.attr_request);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::ACCESS, const ACCESS4args& args, ACCESS4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  std::uint32_t granted = 0;
  if ((inode->mode & 0400) != 0) granted |= ACCESS4_READ;
  if ((inode->mode & 0200) != 0) granted |= ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE;
  if ((inode->mode & 0100) != 0) granted |= ACCESS4_LOOKUP | ACCESS4_EXECUTE;
  res.emplace<NFS4_OK>() = {args.access, args.access & granted & habits.most_granted};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::READLINK, const xdr::Void&, READLINK4res& res) {
  const Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (inode->type != NF4LNK) return plain(res, NFS4ERR_WRONG_TYPE);
  const std::string& text = at.answer->storage.emplace_back(inode->link);
  res.emplace<NFS4_OK>().link.data = std::as_bytes(std::span(text.data(), text.size()));
  return NFS4_OK;
}

verifier4 ServerState::cookie_verifier(const Inode& directory) const {
  verifier4 out{};
  if (habits.checks_cookie_verifier) xdr::store_u64(out.data(), 0xc00c1e00 + directory.id);
  return out;
}

/// 18.23. A cookie is the number under which the name was entered: it stays what it is when others go.
nfsstat4 ServerState::run(Execution& at, op::READDIR, const READDIR4args& args, READDIR4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_directory(at, directory); bad != NFS4_OK) return plain(res, bad);
  READDIR4resok ok;
  ok.cookieverf = cookie_verifier(*directory);
  if (args.cookie == 1 || args.cookie == 2) return plain(res, NFS4ERR_BAD_COOKIE);
  if (args.cookie == 0 && args.cookieverf != verifier4{}) problem("READDIR begins with a cookie verifier");
  if (args.cookie != 0 && args.cookieverf != ok.cookieverf) {
    problem("READDIR goes on with a verifier that nobody told it");
    if (habits.checks_cookie_verifier) return plain(res, NFS4ERR_NOT_SAME);
  }
  std::uint64_t used_bytes = 4 + 8 + 4 + 4;  // status, verifier, end of list, eof
  auto entry = directory->entries.upper_bound(args.cookie);
  for (; entry != directory->entries.end() && ok.reply.entries.value.size() < habits.entries_at_once;
       ++entry) {
    entry4 one;
    one.cookie = entry->first;
    one.name.value = entry->second.first;
    const Inode& inode = inodes.at(entry->second.second);
    WireAttributes known = attributes(inode, true);
    if (!takes(at.security, inode)) {
      const std::uint64_t number = *known.mounted_on_fileid;
      known = {};
      known.rdattr_error = NFS4ERR_WRONGSEC;
      known.mounted_on_fileid = number;
    }
    one.attrs = encode_attributes(known, args.attr_request);
    used_bytes += 4 + xdr::encoded_size(one);
    if (used_bytes > args.maxcount) break;
    ok.reply.entries.value.push_back(std::move(one));
  }
  ok.reply.eof = entry == directory->entries.end();
  if (ok.reply.entries.value.empty() && !ok.reply.eof) return plain(res, NFS4ERR_TOOSMALL);
  if (circular_listing && ok.reply.eof && !directory->entries.empty()) {
    ok.reply.eof = false;
    if (ok.reply.entries.value.empty()) {
      entry4 one;
      one.cookie = directory->entries.begin()->first;
      one.name.value = directory->entries.begin()->second.first;
      ok.reply.entries.value.push_back(std::move(one));
    }
  }
  res.emplace<NFS4_OK>() = std::move(ok);
  return NFS4_OK;
}

// ---- changing ----

nfsstat4 ServerState::run(Execution& at, op::SETATTR, const SETATTR4args& args, SETATTR4res& res) {
  Inode* inode = current(at);
  if (inode == nullptr) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (habits.has_acls && args.obj_attributes.attrmask == bitmap_of({FATTR4_ACL})) {
    acls4[inode->id] = args.obj_attributes.attr_vals.value;
    touch(*inode);
    res.attrsset = args.obj_attributes.attrmask;
    return NFS4_OK;
  }
  WireChanges changes;
  if (!decode_changes(args.obj_attributes, changes)) return plain(res, NFS4ERR_ATTRNOTSUPP);
  const auto is_number = [](const std::optional<principal4>& owner) {
    return owner && owner->value.find('@') == std::string::npos;
  };
  if (habits.owners_by_name && (is_number(changes.owner) || is_number(changes.owner_group)))
    return plain(res, NFS4ERR_BADOWNER);
  if (const auto bad = check_writable(*inode); bad != NFS4_OK) return plain(res, bad);
  if (changes.size && inode->type != NF4REG) {
    return plain(res, inode->type == NF4DIR ? NFS4ERR_ISDIR : NFS4ERR_INVAL);
  }
  const std::uint32_t access = changes.size ? OPEN4_SHARE_ACCESS_WRITE : 0;
  at.may_pass_locks = is_truncated && is_truncated(inode->id);
  if (const auto bad = check_io(args.stateid, at, access); bad != NFS4_OK) return plain(res, bad);
  if (const auto late = recall_others(at, inode->id); late != NFS4_OK) return plain(res, late);
  std::uint64_t most = ~0ULL;
  if (changes.size) {
    if (const auto bad = make_room(*inode, *changes.size, false, most); bad != NFS4_OK) {
      return plain(res, bad);
    }
    if (most < *changes.size) return plain(res, habits.full_status);
  }
  (void)set_attributes(*inode, args.obj_attributes);
  res.attrsset = args.obj_attributes.attrmask;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::CREATE, const CREATE4args& args, CREATE4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_place(at, args.objname.value, directory); bad != NFS4_OK) return plain(res, bad);
  if (args.objtype.tag() == NF4REG) return plain(res, NFS4ERR_BADTYPE);
  if (child(*directory, args.objname.value) != nullptr) return plain(res, NFS4ERR_EXIST);
  WireChanges changes;
  if (!decode_changes(args.createattrs, changes)) return plain(res, NFS4ERR_ATTRNOTSUPP);
  if (is_full()) return plain(res, habits.full_status);
  const std::uint64_t in = directory->id;
  Inode& made = fresh(args.objtype.tag(), directory->file_system);
  if (const linktext4* link = args.objtype.get<NF4LNK>()) {
    made.link.assign(reinterpret_cast<const char*>(link->data.data()), link->data.size());
  }
  for (const specdata4* device : {args.objtype.get<NF4CHR>(), args.objtype.get<NF4BLK>()}) {
    if (device != nullptr) made.device = *device;
  }
  (void)set_attributes(made, args.createattrs);
  attach(inodes.at(in), args.objname.value, made.id);
  set_current(at, made.id);
  CREATE4resok& ok = res.emplace<NFS4_OK>();
  ok.cinfo = changed(inodes.at(in));
  ok.attrset = args.createattrs.attrmask;
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::REMOVE, const REMOVE4args& args, REMOVE4res& res) {
  Inode* directory = nullptr;
  if (const auto bad = check_place(at, args.target.value, directory); bad != NFS4_OK) return plain(res, bad);
  if (habits.grace_stops_names && in_grace()) return plain(res, NFS4ERR_GRACE);
  Inode* target = child(*directory, args.target.value);
  if (target == nullptr) return plain(res, NFS4ERR_NOENT);
  if (target->type == NF4DIR && !target->entries.empty()) return plain(res, NFS4ERR_NOTEMPTY);
  if (target->mounted_on != 0) return plain(res, NFS4ERR_XDEV);
  if (const auto late = recall_others(at, target->id); late != NFS4_OK) return plain(res, late);
  detach(*directory, args.target.value);
  unlinked(*target);
  res.emplace<NFS4_OK>().cinfo = changed(*directory);
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::RENAME, const RENAME4args& args, RENAME4res& res) {
  Inode* to = nullptr;
  if (const auto bad = check_directory(at, to); bad != NFS4_OK) return plain(res, bad);
  if (!inodes.contains(at.saved)) return plain(res, NFS4ERR_NOFILEHANDLE);
  Inode& from = inodes.at(at.saved);
  if (from.type != NF4DIR) return plain(res, NFS4ERR_NOTDIR);
  for (const std::string* name : {&args.oldname.value, &args.newname.value}) {
    if (const auto bad = check_name(*name); bad != NFS4_OK) return plain(res, bad);
  }
  if (const auto bad = check_writable(*to); bad != NFS4_OK) return plain(res, bad);
  if (from.file_system != to->file_system) return plain(res, NFS4ERR_XDEV);
  if (habits.grace_stops_names && in_grace()) return plain(res, NFS4ERR_GRACE);
  Inode* moved = child(from, args.oldname.value);
  if (moved == nullptr) return plain(res, NFS4ERR_NOENT);
  if (moved->mounted_on != 0) return plain(res, NFS4ERR_XDEV);
  Inode* old = child(*to, args.newname.value);
  if (old == moved) {
    // 18.26.3: two names of one object; nothing happens.
    res.emplace<NFS4_OK>() = {changed(from, from.change), changed(*to, to->change)};
    return NFS4_OK;
  }
  if (moved->type == NF4DIR && is_descendant(*to, moved->id)) return plain(res, NFS4ERR_INVAL);
  if (old != nullptr) {
    if ((old->type == NF4DIR) != (moved->type == NF4DIR)) return plain(res, NFS4ERR_EXIST);
    if (old->type == NF4DIR && !old->entries.empty()) return plain(res, NFS4ERR_NOTEMPTY);
    if (const auto late = recall_others(at, old->id); late != NFS4_OK) return plain(res, late);
  }
  if (const auto late = recall_others(at, moved->id); late != NFS4_OK) return plain(res, late);
  const std::uint64_t id = moved->id;
  const std::uint64_t from_before = from.change, to_before = to->change;
  detach(from, args.oldname.value);
  if (old != nullptr) {
    detach(*to, args.newname.value);
    unlinked(*old);
  }
  attach(*to, args.newname.value, id);
  touch(*moved);
  res.emplace<NFS4_OK>() = {changed(from, from_before), changed(*to, to_before)};
  return NFS4_OK;
}

nfsstat4 ServerState::run(Execution& at, op::LINK, const LINK4args& args, LINK4res& res) {
  Inode* to = nullptr;
  if (const auto bad = check_directory(at, to); bad != NFS4_OK) return plain(res, bad);
  if (!inodes.contains(at.saved)) return plain(res, NFS4ERR_NOFILEHANDLE);
  if (const auto bad = check_name(args.newname.value); bad != NFS4_OK) return plain(res, bad);
  if (const auto bad = check_writable(*to); bad != NFS4_OK) return plain(res, bad);
  Inode& existing = inodes.at(at.saved);
  if (existing.type == NF4DIR) return plain(res, NFS4ERR_ISDIR);
  if (existing.file_system != to->file_system) return plain(res, NFS4ERR_XDEV);
  if (child(*to, args.newname.value) != nullptr) return plain(res, NFS4ERR_EXIST);
  if (existing.links == 0) return plain(res, NFS4ERR_NOENT);
  if (const auto late = recall_others(at, existing.id); late != NFS4_OK) return plain(res, late);
  ++existing.links;
  touch(existing);
  attach(*to, args.newname.value, existing.id);
  res.emplace<NFS4_OK>().cinfo = changed(*to);
  return NFS4_OK;
}

}  // namespace nfsrdma::testing
