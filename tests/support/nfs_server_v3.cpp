// The test server's NFSv3 (RFC 1813): each procedure by the operations of NFSv4 that do the same, on the same
// files; and its memory of recent calls (4.8), which Habits bounds.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "support/nfs_server_state.h"
#include "wire/nfs3/acl.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::testing {
namespace {

namespace n3 = nfs3;
using namespace nfs4;
using xdr::Encoder;

/// What a status of NFSv4 is in version 3: mostly the same number.
n3::nfsstat3 to3(nfsstat4 status) {
  switch (status) {
    case NFS4ERR_SYMLINK:
      return n3::NFS3ERR_NOTDIR;
    case NFS4ERR_WRONG_TYPE:
    case NFS4ERR_BADNAME:
    case NFS4ERR_ATTRNOTSUPP:
      return n3::NFS3ERR_INVAL;
    case NFS4ERR_NOT_SAME:
      return n3::NFS3ERR_BAD_COOKIE;
    case NFS4ERR_NOFILEHANDLE:
      return n3::NFS3ERR_BADHANDLE;
    case NFS4ERR_GRACE:
    case NFS4ERR_DELAY:
      return n3::NFS3ERR_JUKEBOX;
    default:
      return static_cast<n3::nfsstat3>(status);
  }
}

n3::nfstime3 to3(const nfstime4& time) {
  return {static_cast<std::uint32_t>(time.seconds), time.nseconds};
}

nfs_fh4 to4(const n3::nfs_fh3& handle) {
  nfs_fh4 out;
  out.length = handle.length;
  std::copy_n(handle.bytes.begin(), handle.length, out.bytes.begin());
  return out;
}

n3::nfs_fh3 handle3_of(std::uint64_t inode) {
  const nfs_fh4 handle = handle_of(inode);
  n3::nfs_fh3 out;
  out.length = handle.length;
  std::copy_n(handle.bytes.begin(), handle.length, out.bytes.begin());
  return out;
}

std::optional<settime4> to4(const n3::set_time3& time) {
  if (const n3::nfstime3* given = time.get<n3::SET_TO_CLIENT_TIME>())
    return client_time({given->seconds, given->nseconds});
  if (time.tag() == n3::SET_TO_SERVER_TIME) return server_time();
  return std::nullopt;
}

fattr4 to4(const n3::sattr3& wanted) {
  WireChanges out;
  out.mode = wanted.mode;
  if (wanted.uid) out.owner = principal4{std::to_string(*wanted.uid)};
  if (wanted.gid) out.owner_group = principal4{std::to_string(*wanted.gid)};
  out.size = wanted.size;
  out.time_access_set = to4(wanted.atime);
  out.time_modify_set = to4(wanted.mtime);
  return encode_changes(out);
}

n3::ftype3 to3(nfs_ftype4 type) {
  switch (type) {
    case NF4DIR:
      return n3::NF3DIR;
    case NF4LNK:
      return n3::NF3LNK;
    case NF4BLK:
      return n3::NF3BLK;
    case NF4CHR:
      return n3::NF3CHR;
    case NF4SOCK:
      return n3::NF3SOCK;
    case NF4FIFO:
      return n3::NF3FIFO;
    default:
      return n3::NF3REG;
  }
}

/// Behind the procedures of NFSv3, those of NFSACL that are served.
using Served = decltype(std::tuple_cat(n3::proc::All(), std::tuple<n3::proc::GETACL, n3::proc::SETACL>()));

/// What is not remembered: a second execution does no harm (as Linux has it).
constexpr bool is_remembered(std::uint32_t procedure) {
  bool out = false;
  const auto look = [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == procedure ? (void)(out = !std::tuple_element_t<I, Served>::idempotent) : void()), ...);
  };
  look(std::make_index_sequence<std::tuple_size_v<Served>>());
  return out || procedure == n3::proc::WRITE::number;
}

