// A file system in memory that answers at once, on the kernel's FUSE by libfuse's own loop, in one thread, with no
// network: what a mount can reach at best.
//
//   bare_fuse MOUNTPOINT [data=MIB] [many=COUNT] [tree=COUNT]
//
// data   there is a file `data`, as load_mount writes it
// many   a directory `many` of so many empty files, named as load_mount names them
// tree   a directory `tree` of so many files of 4 KiB
//
// It asks the kernel for what nfsrdma-fuse asks for, so that the kernel sends both the same requests: requests of
// 1 MiB, default_permissions, names and attributes that are believed for some seconds. It runs in the foreground until
// it is unmounted. What nobody here needs it does not have (rename, links, attributes that are set).
#define FUSE_USE_VERSION 314
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t kPiece = 1U << 20;
constexpr double kBelieved = 30;

struct Node {
  fuse_ino_t number = 0;
  bool directory = false;
  std::size_t size = 0;
  std::vector<char> bytes;  // as many as it ever had: to have memory anew is no part of what is measured
  std::map<std::string, std::unique_ptr<Node>> names;
  struct timespec changed{};
};

Node root;
std::unordered_map<fuse_ino_t, Node*> nodes;
/// Those that have no name any more, until the kernel forgets them, which is when the program ends.
std::vector<std::unique_ptr<Node>> removed;

Node& make(Node& parent, const std::string& name, bool directory) {
  static fuse_ino_t last = FUSE_ROOT_ID;
  auto& node = parent.names[name];
  node = std::make_unique<Node>();
  node->number = ++last;
  node->directory = directory;
  clock_gettime(CLOCK_REALTIME_COARSE, &node->changed);
  nodes[node->number] = node.get();
  return *node;
}

struct stat attributes(const Node& node) {
  struct stat out{};
  out.st_ino = node.number;
  out.st_mode = node.directory ? S_IFDIR | 0755U : S_IFREG | 0644U;
  out.st_nlink = node.directory ? 2 : 1;
  out.st_size = static_cast<off_t>(node.size);
  out.st_blocks = (out.st_size + 511) / 512;
  out.st_blksize = kPiece;
  out.st_atim = out.st_mtim = out.st_ctim = node.changed;
  return out;
}

fuse_entry_param entry(const Node& node) {
  fuse_entry_param out{};
  out.ino = node.number;
  out.attr = attributes(node);
  out.attr_timeout = out.entry_timeout = kBelieved;
  return out;
}

Node& at(fuse_ino_t number) {
  return *nodes.at(number);
}

void op_init(void*, fuse_conn_info* connection) {
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  connection->want |= connection->capable & (FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
}
void op_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const auto& names = at(parent).names;
  const auto found = names.find(name);
  if (found == names.end()) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const fuse_entry_param out = entry(*found->second);
  fuse_reply_entry(request, &out);
}
void op_getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  const struct stat out = attributes(at(number));
  fuse_reply_attr(request, &out, kBelieved);
}
void op_setattr(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int which, fuse_file_info*) {
  Node& node = at(number);
  if ((which & FUSE_SET_ATTR_SIZE) != 0) {
    node.size = static_cast<std::size_t>(wanted->st_size);
    if (node.size > node.bytes.size()) node.bytes.resize(node.size);
  }
  op_getattr(request, number, nullptr);
}
void op_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t, fuse_file_info* info) {
  const fuse_entry_param out = entry(make(at(parent), name, false));
  fuse_reply_create(request, &out, info);
}
void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t) {
  const fuse_entry_param out = entry(make(at(parent), name, true));
  fuse_reply_entry(request, &out);
}
void op_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  auto taken = at(parent).names.extract(name);
  if (!taken.empty()) removed.push_back(std::move(taken.mapped()));
  fuse_reply_err(request, taken.empty() ? ENOENT : 0);
}
void op_open(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  if ((info->flags & O_TRUNC) != 0) at(number).size = 0;
  info->keep_cache = 0;
  fuse_reply_open(request, info);
}
void op_read(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset, fuse_file_info*) {
  const Node& node = at(number);
  const auto begin = std::min(static_cast<std::size_t>(offset), node.size);
  fuse_reply_buf(request, node.bytes.data() + begin, std::min(size, node.size - begin));
}
void op_write(fuse_req_t request, fuse_ino_t number, const char* data, std::size_t size, off_t offset,
              fuse_file_info*) {
  Node& node = at(number);
  const std::size_t end = static_cast<std::size_t>(offset) + size;
  if (end > node.bytes.size()) node.bytes.resize(2 * end);
  std::memcpy(node.bytes.data() + offset, data, size);
  node.size = std::max(node.size, end);
  fuse_reply_write(request, size);
}
void op_done(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(request, 0);
}
void op_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  fuse_reply_err(request, 0);
}
void op_forget(fuse_req_t request, fuse_ino_t, std::uint64_t) {
  fuse_reply_none(request);
}

