// A mounted file system: what a kernel's requests become for a protocol's engine (engine.h).
//
// Inodes are numbers (inodes.h); every operation names the caller whose rights count. Each is one round trip
// where the server lets it be.
//
// Consistency is close-to-open, as with every NFS client. open() brings the change attribute; where it is
// another than that of what the kernel has cached, the kernel is told to drop it. close() and fsync() end
// when the data is on the server's disk. In between attributes and names are believed for the times of
// Options, longer the longer the file has not changed.
//
// Attributes of a directory come along with what changes it, those of a file with what makes its data safe.
// They are kept for the kernel, which drops its own then and asks again.
//
// A read delegation is better than times: while a file has one its attributes are answered here, and it is
// opened and closed without a word to the server, kept open for that behind its last close
// (Engine::keep_delegated). What the kernel was told then holds for as long as the lease, or until the
// delegation is recalled, when it is told to forget (on_doubt()).
//
// Writes are answered when they are on their way (write-behind), at most kMostBehind bytes of all files.
// Small ones that follow each other are gathered first, for some milliseconds or until somebody wants to see
// them. Later operations on the file do: reading, attributes and locks wait for what is under way. The error
// of a late write is what the next fsync() or close() of that file gives, once.
//
// A file that is removed or replaced while it is open here lives on under a name of its own (".nfs…") until
// its last close, since the server does not know that it is open.
//
// Confined to the loop's thread. Tasks may not outlive the FileSystem.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/counters.h"
#include "fs/engine.h"
#include "fs/inodes.h"
#include "fs/open_handle.h"

namespace nfsrdma::fs {

using Seconds = std::chrono::duration<double>;

struct Options {
  std::uint32_t rsize = 1U << 20, wsize = 1U << 20;
  Seconds file_min{3}, file_max{60}, directory_min{30}, directory_max{60};  ///< acregmin …
  bool negative_names = true;         ///< lookupcache=all: names that are not there are believed, too
  bool names = true;                  ///< lookupcache=none: no name is
  bool sync = false;                  ///< every write is on the server's disk when it is answered
  bool close_to_open = true;          ///< cto
  std::size_t most_delegated = 1000;  ///< files that are kept open for their delegations alone
};

struct Entry {
  std::uint64_t inode = 0;  ///< 0: there is no such name, which may be believed for `name_valid`
  Attributes attributes;
  Seconds attributes_valid{0}, name_valid{0};
};

struct Attributed {
  Attributes attributes;
  Seconds valid{0};
};

struct OpenedFile {
  std::shared_ptr<OpenHandle> handle;
  bool keep_cache = false;  ///< what the kernel has cached of it is still so
  Entry entry;              ///< create() only
};

struct DirectoryHandle {
  std::shared_ptr<Inode> inode;
  Page page;
  std::uint64_t page_begin = 0;  ///< the cookie that the page came behind
  std::uint64_t as_of = 0;       ///< of the changes that were made here
  bool loaded = false;
};

/// An Error of this layer's own: no server said so.
Error refusal(int code, const char* operation, const std::string& name, const char* why);

class FileSystem {
 public:
  /// `root`: what Engine::root() gave.
  FileSystem(std::unique_ptr<Engine> engine, Options options, const Object& root);
  ~FileSystem();
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  async::Task<Result<Entry>> lookup(Caller caller, std::uint64_t directory, std::string name);
  void forget(std::uint64_t inode, std::uint64_t lookups);
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
  /// The directory, for list(). It may be dropped at any time.
  std::shared_ptr<DirectoryHandle> open_directory(std::uint64_t inode);
  /// The names behind `cookie` (0: the first), as many as the server gives at once; none: the end. They stand
  /// in the handle, until it is listed again.
  async::Task<Result<std::span<const Listed>>> list(Caller caller, std::shared_ptr<DirectoryHandle> directory,
                                                    std::uint64_t cookie);
  /// What lookup() would have given, and counts as one; inode 0: that is to be asked for.
  Entry entry_of(const DirectoryHandle& directory, const Listed& listed);
  /// What is known of it without that: type and number.
  [[nodiscard]] Attributes brief_of(const Listed& listed) const;

  // ---- files ----
  /// `flags`: those of open(2).
  async::Task<Result<OpenedFile>> open(Caller caller, std::uint64_t inode, int flags);
  async::Task<Result<OpenedFile>> create(Caller caller, std::uint64_t directory, std::string name,
                                         std::uint32_t mode, int flags);
  async::Task<Result<ReadData>> read(std::shared_ptr<OpenHandle> file, std::uint64_t offset,
                                     std::size_t size);
  /// `memory` holds what `data` points to.
  async::Task<Status> write(std::shared_ptr<OpenHandle> file, async::Memory memory,
                            std::span<const std::byte> data, std::uint64_t offset);
  /// close(2): data is on the server. `lock_owner` lets go of its locks, as POSIX has it.
  async::Task<Status> flush(std::shared_ptr<OpenHandle> file, std::uint64_t lock_owner);
  async::Task<Status> sync(std::shared_ptr<OpenHandle> file);
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
  async::Task<Result<std::optional<locking::LockHolder>>> test_lock(std::shared_ptr<OpenHandle> file,
                                                                    locking::LockRequest request);
  /// Without `wait`: EAGAIN if somebody has it.
  async::Task<Status> lock(std::shared_ptr<OpenHandle> file, locking::LockRequest request,
                           std::shared_ptr<locking::LockWait> wait);
  async::Task<Status> unlock(std::shared_ptr<OpenHandle> file, std::uint64_t owner, locking::LockRange range);