constexpr std::array<nfs_opnum4, 24> kOperation{
    OP_ILLEGAL, OP_GETATTR, OP_SETATTR, OP_LOOKUP,  OP_ACCESS,  OP_READLINK, OP_READ,    OP_WRITE,
    OP_OPEN,    OP_CREATE,  OP_CREATE,  OP_CREATE,  OP_REMOVE,  OP_REMOVE,   OP_RENAME,  OP_LINK,
    OP_READDIR, OP_READDIR, OP_GETATTR, OP_GETATTR, OP_GETATTR, OP_COMMIT,   OP_GETATTR, OP_SETATTR};

}  // namespace

/// One procedure while it is executed: the objects that its arguments name, as they were before.
struct ServerState::Run3 {
  ServerState& server;
  Execution& at;

  /// Makes it the current object; a status that is not NFS4_OK: it is none.
  nfsstat4 select(const n3::nfs_fh3& handle) const {
    PUTFH4res res;
    return server.run(at, op::PUTFH(), {to4(handle)}, res);
  }
  [[nodiscard]] Inode* find(const n3::nfs_fh3& handle) const {
    return select(handle) == NFS4_OK ? server.current(at) : nullptr;
  }
  [[nodiscard]] n3::fattr3 attributes(const Inode& inode) const {
    const WireAttributes wire = server.attributes(inode, false);
    n3::fattr3 out;
    out.type = to3(inode.type);
    out.mode = inode.mode;
    out.nlink = inode.links;
    out.uid = static_cast<std::uint32_t>(std::strtoul(inode.owner.c_str(), nullptr, 10));
    out.gid = static_cast<std::uint32_t>(std::strtoul(inode.group.c_str(), nullptr, 10));
    out.size = *wire.size;
    out.used = *wire.size;
    out.rdev = {inode.device.specdata1, inode.device.specdata2};
    out.fsid = wire.fsid->minor;
    out.fileid = inode.fileid;
    out.atime = to3(inode.accessed);
    out.mtime = to3(inode.modified);
    out.ctime = to3(inode.altered);
    return out;
  }
  /// A server need not tell them (RFC 1813 2.6).
  [[nodiscard]] n3::post_op_attr told(const n3::nfs_fh3& handle) const {
    const Inode* inode = find(handle);
    if (inode == nullptr || server.chance.percent(server.habits.untold_percent)) return {};
    return attributes(*inode);
  }
  [[nodiscard]] n3::post_op_attr told(std::uint64_t inode) const { return told(handle3_of(inode)); }
  [[nodiscard]] n3::pre_op_attr before(const n3::nfs_fh3& handle) const {
    const Inode* inode = find(handle);
    if (inode == nullptr || server.chance.percent(server.habits.untold_percent)) return {};
    const n3::fattr3 now = attributes(*inode);
    return n3::wcc_attr{now.size, now.mtime, now.ctime};
  }

  // ---- each gives NFS4_OK with `res` filled, or a status, with which call() fills it ----

  nfsstat4 run(const n3::GETATTR3args& args, n3::GETATTR3res& res) const {
    const auto bad = select(args.object);
    if (bad == NFS4_OK) res.emplace<n3::NFS3_OK>().obj_attributes = attributes(*server.current(at));
    return bad;
  }

  nfsstat4 run(const n3::SETATTR3args& args, n3::SETATTR3res& res) const {
    n3::wcc_data wcc{before(args.object), {}};
    auto status = select(args.object);
    SETATTR4res done;
    if (status == NFS4_OK) status = server.run(at, op::SETATTR(), {{}, to4(args.new_attributes)}, done);
    wcc.after = told(args.object);
    return finish(res, status, n3::SETATTR3resok{wcc}, wcc);
  }

  nfsstat4 run(const n3::LOOKUP3args& args, n3::LOOKUP3res& res) const {
    auto status = select(args.what.dir);
    LOOKUP4res found;
    LOOKUPP4res above;
    if (status == NFS4_OK) {
      status = args.what.name.value == ".." ? server.run(at, op::LOOKUPP(), {}, above)
                                            : server.run(at, op::LOOKUP(), {{args.what.name.value}}, found);
    }
    const std::uint64_t object = at.current;
    n3::LOOKUP3resok ok;
    if (status == NFS4_OK) ok = {handle3_of(object), told(object), {}};
    ok.dir_attributes = told(args.what.dir);
    return finish(res, status, ok, n3::post_op_fail{ok.dir_attributes});
  }

