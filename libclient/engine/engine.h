// The interface of a protocol's engine: the operations on files and directories, independent of the
// protocol's version. Objects are addressed by Spots (spot.h), names are in directories, and files are
// opened. Two layers are built on it: the file layer of a mount (fs/), which has handles, and the public API
// (api/), which has paths (paths.h).
//
// Rules. `caller` is the user whose rights count; null means the engine's own credential. Names are single
// components. A symbolic link is never followed; a caller that meets one follows it itself (paths.h).
// Attributes are returned if the server sent them with its answer; if they are missing, attributes() asks for
// them. An operation that the server or the version does not have fails with EOPNOTSUPP.
//
// Confined to the loop's thread. Arguments are taken by value, because a task may outlive the objects that it
// was called with. The Engine has to outlive its tasks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/loop.h"
#include "async/memory.h"
#include "async/task.h"
#include "engine/fast_read.h"
#include "engine/many_files.h"
#include "engine/promises.h"
#include "engine/shard.h"
#include "engine/spot.h"
#include "engine/statistics.h"
#include "locking/lock_wait.h"
#include "nfsrdma/acl_types.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"
#include "security/identity.h"

namespace nfsrdma::engine {

using security::Caller;

struct Object {
  FileHandle handle;
  std::optional<Attributes> attributes;
};

/// A new object, and the attributes that its directory has after the change.
struct Made {
  Object object;
  std::optional<Attributes> directory;
};

struct Renamed {
  std::optional<Attributes> source, target;  ///< attributes of the two directories after the change
};

/// The rights of a caller on an object.
struct Rights {
  unsigned granted = 0;  ///< a combination of R_OK, W_OK and X_OK (access(2))
  FileType type = FileType::unknown;
};

struct Space {
  FilesystemSpace space;
  FileType type = FileType::unknown;  ///< type of the object that was asked about
  std::uint32_t longest_name = 255;
};

struct Listed {
  std::uint64_t cookie = 0;  ///< the position behind this entry, from which list() continues
  std::string name;
  /// The attributes of the entry. Without a handle only type and number are present, as far as the server
  /// reports them.
  Attributes attributes;
  std::optional<FileHandle> handle;  ///< if present, `attributes` is complete
};
using ListVerifier = std::array<std::byte, 8>;
struct Page {
  std::vector<Listed> entries;
  ListVerifier verifier{};
  bool eof = false;
  FileHandle directory;  ///< the listed directory, for the calls that continue from here
};

/// The holes that the server reported with the data of a READ.
struct ReportedHoles {
  bool any = false;  ///< some of the bytes are in holes
  /// End, as far as it is known, of the hole that contains the last byte; 0 if the last byte is data.
  std::uint64_t hole_ends = 0;
};

/// The result of ServerFile::write_and_set_times().
struct WrittenWithTimes {
  std::size_t count = 0;
  bool times_are_set = false;
};

enum class Access : unsigned char { read = 1, write = 2, both = 3 };

/// A file that the server has open for one caller. If it is destroyed without Engine::close() it is closed in
/// the background, and the result is discarded. The caller of a task keeps the ServerFile alive until the
/// task ends.
class ServerFile {
 public:
  ServerFile() = default;
  virtual ~ServerFile();
  ServerFile(const ServerFile&) = delete;
  ServerFile& operator=(const ServerFile&) = delete;

