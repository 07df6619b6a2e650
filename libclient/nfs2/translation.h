// NFSv3's procedures for a server of NFSv2 (RFC 1094). Each is translated into procedures of NFSv2, and its
// answer has what that server reports. The layers above need to know one version less.
//
//     Translation translation(calls);
//     // as ProcedureCalls::call<GETATTR>
//     auto answer = co_await translation.call(caller, GETATTR3args{…});
//
// NFSv2 lacks the following:
//   ACCESS          is judged by the mode, as Linux does it. A caller without an identity is granted
//                   everything, and the server may refuse later
//   CREATE GUARDED, MKNOD   are preceded by a LOOKUP. Between the two another client may take the name
//   CREATE EXCLUSIVE, READDIRPLUS   return NOTSUPP, and the layers above do it in another way
//   WRITE           is always stable, so COMMIT has nothing to do
//   FSINFO, PATHCONF   return constants: 8 KiB at once, files of 2 GiB less a byte, names of 255 octets
//   times           are set to the microsecond. The server's own time is set only for both at once; one of
//                   them alone is set to this client's time
//   attributes of directories after a change   are not returned
//
// Confined to the loop's thread. The ProcedureCalls must outlive it.
#pragma once

#include <span>

#include "calling/procedure_calls.h"
#include "wire/nfs2/acl.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::nfs2 {

using calling::Answer;
using security::Caller;

class Translation {
 public:
  template <class P>
  using Answered = async::Task<Result<Answer<P>>>;
  using Room = std::span<std::byte>;

  explicit Translation(calling::ProcedureCalls& calls) : calls_(calls) {}

  /// `into`: memory that READ's data is placed in.
  Answered<nfs3::proc::NULL3> call(Caller caller, xdr::Void args, Room into = {});
  Answered<nfs3::proc::GETATTR> call(Caller caller, nfs3::GETATTR3args args, Room into = {});
  Answered<nfs3::proc::SETATTR> call(Caller caller, nfs3::SETATTR3args args, Room into = {});
  Answered<nfs3::proc::LOOKUP> call(Caller caller, nfs3::LOOKUP3args args, Room into = {});
  Answered<nfs3::proc::ACCESS> call(Caller caller, nfs3::ACCESS3args args, Room into = {});
  Answered<nfs3::proc::READLINK> call(Caller caller, nfs3::READLINK3args args, Room into = {});
  Answered<nfs3::proc::READ> call(Caller caller, nfs3::READ3args args, Room into = {});
  Answered<nfs3::proc::WRITE> call(Caller caller, nfs3::WRITE3args args, Room into = {});
  Answered<nfs3::proc::CREATE> call(Caller caller, nfs3::CREATE3args args, Room into = {});
  Answered<nfs3::proc::MKDIR> call(Caller caller, nfs3::MKDIR3args args, Room into = {});
  Answered<nfs3::proc::SYMLINK> call(Caller caller, nfs3::SYMLINK3args args, Room into = {});
  Answered<nfs3::proc::MKNOD> call(Caller caller, nfs3::MKNOD3args args, Room into = {});
  Answered<nfs3::proc::REMOVE> call(Caller caller, nfs3::REMOVE3args args, Room into = {});
  Answered<nfs3::proc::RMDIR> call(Caller caller, nfs3::RMDIR3args args, Room into = {});
  Answered<nfs3::proc::RENAME> call(Caller caller, nfs3::RENAME3args args, Room into = {});
  Answered<nfs3::proc::LINK> call(Caller caller, nfs3::LINK3args args, Room into = {});
  Answered<nfs3::proc::READDIR> call(Caller caller, nfs3::READDIR3args args, Room into = {});
  Answered<nfs3::proc::READDIRPLUS> call(Caller caller, nfs3::READDIRPLUS3args args, Room into = {});
  Answered<nfs3::proc::FSSTAT> call(Caller caller, nfs3::FSSTAT3args args, Room into = {});
  Answered<nfs3::proc::FSINFO> call(Caller caller, nfs3::FSINFO3args args, Room into = {});
  Answered<nfs3::proc::PATHCONF> call(Caller caller, nfs3::PATHCONF3args args, Room into = {});
  Answered<nfs3::proc::COMMIT> call(Caller caller, nfs3::COMMIT3args args, Room into = {});

  /// Procedures of NFSACL. `room`: number of octets provided for the results.
  Answered<nfs3::proc::GETACL> call_acl(Caller caller, nfs3::GETACL3args args, std::uint64_t room);
  Answered<nfs3::proc::SETACL> call_acl(Caller caller, nfs3::SETACL3args args, std::uint64_t room);

 private:
  template <class P>
  async::Task<Result<Answer<P>>> ask(Caller caller, typename P::Args args, Room into = {});
  async::Task<Result<nfsstat>> look_up(Caller caller, diropargs place);
  template <class P>
  Answered<P> make(Caller caller, createargs args);

  calling::ProcedureCalls& calls_;
};

}  // namespace nfsrdma::nfs2