  nfsstat4 run(const n3::ACCESS3args& args, n3::ACCESS3res& res) const {
    auto status = select(args.object);
    ACCESS4res got;
    if (status == NFS4_OK) status = server.run(at, op::ACCESS(), {args.access}, got);
    n3::ACCESS3resok ok{told(args.object), 0};
    if (status == NFS4_OK) ok.access = got.get<NFS4_OK>()->access;
    return finish(res, status, ok, n3::post_op_fail{ok.obj_attributes});
  }

  nfsstat4 run(const n3::READLINK3args& args, n3::READLINK3res& res) const {
    auto status = select(args.symlink);
    READLINK4res got;
    if (status == NFS4_OK) status = server.run(at, op::READLINK(), {}, got);
    n3::READLINK3resok ok{told(args.symlink), {}};
    if (status == NFS4_OK) ok.data.data = got.get<NFS4_OK>()->link.data;
    return finish(res, status, ok, n3::post_op_fail{ok.symlink_attributes});
  }

  nfsstat4 run(const n3::READ3args& args, n3::READ3res& res) const {
    auto status = select(args.file);
    READ4res got;
    if (status == NFS4_OK) status = server.run(at, op::READ(), {{}, args.offset, args.count}, got);
    n3::READ3resok ok;
    ok.file_attributes = told(args.file);
    if (status == NFS4_OK) {
      const READ4resok& read = *got.get<NFS4_OK>();
      ok.count = static_cast<n3::count3>(read.data.data.size());
      ok.eof = read.eof;
      ok.data.data = read.data.data;
    }
    return finish(res, status, ok, n3::post_op_fail{ok.file_attributes});
  }

  nfsstat4 run(const n3::WRITE3args& args, n3::WRITE3res& res) const {
    n3::WRITE3resok ok;
    ok.file_wcc.before = before(args.file);
    auto status = select(args.file);
    if (args.count != args.data.data.size()) server.problem("a WRITE whose count is not that of its data");
    WRITE4res got;
    if (status == NFS4_OK) {
      status = server.run(at, op::WRITE(),
                          {{}, args.offset, static_cast<stable_how4>(args.stable), {args.data.data}}, got);
    }
    ok.file_wcc.after = told(args.file);
    if (status == NFS4_OK) {
      const WRITE4resok& written = *got.get<NFS4_OK>();
      ok.count = written.count;
      ok.committed = static_cast<n3::stable_how>(written.committed);
      ok.verf = written.writeverf;
    }
    return finish(res, status, ok, ok.file_wcc);
  }

  nfsstat4 run(const n3::COMMIT3args& args, n3::COMMIT3res& res) const {
    n3::COMMIT3resok ok;
    ok.file_wcc.before = before(args.file);
    auto status = select(args.file);
    COMMIT4res got;
    if (status == NFS4_OK) status = server.run(at, op::COMMIT(), {args.offset, args.count}, got);
    ok.file_wcc.after = told(args.file);
    if (status == NFS4_OK) ok.verf = got.get<NFS4_OK>()->writeverf;
    return finish(res, status, ok, ok.file_wcc);
  }

  nfsstat4 run(const n3::CREATE3args& args, n3::CREATE3res& res) const {
    createhow4 how;
    if (const n3::sattr3* unchecked = args.how.get<n3::UNCHECKED>())
      how.emplace<UNCHECKED4>() = to4(*unchecked);
    if (const n3::sattr3* guarded = args.how.get<n3::GUARDED>()) how.emplace<GUARDED4>() = to4(*guarded);
    if (const n3::createverf3* verifier = args.how.get<n3::EXCLUSIVE>()) {
      if (!server.habits.creates_exclusively) return finish(res, NFS4ERR_NOTSUPP, {}, {});
      how.emplace<EXCLUSIVE4>() = *verifier;
    }
    return make(args.where, res,
                [&](const Inode&) { return server.create_named(at, args.where.name.value, how); });
  }

