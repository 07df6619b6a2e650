// One struct per operation of NFSv4.0 to 4.2: its number, its name, its arguments' and results' types.
//
//   Encoder out(message);
//   encode(out, COMPOUND4args_head{.tag = {}, .minorversion = 1, .argarray_count = 2});
//   encode_op<op::SEQUENCE>(out, sequence);
//   encode_op<op::GETATTR>(out, getattr);
//   …
//   COMPOUND4res_head head;  SEQUENCE4res first;
//   if (!decode(in, head) || !decode_op<op::SEQUENCE>(in, first)) → in.fault()
//   if (status_of(first) != NFS4_OK) …
//
// kOperations has all operations of RFC 7530, 8881 and 7862. Operations that this client does not send are
// there only for their names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

/// Effect of executing an operation a second time.
enum class Repeat : std::uint8_t {
  idempotent,  ///< the operation only reads, or leads to the same state
  modifies,    ///< it may fail or do harm the second time: CREATE, REMOVE, RENAME, LOCK …
};

namespace op {

template <nfs_opnum4 Number, class ArgsType, class ResType, Repeat How>
struct Base {
  using Args = ArgsType;
  using Res = ResType;
  static constexpr nfs_opnum4 number = Number;
  static constexpr bool idempotent = How == Repeat::idempotent;
};
template <nfs_opnum4 Number, class Args, class Res>
using Idempotent = Base<Number, Args, Res, Repeat::idempotent>;
template <nfs_opnum4 Number, class Args, class Res>
using Modifies = Base<Number, Args, Res, Repeat::modifies>;
using xdr::Void;

// clang-format off
struct ACCESS : Idempotent<OP_ACCESS, ACCESS4args, ACCESS4res> { static constexpr const char* name = "ACCESS"; };
struct CLOSE : Modifies<OP_CLOSE, CLOSE4args, CLOSE4res> { static constexpr const char* name = "CLOSE"; };
struct COMMIT : Idempotent<OP_COMMIT, COMMIT4args, COMMIT4res> { static constexpr const char* name = "COMMIT"; };
struct CREATE : Modifies<OP_CREATE, CREATE4args, CREATE4res> { static constexpr const char* name = "CREATE"; };
struct DELEGRETURN : Modifies<OP_DELEGRETURN, DELEGRETURN4args, DELEGRETURN4res> { static constexpr const char* name = "DELEGRETURN"; };
struct GETATTR : Idempotent<OP_GETATTR, GETATTR4args, GETATTR4res> { static constexpr const char* name = "GETATTR"; };
struct GETFH : Idempotent<OP_GETFH, Void, GETFH4res> { static constexpr const char* name = "GETFH"; };
struct LINK : Modifies<OP_LINK, LINK4args, LINK4res> { static constexpr const char* name = "LINK"; };
struct LOCK : Modifies<OP_LOCK, LOCK4args, LOCK4res> { static constexpr const char* name = "LOCK"; };
struct LOCKT : Idempotent<OP_LOCKT, LOCKT4args, LOCKT4res> { static constexpr const char* name = "LOCKT"; };
struct LOCKU : Modifies<OP_LOCKU, LOCKU4args, LOCKU4res> { static constexpr const char* name = "LOCKU"; };
struct LOOKUP : Idempotent<OP_LOOKUP, LOOKUP4args, LOOKUP4res> { static constexpr const char* name = "LOOKUP"; };
struct LOOKUPP : Idempotent<OP_LOOKUPP, Void, LOOKUPP4res> { static constexpr const char* name = "LOOKUPP"; };
struct OPEN : Modifies<OP_OPEN, OPEN4args, OPEN4res> { static constexpr const char* name = "OPEN"; };
struct OPEN_DOWNGRADE : Modifies<OP_OPEN_DOWNGRADE, OPEN_DOWNGRADE4args, OPEN_DOWNGRADE4res> { static constexpr const char* name = "OPEN_DOWNGRADE"; };
struct PUTFH : Idempotent<OP_PUTFH, PUTFH4args, PUTFH4res> { static constexpr const char* name = "PUTFH"; };
struct PUTPUBFH : Idempotent<OP_PUTPUBFH, Void, PUTPUBFH4res> { static constexpr const char* name = "PUTPUBFH"; };
struct PUTROOTFH : Idempotent<OP_PUTROOTFH, Void, PUTROOTFH4res> { static constexpr const char* name = "PUTROOTFH"; };
struct READ : Idempotent<OP_READ, READ4args, READ4res> { static constexpr const char* name = "READ"; };
struct READDIR : Idempotent<OP_READDIR, READDIR4args, READDIR4res> { static constexpr const char* name = "READDIR"; };
struct READLINK : Idempotent<OP_READLINK, Void, READLINK4res> { static constexpr const char* name = "READLINK"; };
struct REMOVE : Modifies<OP_REMOVE, REMOVE4args, REMOVE4res> { static constexpr const char* name = "REMOVE"; };
struct RENAME : Modifies<OP_RENAME, RENAME4args, RENAME4res> { static constexpr const char* name = "RENAME"; };
struct RESTOREFH : Idempotent<OP_RESTOREFH, Void, RESTOREFH4res> { static constexpr const char* name = "RESTOREFH"; };
struct SAVEFH : Idempotent<OP_SAVEFH, Void, SAVEFH4res> { static constexpr const char* name = "SAVEFH"; };
struct SECINFO : Idempotent<OP_SECINFO, SECINFO4args, SECINFO4res> { static constexpr const char* name = "SECINFO"; };
struct SETATTR : Modifies<OP_SETATTR, SETATTR4args, SETATTR4res> { static constexpr const char* name = "SETATTR"; };
struct WRITE : Idempotent<OP_WRITE, WRITE4args, WRITE4res> { static constexpr const char* name = "WRITE"; };
struct BACKCHANNEL_CTL : Modifies<OP_BACKCHANNEL_CTL, BACKCHANNEL_CTL4args, BACKCHANNEL_CTL4res> { static constexpr const char* name = "BACKCHANNEL_CTL"; };
struct BIND_CONN_TO_SESSION : Idempotent<OP_BIND_CONN_TO_SESSION, BIND_CONN_TO_SESSION4args, BIND_CONN_TO_SESSION4res> { static constexpr const char* name = "BIND_CONN_TO_SESSION"; };
struct EXCHANGE_ID : Idempotent<OP_EXCHANGE_ID, EXCHANGE_ID4args, EXCHANGE_ID4res> { static constexpr const char* name = "EXCHANGE_ID"; };
struct CREATE_SESSION : Idempotent<OP_CREATE_SESSION, CREATE_SESSION4args, CREATE_SESSION4res> { static constexpr const char* name = "CREATE_SESSION"; };
struct DESTROY_SESSION : Modifies<OP_DESTROY_SESSION, DESTROY_SESSION4args, DESTROY_SESSION4res> { static constexpr const char* name = "DESTROY_SESSION"; };
struct FREE_STATEID : Modifies<OP_FREE_STATEID, FREE_STATEID4args, FREE_STATEID4res> { static constexpr const char* name = "FREE_STATEID"; };
struct SECINFO_NO_NAME : Idempotent<OP_SECINFO_NO_NAME, SECINFO_NO_NAME4args, SECINFO_NO_NAME4res> { static constexpr const char* name = "SECINFO_NO_NAME"; };
struct SEQUENCE : Idempotent<OP_SEQUENCE, SEQUENCE4args, SEQUENCE4res> { static constexpr const char* name = "SEQUENCE"; };
struct TEST_STATEID : Idempotent<OP_TEST_STATEID, TEST_STATEID4args, TEST_STATEID4res> { static constexpr const char* name = "TEST_STATEID"; };
struct DESTROY_CLIENTID : Modifies<OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args, DESTROY_CLIENTID4res> { static constexpr const char* name = "DESTROY_CLIENTID"; };
struct RECLAIM_COMPLETE : Modifies<OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args, RECLAIM_COMPLETE4res> { static constexpr const char* name = "RECLAIM_COMPLETE"; };
struct ALLOCATE : Idempotent<OP_ALLOCATE, ALLOCATE4args, ALLOCATE4res> { static constexpr const char* name = "ALLOCATE"; };
struct COPY : Modifies<OP_COPY, COPY4args, COPY4res> { static constexpr const char* name = "COPY"; };
struct DEALLOCATE : Idempotent<OP_DEALLOCATE, DEALLOCATE4args, DEALLOCATE4res> { static constexpr const char* name = "DEALLOCATE"; };
struct OFFLOAD_CANCEL : Modifies<OP_OFFLOAD_CANCEL, OFFLOAD_CANCEL4args, OFFLOAD_CANCEL4res> { static constexpr const char* name = "OFFLOAD_CANCEL"; };
struct OFFLOAD_STATUS : Idempotent<OP_OFFLOAD_STATUS, OFFLOAD_STATUS4args, OFFLOAD_STATUS4res> { static constexpr const char* name = "OFFLOAD_STATUS"; };
struct READ_PLUS : Idempotent<OP_READ_PLUS, READ_PLUS4args, READ_PLUS4res> { static constexpr const char* name = "READ_PLUS"; };
struct SEEK : Idempotent<OP_SEEK, SEEK4args, SEEK4res> { static constexpr const char* name = "SEEK"; };
struct CLONE : Modifies<OP_CLONE, CLONE4args, CLONE4res> { static constexpr const char* name = "CLONE"; };
struct GETXATTR : Idempotent<OP_GETXATTR, GETXATTR4args, GETXATTR4res> { static constexpr const char* name = "GETXATTR"; };
struct SETXATTR : Modifies<OP_SETXATTR, SETXATTR4args, SETXATTR4res> { static constexpr const char* name = "SETXATTR"; };
struct LISTXATTRS : Idempotent<OP_LISTXATTRS, LISTXATTRS4args, LISTXATTRS4res> { static constexpr const char* name = "LISTXATTRS"; };
struct REMOVEXATTR : Modifies<OP_REMOVEXATTR, REMOVEXATTR4args, REMOVEXATTR4res> { static constexpr const char* name = "REMOVEXATTR"; };
struct OPEN_CONFIRM : Modifies<OP_OPEN_CONFIRM, OPEN_CONFIRM4args, OPEN_CONFIRM4res> { static constexpr const char* name = "OPEN_CONFIRM"; };
struct RENEW : Idempotent<OP_RENEW, RENEW4args, RENEW4res> { static constexpr const char* name = "RENEW"; };
struct SETCLIENTID : Idempotent<OP_SETCLIENTID, SETCLIENTID4args, SETCLIENTID4res> { static constexpr const char* name = "SETCLIENTID"; };
struct SETCLIENTID_CONFIRM : Idempotent<OP_SETCLIENTID_CONFIRM, SETCLIENTID_CONFIRM4args, SETCLIENTID_CONFIRM4res> { static constexpr const char* name = "SETCLIENTID_CONFIRM"; };
struct RELEASE_LOCKOWNER : Modifies<OP_RELEASE_LOCKOWNER, RELEASE_LOCKOWNER4args, RELEASE_LOCKOWNER4res> { static constexpr const char* name = "RELEASE_LOCKOWNER"; };
// clang-format on

/// Every operation that has types, in the order of their numbers.
using All =
    std::tuple<ACCESS, CLOSE, COMMIT, CREATE, DELEGRETURN, GETATTR, GETFH, LINK, LOCK, LOCKT, LOCKU, LOOKUP,
               LOOKUPP, OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, PUTFH, PUTPUBFH, PUTROOTFH, READ, READDIR,
               READLINK, REMOVE, RENAME, RENEW, RESTOREFH, SAVEFH, SECINFO, SETATTR, SETCLIENTID,
               SETCLIENTID_CONFIRM, WRITE, RELEASE_LOCKOWNER, BACKCHANNEL_CTL, BIND_CONN_TO_SESSION,
               EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, FREE_STATEID, SECINFO_NO_NAME, SEQUENCE,
               TEST_STATEID, DESTROY_CLIENTID, RECLAIM_COMPLETE, ALLOCATE, COPY, DEALLOCATE, OFFLOAD_CANCEL,
               OFFLOAD_STATUS, READ_PLUS, SEEK, CLONE, GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR>;

}  // namespace op

