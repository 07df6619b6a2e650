// The file layer on an engine that is no NFSv4: a tree in memory that gives nothing unasked. No attributes
// come along, names are listed without handles, nobody delegates, and what NFSv4.2 added is not there.
//
// Calls are answered at once, unless a test holds them: hold("write") keeps them from being executed,
// hold_answer("write") executes them and keeps the answer; release("write") lets one go, or as many as are
// said. fail("write", ENOSPC) refuses the next one. `calls` is what was asked for, in order.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "fs/file_system.h"

namespace nfsrdma::fs::plain {

template <class T>
using Answer = async::Task<Result<T>>;

inline bool ok(const Status& done) {
  if (!done) MESSAGE(done.error().text());
  return static_cast<bool>(done);
}

inline Error failed(int code) {
  return {ErrorKind::server, code, "test", "", "no"};
}

class PlainEngine final : public Engine {
 public:
  // ---- what a test does to calls: "write", "read", "commit", "attributes", "set", "link", "lookup" ----
  void hold(const std::string& what) { gates_[what]; }
  void hold_answer(const std::string& what) { hold(what + kAnswer); }
  void release(const std::string& what) {
    gates_.erase(what);
    gates_.erase(what + kAnswer);
    opened_.notify_all();
  }
  /// The one that has waited longest.
  void release_one(const std::string& what) {
    ++gates_.at(what).let;
    opened_.notify_all();
  }
  [[nodiscard]] std::size_t held(const std::string& what) const {
    const auto at = gates_.find(what);
    return at == gates_.end() ? 0 : at->second.came - at->second.let;
  }
  void fail(const std::string& what, int code, unsigned times = 1) {
    failures_[what].insert(failures_[what].end(), times, code);
  }

