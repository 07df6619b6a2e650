#include "nfs4/files/engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "wire/nfs4/status.h"
#include "writing/question.h"

namespace nfsrdma::nfs4 {
namespace {

/// Gives one Error, EOPNOTSUPP, for everything that the server does not support, whatever it answers.
Error judged(const Error& error) {
  if (!is_unsupported(error)) return error;
  return {ErrorKind::server, EOPNOTSUPP, error.operation(), error.peer(),
          "the server does not support this operation"};
}
Status judged(Status status) {
  if (status) return status;
  return judged(status.error());
}

static_assert(static_cast<std::uint32_t>(Access::read) == OPEN4_SHARE_ACCESS_READ &&
              static_cast<std::uint32_t>(Access::write) == OPEN4_SHARE_ACCESS_WRITE &&
              static_cast<std::uint32_t>(Access::both) == OPEN4_SHARE_ACCESS_BOTH);
std::uint32_t share_access(Access access) {
  return static_cast<std::uint32_t>(access);
}

class Nfs4File final : public ServerFile {
 public:
  explicit Nfs4File(OpenRef ref) : ref_(std::move(ref)), file_(ref_.file()), locks_(file_->session()) {}

  Access access() const override { return static_cast<Access>(ref_.access()); }
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset) override {
    return file_->read(data, offset);
  }
  async::Task<Result<std::size_t>> read_with_holes(std::span<std::byte> data, std::uint64_t offset,
                                                   engine::ReportedHoles& holes) override {
    return file_->read(data, offset, &holes);
  }
  bool start(engine::FastRead& read) override { return file_->start(read); }
  std::unique_ptr<engine::ShardRead> prepare_read(std::size_t size, std::uint64_t offset) override {
    return file_->prepare_read(size, offset);
  }
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                         std::uint64_t offset, Stability stability,
                                         std::optional<Attributes>* after) override {
    const stable_how4 stable = stability == Stability::unstable ? UNSTABLE4 : FILE_SYNC4;
    if (!origin_) origin_ = std::make_shared<DataOrigin>();
    return file_->write(data, offset, stable, after, std::move(memory), origin_);
  }
  async::Task<Result<engine::WrittenWithTimes>> write_and_set_times(
      std::span<const std::byte> data, async::Memory memory, std::uint64_t offset, SetAttributes changes,
      std::optional<Attributes>* after) override {
    const auto origin = std::make_shared<DataOrigin>();
    last_origin_ = origin;
    return file_->write_and_set_times(data, std::move(memory), offset, changes, after, origin);
  }
  async::Soon<Status> commit(std::optional<Attributes>* after) override { return file_->commit(after); }
  bool has_unstable_data() const override { return file_->has_unstable_data(); }
  std::uint64_t end_in_doubt() const override { return file_->end_in_doubt(); }
  async::Task<Result<Attributes>> attributes() override { return file_->attributes(); }
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, bool hole) override {
    return seek_in(file_, offset, hole ? NFS4_CONTENT_HOLE : NFS4_CONTENT_DATA);
  }
  async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length) override {
    return judge(file_, file_->allocate(offset, length));
  }
  async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length) override {
    return judge(file_, file_->deallocate(offset, length));
  }

  async::Task<Result<std::optional<LockHolder>>> test_lock(LockRequest request) override {
    return locks_.test(file_, request);
  }
  async::Task<Result<std::optional<LockHolder>>> lock(LockRequest request) override {
    return locks_.set(file_, request);
  }
  async::Task<Status> wait_for_lock(LockRequest request, std::shared_ptr<LockWait> cancelled) override {
    return locks_.wait(file_, request, std::move(cancelled));
  }
  async::Task<Status> unlock(std::uint64_t owner, LockRange range) override {
    return locks_.clear(file_, owner, range);
  }
  async::Task<Status> release_locks(std::uint64_t owner) override { return locks_.release(file_, owner); }
  bool knows_owner(std::uint64_t owner) const override {
    const Open& state = file_->state();
    return state.locks.contains(owner) || state.lost_locks.contains(owner);
  }
  bool has_locks() const override {
    const Open& state = file_->state();
    return !state.locks.empty() || !state.lost_locks.empty();
  }

  [[nodiscard]] const std::shared_ptr<OpenFile>& file() const { return file_; }
  [[nodiscard]] OpenRef take_ref() { return std::move(ref_); }
  /// Data written so far belongs to the delegation; data written later, by a duplicate of the
  /// descriptor, does not.
  void defer_close(std::shared_ptr<DataPermit> permit) {
    if (const auto origin = last_origin_.lock()) origin->permit = permit;
    if (const auto origin = std::exchange(origin_, nullptr)) origin->permit = std::move(permit);
  }

 private:
  using File = std::shared_ptr<OpenFile>;
  static async::Task<Result<std::optional<std::uint64_t>>> seek_in(File file, std::uint64_t offset,
                                                                   data_content4 what) {
    auto found = co_await file->seek(offset, what);
    if (!found) co_return judged(found.error());
    co_return found;
  }
  static async::Task<Status> judge(File /*file*/, async::Task<Status> task) {
    auto done = co_await std::move(task);
    co_return judged(std::move(done));
  }

  OpenRef ref_;
  const File file_;  // kept after the close, because tasks may still use it
  // Origin of what is written; null: nothing was written since the last deferred close.
  std::shared_ptr<DataOrigin> origin_;
  std::weak_ptr<DataOrigin> last_origin_;  // of the last data that was written with times
  Locks locks_;
};

