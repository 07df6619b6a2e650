// Files in memory, for a server that costs nothing: no rights, no locks, no disk.
//
// The bytes of a file are shared with whoever sends or receives them: a Memory stays as long as somebody has it, also
// when its file has moved to a larger one or is gone.
//
// Thread-safety: a thread holds an Access of lock() while it uses the Tree or a Node. Changing anything takes an Access that
// excludes the others, with one exception: a WRITE to a file that has room for it. The size, the change counter and the times,
// which a WRITE changes, are numbers that several threads may change at once. Nothing guards the bytes of a file: a READ
// and a WRITE of one place at one time may give some bytes of before and some of after, as NFS allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "responder/big_reader_lock.h"
#include "responder/shared_number.h"

namespace nfsrdma::bench {

/// Bytes that begin as zeros and stay where they are. Address space is taken for `capacity`, memory for what is used.
class Memory {
 public:
  explicit Memory(std::size_t capacity);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] bool is_mapped() const;

  std::size_t capacity_;
  std::byte* data_;
};

using NodeId = std::uint64_t;

struct Node {
  NodeId id = 0;
  NodeId parent = 0;
  bool is_directory = false;
  std::uint32_t mode = 0644, uid = 0, gid = 0;
  SharedNumber<std::uint64_t> size{0}, change{1};
  SharedNumber<std::int64_t> seconds{0};
  SharedNumber<std::uint32_t> nanoseconds{0};
  std::shared_ptr<Memory> memory;  // a file's; null: it never had bytes
  // A directory's, by cookies that only grow.
  std::map<std::uint64_t, std::pair<std::string, NodeId>> entries;
  std::unordered_map<std::string_view, std::uint64_t> cookies;  // by the names in `entries`

  /// Returns `memory` with a reference count that only this thread changes; `memory` must not be null. If all threads
  /// changed one count, each READ would wait for its cache line to come from another processor.
  [[nodiscard]] const std::shared_ptr<Memory>& memory_for(const Access& access) {
    return memories_.empty() ? memory : memory_of_thread(access.thread());
  }
  [[nodiscard]] bool has_room(std::uint64_t end) const {
    return end == 0 || (memory && end <= memory->capacity());
  }
  /// Room for `end` bytes. False: that is more than a file may have.
  bool reach(std::uint64_t end);
  bool resize(std::uint64_t to);
  void touch();

 private:
  friend class Tree;
  const std::shared_ptr<Memory>& memory_of_thread(unsigned thread);
  // By thread, each made by its thread when it is first needed. Empty with one thread.
  std::vector<std::shared_ptr<Memory>> memories_;
};

class Tree {
 public:
  static constexpr NodeId kRoot = 1;
  explicit Tree(unsigned threads);

  [[nodiscard]] BigReaderLock& lock() { return lock_; }
  /// Null: there is none any more.
  [[nodiscard]] Node* find(NodeId id);
  [[nodiscard]] Node* look_up(Node& directory, std::string_view name);
  /// The name is not there yet.
  Node& make(Node& directory, std::string_view name, bool is_directory);
  bool remove(Node& directory, std::string_view name);
  bool rename(Node& from, std::string_view name, Node& to, std::string_view new_name);
  /// Directories on the way are made.
  Node& make_path(std::string_view path, bool is_directory);

 private:
  void enter(Node& directory, std::string_view name, NodeId id);
  bool leave(Node& directory, std::string_view name);

  BigReaderLock lock_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by id, which is never used again
  std::uint64_t next_cookie_ = 16;
};

}  // namespace nfsrdma::bench
