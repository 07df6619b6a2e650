#include "responder/attributes.h"

#include <array>
#include <charconv>
#include <string>

#include "wire/nfs4/attributes.h"

namespace nfsrdma::bench {
namespace {

using namespace nfs4;

constexpr std::uint32_t kLease = 90;

const Wanted& known() {
  static const Wanted all = [] {
    Wanted out;
    for (const std::uint32_t one : {FATTR4_SUPPORTED_ATTRS,
                                    FATTR4_TYPE,
                                    FATTR4_FH_EXPIRE_TYPE,
                                    FATTR4_CHANGE,
                                    FATTR4_SIZE,
                                    FATTR4_LINK_SUPPORT,
                                    FATTR4_SYMLINK_SUPPORT,
                                    FATTR4_NAMED_ATTR,
                                    FATTR4_FSID,
                                    FATTR4_UNIQUE_HANDLES,
                                    FATTR4_LEASE_TIME,
                                    FATTR4_RDATTR_ERROR,
                                    FATTR4_CANSETTIME,
                                    FATTR4_CASE_INSENSITIVE,
                                    FATTR4_CASE_PRESERVING,
                                    FATTR4_CHOWN_RESTRICTED,
                                    FATTR4_FILEHANDLE,
                                    FATTR4_FILEID,
                                    FATTR4_FILES_AVAIL,
                                    FATTR4_FILES_FREE,
                                    FATTR4_FILES_TOTAL,
                                    FATTR4_HOMOGENEOUS,
                                    FATTR4_MAXFILESIZE,
                                    FATTR4_MAXLINK,
                                    FATTR4_MAXNAME,
                                    FATTR4_MAXREAD,
                                    FATTR4_MAXWRITE,
                                    FATTR4_MODE,
                                    FATTR4_NO_TRUNC,
                                    FATTR4_NUMLINKS,
                                    FATTR4_OWNER,
                                    FATTR4_OWNER_GROUP,
                                    FATTR4_RAWDEV,
                                    FATTR4_SPACE_AVAIL,
                                    FATTR4_SPACE_FREE,
                                    FATTR4_SPACE_TOTAL,
                                    FATTR4_SPACE_USED,
                                    FATTR4_TIME_ACCESS,
                                    FATTR4_TIME_ACCESS_SET,
                                    FATTR4_TIME_DELTA,
                                    FATTR4_TIME_METADATA,
                                    FATTR4_TIME_MODIFY,
                                    FATTR4_TIME_MODIFY_SET,
                                    FATTR4_MOUNTED_ON_FILEID,
                                    FATTR4_SUPPATTR_EXCLCREAT})
      out.add(one);
    return out;
  }();
  return all;
}

void put_time(xdr::Encoder& out, const Node& node) {
  out.u64(static_cast<std::uint64_t>(node.seconds));
  out.u32(node.nanoseconds);
}

void put_number_as_text(xdr::Encoder& out, std::uint32_t number) {
  std::array<char, 12> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  put_text(out, {text.data(), static_cast<std::size_t>(end.ptr - text.data())});
}

void put_value(xdr::Encoder& out, std::uint32_t number, const Node& node) {
  switch (number) {
    case FATTR4_SUPPORTED_ATTRS:
      return put_bitmap(out, known());
    case FATTR4_SUPPATTR_EXCLCREAT: {
      Wanted all;
      all.add(FATTR4_MODE);
      all.add(FATTR4_SIZE);
      return put_bitmap(out, all);
    }
    case FATTR4_TYPE:
      return out.u32(node.is_directory ? 2 : 1);
    case FATTR4_FH_EXPIRE_TYPE:
    case FATTR4_LINK_SUPPORT:
    case FATTR4_SYMLINK_SUPPORT:
    case FATTR4_NAMED_ATTR:
    case FATTR4_RDATTR_ERROR:
    case FATTR4_CASE_INSENSITIVE:
      return out.u32(0);
    case FATTR4_UNIQUE_HANDLES:
    case FATTR4_CANSETTIME:
    case FATTR4_CASE_PRESERVING:
    case FATTR4_CHOWN_RESTRICTED:
    case FATTR4_HOMOGENEOUS:
    case FATTR4_NO_TRUNC:
      return out.u32(1);
    case FATTR4_CHANGE:
      return out.u64(node.change);
    case FATTR4_SIZE:
    case FATTR4_SPACE_USED:
      return out.u64(node.is_directory ? 4096 : node.size.get());
    case FATTR4_FSID:
      out.u64(1);
      return out.u64(0);
    case FATTR4_LEASE_TIME:
      return out.u32(kLease);
    case FATTR4_FILEHANDLE:
      return put_handle(out, node.id);
    case FATTR4_FILEID:
    case FATTR4_MOUNTED_ON_FILEID:
      return out.u64(node.id);
    case FATTR4_FILES_AVAIL:
    case FATTR4_FILES_FREE:
    case FATTR4_FILES_TOTAL:
    case FATTR4_SPACE_AVAIL:
    case FATTR4_SPACE_FREE:
    case FATTR4_SPACE_TOTAL:
    case FATTR4_MAXFILESIZE:
      return out.u64(kPlenty);
    case FATTR4_MAXLINK:
    case FATTR4_MAXNAME:
      return out.u32(255);
    case FATTR4_MAXREAD:
    case FATTR4_MAXWRITE:
      return out.u64(kMostData);
    case FATTR4_MODE:
      return out.u32(node.mode);
    case FATTR4_NUMLINKS:
      return out.u32(node.is_directory ? 2 : 1);
    case FATTR4_OWNER:
      return put_number_as_text(out, node.uid);
    case FATTR4_OWNER_GROUP:
      return put_number_as_text(out, node.gid);
    case FATTR4_RAWDEV:
      return out.u64(0);
    case FATTR4_TIME_DELTA:
      out.u64(0);
      return out.u32(1);
    default:  // the times
      return put_time(out, node);
  }
}

}  // namespace

Wanted read_bitmap(In& in) {
  Wanted out;
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const std::uint32_t word = in.u32();
    if (i < std::size(out.words)) out.words[i] = word;
  }
  return out;
}

