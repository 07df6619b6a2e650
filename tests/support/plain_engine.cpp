#include "support/plain_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "async/under_way.h"

namespace nfsrdma::fs::plain {
namespace {

Error failed(int code) {
  return {ErrorKind::server, code, "test", "", "no"};
}

}  // namespace

// ---- what a test does to calls ----

PlainEngine::PlainEngine(async::Loop& loop, std::string& calls) : loop_(loop), calls_(calls), opened_(loop) {
  nodes[1].type = FileType::directory;
}

void PlainEngine::release(const std::string& what) {
  gates_.erase(what);
  gates_.erase(what + kAnswer);
  opened_.notify_all();
}

void PlainEngine::release_one(const std::string& what) {
  ++gates_.at(what).let;
  opened_.notify_all();
}

std::size_t PlainEngine::held(const std::string& what) const {
  const auto at = gates_.find(what);
  return at == gates_.end() ? 0 : at->second.came - at->second.let;
}

void PlainEngine::fail(const std::string& what, int code, unsigned times) {
  auto& failures = failures_[what];
  failures.insert(failures.end(), times, Failure{failed(code), false});
}

void PlainEngine::lose(const std::string& what, bool executed) {
  Error lost(ErrorKind::timeout, ETIMEDOUT, what, "", "no answer");
  failures_[what].push_back({std::move(lost), executed});
}

void PlainEngine::log(const std::string& what) {
  calls_ += calls_.empty() ? what : " " + what;
  // A copy, as it may take itself away.
  if (const auto told = on_call) told(what);
}

async::Task<std::optional<PlainEngine::Failure>> PlainEngine::begin(std::string what, Caller caller) {
  log(what);
  callers[what] = std::move(caller);
  co_await pass(what);
  co_return take_failure(what);
}

async::Task<void> PlainEngine::pass(std::string gate) {
  const auto at = gates_.find(gate);
  if (at == gates_.end()) co_return;
  const std::size_t mine = ++at->second.came;
  while (gates_.contains(gate) && gates_.at(gate).let < mine) {
    co_await opened_.wait_until(async::TimePoint::max());
  }
}

std::optional<PlainEngine::Failure> PlainEngine::take_failure(const std::string& what) {
  auto& failures = failures_[what];
  if (failures.empty()) return std::nullopt;
  Failure out = std::move(failures.front());
  failures.pop_front();
  return out;
}

// ---- the tree ----

FileHandle PlainEngine::handle(std::uint64_t id) {
  FileHandle out;
  out.length = sizeof id;
  std::memcpy(out.bytes.data(), &id, sizeof id);
  return out;
}

std::uint64_t PlainEngine::id_of(const FileHandle& handle) {
  std::uint64_t id = 0;
  std::memcpy(&id, handle.bytes.data(), sizeof id);
  return id;
}

std::uint32_t PlainEngine::links(std::uint64_t id) const {
  std::uint32_t out = 0;
  for (const auto& [number, node] : nodes) {
    for (const auto& [name, other] : node.names) out += other == id ? 1 : 0;
  }
  return out;
}

Result<std::uint64_t> PlainEngine::walk(const Spot& spot) const {
  std::uint64_t at = spot.from ? id_of(*spot.from) : 1;
  if (!nodes.contains(at)) return failed(ESTALE);
  for (const std::string& name : spot.names) {
    const Node& node = nodes.at(at);
    if (node.type != FileType::directory) return failed(ENOTDIR);
    const auto found = node.names.find(name);
    if (found == node.names.end()) return failed(ENOENT);
    at = found->second;
  }
  return at;
}

Result<PlainEngine::Node*> PlainEngine::walk_to_directory(const Spot& spot) {
  const auto found = walk(spot);
  if (!found) return found.error();
  Node& node = nodes.at(*found);
  if (node.type != FileType::directory) return failed(ENOTDIR);
  return &node;
}

Attributes PlainEngine::describe(std::uint64_t id) const {
  const Node& node = nodes.at(id);
  Attributes out;
  out.type = node.type;
  out.mode = node.mode;
  out.links = node.type == FileType::directory ? 2 : links(id);
  out.size = node.content.size();
  out.change = node.change;
  out.modified.seconds = static_cast<std::int64_t>(node.change);
  out.file_id = id;
  out.filesystem_major = node.filesystem;
  return out;
}

Result<Made> PlainEngine::make(const Spot& directory, const std::string& name, FileType type,
                               std::uint32_t mode) {
  log("make");
  const auto parent = walk_to_directory(directory);
  if (!parent) return parent.error();
  Node& in = **parent;
  if (in.names.contains(name)) return failed(EEXIST);
  const std::uint64_t id = ++last_;
  in.names[name] = id;
  ++in.change;
  nodes[id].type = type;
  nodes[id].mode = mode;
  Made out;
  out.object.handle = handle(id);
  return out;
}

// ---- files ----

class PlainEngine::File final : public ServerFile {
 public:
  File(PlainEngine& engine, std::uint64_t id, Access access) : engine_(engine), id_(id), access_(access) {}
  Access access() const override { return access_; }
  Answer<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) override {
    if (const auto failure = co_await engine_.begin("read")) co_return failure->error;
    const std::string& from = node().content;
    const auto begin = std::min<std::size_t>(offset, from.size());
    const auto size = std::min(data.size(), from.size() - begin);
    std::memcpy(data.data(), from.data() + begin, size);
    co_await engine_.answer("read");
    co_return size;
  }
  /// In `calls` "write!" if it is to be on the disk, and "write" for a test that holds it or lets it fail.
  Answer<std::size_t> write(std::span<const std::byte> data, async::Memory /*memory*/, std::uint64_t offset,
                            Stability stability, std::optional<Attributes>* after) override {
    engine_.log(stability == Stability::on_disk ? "write!" : "write");
    co_await engine_.pass("write");
    if (const auto failure = engine_.take_failure("write")) co_return failure->error;
    if (offset >= engine_.largest) co_return failed(EFBIG);
    data = data.first(std::min<std::size_t>(data.size(), engine_.largest - offset));
    std::string& to = node().content;
    to.resize(std::max<std::size_t>(to.size(), offset + data.size()));
    std::memcpy(to.data() + offset, data.data(), data.size());
    ++node().change;
    unstable_ = stability == Stability::unstable;
    if (after != nullptr && engine_.tells) *after = engine_.describe(id_);
    co_await engine_.answer("write");
    co_return data.size();
  }
  /// Without an answer the data stays, to be committed later.
  async::Soon<Status> commit(std::optional<Attributes>* /*after*/) override { return commit_now(); }
  async::Task<Status> commit_now() {
    while (committing_) co_await engine_.opened_.wait_until(async::TimePoint::max());
    if (!std::exchange(unstable_, false)) co_return Status();
    const async::Flagged committing(committing_, engine_.opened_);
    if (const auto failure = co_await engine_.begin("commit")) {
      unstable_ = failure->error.kind() != ErrorKind::server;
      if (!unstable_ && engine_.lost_data_) engine_.lost_data_(handle(id_), failure->error);
      co_return failure->error;
    }
    co_return Status();
  }
  bool has_unstable_data() const override { return unstable_; }
  std::uint64_t end_in_doubt() const override { return engine_.end_in_doubt; }
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
  Answer<std::optional<LockHolder>> test_lock(LockRequest /*request*/) override {
    std::optional<LockHolder> nobody;
    co_return nobody;
  }
  Answer<std::optional<LockHolder>> lock(LockRequest request) override {
    std::optional<LockHolder> holder;
    if (engine_.locker != 0 && engine_.locker != request.owner) holder.emplace();
    if (!holder) engine_.locker = request.owner;
    co_return holder;
  }
  async::Task<Status> wait_for_lock(LockRequest request,
                                    std::shared_ptr<locking::LockWait> /*cancelled*/) override {
    if (!engine_.grants_waits) co_return failed(EINTR);
    engine_.locker = request.owner;
    co_return Status();
  }
  async::Task<Status> unlock(std::uint64_t owner, LockRange /*range*/) override {
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
  bool has_locks() const override { return engine_.locker != 0; }

 private:
  Node& node() { return engine_.nodes.at(id_); }
  PlainEngine& engine_;
  const std::uint64_t id_;
  const Access access_;
  bool unstable_ = false;
  bool committing_ = false;
};

Opened PlainEngine::opened(Object object, Access access) {
  Opened out;
  out.file = std::make_shared<File>(*this, id_of(object.handle), access);
  out.object = std::move(object);
  ++open_;
  return out;
}

Answer<Opened> PlainEngine::open(Caller caller, FileHandle file, std::string /*label*/, Access access,
                                 std::optional<Place> found_at) {
  if (const auto failure = co_await begin("open", caller)) co_return failure->error;
  if (found_at && !found_at->fresh) {
    const auto found = walk({found_at->directory, {found_at->name}});
    if (!found || *found != id_of(file)) co_return failed(ESTALE);
  }
  Object object;
  object.handle = file;
  object.attributes = describe(id_of(file));
  co_return opened(std::move(object), access);
}

Answer<Opened> PlainEngine::open_and_read(Caller caller, FileHandle file, std::string label,
                                          std::optional<Place> found_at, std::span<std::byte> into) {
  auto out = co_await open(std::move(caller), file, std::move(label), Access::read, std::move(found_at));
  if (!out || !reads_first) co_return out;
  log("early");
  const std::string& content = nodes.at(id_of(file)).content;
  out->first = std::min(into.size(), content.size());
  std::copy_n(reinterpret_cast<const std::byte*>(content.data()), *out->first, into.begin());
  co_return out;
}

Answer<Opened> PlainEngine::open_at(Caller /*caller*/, Spot directory, std::string name, Access access,
                                    std::optional<Creation> creation) {
  const auto in = walk_to_directory(directory);
  if (!in) co_return in.error();
  const auto found = (*in)->names.find(name);
  const bool there = found != (*in)->names.end();
  if (creation && (!there || creation->exclusive)) {
    auto made = make(directory, name, FileType::regular, creation->mode);
    if (!made) co_return made.error();
    co_return opened(std::move(made->object), access);
  }
  if (!there) co_return failed(ENOENT);
  Node& node = nodes.at(found->second);
  if (node.type == FileType::symlink) co_return failed(ELOOP);
  if (node.type == FileType::directory) co_return failed(EISDIR);
  if (creation && creation->truncate) {
    node.content.clear();
    ++node.change;
  }
  Object object;
  object.handle = handle(found->second);
  co_return opened(std::move(object), access);
}

async::Task<Status> PlainEngine::close(ServerFileRef file) {
  log("close");
  --open_;
  co_return co_await file->commit(nullptr);
}

Answer<std::uint64_t> PlainEngine::copy(ServerFileRef /*from*/, std::uint64_t /*from_offset*/,
                                        ServerFileRef /*to*/, std::uint64_t /*to_offset*/,
                                        std::uint64_t /*count*/) {
  co_return failed(EOPNOTSUPP);
}

std::uint64_t PlainEngine::modifications(const FileHandle& object) const {
  return nodes.at(id_of(object)).change;
}

void PlainEngine::on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) {
  lost_data_ = std::move(sink);
}

