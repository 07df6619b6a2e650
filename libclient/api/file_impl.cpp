#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "api/client_impl.h"
#include "async/tasks.h"
#include "locking/lock_wait.h"

namespace nfsrdma::api {
namespace {

constexpr engine::Access kAny{};  // allowed whatever the file was opened for

// ---- bodies of calls that exist in a blocking and in a started form ----

async::Task<Status> commit(engine::ServerFile& file) {
  return file.commit(nullptr);
}

async::Task<Result<File::Stretch>> read_stretch(engine::ServerFile& file, std::span<std::byte> data,
                                                std::uint64_t offset) {
  engine::ReportedHoles holes;
  auto count = co_await file.read_with_holes(data, offset, holes);
  if (!count) co_return count.error();
  co_return File::Stretch{*count, holes.any, holes.hole_ends};
}

auto allocating(std::uint64_t offset, std::uint64_t length) {
  return [offset, length](engine::ServerFile& file) { return file.allocate(offset, length); };
}

auto deallocating(std::uint64_t offset, std::uint64_t length) {
  return [offset, length](engine::ServerFile& file) { return file.deallocate(offset, length); };
}

}  // namespace

/// A READ on the fast path.
class FileImpl::Reading final : public engine::FastRead {
 public:
  explicit Reading(FileImpl& file) : file_(file) {}
  Done done;

