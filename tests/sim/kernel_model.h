// What a kernel with FUSE does between programs and a mount's file layer, without a write-back cache (Linux 6.x, fs/fuse).
//
// For each inode it knows: a size (i_size), until when it believes it, pages, and a version that says which answers are too
// old to be believed (fi->attr_version). In short:
//
//     read(2)     asks for attributes when their time is over, then takes pages up to i_size, and reads those that are missing
//     write(2)    waits for the answer; whole pages and pages that were there are kept; O_APPEND writes at i_size
//     O_SYNC      writes dirty pages of the range out behind each write, and asks for an fsync(2)
//     O_DIRECT    writes dirty pages of the range out, drops pages in the way of a write, and keeps none
//     mappings    load pages up to i_size, beyond is SIGBUS; a store makes its page dirty
//     fsync(2), close(2) and the end of a page (FileSystem::on_stale_pages) write dirty pages out
//     open(2)     drops pages or attributes where the mount does not say that they are still good, also if what the program
//                 reads and writes through this descriptor is going to bypass the pages (FOPEN_DIRECT_IO)
//
// Every answer that is not older than what this kernel did sets i_size, and another size or modification time drops all pages
// (FUSE_AUTO_INVAL_DATA). Linux does not see the change attribute, so two changes within one step of the server's clock are
// one to it: then only the mount can tell it to drop pages. Pages are locked while they are read, and until the answer to a write of a part of one that was not
// there. A page is written out through any descriptor that may write.
//
// A name that was looked up is believed for a while (d_revalidate()): then open(2) brings no attributes but those that the
// mount makes known itself.
//
// What it does not model: read-ahead, more than one page size, names that are believed not to be there, memory that runs short.
//
// Confined to its client's loop. Its tasks end before it does; the FileSystem outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/event.h"
#include "fs/file_system.h"

namespace nfsrdma::sim {

class KernelModel {
 public:
  static constexpr std::uint64_t kPage = 4096;
  using Handle = std::shared_ptr<fs::OpenHandle>;

  /// It takes the place of the file system's sinks.
  explicit KernelModel(fs::FileSystem& files);
  ~KernelModel();
  KernelModel(const KernelModel&) = delete;
  KernelModel& operator=(const KernelModel&) = delete;

  /// Taken before a request whose answer brings attributes.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  /// A lookup or a creation has brought this. It stays until opened() or let_go().
  async::Task<void> entered(fs::Entry entry, std::uint64_t version);
  /// Called behind entered(): the directory's name leads there, and is believed for as long as the mount said.
  void believe_name(std::uint64_t directory, const std::string& name, const fs::Entry& entry);
  /// The inode that a name is believed to lead to, which then stays until opened() or let_go(); 0: none.
  [[nodiscard]] std::uint64_t believed(std::uint64_t directory, const std::string& name);
  /// The name is being changed here, or has led open(2) to nothing.
  void forget_name(std::uint64_t directory, const std::string& name) { names_.erase({directory, name}); }
  /// open(2) has succeeded.
  async::Task<void> opened(fs::OpenedFile file, std::uint64_t inode, int flags);

  async::Task<Result<std::string>> read(Handle file, std::uint64_t inode, std::uint64_t offset,
                                        std::size_t size);
  /// `appends`: O_APPEND; then `offset` does not count.
  async::Task<Status> write(Handle file, std::uint64_t inode, std::string data, std::uint64_t offset,
                            int flags);
  async::Task<Result<std::uint64_t>> size(std::uint64_t inode);
  /// truncate(2) or utimensat(2). Returns the size that the kernel takes from the answer.
  async::Task<Result<std::uint64_t>> set_attributes(Handle file, std::uint64_t inode, SetAttributes changes,
                                                    bool by_handle);
  async::Task<Status> allocate(Handle file, std::uint64_t inode, int mode, std::uint64_t offset,
                               std::uint64_t length);
  /// `asked` is set to how much of `count` the mount is asked to copy.
  async::Task<Result<std::uint64_t>> copy(Handle from, std::uint64_t from_inode, std::uint64_t from_offset,
                                          Handle to, std::uint64_t to_inode, std::uint64_t to_offset,
                                          std::uint64_t count, std::uint64_t& asked);
  /// A mapping's page is touched: the bytes from `offset` on that are in one page; none: SIGBUS.
  async::Task<Result<std::optional<std::string>>> load(Handle file, std::uint64_t inode,
                                                       std::uint64_t offset);
  /// Stored in one page below i_size; the number of bytes that were, 0: SIGBUS.
  async::Task<Result<std::size_t>> store(Handle file, std::uint64_t inode, std::uint64_t offset,
                                         std::string data);
  /// How many of the bytes a store may store, as far as the kernel knows now.
  [[nodiscard]] std::size_t room(std::uint64_t inode, std::uint64_t offset, std::size_t size) const;
  async::Task<Status> sync(Handle file, std::uint64_t inode);
  /// close(2); the last of its descriptor.
  async::Task<Status> flush(Handle file, std::uint64_t inode, std::uint64_t lock_owner);
  void released(const Handle& file, std::uint64_t inode);
  void let_go(std::uint64_t inode);
  /// The kernel forgets the inode, if nobody uses it.
  void forget_unused(std::uint64_t inode);

