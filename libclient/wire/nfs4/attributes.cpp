#include "wire/nfs4/attributes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <memory>

namespace nfsrdma::nfs4 {
namespace {

using xdr::Decoder;
using xdr::Encoder;
using xdr::Fault;

/// Row of one attribute in a struct of optionals: its number, and functions for its member.
template <class Struct>
struct Row {
  std::uint32_t number = 0;
  std::string_view name;
  std::uint64_t max_size = 0;
  bool (*decode)(Decoder&, Struct&) = nullptr;
  void (*encode)(Encoder&, const Struct&) = nullptr;
  bool (*present)(const Struct&) = nullptr;
};

template <auto Member, class Struct>
constexpr Row<Struct> row_of(std::uint32_t number, std::string_view name) {
  using T = typename std::remove_cvref_t<decltype(std::declval<Struct>().*Member)>::value_type;
  return {number,
          name,
          xdr::bounds<T>.max,
          [](Decoder& in, Struct& to) { return xdr::decode(in, (to.*Member).emplace()); },
          [](Encoder& out, const Struct& from) { xdr::encode(out, *(from.*Member)); },
          [](const Struct& in) { return (in.*Member).has_value(); }};
}

template <auto Member>
constexpr auto readable(std::uint32_t number, std::string_view name) {
  return row_of<Member, WireAttributes>(number, name);
}
template <auto Member>
constexpr auto settable(std::uint32_t number, std::string_view name) {
  return row_of<Member, WireChanges>(number, name);
}

using A = WireAttributes;
constexpr auto kReadable = std::to_array<Row<A>>({
    readable<&A::supported_attrs>(FATTR4_SUPPORTED_ATTRS, "supported_attrs"),
    readable<&A::type>(FATTR4_TYPE, "type"),
    readable<&A::fh_expire_type>(FATTR4_FH_EXPIRE_TYPE, "fh_expire_type"),
    readable<&A::change>(FATTR4_CHANGE, "change"),
    readable<&A::size>(FATTR4_SIZE, "size"),
    readable<&A::link_support>(FATTR4_LINK_SUPPORT, "link_support"),
    readable<&A::symlink_support>(FATTR4_SYMLINK_SUPPORT, "symlink_support"),
    readable<&A::named_attr>(FATTR4_NAMED_ATTR, "named_attr"),
    readable<&A::fsid>(FATTR4_FSID, "fsid"),
    readable<&A::unique_handles>(FATTR4_UNIQUE_HANDLES, "unique_handles"),
    readable<&A::lease_time>(FATTR4_LEASE_TIME, "lease_time"),
    readable<&A::rdattr_error>(FATTR4_RDATTR_ERROR, "rdattr_error"),
    readable<&A::aclsupport>(FATTR4_ACLSUPPORT, "aclsupport"),
    readable<&A::archive>(FATTR4_ARCHIVE, "archive"),
    readable<&A::cansettime>(FATTR4_CANSETTIME, "cansettime"),
    readable<&A::case_insensitive>(FATTR4_CASE_INSENSITIVE, "case_insensitive"),
    readable<&A::case_preserving>(FATTR4_CASE_PRESERVING, "case_preserving"),
    readable<&A::chown_restricted>(FATTR4_CHOWN_RESTRICTED, "chown_restricted"),
    readable<&A::filehandle>(FATTR4_FILEHANDLE, "filehandle"),
    readable<&A::fileid>(FATTR4_FILEID, "fileid"),
    readable<&A::files_avail>(FATTR4_FILES_AVAIL, "files_avail"),
    readable<&A::files_free>(FATTR4_FILES_FREE, "files_free"),
    readable<&A::files_total>(FATTR4_FILES_TOTAL, "files_total"),
    readable<&A::hidden>(FATTR4_HIDDEN, "hidden"),
    readable<&A::homogeneous>(FATTR4_HOMOGENEOUS, "homogeneous"),
    readable<&A::maxfilesize>(FATTR4_MAXFILESIZE, "maxfilesize"),
    readable<&A::maxlink>(FATTR4_MAXLINK, "maxlink"),
    readable<&A::maxname>(FATTR4_MAXNAME, "maxname"),
    readable<&A::maxread>(FATTR4_MAXREAD, "maxread"),
    readable<&A::maxwrite>(FATTR4_MAXWRITE, "maxwrite"),
    readable<&A::mode>(FATTR4_MODE, "mode"),
    readable<&A::no_trunc>(FATTR4_NO_TRUNC, "no_trunc"),
    readable<&A::numlinks>(FATTR4_NUMLINKS, "numlinks"),
    readable<&A::owner>(FATTR4_OWNER, "owner"),
    readable<&A::owner_group>(FATTR4_OWNER_GROUP, "owner_group"),
    readable<&A::quota_avail_hard>(FATTR4_QUOTA_AVAIL_HARD, "quota_avail_hard"),
    readable<&A::quota_avail_soft>(FATTR4_QUOTA_AVAIL_SOFT, "quota_avail_soft"),
    readable<&A::quota_used>(FATTR4_QUOTA_USED, "quota_used"),
    readable<&A::rawdev>(FATTR4_RAWDEV, "rawdev"),
    readable<&A::space_avail>(FATTR4_SPACE_AVAIL, "space_avail"),
    readable<&A::space_free>(FATTR4_SPACE_FREE, "space_free"),
    readable<&A::space_total>(FATTR4_SPACE_TOTAL, "space_total"),
    readable<&A::space_used>(FATTR4_SPACE_USED, "space_used"),
    readable<&A::system>(FATTR4_SYSTEM, "system"),
    readable<&A::time_access>(FATTR4_TIME_ACCESS, "time_access"),
    readable<&A::time_backup>(FATTR4_TIME_BACKUP, "time_backup"),
    readable<&A::time_create>(FATTR4_TIME_CREATE, "time_create"),
    readable<&A::time_delta>(FATTR4_TIME_DELTA, "time_delta"),
    readable<&A::time_metadata>(FATTR4_TIME_METADATA, "time_metadata"),
    readable<&A::time_modify>(FATTR4_TIME_MODIFY, "time_modify"),
    readable<&A::mounted_on_fileid>(FATTR4_MOUNTED_ON_FILEID, "mounted_on_fileid"),
    readable<&A::suppattr_exclcreat>(FATTR4_SUPPATTR_EXCLCREAT, "suppattr_exclcreat"),
    readable<&A::fs_charset_cap>(FATTR4_FS_CHARSET_CAP, "fs_charset_cap"),
    readable<&A::clone_blksize>(FATTR4_CLONE_BLKSIZE, "clone_blksize"),
    readable<&A::space_freed>(FATTR4_SPACE_FREED, "space_freed"),
    readable<&A::change_attr_type>(FATTR4_CHANGE_ATTR_TYPE, "change_attr_type"),
    readable<&A::xattr_support>(FATTR4_XATTR_SUPPORT, "xattr_support"),
});

using C = WireChanges;
constexpr auto kSettable = std::to_array<Row<C>>({
    settable<&C::size>(FATTR4_SIZE, "size"),
    settable<&C::mode>(FATTR4_MODE, "mode"),
    settable<&C::owner>(FATTR4_OWNER, "owner"),
    settable<&C::owner_group>(FATTR4_OWNER_GROUP, "owner_group"),
    settable<&C::time_access_set>(FATTR4_TIME_ACCESS_SET, "time_access_set"),
    settable<&C::time_create>(FATTR4_TIME_CREATE, "time_create"),
    settable<&C::time_modify_set>(FATTR4_TIME_MODIFY_SET, "time_modify_set"),
    settable<&C::mode_umask>(FATTR4_MODE_UMASK, "mode_umask"),
});

template <class Rows>
consteval bool in_order(const Rows& rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].number >= rows[i].number) return false;
  }
  return true;
}
static_assert(in_order(kReadable) && in_order(kSettable),
              "values stand in the order of their numbers (RFC 8881 3.3.7)");