 private:
  // Each of these two may destroy the file.
  void ended(std::size_t count) override {
    FileImpl& file = file_;
    file.tell_of_fast_read(count, file.give_back(*this));
  }
  void goes_on(async::Task<Result<std::size_t>> rest) override {
    FileImpl& file = file_;
    Done heard = file.give_back(*this);
    file.started_.start<Result<std::size_t>>([&] { return std::move(rest); }, std::move(heard));
  }
  FileImpl& file_;
};

/// The closing of a file, which continues when no caller waits for it any more.
struct FileImpl::Closing {
  explicit Closing(async::Loop& loop) : ended(loop) {}
  async::Event ended;
  std::optional<Status> outcome;
};

FileImpl::FileImpl(ClientImpl& client, engine::Opened opened, std::string path)
    : client_(client),
      file_(std::move(opened.file)),
      handle_(opened.object.handle),
      path_(std::move(path)),
      started_(client) {
  const Crew::Inside inside(client_.crew());
  client_.add(*this);
}

FileImpl::~FileImpl() {
  bool waits = false;
  {
    const Crew::Inside inside(client_.crew());
    client_.remove(*this);
    started_.drop();
    for (const auto& one : readings_.all()) one->drop();
    if (client_.connected()) begin_closing();
    waits = client_.connected() && !inside.nested();
    if (!inside.nested()) client_.loop().end_turn();
  }
  if (waits) (void)close();
  const Crew::Inside inside(client_.crew());
  file_.reset();
}

void FileImpl::operator delete(FileImpl* file, std::destroying_delete_t) {
  if (file->client_.is_inherited()) return file->started_.forget_refusals();
  file->~FileImpl();
  ::operator delete(file);
}

/// Returns an error if the range ends beyond 2^64 - 1, because offsets would wrap around to the begin of the
/// file.
std::optional<Error> FileImpl::too_far(std::size_t size, std::uint64_t offset) const {
  if (size <= std::numeric_limits<std::uint64_t>::max() - offset) return std::nullopt;
  return Error(ErrorKind::usage, EFBIG, "WRITE", path_,
               std::to_string(size) + " bytes at " + std::to_string(offset) +
                   " would end beyond the largest possible file size; write at a lower offset");
}

std::optional<Error> FileImpl::unusable(engine::Access access) const {
  if (is_closing()) return Error(ErrorKind::usage, EBADF, "", path_, "the file has been closed");
  const auto bits = [](engine::Access of) { return static_cast<unsigned>(of); };
  if ((bits(access) & ~bits(file_->access())) == 0) return std::nullopt;
  const bool reads = access == engine::Access::read;
  return Error(ErrorKind::usage, EBADF, reads ? "READ" : "WRITE", path_,
               reads ? "the file was opened for writing only" : "the file was opened for reading only");
}

template <class R, class Make>
async::Task<R> FileImpl::begin(engine::Access access, Make& make) {
  if (auto why = unusable(access)) return refused<R>(std::move(*why));
  return make(*file_);
}

/// Like ClientImpl::run(), for a call on the file. Holds on to the server's file until the call ends.
template <class R, class Make>
R FileImpl::run(engine::Access access, Make make) {
  engine::ServerFileRef file;
  return client_.run<R>([&] {
    file = file_;
    return begin<R>(access, make);
  });
}

/// Like run(), for a call that is only started. The destructor drops the call before the file goes.
template <class R, class Make>
void FileImpl::start(engine::Access access, Make make, std::function<void(R)> done) {
  started_.start<R>([&] { return begin<R>(access, make); }, std::move(done));
}

// ---- READs on the fast path ----

File::Done FileImpl::give_back(Reading& one) {
  readings_.give_back(one);
  return std::exchange(one.done, nullptr);
}

/// Returns true, and takes `done`, if the READ has begun on the fast path.
bool FileImpl::start_fast_read(std::span<std::byte> data, std::uint64_t offset, Done& done) {
  if (client_.is_inherited()) return false;
  const Crew::Inside inside(client_.crew());
  const ClientImpl::StartScope scope(client_);
  if (unusable(engine::Access::read) || data.size() > client_.rsize()) return false;
  Reading& one = readings_.take(*this);
  one.data = data;
  one.offset = offset;
  one.done = std::move(done);
  if (!file_->start(one)) {
    done = give_back(one);
    return false;
  }
  // Threads that wait do not know that there is something to send.
  if (!inside.nested() && client_.crew().led()) client_.loop().end_turn();
  return true;
}

void FileImpl::tell_of_fast_read(std::size_t count, Done done) {
  using Moved = Result<std::size_t>;
  if (client_.is_callback_time()) return client_.call_back<Moved>(done, count);
  const auto ended = [](std::size_t bytes) -> async::Task<Moved> { co_return bytes; };
  started_.start<Moved>([&] { return ended(count); }, std::move(done));
}

// ---- reading and writing, started ----

void FileImpl::start_read(std::span<std::byte> data, std::uint64_t offset, Done done) {
  if (start_fast_read(data, offset, done)) return;
  const auto read = [&](engine::ServerFile& file) {
    return data.size() <= client_.rsize() ? file.read(data, offset) : read_all(file, data, offset);
  };
  start<Result<std::size_t>>(engine::Access::read, read, std::move(done));
}

void FileImpl::start_read_with_holes(std::span<std::byte> data, std::uint64_t offset, Heard done) {
  const auto read = [&](engine::ServerFile& file) {
    return data.size() <= client_.rsize() ? read_stretch(file, data, offset)
                                          : read_stretches(file, data, offset);
  };
  start<Result<Stretch>>(engine::Access::read, read, std::move(done));
}

void FileImpl::start_write(std::span<const std::byte> data, std::uint64_t offset, Done done,
                           std::shared_ptr<const void> keeper, Stability stability) {
  const auto write = [&](engine::ServerFile& file) {
    return write_all(file, data, offset, stability, std::move(keeper));
  };
  start<Result<std::size_t>>(engine::Access::write, write, std::move(done));
}

// ---- transfers, split into pieces that the server accepts, several of them in flight ----

/// A transfer in pieces. It ends at the first piece that fails or is short, once no piece is in flight any
/// more.
class FileImpl::Pieces {
 public:
  using Move = std::function<async::Task<Result<std::size_t>>(std::size_t begin, std::size_t size)>;

  /// Enough pieces to keep a server busy that is some milliseconds away.
  static constexpr std::size_t kInFlight = 8;

  Pieces(async::Loop& loop, std::size_t size, std::size_t most, Move move)
      : size_(size), most_(most), move_(std::move(move)), ended_(loop), tasks_(loop) {}

  /// Makes a transfer. `move` may not refer to what the caller destroys before the transfer ends.
  static async::Task<Result<std::size_t>> all(async::Loop& loop, std::size_t size, std::size_t most,
                                              Move move, std::size_t at_first) {
    Pieces pieces(loop, size, most, std::move(move));
    co_return co_await pieces.run(at_first);
  }

