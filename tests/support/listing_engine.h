// An engine that is no NFSv4: a tree in memory that gives nothing unasked. No attributes come along, names
// are listed without handles unless a knob says otherwise, nobody delegates, and what NFSv4.2 added is not
// there. It answers at once; what it is asked for stands in `calls`.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fs/engine.h"
#include "fs/file_system.h"

namespace nfsrdma::fs::listing {

inline bool ok(const Status& done) {
  if (!done) MESSAGE(done.error().text());
  return static_cast<bool>(done);
}

template <class T>
using Answer = async::Task<Result<T>>;

inline Error failed(int code) {
  return {ErrorKind::server, code, "test", "", "no"};
}

class PlainEngine final : public Engine {
 public:
  struct Node {
    FileType type = FileType::regular;
    std::uint32_t mode = 0;
    std::string content;
    std::map<std::string, std::uint64_t> names;
    std::map<std::string, std::uint64_t> cookies;  // of those that were ever listed
    std::uint64_t change = 1;
    std::uint64_t filesystem = 7;
  };
  class File final : public ServerFile {
   public:
    File(PlainEngine& engine, std::uint64_t id, Access access) : engine_(engine), id_(id), access_(access) {}
    Access access() const override { return access_; }
    Answer<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) override {
      engine_.log("read");
      const std::string& from = node().content;
      const auto begin = std::min<std::size_t>(offset, from.size());
      const auto size = std::min(data.size(), from.size() - begin);
      std::memcpy(data.data(), from.data() + begin, size);
      co_return size;
    }
    Answer<std::size_t> write(std::span<const std::byte> data, async::Memory /*memory*/, std::uint64_t offset,
                              Stability stability, std::optional<Attributes>* /*after*/) override {
      engine_.log(stability == Stability::on_disk ? "write!" : "write");
      std::string& to = node().content;
      to.resize(std::max<std::size_t>(to.size(), offset + data.size()));
      std::memcpy(to.data() + offset, data.data(), data.size());
      ++node().change;
      unstable_ = stability == Stability::unstable;
      co_return data.size();
    }
    async::Task<Status> commit(std::optional<Attributes>* /*after*/) override {
      if (std::exchange(unstable_, false)) engine_.log("commit");
      co_return Status();
    }
    bool has_unstable_data() const override { return unstable_; }
    Answer<Attributes> attributes() override {
      engine_.log("attributes");
      co_return engine_.describe(id_);
    }
    Answer<std::optional<std::uint64_t>> seek(std::uint64_t /*offset*/, bool /*hole*/) override {
      co_return failed(EOPNOTSUPP);
    }
    async::Task<Status> allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
      co_return failed(EOPNOTSUPP);
    }
    async::Task<Status> deallocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
      co_return failed(EOPNOTSUPP);
    }
    Answer<std::optional<locking::LockHolder>> test_lock(locking::LockRequest /*request*/) override {
      std::optional<locking::LockHolder> nobody;
      co_return nobody;
    }
    Answer<std::optional<locking::LockHolder>> lock(locking::LockRequest request) override {
      std::optional<locking::LockHolder> holder;
      if (engine_.locker != 0 && engine_.locker != request.owner) holder.emplace();
      if (!holder) engine_.locker = request.owner;
      co_return holder;
    }
    async::Task<Status> wait_for_lock(locking::LockRequest /*request*/,
                                      std::shared_ptr<locking::LockWait> /*cancelled*/) override {
      co_return failed(EINTR);
    }
    async::Task<Status> unlock(std::uint64_t owner, locking::LockRange /*range*/) override {
      return release_locks(owner);
    }
    async::Task<Status> release_locks(std::uint64_t owner) override {
      if (engine_.locker == owner) engine_.locker = 0;
      co_return Status();
    }
    bool knows_owner(std::uint64_t owner) const override { return engine_.locker == owner; }
    [[nodiscard]] std::uint64_t id() const { return id_; }

   private:
    Node& node() { return engine_.nodes.at(id_); }
    PlainEngine& engine_;
    const std::uint64_t id_;
    const Access access_;
    bool unstable_ = false;
  };

  PlainEngine(async::Loop& loop, std::string& calls) : loop_(loop), calls_(calls) {
    nodes[1].type = FileType::directory;
  }
  void log(const std::string& what) {
    calls_ += calls_.empty() ? what : " " + what;
    if (on_call) on_call(what);
  }

  // ---- knobs ----

  /// Called before each operation.
  std::function<void(const std::string&)> on_call;
  /// What the next operation of this name gives. One that is `executed` is done all the same, as where its
  /// answer is lost.
  struct Failure {
    Error error;
    bool executed = false;
  };
  std::multimap<std::string, Failure> failures;
  bool tells = false;                     ///< pages bring handles and attributes
  std::size_t page_size = 1000;           ///< entries
  std::size_t circle = 0;                 ///< of so many entries, in which a listing ends; 0: it has an end
  std::map<std::string, Caller> callers;  ///< who asked for an operation of this name last

  void fail(const std::string& what, int code) { failures.emplace(what, Failure{failed(code), false}); }
  void lose(const std::string& what, bool executed) {
    Error lost(ErrorKind::timeout, ETIMEDOUT, what, "", "no answer");
    failures.emplace(what, Failure{std::move(lost), executed});
  }
  std::optional<Failure> begin(const std::string& what, const Caller& caller) {
    log(what);
    callers[what] = caller;
    auto found = failures.extract(what);
    if (!found) return std::nullopt;
    return std::move(found.mapped());
  }
  [[nodiscard]] std::uint32_t links(std::uint64_t id) const {
    std::uint32_t out = 0;
    for (const auto& [number, node] : nodes) {
      for (const auto& [name, other] : node.names) out += other == id ? 1 : 0;
    }
    return out;
  }

  static FileHandle handle(std::uint64_t id) {
    FileHandle out;
    out.length = sizeof id;
    std::memcpy(out.bytes.data(), &id, sizeof id);
    return out;
  }
  static std::uint64_t id_of(const FileHandle& handle) {
    std::uint64_t id = 0;
    std::memcpy(&id, handle.bytes.data(), sizeof id);
    return id;
  }
  Node* find(const FileHandle& handle) {
    const auto at = nodes.find(id_of(handle));
    return at == nodes.end() ? nullptr : &at->second;
  }
  Attributes describe(std::uint64_t id) {
    const Node& node = nodes.at(id);
    Attributes out;
    out.type = node.type;
    out.mode = node.mode;
    out.links = node.type == FileType::directory ? 2 : links(id);
    out.size = node.content.size();
    out.change = node.change;
    out.file_id = id;
    out.filesystem_major = node.filesystem;
    return out;
  }
  Result<Made> make(const FileHandle& directory, const std::string& name, FileType type, std::uint32_t mode) {
    log("make");
    Node* parent = find(directory);
    if (parent == nullptr) return failed(ESTALE);
    if (parent->names.contains(name)) return failed(EEXIST);
    const std::uint64_t id = ++last_;
    parent->names[name] = id;
    ++parent->change;
    nodes[id].type = type;
    nodes[id].mode = mode;
    Made out;
    out.object.handle = handle(id);
    return out;
  }

  async::Loop& loop() override { return loop_; }
  std::uint64_t client_number() const override { return 0xc11e47; }
  Answer<Object> root(std::string /*path*/) override {
    Object out;
    out.handle = handle(1);
    out.attributes = describe(1);
    co_return out;
  }
  Answer<std::optional<Object>> lookup(Caller caller, FileHandle directory, std::string name) override {
    if (const auto failure = begin("lookup", caller)) co_return failure->error;
    std::optional<Object> out;
    const Node* parent = find(directory);
    if (parent == nullptr) co_return failed(ESTALE);
    if (const auto at = parent->names.find(name); at != parent->names.end()) {
      out.emplace().handle = handle(at->second);
    }
    co_return out;
  }
  Answer<Object> parent(Caller /*caller*/, FileHandle directory) override {
    log("parent");
    for (const auto& [id, node] : nodes) {
      for (const auto& [name, child] : node.names) {
        if (child != id_of(directory)) continue;
        Object out;
        out.handle = handle(id);
        out.attributes = describe(id);
        co_return out;
      }
    }
    co_return failed(ENOENT);
  }
  Answer<Attributes> attributes(Caller /*caller*/, FileHandle object) override {
    log("attributes");
    if (find(object) == nullptr) co_return failed(ESTALE);
    co_return describe(id_of(object));
  }
  Answer<Attributes> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                    ServerFileRef /*file*/) override {
    if (const auto failure = begin("set", caller)) co_return failure->error;
    Node* node = find(object);
    if (node == nullptr) co_return failed(ESTALE);
    if (changes.size) node->content.resize(*changes.size);
    if (changes.mode) node->mode = *changes.mode;
    ++node->change;
    co_return describe(id_of(object));
  }
  Answer<unsigned> access(Caller /*caller*/, FileHandle /*object*/, FileType /*type*/,
                          unsigned wanted) override {
    co_return wanted & ~static_cast<unsigned>(W_OK);
  }
  Answer<std::string> read_link(Caller /*caller*/, FileHandle object) override {
    co_return find(object)->content;
  }
  Answer<Space> space(Caller /*caller*/, FileHandle /*object*/) override { co_return Space(); }
  Answer<Made> make_directory(Caller /*caller*/, FileHandle directory, std::string name,
                              std::uint32_t mode) override {
    co_return make(directory, name, FileType::directory, mode);
  }
  Answer<Made> make_symlink(Caller /*caller*/, FileHandle directory, std::string name,
                            std::string text) override {
    auto made = make(directory, name, FileType::symlink, 0777);
    if (made) find(made->object.handle)->content = std::move(text);
    co_return made;
  }
  Answer<Made> make_node(Caller /*caller*/, FileHandle directory, std::string name, FileType type,
                         Device /*device*/, std::uint32_t mode) override {
    co_return make(directory, name, type, mode);
  }
  Answer<Made> link(Caller caller, FileHandle object, FileHandle directory, std::string name) override {
    const auto failure = begin("link", caller);
    if (failure && !failure->executed) co_return failure->error;
    if (!find(directory)->names.try_emplace(name, id_of(object)).second) co_return failed(EEXIST);
    if (failure) co_return failure->error;
    Made out;
    out.object.handle = object;
    co_return out;
  }
  Answer<std::optional<Attributes>> remove(Caller caller, FileHandle directory, std::string name) override {
    const auto failure = begin("remove", caller);
    if (failure && !failure->executed) co_return failure->error;
    if (find(directory)->names.erase(name) == 0) co_return failed(ENOENT);
    if (failure) co_return failure->error;
    std::optional<Attributes> none;
    co_return none;
  }
  Answer<Renamed> rename(Caller caller, FileHandle from, std::string old_name, FileHandle to,
                         std::string new_name) override {
    const auto failure = begin("rename", caller);
    if (failure && !failure->executed) co_return failure->error;
    auto moved = find(from)->names.extract(old_name);
    if (!moved) co_return failed(ENOENT);
    find(to)->names[new_name] = moved.mapped();
    if (failure) co_return failure->error;
    co_return Renamed();
  }
  Answer<Page> list(Caller caller, FileHandle directory, std::uint64_t cookie,
                    ListVerifier /*verifier*/) override {
    if (const auto failure = begin("list", caller)) co_return failure->error;
    Node* node = find(directory);
    if (node == nullptr) co_return failed(ESTALE);
    Page out;
    for (const auto& [name, id] : node->names) {
      const std::uint64_t own = node->cookies.try_emplace(name, node->cookies.size() + 10).first->second;
      Listed listed;
      listed.cookie = own;
      listed.name = name;
      listed.attributes.file_id = id;
      listed.attributes.type = nodes.at(id).type;
      listed.attributes.filesystem_major = nodes.at(id).filesystem;
      if (tells) listed.attributes = describe(id);
      if (tells) listed.handle = handle(id);
      out.entries.push_back(std::move(listed));
    }
    std::ranges::sort(out.entries, {}, &Listed::cookie);
    auto next = std::ranges::upper_bound(out.entries, cookie, {}, &Listed::cookie);
    if (next == out.entries.end()) next -= static_cast<std::ptrdiff_t>(circle);
    out.entries.erase(out.entries.begin(), next);
    out.eof = out.entries.size() <= page_size && circle == 0;
    if (out.entries.size() > page_size) out.entries.resize(page_size);
    co_return out;
  }
  Answer<std::vector<std::byte>> get_xattr(Caller /*caller*/, FileHandle /*object*/,
                                           std::string /*name*/) override {
    co_return failed(EOPNOTSUPP);
  }
  async::Task<Status> set_xattr(Caller /*caller*/, FileHandle /*object*/, std::string /*name*/,
                                std::vector<std::byte> /*value*/, XattrMode /*mode*/) override {
    co_return failed(EOPNOTSUPP);
  }
  async::Task<Status> remove_xattr(Caller /*caller*/, FileHandle /*object*/, std::string /*name*/) override {
    co_return failed(EOPNOTSUPP);
  }
  Answer<std::vector<std::string>> list_xattrs(Caller /*caller*/, FileHandle /*object*/) override {
    co_return failed(EOPNOTSUPP);
  }
  Answer<Opened> open(Caller /*caller*/, FileHandle file, std::string /*label*/, Access access,
                      std::optional<Place> found_at) override {
    log("open");
    if (found_at) {
      const Node* directory = find(found_at->directory);
      if (directory == nullptr) co_return failed(ESTALE);
      const auto name = directory->names.find(found_at->name);
      if (name == directory->names.end() || name->second != id_of(file)) co_return failed(ESTALE);
    }
    Opened out;
    out.object.handle = file;
    out.object.attributes = describe(id_of(file));
    out.file = std::make_shared<File>(*this, id_of(file), access);
    ++open_;
    co_return out;
  }
  Answer<Opened> create(Caller /*caller*/, FileHandle directory, std::string name, Access access,
                        Creation how) override {
    auto made = make(directory, name, FileType::regular, how.mode);
    if (!made) co_return made.error();
    Opened out;
    out.object = made->object;
    out.file = std::make_shared<File>(*this, id_of(made->object.handle), access);
    ++open_;
    co_return out;
  }
  async::Task<Status> close(ServerFileRef file) override {
    log("close");
    --open_;
    co_return co_await file->commit(nullptr);
  }
  Answer<std::uint64_t> copy(ServerFileRef /*from*/, std::uint64_t /*from_offset*/, ServerFileRef /*to*/,
                             std::uint64_t /*to_offset*/, std::uint64_t /*count*/) override {
    co_return failed(EOPNOTSUPP);
  }
  std::uint64_t modifications(const FileHandle& object) const override {
    return nodes.at(id_of(object)).change;
  }
  bool delegated(const FileHandle& /*file*/) const override { return false; }
  std::chrono::seconds delegated_for() const override { return {}; }
  void on_delegation_end(std::function<void(const FileHandle&)> /*sink*/) override {}
  void keep_delegated(std::size_t /*most*/) override {}
  void forget(const FileHandle& /*file*/) override {}
  async::Task<void> forget_all() override { co_return; }
  std::size_t open_files() const override { return open_; }
  std::size_t kept_files() const override { return 0; }
  std::size_t uncommitted_bytes() const override { return 0; }

  std::map<std::uint64_t, Node> nodes;
  std::uint64_t locker = 0;

 private:
  async::Loop& loop_;
  std::string& calls_;
  std::uint64_t last_ = 1;
  std::size_t open_ = 0;
};