  template <class Res>
  nfsstat4 create(const n3::diropargs3& where, createtype4 type, const n3::sattr3& attributes,
                  Res& res) const {
    return make(where, res, [&](const Inode&) {
      CREATE4res got;
      return server.run(at, op::CREATE(), {type, {where.name.value}, to4(attributes)}, got);
    });
  }
  nfsstat4 run(const n3::MKDIR3args& args, n3::MKDIR3res& res) const {
    return create(args.where, createtype4::of<NF4DIR>(), args.attributes, res);
  }
  nfsstat4 run(const n3::SYMLINK3args& args, n3::SYMLINK3res& res) const {
    return create(args.where, createtype4::of<NF4LNK>(linktext4{args.symlink.symlink_data.data}),
                  args.symlink.symlink_attributes, res);
  }
  nfsstat4 run(const n3::MKNOD3args& args, n3::MKNOD3res& res) const {
    for (const n3::devicedata3* device : {args.what.get<n3::NF3CHR>(), args.what.get<n3::NF3BLK>()}) {
      if (device == nullptr) continue;
      const specdata4 numbers{device->spec.specdata1, device->spec.specdata2};
      return create(
          args.where,
          args.what.tag() == n3::NF3CHR ? createtype4::of<NF4CHR>(numbers) : createtype4::of<NF4BLK>(numbers),
          device->dev_attributes, res);
    }
    if (const n3::sattr3* fifo = args.what.get<n3::NF3FIFO>())
      return create(args.where, createtype4::of<NF4FIFO>(), *fifo, res);
    if (const n3::sattr3* socket = args.what.get<n3::NF3SOCK>())
      return create(args.where, createtype4::of<NF4SOCK>(), *socket, res);
    return finish(res, NFS4ERR_BADTYPE, {}, {});
  }

  nfsstat4 run(const n3::REMOVE3args& args, n3::REMOVE3res& res) const {
    return remove(args.object, false, res);
  }
  nfsstat4 run(const n3::RMDIR3args& args, n3::RMDIR3res& res) const {
    return remove(args.object, true, res);
  }

  nfsstat4 run(const n3::RENAME3args& args, n3::RENAME3res& res) const {
    n3::rename3wcc wcc;
    wcc.fromdir_wcc.before = before(args.from.dir);
    wcc.todir_wcc.before = before(args.to.dir);
    auto status = select(args.from.dir);
    at.saved = at.current;
    if (status == NFS4_OK) status = select(args.to.dir);
    RENAME4res got;
    if (status == NFS4_OK)
      status = server.run(at, op::RENAME(), {{args.from.name.value}, {args.to.name.value}}, got);
    wcc.fromdir_wcc.after = told(args.from.dir);
    wcc.todir_wcc.after = told(args.to.dir);
    return finish(res, status, wcc, wcc);
  }

  nfsstat4 run(const n3::LINK3args& args, n3::LINK3res& res) const {
    n3::link3wcc wcc;
    wcc.linkdir_wcc.before = before(args.link.dir);
    auto status = select(args.file);
    at.saved = at.current;
    if (status == NFS4_OK) status = select(args.link.dir);
    LINK4res got;
    if (status == NFS4_OK) status = server.run(at, op::LINK(), {{args.link.name.value}}, got);
    wcc.file_attributes = told(args.file);
    wcc.linkdir_wcc.after = told(args.link.dir);
    return finish(res, status, wcc, wcc);
  }

  nfsstat4 run(const n3::READDIR3args& args, n3::READDIR3res& res) const {
    const auto entry = [](const Inode&, n3::entry3&) {};
    return list(args, args.count, res, n3::READDIR3resok(), entry);
  }
  nfsstat4 run(const n3::READDIRPLUS3args& args, n3::READDIRPLUS3res& res) const {
    if (!server.habits.lists_with_attributes) return finish(res, NFS4ERR_NOTSUPP, {}, {});
    const auto entry = [this](const Inode& inode, n3::entryplus3& one) {
      one.name_attributes = told(inode.id);
      if (!server.chance.percent(server.habits.untold_percent)) one.name_handle = handle3_of(inode.id);
    };
    return list(args, args.maxcount, res, n3::READDIRPLUS3resok(), entry);
  }

