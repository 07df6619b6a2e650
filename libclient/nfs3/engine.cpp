#include "nfs3/engine.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "wire/nfs3/status.h"
#include "writing/question.h"

namespace nfsrdma::nfs3 {
namespace {

/// How often open_at() tries again when the name is taken and then gone.
constexpr int kMostTries = 8;

Status wrong_type(FileType type, const std::string& text) {
  switch (type) {
    case FileType::regular:
      return {};
    case FileType::directory:
      return status_error(NFS3ERR_ISDIR, "open", text);
    case FileType::symlink:
      return Error(ErrorKind::server, ELOOP, "open", text, "this is a symbolic link");
    default:
      return Error(ErrorKind::server, EINVAL, "open", text, "this is not a regular file");
  }
}

}  // namespace

/// A file that one open(2) has opened.
class Nfs3Engine::Open final : public ServerFile {
 public:
  Open(Nfs3Engine& engine, std::shared_ptr<File> file, Access access)
      : engine_(engine), file_(std::move(file)), access_(access) {
    ++engine_.open_;
  }
  ~Open() override {
    --engine_.open_;
    for (const std::uint64_t owner : owners_) {
      if (knows_owner(owner)) engine_.locks_.release_in_background(locked(), owner);
    }
    if (!ended_ && file_->has_unstable_data()) engine_.background_.spawn(commit_in_background(file_));
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  Access access() const override { return access_; }
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) override {
    if (auto lost = engine_.locks_.lost(file_->handle())) return refused<std::size_t>(*std::move(lost));
    return file_->read(data, offset);
  }
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                         std::uint64_t offset, Stability stability,
                                         std::optional<Attributes>* after) override {
    if (auto lost = engine_.locks_.lost(file_->handle())) return refused<std::size_t>(*std::move(lost));
    const auto how = stability == Stability::unstable ? writing::How::unstable : writing::How::file_sync;
    return file_->write(data, std::move(memory), offset, how, after);
  }
  async::Soon<Status> commit(std::optional<Attributes>* after) override { return file_->commit(after); }
  bool has_unstable_data() const override { return file_->has_unstable_data(); }
  std::uint64_t end_in_doubt() const override { return file_->record()->end_in_doubt(); }
  async::Task<Result<Attributes>> attributes() override {
    return engine_.attributes(file_->caller(), file_->handle());
  }
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t /*offset*/, bool /*hole*/) override {
    co_return unsupported("SEEK", file_->path());
  }
  async::Task<Status> allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
    co_return unsupported("ALLOCATE", file_->path());
  }
  async::Task<Status> deallocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
    co_return unsupported("DEALLOCATE", file_->path());
  }

  async::Task<Result<std::optional<LockHolder>>> test_lock(LockRequest request) override {
    return engine_.locks_.test(locked(), request);
  }
  async::Task<Result<std::optional<LockHolder>>> lock(LockRequest request) override {
    if (auto error = unfit(request)) return refused<std::optional<LockHolder>>(*std::move(error));
    owners_.insert(request.owner);
    return engine_.locks_.set(locked(), request);
  }
  async::Task<Status> wait_for_lock(LockRequest request,
                                    std::shared_ptr<locking::LockWait> cancelled) override {
    if (auto error = unfit(request)) return refused_status(*std::move(error));
    owners_.insert(request.owner);
    return engine_.locks_.wait(locked(), request, std::move(cancelled));
  }
  async::Task<Status> unlock(std::uint64_t owner, LockRange range) override {
    return engine_.locks_.clear(locked(), owner, range);
  }
  async::Task<Status> release_locks(std::uint64_t owner) override {
    owners_.erase(owner);
    return engine_.locks_.release(locked(), owner);
  }
  bool knows_owner(std::uint64_t owner) const override {
    return engine_.locks_.knows(file_->handle(), owner);
  }
  bool has_locks() const override {
    return std::ranges::any_of(owners_, [this](std::uint64_t owner) { return knows_owner(owner); });
  }

  /// Called when the file is being closed; close() then reports the errors of its data. Returns the lock
  /// owners that have locked through this open(2).
  std::set<std::uint64_t> end() {
    ended_ = true;
    return std::exchange(owners_, {});
  }
  [[nodiscard]] LockedFile locked() const { return {file_->caller(), file_->handle(), file_->path()}; }
  [[nodiscard]] const std::shared_ptr<File>& file() const { return file_; }

 private:
  static async::Task<void> commit_in_background(std::shared_ptr<File> file) {
    (void)co_await file->commit(nullptr);
  }

  template <class T>
  static async::Task<Result<T>> refused(Error why) {
    co_return why;
  }
  static async::Task<Status> refused_status(Error why) { co_return why; }
  /// Returns an error if the file is not open for this kind of lock, as fcntl(2) does.
  [[nodiscard]] std::optional<Error> unfit(const LockRequest& request) const {
    const bool fits = request.write ? access_ != Access::read : access_ != Access::write;
    if (fits) return std::nullopt;
    return Error(ErrorKind::usage, EBADF, "lock", file_->path(),
                 "the file is not open for this kind of lock");
  }

  Nfs3Engine& engine_;
  const std::shared_ptr<File> file_;
  const Access access_;
  std::set<std::uint64_t> owners_;  // owners that have locked through this open(2)
  bool ended_ = false;
};

