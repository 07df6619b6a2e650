// COMPOUND and CB_COMPOUND in words: a table with one row for each operation that wire/nfs4 has types for.
#include <algorithm>
#include <array>
#include <tuple>

#include "trace/reading/body.h"
#include "trace/reading/words.h"
#include "wire/nfs4/ops.h"
#include "wire/nfs4/ops_callback.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::trace {
namespace {

/// Functions that make the words of NFSv4's operations. `moved` counts the data of READ and WRITE.
namespace v4 {

using namespace nfs4;

// ---- arguments ----
std::string words(const ACCESS4args& a) {
  return Words().hex("access", a.access).str();
}
std::string words(const COMMIT4args& a) {
  return Words().number("offset", a.offset).number("count", a.count).str();
}
std::string words(const CREATE4args& a) {
  return Words()
      .number("type", static_cast<std::uint32_t>(a.objtype.tag()))
      .name("name", a.objname.value)
      .str();
}
std::string words(const LINK4args& a) {
  return Words().name("name", a.newname.value).str();
}
std::string words(const LOCK4args& a) {
  return Words()
      .number("type", static_cast<std::uint32_t>(a.locktype))
      .number("offset", a.offset)
      .number("length", a.length)
      .flag("reclaim", a.reclaim)
      .str();
}
std::string words(const LOCKT4args& a) {
  return Words()
      .number("type", static_cast<std::uint32_t>(a.locktype))
      .number("offset", a.offset)
      .number("length", a.length)
      .str();
}
std::string words(const LOCKU4args& a) {
  return Words().number("offset", a.offset).number("length", a.length).str();
}
std::string words(const LOOKUP4args& a) {
  return Words().name("name", a.objname.value).str();
}
std::string words(const OPEN4args& a) {
  Words out;
  if (const auto* name = a.claim.get<CLAIM_NULL>()) out.name("name", name->value);
  if (const auto* current = a.claim.get<CLAIM_DELEGATE_CUR>()) out.name("name", current->file.value);
  out.hex("access", a.share_access).hex("deny", a.share_deny);
  out.flag("create", a.openhow.tag() == OPEN4_CREATE);
  return out.number("claim", static_cast<std::uint32_t>(a.claim.tag())).str();
}
std::string words(const PUTFH4args& a) {
  return Words().handle("fh", a.object.view()).str();
}
std::string words(const READ4args& a) {
  return Words().number("offset", a.offset).number("count", a.count).str();
}
std::string words(const READDIR4args& a) {
  return Words().number("cookie", a.cookie).number("maxcount", a.maxcount).str();
}
std::string words(const REMOVE4args& a) {
  return Words().name("name", a.target.value).str();
}
std::string words(const RENAME4args& a) {
  return Words().name("from", a.oldname.value).name("to", a.newname.value).str();
}
std::string words(const SECINFO4args& a) {
  return Words().name("name", a.name.value).str();
}
std::string words(const SEQUENCE4args& a) {
  return Words().number("slot", a.sa_slotid).number("seq", a.sa_sequenceid).str();
}
std::string words(const EXCHANGE_ID4args& a) {
  return Words().hex("flags", a.eia_flags).str();
}
std::string words(const CREATE_SESSION4args& a) {
  return Words().hex("clientid", a.csa_clientid).number("slots", a.csa_fore_chan_attrs.ca_maxrequests).str();
}
std::string words(const ALLOCATE4args& a) {
  return Words().number("offset", a.aa_offset).number("length", a.aa_length).str();
}
std::string words(const DEALLOCATE4args& a) {
  return Words().number("offset", a.da_offset).number("length", a.da_length).str();
}
std::string words(const COPY4args& a) {
  return Words()
      .number("from", a.ca_src_offset)
      .number("to", a.ca_dst_offset)
      .number("count", a.ca_count)
      .str();
}
std::string words(const CLONE4args& a) {
  return Words()
      .number("from", a.cl_src_offset)
      .number("to", a.cl_dst_offset)
      .number("count", a.cl_count)
      .str();
}
std::string words(const READ_PLUS4args& a) {
  return Words().number("offset", a.rpa_offset).number("count", a.rpa_count).str();
}
std::string words(const SEEK4args& a) {
  return Words().number("offset", a.sa_offset).number("what", static_cast<std::uint32_t>(a.sa_what)).str();
}
std::string words(const GETXATTR4args& a) {
  return Words().name("name", a.gxa_name.value).str();
}
std::string words(const SETXATTR4args& a) {
  return Words().name("name", a.sxa_key.value).number("size", a.sxa_value.value.size()).str();
}
std::string words(const REMOVEXATTR4args& a) {
  return Words().name("name", a.rxa_name.value).str();
}
std::string words(const CB_SEQUENCE4args& a) {
  return Words().number("slot", a.csa_slotid).number("seq", a.csa_sequenceid).str();
}
std::string words(const CB_RECALL4args& a) {
  return Words().handle("fh", a.fh.view()).flag("truncate", a.truncate).str();
}
std::string words(const CB_GETATTR4args& a) {
  return Words().handle("fh", a.fh.view()).str();
}
std::string words(const CB_NOTIFY_LOCK4args& a) {
  return Words().handle("fh", a.cnla_fh.view()).str();
}
std::string words(const CB_RECALL_ANY4args& a) {
  return Words().number("keep", a.craa_objects_to_keep).str();
}

// ---- results ----
std::string words(const SEQUENCE4resok& r) {
  Words out;
  if (r.sr_status_flags != 0) out.hex("flags", r.sr_status_flags);
  return out.str();
}
std::string words(const GETFH4resok& r) {
  return Words().handle("fh", r.object.view()).str();
}
std::string words(const OPEN4resok& r) {
  const auto kind = r.delegation.tag();
  if (kind == OPEN_DELEGATE_READ) return "delegation=read";
  return kind == OPEN_DELEGATE_WRITE ? "delegation=write" : "";
}
std::string words(const READDIR4resok& r) {
  return Words().number("entries", r.reply.entries.value.size()).flag("eof", r.reply.eof).str();
}
std::string words(const WRITE4resok& r) {
  return Words().number("count", r.count).number("committed", static_cast<std::uint32_t>(r.committed)).str();
}
std::string words(const seek_res4& r) {
  return Words().number("offset", r.sr_offset).flag("eof", r.sr_eof).str();
}
std::string words(const ACCESS4resok& r) {
  return Words().hex("access", r.access).str();
}

/// The arguments of a WRITE, whose data may be cut.
bool read_write(xdr::Decoder& in, std::string& out) {
  stateid4 stateid;
  offset4 offset = 0;
  stable_how4 stable{};
  std::uint32_t count = 0;
  if (!xdr::decode(in, stateid) || !in.u64(offset) || !xdr::decode(in, stable) || !in.u32(count))
    return false;
  out = Words()
            .number("offset", offset)
            .number("count", count)
            .number("stable", static_cast<std::uint32_t>(stable))
            .str();
  xdr::ConstBytes data;
  return in.view(count, data);
}

/// The result of a READ, whose data may be cut.
bool read_read(xdr::Decoder& in, nfsstat4& status, std::string& out, std::uint64_t& moved) {
  if (!xdr::decode(in, status) || status != NFS4_OK) return in.ok();
  bool eof = false;
  if (!xdr::decode(in, eof)) return false;
  return read_data(in, eof, out, moved);
}

template <class T>
std::string words_or_none(const T& value) {
  if constexpr (requires { words(value); }) {
    return words(value);
  } else {
    return {};
  }
}

template <class Op>
bool read_arguments(xdr::Decoder& in, std::string& out) {
  if constexpr (std::is_same_v<Op, op::WRITE>) {
    return read_write(in, out);
  } else {
    typename Op::Args value;
    if (!xdr::decode(in, value)) return false;
    out = words_or_none(value);
    return true;
  }
}

/// Returns the words of the arm for success, if the result has one.
template <class Res>
std::string words_of_success(const Res& res) {
  if constexpr (requires { res.template get<NFS4_OK>(); }) {
    const auto* good = res.template get<NFS4_OK>();
    return good != nullptr ? words_or_none(*good) : "";
  } else {
    return {};
  }
}

template <class Op>
bool read_result(xdr::Decoder& in, nfsstat4& status, std::string& out, std::uint64_t& moved) {
  if constexpr (std::is_same_v<Op, op::READ>) {
    return read_read(in, status, out, moved);
  } else {
    typename Op::Res value;
    if (!xdr::decode(in, value)) return false;
    status = status_of(value);
    out = words_of_success(value);
    if constexpr (std::is_same_v<Op, op::WRITE>) {
      const auto* good = value.template get<NFS4_OK>();
      moved = good != nullptr ? good->count : 0;
    }
    return true;
  }
}

struct OpRow {
  std::uint32_t number;
  const char* name;
  bool (*arguments)(xdr::Decoder& in, std::string& out);
  bool (*result)(xdr::Decoder& in, nfsstat4& status, std::string& out, std::uint64_t& moved);
};
template <class... Op>
constexpr auto rows_of(std::tuple<Op...>*) {
  return std::to_array<OpRow>({{Op::number, Op::name, read_arguments<Op>, read_result<Op>}...});
}
constexpr auto kRows = rows_of(static_cast<op::All*>(nullptr));
constexpr auto kCallbackRows = rows_of(static_cast<cb_op::All*>(nullptr));

std::string name_of(std::uint32_t number, bool is_callback) {
  if (!is_callback && find_operation(number) != nullptr) return std::string(operation_name(number));
  return "operation " + std::to_string(number);
}

std::string status_text(nfsstat4 status) {
  if (status == NFS4_OK) return "OK";
  return find_status(status) != nullptr ? to_string(status) : "status " + std::to_string(status);
}

/// More operations than any COMPOUND has; bounds what a hostile file makes the decoder store.
constexpr std::uint32_t kMostOperations = 4096;

void read_all_arguments(std::span<const OpRow> rows, std::uint32_t count, xdr::Decoder& in, Body& out) {
  for (count = std::min(count, kMostOperations); count != 0; --count) {
    std::uint32_t number = 0;
    out.complete = in.u32(number);
    if (!out.complete) return;
    const auto row = std::ranges::find(rows, number, &OpRow::number);
    Operation& one = out.operations.emplace_back();
    one.name = row != rows.end() ? row->name : name_of(number, rows.data() == kCallbackRows.data());
    out.complete = row != rows.end() && row->arguments(in, one.arguments);
    if (!out.complete) return;
  }
}

void read_all_results(std::span<const OpRow> rows, std::uint32_t count, xdr::Decoder& in, Body& out) {
  for (count = std::min(count, kMostOperations); count != 0; --count) {
    std::uint32_t number = 0;
    out.complete = in.u32(number);
    if (!out.complete) return;
    const auto row = std::ranges::find(rows, number, &OpRow::number);
    Operation& one = out.operations.emplace_back();
    one.name = row != rows.end() ? row->name : name_of(number, rows.data() == kCallbackRows.data());
    nfsstat4 status = NFS4_OK;
    std::uint64_t moved = 0;
    out.complete = row != rows.end() && row->result(in, status, one.arguments, moved);
    if (out.complete || !one.arguments.empty()) one.status = status_text(status);
    out.data_bytes += moved;
    if (!out.complete) return;
  }
}

void take_status(nfsstat4 status, Body& out) {
  out.status = status_text(status);
  out.failed = status != NFS4_OK;
}

}  // namespace v4
}  // namespace