Nfs4File& ours(const ServerFileRef& file) {
  return static_cast<Nfs4File&>(*file);
}

}  // namespace

Nfs4Engine::Nfs4Engine(ClientLease& session)
    : ObjectOperations(session), files_(std::make_shared<OpenFiles>(session)) {
  session_.delegations().on_end([this](const nfs_fh4& handle) {
    if (delegation_end_) delegation_end_(handle);
    files_->unpark(handle);
  });
}

Nfs4Engine::~Nfs4Engine() {
  session_.delegations().on_end(nullptr);
  session_.delegations().write_back_owner(nullptr);
}

// ---- names and objects ----

async::Task<Status> Nfs4Engine::ping() {
  auto reply = co_await session_.call(session_.renewal());
  if (!reply) co_return reply.error();
  co_return Status();
}

async::Task<Result<Object>> Nfs4Engine::find(Caller caller, Spot spot) {
  auto found = co_await ObjectOperations::find(caller, std::move(spot));
  if (!found || !found->attributes) co_return found;
  const auto record = files_->record(found->handle);
  if (!record || !record->in_doubt()) co_return found;
  auto now = co_await attributes(std::move(caller), found->handle);
  if (!now) co_return now.error();
  found->attributes = std::move(*now);
  co_return found;
}

async::Task<Result<Attributes>> Nfs4Engine::attributes(Caller caller, FileHandle object) {
  if (const auto file = files_->delegated(object)) {
    auto known = co_await file->attributes();
    if (known) co_return known;
  }
  for (writing::Question question(files_->record(object));;) {
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

async::Task<Result<Attributes>> Nfs4Engine::set_attributes(Caller caller, FileHandle object,
                                                           SetAttributes changes, ServerFileRef file) {
  if (changes.mode || changes.uid || changes.gid) session_.delegations().rights_change(object);
  // Lost data of an earlier time that is being written again must not reach the server after the cut.
  auto record = changes.size ? files_->record(object) : nullptr;
  auto turn = co_await writing::take_turn(std::move(record), session_.default_deadline(), "SETATTR");
  if (!turn) co_return turn.error();
  auto got = co_await set_in_turn(caller, object, changes, std::move(file), *turn);
  turn->end();
  if (!got) co_return got.error();
  if (*got) co_return std::move(**got);
  co_return co_await attributes(std::move(caller), object);
}

/// Returns no attributes if they were set but did not come with the answer.
async::Task<Result<std::optional<Attributes>>> Nfs4Engine::set_in_turn(Caller caller, FileHandle object,
                                                                       SetAttributes changes,
                                                                       ServerFileRef file,
                                                                       const writing::Turn& turn) {
  stateid4 stateid{};
  if (changes.size) {
    // The server may want to see that the file is open for writing (RFC 8881 18.30.3).
    const std::shared_ptr<OpenFile> open =
        file ? ours(file).file() : files_->find(caller, object, OPEN4_SHARE_ACCESS_WRITE);
    if (open && open->is_open()) stateid = open->stateid();
    // A size that is set by name belongs to no descriptor, and so to no lock.
    if (file && open->is_open()) {
      if (auto claimed = co_await open->locks_claimed("SETATTR", session_.default_deadline()); !claimed)
        co_return claimed.error();
      if (auto error = open->useless_for("SETATTR")) co_return *std::move(error);
      stateid = RangeStateid(open->state(), {*changes.size}, RangeStateid::Use::write).now();
    }
  }
  auto got = co_await set_with_stateid(caller, object, stateid, changes, turn);
  const auto refused = got ? NFS4_OK : static_cast<nfsstat4>(got.error().status());
  const bool overtaken = CallLayer::is_lost_state(refused) || refused == NFS4ERR_OPENMODE;
  if (stateid != stateid4() && overtaken) {
    // Either a CLOSE or OPEN_DOWNGRADE was executed first, or the server has restarted. The file that was
    // given is opened again; without one no stateid is needed.
    if (file) {
      auto done = co_await ours(file).file()->set_attributes(changes, turn);
      if (!done) co_return done.error();
      got = std::optional<Attributes>();
    } else {
      got = co_await set_with_stateid(caller, object, stateid4(), changes, turn);
    }
  }
  if (got && changes.size) files_->resized(object, *changes.size);
  co_return got;
}

// ---- files ----

namespace {

Result<Opened> opened(Result<OpenResult> from) {
  if (!from) return from.error();
  return Opened{std::make_shared<Nfs4File>(std::move(from->file)), std::move(from->object),
                std::move(from->directory), from->first};
}

}  // namespace

async::Task<Result<Opened>> Nfs4Engine::open(Caller caller, FileHandle file, std::string label, Access access,
                                             std::optional<Place> found_at) {
  auto got = co_await files_->open_handle(std::move(caller), file, std::move(label), share_access(access),
                                          std::move(found_at));
  co_return opened(std::move(got));
}

async::Task<Result<Opened>> Nfs4Engine::open_at(Caller caller, Spot directory, std::string name,
                                                Access access, std::optional<Creation> creation) {
  auto got =
      co_await files_->open_at(caller, std::move(directory), std::move(name), share_access(access), creation);
  const bool cuts_again = got && got->to_be_cut_again;
  auto out = opened(std::move(got));
  if (!cuts_again) co_return out;
  SetAttributes cut;
  cut.size = 0;
  const ServerFileRef by = access == Access::read ? nullptr : out->file;
  auto now = co_await set_attributes(std::move(caller), out->object.handle, cut, by);
  if (!now) co_return now.error();
  out->object.attributes = std::move(*now);
  co_return out;
}

async::Task<Result<Opened>> Nfs4Engine::open_and_read(Caller caller, FileHandle file, std::string label,
                                                      std::optional<Place> found_at,
                                                      std::span<std::byte> into) {
  auto got = co_await files_->open_handle(std::move(caller), file, std::move(label), OPEN4_SHARE_ACCESS_READ,
                                          std::move(found_at), into);
  co_return opened(std::move(got));
}

async::Task<Status> Nfs4Engine::close(ServerFileRef file) {
  return files_->close(ours(file).take_ref());
}

async::Task<Result<std::uint64_t>> Nfs4Engine::copy(ServerFileRef from, std::uint64_t from_offset,
                                                    ServerFileRef to, std::uint64_t to_offset,
                                                    std::uint64_t count) {
  auto copied =
      co_await OpenFile::clone_or_copy(*ours(from).file(), from_offset, *ours(to).file(), to_offset, count);
  if (!copied) co_return judged(copied.error());
  co_return copied;
}

// ---- many files at once: in NFSv4.0, whose owners keep their requests in order, one by one ----

async::Task<void> Nfs4Engine::read_many(Caller caller, std::vector<ManyRead*> items) {
  if (session_.version().batches_files) items = co_await small_files_.read(caller, std::move(items));
  if (!items.empty()) co_await Engine::read_many(std::move(caller), std::move(items));
}

async::Task<void> Nfs4Engine::write_many(Caller caller, std::vector<ManyWritten*> items) {
  if (session_.version().batches_files) items = co_await small_files_.write(caller, std::move(items));
  if (!items.empty()) co_await Engine::write_many(std::move(caller), std::move(items));
}

async::Task<void> Nfs4Engine::stat_many(Caller caller, std::vector<ManyTold*> items) {
  if (session_.version().batches_files) items = co_await small_files_.tell(caller, std::move(items));
  if (!items.empty()) co_await Engine::stat_many(std::move(caller), std::move(items));
}

// ---- what is known without asking ----

std::uint64_t Nfs4Engine::modifications(const FileHandle& object) const {
  return session_.modifications().of(object);
}

std::uint64_t Nfs4Engine::modifications_after_call(const FileHandle& object) const {
  return session_.modifications().after_call(object);
}

std::chrono::seconds Nfs4Engine::delegated_for() const {
  return std::chrono::seconds(session_.facts().lease_seconds);
}

std::uint64_t Nfs4Engine::max_size_for_deferred_close(const FileHandle& file) const {
  const auto open = files_->delegated(file);
  if (!open || !open->state().delegation()->writes) return 0;
  // No descriptor needs the file any more: it is being closed, and its delegation is returned with the CLOSE.
  if (open->needed() == 0 && open->state().parked == 0) return 0;
  return open->state().delegation()->most;
}

void Nfs4Engine::close_is_deferred(const ServerFileRef& file) {
  Nfs4File& closed = ours(file);
  const nfs_fh4& handle = closed.file()->handle();
  const auto open = files_->delegated(handle);
  if (!open) return;
  const stateid4& delegation = open->state().delegation()->stateid;
  closed.defer_close(open->state().record->deferred.permit_of(delegation, session_.epoch()));
}

void Nfs4Engine::on_delegation_end(std::function<void(const FileHandle&)> sink) {
  delegation_end_ = std::move(sink);
}

}  // namespace nfsrdma::nfs4
