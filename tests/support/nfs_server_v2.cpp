// The test server's NFSv2 (RFC 1094): each call is put into the words of NFSv3, executed, and its answer put back.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "support/nfs_server_state.h"
#include "wire/nfs2/acl.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::testing {
namespace {

namespace n2 = nfs2;
namespace n3 = nfs3;

/// The model's own handles, and zeros behind them.
n3::nfs_fh3 up(const n2::fhandle& handle) {
  n3::nfs_fh3 out;
  out.length = handle_of(1).length;
  std::copy_n(handle.begin(), out.length, out.bytes.begin());
  return out;
}
n2::fhandle down(const n3::nfs_fh3& handle) {
  n2::fhandle out{};
  std::copy_n(handle.bytes.begin(), handle.length, out.begin());
  return out;
}

n3::diropargs3 up(const n2::diropargs& place) {
  n3::diropargs3 out;
  out.dir = up(place.dir);
  out.name.value = place.name.value;
  return out;
}

n3::set_time3 time_up(const n2::timeval& time, bool servers) {
  n3::set_time3 out;
  if (servers)
    (void)out.select(n3::SET_TO_SERVER_TIME);
  else if (time.seconds != n2::kNotSet)
    out.emplace<n3::SET_TO_CLIENT_TIME>() = {time.seconds, time.useconds * 1000};
  return out;
}

n3::sattr3 up(const n2::sattr& from) {
  n3::sattr3 out;
  if (from.mode != n2::kNotSet) out.mode = from.mode & 07777U;
  if (from.uid != n2::kNotSet) out.uid = from.uid;
  if (from.gid != n2::kNotSet) out.gid = from.gid;
  if (from.size != n2::kNotSet) out.size = from.size;
  const bool servers = from.mtime.useconds == n2::kServersTime;
  out.atime = time_up(from.atime, servers);
  out.mtime = time_up(from.mtime, servers);
  return out;
}

n2::timeval down(const n3::nfstime3& time) {
  return {time.seconds, time.nseconds / 1000};
}

n2::fattr down(const n3::fattr3& from) {
  static constexpr std::pair<n3::ftype3, std::pair<n2::ftype, std::uint32_t>> kTypes[] = {
      {n3::NF3REG, {n2::NFREG, S_IFREG}},  {n3::NF3DIR, {n2::NFDIR, S_IFDIR}},
      {n3::NF3BLK, {n2::NFBLK, S_IFBLK}},  {n3::NF3CHR, {n2::NFCHR, S_IFCHR}},
      {n3::NF3LNK, {n2::NFLNK, S_IFLNK}},  {n3::NF3SOCK, {n2::NFSOCK, S_IFSOCK}},
      {n3::NF3FIFO, {n2::NFCHR, S_IFIFO}},
  };
  const auto* type = std::ranges::find_if(kTypes, [&](const auto& one) { return one.first == from.type; });
  n2::fattr out;
  out.type = type->second.first;
  out.mode = from.mode | type->second.second;
  out.nlink = from.nlink;
  out.uid = from.uid;
  out.gid = from.gid;
  out.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(from.size, n2::kLargestFile));
  out.blocksize = 4096;
  out.rdev = n2::kNotSet;
  const bool device = from.type == n3::NF3BLK || from.type == n3::NF3CHR;
  if (device) out.rdev = (from.rdev.specdata1 << 8U) | (from.rdev.specdata2 & 0xffU);
  out.blocks = static_cast<std::uint32_t>((from.used + 511) / 512);
  out.fsid = static_cast<std::uint32_t>(from.fsid);
  out.fileid = static_cast<std::uint32_t>(from.fileid);
  out.atime = down(from.atime);
  out.mtime = down(from.mtime);
  out.ctime = down(from.ctime);
  return out;
}

n2::diropok down(const n3::made3resok& from) {
  return {down(*from.obj), down(*from.obj_attributes)};
}

/// What NFSv2's numbers are among those of NFSv3.
constexpr std::array<std::uint32_t, 18> kThere{0, 1, 2, 0, 3, 5, 6, 0, 7, 8, 12, 14, 15, 10, 9, 13, 16, 18};

/// Behind the procedures of NFSv2, those of NFSACL.
using Served2 = decltype(std::tuple_cat(n2::proc::All(), std::tuple<n2::proc::GETACL, n2::proc::SETACL>()));

}  // namespace

std::uint32_t ServerState::as_version3(std::uint32_t procedure) {
  if (procedure < kVersion2) return procedure;
  const std::uint32_t number = procedure - kVersion2;
  if (number > kNfsacl) return number;
  return number < kThere.size() ? kThere[number] : ~0U;
}

/// One call: Q of NFSv2, by P of NFSv3.
struct ServerState::Run2 {
  ServerState& server;
  Execution& at;

