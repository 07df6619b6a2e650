// A mounted file system: translates the kernel's requests into operations of a protocol's engine
// (engine/engine.h).
//
// The kernel names an object by its inode number (inodes.h), and every operation carries the caller whose
// rights count. Each operation is one round trip if the server permits that. FileSystem owns these parts,
// which do the rest:
//   Freshness       freshness.h        known attributes, and how long each is valid
//   WriteBehind     write_behind.h     writes that are answered before they are on the server
//   ReadWindow      read_window.h      the amount of read-ahead, for each open file and for all
//   Removal         removal.h          removal and renaming of files that are open here
//   DeferredCloses  deferred_closes.h  files whose close(2) returned before their data was safe
//   LookupsAhead    lookups_ahead.h    lookups that are answered from directory pages in memory
//   DirectoryPages  directory_pages.h  limits of the memory of open directories, per user and for all users
//
// Consistency is close-to-open, as with every NFS client. open() obtains the change attribute; if it differs
// from that of the contents which the kernel has cached, the kernel drops them. close() and fsync() end when
// the data is on the server's disk. In between, attributes and names are valid for a while (CacheOptions). A
// file with a delegation is opened and closed without a call to the server, and stays open for that after its
// last close (Promises::keep_delegated). With a write delegation close() does not wait for the data, which is
// then on its way: no other client sees the file before it has been written out (engine/write_back_owner.h).
// close() does wait if the file is locked, because a lock must be held until the data is written. rename(2)
// and link(2) first save such data, so that no name survives a crash of this client without its data.
//
// Operations that have to see earlier writes (reads, locks, changes of attributes and the like) wait for the
// writes that were answered when the operation began. A request for attributes alone does not wait for all of
// them. Before a lock is taken, changed or released, before lseek(2) looks for data, and before the server
// copies from the file, the kernel is also asked to write back what programs have stored in mappings. After a
// lock is granted the kernel's pages of the file are dropped, and the kernel is notified of the file's size:
// other clients may have written while they held their locks, and a mapping ends where the kernel believes
// that the file ends.
//
// The kernel caches pages of what it reads and writes, at the offsets where it believes them to be. A file
// that is open for appending only gets no pages (OpenHandle::uncached). A file that is also open for reading
// does; its pages are dropped if the kernel was wrong about the end of the file. Pages are also dropped if
// data was lost, and if an O_DIRECT write bypassed pages that were being read.
//
// The kernel opens files by number, relying on a name that it may have cached for a while. So an inode
// remembers the directory and name by which it was found, and the server looks the name up again while it
// opens the file. If the name leads elsewhere, open() fails with ESTALE, and Linux then walks the path again
// without its cache, by LOOKUPs. A file can also be opened without its name (/proc/self/fd,
// open_by_handle_at): for this reason the next open() by the refused thread succeeds without the check,
// unless a LOOKUP has found the file in between. A file that was found by several names, because it has
// several or was renamed by another client, is checked by each that the kernel may still believe
// (other_names.h). A name that leads elsewhere is dropped by the kernel, upon a notification that nothing
// waits for: the kernel cannot handle it while a program looks a name up in that directory, or changes it.
//
// On a mount for several users (CacheOptions::several_users) the kernel checks no rights, neither by mode
// bits nor by the names in its cache: names are given to it with a validity of zero, so that it looks up each
// name of a path on behalf of the user who walks it. The server checks that user's rights, by LOOKUP. What it
// grants is remembered for a while (search_rights.h), and meanwhile known names and attributes are returned
// without asking it again. The rights of a user who opens a file are checked by the server's OPEN. Because
// servers let a user who may only execute a file read it, ACCESS distinguishes the two rights.
//
// A small file that is opened for reading is read at the same time (Engine::read_early). The kernel gets
// these bytes if OPEN finds the file in the state that they belong to.
//
// Directories are read by pages, from which the kernel takes a few entries at a time. Attributes and names
// from a page are given out with the validity that remains since the page was read. If this mount has changed
// the name or the attributes since then, the entry is given without attributes, and the kernel looks it up.
// Names that this mount has removed since then are left out.
//
// Confined to the loop's thread. Tasks may not outlive the FileSystem.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/tasks.h"
#include "engine/engine.h"
#include "fs/acl_xattrs.h"
#include "fs/cache_options.h"
#include "fs/counters.h"
#include "fs/deferred_closes.h"
#include "fs/directory_handle.h"
#include "fs/directory_pages.h"
#include "fs/freshness.h"
#include "fs/inodes.h"
#include "fs/lookups_ahead.h"
#include "fs/missing_names.h"
#include "fs/numbering.h"
#include "fs/open_handle.h"
#include "fs/read_window.h"
#include "fs/removal.h"
#include "fs/write_behind.h"