/// The file layer on it, and a loop.
struct Plain {
  explicit Plain(Options options = {}) {
    auto made = std::make_unique<PlainEngine>(loop, calls);
    engine = made.get();
    const auto root = loop.run(engine->root("/"));
    files.emplace(std::move(made), options, *root);
  }
  template <class T>
  T get(Answer<T> task) {
    auto got = loop.run(std::move(task));
    if (!got) FAIL(got.error().text());
    return std::move(*got);
  }
  int error(async::Task<Status> task) {
    const auto done = loop.run(std::move(task));
    return done ? 0 : done.error().errno_value();
  }
  template <class T>
  int error(Answer<T> task) {
    const auto got = loop.run(std::move(task));
    return got ? 0 : got.error().errno_value();
  }
  OpenedFile create(const std::string& name) {
    return get(files->create(nullptr, Inodes::kRoot, name, 0644, O_RDWR | O_CREAT));
  }
  void write(const OpenedFile& file, const std::string& text, std::uint64_t offset) {
    const auto data = std::as_bytes(std::span(text));
    CHECK(ok(loop.run(files->write(file.handle, {}, data, offset))));
  }
  std::string read(const OpenedFile& file, std::size_t size) {
    const auto got = get(files->read(file.handle, 0, size));
    std::string out;
    for (const iovec& piece : got.pieces) out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    return out;
  }
  std::string take_calls() { return std::exchange(calls, ""); }

  async::Loop loop;
  std::string calls;
  PlainEngine* engine = nullptr;
  std::optional<FileSystem> files;
};

}  // namespace nfsrdma::fs::listing