Nfs3Engine::Nfs3Engine(ProcedureCalls& calls, Roots& roots, LockManager* locks, unsigned version)
    : ObjectOperations(calls, roots, version),
      number_(calls.loop().random<std::uint64_t>()),
      records_(calls.loop()),
      locks_(calls.loop(), records_, locks, calls.default_deadline() - calls.loop().now(),
             {[&calls] { return calls.connections(); }, [&calls](bool on) { calls.hold(on); }}),
      background_(calls.loop()) {}

Nfs3Engine::~Nfs3Engine() = default;

async::Task<Status> Nfs3Engine::ping() {
  auto answer = co_await ask<proc::NULL3>(nullptr, xdr::Void());
  if (!answer) co_return answer.error();
  co_return Status();
}

ServerHoldings Nfs3Engine::holdings() const {
  ServerHoldings out;
  out.locks = locks_.held();
  return out;
}

// ---- files ----

ServerFileRef Nfs3Engine::opened(Caller caller, const FileHandle& handle, std::string label, Access access) {
  const FileContext context{dialect_, limits_, modifications_};
  auto file = std::make_shared<File>(context, std::move(caller), handle, std::move(label));
  File::join(file, records_.of(handle));
  return std::make_shared<Open>(*this, std::move(file), access);
}

bool Nfs3Engine::is_in_doubt(const FileHandle& handle) const {
  const auto record = records_.find(handle);
  return record && record->in_doubt();
}

bool Nfs3Engine::has_something_to_cut(const Object& file) const {
  if (!file.attributes || file.attributes->size != 0) return true;
  const auto record = records_.find(file.handle);
  return record && (record->is_unstable() || record->turns.rewriting != 0);
}

async::Task<Result<Object>> Nfs3Engine::find(Caller caller, Spot spot) {
  auto found = co_await ObjectOperations::find(caller, std::move(spot));
  if (!found || !found->attributes || !is_in_doubt(found->handle)) co_return found;
  auto now = co_await attributes(std::move(caller), found->handle);
  if (!now) co_return now.error();
  found->attributes = std::move(*now);
  co_return found;
}

async::Task<Result<Attributes>> Nfs3Engine::attributes(Caller caller, FileHandle object) {
  for (writing::Question question(records_.find(object));;) {
    if (!question.begin()) {
      if (auto done = co_await question.settle(); !done) co_return done.error();
    }
    auto told = co_await ObjectOperations::attributes(caller, object);
    if (!told) co_return told;
    if (question.again(told->size)) continue;
    told->size = question.corrected(told->size);
    co_return told;
  }
}

async::Task<Result<Attributes>> Nfs3Engine::set_attributes(Caller caller, FileHandle object,
                                                           SetAttributes changes, ServerFileRef file) {
  // The server has no handle for a directory above its exports.
  if (Above::is_one(object)) co_return above_error("");
  // A caller that has the file open for writing may truncate it, whatever other rights the caller has.
  if (file && changes.size) caller = static_cast<Open&>(*file).file()->caller();
  if (changes.size && *changes.size > limits_.largest_file)
    co_return status_error(NFS3ERR_FBIG, "SETATTR", "");
  // Data of earlier writes must not be written again after the truncation: the turn keeps rewrites out.
  auto record = changes.size ? records_.find(object) : nullptr;
  auto turn = co_await writing::take_turn(std::move(record), dialect_.calls().default_deadline(), "SETATTR");
  if (!turn) co_return turn.error();
  SETATTR3args args;
  args.object = to_wire(object);
  args.new_attributes = to_wire(changes);
  std::optional<Attributes> after;
  {
    const engine::Modifications::Scope scope(modifications_,
                                             {.any = false, .handle = engine::hash_of(object)});
    auto answer = co_await ask<proc::SETATTR>(caller, args);
    if (!answer) co_return answer.error();
    const SETATTR3resok* ok = answer->res.get<NFS3_OK>();
    if (ok == nullptr) co_return status_error(answer->res.tag(), "SETATTR", "");
    after = to_public(ok->obj_wcc.after);
  }
  if (const auto now = changes.size ? records_.find(object) : nullptr) now->resized(*changes.size);
  turn->end();
  if (after) co_return std::move(*after);
  co_return co_await attributes(std::move(caller), object);
}

