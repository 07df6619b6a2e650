#include "nfs2/translation.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "reply_sizing/nfs2_reply.h"
#include "reply_sizing/nfs3_reply.h"

namespace nfsrdma::nfs2 {
namespace {

using namespace nfs3;  // NOLINT: the words of both versions meet here

// ---- from NFSv3 to NFSv2 ----

fhandle to2(const nfs_fh3& handle) {
  fhandle out{};
  std::copy_n(handle.bytes.begin(), std::min<std::size_t>(handle.length, out.size()), out.begin());
  return out;
}

diropargs to2(const diropargs3& place) {
  diropargs out;
  out.dir = to2(place.dir);
  out.name.value = place.name.value;
  return out;
}

timeval this_machines_time() {
  using std::chrono::microseconds;
  const auto now =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  constexpr std::int64_t kSecond = 1'000'000;
  return {static_cast<std::uint32_t>(now / kSecond), static_cast<std::uint32_t>(now % kSecond)};
}

timeval to2(const set_time3& time) {
  if (const nfstime3* given = time.get<SET_TO_CLIENT_TIME>()) return {given->seconds, given->nseconds / 1000};
  if (time.tag() == SET_TO_SERVER_TIME) return this_machines_time();
  return {kNotSet, kNotSet};
}

sattr to2(const sattr3& wanted) {
  sattr out;
  out.mode = wanted.mode.value_or(kNotSet);
  out.uid = wanted.uid.value_or(kNotSet);
  out.gid = wanted.gid.value_or(kNotSet);
  if (wanted.size) out.size = static_cast<std::uint32_t>(*wanted.size);
  out.atime = to2(wanted.atime);
  out.mtime = to2(wanted.mtime);
  if (wanted.atime.tag() == SET_TO_SERVER_TIME && wanted.mtime.tag() == SET_TO_SERVER_TIME)
    out.mtime.useconds = kServersTime;
  return out;
}

bool fits(const diropargs3& place) {
  return place.name.value.size() <= MAXNAMLEN;
}

/// Encodes a device's numbers in 32 bits as Linux does.
std::uint32_t number_of(const specdata3& device) {
  const std::uint32_t minor = device.specdata2;
  return (minor & 0xffU) | (device.specdata1 << 8U) | ((minor & ~0xffU) << 12U);
}
specdata3 device_of(std::uint32_t number) {
  return {(number & 0xfff00U) >> 8U, (number & 0xffU) | ((number >> 12U) & 0xfff00U)};
}

// ---- from NFSv2 to NFSv3 ----

nfsstat3 to3(nfsstat status) {
  return status == NFSERR_WFLUSH ? NFS3ERR_IO : static_cast<nfsstat3>(status);
}

nfs_fh3 to3(const fhandle& handle) {
  nfs_fh3 out;
  out.length = FHSIZE;
  std::ranges::copy(handle, out.bytes.begin());
  return out;
}

nfstime3 to3(const timeval& time) {
  return {time.seconds, time.useconds * 1000};
}

/// Returns the type. Servers report a fifo as a character device, and its mode or its number shows that it is
/// one.
ftype3 type_of(const fattr& from) {
  switch (from.type) {
    case NFDIR:
      return NF3DIR;
    case NFBLK:
      return NF3BLK;
    case NFLNK:
      return NF3LNK;
    case NFSOCK:
      return NF3SOCK;
    case NFFIFO:
      return NF3FIFO;
    case NFCHR:
      return S_ISFIFO(from.mode) || from.rdev == kNotSet ? NF3FIFO : NF3CHR;
    default:
      return NF3REG;
  }
}

fattr3 to3(const fattr& from) {
  constexpr std::uint64_t kBlock = 512;
  fattr3 out;
  out.type = type_of(from);
  out.mode = from.mode & 07777U;
  out.nlink = from.nlink;
  out.uid = from.uid;
  out.gid = from.gid;
  out.size = from.size;
  out.used = from.blocks * kBlock;
  if (out.type == NF3CHR || out.type == NF3BLK) out.rdev = device_of(from.rdev);
  out.fsid = from.fsid;
  out.fileid = from.fileid;
  out.atime = to3(from.atime);
  out.mtime = to3(from.mtime);
  out.ctime = to3(from.ctime);
  return out;
}

// ---- answers ----

template <class P>
Answer<P> refusal(nfsstat3 status) {
  Answer<P> out;
  (void)out.res.select(status);
  return out;
}

/// Translates a result. `tell(ok)` returns NFSv3's form of a success. Views into the older answer stay valid.
template <class P, class Q, class Tell>
Result<Answer<P>> translated(Result<Answer<Q>> from, Tell tell) {
  if (!from) return from.error();
  Answer<P> out;
  if (const auto* ok = from->res.template get<NFS_OK>())
    out.res.template emplace<NFS3_OK>() = tell(*ok);
  else
    (void)out.res.select(to3(from->res.tag()));
  out.sends = from->sends;
  if (from->reply) out.reply.emplace(std::move(*from->reply));
  return out;
}

/// Translates a success that has no values in NFSv3's form.
template <class P, class Q>
Result<Answer<P>> done(Result<Answer<Q>> from) {
  using Ok = std::remove_cvref_t<decltype(std::declval<typename P::Res&>().template emplace<NFS3_OK>())>;
  return translated<P>(std::move(from), [](const auto&) { return Ok(); });
}

/// Returns the bits of ACCESS that the mode grants to the caller.
std::uint32_t granted(const fattr& object, const Caller& caller) {
  constexpr unsigned kRead = 4, kWrite = 2, kExecute = 1;
  unsigned rights = object.mode & 7U;
  const bool owns_group = caller && (object.gid == caller->gid ||
                                     std::ranges::find(caller->groups, object.gid) != caller->groups.end());
  if (!caller || caller->uid == 0) {
    const bool runs = object.type == NFDIR || (object.mode & 0111U) != 0;
    rights = kRead | kWrite | (runs || !caller ? kExecute : 0);
  } else if (object.uid == caller->uid) {
    rights = (object.mode >> 6U) & 7U;
  } else if (owns_group) {
    rights = (object.mode >> 3U) & 7U;
  }
  const bool directory = object.type == NFDIR;
  std::uint32_t out = 0;
  if ((rights & kRead) != 0) out |= ACCESS3_READ;
  if ((rights & kWrite) != 0) out |= ACCESS3_MODIFY | ACCESS3_EXTEND | (directory ? ACCESS3_DELETE : 0);
  if ((rights & kExecute) != 0) out |= directory ? ACCESS3_LOOKUP : ACCESS3_EXECUTE;
  return out;
}

made3resok made(const diropok& ok) {
  made3resok out;
  out.obj = to3(ok.file);
  out.obj_attributes = to3(ok.attributes);
  return out;
}

}  // namespace

template <class P>
async::Task<Result<Answer<P>>> Translation::ask(Caller caller, typename P::Args args, Room into) {
  const reply_sizing::ResultSize size = reply_sizing::result2<P>(args);
  return calls_.call<P>(std::move(caller), std::move(args), into, size);
}

Translation::Answered<nfs3::proc::NULL3> Translation::call(Caller caller, xdr::Void args, Room /*into*/) {
  auto answer = co_await ask<proc::NULL2>(std::move(caller), args);
  if (!answer) co_return answer.error();
  co_return Answer<nfs3::proc::NULL3>();
}

// ---- attributes ----

Translation::Answered<nfs3::proc::GETATTR> Translation::call(Caller caller, GETATTR3args args,
                                                             Room /*into*/) {
  auto answer = co_await ask<proc::GETATTR>(std::move(caller), to2(args.object));
  co_return translated<nfs3::proc::GETATTR>(std::move(answer),
                                            [](const fattr& ok) { return GETATTR3resok{to3(ok)}; });
}

Translation::Answered<nfs3::proc::SETATTR> Translation::call(Caller caller, SETATTR3args args,
                                                             Room /*into*/) {
  const std::uint64_t size = args.new_attributes.size.value_or(0);
  if (size > kLargestFile) co_return refusal<nfs3::proc::SETATTR>(NFS3ERR_FBIG);
  sattrargs wanted;
  wanted.file = to2(args.object);
  wanted.attributes = to2(args.new_attributes);
  auto answer = co_await ask<proc::SETATTR>(std::move(caller), wanted);
  co_return translated<nfs3::proc::SETATTR>(std::move(answer), [](const fattr& ok) {
    SETATTR3resok out;
    out.obj_wcc.after = to3(ok);
    return out;
  });
}

Translation::Answered<nfs3::proc::ACCESS> Translation::call(Caller caller, ACCESS3args args, Room /*into*/) {
  auto answer = co_await ask<proc::GETATTR>(caller, to2(args.object));
  co_return translated<nfs3::proc::ACCESS>(std::move(answer), [&](const fattr& ok) {
    return ACCESS3resok{to3(ok), granted(ok, caller) & args.access};
  });
}

// ---- names ----

Translation::Answered<nfs3::proc::LOOKUP> Translation::call(Caller caller, LOOKUP3args args, Room /*into*/) {
  if (!fits(args.what)) co_return refusal<nfs3::proc::LOOKUP>(NFS3ERR_NAMETOOLONG);
  diropargs what = to2(args.what);
  auto answer = co_await ask<proc::LOOKUP>(std::move(caller), std::move(what));
  co_return translated<nfs3::proc::LOOKUP>(std::move(answer), [](const diropok& ok) {
    return LOOKUP3resok{to3(ok.file), to3(ok.attributes), {}};
  });
}

/// Sends a LOOKUP and returns its status.
async::Task<Result<nfsstat>> Translation::look_up(Caller caller, diropargs place) {
  auto answer = co_await ask<proc::LOOKUP>(std::move(caller), std::move(place));
  if (!answer) co_return answer.error();
  co_return answer->res.tag();
}

/// Makes a file or node unless the name exists. CREATE alone would change an existing file.
template <class P>
Translation::Answered<P> Translation::make(Caller caller, createargs args) {
  auto there = co_await look_up(caller, args.where);
  if (!there) co_return there.error();
  if (*there == NFS_OK) co_return refusal<P>(NFS3ERR_EXIST);
  if (*there != NFSERR_NOENT) co_return refusal<P>(to3(*there));
  auto answer = co_await ask<proc::CREATE>(std::move(caller), std::move(args));
  co_return translated<P>(std::move(answer), made);
}

Translation::Answered<nfs3::proc::CREATE> Translation::call(Caller caller, CREATE3args args, Room /*into*/) {
  using P = nfs3::proc::CREATE;
  if (!fits(args.where)) co_return refusal<P>(NFS3ERR_NAMETOOLONG);
  const sattr3* guarded = args.how.get<GUARDED>();
  const sattr3* wanted = guarded != nullptr ? guarded : args.how.get<UNCHECKED>();
  if (wanted == nullptr) co_return refusal<P>(NFS3ERR_NOTSUPP);
  createargs made_of;
  made_of.where = to2(args.where);
  made_of.attributes = to2(*wanted);
  if (wanted->mode) made_of.attributes.mode |= S_IFREG;
  if (guarded != nullptr) co_return co_await make<P>(std::move(caller), std::move(made_of));
  auto answer = co_await ask<proc::CREATE>(std::move(caller), std::move(made_of));
  co_return translated<P>(std::move(answer), made);
}

Translation::Answered<nfs3::proc::MKNOD> Translation::call(Caller caller, MKNOD3args args, Room /*into*/) {
  using P = nfs3::proc::MKNOD;
  if (!fits(args.where)) co_return refusal<P>(NFS3ERR_NAMETOOLONG);
  createargs made_of;
  made_of.where = to2(args.where);
  const bool character = args.what.tag() == NF3CHR;
  const devicedata3* device = character ? args.what.get<NF3CHR>() : args.what.get<NF3BLK>();
  const sattr3* plain = args.what.get<NF3FIFO>();
  if (plain == nullptr) plain = args.what.get<NF3SOCK>();
  if (device != nullptr) {
    made_of.attributes = to2(device->dev_attributes);
    made_of.attributes.size = number_of(device->spec);
  } else if (plain != nullptr) {
    made_of.attributes = to2(*plain);
  } else {
    co_return refusal<P>(NFS3ERR_BADTYPE);
  }
  // A fifo is made as a character device without a number.
  std::uint32_t type = S_IFCHR;
  if (args.what.tag() == NF3BLK) type = S_IFBLK;
  if (args.what.tag() == NF3SOCK) type = S_IFSOCK;
  const std::uint32_t mode = made_of.attributes.mode == kNotSet ? 0600 : made_of.attributes.mode;
  made_of.attributes.mode = type | (mode & 07777U);
  co_return co_await make<P>(std::move(caller), std::move(made_of));
}

Translation::Answered<nfs3::proc::MKDIR> Translation::call(Caller caller, MKDIR3args args, Room /*into*/) {
  if (!fits(args.where)) co_return refusal<nfs3::proc::MKDIR>(NFS3ERR_NAMETOOLONG);
  createargs made_of;
  made_of.where = to2(args.where);
  made_of.attributes = to2(args.attributes);
  if (args.attributes.mode) made_of.attributes.mode |= S_IFDIR;
  auto answer = co_await ask<proc::MKDIR>(std::move(caller), std::move(made_of));
  co_return translated<nfs3::proc::MKDIR>(std::move(answer), made);
}

Translation::Answered<nfs3::proc::SYMLINK> Translation::call(Caller caller, SYMLINK3args args,
                                                             Room /*into*/) {
  using P = nfs3::proc::SYMLINK;
  const bool too_long = args.symlink.symlink_data.data.size() > MAXPATHLEN;
  if (too_long || !fits(args.where)) co_return refusal<P>(NFS3ERR_NAMETOOLONG);
  symlinkargs made_of;
  made_of.from = to2(args.where);
  made_of.to.data = args.symlink.symlink_data.data;
  made_of.attributes = to2(args.symlink.symlink_attributes);
  if (made_of.attributes.mode == kNotSet) made_of.attributes.mode = 0777;
  auto answer = co_await ask<proc::SYMLINK>(std::move(caller), std::move(made_of));
  co_return done<P>(std::move(answer));
}

Translation::Answered<nfs3::proc::REMOVE> Translation::call(Caller caller, REMOVE3args args, Room /*into*/) {
  if (!fits(args.object)) co_return refusal<nfs3::proc::REMOVE>(NFS3ERR_NAMETOOLONG);
  diropargs object = to2(args.object);
  auto answer = co_await ask<proc::REMOVE>(std::move(caller), std::move(object));
  co_return done<nfs3::proc::REMOVE>(std::move(answer));
}

Translation::Answered<nfs3::proc::RMDIR> Translation::call(Caller caller, RMDIR3args args, Room /*into*/) {
  if (!fits(args.object)) co_return refusal<nfs3::proc::RMDIR>(NFS3ERR_NAMETOOLONG);
  diropargs object = to2(args.object);
  auto answer = co_await ask<proc::RMDIR>(std::move(caller), std::move(object));
  co_return done<nfs3::proc::RMDIR>(std::move(answer));
}

Translation::Answered<nfs3::proc::RENAME> Translation::call(Caller caller, RENAME3args args, Room /*into*/) {
  const bool both_fit = fits(args.from) && fits(args.to);
  if (!both_fit) co_return refusal<nfs3::proc::RENAME>(NFS3ERR_NAMETOOLONG);
  renameargs moved;
  moved.from = to2(args.from);
  moved.to = to2(args.to);
  auto answer = co_await ask<proc::RENAME>(std::move(caller), std::move(moved));
  co_return done<nfs3::proc::RENAME>(std::move(answer));
}

Translation::Answered<nfs3::proc::LINK> Translation::call(Caller caller, LINK3args args, Room /*into*/) {
  if (!fits(args.link)) co_return refusal<nfs3::proc::LINK>(NFS3ERR_NAMETOOLONG);
  linkargs wanted;
  wanted.from = to2(args.file);
  wanted.to = to2(args.link);
  auto answer = co_await ask<proc::LINK>(std::move(caller), std::move(wanted));
  co_return done<nfs3::proc::LINK>(std::move(answer));
}

Translation::Answered<nfs3::proc::READDIR> Translation::call(Caller caller, READDIR3args args,
                                                             Room /*into*/) {
  readdirargs wanted;
  wanted.dir = to2(args.dir);
  wanted.cookie = static_cast<std::uint32_t>(args.cookie);
  wanted.count = std::min(args.count, MAXDATA);
  auto answer = co_await ask<proc::READDIR>(std::move(caller), wanted);
  co_return translated<nfs3::proc::READDIR>(std::move(answer), [](const readdirok& ok) {
    READDIR3resok out;
    out.eof = ok.eof;
    out.entries.value.reserve(ok.entries.value.size());
    for (const entry& one : ok.entries.value)
      out.entries.value.push_back({one.fileid, {one.name.value}, one.cookie});
    return out;
  });
}

Translation::Answered<nfs3::proc::READDIRPLUS> Translation::call(Caller /*caller*/, READDIRPLUS3args /*args*/,
                                                                 Room /*into*/) {
  co_return refusal<nfs3::proc::READDIRPLUS>(NFS3ERR_NOTSUPP);
}

// ---- data ----

Translation::Answered<nfs3::proc::READLINK> Translation::call(Caller caller, READLINK3args args, Room into) {
  auto answer = co_await ask<proc::READLINK>(std::move(caller), to2(args.symlink), into);
  co_return translated<nfs3::proc::READLINK>(std::move(answer), [](const reducible_path& ok) {
    READLINK3resok out;
    out.data.data = ok.data;
    return out;
  });
}

/// Reads at most MAXDATA bytes. The end of the file is where its attributes say, or where no bytes are
/// returned.
Translation::Answered<nfs3::proc::READ> Translation::call(Caller caller, READ3args args, Room into) {
  if (args.offset > kLargestFile) {
    Answer<nfs3::proc::READ> behind;
    behind.res.emplace<NFS3_OK>().eof = true;
    co_return std::move(behind);
  }
  readargs wanted;
  wanted.file = to2(args.file);
  wanted.offset = static_cast<std::uint32_t>(args.offset);
  wanted.count = std::min(args.count, MAXDATA);
  const Room room = into.first(std::min<std::size_t>(into.size(), wanted.count));
  auto answer = co_await ask<proc::READ>(std::move(caller), wanted, room);
  co_return translated<nfs3::proc::READ>(std::move(answer), [&](const readok& ok) {
    READ3resok out;
    out.file_attributes = to3(ok.attributes);
    out.count = static_cast<count3>(ok.data.data.size());
    out.eof = out.count == 0 || args.offset + out.count >= ok.attributes.size;
    out.data.data = ok.data.data;
    return out;
  });
}

Translation::Answered<nfs3::proc::WRITE> Translation::call(Caller caller, WRITE3args args, Room /*into*/) {
  const std::size_t count = std::min<std::size_t>(args.data.data.size(), MAXDATA);
  if (args.offset > kLargestFile || count > kLargestFile - args.offset)
    co_return refusal<nfs3::proc::WRITE>(NFS3ERR_FBIG);
  writeargs wanted;
  wanted.file = to2(args.file);
  wanted.beginoffset = wanted.offset = static_cast<std::uint32_t>(args.offset);
  wanted.totalcount = static_cast<std::uint32_t>(count);
  wanted.data.data = args.data.data.first(count);
  auto answer = co_await ask<proc::WRITE>(std::move(caller), wanted);
  co_return translated<nfs3::proc::WRITE>(std::move(answer), [count](const fattr& ok) {
    WRITE3resok out;
    out.file_wcc.after = to3(ok);
    out.count = static_cast<count3>(count);
    out.committed = FILE_SYNC;
    return out;
  });
}

Translation::Answered<nfs3::proc::COMMIT> Translation::call(Caller /*caller*/, COMMIT3args /*args*/,
                                                            Room /*into*/) {
  Answer<nfs3::proc::COMMIT> out;
  (void)out.res.emplace<NFS3_OK>();
  co_return std::move(out);
}

// ---- access control lists ----

Translation::Answered<nfs3::proc::GETACL> Translation::call_acl(Caller caller, GETACL3args args,
                                                                std::uint64_t room) {
  const reply_sizing::ResultSize size = reply_sizing::acl_result<proc::GETACL>(room);
  const GETACL2args wanted{to2(args.object), args.mask};
  auto answer = co_await calls_.call<proc::GETACL>(std::move(caller), wanted, {}, size);
  co_return translated<nfs3::proc::GETACL>(std::move(answer), [](const GETACL2resok& ok) {
    GETACL3resok out;
    out.obj_attributes = to3(ok.attributes);
    out.acl = ok.acl;
    return out;
  });
}

Translation::Answered<nfs3::proc::SETACL> Translation::call_acl(Caller caller, SETACL3args args,
                                                                std::uint64_t room) {
  const reply_sizing::ResultSize size = reply_sizing::acl_result<proc::SETACL>(room);
  SETACL2args wanted;
  wanted.object = to2(args.object);
  wanted.acl = std::move(args.acl);
  auto answer = co_await calls_.call<proc::SETACL>(std::move(caller), std::move(wanted), {}, size);
  co_return translated<nfs3::proc::SETACL>(std::move(answer),
                                           [](const fattr& ok) { return SETACL3resok{to3(ok)}; });
}

// ---- file systems ----

Translation::Answered<nfs3::proc::FSSTAT> Translation::call(Caller caller, FSSTAT3args args, Room /*into*/) {
  auto answer = co_await ask<proc::STATFS>(std::move(caller), to2(args.fsroot));
  co_return translated<nfs3::proc::FSSTAT>(std::move(answer), [](const info& ok) {
    const std::uint64_t block = ok.bsize;
    FSSTAT3resok out;
    out.tbytes = ok.blocks * block;
    out.fbytes = ok.bfree * block;
    out.abytes = ok.bavail * block;
    return out;
  });
}

Translation::Answered<nfs3::proc::FSINFO> Translation::call(Caller /*caller*/, FSINFO3args /*args*/,
                                                            Room /*into*/) {
  Answer<nfs3::proc::FSINFO> out;
  FSINFO3resok& ok = out.res.emplace<NFS3_OK>();
  ok.rtmax = ok.rtpref = ok.wtmax = ok.wtpref = ok.dtpref = MAXDATA;
  ok.rtmult = ok.wtmult = 512;
  ok.maxfilesize = kLargestFile;
  ok.time_delta = {0, 1000};
  ok.properties = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
  co_return std::move(out);
}

Translation::Answered<nfs3::proc::PATHCONF> Translation::call(Caller /*caller*/, PATHCONF3args /*args*/,
                                                              Room /*into*/) {
  Answer<nfs3::proc::PATHCONF> out;
  PATHCONF3resok& ok = out.res.emplace<NFS3_OK>();
  ok.name_max = static_cast<std::uint32_t>(MAXNAMLEN);
  ok.no_trunc = ok.chown_restricted = ok.case_preserving = true;
  co_return std::move(out);
}

}  // namespace nfsrdma::nfs2
