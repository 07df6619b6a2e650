// What files and directories are made of: plain values, of which each thread may have its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nfsrdma {

enum class FileType : unsigned char { unknown, regular, directory, symlink, block, character, fifo, socket };

struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  friend bool operator==(const Time&, const Time&) = default;
};

struct Attributes {
  FileType type = FileType::unknown;
  std::uint32_t mode = 0;  ///< permission bits, 07777
  std::uint32_t links = 0;
  std::string owner, group;               ///< as the server says: a number or name@domain
  std::optional<std::uint32_t> uid, gid;  ///< where owner and group are, or map to, numbers
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
  bool accessed_now = false, modified_now = false;  ///< the server's clock
};

struct DirectoryEntry {
  std::string name;
  std::uint64_t cookie = 0;
  /// Absent where the server could not tell (a mount point that fails, a permission).
  std::optional<Attributes> attributes;
};

struct FilesystemSpace {
  std::uint64_t total = 0, free = 0, available = 0;                    ///< bytes
  std::uint64_t files_total = 0, files_free = 0, files_available = 0;  ///< inodes
};

enum class OpenMode : unsigned char { read, write, read_write };

struct OpenFlags {
  bool create = false;
  bool exclusive = false;  ///< with create: fail with EEXIST if it is there
  bool truncate = false;
  std::uint32_t mode = 0666;  ///< permissions of a file that is created; the server applies no umask
};

/// When a write is over.
enum class Stability : unsigned char {
  unstable,  ///< the server has it; sync() makes it last
  on_disk,   ///< it is on the server's disk
};

/// The name that `length` bytes at `offset` fall under: data or a hole (RFC 7862 SEEK).
struct Extent {
  std::uint64_t offset = 0, length = 0;
  bool hole = false;
};

// ---- byte-range locks: advisory, as those of fcntl(2) ----

struct LockRange {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
  std::uint64_t offset = 0;
  std::uint64_t length = kToTheEnd;  ///< not 0; kToTheEnd: whatever is or comes behind the offset
  [[nodiscard]] std::uint64_t end() const {
    return length > kToTheEnd - offset ? kToTheEnd : offset + length;
  }
  static LockRange between(std::uint64_t begin, std::uint64_t end) {
    return {begin, end == kToTheEnd ? kToTheEnd : end - begin};
  }
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

struct LockRequest {
  /// A number of the program's choice: a thread, a task. Locks of one owner are never in each other's way,
  /// and later ones replace earlier ones.
  std::uint64_t owner = 0;
  bool write = false;  ///< exclusive; the file has to be open for writing. Else shared, and for reading
  LockRange range;
};

/// Who has a lock that is in the way.
struct LockHolder {
  LockRange range;
  bool write = false;
  bool ours = false;        ///< a lock owner of this Client …
  std::uint64_t owner = 0;  ///< … namely this one
};

// ---- extended attributes (RFC 8276): those that Linux calls "user.NAME" ----

/// What to do with one that is there, or is not.
enum class XattrMode : unsigned char {
  either,
  create,   ///< EEXIST if it is there
  replace,  ///< ENODATA if it is not
};

}  // namespace nfsrdma
