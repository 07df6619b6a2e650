#include "responder/version3.h"

#include <algorithm>

#include "responder/attributes.h"

namespace nfsrdma::bench {
namespace {

enum : std::uint32_t {
  kOk = 0,
  kNoEntry = 2,
  kExists = 17,
  kNotDirectory = 20,
  kIsDirectory = 21,
  kTooLarge = 27,
  kNotEmpty = 66,
  kStale = 70,
  kTooSmall = 10005
};
enum : std::uint32_t {
  kGetattr = 1,
  kSetattr = 2,
  kLookup = 3,
  kAccess = 4,
  kRead = 6,
  kCreate = 8,
  kMkdir = 9,
  kRemove = 12,
  kRmdir = 13,
  kRename = 14,
  kReaddir = 16,
  kReaddirplus = 17,
  kFsstat = 18,
  kFsinfo = 19,
  kPathconf = 20,
  kCommit = 21
};

}  // namespace

void Version3::attributes(const Node& node) {
  out_.u32(node.is_directory ? 2 : 1);
  out_.u32(node.mode);
  out_.u32(node.is_directory ? 2 : 1);
  out_.u32(node.uid);
  out_.u32(node.gid);
  for (int i = 0; i < 2; ++i) out_.u64(node.is_directory ? 4096 : node.size.get());
  out_.u64(0);  // the device
  out_.u64(1);
  out_.u64(node.id);
  for (int i = 0; i < 3; ++i) {
    out_.u32(static_cast<std::uint32_t>(node.seconds));
    out_.u32(node.nanoseconds);
  }
}

void Version3::post_attributes(const Node* node) {
  out_.u32(node != nullptr ? 1 : 0);
  if (node != nullptr) attributes(*node);
}

void Version3::weak_data(const Node& node) {
  out_.u32(0);
  post_attributes(&node);
}

void Version3::refuse(std::uint32_t status, unsigned empty_words) {
  out_.u32(status);
  for (unsigned i = 0; i < empty_words; ++i) out_.u32(0);
}

/// sattr3.
void Version3::take_attributes(Node* node) {
  const bool has_mode = in_.u32() != 0;
  const std::uint32_t mode = has_mode ? in_.u32() : 0;
  const bool has_uid = in_.u32() != 0;
  const std::uint32_t uid = has_uid ? in_.u32() : 0;
  const bool has_gid = in_.u32() != 0;
  const std::uint32_t gid = has_gid ? in_.u32() : 0;
  const bool has_size = in_.u32() != 0;
  const std::uint64_t size = has_size ? in_.u64() : 0;
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t how = in_.u32();
    const std::uint64_t when = how == 2 ? in_.u64() : 0;
    if (node == nullptr || i == 0 || how == 0) continue;
    node->touch();
    if (how != 2) continue;
    node->seconds = static_cast<std::int64_t>(when >> 32);
    node->nanoseconds = static_cast<std::uint32_t>(when);
  }
  if (node == nullptr) return;
  if (has_mode) node->mode = mode & 07777;
  if (has_uid) node->uid = uid;
  if (has_gid) node->gid = gid;
  if (has_size) (void)node->resize(size);
  ++node->change;
}

void Version3::look_up() {
  Node* const directory = tree_.find(in_.handle());
  const std::string_view name = in_.text();
  if (directory == nullptr) return refuse(kStale, 1);
  if (!directory->is_directory) return refuse(kNotDirectory, 1);
  const Node* const found = name == "."    ? directory
                            : name == ".." ? tree_.find(directory->parent)
                                           : tree_.look_up(*directory, name);
  if (found == nullptr) return refuse(kNoEntry, 1);
  out_.u32(kOk);
  put_handle(out_, found->id);
  post_attributes(found);
  post_attributes(directory);
}