// ---- objects and names ----

async::Task<Status> PlainEngine::ping() {
  co_return Status();
}

/// In `calls` "lookup" where names are looked up.
Answer<Object> PlainEngine::find(Caller caller, Spot spot) {
  if (const auto failure = co_await begin(spot.names.empty() ? "find" : "lookup", caller)) {
    co_return failure->error;
  }
  const auto found = walk(spot);
  if (!found) co_return found.error();
  Object out;
  out.handle = handle(*found);
  if (tells || spot.names.empty()) out.attributes = describe(*found);
  co_await answer("lookup");
  co_return out;
}

Answer<Object> PlainEngine::parent(Caller caller, FileHandle directory) {
  if (const auto failure = co_await begin("parent", caller)) co_return failure->error;
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

Answer<Attributes> PlainEngine::attributes(Caller caller, FileHandle object) {
  if (const auto failure = co_await begin("attributes", caller)) co_return failure->error;
  if (!nodes.contains(id_of(object))) co_return failed(ESTALE);
  const Attributes out = describe(id_of(object));
  co_await answer("attributes");
  co_return out;
}

Answer<Attributes> PlainEngine::set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                               ServerFileRef /*file*/) {
  if (const auto failure = co_await begin("set", caller)) co_return failure->error;
  const auto found = nodes.find(id_of(object));
  if (found == nodes.end()) co_return failed(ESTALE);
  Node& node = found->second;
  if (changes.size) node.content.resize(*changes.size);
  if (changes.mode) node.mode = *changes.mode;
  ++node.change;
  const Attributes out = describe(id_of(object));
  co_await answer("set");
  co_return out;
}

