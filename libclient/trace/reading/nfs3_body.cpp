// The procedures of NFSv3 and v2 in words: a table with one row for each.
#include <algorithm>
#include <array>
#include <tuple>

#include "trace/reading/body.h"
#include "trace/reading/words.h"
#include "wire/nfs2/procedures.h"
#include "wire/nfs3/procedures.h"
#include "wire/nfs3/status.h"

namespace nfsrdma::trace {
namespace {

namespace v3 {

// ---- arguments of NFSv3 ----
Words& add(Words& out, const nfs3::diropargs3& a) {
  return out.handle("fh", a.dir.view()).name("name", a.name.value);
}
std::string words(const nfs3::diropargs3& a) {
  Words out;
  return add(out, a).str();
}
std::string words(const nfs3::GETATTR3args& a) {
  return Words().handle("fh", a.object.view()).str();
}
std::string words(const nfs3::SETATTR3args& a) {
  return Words().handle("fh", a.object.view()).str();
}
std::string words(const nfs3::LOOKUP3args& a) {
  return words(a.what);
}
std::string words(const nfs3::ACCESS3args& a) {
  return Words().handle("fh", a.object.view()).hex("access", a.access).str();
}
std::string words(const nfs3::READLINK3args& a) {
  return Words().handle("fh", a.symlink.view()).str();
}
std::string words(const nfs3::READ3args& a) {
  return Words().handle("fh", a.file.view()).number("offset", a.offset).number("count", a.count).str();
}
std::string words(const nfs3::CREATE3args& a) {
  return words(a.where);
}
std::string words(const nfs3::MKDIR3args& a) {
  return words(a.where);
}
std::string words(const nfs3::SYMLINK3args& a) {
  return words(a.where);
}
std::string words(const nfs3::MKNOD3args& a) {
  return words(a.where);
}
std::string words(const nfs3::REMOVE3args& a) {
  return words(a.object);
}
std::string words(const nfs3::RMDIR3args& a) {
  return words(a.object);
}
std::string words(const nfs3::RENAME3args& a) {
  return Words()
      .handle("fh", a.from.dir.view())
      .name("from", a.from.name.value)
      .name("to", a.to.name.value)
      .str();
}
std::string words(const nfs3::LINK3args& a) {
  return Words().handle("fh", a.file.view()).name("name", a.link.name.value).str();
}
std::string words(const nfs3::READDIR3args& a) {
  return Words().handle("fh", a.dir.view()).number("cookie", a.cookie).number("count", a.count).str();
}
std::string words(const nfs3::READDIRPLUS3args& a) {
  return Words().handle("fh", a.dir.view()).number("cookie", a.cookie).number("maxcount", a.maxcount).str();
}
std::string words(const nfs3::FSSTAT3args& a) {
  return Words().handle("fh", a.fsroot.view()).str();
}
std::string words(const nfs3::FSINFO3args& a) {
  return Words().handle("fh", a.fsroot.view()).str();
}
std::string words(const nfs3::PATHCONF3args& a) {
  return Words().handle("fh", a.object.view()).str();
}
std::string words(const nfs3::COMMIT3args& a) {
  return Words().handle("fh", a.file.view()).number("offset", a.offset).number("count", a.count).str();
}
std::string words(const nfs3::LOOKUP3resok& r) {
  return Words().handle("fh", r.object.view()).str();
}
std::string words(const nfs3::READDIR3resok& r) {
  return Words().number("entries", r.entries.value.size()).flag("eof", r.eof).str();
}
std::string words(const nfs3::READDIRPLUS3resok& r) {
  return Words().number("entries", r.entries.value.size()).flag("eof", r.eof).str();
}
std::string words(const nfs3::WRITE3resok& r) {
  return Words().number("count", r.count).number("committed", static_cast<std::uint32_t>(r.committed)).str();
}

// ---- arguments of NFSv2 ----
std::string words(const nfs2::fhandle& a) {
  return Words().handle("fh", a).str();
}
std::string words(const nfs2::diropargs& a) {
  return Words().handle("fh", a.dir).name("name", a.name.value).str();
}
std::string words(const nfs2::sattrargs& a) {
  return words(a.file);
}
std::string words(const nfs2::readargs& a) {
  return Words().handle("fh", a.file).number("offset", a.offset).number("count", a.count).str();
}
std::string words(const nfs2::createargs& a) {
  return words(a.where);
}
std::string words(const nfs2::renameargs& a) {
  return Words().handle("fh", a.from.dir).name("from", a.from.name.value).name("to", a.to.name.value).str();
}
std::string words(const nfs2::linkargs& a) {
  return Words().handle("fh", a.from).name("name", a.to.name.value).str();
}
std::string words(const nfs2::symlinkargs& a) {
  return words(a.from);
}
std::string words(const nfs2::readdirargs& a) {
  return Words().handle("fh", a.dir).number("cookie", a.cookie).number("count", a.count).str();
}
std::string words(const nfs2::diropok& r) {
  return Words().handle("fh", r.file).str();
}
std::string words(const nfs2::readdirok& r) {
  return Words().number("entries", r.entries.value.size()).flag("eof", r.eof).str();
}

// ---- data that may be cut ----
bool read_write3(xdr::Decoder& in, std::string& out) {
  nfs3::nfs_fh3 file;
  std::uint64_t offset = 0;
  std::uint32_t count = 0, stable = 0, length = 0;
  if (!xdr::decode(in, file) || !in.u64(offset) || !in.u32(count) || !in.u32(stable)) return false;
  out = Words()
            .handle("fh", file.view())
            .number("offset", offset)
            .number("count", count)
            .number("stable", stable)
            .str();
  xdr::ConstBytes data;
  return in.u32(length) && in.view(length, data);
}
bool read_write2(xdr::Decoder& in, std::string& out) {
  nfs2::fhandle file{};
  std::uint32_t unused = 0, offset = 0, length = 0;
  if (!xdr::decode(in, file) || !in.u32(unused) || !in.u32(offset) || !in.u32(unused) || !in.u32(length))
    return false;
  out = Words().handle("fh", file).number("offset", offset).number("count", length).str();
  xdr::ConstBytes data;
  return in.view(length, data);
}
bool read_read3(xdr::Decoder& in, std::uint32_t& status, std::string& out, std::uint64_t& moved) {
  nfs3::post_op_attr attributes;
  if (!in.u32(status) || !xdr::decode(in, attributes) || status != nfs3::NFS3_OK) return in.ok();
  std::uint32_t count = 0;
  bool eof = false;
  return in.u32(count) && xdr::decode(in, eof) && read_data(in, eof, out, moved);
}
bool read_read2(xdr::Decoder& in, std::uint32_t& status, std::string& out, std::uint64_t& moved) {
  nfs2::fattr attributes;
  if (!in.u32(status) || status != nfs2::NFS_OK) return in.ok();
  return xdr::decode(in, attributes) && read_data(in, false, out, moved);
}

// ---- the table ----
template <class T>
std::string words_or_none(const T& value) {
  if constexpr (requires { words(value); }) {
    return words(value);
  } else {
    return {};
  }
}

template <class Procedure>
bool read_arguments(xdr::Decoder& in, std::string& out) {
  if constexpr (std::is_same_v<Procedure, nfs3::proc::WRITE>) {
    return read_write3(in, out);
  } else if constexpr (std::is_same_v<Procedure, nfs2::proc::WRITE>) {
    return read_write2(in, out);
  } else {
    typename Procedure::Args value{};
    if (!xdr::decode(in, value)) return false;
    out = words_or_none(value);
    return true;
  }
}

template <class Procedure>
bool read_result(xdr::Decoder& in, std::uint32_t& status, std::string& out, std::uint64_t& moved) {
  if constexpr (std::is_same_v<Procedure, nfs3::proc::READ>) {
    return read_read3(in, status, out, moved);
  } else if constexpr (std::is_same_v<Procedure, nfs2::proc::READ>) {
    return read_read2(in, status, out, moved);
  } else {
    typename Procedure::Res value{};
    if (!xdr::decode(in, value)) return false;
    if constexpr (requires { value.tag(); }) {
      status = static_cast<std::uint32_t>(value.tag());
      using Tag = decltype(value.tag());
      const auto* good = value.template get<static_cast<Tag>(0)>();
      out = good != nullptr ? words_or_none(*good) : "";
      if constexpr (std::is_same_v<Procedure, nfs3::proc::WRITE>) moved = good != nullptr ? good->count : 0;
    }
    return true;
  }
}

struct ProcedureRow {
  std::uint32_t version, number;
  const char* name;
  bool (*arguments)(xdr::Decoder& in, std::string& out);
  bool (*result)(xdr::Decoder& in, std::uint32_t& status, std::string& out, std::uint64_t& moved);
};
template <class... Procedure>
constexpr auto rows_of(std::tuple<Procedure...>*) {
  return std::to_array<ProcedureRow>({{Procedure::version, Procedure::number, Procedure::name,
                                       read_arguments<Procedure>, read_result<Procedure>}...});
}
constexpr auto kRows3 = rows_of(static_cast<nfs3::proc::All*>(nullptr));
constexpr auto kRows2 = rows_of(static_cast<nfs2::proc::All*>(nullptr));

const ProcedureRow* find_row(std::uint32_t version, std::uint32_t number) {
  const std::span<const ProcedureRow> rows =
      version == nfs2::NFS_V2 ? std::span<const ProcedureRow>(kRows2) : std::span<const ProcedureRow>(kRows3);
  const auto found = std::ranges::find(rows, number, &ProcedureRow::number);
  return found != rows.end() ? &*found : nullptr;
}

/// NFSv2's statuses have the numbers and names of NFSv3's.
std::string status_text(std::uint32_t status) {
  const auto* const row = nfs3::find_status(static_cast<nfs3::nfsstat3>(status));
  if (status == nfs3::NFS3_OK) return "OK";
  return row != nullptr ? row->name : "status " + std::to_string(status);
}

}  // namespace v3
}  // namespace

void nfs3_arguments(std::uint32_t version, std::uint32_t procedure, xdr::Decoder& in, Body& out) {
  const v3::ProcedureRow* const row = v3::find_row(version, procedure);
  if (row == nullptr) return;
  out.procedure = row->name;
  Operation& one = out.operations.emplace_back();
  one.name = row->name;
  out.complete = row->arguments(in, one.arguments);
}

void nfs3_results(std::uint32_t version, std::uint32_t procedure, xdr::Decoder& in, Body& out) {
  const v3::ProcedureRow* const row = v3::find_row(version, procedure);
  if (row == nullptr) return;
  out.procedure = row->name;
  Operation& one = out.operations.emplace_back();
  one.name = row->name;
  std::uint32_t status = 0;
  // The status comes first, so that it is known even if the rest was cut.
  const bool has_status = in.remaining() >= 4;
  if (has_status) status = xdr::load_u32(in.rest().data());
  out.complete = row->result(in, status, one.arguments, out.data_bytes);
  if (!has_status) return;
  one.status = out.status = v3::status_text(status);
  out.failed = status != nfs3::NFS3_OK;
}

}  // namespace nfsrdma::trace