  // ---- extended attributes: names with "user." ----
  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Status> set_xattr(Caller caller, std::uint64_t inode, std::string name,
                                std::vector<std::byte> value, int flags);
  async::Task<Status> remove_xattr(Caller caller, std::uint64_t inode, std::string name);
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, std::uint64_t inode);

  /// `sink`: told of an inode whose attributes are not to be believed any more, though their time has not run
  /// out.
  void on_doubt(std::function<void(std::uint64_t)> sink) { doubt_ = std::move(sink); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] Holdings holdings() const;
  [[nodiscard]] std::size_t bytes_behind() const { return behind_; }
  [[nodiscard]] async::Loop& loop() const { return loop_; }

 private:
  Result<std::shared_ptr<Inode>> find(std::uint64_t id) const;
  [[nodiscard]] Attributes numbered(Attributes attributes) const;
  Entry entry(const FileHandle& handle, const std::string& name, const Attributes& told);
  [[nodiscard]] Seconds valid(const Attributes& attributes) const;
  Seconds valid(Inode& inode, const Attributes& attributes);
  void delegation_ended(const FileHandle& handle);
  [[nodiscard]] Entry absent() const;
  [[nodiscard]] Attributed attributed(Inode& inode, const Attributes& told);
  async::Task<Status> hide(Caller caller, FileHandle directory, std::string name,
                           std::shared_ptr<Inode> inode);
  async::Task<Result<std::shared_ptr<Inode>>> open_target(Caller caller, FileHandle directory,
                                                          std::string name);
  void changed_here(Inode& inode);
  async::Task<Status> close_now(std::shared_ptr<OpenHandle> file);
  async::Task<void> settle(Inode& inode, std::uint64_t begin = 0, std::uint64_t end = ~std::uint64_t{0});
  static Status late_error(Inode& inode);
  /// While one lives, this mount makes or removes names in the directory or changes it otherwise: what is
  /// known of it is not fresh. What came along with the one that ends last is.
  class Naming {
   public:
    Naming(FileSystem& files, std::shared_ptr<Inode> directory)
        : files_(files), directory_(std::move(directory)), number_(++directory_->named) {
      ++directory_->naming;
      directory_->fresh.reset();
    }
    ~Naming() { --directory_->naming; }
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    void brought(const std::optional<Attributes>& attributes) {
      if (!attributes || directory_->naming != 1 || directory_->named != number_) return;
      files_.keep_fresh(*directory_, *attributes, files_.freshness(*directory_));
    }

   private:
    FileSystem& files_;
    const std::shared_ptr<Inode> directory_;
    const std::uint64_t number_;
  };
  async::Task<Result<Entry>> made(Object object, std::string name);
  async::Task<Result<Entry>> entered(Naming& naming, Result<Made> result, std::string name);
  [[nodiscard]] std::uint64_t freshness(const Inode& inode) const;
  /// `as_of`: what freshness() is if nothing has changed it since they were had; else they are not kept.
  void keep_fresh(Inode& inode, const Attributes& told, std::uint64_t as_of);
  [[nodiscard]] std::optional<Attributed> fresh(const Inode& inode) const;
  /// Its attributes, once all that was written here is on the server. `as_of`: as with keep_fresh().
  void is_as_written(Inode& inode, const std::optional<Attributes>& after, std::uint64_t as_of);
  using Bytes = std::span<const std::byte>;
  async::Task<Status> write_out(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                std::uint64_t offset, Stability stability,
                                std::optional<Attributes>* after = nullptr);
  /// Its place among the inode's, until it is done.
  using Pending = std::list<PendingWrite>::iterator;
  Pending begin_behind(Inode& inode, std::uint64_t offset, std::size_t size);
  async::Task<void> write_behind(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                 Pending pending, Stability stability);
  bool add_to_gathered(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset);
  void gather(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset);
  void send_gathered(Inode& inode, Stability stability = Stability::unstable);
  async::Task<void> send_old_gathered();
  [[nodiscard]] Status refused_xattr(const std::string& name) const;

  const std::unique_ptr<Engine> engine_;
  async::Loop& loop_;
  const Options options_;
  const std::optional<Attributes> root_;
  Counters counters_;
  Inodes inodes_;
  /// Small writes of one open file that follow each other, until they are sent as one.
  struct Gathered {
    std::shared_ptr<OpenHandle> file;
    std::vector<std::byte> data;
    Pending pending;
    async::TimePoint begun;
  };
  /// In an order that is the same in each run of the same work: not that of addresses.
  struct ByNumber {
    bool operator()(const Inode* a, const Inode* b) const { return a->id < b->id; }
  };
  std::map<Inode*, Gathered, ByNumber> gathered_;
  bool sending_old_ = false;  // send_old_gathered() runs
  std::size_t behind_ = 0;    // bytes of PendingWrites
  async::Event less_behind_;
  std::function<void(std::uint64_t)> doubt_;
  std::size_t closing_ = 0;  // close()s under way
  async::Event less_closing_;
  std::uint64_t last_hidden_ = 0;
  std::uint64_t renames_ = 0;
  std::uint64_t changes_ = 0;  // of contents, by this mount
};

}  // namespace nfsrdma::fs