  nfsstat4 run(const n3::FSSTAT3args& args, n3::FSSTAT3res& res) const {
    const auto status = select(args.fsroot);
    n3::FSSTAT3resok ok;
    ok.obj_attributes = told(args.fsroot);
    if (status == NFS4_OK) {
      const WireAttributes wire = server.attributes(*find(args.fsroot), false);
      ok.tbytes = *wire.space_total;
      ok.fbytes = *wire.space_free;
      ok.abytes = *wire.space_avail;
      ok.tfiles = *wire.files_total;
      ok.ffiles = *wire.files_free;
      ok.afiles = *wire.files_avail;
    }
    return finish(res, status, ok, n3::post_op_fail{ok.obj_attributes});
  }
  nfsstat4 run(const n3::FSINFO3args& args, n3::FSINFO3res& res) const {
    const auto status = select(args.fsroot);
    n3::FSINFO3resok ok;
    ok.obj_attributes = told(args.fsroot);
    const auto told = [this](std::uint64_t most) {
      return most == 0 ? server.largest_io
                       : static_cast<std::uint32_t>(std::min<std::uint64_t>(most, server.largest_io));
    };
    ok.rtmax = ok.rtpref = told(server.habits.most_read);
    ok.wtmax = ok.wtpref = told(server.habits.most_written);
    ok.rtmult = ok.wtmult = 4096;
    ok.dtpref = 32768;
    ok.maxfilesize = server.largest_file;
    ok.time_delta = {0, 1};
    ok.properties = n3::FSF3_LINK | n3::FSF3_SYMLINK | n3::FSF3_HOMOGENEOUS | n3::FSF3_CANSETTIME;
    return finish(res, status, ok, n3::post_op_fail{ok.obj_attributes});
  }
  nfsstat4 run(const n3::PATHCONF3args& args, n3::PATHCONF3res& res) const {
    const auto status = select(args.object);
    const n3::PATHCONF3resok ok{told(args.object), 32000, 255, true, true, false, true};
    return finish(res, status, ok, n3::post_op_fail{ok.obj_attributes});
  }

  /// Without a list of its own an object has what its mode says, with a mask, as it goes over the wire.
  nfsstat4 run(const n3::GETACL3args& args, n3::GETACL3res& res) const {
    const auto status = select(args.object);
    n3::GETACL3resok ok;
    ok.obj_attributes = told(args.object);
    if (status == NFS4_OK) {
      const Inode& inode = *find(args.object);
      ok.acl.mask = args.mask;
      const std::uint32_t group = (inode.mode >> 3U) & 7U;
      ok.acl.acl.value = {
          {0x01, 0, (inode.mode >> 6U) & 7U}, {0x04, 0, group}, {0x10, 0, group}, {0x20, 0, inode.mode & 7U}};
      const auto stored = server.acls3.find(inode.id);
      if (stored != server.acls3.end()) {
        ok.acl = stored->second;
        ok.acl.mask = args.mask;
      }
      ok.acl.aclcnt = static_cast<std::uint32_t>(ok.acl.acl.value.size());
      ok.acl.dfaclcnt = static_cast<std::uint32_t>(ok.acl.dfacl.value.size());
    }
    return finish(res, status, ok, ok.obj_attributes);
  }
  nfsstat4 run(const n3::SETACL3args& args, n3::SETACL3res& res) const {
    const auto status = select(args.object);
    if (args.acl.aclcnt != args.acl.acl.value.size() || args.acl.dfaclcnt != args.acl.dfacl.value.size())
      server.problem("SETACL with a count that is not its list's");
    if (args.acl.acl.value.size() < 4) server.problem("SETACL with less than four entries");
    for (const n3::aclent& entry : args.acl.dfacl.value) {
      if ((entry.tag & n3::NFS_ACL_DEFAULT) == 0)
        server.problem("SETACL with a default entry without its flag");
    }
    if (status == NFS4_OK) {
      auto& lists = server.acls3[find(args.object)->id];
      const auto before = std::exchange(lists, args.acl);
      // A list that the mask does not name stays.
      if ((args.acl.mask & n3::NA_DFACL) == 0) lists.dfacl = before.dfacl;
      server.touch(*find(args.object));
    }
    const n3::SETACL3resok ok{told(args.object)};
    return finish(res, status, ok, ok.obj_attributes);
  }