void nfs4_arguments(xdr::Decoder& in, Body& out) {
  out.procedure = "COMPOUND";
  nfs4::COMPOUND4args_head head;
  out.complete = xdr::decode(in, head);
  if (!out.complete) return;
  out.protocol += "." + std::to_string(head.minorversion);
  v4::read_all_arguments(v4::kRows, head.argarray_count, in, out);
}

void nfs4_results(xdr::Decoder& in, Body& out) {
  out.procedure = "COMPOUND";
  nfs4::COMPOUND4res_head head;
  out.complete = xdr::decode(in, head);
  if (!out.complete) return;
  v4::take_status(head.status, out);
  v4::read_all_results(v4::kRows, head.resarray_count, in, out);
}

void callback_arguments(xdr::Decoder& in, Body& out) {
  out.procedure = "CB_COMPOUND";
  nfs4::CB_COMPOUND4args_head head;
  out.complete = xdr::decode(in, head);
  if (out.complete) v4::read_all_arguments(v4::kCallbackRows, head.argarray_count, in, out);
}

void callback_results(xdr::Decoder& in, Body& out) {
  out.procedure = "CB_COMPOUND";
  nfs4::CB_COMPOUND4res_head head;
  out.complete = xdr::decode(in, head);
  if (!out.complete) return;
  v4::take_status(head.status, out);
  v4::read_all_results(v4::kCallbackRows, head.resarray_count, in, out);
}

}  // namespace nfsrdma::trace
