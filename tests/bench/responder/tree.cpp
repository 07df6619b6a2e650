#include "responder/tree.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace nfsrdma::bench {
namespace {

constexpr std::size_t kSmall = 4096, kMiddle = 64 * 1024;
constexpr std::size_t kLargest = 8ULL << 30;

}  // namespace

Memory::Memory(std::size_t capacity) : capacity_(capacity) {
  void* at = nullptr;
  if (is_mapped()) {
    at = ::mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
    if (at == MAP_FAILED) at = nullptr;
    // As few page faults as can be: they would count as the server's costs.
    if (at != nullptr) (void)::madvise(at, capacity_, MADV_HUGEPAGE);
  } else {
    at = std::calloc(1, capacity_);
  }
  if (at == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(at);
}

Memory::~Memory() {
  if (is_mapped()) {
    (void)::munmap(data_, capacity_);
  } else {
    std::free(data_);  // NOLINT: calloc()'s
  }
}

bool Memory::is_mapped() const {
  return capacity_ > kMiddle;
}

const std::shared_ptr<Memory>& Node::memory_of_thread(unsigned thread) {
  std::shared_ptr<Memory>& mine = memories_[thread];
  if (!mine) mine = std::shared_ptr<Memory>(memory.get(), [owner = memory](Memory*) {});
  return mine;
}

bool Node::reach(std::uint64_t end) {
  if (end > kLargest) return false;
  if (has_room(end)) return true;
  auto larger = std::make_shared<Memory>(end <= kSmall ? kSmall : end <= kMiddle ? kMiddle : kLargest);
  if (memory) std::memcpy(larger->data(), memory->data(), std::min<std::uint64_t>(size, memory->capacity()));
  memory = std::move(larger);
  for (std::shared_ptr<Memory>& one : memories_) one.reset();
  return true;
}

bool Node::resize(std::uint64_t to) {
  if (!reach(to)) return false;
  // What a file grows into is zeros.
  if (memory && to < size) std::memset(memory->data() + to, 0, size - to);
  size = to;
  touch();
  return true;
}

void Node::touch() {
  ++change;
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  seconds = now.tv_sec;
  nanoseconds = static_cast<std::uint32_t>(now.tv_nsec);
}

Tree::Tree(unsigned threads) : lock_(threads) {
  nodes_.resize(kRoot + 1);
  nodes_[kRoot] = std::make_unique<Node>();
  Node& root = *nodes_[kRoot];
  root.id = root.parent = kRoot;
  root.is_directory = true;
  root.mode = 0777;
  root.touch();
}

Node* Tree::find(NodeId id) {
  return id < nodes_.size() ? nodes_[id].get() : nullptr;
}

Node* Tree::look_up(Node& directory, std::string_view name) {
  const auto found = directory.cookies.find(name);
  return found == directory.cookies.end() ? nullptr : find(directory.entries[found->second].second);
}

void Tree::enter(Node& directory, std::string_view name, NodeId id) {
  const std::uint64_t cookie = next_cookie_++;
  const auto [entry, made] = directory.entries.emplace(cookie, std::pair(std::string(name), id));
  directory.cookies.emplace(entry->second.first, cookie);
  directory.touch();
}

bool Tree::leave(Node& directory, std::string_view name) {
  const auto found = directory.cookies.find(name);
  if (found == directory.cookies.end()) return false;
  const std::uint64_t cookie = found->second;
  directory.cookies.erase(found);
  directory.entries.erase(cookie);
  directory.touch();
  return true;
}

Node& Tree::make(Node& directory, std::string_view name, bool is_directory) {
  auto node = std::make_unique<Node>();
  node->id = nodes_.size();
  node->parent = directory.id;
  node->is_directory = is_directory;
  node->mode = is_directory ? 0755 : 0644;
  if (!is_directory && lock_.threads() > 1) node->memories_.resize(lock_.threads());
  node->touch();
  enter(directory, name, node->id);
  return *nodes_.emplace_back(std::move(node));
}

bool Tree::remove(Node& directory, std::string_view name) {
  const Node* const node = look_up(directory, name);
  if (node == nullptr || !node->entries.empty()) return false;
  const NodeId id = node->id;
  leave(directory, name);
  nodes_[id].reset();
  return true;
}

bool Tree::rename(Node& from, std::string_view name, Node& to, std::string_view new_name) {
  Node* const node = look_up(from, name);
  if (node == nullptr) return false;
  const Node* const there = look_up(to, new_name);
  if (there == node) return true;
  if (there != nullptr && !remove(to, new_name)) return false;
  leave(from, name);
  enter(to, new_name, node->id);
  node->parent = to.id;
  return true;
}

Node& Tree::make_path(std::string_view path, bool is_directory) {
  Node* at = nodes_[kRoot].get();
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    const bool is_last = slash == std::string_view::npos;
    path.remove_prefix(is_last ? path.size() : slash + 1);
    if (name.empty()) continue;
    Node* const next = look_up(*at, name);
    at = next != nullptr ? next : &make(*at, name, is_directory || !path.empty());
  }
  return *at;
}

}  // namespace nfsrdma::bench
