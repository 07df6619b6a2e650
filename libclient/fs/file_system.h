// A mounted file system: what a kernel's requests become for a protocol's engine (engine/engine.h).
//
// Inodes are numbers (inodes.h); every operation names the caller whose rights count. Each is one round trip
// where the server lets it be. What it takes beside that are parts of their own, which FileSystem owns:
//   Freshness    freshness.h     what is known of attributes, and for how long
//   WriteBehind  write_behind.h  writes that are answered before they are on the server
//   ReadWindow   read_window.h   how much is read ahead, of each and of all open files
//   Removal      removal.h       names that are taken from files which are open here
//   DeferredCloses deferred_closes.h  files whose close(2) returned before their data was safe
//   LookupsAhead lookups_ahead.h names that are found in pages of directories which are there
//   DirectoryPages directory_pages.h how much memory open directories hold, of each user and of all
//
// Consistency is close-to-open, as with every NFS client. open() brings the change attribute; where it is
// another than that of what the kernel has cached, the kernel is told to drop it. close() and fsync() end
// when the data is on the server's disk. In between attributes and names are believed for a while. A file
// that has a delegation is opened and closed without a word to the server, kept open for that behind its
// last close (Engine::keep_delegated). Where it is one for writing, close() does not wait for the data, which is on
// its way then: nobody else sees the file before it has been written out (engine/writers.h). It does wait where the
// file is locked, since a lock stays until the data is written. rename(2) and link(2) save such data first, so that no
// name outlasts a crash of this client without its data.
//
// Whatever has to see earlier writes waits for those that were answered when it began: reading, locks, setting
// attributes and the like. Whoever only asks for attributes need not. Before a lock is taken, changed or given back,
// before lseek(2) looks for data, and before the server copies from the file, the kernel is asked for what programs have
// stored in mappings, too. Behind a lock that was granted the kernel's pages go, and it learns the size that the file has
// then: others may have written under theirs, and a mapping ends where the kernel believes that the file does.
//
// The kernel keeps pages of what it reads and writes, in places where it believes them to belong. A file that
// is open for appending only has none (OpenHandle::uncached); one that is open for reading, too, has, and they
// are dropped where the kernel was wrong about the end. They also are where data was lost, and where O_DIRECT
// passed them by.
//
// The kernel opens files by number, on the strength of a name that it may have believed for a while. An inode
// remembers the place that it was found in, and the server looks the name up again while it opens the file:
// if it leads elsewhere, open() is refused with ESTALE, upon which Linux walks the path again without belief
// in its cache. It then looks the name up. Since a file can also be opened without its name (/proc/self/fd,
// open_by_handle_at), the same thread's next open() passes if no LOOKUP came before it. A file with several
// names is checked by the one that it was found by last.
//
// On a mount for several users (CacheOptions::several_users) the kernel judges nobody, neither by mode bits nor by the
// names that it has cached: names are given to it for no time, so that it asks for each name of a path in the name of the
// one who walks it. The server judges him, by LOOKUP. What it has granted is remembered for a while (search_rights.h), and
// names and attributes that are known are then given without asking it again. Whoever opens a file is judged by the
// server's OPEN; where servers let a file be read by who may only run it, ACCESS tells the two apart.
//
// A small file that is opened for reading is read at the same time (Engine::read_early). The kernel gets these bytes
// where OPEN finds the file in the state that they are of.
//
// Directories are read by pages, which the kernel takes in small pieces. What a page tells of an entry is
// given out for the time that is left of it, and not at all where this mount has changed the name or the
// attributes since: then the entry comes without, and is looked up. Names that this mount has removed since
// are left out.
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
  std::uint64_t inode = 0;  ///< 0: there is no such name, which may be believed for `name_valid`
  Attributes attributes;
  Seconds attributes_valid{0}, name_valid{0};
};

struct OpenedFile {
  std::shared_ptr<OpenHandle> handle;
  bool keep_cache = false;  ///< what the kernel has cached of it is still so
  /// Nor need the kernel drop the attributes that it was told: they are those of the file as it is.
  bool keep_attributes = false;
  Entry entry;  ///< create() only
};

/// An Error of this layer's own: no server said so.
Error refusal(int code, const char* operation, const std::string& name, const char* why);