 private:
  template <class Res, class Ok, class Fail>
  static nfsstat4 finish(Res& res, nfsstat4 status, Ok ok, Fail fail) {
    if (status == NFS4_OK) {
      res.template emplace<n3::NFS3_OK>() = std::move(ok);
    } else {
      (void)res.select(to3(status));
      res.visit([&fail](auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Fail>) value = std::move(fail);
      });
    }
    return status;
  }
  /// A refusal that tells nothing.
  struct Nothing {};
  template <class Res>
  static nfsstat4 finish(Res& res, nfsstat4 status, Nothing /*ok*/, Nothing /*fail*/) {
    (void)res.select(to3(status));
    return status;
  }

  template <class Res, class Make>
  nfsstat4 make(const n3::diropargs3& where, Res& res, Make make_it) const {
    n3::made3resok ok;
    ok.dir_wcc.before = before(where.dir);
    auto status = select(where.dir);
    if (status == NFS4_OK) status = make_it(*server.current(at));
    const std::uint64_t object = at.current;
    if (status == NFS4_OK) {
      if (!server.chance.percent(server.habits.untold_percent)) ok.obj = handle3_of(object);
      ok.obj_attributes = told(object);
    }
    ok.dir_wcc.after = told(where.dir);
    return finish(res, status, ok, ok.dir_wcc);
  }

  template <class Res>
  nfsstat4 remove(const n3::diropargs3& object, bool directory, Res& res) const {
    n3::wcc_data wcc{before(object.dir), {}};
    auto status = select(object.dir);
    if (status == NFS4_OK) {
      Inode* parent = nullptr;
      status = server.check_place(at, object.name.value, parent);
      const Inode* target = status == NFS4_OK ? server.child(*parent, object.name.value) : nullptr;
      if (target != nullptr && (target->type == NF4DIR) != directory)
        status = directory ? NFS4ERR_NOTDIR : NFS4ERR_ISDIR;
    }
    REMOVE4res got;
    if (status == NFS4_OK) status = server.run(at, op::REMOVE(), {{object.name.value}}, got);
    wcc.after = told(object.dir);
    return finish(res, status, n3::dir3resok{wcc}, wcc);
  }

  template <class Args, class Res, class Ok, class Fill>
  nfsstat4 list(const Args& args, std::uint32_t most, Res& res, Ok ok, Fill fill) const {
    auto status = select(args.dir);
    Inode* directory = nullptr;
    if (status == NFS4_OK) status = server.check_directory(at, directory);
    ok.dir_attributes = told(args.dir);
    const n3::post_op_fail fail{ok.dir_attributes};
    if (status != NFS4_OK) return finish(res, status, ok, fail);
    directory = find(args.dir);
    ok.cookieverf = server.cookie_verifier(*directory);
    if (args.cookie == 0 && args.cookieverf != n3::cookieverf3{})
      server.problem("READDIR begins with a verifier");
    if (args.cookie != 0 && args.cookieverf != ok.cookieverf && server.habits.checks_cookie_verifier)
      return finish(res, NFS4ERR_NOT_SAME, ok, fail);
    // "." and ".." stand in front (RFC 1813 3.3.16), with the cookies 1 and 2.
    std::uint64_t bytes = xdr::encoded_size(ok);
    bool full = false;
    const auto add = [&](const Inode& inode, const std::string& name, std::uint64_t cookie) {
      typename decltype(ok.entries.value)::value_type one;
      one.fileid = inode.fileid;
      one.name.value = name;
      one.cookie = cookie;
      fill(inode, one);
      bytes += 4 + xdr::encoded_size(one);
      full = full || bytes > most || ok.entries.value.size() >= server.habits.entries_at_once;
      if (!full) ok.entries.value.push_back(std::move(one));
    };
    if (args.cookie < 1) add(*directory, ".", 1);
    const auto parent = server.inodes.find(directory->parent);
    if (args.cookie < 2 && !full) add(parent != server.inodes.end() ? parent->second : *directory, "..", 2);
    for (auto entry = directory->entries.upper_bound(args.cookie); entry != directory->entries.end() && !full;
         ++entry) {
      add(server.inodes.at(entry->second.second), entry->second.first, entry->first);
    }
    ok.eof = !full;
    if (ok.entries.value.empty() && full) return finish(res, NFS4ERR_TOOSMALL, ok, fail);
    return finish(res, NFS4_OK, ok, fail);
  }
};