static_assert(kReadable.size() == boost::pfr::tuple_size_v<WireAttributes>,
              "a member of WireAttributes has no row");
static_assert(kSettable.size() == boost::pfr::tuple_size_v<WireChanges>,
              "a member of WireChanges has no row");

constexpr std::uint32_t kNumbers = FATTR4_XATTR_SUPPORT + 1;
constexpr std::uint8_t kNoRow = 0xff;

/// Returns a table from an attribute's number to the index of its row.
template <class Rows>
consteval std::array<std::uint8_t, kNumbers> index_of(const Rows& rows) {
  std::array<std::uint8_t, kNumbers> index{};
  index.fill(kNoRow);
  for (std::size_t i = 0; i < rows.size(); ++i) index[rows[i].number] = static_cast<std::uint8_t>(i);
  return index;
}
constexpr auto kReadableIndex = index_of(kReadable);
constexpr auto kSettableIndex = index_of(kSettable);

bool is_write_only(std::uint32_t number) {
  return number == FATTR4_TIME_ACCESS_SET || number == FATTR4_TIME_MODIFY_SET || number == FATTR4_MODE_UMASK;
}

/// Calls f(number) for each bit that is set, in ascending order, as long as it returns true.
template <class F>
bool for_each_bit(const bitmap4& map, const F& f) {
  for (std::size_t i = 0; i < map.value.size(); ++i) {
    for (std::uint32_t rest = map.value[i]; rest != 0; rest &= rest - 1) {
      if (!f(static_cast<std::uint32_t>(i) * 32 + static_cast<std::uint32_t>(std::countr_zero(rest))))
        return false;
    }
  }
  return true;
}

template <class Struct, class Rows>
bool decode_values(const Rows& rows, const std::array<std::uint8_t, kNumbers>& index, const bitmap4& mask,
                   Decoder& in, Struct& out) {
  boost::pfr::for_each_field(out, [](auto& member) { member.reset(); });
  const bool good = for_each_bit(mask, [&](std::uint32_t number) {
    if (number >= kNumbers || index[number] == kNoRow) return in.fail(Fault::bad_discriminant);
    return rows[index[number]].decode(in, out);
  });
  return good && in.finish();
}