Answer<Rights> PlainEngine::access(Caller caller, Spot spot, unsigned wanted) {
  if (const auto failure = co_await begin("access", caller)) co_return failure->error;
  const auto found = walk(spot);
  if (!found) co_return found.error();
  const unsigned granted = writable ? wanted : wanted & ~static_cast<unsigned>(W_OK);
  co_return Rights{granted, nodes.at(*found).type};
}

Answer<std::string> PlainEngine::read_link(Caller caller, Spot spot) {
  if (const auto failure = co_await begin("read_link", caller)) co_return failure->error;
  const auto found = walk(spot);
  if (!found) co_return found.error();
  if (nodes.at(*found).type != FileType::symlink) co_return failed(EINVAL);
  co_return nodes.at(*found).content;
}

Answer<Space> PlainEngine::space(Caller /*caller*/, Spot spot) {
  const auto found = walk(spot);
  if (!found) co_return found.error();
  Space out;
  out.type = nodes.at(*found).type;
  co_return out;
}

Answer<Made> PlainEngine::make_directory(Caller /*caller*/, Spot directory, std::string name,
                                         std::uint32_t mode) {
  co_return make(directory, name, FileType::directory, mode);
}

Answer<Made> PlainEngine::make_symlink(Caller /*caller*/, Spot directory, std::string name,
                                       std::string text) {
  auto made = make(directory, name, FileType::symlink, 0777);
  if (made) nodes.at(id_of(made->object.handle)).content = std::move(text);
  co_return made;
}