class FileSystem : private engine::Writers {
 public:
  /// `root`: the directory that is mounted.
  FileSystem(std::shared_ptr<Engine> engine, CacheOptions options, const Object& root);
  ~FileSystem() override;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// Also of "." and "..", by which the kernel finds what it has forgotten (open_by_handle_at(2)): the inode
  /// itself, as long as its number is remembered, and the directory above it. Their names are not believed.
  async::Task<Result<Entry>> lookup(Caller caller, std::uint64_t directory, std::string name);
  void forget(std::uint64_t inode, std::uint64_t lookups);
  /// Where the name stands below the root ("a/b/name"), if somebody has found something there which the kernel may know.
  [[nodiscard]] std::optional<std::string> known_path(std::uint64_t directory, const std::string& name) const;
  async::Task<Result<Attributed>> attributes(Caller caller, std::uint64_t inode);
  async::Task<Result<Attributed>> set_attributes(Caller caller, std::uint64_t inode, SetAttributes changes,
                                                 std::shared_ptr<OpenHandle> file);
  /// `mode`: of access(2). EACCES if not all of it is granted.
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
  /// The directory, for list(). It may be dropped at any time. `flags`: those of open(2). With O_DIRECTORY,
  /// as opendir(3) has it, the first page is read at once, and so it is found out here whether the directory
  /// is still there.
  async::Task<Result<std::shared_ptr<DirectoryHandle>>> open_directory(Caller caller, std::uint64_t inode,
                                                                       int flags);
  /// The names behind `cookie` (0: the first), as many as the server gives at once; none: the end. The handle keeps the
  /// page until it is listed again, or until the page has to make room for others (directory_pages.h).
  async::Task<Result<ListedNames>> list(std::shared_ptr<DirectoryHandle> directory, std::uint64_t cookie);
  /// This mount has removed it since it was listed.
  [[nodiscard]] static bool is_gone(const DirectoryHandle& directory, const Listed& listed);
  /// What lookup() would have given, and counts as one: the next lookup() asks the server. Inode 0: that is to
  /// be asked for.
  Entry entry_of(const DirectoryHandle& directory, const Listed& listed);
  /// What is known of it without that: type and number.
  [[nodiscard]] Attributes brief_of(const Listed& listed);
  /// st_ino of "." and "..".
  struct Dots {
    std::uint64_t self = 0, parent = 0;
  };
  async::Task<Dots> dots(std::shared_ptr<DirectoryHandle> directory);