// ---- the table ----

struct OperationRow {
  nfs_opnum4 number;
  std::string_view name;
  std::uint8_t first_minor;  ///< the minor version that introduced the operation
  /// The last minor version that has the operation. NFSv4.1 dropped those for NFSv4.0's client identifiers.
  std::uint8_t last_minor;
  Repeat repeat;
  bool typed;  ///< has a struct in namespace op
};

inline constexpr std::uint8_t kNewestMinor = 2;

/// All operations, in the order of their numbers, which start at 3 and have no gaps.
inline constexpr auto kOperations = [] {
  constexpr auto idem = Repeat::idempotent;
  constexpr auto mods = Repeat::modifies;
  return std::to_array<OperationRow>({
      {OP_ACCESS, "ACCESS", 0, 2, idem, true},
      {OP_CLOSE, "CLOSE", 0, 2, mods, true},
      {OP_COMMIT, "COMMIT", 0, 2, idem, true},
      {OP_CREATE, "CREATE", 0, 2, mods, true},
      {OP_DELEGPURGE, "DELEGPURGE", 0, 2, mods, false},
      {OP_DELEGRETURN, "DELEGRETURN", 0, 2, mods, true},
      {OP_GETATTR, "GETATTR", 0, 2, idem, true},
      {OP_GETFH, "GETFH", 0, 2, idem, true},
      {OP_LINK, "LINK", 0, 2, mods, true},
      {OP_LOCK, "LOCK", 0, 2, mods, true},
      {OP_LOCKT, "LOCKT", 0, 2, idem, true},
      {OP_LOCKU, "LOCKU", 0, 2, mods, true},
      {OP_LOOKUP, "LOOKUP", 0, 2, idem, true},
      {OP_LOOKUPP, "LOOKUPP", 0, 2, idem, true},
      {OP_NVERIFY, "NVERIFY", 0, 2, idem, false},
      {OP_OPEN, "OPEN", 0, 2, mods, true},
      {OP_OPENATTR, "OPENATTR", 0, 2, mods, false},
      {OP_OPEN_CONFIRM, "OPEN_CONFIRM", 0, 0, mods, true},
      {OP_OPEN_DOWNGRADE, "OPEN_DOWNGRADE", 0, 2, mods, true},
      {OP_PUTFH, "PUTFH", 0, 2, idem, true},
      {OP_PUTPUBFH, "PUTPUBFH", 0, 2, idem, true},
      {OP_PUTROOTFH, "PUTROOTFH", 0, 2, idem, true},
      {OP_READ, "READ", 0, 2, idem, true},
      {OP_READDIR, "READDIR", 0, 2, idem, true},
      {OP_READLINK, "READLINK", 0, 2, idem, true},
      {OP_REMOVE, "REMOVE", 0, 2, mods, true},
      {OP_RENAME, "RENAME", 0, 2, mods, true},
      {OP_RENEW, "RENEW", 0, 0, idem, true},
      {OP_RESTOREFH, "RESTOREFH", 0, 2, idem, true},
      {OP_SAVEFH, "SAVEFH", 0, 2, idem, true},
      {OP_SECINFO, "SECINFO", 0, 2, idem, true},
      {OP_SETATTR, "SETATTR", 0, 2, mods, true},
      {OP_SETCLIENTID, "SETCLIENTID", 0, 0, idem, true},
      {OP_SETCLIENTID_CONFIRM, "SETCLIENTID_CONFIRM", 0, 0, idem, true},
      {OP_VERIFY, "VERIFY", 0, 2, idem, false},
      {OP_WRITE, "WRITE", 0, 2, idem, true},
      {OP_RELEASE_LOCKOWNER, "RELEASE_LOCKOWNER", 0, 0, mods, true},
      {OP_BACKCHANNEL_CTL, "BACKCHANNEL_CTL", 1, 2, mods, true},
      {OP_BIND_CONN_TO_SESSION, "BIND_CONN_TO_SESSION", 1, 2, idem, true},
      {OP_EXCHANGE_ID, "EXCHANGE_ID", 1, 2, idem, true},
      {OP_CREATE_SESSION, "CREATE_SESSION", 1, 2, idem, true},
      {OP_DESTROY_SESSION, "DESTROY_SESSION", 1, 2, mods, true},
      {OP_FREE_STATEID, "FREE_STATEID", 1, 2, mods, true},
      {OP_GET_DIR_DELEGATION, "GET_DIR_DELEGATION", 1, 2, mods, false},
      {OP_GETDEVICEINFO, "GETDEVICEINFO", 1, 2, idem, false},
      {OP_GETDEVICELIST, "GETDEVICELIST", 1, 2, idem, false},
      {OP_LAYOUTCOMMIT, "LAYOUTCOMMIT", 1, 2, mods, false},
      {OP_LAYOUTGET, "LAYOUTGET", 1, 2, mods, false},
      {OP_LAYOUTRETURN, "LAYOUTRETURN", 1, 2, mods, false},
      {OP_SECINFO_NO_NAME, "SECINFO_NO_NAME", 1, 2, idem, true},
      {OP_SEQUENCE, "SEQUENCE", 1, 2, idem, true},
      {OP_SET_SSV, "SET_SSV", 1, 2, mods, false},
      {OP_TEST_STATEID, "TEST_STATEID", 1, 2, idem, true},
      {OP_WANT_DELEGATION, "WANT_DELEGATION", 1, 2, mods, false},
      {OP_DESTROY_CLIENTID, "DESTROY_CLIENTID", 1, 2, mods, true},
      {OP_RECLAIM_COMPLETE, "RECLAIM_COMPLETE", 1, 2, mods, true},
      {OP_ALLOCATE, "ALLOCATE", 2, 2, idem, true},
      {OP_COPY, "COPY", 2, 2, mods, true},
      {OP_COPY_NOTIFY, "COPY_NOTIFY", 2, 2, mods, false},
      {OP_DEALLOCATE, "DEALLOCATE", 2, 2, idem, true},
      {OP_IO_ADVISE, "IO_ADVISE", 2, 2, idem, false},
      {OP_LAYOUTERROR, "LAYOUTERROR", 2, 2, mods, false},
      {OP_LAYOUTSTATS, "LAYOUTSTATS", 2, 2, mods, false},
      {OP_OFFLOAD_CANCEL, "OFFLOAD_CANCEL", 2, 2, mods, true},
      {OP_OFFLOAD_STATUS, "OFFLOAD_STATUS", 2, 2, idem, true},
      {OP_READ_PLUS, "READ_PLUS", 2, 2, idem, true},
      {OP_SEEK, "SEEK", 2, 2, idem, true},
      {OP_WRITE_SAME, "WRITE_SAME", 2, 2, idem, false},
      {OP_CLONE, "CLONE", 2, 2, mods, true},
      {OP_GETXATTR, "GETXATTR", 2, 2, idem, true},
      {OP_SETXATTR, "SETXATTR", 2, 2, mods, true},
      {OP_LISTXATTRS, "LISTXATTRS", 2, 2, idem, true},
      {OP_REMOVEXATTR, "REMOVEXATTR", 2, 2, mods, true},
  });
}();