Answer<Made> PlainEngine::make_node(Caller /*caller*/, Spot directory, std::string name, FileType type,
                                    Device /*device*/, std::uint32_t mode) {
  co_return make(directory, name, type, mode);
}

Answer<Made> PlainEngine::link(Caller caller, Spot object, Spot directory, std::string name) {
  const auto failure = co_await begin("link", caller);
  if (failure && !failure->executed) co_return failure->error;
  const auto linked = walk(object);
  if (!linked) co_return linked.error();
  const auto in = walk_to_directory(directory);
  if (!in) co_return in.error();
  if (!(*in)->names.try_emplace(name, *linked).second) co_return failed(EEXIST);
  if (failure) co_return failure->error;
  Made out;
  out.object.handle = handle(*linked);
  if (tells) out.object.attributes = describe(*linked);
  co_await answer("link");
  co_return out;
}

Answer<std::optional<Attributes>> PlainEngine::remove(Caller caller, Spot directory, std::string name,
                                                      Removed /*what*/) {
  const auto failure = co_await begin("remove", caller);
  if (failure && !failure->executed) co_return failure->error;
  const auto in = walk_to_directory(directory);
  if (!in) co_return in.error();
  if ((*in)->names.erase(name) == 0) co_return failed(ENOENT);
  if (failure) co_return failure->error;
  std::optional<Attributes> none;
  co_return none;
}

Answer<Renamed> PlainEngine::rename(Caller caller, Spot from, std::string old_name, Spot to,
                                    std::string new_name, std::optional<FileHandle> /*object*/) {
  const auto failure = co_await begin("rename", caller);
  if (failure && !failure->executed) co_return failure->error;
  const auto source = walk_to_directory(from);
  if (!source) co_return source.error();
  const auto target = walk_to_directory(to);
  if (!target) co_return target.error();
  auto moved = (*source)->names.extract(old_name);
  if (!moved) co_return failed(ENOENT);
  (*target)->names[new_name] = moved.mapped();
  if (failure) co_return failure->error;
  co_return Renamed();
}

Answer<Page> PlainEngine::list(Caller caller, Spot directory, std::uint64_t cookie, ListVerifier verifier) {
  if (const auto failure = co_await begin("list", caller)) co_return failure->error;
  constexpr ListVerifier kVerifier{std::byte{0x11}};
  if (cookie != 0 && verifier != kVerifier) co_return failed(EINVAL);
  const auto found = walk(directory);
  if (!found) co_return found.error();
  Node& node = nodes.at(*found);
  if (node.type != FileType::directory) co_return failed(ENOTDIR);
  Page out;
  out.directory = handle(*found);
  out.verifier = kVerifier;
  for (const auto& [name, id] : node.names) {
    const std::uint64_t own = node.cookies.try_emplace(name, node.cookies.size() + 10).first->second;
    Listed listed;
    listed.cookie = own;
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
  std::ranges::sort(out.entries, {}, &Listed::cookie);
  auto next = std::ranges::upper_bound(out.entries, cookie, {}, &Listed::cookie);
  if (next == out.entries.end()) next -= static_cast<std::ptrdiff_t>(circle);
  out.entries.erase(out.entries.begin(), next);
  out.eof = out.entries.size() <= page_size && circle == 0;
  if (out.entries.size() > page_size) out.entries.resize(page_size);
  co_return out;
}

Answer<std::vector<std::byte>> PlainEngine::get_xattr(Caller /*caller*/, FileHandle /*object*/,
                                                      std::string /*name*/) {
  co_return failed(EOPNOTSUPP);
}

async::Task<Status> PlainEngine::set_xattr(Caller /*caller*/, FileHandle /*object*/, std::string /*name*/,
                                           std::vector<std::byte> /*value*/, XattrMode /*mode*/) {
  co_return failed(EOPNOTSUPP);
}

async::Task<Status> PlainEngine::remove_xattr(Caller /*caller*/, FileHandle /*object*/,
                                              std::string /*name*/) {
  co_return failed(EOPNOTSUPP);
}

Answer<std::vector<std::string>> PlainEngine::list_xattrs(Caller /*caller*/, FileHandle /*object*/) {
  co_return failed(EOPNOTSUPP);
}

}  // namespace nfsrdma::fs::plain
