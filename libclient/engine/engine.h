// What a protocol's engine does, in the words of files, whatever the version: objects stand at spots (spot.h),
// names in directories, files are opened. The faces stand on it: the file layer of a mount (fs/), which has
// handles, and the public API (api/), which has paths (paths.h).
//
// `caller` is whose rights count; null: those of the engine's own credential. Names are single components; a
// symbolic link is never followed: who has one in his way follows it (paths.h). Attributes come along where
// the server gives them; where they did not, they may be asked for. What the server does not do is refused
// with EOPNOTSUPP.
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with,
// but not the Engine.
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
#include "engine/many.h"
#include "engine/quick_read.h"
#include "engine/spot.h"
#include "engine/statistics.h"
#include "engine/writers.h"
#include "locking/lock_wait.h"
#include "nfsrdma/acl.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"
#include "security/identity.h"

namespace nfsrdma::engine {

using security::Caller;

struct Object {
  FileHandle handle;
  std::optional<Attributes> attributes;
};

/// What was made, and the directory that it was made in, as it is afterwards.
struct Made {
  Object object;
  std::optional<Attributes> directory;
};

struct Renamed {
  std::optional<Attributes> source, target;  ///< the directories, as they are afterwards
};

/// What an object lets its caller do.
struct Rights {
  unsigned granted = 0;  ///< of R_OK, W_OK and X_OK (access(2))
  FileType type = FileType::unknown;
};

struct Space {
  FilesystemSpace space;
  FileType type = FileType::unknown;  ///< of the object that was asked about
  std::uint32_t longest_name = 255;
};

struct Listed {
  std::uint64_t cookie = 0;  ///< where to go on behind it
  std::string name;
  Attributes attributes;             ///< without a handle: type and number, as far as the server tells
  std::optional<FileHandle> handle;  ///< with it: all attributes
};
using ListVerifier = std::array<std::byte, 8>;
struct Page {
  std::vector<Listed> entries;
  ListVerifier verifier{};
  bool eof = false;
  FileHandle directory;  ///< to go on from
};

/// The holes that the server reported when it was read.
struct ReportedHoles {
  bool any = false;  ///< some of the bytes are in holes
  std::uint64_t hole_ends =
      0;  ///< end of the hole that the last byte is in, as far as it is known; 0: that is data
};

enum class Access : unsigned char { read = 1, write = 2, both = 3 };

/// A file that the server has open for one caller. Destroyed without Engine::close(), it is closed beside,
/// and nobody hears how that went. A task of it needs somebody to hold on to it.
class ServerFile {
 public:
  ServerFile() = default;
  virtual ~ServerFile();
  ServerFile(const ServerFile&) = delete;
  ServerFile& operator=(const ServerFile&) = delete;

  [[nodiscard]] virtual Access access() const = 0;
  /// Fewer bytes than asked for: the end of the file.
  virtual async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// read() that also gives what the server reports of holes. It need not report any.
  virtual async::Task<Result<std::size_t>> read_with_holes(std::span<std::byte> data, std::uint64_t offset,
                                                           ReportedHoles& holes);
  /// The same for little (quick_read.h). False: not now, or never; then there is read().
  virtual bool start(QuickRead& /*read*/) { return false; }
  /// What is unstable is this file's to write again until it is committed. `memory` holds `data`, and may be
  /// held for that. `after`: attributes as of just behind it, if the server tells them.
  virtual async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                                 std::uint64_t offset, Stability stability,
                                                 std::optional<Attributes>* after) = 0;
  /// `after`: none where nothing was to be committed.
  virtual async::Task<Status> commit(std::optional<Attributes>* after) = 0;
  [[nodiscard]] virtual bool has_unstable_data() const = 0;
  /// The file is as large as this at least: a restart may have cost the server what reaches so far, and it will be
  /// written again. 0: nothing of that is known.
  [[nodiscard]] virtual std::uint64_t end_in_doubt() const { return 0; }
  virtual async::Task<Result<Attributes>> attributes() = 0;
  /// The next byte of a hole, or of data, at or behind `offset`; none: there is none behind it.
  virtual async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, bool hole) = 0;
  virtual async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length) = 0;

  /// Who is in the way of it, if anybody. Changes nothing.
  virtual async::Task<Result<std::optional<LockHolder>>> test_lock(LockRequest request) = 0;
  /// Gives who is in the way; then it was not locked.
  virtual async::Task<Result<std::optional<LockHolder>>> lock(LockRequest request) = 0;
  /// Waits for as long as it takes, or until `cancelled` says so: EINTR, ErrorKind::cancelled.
  virtual async::Task<Status> wait_for_lock(LockRequest request,
                                            std::shared_ptr<locking::LockWait> cancelled) = 0;
  virtual async::Task<Status> unlock(std::uint64_t owner, LockRange range) = 0;
  /// Everything that the owner has on the file.
  virtual async::Task<Status> release_locks(std::uint64_t owner) = 0;
  /// Whether there is anything to release.
  [[nodiscard]] virtual bool knows_owner(std::uint64_t owner) const = 0;
  /// The same, of any owner who has locked it through this file.
  [[nodiscard]] virtual bool has_locks() const = 0;
};
using ServerFileRef = std::shared_ptr<ServerFile>;