void put_bitmap(xdr::Encoder& out, const Wanted& which) {
  std::uint32_t count = 3;
  while (count > 0 && which.words[count - 1] == 0) --count;
  out.u32(count);
  for (std::uint32_t i = 0; i < count; ++i) out.u32(which.words[i]);
}

void put_attributes(xdr::Encoder& out, const Wanted& wanted, const Node& node) {
  Wanted both;
  for (std::size_t i = 0; i < std::size(both.words); ++i) both.words[i] = wanted.words[i] & known().words[i];
  // Neither can be read.
  both.words[FATTR4_TIME_ACCESS_SET / 32] &=
      ~(1U << (FATTR4_TIME_ACCESS_SET % 32) | 1U << (FATTR4_TIME_MODIFY_SET % 32));
  put_bitmap(out, both);
  const std::size_t length_at = out.position();
  out.u32(0);
  for (std::uint32_t word = 0; word < std::size(both.words); ++word) {
    for (std::uint32_t left = both.words[word]; left != 0; left &= left - 1)
      put_value(out, word * 32 + static_cast<std::uint32_t>(__builtin_ctz(left)), node);
  }
  set_u32(out, length_at, static_cast<std::uint32_t>(out.position() - length_at - 4));
}

bool take_attributes(In& in, Node* node, Wanted& taken) {
  const Wanted which = read_bitmap(in);
  In values(in.opaque());
  for (std::uint32_t word = 0; word < std::size(which.words); ++word) {
    for (std::uint32_t left = which.words[word]; left != 0; left &= left - 1) {
      const std::uint32_t number = word * 32 + static_cast<std::uint32_t>(__builtin_ctz(left));
      switch (number) {
        case FATTR4_SIZE: {
          const std::uint64_t size = values.u64();
          if (node != nullptr && !node->resize(size)) return false;
          break;
        }
        case FATTR4_MODE: {
          const std::uint32_t mode = values.u32();
          if (node != nullptr) node->mode = mode & 07777;
          break;
        }
        case FATTR4_OWNER:
        case FATTR4_OWNER_GROUP: {
          const std::string_view text = values.text();
          std::uint32_t id = 0;
          (void)std::from_chars(text.data(), text.data() + text.size(), id);
          if (node != nullptr) (number == FATTR4_OWNER ? node->uid : node->gid) = id;
          break;
        }
        case FATTR4_TIME_ACCESS_SET:
        case FATTR4_TIME_MODIFY_SET: {
          const bool is_clients = values.u32() == 1;
          const auto seconds = is_clients ? static_cast<std::int64_t>(values.u64()) : 0;
          const std::uint32_t nanoseconds = is_clients ? values.u32() : 0;
          if (node == nullptr || number == FATTR4_TIME_ACCESS_SET) break;
          node->touch();
          if (is_clients) {
            node->seconds = seconds;
            node->nanoseconds = nanoseconds;
          }
          break;
        }
        default:
          return false;
      }
      taken.add(number);
    }
  }
  if (node != nullptr) ++node->change;
  return values.ok();
}

}  // namespace nfsrdma::bench