  [[nodiscard]] virtual Access access() const = 0;
  /// Reads into `data` and returns the number of bytes. Fewer bytes than asked for mean the end of the file.
  virtual async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// Does what read() does, and stores in `holes` the holes that the server reports. A server may report
  /// none.
  virtual async::Task<Result<std::size_t>> read_with_holes(std::span<std::byte> data, std::uint64_t offset,
                                                           ReportedHoles& holes);
  /// Starts a READ on the fast path (fast_read.h). Returns false if that is not possible now, or never; use
  /// read() then.
  virtual bool start(FastRead& /*read*/) { return false; }
  /// Prepares a READ of `size` bytes for a shard (shard.h). Returns null if that is not possible now, or never; use
  /// read() then.
  virtual std::unique_ptr<ShardRead> prepare_read(std::size_t /*size*/, std::uint64_t /*offset*/) {
    return nullptr;
  }
  /// Writes `data`, which `memory` holds; the memory is kept until the data is stable. This object writes
  /// unstable data again if the server loses it before a COMMIT. `after` gets the attributes that came with
  /// the last WRITE, if any came.
  virtual async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                                 std::uint64_t offset, Stability stability,
                                                 std::optional<Attributes>* after) = 0;
  /// Does what write() does, with Stability::on_disk, and then sets the times of `changes`, which has nothing else, by the
  /// same call, if the protocol can do that. If it cannot, or if the server refuses the times, only the data is written.
  virtual async::Task<Result<WrittenWithTimes>> write_and_set_times(std::span<const std::byte> data,
                                                                    async::Memory memory,
                                                                    std::uint64_t offset,
                                                                    SetAttributes changes,
                                                                    std::optional<Attributes>* after);
  /// Makes all written data stable. `after` gets the attributes that came with the COMMIT; none if there was
  /// nothing to commit.
  virtual async::Soon<Status> commit(std::optional<Attributes>* after) = 0;
  [[nodiscard]] virtual bool has_unstable_data() const = 0;
  /// Returns a lower bound of the file's size: the end of data that a restart of the server may have lost and
  /// that will be written again. 0 if there is no such data.
  [[nodiscard]] virtual std::uint64_t end_in_doubt() const { return 0; }
  virtual async::Task<Result<Attributes>> attributes() = 0;
  /// Returns the offset of the next byte that is in a hole (`hole`) or in data, at or behind `offset`; none
  /// if there is none.
  virtual async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, bool hole) = 0;
  virtual async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length) = 0;

  /// Returns the holder of a conflicting lock, or none if there is no conflict. Takes no lock.
  virtual async::Task<Result<std::optional<LockHolder>>> test_lock(LockRequest request) = 0;
  /// Takes the lock and returns none, or returns the holder of a conflicting lock and takes nothing.
  virtual async::Task<Result<std::optional<LockHolder>>> lock(LockRequest request) = 0;
  /// Takes the lock, and waits until it is free. If `cancelled` is cancelled meanwhile, fails with EINTR and
  /// ErrorKind::cancelled.
  virtual async::Task<Status> wait_for_lock(LockRequest request,
                                            std::shared_ptr<locking::LockWait> cancelled) = 0;
  virtual async::Task<Status> unlock(std::uint64_t owner, LockRange range) = 0;
  /// Unlocks all ranges that the owner has locked in the file.
  virtual async::Task<Status> release_locks(std::uint64_t owner) = 0;
  /// Returns whether the owner has locks here, or had locks that were lost, so that release_locks() has
  /// something to do.
  [[nodiscard]] virtual bool knows_owner(std::uint64_t owner) const = 0;
  /// Returns whether any owner that locked the file through this object has locks, or had locks that were
  /// lost.
  [[nodiscard]] virtual bool has_locks() const = 0;
};
using ServerFileRef = std::shared_ptr<ServerFile>;

struct Opened {
  ServerFileRef file;
  Object object;
  std::optional<Attributes> directory;  ///< attributes of the directory in which the file was created
  /// Number of bytes that open_and_read() has read; none if it has read nothing, or nothing that counts.
  std::optional<std::size_t> first = {};
};

class Engine {
 public:
  Engine() = default;
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual async::Loop& loop() = 0;
  /// Returns a number that differs from that of every other client of the server.
  [[nodiscard]] virtual std::uint64_t client_number() const = 0;
  [[nodiscard]] virtual const ServerCounters& counters() const = 0;
  [[nodiscard]] virtual ServerHoldings holdings() const = 0;
  /// Makes one round trip to the server that has no other effect.
  virtual async::Task<Status> ping() = 0;

  // ---- names and objects ----