struct Opened {
  ServerFileRef file;
  Object object;
  std::optional<Attributes> directory;  ///< that it was made in
};

class Engine {
 public:
  Engine() = default;
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual async::Loop& loop() = 0;
  /// Another than that of any other client of the server.
  [[nodiscard]] virtual std::uint64_t client_number() const = 0;
  [[nodiscard]] virtual const ServerCounters& counters() const = 0;
  [[nodiscard]] virtual ServerHoldings holdings() const = 0;
  /// One round trip, for nothing else.
  virtual async::Task<Status> ping() = 0;

  // ---- names and objects ----

  virtual async::Task<Result<Object>> find(Caller caller, Spot spot) = 0;
  /// "..", where the server has one. Attributes may be missing.
  virtual async::Task<Result<Object>> parent(Caller caller, FileHandle directory) = 0;
  virtual async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) = 0;
  /// `file`, if there is one, is open for writing. Gives them as they are afterwards.
  virtual async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object,
                                                         SetAttributes changes, ServerFileRef file) = 0;
  /// `wanted`: of R_OK, W_OK and X_OK. A directory is writable if names in it may be made and removed.
  virtual async::Task<Result<Rights>> access(Caller caller, Spot spot, unsigned wanted) = 0;
  /// EINVAL: it is no symbolic link.
  virtual async::Task<Result<std::string>> read_link(Caller caller, Spot spot) = 0;
  virtual async::Task<Result<Space>> space(Caller caller, Spot spot) = 0;
  virtual async::Task<Result<Made>> make_directory(Caller caller, Spot directory, std::string name,
                                                   std::uint32_t mode) = 0;
  virtual async::Task<Result<Made>> make_symlink(Caller caller, Spot directory, std::string name,
                                                 std::string text) = 0;
  struct Device {
    std::uint32_t major = 0, minor = 0;
  };
  /// `type`: fifo, socket, character or block.
  virtual async::Task<Result<Made>> make_node(Caller caller, Spot directory, std::string name, FileType type,
                                              Device device, std::uint32_t mode) = 0;
  virtual async::Task<Result<Made>> link(Caller caller, Spot object, Spot directory, std::string name) = 0;
  enum class Removed : unsigned char { file, directory };
  /// `what` the caller knows it to be: a server may remove the other kind, too. Gives the directory as it is
  /// afterwards.
  virtual async::Task<Result<std::optional<Attributes>>> remove(Caller caller, Spot directory,
                                                                std::string name, Removed what) = 0;
  virtual async::Task<Result<Renamed>> rename(Caller caller, Spot from, std::string old_name, Spot to,
                                              std::string new_name) = 0;
  /// Names behind `cookie` (0: the first), without "." and "..". `verifier`: that of the page before, zero
  /// for the first.
  virtual async::Task<Result<Page>> list(Caller caller, Spot directory, std::uint64_t cookie,
                                         ListVerifier verifier) = 0;

  // ---- extended attributes: names without "user."; ENODATA: there is none of this name ----

  virtual async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                                std::string name) = 0;
  virtual async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                        std::vector<std::byte> value, XattrMode mode) = 0;
  virtual async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) = 0;
  virtual async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) = 0;

  // ---- access control lists (nfsrdma/acl.h); without them: EOPNOTSUPP ----

  enum class AclForm : unsigned char { none, posix, nfs4 };
  /// That of the version, whatever the server has.
  [[nodiscard]] virtual AclForm acl_form() const { return AclForm::none; }
  /// Whether the server has them for the object, so far as that is known; asks where it is not.
  virtual async::Task<Result<bool>> has_acls(Caller caller, FileHandle object);
  virtual async::Task<Result<Acl>> get_acl(Caller caller, FileHandle object);
  /// All of it; of a POSIX one both lists, which are ordered().
  virtual async::Task<Status> set_acl(Caller caller, FileHandle object, Acl acl);

  // ---- files ----

  /// `label`: what it is called in errors. `found_at`: where somebody found it who opens it by name. If that
  /// name leads elsewhere by now, or nowhere, the file is not opened: ESTALE. Where the caller may not look
  /// the name up, or the server has promised to tell of a change, it is opened without looking. A version that
  /// opens files by their names only (NFSv4.0) needs a place, be it a fresh one.
  virtual async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                           std::optional<Place> found_at) = 0;
  struct EarlyRead {
    std::uint64_t change = 0;  ///< the change attribute that the bytes are not older than
    std::size_t size = 0;      ///< fewer than there is room for: the end of the file
  };
  /// The first bytes of a file that is being opened, while nobody knows yet whether it may be. Whoever opens it has
  /// them where they are of the state that open() finds. EOPNOTSUPP: there is no such thing.
  virtual async::Task<Result<EarlyRead>> read_early(Caller caller, FileHandle file,
                                                    std::span<std::byte> into);
  struct Creation {
    std::uint32_t mode = 0;
    bool exclusive = false;  ///< one that is there is an error (EEXIST)
    bool truncate = false;   ///< one that is there is cut
  };
  /// By name. `creation`: it is made if it is not there. A symbolic link: ELOOP.
  virtual async::Task<Result<Opened>> open_at(Caller caller, Spot directory, std::string name, Access access,
                                              std::optional<Creation> creation) = 0;
  /// Commits what is unstable, if nobody else writes it. The error of that comes from here.
  virtual async::Task<Status> close(ServerFileRef file) = 0;
  /// Nobody waits for close() from now on: what it tells the server may wait for more of the kind, for some
  /// milliseconds.
  virtual void hold_closes() {}
  /// Somebody does wait for those that have begun.
  virtual void hurry_closes() {}
  /// Within the server, and stable when it returns: how much of `count` was copied.
  virtual async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset,
                                                  ServerFileRef to, std::uint64_t to_offset,
                                                  std::uint64_t count) = 0;

  // ---- many files at once (many.h): each item gets its result. A symbolic link: ELOOP. Here one by one, some
  // of them in flight ----

  virtual async::Task<void> read_many(Caller caller, std::vector<ManyRead*> items);
  /// Each file is made, or cut, and has its data on the server's disk then.
  virtual async::Task<void> write_many(Caller caller, std::vector<ManyWritten*> items);
  virtual async::Task<void> stat_many(Caller caller, std::vector<ManyTold*> items);

  // ---- what is known without asking ----

  /// Changes with what this client does that may change the object's attributes, begun and ended.
  [[nodiscard]] virtual std::uint64_t modifications(const FileHandle& object) const = 0;
  /// What that will be when one such call, begun now, has ended, if there is no other meanwhile.
  [[nodiscard]] virtual std::uint64_t modifications_after_call(const FileHandle& object) const = 0;
  /// The server has promised to tell before anybody else changes the file: attributes() asks nobody.
  [[nodiscard]] virtual bool delegated(const FileHandle& file) const = 0;
  /// How long the server waits for us then, at least.
  [[nodiscard]] virtual std::chrono::seconds delegated_for() const = 0;
  /// Told of the file when such a promise ends, before the server hears of it.
  virtual void on_delegation_end(std::function<void(const FileHandle&)> sink) = 0;
  /// Told of a file whose unstable data is lost, with the error that lost it: the server's answer to a COMMIT
  /// or to writing it again, whether somebody waits for that or not. A commit() gives the error, too. While
  /// there is no `sink` such data is kept, and another commit() tries again.
  virtual void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) = 0;
  /// Who keeps data behind close(2); null: nobody does any more. He must outlive what he is asked for.
  virtual void writers(Writers* who) = 0;
  /// How large the file may be for close(2) to leave its data to the Writers: nobody else sees it before it is written out,
  /// and the server has promised the room. 0: it may not.
  [[nodiscard]] virtual std::uint64_t closes_early(const FileHandle& file) const = 0;
  /// close(2) of the file has returned before its data was with the server, as closes_early() lets it. If the server's
  /// promise is lost before it has what was written through `file`, that data is discarded: write() or commit() fails, or
  /// on_lost_data() says so.
  virtual void close_is_deferred(const ServerFileRef& /*file*/) {}
  /// How many files at most are kept open for their delegations alone, when nobody has them open any more.
  virtual void keep_delegated(std::size_t most) = 0;
  /// Nobody will ask for the file.
  virtual void forget(const FileHandle& file) = 0;
  /// Ends when no file is kept open.
  virtual async::Task<void> forget_all() = 0;
  [[nodiscard]] virtual std::size_t open_files() const = 0;  ///< with those that are kept
  [[nodiscard]] virtual std::size_t kept_files() const = 0;
  /// Memory that is held until the server says that it has it on its disk.
  [[nodiscard]] virtual std::size_t uncommitted_bytes() const = 0;
};

}  // namespace nfsrdma::engine