  /// Starts with `at_first` pieces in flight; each piece that is moved whole starts one more, up to
  /// kInFlight.
  async::Task<Result<std::size_t>> run(std::size_t at_first) {
    while (running_ < at_first && next_ < end_) begin_one();
    while (running_ != 0) co_await ended_.wait_until(async::TimePoint::max());
    if (error_) co_return std::move(*error_);
    co_return end_;
  }

 private:
  void begin_one() {
    ++running_;
    tasks_.spawn(move_pieces());
  }
  async::Task<void> move_pieces() {
    while (next_ < end_) {
      const std::size_t begin = next_;
      const std::size_t size = std::min(most_, size_ - begin);
      next_ += size;
      auto moved = co_await move_(begin, size);
      // The lowest piece that failed or was short decides: pieces behind it do not count.
      const std::size_t done = moved ? *moved : 0;
      if (done == size && running_ < kInFlight && next_ < end_) begin_one();
      if (done == size || begin + done >= end_) continue;
      end_ = begin + done;
      error_.reset();
      if (!moved) error_.emplace(moved.error());
    }
    if (--running_ == 0) ended_.notify_all();
  }

  const std::size_t size_, most_;
  const Move move_;
  std::size_t next_ = 0, end_ = size_;
  std::optional<Error> error_;  // the error of the piece that ends at end_
  std::size_t running_ = 0;
  async::Event ended_;
  async::Tasks tasks_;  // last, because the tasks use the members above
};

async::Task<Result<std::size_t>> FileImpl::read_all(engine::ServerFile& file, std::span<std::byte> data,
                                                    std::uint64_t offset) {
  if (data.size() <= client_.rsize()) {
    auto fast = co_await engine::FastReadWait(file, data, offset);
    if (!fast.rest) co_return fast.count;
    co_return co_await std::move(*fast.rest);
  }
  Pieces pieces(client_.loop(), data.size(), client_.rsize(), [&](std::size_t begin, std::size_t size) {
    return file.read(data.subspan(begin, size), offset + begin);
  });
  co_return co_await pieces.run(1);  // one in flight at first, because a small file needs no more
}

namespace {
/// Reads one piece, and says in `out` what is known of its holes.
async::Task<Result<std::size_t>> read_piece(engine::ServerFile& file, std::span<std::byte> data,
                                            std::uint64_t offset, File::Stretch& out) {
  auto read = co_await read_stretch(file, data, offset);
  if (!read) co_return read.error();
  out = *read;
  co_return read->count;
}
}  // namespace

async::Task<Result<File::Stretch>> FileImpl::read_stretches(engine::ServerFile& file,
                                                            std::span<std::byte> data, std::uint64_t offset) {
  const std::size_t most = client_.rsize();
  std::vector<Stretch> read((data.size() - 1) / most + 1);
  Pieces pieces(client_.loop(), data.size(), most, [&](std::size_t begin, std::size_t size) {
    return read_piece(file, data.subspan(begin, size), offset + begin, read[begin / most]);
  });
  auto count = co_await pieces.run(1);
  if (!count) co_return count.error();
  Stretch out{*count, false, 0};
  if (*count == 0) co_return out;
  read.resize((*count - 1) / most + 1);  // what lies behind the end does not count
  out.has_holes = std::ranges::any_of(read, &Stretch::has_holes);
  out.hole_ends = read.back().hole_ends;
  co_return out;
}

async::Task<Result<std::size_t>> FileImpl::write_all(engine::ServerFile& file,
                                                     std::span<const std::byte> data, std::uint64_t offset,
                                                     Stability stability,
                                                     std::shared_ptr<const void> keeper) {
  if (auto far = too_far(data.size(), offset)) return refused<Result<std::size_t>>(std::move(*far));
  const auto write = [&file, data, offset, stability, keeper = std::move(keeper)](std::size_t begin,
                                                                                  std::size_t size) {
    const std::span<const std::byte> piece = data.subspan(begin, size);
    async::Memory memory;
    if (keeper != nullptr) {
      auto* const at = const_cast<std::byte*>(piece.data());  // NOLINT: nobody writes to it
      memory.data = {std::const_pointer_cast<void>(keeper), at};
      memory.size = size;
    }
    return file.write(piece, std::move(memory), offset + begin, stability, nullptr);
  };
  if (data.size() <= client_.wsize()) return write(0, data.size());
  return Pieces::all(client_.loop(), data.size(), client_.wsize(), write, Pieces::kInFlight);
}

Result<std::size_t> FileImpl::read(std::span<std::byte> data, std::uint64_t offset) {
  return run<Result<std::size_t>>(engine::Access::read,
                                  [&](engine::ServerFile& file) { return read_all(file, data, offset); });
}

Result<std::size_t> FileImpl::write(std::span<const std::byte> data, std::uint64_t offset,
                                    Stability stability) {
  return run<Result<std::size_t>>(engine::Access::write, [&](engine::ServerFile& file) {
    return write_all(file, data, offset, stability, nullptr);
  });
}

// ---- attributes, extents, space, copies ----

async::Task<Result<std::optional<Extent>>> FileImpl::find_extent(engine::ServerFile& file,
                                                                 std::uint64_t offset) {
  const auto explained = [this](const Error& error) {
    if (error.errno_value() != EOPNOTSUPP) return error;
    return Error(ErrorKind::server, ENOTSUP, "SEEK", path_,
                 "the server cannot report where holes are; transfer the file without -p");
  };
  auto now = co_await file.attributes();
  if (!now) co_return now.error();
  if (offset >= now->size) co_return std::optional<Extent>();
  auto data = co_await file.seek(offset, false);
  if (!data) co_return explained(data.error());
  if (!*data || **data > offset) {
    const std::uint64_t end = *data ? std::min(**data, now->size) : now->size;
    co_return Extent{offset, end - offset, true};
  }
  auto hole = co_await file.seek(offset, true);
  if (!hole) co_return explained(hole.error());
  const std::uint64_t end = *hole && **hole > offset ? std::min(**hole, now->size) : now->size;
  co_return Extent{offset, end - offset, false};
}

Status FileImpl::sync() {
  return run<Status>(kAny, &commit);
}

void FileImpl::start_sync(Ended done) {
  start<Status>(kAny, &commit, std::move(done));
}

async::Task<Result<Attributes>> FileImpl::read_attributes(engine::ServerFile& file) {
  return ClientImpl::with_ids(client_.loop(), file.attributes());
}

Result<Attributes> FileImpl::attributes() {
  return run<Result<Attributes>>(kAny, [this](engine::ServerFile& file) { return read_attributes(file); });
}

void FileImpl::start_attributes(Told done) {
  const auto read = [this](engine::ServerFile& file) { return read_attributes(file); };
  start<Result<Attributes>>(kAny, read, std::move(done));
}

Status FileImpl::set_attributes(const SetAttributes& changes) {
  auto set = run<Result<Attributes>>(kAny, [&](engine::ServerFile& file) {
    const bool writes = file.access() != engine::Access::read;
    return client_.engine().set_attributes(nullptr, handle_, changes, writes ? file_ : nullptr);
  });
  if (!set) return set.error();
  return {};
}

Result<std::optional<Extent>> FileImpl::next_extent(std::uint64_t offset) {
  return run<Result<std::optional<Extent>>>(
      kAny, [&](engine::ServerFile& file) { return find_extent(file, offset); });
}

Result<std::optional<std::uint64_t>> FileImpl::seek(std::uint64_t offset, bool hole) {
  return run<Result<std::optional<std::uint64_t>>>(
      kAny, [&](engine::ServerFile& file) { return file.seek(offset, hole); });
}

Status FileImpl::allocate(std::uint64_t offset, std::uint64_t length) {
  return run<Status>(engine::Access::write, allocating(offset, length));
}

void FileImpl::start_allocate(std::uint64_t offset, std::uint64_t length, Ended done) {
  start<Status>(engine::Access::write, allocating(offset, length), std::move(done));
}

Status FileImpl::deallocate(std::uint64_t offset, std::uint64_t length) {
  return run<Status>(engine::Access::write, deallocating(offset, length));
}

void FileImpl::start_deallocate(std::uint64_t offset, std::uint64_t length, Ended done) {
  start<Status>(engine::Access::write, deallocating(offset, length), std::move(done));
}

Result<std::uint64_t> FileImpl::copy_from(File& source, std::uint64_t source_offset, std::uint64_t offset,
                                          std::uint64_t count) {
  auto* from = dynamic_cast<FileImpl*>(&source);
  if (from == nullptr || &from->client_ != &client_) {
    return Error(ErrorKind::usage, EXDEV, "COPY", path_,
                 "the source file belongs to another Client; open both with the same one");
  }
  engine::ServerFileRef kept;
  return run<Result<std::uint64_t>>(engine::Access::write, [&](engine::ServerFile& /*file*/) {
    if (auto why = from->unusable(engine::Access::read)) {
      return refused<Result<std::uint64_t>>(std::move(*why));
    }
    kept = from->file_;
    return client_.engine().copy(kept, source_offset, file_, offset, count);
  });
}

// ---- locks ----

Result<std::optional<LockHolder>> FileImpl::test_lock(const LockRequest& request) {
  return run<Result<std::optional<LockHolder>>>(
      kAny, [&](engine::ServerFile& file) { return file.test_lock(request); });
}

async::Task<Status> FileImpl::lock_task(engine::ServerFile& file, LockRequest request,
                                        std::chrono::milliseconds most) {
  const Error taken(ErrorKind::server, EAGAIN, "LOCK", path_,
                    "a conflicting lock is held by another process or client");
  if (most <= std::chrono::milliseconds(0)) {
    auto holder = co_await file.lock(request);
    if (!holder) co_return holder.error();
    if (*holder) co_return taken;
    co_return Status();
  }
  async::Loop& loop = client_.loop();
  const auto wait = std::make_shared<locking::LockWait>(loop);
  const auto timer = loop.at(client_.later(most), [wait] { wait->cancel(); });
  auto done = co_await file.wait_for_lock(request, wait);
  loop.cancel(timer);
  const bool late = !done && done.error().kind() == ErrorKind::cancelled && wait->cancelled();
  if (late) co_return taken;
  co_return done;
}

Status FileImpl::lock(const LockRequest& request, std::chrono::milliseconds most) {
  return run<Status>(kAny, [&](engine::ServerFile& file) { return lock_task(file, request, most); });
}

/// Releases the range. If the range is the whole file, the engine and the server forget the owner, too.
async::Task<Status> FileImpl::unlock_task(engine::ServerFile& file, std::uint64_t owner, LockRange range) {
  if (!file.knows_owner(owner)) co_return Status();
  // The data is committed before the lock goes: what a restart of the server loses is written again, and by
  // then somebody else may hold the lock.
  Status safe;
  if (file.has_unstable_data()) safe = co_await file.commit(nullptr);
  auto unlocking = range == LockRange() ? file.release_locks(owner) : file.unlock(owner, range);
  auto done = co_await std::move(unlocking);
  co_return safe ? done : safe;
}

Status FileImpl::unlock(std::uint64_t owner, const LockRange& range) {
  return run<Status>(kAny, [&](engine::ServerFile& file) { return unlock_task(file, owner, range); });
}

// ---- the end ----

async::Task<void> FileImpl::close_file(engine::Engine& engine, engine::ServerFileRef file,
                                       std::shared_ptr<Closing> closing, async::Use /*counted*/) {
  auto synced = co_await file->commit(nullptr);
  auto done = co_await engine.close(file);
  closing->outcome = synced ? done : synced;
  closing->ended.notify_all();
}

void FileImpl::begin_closing() {
  if (is_closing()) return;
  closing_ = std::make_shared<Closing>(client_.loop());
  client_.loop().spawn(close_file(client_.engine(), file_, closing_, client_.closes_file()));
}

/// Waits for the end of the closing. Only the first caller to arrive here receives its error.
async::Task<Status> FileImpl::closed(std::shared_ptr<Closing> closing) {
  while (!closing->outcome) (void)co_await closing->ended.wait_until(async::TimePoint::max());
  co_return std::exchange(*closing->outcome, Status());
}

async::Task<Status> FileImpl::end() {
  begin_closing();
  return closed(closing_);
}

Status FileImpl::close() {
  return client_.run<Status>([this] { return end(); });
}

void FileImpl::start_close(Ended done) {
  started_.start<Status>([this] { return end(); }, std::move(done));
}

}  // namespace nfsrdma::api