  virtual async::Task<Result<Object>> find(Caller caller, Spot spot) = 0;
  /// Returns the directory above ("..") if the server has one. Attributes may be missing.
  virtual async::Task<Result<Object>> parent(Caller caller, FileHandle directory) = 0;
  virtual async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) = 0;
  /// Changes attributes and returns all attributes after the change. `file` is null or open for writing.
  virtual async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object,
                                                         SetAttributes changes, ServerFileRef file) = 0;
  /// `wanted` combines R_OK, W_OK and X_OK. A directory is writable if names in it may be made and removed.
  virtual async::Task<Result<Rights>> access(Caller caller, Spot spot, unsigned wanted) = 0;
  /// Fails with EINVAL if the object is no symbolic link.
  virtual async::Task<Result<std::string>> read_link(Caller caller, Spot spot) = 0;
  virtual async::Task<Result<Space>> space(Caller caller, Spot spot) = 0;
  virtual async::Task<Result<Made>> make_directory(Caller caller, Spot directory, std::string name,
                                                   std::uint32_t mode) = 0;
  virtual async::Task<Result<Made>> make_symlink(Caller caller, Spot directory, std::string name,
                                                 std::string text) = 0;
  struct Device {
    std::uint32_t major = 0, minor = 0;
  };
  /// `type` is fifo, socket, character or block.
  virtual async::Task<Result<Made>> make_node(Caller caller, Spot directory, std::string name, FileType type,
                                              Device device, std::uint32_t mode) = 0;
  virtual async::Task<Result<Made>> link(Caller caller, Spot object, Spot directory, std::string name) = 0;
  enum class Removed : unsigned char { file, directory };
  /// Removes the name and returns the directory's attributes after the change. `what` is the kind that the
  /// caller expects. The server may remove an object of the other kind, too.
  virtual async::Task<Result<std::optional<Attributes>>> remove(Caller caller, Spot directory,
                                                                std::string name, Removed what) = 0;
  /// `object`: what the caller believes the old name to lead to. If the answer is lost, an object of the new name counts as the
  /// renamed one only if it is this one, or if nothing is believed.
  virtual async::Task<Result<Renamed>> rename(Caller caller, Spot from, std::string old_name, Spot to,
                                              std::string new_name, std::optional<FileHandle> object) = 0;
  /// Returns the names behind `cookie` (0: from the first), without "." and "..". `verifier` is that of the
  /// previous page; zero for the first.
  virtual async::Task<Result<Page>> list(Caller caller, Spot directory, std::uint64_t cookie,
                                         ListVerifier verifier) = 0;

  // ---- extended attributes: names without "user."; ENODATA: there is none of this name ----

  virtual async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                                std::string name) = 0;
  virtual async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                        std::vector<std::byte> value, XattrMode mode) = 0;
  virtual async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) = 0;
  virtual async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) = 0;

  // ---- access control lists (nfsrdma/acl_types.h); without them: EOPNOTSUPP ----

  enum class AclForm : unsigned char { none, posix, nfs4 };
  /// Returns the form of access control list that the protocol's version has, whether or not the server
  /// supports any.
  [[nodiscard]] virtual AclForm acl_form() const { return AclForm::none; }
  /// Returns whether the server supports access control lists for the object. Asks the server if that is not
  /// known yet.
  virtual async::Task<Result<bool>> has_acls(Caller caller, FileHandle object);
  virtual async::Task<Result<Acl>> get_acl(Caller caller, FileHandle object);
  /// Replaces the whole access control list. A POSIX one consists of both lists, and both are ordered().
  virtual async::Task<Status> set_acl(Caller caller, FileHandle object, Acl acl);

  // ---- files ----

  /// Opens a file by its handle. `label` is its name in errors. `found_at` is the place where a caller that
  /// opens by name found the file: if that name leads elsewhere or nowhere by now, the file is not opened,
  /// and the error is ESTALE. The name is not checked if the caller may not look it up, or if the server has
  /// granted a delegation. A version that opens files by name only (NFSv4.0) needs a place, which may be a
  /// fresh one.
  virtual async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                           std::optional<Place> found_at) = 0;
  /// Opens a file for reading as open() does, and reads its first bytes in the same call if the version and the server can
  /// do that (Opened::first). The bytes are at least as new as the attributes in the result. Fewer bytes than there is
  /// room for mean the end of the file. The default implementation reads nothing.
  virtual async::Task<Result<Opened>> open_and_read(Caller caller, FileHandle file, std::string label,
                                                    std::optional<Place> found_at, std::span<std::byte> into);
  struct Creation {
    std::uint32_t mode = 0;
    bool exclusive = false;  ///< an existing file is an error (EEXIST)
    bool truncate = false;   ///< an existing file is truncated
  };
  /// Opens a file by name. With `creation` the file is created if it does not exist. Fails with ELOOP if the
  /// name is a symbolic link.
  virtual async::Task<Result<Opened>> open_at(Caller caller, Spot directory, std::string name, Access access,
                                              std::optional<Creation> creation) = 0;
  /// Closes the file. Commits its unstable data first if no other open for writing shares that data, and
  /// returns the error of that.
  virtual async::Task<Status> close(ServerFileRef file) = 0;
  /// Copies within the server. Returns how many of the `count` bytes were copied; they are stable then.
  virtual async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset,
                                                  ServerFileRef to, std::uint64_t to_offset,
                                                  std::uint64_t count) = 0;

  // ---- many files at once (many_files.h): each item gets its own result; ELOOP if its name is a symbolic
  // link. The default implementations open one file per item, several of them in parallel ----

  virtual async::Task<void> read_many(Caller caller, std::vector<ManyRead*> items);
  /// Creates or truncates each file. Its data is on the server's disk when the task ends.
  virtual async::Task<void> write_many(Caller caller, std::vector<ManyWritten*> items);
  virtual async::Task<void> stat_many(Caller caller, std::vector<ManyTold*> items);

  // ---- what is known without asking ----

  /// Returns a counter that increases when this client begins an operation that may change the object's
  /// attributes, and again when the operation ends. Compare two readings to learn whether attributes that
  /// were asked for in between may be stale.
  [[nodiscard]] virtual std::uint64_t modifications(const FileHandle& object) const = 0;
  /// Returns the value that modifications() will have after one such operation that begins now, if no other
  /// overlaps it.
  [[nodiscard]] virtual std::uint64_t modifications_after_call(const FileHandle& object) const = 0;
  /// Returns what the server has promised about files. A version whose servers promise nothing keeps the default.
  [[nodiscard]] virtual Promises& promises();
  /// `sink` is called with a file whose unstable data is lost, and with the error that lost it: the server's
  /// answer to a COMMIT or to the rewrite, whether or not a caller waits for that. A commit() returns the
  /// error, too. Without a `sink` such data is kept, and the next commit() tries again.
  virtual void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) = 0;
  [[nodiscard]] virtual std::size_t open_files() const = 0;  ///< including those that are kept open
  /// Returns the number of bytes that are held until the server has confirmed that they are on its disk.
  [[nodiscard]] virtual std::size_t uncommitted_bytes() const = 0;
};

}  // namespace nfsrdma::engine