void Version3::read() {
  Node* const node = tree_.find(in_.handle());
  const std::uint64_t offset = in_.u64();
  const std::uint32_t count = in_.u32();
  if (node == nullptr) return refuse(kStale, 1);
  if (node->is_directory) return refuse(kIsDirectory, 1);
  out_.u32(kOk);
  post_attributes(node);
  const std::size_t facts_at = out_.position();
  out_.u64(0);
  const std::size_t size = put_data(out_, reply_, *node, access_, offset, count);
  set_u32(out_, facts_at, static_cast<std::uint32_t>(size));
  set_u32(out_, facts_at + 4, offset + size >= node->size ? 1 : 0);
}

void Version3::write() {
  Node* node = tree_.find(in_.handle());
  const std::uint64_t offset = in_.u64();
  in_.u32();
  const std::uint32_t stable = in_.u32();
  const xdr::ConstBytes data = read_data(in_, placed_);
  if (node == nullptr) return refuse(kStale, 2);
  if (node->is_directory) return refuse(kIsDirectory, 2);
  const std::uint64_t end = offset + data.size();
  if (!node->has_room(end)) {
    const NodeId id = node->id;
    access_.exclude_others();
    node = tree_.find(id);
    if (node == nullptr) return refuse(kStale, 2);
    if (!node->reach(end)) return refuse(kTooLarge, 2);
  }
  set_data(*node, offset, data);
  out_.u32(kOk);
  weak_data(*node);
  out_.u32(static_cast<std::uint32_t>(data.size()));
  out_.u32(stable);
  out_.u64(boot_);
}

void Version3::create(bool is_directory) {
  enum : std::uint32_t { kUnchecked, kGuarded, kExclusive };
  access_.exclude_others();
  Node* const directory = tree_.find(in_.handle());
  const std::string_view name = in_.text();
  const std::uint32_t how = is_directory ? kGuarded : in_.u32();
  if (directory == nullptr) return refuse(kStale, 2);
  if (!directory->is_directory) return refuse(kNotDirectory, 2);
  Node* node = tree_.look_up(*directory, name);
  if (node != nullptr && how == kGuarded) return refuse(kExists, 2);
  if (node == nullptr) {
    node = &tree_.make(*directory, name, is_directory);
    node->uid = caller_.uid;
    node->gid = caller_.gid;
  }
  if (how == kExclusive) {
    in_.u64();
  } else {
    take_attributes(node);
  }
  out_.u32(kOk);
  out_.u32(1);
  put_handle(out_, node->id);
  post_attributes(node);
  weak_data(*directory);
}

void Version3::remove() {
  access_.exclude_others();
  Node* const directory = tree_.find(in_.handle());
  const std::string_view name = in_.text();
  if (directory == nullptr) return refuse(kStale, 2);
  if (tree_.look_up(*directory, name) == nullptr) return refuse(kNoEntry, 2);
  if (!tree_.remove(*directory, name)) return refuse(kNotEmpty, 2);
  out_.u32(kOk);
  weak_data(*directory);
}

void Version3::rename() {
  access_.exclude_others();
  Node* const from = tree_.find(in_.handle());
  const std::string_view name = in_.text();
  Node* const to = tree_.find(in_.handle());
  const std::string_view new_name = in_.text();
  if (from == nullptr || to == nullptr) return refuse(kStale, 4);
  if (!tree_.rename(*from, name, *to, new_name)) return refuse(kNoEntry, 4);
  out_.u32(kOk);
  weak_data(*from);
  weak_data(*to);
}

void Version3::read_directory(bool is_plus) {
  Node* const directory = tree_.find(in_.handle());
  const std::uint64_t cookie = in_.u64();
  in_.u64();
  if (is_plus) in_.u32();
  const std::uint32_t most = std::min(in_.u32(), kMostData);
  if (directory == nullptr) return refuse(kStale, 1);
  if (!directory->is_directory) return refuse(kNotDirectory, 1);
  constexpr std::size_t kEnd = 8;
  const std::size_t begin = out_.position();
  out_.u32(kOk);
  post_attributes(directory);
  out_.u64(boot_);
  auto at = directory->entries.upper_bound(cookie);
  for (; at != directory->entries.end(); ++at) {
    const std::string& name = at->second.first;
    constexpr std::size_t kFixed = 4 + 8 + 4 + 8, kPlus = 4 + 84 + 4 + 4 + 8;
    const std::size_t size = kFixed + xdr::padded(name.size()) + (is_plus ? kPlus : 0);
    if (out_.position() - begin + size + kEnd > most) break;
    out_.u32(1);
    out_.u64(at->second.second);
    put_text(out_, name);
    out_.u64(at->first);
    if (!is_plus) continue;
    post_attributes(tree_.find(at->second.second));
    out_.u32(1);
    put_handle(out_, at->second.second);
  }
  out_.u32(0);
  out_.u32(at == directory->entries.end() ? 1 : 0);
}