  /// Executes P with `args`, and gives its result.
  template <class P>
  typename P::Res by(const typename P::Args& args) const {
    xdr::Message call;
    xdr::Encoder out(call);
    xdr::encode(out, args);
    const Octets body = flattened(call);
    at.in = xdr::Decoder(body);
    at.procedure = P::number;
    // It has no words for what these make of an answer.
    const auto grace = std::exchange(server.grace_until, {});
    const unsigned untold = std::exchange(server.habits.untold_percent, 0);
    const bool checks = std::exchange(server.habits.checks_cookie_verifier, false);
    if (!server.procedure3<P>(at)) server.problem("a call of NFSv2 that NFSv3 has no words for");
    server.grace_until = grace;
    server.habits.untold_percent = untold;
    server.habits.checks_cookie_verifier = checks;
    const Octets answer = flattened(at.answer->message);
    // What is read of it as views stays where it is for as long as the answer.
    const std::string& kept =
        at.answer->storage.emplace_back(reinterpret_cast<const char*>(answer.data()), answer.size());
    at.answer->message = xdr::Message();
    typename P::Res res{};
    xdr::Decoder in(std::as_bytes(std::span(kept)));
    if (!xdr::decode(in, res)) server.problem("an answer of NFSv3's that cannot be read");
    return res;
  }

  template <class Res, class Res3, class Tell>
  void tell(const Res3& from, Tell tell) const {
    Res res;
    if (const auto* ok = from.template get<n3::NFS3_OK>()) {
      res.template emplace<n2::NFS_OK>() = tell(*ok);
    } else {
      if (from.tag() == n3::NFS3ERR_JUKEBOX) server.problem("NFSv2 has no way to ask for patience");
      (void)res.select(static_cast<n2::nfsstat>(from.tag() > 99 ? n3::NFS3ERR_IO : from.tag()));
    }
    xdr::Encoder out(at.answer->message);
    xdr::encode(out, res);
  }
  template <class Res3>
  void tell_status(const Res3& from) const {
    tell<n2::statres>(from, [](const auto&) { return xdr::Void(); });
  }
  n2::fattr attributes_of(const n3::nfs_fh3& handle) const {
    const auto now = by<n3::proc::GETATTR>({handle});
    const auto* ok = now.get<n3::NFS3_OK>();
    return ok != nullptr ? down(ok->obj_attributes) : n2::fattr();
  }