 private:
  struct Page {
    std::string data = std::string(kPage, '\0');
    bool filled = false, dirty = false, locked = false, writing = false;
    async::TimePoint misplaced_until{};  // an append has filled it, which may stand elsewhere in the file
  };
  using PageRef = std::shared_ptr<Page>;
  struct Node {
    explicit Node(async::Loop& loop) : changed(loop) {}
    std::uint64_t inode = 0, size = 0, version = 0, lookups = 0;
    unsigned held = 0;      // by entered()
    unsigned resizing = 0;  // SETATTRs of the size under way
    unsigned writing = 0;   // pages that the mount has been given to write
    async::TimePoint believed_until{};
    std::optional<nfsrdma::Time> modified;
    std::map<std::uint64_t, PageRef> pages;
    std::vector<Handle> open;
    std::map<const fs::OpenHandle*, Error>
        lost;                // why a page could not be written out, for whom has not been told
    bool exclusive = false;  // i_rwsem
    async::Event changed;
  };
  using NodeRef = std::shared_ptr<Node>;
  class Exclusive;

  NodeRef node(std::uint64_t inode);
  async::Task<void> lock(NodeRef node);
  void changed_here(Node& node) { node.version = ++version_; }
  void forget_attributes(Node& node);
  async::Task<void> believe(NodeRef node, Attributes told, fs::Seconds valid, std::uint64_t version);
  async::Task<Status> update(NodeRef node);
  async::Task<Result<PageRef>> mapped(NodeRef node, Handle file, std::uint64_t index);
  async::Task<Result<std::string>> read_file(Handle file, std::uint64_t offset, std::size_t size);
  async::Task<Result<PageRef>> fetch(NodeRef node, Handle file, std::uint64_t index, std::uint64_t wanted);
  async::Task<void> write_out(NodeRef node, std::uint64_t from, std::uint64_t to);
  async::Task<Status> sync_range(NodeRef node, Handle file, std::uint64_t from, std::uint64_t to);
  async::Task<void> write_page(NodeRef node, std::uint64_t index, PageRef page);
  async::Task<void> drop(NodeRef node, std::uint64_t from, std::uint64_t to);
  async::Task<void> punch(NodeRef node, std::uint64_t from, std::uint64_t to);
  async::Task<void> stale(std::uint64_t inode, std::uint64_t offset, std::uint64_t length);
  async::Task<void> lengthen(std::uint64_t inode, std::uint64_t end);
  async::Task<void> drop_name(std::uint64_t directory, std::string name);
  async::Task<Status> write_cached(NodeRef node, Handle file, std::string data, std::uint64_t offset,
                                   int flags);
  async::Task<Status> write_file(Handle file, std::string data, std::uint64_t offset, int flags);
  async::Task<void> cut(NodeRef node, std::uint64_t size);
  static Status told(Node& node, const fs::OpenHandle& file, Status done);

  fs::FileSystem& files_;
  async::Loop& loop_;
  std::uint64_t version_ = 1;
  std::map<std::uint64_t, NodeRef> nodes_;
  struct Name {
    std::uint64_t inode;
    async::TimePoint until;
  };
  std::map<std::pair<std::uint64_t, std::string>, Name> names_;  // by directory
  bool notifying_ = false;  // one thread of the mount's notifies the kernel
  async::Event notified_;
};

}  // namespace nfsrdma::sim