namespace nfsrdma::fs {

struct Entry {
  std::uint64_t inode = 0;  ///< 0: there is no such name; that answer is valid for `name_valid`
  Attributes attributes;
  Seconds attributes_valid{0}, name_valid{0};
};

struct OpenedFile {
  std::shared_ptr<OpenHandle> handle;
  bool keep_cache = false;  ///< the kernel's cached pages of the file are still valid
  /// The attributes that the kernel has cached are still valid, too.
  bool keep_attributes = false;
  Entry entry;  ///< create() only
};

/// Returns an Error of this layer itself, as opposed to one that the server returned.
Error refusal(int code, const char* operation, const std::string& name, const char* why);

class FileSystem : private engine::WriteBackOwner {
 public:
  /// `root` is the directory that is mounted.
  FileSystem(std::shared_ptr<Engine> engine, CacheOptions options, const Object& root);
  ~FileSystem() override;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// Looks a name up. "." and ".." are allowed, because the kernel uses them to find inodes that it has
  /// forgotten (open_by_handle_at(2)): "." is the inode itself, as long as its number is remembered, and ".."
  /// is the directory above it. The kernel must not cache these two names.
  async::Task<Result<Entry>> lookup(Caller caller, std::uint64_t directory, std::string name);
  void forget(std::uint64_t inode, std::uint64_t lookups);
  /// Returns the path of the name below the root ("a/b/name"), if an object was found there that the kernel
  /// may know.
  [[nodiscard]] std::optional<std::string> known_path(std::uint64_t directory, const std::string& name) const;
  async::Task<Result<Attributed>> attributes(Caller caller, std::uint64_t inode);
  async::Task<Result<Attributed>> set_attributes(Caller caller, std::uint64_t inode, SetAttributes changes,
                                                 std::shared_ptr<OpenHandle> file);
  /// `mode` is that of access(2). Fails with EACCES unless all of it is granted.
  async::Task<Status> access(Caller caller, std::uint64_t inode, unsigned mode);
  async::Task<Result<std::string>> read_link(Caller caller, std::uint64_t inode);
  async::Task<Result<Entry>> make_directory(Caller caller, std::uint64_t directory, std::string name,
                                            std::uint32_t mode);
  async::Task<Result<Entry>> make_symlink(Caller caller, std::uint64_t directory, std::string name,
                                          std::string text);
  async::Task<Result<Entry>> make_node(Caller caller, std::uint64_t directory, std::string name,
                                       std::uint32_t mode, std::uint64_t device);
  async::Task<Result<Entry>> link(Caller caller, std::uint64_t inode, std::uint64_t directory,
                                  std::string name);
  async::Task<Status> remove_file(Caller caller, std::uint64_t directory, std::string name);
  async::Task<Status> remove_directory(Caller caller, std::uint64_t directory, std::string name);
  async::Task<Status> rename(Caller caller, std::uint64_t from, std::string old_name, std::uint64_t to,
                             std::string new_name);
  async::Task<Result<Space>> space(Caller caller, std::uint64_t inode);