namespace {

constexpr std::uint32_t kReads = ACCESS3_READ | ACCESS3_EXECUTE, kWrites = ACCESS3_MODIFY | ACCESS3_EXTEND;

/// Returns whether the rights permit the access. Execute permission suffices for reading, because a program
/// must be read to be run, and servers permit that.
bool is_granted(std::uint32_t rights, Access access) {
  return (access == Access::write || (rights & kReads) != 0) &&
         (access == Access::read || (rights & kWrites) == kWrites);
}

}  // namespace

/// Checks whether the caller may open the file, by what the server says or has said. Returns the file's
/// attributes.
async::Task<Result<Attributes>> Nfs3Engine::may_open(Caller caller, Object file, std::string label,
                                                     Access access) {
  std::optional<std::uint32_t> known;
  if (file.attributes) known = rights_.of(file.handle, caller, file.attributes->change);
  if (!known) {
    ACCESS3args args;
    args.object = to_wire(file.handle);
    args.access = kReads | kWrites;
    auto answer = co_await ask<proc::ACCESS>(caller, args);
    if (!answer) co_return answer.error();
    const ACCESS3resok* ok = answer->res.get<NFS3_OK>();
    if (ok == nullptr) co_return status_error(answer->res.tag(), "open", label);
    known = ok->access;
    if (auto now = to_public(ok->obj_attributes)) {
      rights_.learn(file.handle, caller, now->change, *known);
      file.attributes = std::move(now);
    }
  }
  if (!file.attributes || is_in_doubt(file.handle)) {
    auto asked = co_await attributes(std::move(caller), file.handle);
    if (!asked) co_return asked.error();
    file.attributes = std::move(*asked);
  }
  // A server may know a file for a moment after its last name has gone, and then no longer.
  if (file.attributes->links == 0) co_return status_error(NFS3ERR_STALE, "open", label);
  if (auto right = wrong_type(file.attributes->type, label); !right) co_return right.error();
  if (!is_granted(*known, access)) co_return status_error(NFS3ERR_ACCES, "open", label);
  co_return std::move(*file.attributes);
}

async::Task<Result<Opened>> Nfs3Engine::open(Caller caller, FileHandle file, std::string label, Access access,
                                             std::optional<Place> found_at) {
  Object object{file, std::nullopt};
  if (found_at && !found_at->fresh) {
    auto looked = co_await lookup(caller, found_at->directory, found_at->name, label);
    const bool elsewhere =
        looked ? !looked->object || looked->object->handle != file : looked.error().errno_value() == ESTALE;
    if (elsewhere) co_return status_error(NFS3ERR_STALE, "open", label);
    // A caller that got the file from somebody else may open it even if the caller may not search the
    // directory.
    if (!looked && looked.error().errno_value() != EACCES) co_return looked.error();
    if (looked) object.attributes = std::move(looked->object->attributes);
  }
  auto now = co_await may_open(caller, std::move(object), label, access);
  if (!now) co_return now.error();
  Opened out;
  out.object = {file, std::move(*now)};
  out.file = opened(std::move(caller), file, std::move(label), access);
  co_return std::move(out);
}

async::Task<Result<Opened>> Nfs3Engine::open_existing(Caller caller, FileHandle directory, std::string name,
                                                      std::string text, Access access, bool truncate) {
  auto looked = co_await lookup(caller, directory, std::move(name), text);
  if (!looked) co_return looked.error();
  if (!looked->object) co_return status_error(NFS3ERR_NOENT, "open", text);
  const FileHandle handle = looked->object->handle;
  auto now = co_await may_open(caller, std::move(*looked->object), text, access);
  if (!now) co_return now.error();
  Opened out;
  out.object = {handle, std::move(*now)};
  out.directory = std::move(looked->directory);
  out.file = opened(caller, handle, text, access);
  if (truncate && has_something_to_cut(out.object)) {
    SetAttributes cut;
    cut.size = 0;
    auto done = co_await set_attributes(std::move(caller), handle, cut, out.file);
    if (!done) co_return done.error();
    out.object.attributes = std::move(*done);
  }
  co_return std::move(out);
}