/// Returns the row of an operation; null for a number that is no operation (OP_ILLEGAL among them).
constexpr const OperationRow* find_operation(std::uint32_t number) {
  const std::uint32_t index = number - OP_ACCESS;
  return index < kOperations.size() ? &kOperations[index] : nullptr;
}
/// Returns the operation's name, "READ" for example; "ILLEGAL" for a number that is no operation.
constexpr std::string_view operation_name(std::uint32_t number) {
  const OperationRow* row = find_operation(number);
  return row != nullptr ? row->name : "ILLEGAL";
}

namespace detail {
consteval bool rows_in_order() {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (kOperations[i].number != OP_ACCESS + i) return false;
  }
  return kOperations.back().number == OP_REMOVEXATTR;
}
template <class... Op>
consteval bool rows_agree(std::tuple<Op...>*) {
  std::size_t typed = 0;
  for (const OperationRow& row : kOperations) typed += row.typed ? 1 : 0;
  return typed == sizeof...(Op) &&
         ((find_operation(Op::number)->typed && find_operation(Op::number)->name == Op::name &&
           (find_operation(Op::number)->repeat == Repeat::idempotent) == Op::idempotent) &&
          ...);
}
static_assert(rows_in_order(), "a row of kOperations is missing or misplaced");
static_assert(rows_agree(static_cast<op::All*>(nullptr)), "kOperations and the structs in op:: disagree");
}  // namespace detail