  // ---- directories ----
  /// Returns the directory for list(). The handle may be dropped at any time. `flags` are those of open(2).
  /// With O_DIRECTORY, which opendir(3) sets, the first page is read at once; this also shows whether the
  /// directory still exists.
  async::Task<Result<std::shared_ptr<DirectoryHandle>>> open_directory(Caller caller, std::uint64_t inode,
                                                                       int flags);
  /// Returns the names behind `cookie` (0: from the first), as many as the server sends at once; none at the
  /// end. The handle keeps the page until the next one is read, or until the page has to make room for others
  /// (directory_pages.h).
  async::Task<Result<ListedNames>> list(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie);
  /// Returns whether this mount has removed the name since it was listed.
  [[nodiscard]] static bool is_gone(const DirectoryHandle& directory, const Listed& listed);
  /// Returns the entry that lookup() would return, and counts as a lookup of it: the next lookup() of the
  /// name asks the server. If the inode is 0 the name has to be looked up.
  Entry entry_of(const DirectoryHandle& directory, const Listed& listed);
  /// Returns what is known of an entry without a lookup: type and number.
  [[nodiscard]] Attributes brief_of(const Listed& listed);
  /// The st_ino of "." and "..".
  struct Dots {
    std::uint64_t self = 0, parent = 0;
  };
  async::Task<Dots> dots(std::shared_ptr<DirectoryHandle> directory);