/// Creates a file; fails if the name is taken. An exclusive creation uses EXCLUSIVE if the server supports
/// it. Otherwise GUARDED is used, which sets the mode at once.
async::Task<Result<Made>> Nfs3Engine::create(Caller caller, FileHandle directory, std::string name,
                                             std::string text, Creation creation) {
  if (creation.exclusive) {
    auto made = co_await create_exclusively(caller, directory, name, std::move(text), creation.mode);
    if (made || made.error().status() != NFS3ERR_NOTSUPP) co_return made;
  }
  co_return co_await make_file(std::move(caller), directory, std::move(name), creation.mode);
}

/// Creates the file with a verifier, by which the server recognizes a repeated call, even after a restart.
/// The server keeps the verifier in the file's times, and sets no mode (RFC 1813 3.3.8); the SETATTR after it
/// sets both.
async::Task<Result<Made>> Nfs3Engine::create_exclusively(Caller caller, FileHandle directory,
                                                         std::string name, std::string text,
                                                         std::uint32_t mode) {
  CREATE3args args;
  loop().random(args.how.emplace<EXCLUSIVE>());
  args.where.dir = to_wire(directory);
  args.where.name.value = name;
  auto answer = co_await ask<proc::CREATE>(caller, std::move(args));
  if (!answer) co_return answer.error();
  const made3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "CREATE", text);
  auto out = co_await made(caller, directory, std::move(name), *ok, std::move(text));
  if (!out) co_return out.error();
  SetAttributes changes;
  changes.mode = mode & 07777U;
  changes.accessed_now = changes.modified_now = true;
  auto now = co_await set_attributes(std::move(caller), out->object.handle, changes, nullptr);
  if (!now) co_return now.error();
  out->object.attributes = std::move(*now);
  co_return out;
}

async::Task<Result<Opened>> Nfs3Engine::open_at(Caller caller, Spot spot, std::string name, Access access,
                                                std::optional<Creation> creation) {
  const std::string text = spot.text(name);
  auto directory = co_await handle_of(caller, std::move(spot));
  if (!directory) co_return directory.error();
  if (!creation) co_return co_await open_existing(std::move(caller), *directory, name, text, access, false);
  for (int tries = 0;; ++tries) {
    auto made = co_await create(caller, *directory, name, text, *creation);
    if (made) {
      Opened out;
      out.object = std::move(made->object);
      out.directory = std::move(made->directory);
      out.file = opened(caller, out.object.handle, text, access);
      // If the answer was lost, a file that somebody else created may have been taken for the one created
      // here: other calls of this client change the directory, too (outcome.cpp).
      if (creation->truncate && !creation->exclusive && has_something_to_cut(out.object)) {
        SetAttributes cut;
        cut.size = 0;
        auto done = co_await set_attributes(std::move(caller), out.object.handle, cut, out.file);
        if (!done) co_return done.error();
        out.object.attributes = std::move(*done);
      }
      co_return std::move(out);
    }
    if (creation->exclusive || made.error().kind() != ErrorKind::server) co_return made.error();
    // Even if the caller may not create the file, an existing one may be opened.
    auto there = co_await open_existing(caller, *directory, name, text, access, creation->truncate);
    const bool is_there = there || there.error().status() != NFS3ERR_NOENT;
    if (is_there && (there || made.error().status() == NFS3ERR_EXIST)) co_return there;
    if (made.error().status() != NFS3ERR_EXIST) co_return made.error();
    if (tries == kMostTries) co_return there;
  }
}

async::Task<Status> Nfs3Engine::close(ServerFileRef file) {
  Open& open = static_cast<Open&>(*file);
  const std::shared_ptr<File> data = open.file();
  Status done;
  if (data->has_unstable_data()) done = co_await data->commit(nullptr);
  const std::set<std::uint64_t> owners = open.end();
  const LockedFile locked = open.locked();
  for (const std::uint64_t owner : owners) {
    auto released = co_await locks_.release(locked, owner);
    if (!released && done) done = released;
  }
  data->leave();
  co_return done;
}

async::Task<Result<std::uint64_t>> Nfs3Engine::copy(ServerFileRef from, std::uint64_t /*from_offset*/,
                                                    ServerFileRef /*to*/, std::uint64_t /*to_offset*/,
                                                    std::uint64_t /*count*/) {
  co_return unsupported("COPY", static_cast<Open&>(*from).file()->path());
}

}  // namespace nfsrdma::nfs3