template <class Struct, class Rows>
bool decode_fattr(const Rows& rows, const std::array<std::uint8_t, kNumbers>& index, const fattr4& in,
                  Struct& out, Fault* fault) {
  Decoder values(in.attr_vals.value);
  const bool good = decode_values(rows, index, in.attrmask, values, out);
  if (fault != nullptr) *fault = values.fault();
  return good;
}

template <class Struct, class Rows, class Wanted>
fattr4 encode_fattr(const Rows& rows, const Struct& from, const Wanted& wanted) {
  fattr4 out;
  xdr::Message message;
  Encoder values(message);
  for (const Row<Struct>& row : rows) {
    if (!row.present(from) || !wanted(row.number)) continue;
    set_bit(out.attrmask, row.number);
    row.encode(values, from);
  }
  const xdr::ConstBytes bytes = message.stream.bytes();
  out.attr_vals.value.assign(bytes.begin(), bytes.end());
  return out;
}

}  // namespace

void set_bit(bitmap4& map, std::uint32_t number) {
  const std::size_t word = number / 32;
  assert(word < kBitmapWords);
  if (map.value.size() <= word) map.value.resize(word + 1);
  map.value[word] |= 1U << (number % 32);
}

bitmap4 bitmap_of(std::initializer_list<fattr4_number> numbers) {
  bitmap4 map;
  for (const fattr4_number number : numbers) set_bit(map, number);
  return map;
}

bitmap4 intersection(const bitmap4& a, const bitmap4& b) {
  bitmap4 both;
  both.value.resize(std::min(a.value.size(), b.value.size()));
  for (std::size_t i = 0; i < both.value.size(); ++i) both.value[i] = a.value[i] & b.value[i];
  return both;
}

bitmap4 union_of(const bitmap4& a, const bitmap4& b) {
  bitmap4 either = a;
  either.value.resize(std::max(a.value.size(), b.value.size()));
  for (std::size_t i = 0; i < b.value.size(); ++i) either.value[i] |= b.value[i];
  return either;
}

const bitmap4& readable_attributes() {
  static const bitmap4 map = [] {
    bitmap4 all;
    for (const auto& row : kReadable) set_bit(all, row.number);
    return all;
  }();
  return map;
}

std::string_view attribute_name(std::uint32_t number) {
  if (number >= kNumbers) return {};
  if (kReadableIndex[number] != kNoRow) return kReadable[kReadableIndex[number]].name;
  if (kSettableIndex[number] != kNoRow) return kSettable[kSettableIndex[number]].name;
  return {};
}

namespace {
std::uint64_t sum_of_sizes(const bitmap4& requested) {
  std::uint64_t total = 0;
  const bool known = for_each_bit(requested, [&](std::uint32_t number) {
    if (number < kNumbers && kReadableIndex[number] != kNoRow) {
      total += kReadable[kReadableIndex[number]].max_size;
      return true;
    }
    return is_write_only(number);
  });
  return known ? total : xdr::kUnbounded;
}
}  // namespace

std::uint64_t max_attr_size(const bitmap4& requested) {
  // Nearly all calls ask for the same attributes as the one before.
  struct Last {
    bitmap4 requested;
    std::uint64_t size = 0;
  };
  static thread_local Last last;
  if (last.requested != requested) last = {requested, sum_of_sizes(requested)};
  return last.size;
}

bool decode_attributes(Decoder& in, WireAttributes& out) {
  bitmap4 mask;
  xdr::ConstBytes bytes;
  if (!xdr::decode(in, mask) || !in.opaque(kAttrlistMax, bytes)) return false;
  Decoder values(bytes);
  return decode_values(kReadable, kReadableIndex, mask, values, out) || in.fail(values.fault());
}

bool decode_attributes(const fattr4& in, WireAttributes& out, Fault* fault) {
  return decode_fattr(kReadable, kReadableIndex, in, out, fault);
}

fattr4 encode_attributes(const WireAttributes& attributes, const bitmap4& requested) {
  return encode_fattr(kReadable, attributes,
                      [&](std::uint32_t number) { return has_bit(requested, number); });
}

settime4 server_time() {
  return settime4::of<SET_TO_SERVER_TIME4>();
}
settime4 client_time(nfstime4 time) {
  return settime4::of<SET_TO_CLIENT_TIME4>(time);
}

fattr4 encode_changes(const WireChanges& changes) {
  assert(!(changes.mode && changes.mode_umask));  // RFC 8275: a server answers NFS4ERR_INVAL
  return encode_fattr(kSettable, changes, [](std::uint32_t) { return true; });
}

bool decode_changes(const fattr4& in, WireChanges& out) {
  return decode_fattr(kSettable, kSettableIndex, in, out, nullptr);
}

}  // namespace nfsrdma::nfs4