  // ---- files ----
  /// The flag of open(2) that marks an open for execve(2) (FMODE_EXEC of Linux, which FUSE passes on).
  static constexpr int kForExecution = 0x20;
  /// `flags` are those of open(2). `thread` is the kernel's number of the thread that opens the file.
  async::Task<Result<OpenedFile>> open(Caller caller, std::uint64_t inode, int flags,
                                       std::uint32_t thread = 0);
  async::Task<Result<OpenedFile>> create(Caller caller, std::uint64_t directory, std::string name,
                                         std::uint32_t mode, int flags);
  async::Task<Result<ReadData>> read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                     std::size_t size);
  /// Returns true if read() would be exactly one READ to the server: no write is under way, none of the bytes
  /// are here, and nothing is to be read ahead. The caller may then make the READ itself
  /// (ServerFile::start()). After true end_plain_read() must follow before the file is released. `got` is the
  /// number of bytes that were read, 0 if the READ failed, and none if it was not started.
  [[nodiscard]] bool begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size);
  void end_plain_read(OpenHandle& file, std::optional<std::size_t> got);
  /// Called when a read by the kernel met the end of the file at `end`: the kernel may cut its i_size to
  /// that.
  static void has_ended(OpenHandle& file, std::uint64_t end) { file.inode().pages.may_end_at(end); }
  /// The `flags` of a page that the kernel writes back. A descriptor that may write has O_WRONLY or O_RDWR
  /// instead.
  static constexpr int kWrittenBack = 0;
  /// `memory` holds what `data` points to. `flags` are those of the descriptor at the moment (F_SETFL may
  /// have changed them); none: those of the open(2). With O_APPEND `offset` is where the kernel believes the
  /// end of the file to be.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory,
                            std::span<const std::byte> data, std::uint64_t offset,
                            std::optional<int> flags = std::nullopt);

  [[nodiscard]] bool kernel_gathers() const { return options_.kernel_gathers; }

  // ---- reads and writes that bypass the kernel, which neither passes the data on nor caches it
  // (file_system_past.cpp) ----
  struct DirectRead {
    bool ahead = false;  ///< the read may use read-ahead data, and may read ahead itself
  };
  /// Reads into `data`, which `memory` holds. Fewer bytes than asked for mean the end of the file.
  async::Task<Result<std::size_t>> read_direct(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                               std::span<std::byte> data, std::uint64_t offset,
                                               DirectRead how);
  /// Does what write() does, and returns the offset that the data was written to.
  async::Task<Result<std::uint64_t>> write_direct(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                                  std::span<const std::byte> data, std::uint64_t offset,
                                                  int flags);
  /// Does what fsync(2) does, including what programs have stored in mappings of the file.
  async::Task<Status> sync_past(std::shared_ptr<OpenHandle> file);

  /// Returns whether a program still waits for the answer. An error that no program receives does not count
  /// as reported.
  using Heard = std::function<bool()>;
  /// Handles close(2). Afterwards the data is on the server's disk, or on its way there if the file has a
  /// write delegation. The locks of `lock_owner` are released, as POSIX demands.
  async::Task<Status> flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner, Heard heard = {});
  async::Task<Status> sync(std::shared_ptr<OpenHandle> file, Heard heard = {});
  async::Task<Status> close(std::shared_ptr<OpenHandle> file);
  /// Ends when no close() is under way and no file is kept open for its delegation.
  async::Task<void> closed();
  async::Task<Result<std::uint64_t>> seek(std::shared_ptr<OpenHandle> file, std::uint64_t offset, int whence);
  async::Task<Status> allocate(std::shared_ptr<OpenHandle> file, int mode, std::uint64_t offset,
                               std::uint64_t length);
  async::Task<Result<std::uint64_t>> copy(std::shared_ptr<OpenHandle> from, std::uint64_t from_offset,
                                          std::shared_ptr<OpenHandle> to, std::uint64_t to_offset,
                                          std::uint64_t count);

  // ---- locks ----
  async::Task<Result<std::optional<LockHolder>>> test_lock(std::shared_ptr<OpenHandle> file,
                                                           LockRequest request);
  /// Without `wait`, fails with EAGAIN if another owner has a conflicting lock. With `wait`, waits for the
  /// lock; `wait` can be cancelled at any time, and the call then fails with EINTR.
  async::Task<Status> lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                           std::shared_ptr<locking::LockWait> wait);
  async::Task<Status> unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner, LockRange range);
  /// Releases all locks that the owner has taken through the file. The server then has no state of the owner
  /// any more.
  async::Task<Status> release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner);

  // ---- extended attributes: names with "user." ----
  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Status> set_xattr(Caller caller, std::uint64_t inode, std::string name,
                                std::vector<std::byte> value, int flags);
  async::Task<Status> remove_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, std::uint64_t inode);

  /// `sink` is called with an inode whose cached attributes are no longer valid although their time has not
  /// run out.
  void on_doubt(std::function<void(std::uint64_t)> sink) { freshness_.on_doubt(std::move(sink)); }

  /// A task that ends when the kernel has dropped its pages of the inode from `offset` on (`length` 0: to the
  /// end). As soon as the task has begun, the kernel ignores the answers to GETATTRs that it had sent before.
  using DropPages =
      std::function<async::Task<void>(std::uint64_t inode, std::uint64_t offset, std::uint64_t length)>;
  void on_stale_pages(DropPages sink) { drop_pages_ = std::move(sink); }
  /// A task that ends when the kernel knows that the file ends at `end`, or behind it, and has `last` as the
  /// byte before `end`.
  using Lengthen = std::function<async::Task<void>(std::uint64_t inode, std::uint64_t end, std::byte last)>;
  void on_lengthened(Lengthen sink) { lengthen_ = std::move(sink); }
  /// A task that ends when the kernel has dropped its entry for the name. The kernel may be holding the
  /// directory's lock for any request, and drops the entry after that.
  using DropName = std::function<async::Task<void>(std::uint64_t directory, std::string name)>;
  void on_wrong_name(DropName sink) { drop_name_ = std::move(sink); }

  /// `sink` is called with the number of bytes that should be requested ahead of one reader, when it has
  /// changed by half (read_window.h). The kernel need not read that far ahead itself: the rest is read ahead
  /// here.
  void on_read_window(std::function<void(std::size_t)> sink) { read_window_.on_change(std::move(sink)); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] Holdings holdings() const;
  [[nodiscard]] std::size_t bytes_behind() const { return writes_.bytes_behind(); }
  [[nodiscard]] async::Loop& loop() const { return loop_; }

 private:
  Result<std::shared_ptr<Inode>> find(std::uint64_t id) const;
  [[nodiscard]] std::optional<Place> place_of(const Inode& inode, bool fresh) const;
  [[nodiscard]] bool checks_names() const { return options_.close_to_open && names_believed(); }
  struct NameChecks;
  [[nodiscard]] std::shared_ptr<NameChecks> begin_name_checks(const Caller& caller, const Inode& inode);
  async::Task<void> check_name(Caller caller, std::shared_ptr<const Inode> inode, OtherNames::Name name,
                               std::shared_ptr<NameChecks> checks);
  void leads_elsewhere(const std::shared_ptr<Inode>& inode, std::uint64_t found);
  void has_one_name(const std::shared_ptr<Inode>& inode);
  async::Task<void> drop_name(std::shared_ptr<Inode> inode, OtherNames::Name name);
  Error refused_by_name(Inode& inode, std::uint32_t thread);
  [[nodiscard]] bool may_search(const Inode& directory, const Caller& caller) const;
  void may_search_from_now(Inode& directory, const Caller& caller, std::uint64_t as_of,
                           async::TimePoint asked);
  async::Task<Result<std::optional<Entry>>> find_known(Caller caller, std::shared_ptr<Inode> directory,
                                                       std::string name);
  async::Task<Status> may_read(Caller caller, std::uint64_t id, int flags,
                               const std::optional<Attributes>& told);
  /// In the functions below, `as_of` is Freshness::count() at the time the attributes were asked for, and
  /// `when` is the count at the time they arrived.
  async::Task<Result<Entry>> find_again(Caller caller, std::uint64_t id);
  async::Task<Result<Entry>> find_above(Caller caller, std::uint64_t directory);
  Entry found_again(const FileHandle& handle, const Attributes& told, std::uint64_t as_of);
  Entry entry(const FileHandle& handle, const Inode& directory, const std::string& name,
              const Attributes& told, std::uint64_t as_of, std::uint64_t when);
  [[nodiscard]] Entry absent() const;
  [[nodiscard]] async::Clock::duration missing_for() const;
  [[nodiscard]] bool names_believed() const { return options_.names && options_.file_max > Seconds(0); }
  async::Task<Result<std::shared_ptr<const ReadPage>>> read_page(std::shared_ptr<DirectoryHandle> directory,
                                                                 std::uint64_t cookie);
  void keep_for_lookups(const DirectoryHandle& directory);
  void hold_page(DirectoryHandle& directory);
  std::optional<Entry> find_ahead(const Caller& caller, const Inode& directory, const std::string& name);
  void look_ahead(const Caller& caller, const std::shared_ptr<Inode>& directory);
  async::Task<void> read_ahead(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie);
  [[nodiscard]] bool is_outdated(const DirectoryHandle& directory, const Listed& listed) const;
  Entry entry_in_page(const DirectoryHandle& directory, const Listed& listed);
  template <class Answer>
  void handle_stale(const Inode& inode, const Answer& answer);
  void forget_pages(Inode& inode);
  struct Early;
  [[nodiscard]] std::shared_ptr<Early> begin_early(const Caller& caller, const Inode& inode, int flags);
  static async::Task<void> read_early(std::shared_ptr<Engine> engine, Caller caller, FileHandle handle,
                                      std::shared_ptr<Early> early);
  async::Task<void> take_early(std::shared_ptr<Early> early, std::shared_ptr<OpenHandle> file,
                               Attributes told);
  void judge_early(const OpenHandle& file);
  [[nodiscard]] bool may_close_early(const OpenHandle& file) const;
  async::TimePoint closes_early_from_{};
  async::Task<void> settle_in_background(std::shared_ptr<Inode> inode, std::shared_ptr<void> until);
  // ---- engine::WriteBackOwner ----
  void write_out(const FileHandle& handle, std::shared_ptr<void> until) override;
  [[nodiscard]] std::optional<std::uint64_t> written_size(const FileHandle& handle) const override;
  async::Task<Status> close_now(std::shared_ptr<OpenHandle> file);
  async::Task<bool> settle_or_cancel(std::shared_ptr<OpenHandle> file,
                                     std::shared_ptr<locking::LockWait> wait);
  async::Task<Result<Entry>> made(Object object, std::shared_ptr<Inode> directory, std::string name,
                                  std::uint64_t as_of);
  async::Task<Result<Entry>> entered(Naming& naming, Caller caller, Result<Made> result,
                                     std::shared_ptr<Inode> directory, std::string name);
  using Bytes = WriteBehind::Bytes;
  /// The kernel's request for a write, and the page reads that were under way at that time.
  struct Writing {
    int flags = 0;
    bool written_back = false;
    std::uint64_t kernels_offset = 0;
    std::uint64_t page_reads = 0;
    bool paging = false;
    [[nodiscard]] bool appends() const;
    [[nodiscard]] bool is_stable() const;
  };
  async::Task<void> correct_pages(std::shared_ptr<OpenHandle> file, std::uint64_t end, std::byte last);
  async::Task<Result<Attributed>> attributes_now(Caller caller, std::shared_ptr<Inode> inode);
  async::Task<std::size_t> cropped(std::shared_ptr<OpenHandle> file, std::uint64_t offset, std::size_t size);
  async::Task<void> drop_stale_pages(std::shared_ptr<OpenHandle> file, Writing how, std::uint64_t offset,
                                     std::size_t size, std::byte last);
  async::Task<void> fetch_pages(Inode& inode);
  async::Task<void> drop_pages_from(Inode& inode, std::uint64_t offset);
  async::Task<void> drop_lost_pages(std::shared_ptr<Inode> inode);
  [[nodiscard]] bool may_have_stores(const Inode& inode) const;
  async::Task<void> send_out(Inode& inode);
  [[nodiscard]] bool may_be_mapped(const Inode& inode) const;
  async::Task<void> tell_length(Inode& inode, std::uint64_t end, std::byte last);
  async::Task<void> tell_appended(Inode& inode, std::uint64_t end, std::byte last);
  async::Task<void> tell_size(std::shared_ptr<OpenHandle> file, std::uint64_t size);
  void will_be_emptied(const std::shared_ptr<OpenHandle>& file, std::uint64_t size);
  async::Task<void> tell_size_after_open(std::shared_ptr<OpenHandle> file, std::uint64_t size);
  async::Task<void> see_as_locked(std::shared_ptr<OpenHandle> file);
  async::Task<Result<std::size_t>> read_pieces(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                               std::span<std::byte> data, std::uint64_t offset);
  [[nodiscard]] Status refused_xattr(const std::string& name) const;
  async::Task<Status> set_acl(Caller caller, std::shared_ptr<Inode> inode, AclXattr acl,
                              std::vector<std::byte> value);

  const std::shared_ptr<Engine> engine_;
  async::Loop& loop_;
  const CacheOptions options_;
  Numbering numbering_;
  Counters counters_;
  ReadWindow read_window_;
  Freshness freshness_;
  Inodes inodes_;
  WriteBehind writes_;
  DeferredCloses deferred_closes_;
  Removal removal_;
  LookupsAhead lookups_ahead_;
  MissingNames missing_names_;
  /// Shared with the directory handles, because a handle that the kernel holds may outlive the file system.
  const std::shared_ptr<DirectoryPages> directory_pages_ = std::make_shared<DirectoryPages>();
  DropPages drop_pages_;
  Lengthen lengthen_;
  DropName drop_name_;
  // Score of recent early reads: each one that was used adds one, each other takes one.
  int early_worth_ = kMostEarlyWorth;
  unsigned early_tries_ = 0;
  static constexpr int kMostEarlyWorth = 16;
  unsigned closing_ = 0;  // close()s under way
  async::Event none_closing_;
  async::Tasks background_;  // the last member, because its tasks use all the others
};

}  // namespace nfsrdma::fs