  struct Node {
    FileType type = FileType::regular;
    std::uint32_t mode = 0;
    std::string content;
    std::map<std::string, std::uint64_t> names;
    std::uint64_t change = 1;
    std::uint64_t filesystem = 7;
  };
  class File final : public ServerFile {
   public:
    File(PlainEngine& engine, std::uint64_t id, Access access) : engine_(engine), id_(id), access_(access) {}
    Access access() const override { return access_; }
    Answer<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) override {
      engine_.log("read");
      co_await engine_.pass("read");
      const std::string& from = node().content;
      const auto begin = std::min<std::size_t>(offset, from.size());
      const auto size = std::min(data.size(), from.size() - begin);
      std::memcpy(data.data(), from.data() + begin, size);
      co_await engine_.answer("read");
      co_return size;
    }
    Answer<std::size_t> write(std::span<const std::byte> data, async::Memory /*memory*/, std::uint64_t offset,
                              Stability stability, std::optional<Attributes>* after) override {
      engine_.log(stability == Stability::on_disk ? "write!" : "write");
      co_await engine_.pass("write");
      if (const int code = engine_.failure("write")) co_return failed(code);
      std::string& to = node().content;
      to.resize(std::max<std::size_t>(to.size(), offset + data.size()));
      std::memcpy(to.data() + offset, data.data(), data.size());
      ++node().change;
      unstable_ = stability == Stability::unstable;
      if (after != nullptr && engine_.tells) *after = engine_.describe(id_);
      co_await engine_.answer("write");
      co_return data.size();
    }
    async::Task<Status> commit(std::optional<Attributes>* /*after*/) override {
      if (!std::exchange(unstable_, false)) co_return Status();
      engine_.log("commit");
      co_await engine_.pass("commit");
      if (const int code = engine_.failure("commit")) {
        const Error error = failed(code);
        if (engine_.lost_data_) engine_.lost_data_(handle(id_), error);
        co_return error;
      }
      co_return Status();
    }
    bool has_unstable_data() const override { return unstable_; }
    Answer<Attributes> attributes() override { return engine_.attributes(nullptr, handle(id_)); }
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
      engine_.log("unlock");
      if (engine_.locker == owner) engine_.locker = 0;
      co_return Status();
    }
    async::Task<Status> release_locks(std::uint64_t owner) override {
      engine_.log("release");
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

  PlainEngine(async::Loop& loop, std::string& calls) : loop_(loop), calls_(calls), opened_(loop) {
    nodes[1].type = FileType::directory;
  }
  void log(const std::string& what) { calls_ += calls_.empty() ? what : " " + what; }

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
    out.links = 1;
    out.size = node.content.size();
    out.change = node.change;
    out.modified.seconds = static_cast<std::int64_t>(node.change);
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
  Answer<std::optional<Object>> lookup(Caller /*caller*/, FileHandle directory, std::string name) override {
    log("lookup");
    co_await pass("lookup");
    std::optional<Object> out;
    const Node* parent = find(directory);
    if (parent == nullptr) co_return failed(ESTALE);
    if (const auto at = parent->names.find(name); at != parent->names.end()) {
      out.emplace().handle = handle(at->second);
      if (tells) out->attributes = describe(at->second);
    }
    co_await answer("lookup");
    co_return out;
  }
  Answer<Attributes> attributes(Caller /*caller*/, FileHandle object) override {
    log("attributes");
    co_await pass("attributes");
    if (find(object) == nullptr) co_return failed(ESTALE);
    const Attributes out = describe(id_of(object));
    co_await answer("attributes");
    co_return out;
  }
  Answer<Attributes> set_attributes(Caller /*caller*/, FileHandle object, SetAttributes changes,
                                    ServerFileRef /*file*/) override {
    log("set");
    co_await pass("set");
    Node* node = find(object);
    if (node == nullptr) co_return failed(ESTALE);
    if (changes.size) node->content.resize(*changes.size);
    if (changes.mode) node->mode = *changes.mode;
    ++node->change;
    const Attributes out = describe(id_of(object));
    co_await answer("set");
    co_return out;
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
  Answer<Made> link(Caller /*caller*/, FileHandle object, FileHandle directory, std::string name) override {
    co_await pass("link");
    find(directory)->names[name] = id_of(object);
    Made out;
    out.object.handle = object;
    if (tells) out.object.attributes = describe(id_of(object));
    co_await answer("link");
    co_return out;
  }
  Answer<std::optional<Attributes>> remove(Caller /*caller*/, FileHandle directory,
                                           std::string name) override {
    log("remove");
    if (find(directory)->names.erase(name) == 0) co_return failed(ENOENT);
    std::optional<Attributes> none;
    co_return none;
  }
  Answer<Renamed> rename(Caller /*caller*/, FileHandle from, std::string old_name, FileHandle to,
                         std::string new_name) override {
    log("rename");
    auto moved = find(from)->names.extract(old_name);
    if (!moved) co_return failed(ENOENT);
    find(to)->names[new_name] = moved.mapped();
    co_return Renamed();
  }
  Answer<Page> list(Caller /*caller*/, FileHandle directory, std::uint64_t cookie,
                    ListVerifier /*verifier*/) override {
    log("list");
    Page out;
    std::uint64_t at = 0;
    for (const auto& [name, id] : find(directory)->names) {
      if (++at <= cookie) continue;
      Listed listed;
      listed.cookie = at;
      listed.name = name;
      listed.attributes.file_id = id;
      listed.attributes.type = nodes.at(id).type;
      listed.attributes.filesystem_major = nodes.at(id).filesystem;
      if (tells) {
        listed.attributes = describe(id);
        listed.handle = handle(id);
      }
      out.entries.push_back(std::move(listed));
    }
    out.eof = true;
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
                      std::optional<Place> /*found_at*/) override {
    log("open");
    Opened out;
    out.object.handle = file;
    out.object.attributes = describe(id_of(file));
    out.file = std::make_shared<File>(*this, id_of(file), access);
    ++open_;
    co_return out;
  }
  Answer<Object> parent(Caller /*caller*/, FileHandle directory) override {
    Object out;
    out.handle = directory;
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
  void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) override {
    lost_data_ = std::move(sink);
  }

  std::map<std::uint64_t, Node> nodes;
  std::uint64_t locker = 0;
  bool tells = false;  ///< attributes come along where they can

 private:
  static constexpr const char* kAnswer = " answer";
  struct Gate {
    std::size_t came = 0, let = 0;
  };
  async::Task<void> pass(std::string what) {
    const auto at = gates_.find(what);
    if (at == gates_.end()) co_return;
    const std::size_t mine = ++at->second.came;
    while (gates_.contains(what) && gates_.at(what).let < mine) {
      co_await opened_.wait_until(async::TimePoint::max());
    }
  }
  async::Task<void> answer(const std::string& what) { return pass(what + kAnswer); }
  int failure(const std::string& what) {
    auto& codes = failures_[what];
    if (codes.empty()) return 0;
    const int code = codes.front();
    codes.pop_front();
    return code;
  }

  async::Loop& loop_;
  std::string& calls_;
  async::Event opened_;
  std::map<std::string, Gate> gates_;
  std::map<std::string, std::deque<int>> failures_;
  std::function<void(const FileHandle&, const Error&)> lost_data_;
  std::uint64_t last_ = 1;
  std::size_t open_ = 0;
};

struct Plain {
  explicit Plain(Options options = {}) {
    auto made = std::make_unique<PlainEngine>(loop, calls);
    engine = made.get();
    const auto root = loop.run(engine->root("/"));
    files.emplace(std::move(made), options, *root);
  }
  ~Plain() { loop.drop_tasks(); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  /// Begins it. What it waits for is the test's to give.
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    turn();
  }
  /// Whatever can happen without time passing.
  void turn() {
    loop.end_turn();
    while (loop.turn(async::TimePoint::min())) {
    }
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

}  // namespace nfsrdma::fs::plain