template <class P>
bool ServerState::procedure3(Execution& at) {
  typename P::Args args{};
  if (!xdr::decode(at.in, args) || !at.in.finish()) return false;
  typename P::Res res{};
  const nfs_opnum4 op = operation_of(*at.procedure);
  ++seen_ops[op];
  if constexpr (!std::is_same_v<P, n3::proc::NULL3>) {
    auto forced = injected(op);
    if (!forced) forced = busy(op);
    if (forced) {
      at.status = *forced;
      (void)res.select(to3(*forced));
    } else {
      at.status = Run3{*this, at}.run(args, res);
      if (at.status == NFS4_OK) ++good_ops[op];
    }
  }
  Encoder out(at.answer->message);
  xdr::encode(out, res);
  return true;
}

std::unique_ptr<Execution> ServerState::begin3(xdr::ConstBytes body, std::uint32_t procedure,
                                               const Principal& who, SeenCall& seen) {
  std::unique_ptr<Execution> run(new Execution(body));
  look_at_time();
  run->boot = boot;
  run->who = who;
  run->connection = seen.connection;
  if (as_version3(procedure) >= kOperation.size()) {
    problem("a procedure that neither NFSv3 nor v2 has");
    run->stage = Execution::Stage::broken;
    return run;
  }
  run->procedure = procedure;
  seen.ops = {operation_of(procedure)};
  run->recent = Recent{seen.xid, procedure, Octets(body.begin(), body.end()), {}};
  const auto known = std::ranges::find_if(recent_, [&](const Recent& one) { return one.same(*run->recent); });
  if (known == recent_.end()) {
    remember(*run->recent);
    run->answer = std::make_unique<Answer>();
    return run;
  }
  if (!known
           ->reply) {  // its first execution is under way: what comes again meanwhile is dropped, as Linux does
    run->stage = Execution::Stage::dropped;
    return run;
  }
  run->stage = Execution::Stage::answered;
  run->answer = std::make_unique<Answer>();
  run->answer->replayed = true;
  Encoder(run->answer->message).fixed(*known->reply);
  return run;
}

nfs_opnum4 ServerState::operation_of(std::uint32_t procedure) {
  procedure = as_version3(procedure);
  return procedure < kOperation.size() ? kOperation[procedure] : OP_ILLEGAL;
}

bool Recent::same(const Recent& other) const {
  return xid == other.xid && procedure == other.procedure && body == other.body;
}

void ServerState::remember(const Recent& call) {
  if (is_remembered(as_version3(call.procedure))) keep(call);
}

void ServerState::keep(const Recent& call) {
  if (habits.recent_calls == 0) return;
  if (recent_.size() >= habits.recent_calls) recent_.pop_front();
  recent_.push_back(call);
}

std::unique_ptr<Answer> ServerState::finish3(Execution& run) {
  bool good = true;
  const auto execute = [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == *run.procedure ? (void)(good = procedure3<std::tuple_element_t<I, Served>>(run)) : void()), ...);
  };
  if (*run.procedure >= kVersion2)
    good = procedure2(run);
  else
    execute(std::make_index_sequence<std::tuple_size_v<Served>>());
  bury();
  const auto known = std::ranges::find_if(recent_, [&](const Recent& one) { return one.same(*run.recent); });
  if (!good) {
    problem("arguments of NFSv3 that cannot be decoded");
    if (known != recent_.end()) recent_.erase(known);
    run.stage = Execution::Stage::broken;
    return nullptr;
  }
  if (known != recent_.end()) known->reply = flattened(run.answer->message);
  run.stage = Execution::Stage::answered;
  return std::move(run.answer);
}

}  // namespace nfsrdma::testing