  // ---- files ----
  /// In the flags of open(2): for execve(2) (FMODE_EXEC of Linux, which FUSE hands on).
  static constexpr int kForExecution = 0x20;
  /// `flags`: those of open(2). `thread`: who asks, as the kernel numbers them.
  async::Task<Result<OpenedFile>> open(Caller caller, std::uint64_t inode, int flags,
                                       std::uint32_t thread = 0);
  async::Task<Result<OpenedFile>> create(Caller caller, std::uint64_t directory, std::string name,
                                         std::uint32_t mode, int flags);
  async::Task<Result<ReadData>> read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                     std::size_t size);
  /// Whether read() would be one READ of the server's and nothing else: no write is under way, nothing of it is here, and
  /// nothing is to be read ahead. Then the caller may make it himself (ServerFile::start()); end_plain_read() follows in any
  /// case, before the file is let go of. `got`: the bytes that it brought, 0 if it failed; none if it was not started.
  [[nodiscard]] bool begin_plain_read(OpenHandle& file, std::uint64_t offset, std::size_t size);
  void end_plain_read(OpenHandle& file, std::optional<std::size_t> got);
  /// Called when a read of the kernel's met the end of the file at `end`: the kernel may cut its i_size to that.
  static void has_ended(OpenHandle& file, std::uint64_t end) { file.inode().pages.may_end_at(end); }
  /// `flags` of a page that the kernel writes back. A descriptor that writes has O_WRONLY or O_RDWR.
  static constexpr int kWrittenBack = 0;
  /// `memory` holds what `data` points to. `flags`: those of the descriptor now (F_SETFL may have changed
  /// them); none: as it was opened. With O_APPEND `offset` is where the kernel believes the end to be.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory,
                            std::span<const std::byte> data, std::uint64_t offset,
                            std::optional<int> flags = std::nullopt);

  // ---- past the kernel, which neither hands the data on nor keeps any of it (file_system_past.cpp) ----
  struct Past {
    bool ahead = false;    ///< more may be read ahead of it, and it be answered from what was
    bool gathers = false;  ///< the kernel may keep for itself what programs write (writeback_cache)
  };
  /// Into `data`, which `memory` holds. Fewer bytes than asked for: the end of the file.
  async::Task<Result<std::size_t>> read_past(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                             std::span<std::byte> data, std::uint64_t offset, Past how);
  /// As write(), and gives the offset that it went to.
  async::Task<Result<std::uint64_t>> write_past(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                                std::span<const std::byte> data, std::uint64_t offset,
                                                int flags);
  /// fsync(2), with what programs have stored in mappings of the file.
  async::Task<Status> sync_past(std::shared_ptr<OpenHandle> file, Past how);

  /// Whether somebody still waits for the answer: what nobody hears has not been told.
  using Heard = std::function<bool()>;
  /// close(2): data is on the server, or on its way where the file has a delegation for writing. `lock_owner` lets go
  /// of its locks, as POSIX has it.
  async::Task<Status> flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner, Heard heard = {});
  async::Task<Status> sync(std::shared_ptr<OpenHandle> file, Heard heard = {});
  async::Task<Status> close(std::shared_ptr<OpenHandle> file);
  /// Ends when no close() is under way, and no file is kept open for its delegation.
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
  /// Without `wait`: EAGAIN if somebody has it. `wait` cancels at any time: EINTR.
  async::Task<Status> lock(std::shared_ptr<OpenHandle> file, LockRequest request,
                           std::shared_ptr<locking::LockWait> wait);
  async::Task<Status> unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner, LockRange range);
  /// All that the owner has locked through the file, which the server then knows nothing of any more.
  async::Task<Status> release_locks(std::shared_ptr<OpenHandle> file, std::uint64_t owner);

  // ---- extended attributes: names with "user." ----
  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Status> set_xattr(Caller caller, std::uint64_t inode, std::string name,
                                std::vector<std::byte> value, int flags);
  async::Task<Status> remove_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, std::uint64_t inode);

  /// `sink`: told of an inode whose attributes are not to be believed any more, though their time has not run
  /// out.
  void on_doubt(std::function<void(std::uint64_t)> sink) { freshness_.on_doubt(std::move(sink)); }

  /// `sink`: ends when the kernel has dropped its pages of the inode from `offset` on (`length` 0: to the
  /// end).
  using DropPages =
      std::function<async::Task<void>(std::uint64_t inode, std::uint64_t offset, std::uint64_t length)>;
  void on_stale_pages(DropPages sink) { drop_pages_ = std::move(sink); }
  /// `sink`: ends when the kernel has begun with all that on_stale_pages() asked for so far, or at the deadline. From then on
  /// it takes no attributes for new that it had asked for before.
  using DropsBegun = std::function<async::Task<bool>(async::TimePoint deadline)>;
  void on_drops_begun(DropsBegun sink) { drops_begun_ = std::move(sink); }
  /// `sink`: ends when the kernel knows that the file reaches to `end`, and that this is its last byte.
  using Lengthen = std::function<async::Task<void>(std::uint64_t inode, std::uint64_t end, std::byte last)>;
  void on_lengthened(Lengthen sink) { lengthen_ = std::move(sink); }

  /// `sink`: told how many bytes should be asked for ahead of one reader, when that has changed by half
  /// (read_window.h). He need not read that far ahead himself: what is missing of it is read ahead here.
  void on_read_window(std::function<void(std::size_t)> sink) { read_window_.on_change(std::move(sink)); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] Holdings holdings() const;
  [[nodiscard]] std::size_t bytes_behind() const { return writes_.bytes_behind(); }
  [[nodiscard]] async::Loop& loop() const { return loop_; }

 private:
  Result<std::shared_ptr<Inode>> find(std::uint64_t id) const;
  [[nodiscard]] std::optional<Place> place_of(const Inode& inode, bool fresh) const;
  [[nodiscard]] bool may_search(const Inode& directory, const Caller& caller) const;
  void may_search_from_now(Inode& directory, const Caller& caller, std::uint64_t as_of,
                           async::TimePoint asked);
  async::Task<Result<std::optional<Entry>>> find_known(Caller caller, std::shared_ptr<Inode> directory,
                                                       std::string name);
  async::Task<Status> may_read(Caller caller, std::uint64_t id, int flags,
                               const std::optional<Attributes>& told);
  /// `as_of`: Freshness::count() as it was when the attributes were asked for, here and below. `when`: as it was
  /// when they came.
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
  void heed_stale(const Inode& inode, const Answer& answer);
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
  async::Task<void> settle_beside(std::shared_ptr<Inode> inode, std::shared_ptr<void> until);
  // ---- engine::Writers ----
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
  /// What a write was asked for, and what the kernel read meanwhile.
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
  async::Task<void> drop_stale_pages(std::shared_ptr<OpenHandle> file, Writing how, std::uint64_t offset,
                                     std::size_t size, std::byte last);
  async::Task<void> fetch_pages(Inode& inode, bool gathers);
  async::Task<void> drop_pages_from(Inode& inode, std::uint64_t offset);
  async::Task<void> drop_lost_pages(std::shared_ptr<Inode> inode);
  [[nodiscard]] bool may_have_stores(const Inode& inode) const;
  async::Task<void> send_out(Inode& inode);
  [[nodiscard]] bool may_be_mapped(const Inode& inode) const;
  async::Task<void> tell_length(Inode& inode, std::uint64_t end, std::byte last);
  async::Task<void> tell_appended(Inode& inode, std::uint64_t end, std::byte last);
  async::Task<void> tell_size(std::shared_ptr<OpenHandle> file, std::uint64_t size);
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
  /// The handles hold it, too: the kernel's may outlive the file system.
  const std::shared_ptr<DirectoryPages> directory_pages_ = std::make_shared<DirectoryPages>();
  DropPages drop_pages_;
  DropsBegun drops_begun_;
  Lengthen lengthen_;
  int early_worth_ = kMostEarlyWorth;  // how often lately early bytes were wanted
  unsigned early_tries_ = 0;
  static constexpr int kMostEarlyWorth = 16;
  unsigned closing_ = 0;  // close()s under way
  async::Event none_closing_;
  async::Tasks beside_;  // the last: the tasks use all the others
};

}  // namespace nfsrdma::fs