  void run(n2::proc::NULL2, const xdr::Void& /*args*/) const {}
  void run(n2::proc::GETATTR, const n2::fhandle& args) const {
    tell<n2::attrstat>(by<n3::proc::GETATTR>({up(args)}),
                       [](const auto& ok) { return down(ok.obj_attributes); });
  }
  void run(n2::proc::SETATTR, const n2::sattrargs& args) const {
    tell<n2::attrstat>(by<n3::proc::SETATTR>({up(args.file), up(args.attributes), {}}),
                       [](const auto& ok) { return down(*ok.obj_wcc.after); });
  }
  void run(n2::proc::LOOKUP, const n2::diropargs& args) const {
    tell<n2::diropres>(by<n3::proc::LOOKUP>({up(args)}),
                       [](const auto& ok) { return n2::diropok{down(ok.object), down(*ok.obj_attributes)}; });
  }
  void run(n2::proc::READLINK, const n2::fhandle& args) const {
    tell<n2::readlinkres>(by<n3::proc::READLINK>({up(args)}),
                          [](const auto& ok) { return n2::reducible_path{ok.data.data}; });
  }
  void run(n2::proc::READ, const n2::readargs& args) const {
    if (args.count > n2::MAXDATA) server.problem("a READ of more than 8 KiB");
    tell<n2::readres>(by<n3::proc::READ>({up(args.file), args.offset, args.count}), [](const auto& ok) {
      n2::readok out;
      out.attributes = down(*ok.file_attributes);
      out.data.data = ok.data.data;
      return out;
    });
  }
  void run(n2::proc::WRITE, const n2::writeargs& args) const {
    n3::WRITE3args write;
    write.file = up(args.file);
    write.offset = args.offset;
    write.count = static_cast<n3::count3>(args.data.data.size());
    write.stable = n3::FILE_SYNC;
    write.data.data = args.data.data;
    const std::uint32_t whole =
        std::exchange(server.habits.short_writes, ~0U);  // it cannot say that it is less
    const auto written = by<n3::proc::WRITE>(write);
    server.habits.short_writes = whole;
    const auto* ok = written.get<n3::NFS3_OK>();
    if (ok != nullptr && ok->count != write.count) {
      // A disk that is full.
      n3::WRITE3res full;
      (void)full.select(n3::NFS3ERR_NOSPC);
      return tell<n2::attrstat>(full, [](const auto& told) { return down(*told.file_wcc.after); });
    }
    tell<n2::attrstat>(written, [](const auto& told) { return down(*told.file_wcc.after); });
  }
  void run(n2::proc::CREATE, const n2::createargs& args) const {
    const std::uint32_t type = args.attributes.mode == n2::kNotSet ? 0 : args.attributes.mode & S_IFMT;
    if (type == 0 || type == S_IFREG) {
      n3::CREATE3args create{up(args.where), {}};
      create.how.emplace<n3::UNCHECKED>() = up(args.attributes);
      return tell<n2::diropres>(by<n3::proc::CREATE>(create), [](const auto& ok) { return down(ok); });
    }
    n3::MKNOD3args node{up(args.where), {}};
    n3::sattr3 attributes = up(args.attributes);
    attributes.size.reset();
    const std::uint32_t number = args.attributes.size;
    const n3::devicedata3 device{attributes, {number >> 8U, number & 0xffU}};
    if (type == S_IFSOCK)
      node.what.emplace<n3::NF3SOCK>() = attributes;
    else if (number == n2::kNotSet)
      node.what.emplace<n3::NF3FIFO>() = attributes;
    else if (type == S_IFCHR)
      node.what.emplace<n3::NF3CHR>() = device;
    else
      node.what.emplace<n3::NF3BLK>() = device;
    tell<n2::diropres>(by<n3::proc::MKNOD>(node), [](const auto& ok) { return down(ok); });
  }
  void run(n2::proc::MKDIR, const n2::createargs& args) const {
    tell<n2::diropres>(by<n3::proc::MKDIR>({up(args.where), up(args.attributes)}),
                       [](const auto& ok) { return down(ok); });
  }
  void run(n2::proc::SYMLINK, const n2::symlinkargs& args) const {
    n3::SYMLINK3args link{up(args.from), {up(args.attributes), {args.to.data}}};
    tell_status(by<n3::proc::SYMLINK>(link));
  }
  void run(n2::proc::REMOVE, const n2::diropargs& args) const {
    tell_status(by<n3::proc::REMOVE>({up(args)}));
  }
  void run(n2::proc::RMDIR, const n2::diropargs& args) const { tell_status(by<n3::proc::RMDIR>({up(args)})); }
  void run(n2::proc::RENAME, const n2::renameargs& args) const {
    tell_status(by<n3::proc::RENAME>({up(args.from), up(args.to)}));
  }
  void run(n2::proc::LINK, const n2::linkargs& args) const {
    tell_status(by<n3::proc::LINK>({up(args.from), up(args.to)}));
  }
  void run(n2::proc::READDIR, const n2::readdirargs& args) const {
    if (args.count > n2::MAXDATA) server.problem("a READDIR of more than 8 KiB");
    // Two words shorter in each entry, and nothing but the list: what fits there fits here.
    tell<n2::readdirres>(by<n3::proc::READDIR>({up(args.dir), args.cookie, {}, args.count}),
                         [](const auto& ok) {
                           n2::readdirok out;
                           out.eof = ok.eof;
                           for (const n3::entry3& one : ok.entries.value) {
                             out.entries.value.push_back({static_cast<std::uint32_t>(one.fileid),
                                                          {one.name.value},
                                                          static_cast<std::uint32_t>(one.cookie)});
                           }
                           return out;
                         });
  }
  void run(n2::proc::GETACL, const n2::GETACL2args& args) const {
    tell<n2::GETACL2res>(by<n3::proc::GETACL>({up(args.object), args.mask}),
                         [](const auto& ok) { return n2::GETACL2resok{down(*ok.obj_attributes), ok.acl}; });
  }
  void run(n2::proc::SETACL, const n2::SETACL2args& args) const {
    tell<n2::attrstat>(by<n3::proc::SETACL>({up(args.object), args.acl}),
                       [](const auto& ok) { return down(*ok.obj_attributes); });
  }
  void run(n2::proc::STATFS, const n2::fhandle& args) const {
    constexpr std::uint64_t kBlock = 4096;
    const auto blocks = [](std::uint64_t bytes) {
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kBlock, 0x7fffffff));
    };
    tell<n2::statfsres>(by<n3::proc::FSSTAT>({up(args)}), [&](const auto& ok) {
      return n2::info{n2::MAXDATA, kBlock, blocks(ok.tbytes), blocks(ok.fbytes), blocks(ok.abytes)};
    });
  }
};

bool ServerState::procedure2(Execution& at) {
  const std::uint32_t number = *at.procedure - kVersion2;
  bool good = false;
  const auto run = [&]<class Q>(Q procedure) {
    constexpr bool kAcl = Q::program == n3::NFSACL_PROGRAM;
    if (Q::number + (kAcl ? kNfsacl : 0) != number) return;
    typename Q::Args args{};
    good = xdr::decode(at.in, args) && at.in.finish();
    if (good) Run2{*this, at}.run(procedure, args);
  };
  [&]<class... Q>(std::tuple<Q...>*) { (run(Q()), ...); }(static_cast<Served2*>(nullptr));
  return good;
}

}  // namespace nfsrdma::testing