void Version3::facts(std::uint32_t procedure, const Node& node) {
  out_.u32(kOk);
  post_attributes(&node);
  if (procedure == kFsstat) {
    for (int i = 0; i < 6; ++i) out_.u64(kPlenty);
    out_.u32(0);
  } else if (procedure == kFsinfo) {
    constexpr std::uint32_t kOneForAll = 0x0008, kSetsTimes = 0x0010;
    for (int i = 0; i < 2; ++i) {
      out_.u32(kMostData);
      out_.u32(kMostData);
      out_.u32(4096);
    }
    out_.u32(kMostData);
    out_.u64(kPlenty);
    out_.u64(1);
    out_.u32(kOneForAll | kSetsTimes);
  } else {
    for (const std::uint32_t word : {255U, 255U, 1U, 1U, 0U, 1U}) out_.u32(word);
  }
}

bool Version3::run(std::uint32_t procedure) {
  switch (procedure) {
    case kLookup:
      look_up();
      return true;
    case kRead:
      read();
      return true;
    case kWrite:
      write();
      return true;
    case kCreate:
    case kMkdir:
      create(procedure == kMkdir);
      return true;
    case kRemove:
    case kRmdir:
      remove();
      return true;
    case kRename:
      rename();
      return true;
    case kReaddir:
    case kReaddirplus:
      read_directory(procedure == kReaddirplus);
      return true;
    default:
      break;
  }
  if (procedure == kSetattr) access_.exclude_others();
  Node* const node = tree_.find(in_.handle());
  switch (procedure) {
    case kGetattr:
      if (node == nullptr) {
        refuse(kStale, 0);
      } else {
        out_.u32(kOk);
        attributes(*node);
      }
      return true;
    case kSetattr:
    case kCommit:
      if (node == nullptr) {
        refuse(kStale, 2);
        return true;
      }
      if (procedure == kSetattr) take_attributes(node);
      out_.u32(kOk);
      weak_data(*node);
      if (procedure == kCommit) out_.u64(boot_);
      return true;
    case kAccess:
      if (node == nullptr) {
        refuse(kStale, 1);
        return true;
      }
      out_.u32(kOk);
      post_attributes(node);
      out_.u32(in_.u32());
      return true;
    case kFsstat:
    case kFsinfo:
    case kPathconf:
      if (node == nullptr) {
        refuse(kStale, 1);
      } else {
        facts(procedure, *node);
      }
      return true;
    default:
      return false;
  }
}

bool Version3::mount(std::uint32_t procedure) {
  enum : std::uint32_t { kMount = 1, kDump, kUnmount, kUnmountAll, kExports };
  switch (procedure) {
    case kMount: {
      Node* at = tree_.find(Tree::kRoot);
      std::string_view path = in_.text();
      while (!path.empty() && at != nullptr) {
        const std::size_t slash = path.find('/');
        const std::string_view name = path.substr(0, slash);
        path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
        if (!name.empty()) at = tree_.look_up(*at, name);
      }
      out_.u32(at != nullptr ? kOk : kNoEntry);
      if (at == nullptr) return true;
      put_handle(out_, at->id);
      out_.u32(1);
      out_.u32(1);  // AUTH_SYS
      return true;
    }
    case kExports:  // the root, to everybody
      out_.u32(1);
      put_text(out_, "/");
      out_.u32(0);
      out_.u32(0);
      return true;
    case kDump:
      out_.u32(0);
      return true;
    case kUnmount:
    case kUnmountAll:
      return true;
    default:
      return false;
  }
}

}  // namespace nfsrdma::bench
