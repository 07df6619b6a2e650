// Files in memory, for a server that costs nothing: no rights, no locks, no disk.
//
// The bytes of a file are shared with whoever sends or receives them: a Memory stays as long as somebody has it, also
// when its file has moved to a larger one or is gone.
//
// Confined to one thread.
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
  std::uint64_t size = 0, change = 1;
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  std::shared_ptr<Memory> memory;  // a file's; null: it never had bytes
  // A directory's, by cookies that only grow.
  std::map<std::uint64_t, std::pair<std::string, NodeId>> entries;
  std::unordered_map<std::string_view, std::uint64_t> cookies;  // by the names in `entries`

  /// Room for `end` bytes. False: that is more than a file may have.
  bool reach(std::uint64_t end);
  bool resize(std::uint64_t to);
  void touch();
};

class Tree {
 public:
  static constexpr NodeId kRoot = 1;
  Tree();

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

  std::vector<std::unique_ptr<Node>> nodes_;  // by id
  std::uint64_t next_cookie_ = 16;
};

}  // namespace nfsrdma::bench