// ---- the status of a result ----

/// Returns the status of a result. Each result is a union over its status, or a struct that begins with it.
template <class Res>
nfsstat4 status_of(const Res& res) {
  if constexpr (requires { res.tag(); }) {
    return res.tag();
  } else {
    return boost::pfr::get<0>(res);
  }
}
/// Sets a result to `status` with no other contents.
template <class Res>
void set_status(Res& res, nfsstat4 status) {
  if constexpr (requires { res.tag(); }) {
    res.select(status);
  } else {
    res = Res{};
    boost::pfr::get<0>(res) = status;
  }
}

// ---- one operation within a COMPOUND ----

template <class Op>
void encode_op(xdr::Encoder& out, const typename Op::Args& args) {
  out.u32(Op::number);
  xdr::encode(out, args);
}

/// Decodes the result of an Op. A server that does not know the operation answers with OP_ILLEGAL in its
/// place (RFC 8881 18.52), which gives a result with that status. Any other number is a fault.
template <class Op>
bool decode_op(xdr::Decoder& in, typename Op::Res& res) {
  std::uint32_t number = 0;
  if (!in.u32(number)) return false;
  if (number == Op::number) return xdr::decode(in, res);
  if (number != OP_ILLEGAL) return in.fail(xdr::Fault::bad_discriminant);
  nfsstat4 status = NFS4_OK;
  if (!xdr::decode(in, status)) return false;
  // An illegal operation that succeeded would leave the caller with a result that the server did not send.
  if (status == NFS4_OK) return in.fail(xdr::Fault::bad_discriminant);
  set_status(res, status);
  return true;
}

}  // namespace nfsrdma::nfs4
