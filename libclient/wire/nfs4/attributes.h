// The values inside an fattr4: the attributes of a file, a directory, a file system (RFC 8881 5, RFC 7862 12,
// RFC 8275, RFC 8276 8.2).
//
// attr_vals holds the values without their numbers, in ascending order of the bits in attrmask. One attribute
// of unknown type therefore makes the rest unreadable, so a bit that this codec does not know is a fault. Ask
// for known attributes only: a server may return fewer than were asked for, and no others (18.7.3).
//
// The table in attributes.cpp has one row per attribute; decoding, encoding and max_attr_size() walk it. It
// leaves out attributes that this client does not use yet (fs_locations, layouts, retention, security
// labels), and ACLs, which have a codec of their own (nfs4/files/acls.cpp).
//
// Pure functions and values; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "wire/nfs4/base.h"

namespace nfsrdma::nfs4 {

enum fattr4_number : std::uint32_t {
  FATTR4_SUPPORTED_ATTRS = 0,
  FATTR4_TYPE = 1,
  FATTR4_FH_EXPIRE_TYPE = 2,
  FATTR4_CHANGE = 3,
  FATTR4_SIZE = 4,
  FATTR4_LINK_SUPPORT = 5,
  FATTR4_SYMLINK_SUPPORT = 6,
  FATTR4_NAMED_ATTR = 7,
  FATTR4_FSID = 8,
  FATTR4_UNIQUE_HANDLES = 9,
  FATTR4_LEASE_TIME = 10,
  FATTR4_RDATTR_ERROR = 11,
  FATTR4_ACL = 12,
  FATTR4_ACLSUPPORT = 13,
  FATTR4_ARCHIVE = 14,
  FATTR4_CANSETTIME = 15,
  FATTR4_CASE_INSENSITIVE = 16,
  FATTR4_CASE_PRESERVING = 17,
  FATTR4_CHOWN_RESTRICTED = 18,
  FATTR4_FILEHANDLE = 19,
  FATTR4_FILEID = 20,
  FATTR4_FILES_AVAIL = 21,
  FATTR4_FILES_FREE = 22,
  FATTR4_FILES_TOTAL = 23,
  FATTR4_FS_LOCATIONS = 24,
  FATTR4_HIDDEN = 25,
  FATTR4_HOMOGENEOUS = 26,
  FATTR4_MAXFILESIZE = 27,
  FATTR4_MAXLINK = 28,
  FATTR4_MAXNAME = 29,
  FATTR4_MAXREAD = 30,
  FATTR4_MAXWRITE = 31,
  FATTR4_MIMETYPE = 32,
  FATTR4_MODE = 33,
  FATTR4_NO_TRUNC = 34,
  FATTR4_NUMLINKS = 35,
  FATTR4_OWNER = 36,
  FATTR4_OWNER_GROUP = 37,
  FATTR4_QUOTA_AVAIL_HARD = 38,
  FATTR4_QUOTA_AVAIL_SOFT = 39,
  FATTR4_QUOTA_USED = 40,
  FATTR4_RAWDEV = 41,
  FATTR4_SPACE_AVAIL = 42,
  FATTR4_SPACE_FREE = 43,
  FATTR4_SPACE_TOTAL = 44,
  FATTR4_SPACE_USED = 45,
  FATTR4_SYSTEM = 46,
  FATTR4_TIME_ACCESS = 47,
  FATTR4_TIME_ACCESS_SET = 48,
  FATTR4_TIME_BACKUP = 49,
  FATTR4_TIME_CREATE = 50,
  FATTR4_TIME_DELTA = 51,
  FATTR4_TIME_METADATA = 52,
  FATTR4_TIME_MODIFY = 53,
  FATTR4_TIME_MODIFY_SET = 54,
  FATTR4_MOUNTED_ON_FILEID = 55,
  FATTR4_DIR_NOTIF_DELAY = 56,
  FATTR4_DIRENT_NOTIF_DELAY = 57,
  FATTR4_DACL = 58,
  FATTR4_SACL = 59,
  FATTR4_CHANGE_POLICY = 60,
  FATTR4_FS_STATUS = 61,
  FATTR4_FS_LAYOUT_TYPES = 62,
  FATTR4_LAYOUT_HINT = 63,
  FATTR4_LAYOUT_TYPES = 64,
  FATTR4_LAYOUT_BLKSIZE = 65,
  FATTR4_LAYOUT_ALIGNMENT = 66,
  FATTR4_FS_LOCATIONS_INFO = 67,
  FATTR4_MDSTHRESHOLD = 68,
  FATTR4_RETENTION_GET = 69,
  FATTR4_RETENTION_SET = 70,
  FATTR4_RETENTEVT_GET = 71,
  FATTR4_RETENTEVT_SET = 72,
  FATTR4_RETENTION_HOLD = 73,
  FATTR4_MODE_SET_MASKED = 74,
  FATTR4_SUPPATTR_EXCLCREAT = 75,
  FATTR4_FS_CHARSET_CAP = 76,
  FATTR4_CLONE_BLKSIZE = 77,
  FATTR4_SPACE_FREED = 78,
  FATTR4_CHANGE_ATTR_TYPE = 79,
  FATTR4_SEC_LABEL = 80,
  FATTR4_MODE_UMASK = 81,
  FATTR4_XATTR_SUPPORT = 82,
};

inline constexpr std::uint32_t FH4_PERSISTENT = 0x00000000;
inline constexpr std::uint32_t FH4_NOEXPIRE_WITH_OPEN = 0x00000001;
inline constexpr std::uint32_t FH4_VOLATILE_ANY = 0x00000002;
inline constexpr std::uint32_t FH4_VOL_MIGRATION = 0x00000004;
inline constexpr std::uint32_t FH4_VOL_RENAME = 0x00000008;

inline constexpr std::uint32_t ACL4_SUPPORT_ALLOW_ACL = 0x00000001;
inline constexpr std::uint32_t ACL4_SUPPORT_DENY_ACL = 0x00000002;
inline constexpr std::uint32_t ACL4_SUPPORT_AUDIT_ACL = 0x00000004;
inline constexpr std::uint32_t ACL4_SUPPORT_ALARM_ACL = 0x00000008;

enum change_attr_type4 : std::uint32_t {
  NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR = 0,
  NFS4_CHANGE_TYPE_IS_VERSION_COUNTER = 1,
  NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS = 2,
  NFS4_CHANGE_TYPE_IS_TIME_METADATA = 3,
  NFS4_CHANGE_TYPE_IS_UNDEFINED = 4,
};

/// RFC 8275: the mode of a new object, and the umask that applies unless an ACL is inherited.
struct mode_umask4 {
  mode4 mu_mode = 0;
  mode4 mu_umask = 0;
  friend bool operator==(const mode_umask4&, const mode_umask4&) = default;
};

// ---- sets of attributes ----

bitmap4 bitmap_of(std::initializer_list<fattr4_number> numbers);
void set_bit(bitmap4& map, std::uint32_t number);
inline bool has_bit(const bitmap4& map, std::uint32_t number) {
  return number / 32 < map.value.size() && ((map.value[number / 32] >> (number % 32)) & 1U) != 0;
}
/// Returns the numbers that are in both maps. Used to ask only for what the server supports.
bitmap4 intersection(const bitmap4& a, const bitmap4& b);
/// Returns the numbers that are in at least one of the maps.
bitmap4 union_of(const bitmap4& a, const bitmap4& b);
/// Returns the numbers of all members of WireAttributes.
const bitmap4& readable_attributes();
/// Returns the name in the specification ("time_modify"); empty for an attribute without a row.
std::string_view attribute_name(std::uint32_t number);

/// Returns the largest size of attr_vals in an answer to a request for these attributes, by the bounds of
/// their types; xdr::kUnbounded if one of them has no row. Attributes that cannot be read add nothing.
std::uint64_t max_attr_size(const bitmap4& requested);

// ---- reading ----

/// The values of an fattr4. An attribute that the fattr4 does not have is nullopt.
struct WireAttributes {
  std::optional<bitmap4> supported_attrs;
  std::optional<nfs_ftype4> type;
  std::optional<std::uint32_t> fh_expire_type;
  std::optional<changeid4> change;
  std::optional<std::uint64_t> size;
  std::optional<bool> link_support;
  std::optional<bool> symlink_support;
  std::optional<bool> named_attr;
  std::optional<fsid4> fsid;
  std::optional<bool> unique_handles;
  std::optional<std::uint32_t> lease_time;  ///< seconds
  std::optional<nfsstat4> rdattr_error;     ///< READDIR: reason why this entry has no other attributes
  std::optional<std::uint32_t> aclsupport;
  std::optional<bool> archive;
  std::optional<bool> cansettime;
  std::optional<bool> case_insensitive;
  std::optional<bool> case_preserving;
  std::optional<bool> chown_restricted;
  std::optional<nfs_fh4> filehandle;
  std::optional<std::uint64_t> fileid;
  std::optional<std::uint64_t> files_avail;
  std::optional<std::uint64_t> files_free;
  std::optional<std::uint64_t> files_total;
  std::optional<bool> hidden;
  std::optional<bool> homogeneous;
  std::optional<std::uint64_t> maxfilesize;
  std::optional<std::uint32_t> maxlink;
  std::optional<std::uint32_t> maxname;
  std::optional<std::uint64_t> maxread;
  std::optional<std::uint64_t> maxwrite;
  std::optional<mode4> mode;
  std::optional<bool> no_trunc;
  std::optional<std::uint32_t> numlinks;
  std::optional<principal4> owner;
  std::optional<principal4> owner_group;
  std::optional<std::uint64_t> quota_avail_hard;
  std::optional<std::uint64_t> quota_avail_soft;
  std::optional<std::uint64_t> quota_used;
  std::optional<specdata4> rawdev;
  std::optional<std::uint64_t> space_avail;
  std::optional<std::uint64_t> space_free;
  std::optional<std::uint64_t> space_total;
  std::optional<std::uint64_t> space_used;
  std::optional<bool> system;
  std::optional<nfstime4> time_access;
  std::optional<nfstime4> time_backup;
  std::optional<nfstime4> time_create;
  std::optional<nfstime4> time_delta;
  std::optional<nfstime4> time_metadata;
  std::optional<nfstime4> time_modify;
  std::optional<std::uint64_t> mounted_on_fileid;
  std::optional<bitmap4> suppattr_exclcreat;
  std::optional<std::uint32_t> fs_charset_cap;
  std::optional<std::uint32_t> clone_blksize;
  std::optional<std::uint64_t> space_freed;
  std::optional<change_attr_type4> change_attr_type;
  std::optional<bool> xattr_support;
};

/// Decodes an fattr4 from the message without copying its two parts. The earlier contents of `out` are
/// discarded.
[[nodiscard]] bool decode_attributes(xdr::Decoder& in, WireAttributes& out);
/// Decodes an fattr4 that has been read from its message. `fault`, if given, gets the reason of a failure.
[[nodiscard]] bool decode_attributes(const fattr4& in, WireAttributes& out, xdr::Fault* fault = nullptr);
/// Returns the fattr4 that answers a request for `requested`. This is a server's side, for tests and the
/// bridge.
fattr4 encode_attributes(const WireAttributes& attributes, const bitmap4& requested);

// ---- setting ----

/// A time to set: by the server's clock, or a time that this client gives.
settime4 server_time();
settime4 client_time(nfstime4 time);

/// The attributes that SETATTR, OPEN and CREATE may set. `mode_umask` excludes `mode`, and is for new objects
/// (RFC 8275).
struct WireChanges {
  std::optional<std::uint64_t> size;
  std::optional<mode4> mode;
  std::optional<principal4> owner;
  std::optional<principal4> owner_group;
  std::optional<settime4> time_access_set;
  std::optional<nfstime4> time_create;
  std::optional<settime4> time_modify_set;
  std::optional<mode_umask4> mode_umask;
};
fattr4 encode_changes(const WireChanges& changes);
/// Decodes an fattr4 on a server's side. Returns false for any attribute that WireChanges does not have.
[[nodiscard]] bool decode_changes(const fattr4& in, WireChanges& out);

}  // namespace nfsrdma::nfs4
