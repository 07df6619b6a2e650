// Attributes, flags, ranges and locks: the values that describe files and directories.
//
// Thread-safety: plain values; each thread may have its own copies.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma {

enum class FileType : unsigned char { unknown, regular, directory, symlink, block, character, fifo, socket };

struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  friend auto operator<=>(const Time&, const Time&) = default;
};

struct Attributes {
  FileType type = FileType::unknown;
  std::uint32_t mode = 0;  ///< permission bits, 07777
  std::uint32_t links = 0;
  std::string owner, group;  ///< as the server reports them: a number or name@domain
  /// Numeric ids. Absent if the server's owner or group is a name without a number on this machine.
  std::optional<std::uint32_t> uid, gid;
  std::uint64_t size = 0, space_used = 0, file_id = 0, change = 0;
  std::uint64_t filesystem_major = 0, filesystem_minor = 0;
  std::uint32_t device_major = 0, device_minor = 0;
  Time accessed, modified, changed;
};

struct SetAttributes {
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> accessed, modified;
  bool accessed_now = false, modified_now = false;  ///< set the time to the server's clock
};

struct DirectoryEntry {
  std::string name;
  std::uint64_t cookie = 0;
  /// Absent if the server could not report the attributes, for example of a mount point that fails or for
  /// lack of permission.
  std::optional<Attributes> attributes;
};

struct FilesystemSpace {
  std::uint64_t total = 0, free = 0, available = 0;                    ///< bytes
  std::uint64_t files_total = 0, files_free = 0, files_available = 0;  ///< inodes
};

enum class OpenMode : unsigned char { read, write, read_write };

struct OpenFlags {
  bool create = false;
  bool exclusive = false;  ///< with create: fail with EEXIST if the file exists
  bool truncate = false;
  std::uint32_t mode = 0666;  ///< permissions of a file that is created; the server applies no umask
};

/// When a write counts as done.
enum class Stability : unsigned char {
  unstable,  ///< the server has the data; sync() makes it stable
  on_disk,   ///< the data is on the server's disk
};

/// A stretch of a file, `length` bytes from `offset`, that is entirely data or entirely a hole (RFC 7862
/// SEEK).
struct Extent {
  std::uint64_t offset = 0, length = 0;
  bool hole = false;
};

/// The bytes that a read has fetched, and the holes that the server reported in them, if it reports holes
/// (option `read_plus`).
struct Stretch {
  std::size_t count = 0;
  bool has_holes = false;  ///< some of the bytes are in holes
  /// The end of the hole that contains the last byte; 0 if the last byte is data. Some servers report how
  /// far the hole reaches; others report only the part within the bytes that were asked for.
  std::uint64_t hole_ends = 0;
};

// ---- byte-range locks: advisory, as those of fcntl(2) ----

struct LockRange {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
  std::uint64_t offset = 0;
  std::uint64_t length = kToTheEnd;  ///< not 0; kToTheEnd: up to the end of the file, however far it grows
  [[nodiscard]] std::uint64_t end() const {
    return length > kToTheEnd - offset ? kToTheEnd : offset + length;
  }
  static LockRange between(std::uint64_t begin, std::uint64_t end) {
    return {begin, end == kToTheEnd ? kToTheEnd : end - begin};
  }
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

struct LockRequest {
  /// A number that the program chooses for each party that locks, for example a thread or a task. Locks of
  /// one owner never conflict with each other: a later lock replaces an earlier one where they overlap.
  std::uint64_t owner = 0;
  /// True: an exclusive lock, for which the file must be open for writing. False: a shared lock, for which
  /// the file must be open for reading.
  bool write = false;
  LockRange range;
};

/// The holder of a lock that conflicts with a requested one.
struct LockHolder {
  LockRange range;
  bool write = false;
  bool ours = false;        ///< the holder is a lock owner of this Client, namely `owner`
  std::uint64_t owner = 0;  ///< LockRequest::owner of the holder, if `ours`
};

// ---- extended attributes (RFC 8276): those that Linux calls "user.NAME" ----

/// Whether setting an extended attribute may create it, replace it, or do either.
enum class XattrMode : unsigned char {
  either,
  create,   ///< EEXIST if it exists
  replace,  ///< ENODATA if it does not exist
};

}  // namespace nfsrdma