/// Offsets count the names, "." and ".." first.
void op_readdirplus(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset, fuse_file_info*) {
  const Node& node = at(number);
  std::vector<char> out(size);
  std::size_t used = 0;
  off_t place = 0;
  const auto add = [&](const char* name, const fuse_entry_param& what) {
    if (place++ < offset) return true;
    const std::size_t need =
        fuse_add_direntry_plus(request, out.data() + used, size - used, name, &what, place);
    if (need > size - used) return false;
    used += need;
    return true;
  };
  fuse_entry_param dot{};
  dot.attr = attributes(node);
  bool room = add(".", dot) && add("..", dot);
  for (auto one = node.names.begin(); room && one != node.names.end(); ++one) {
    room = add(one->first.c_str(), place < offset ? fuse_entry_param{} : entry(*one->second));
  }
  fuse_reply_buf(request, out.data(), used);
}

void fill(const char* what, std::size_t count) {
  if (std::strcmp(what, "data") == 0) {
    Node& data = make(root, "data", false);
    data.bytes.assign(count * kPiece, 0x5a);
    data.size = data.bytes.size();
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(data.bytes.data() + i * kPiece, &i, sizeof i);
    return;
  }
  Node& directory = make(root, what, true);
  for (std::size_t i = 0; i < count; ++i) {
    char name[32];
    const bool is_tree = std::strcmp(what, "tree") == 0;
    std::snprintf(name, sizeof name, is_tree ? "file-%zu" : "%06zu", i);
    Node& file = make(directory, name, false);
    if (is_tree) file.bytes.assign(file.size = 4096, 'x');
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: bare_fuse MOUNTPOINT [data=MIB] [many=COUNT] [tree=COUNT]\n", stderr);
    return 2;
  }
  root.number = FUSE_ROOT_ID;
  root.directory = true;
  nodes[FUSE_ROOT_ID] = &root;
  for (int i = 2; i < argc; ++i) {
    char* const equals = std::strchr(argv[i], '=');
    if (equals == nullptr) return 2;
    *equals = '\0';
    fill(argv[i], std::strtoull(equals + 1, nullptr, 10));
  }
  fuse_lowlevel_ops table{};
  table.init = op_init;
  table.lookup = op_lookup;
  table.forget = op_forget;
  table.getattr = op_getattr;
  table.setattr = op_setattr;
  table.create = op_create;
  table.mkdir = op_mkdir;
  table.unlink = op_unlink;
  table.rmdir = op_unlink;
  table.open = op_open;
  table.read = op_read;
  table.write = op_write;
  table.flush = op_done;
  table.release = op_done;
  table.fsync = op_fsync;
  table.readdirplus = op_readdirplus;
  char name[] = "bare_fuse", option[] = "-o", list[] = "fsname=bare_fuse,allow_other,default_permissions";
  char* words[] = {name, option, list};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  fuse_session* const session = fuse_session_new(&arguments, &table, sizeof table, nullptr);
  fuse_opt_free_args(&arguments);
  if (session == nullptr || fuse_session_mount(session, argv[1]) != 0) return 1;
  const int status = fuse_session_loop(session);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return status == 0 ? 0 : 1;
}
