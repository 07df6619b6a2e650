#include "api/file_core.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>

#include "api/names.h"
#include "api/reading.h"
#include "async/tasks.h"
#include "locking/lock_wait.h"

namespace nfsrdma::api {

/// The closing of a file, which continues when no caller waits for it any more.
struct FileCore::Closing {
  explicit Closing(async::Loop& loop) : ended(loop) {}
  async::Event ended;
  std::optional<Status> outcome;
};

FileCore::FileCore(ClientCore& client, engine::Opened opened, std::string path)
    : client_(client),
      file_(std::move(opened.file)),
      handle_(opened.object.handle),
      path_(std::make_shared<const std::string>(std::move(path))) {
  const Crew::Inside inside(client_.crew());
  client_.add(*this);
}

FileCore::~FileCore() {
  bool waits = false;
  {
    const Crew::Inside inside(client_.crew());
    client_.remove(*this);
    calls_.cancel_all({ErrorKind::cancelled, ECANCELED, "", *path_, "the file was freed"});
    waits = client_.connected() && !is_closing() && !inside.nested();
    if (client_.connected()) begin_closing();
    if (!inside.nested()) client_.loop().end_turn();
  }
  if (waits) (void)client_.run<Status>({}, [this] { return end(); });
  const Crew::Inside inside(client_.crew());
  file_.reset();
}

/// Returns an error if the range ends beyond 2^64 - 1, because offsets would wrap around to the begin of the
/// file.
std::optional<Error> FileCore::too_far(std::size_t size, std::uint64_t offset) const {
  if (size <= std::numeric_limits<std::uint64_t>::max() - offset) return std::nullopt;
  return Error(ErrorKind::usage, EFBIG, "WRITE", *path_,
               std::to_string(size) + " bytes at " + std::to_string(offset) +
                   " would end beyond the largest possible file size; write at a lower offset");
}

bool FileCore::is_usable(engine::Access access) const {
  const auto bits = [](engine::Access of) { return static_cast<unsigned>(of); };
  return client_.connected() && !is_closing() && (bits(access) & ~bits(file_->access())) == 0;
}

Error FileCore::unusable(engine::Access access) const {
  if (!client_.connected()) return client_.disconnected();
  if (is_closing()) return {ErrorKind::usage, EBADF, "", *path_, "the file has been closed"};
  const bool reads = access == engine::Access::read;
  return {ErrorKind::usage, EBADF, reads ? "READ" : "WRITE", *path_,
          reads ? "the file was opened for writing only" : "the file was opened for reading only"};
}

// ---- reading and writing ----

std::int64_t FileCore::read(std::span<std::byte> data, std::uint64_t offset, const How& how,
                            nfsrdma_error** error) {
  const auto read = [&](engine::ServerFile& file) { return read_all(file, data, offset); };
  const auto count = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes); };
  if (Shards* const shards = client_.shards();
      shards != nullptr && how.blocks() && data.size() <= client_.rsize()) {
    How rest = how;
    const auto done = shards->read(*this, data, offset, rest);
    if (done) return *done ? count(**done) : fail(error, client_.on_its_path(done->error(), how));
    return call<Result<std::size_t>>(engine::Access::read, rest, error, read, count);
  }
  if (how.blocks() || client_.is_inherited())
    return call<Result<std::size_t>>(engine::Access::read, how, error, read, count);
  const Crew::Inside inside(client_.crew());
  if (client_.is_freed()) return fail(error, client_.freed());
  Reading& one = client_.readings().take(client_);
  one.data = data;
  one.offset = offset;
  try {
    client_.begin(one, calls_, how);
    if (!is_usable(engine::Access::read)) {
      one.cancel(unusable(engine::Access::read));
    } else if (data.size() > client_.rsize() || !file_->start(one)) {
      one.go_on(data.size() <= client_.rsize() ? file_->read(data, offset) : read_all(*file_, data, offset));
    }
  } catch (...) {
    one.cancel(from_exception());
  }
  client_.begun(one, inside.nested());
  return 0;
}

// ---- transfers, split into pieces that the server accepts, several of them in flight ----

/// A transfer in pieces. It ends at the first piece that fails or is short, once no piece is in flight any
/// more.
class FileCore::Pieces {
 public:
  using Move = std::function<async::Task<Result<std::size_t>>(std::size_t begin, std::size_t size)>;
  /// Returns the size of the piece that begins there; not 0.
  using Cut = std::function<std::size_t(std::size_t begin)>;

  /// Enough pieces to keep a server busy that is some milliseconds away.
  static constexpr std::size_t kInFlight = 8;

  Pieces(async::Loop& loop, std::size_t size, Cut cut, Move move)
      : size_(size), cut_(std::move(cut)), move_(std::move(move)), ended_(loop), tasks_(loop) {}

  /// Cuts pieces of `most` bytes; the last one may be smaller.
  static Cut by(std::size_t most, std::size_t size) {
    return [most, size](std::size_t begin) { return std::min(most, size - begin); };
  }
  /// Makes a transfer. `move` and `cut` may not refer to what the caller destroys before the transfer ends.
  static async::Task<Result<std::size_t>> all(async::Loop& loop, std::size_t size, Cut cut, Move move,
                                              std::size_t at_first) {
    Pieces pieces(loop, size, std::move(cut), std::move(move));
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
      const std::size_t size = cut_(begin);
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

  const std::size_t size_;
  const Cut cut_;
  const Move move_;
  std::size_t next_ = 0, end_ = size_;
  std::optional<Error> error_;  // the error of the piece that ends at end_
  std::size_t running_ = 0;
  async::Event ended_;
  async::Tasks tasks_;  // last, because the tasks use the members above
};

async::Task<Result<std::size_t>> FileCore::read_all(engine::ServerFile& file, std::span<std::byte> data,
                                                    std::uint64_t offset) {
  if (data.size() <= client_.rsize()) {
    auto fast = co_await engine::FastReadWait(file, data, offset);
    if (!fast.rest) co_return fast.count;
    co_return co_await std::move(*fast.rest);
  }
  const auto read = [&](std::size_t begin, std::size_t size) {
    return file.read(data.subspan(begin, size), offset + begin);
  };
  Pieces pieces(client_.loop(), data.size(), Pieces::by(client_.rsize(), data.size()), read);
  co_return co_await pieces.run(1);  // one in flight at first, because a small file needs no more
}

namespace {

async::Task<Result<FileCore::Stretch>> read_stretch(engine::ServerFile& file, std::span<std::byte> data,
                                                    std::uint64_t offset) {
  engine::ReportedHoles holes;
  auto count = co_await file.read_with_holes(data, offset, holes);
  if (!count) co_return count.error();
  co_return FileCore::Stretch{*count, holes.any, holes.hole_ends};
}

/// Reads one piece, and says in `out` what is known of its holes.
async::Task<Result<std::size_t>> read_piece(engine::ServerFile& file, std::span<std::byte> data,
                                            std::uint64_t offset, FileCore::Stretch& out) {
  auto read = co_await read_stretch(file, data, offset);
  if (!read) co_return read.error();
  out = *read;
  co_return read->count;
}

}  // namespace

async::Task<Result<FileCore::Stretch>> FileCore::read_stretches(engine::ServerFile& file,
                                                                std::span<std::byte> data,
                                                                std::uint64_t offset) {
  const std::size_t most = client_.rsize();
  if (data.size() <= most) co_return co_await read_stretch(file, data, offset);
  // Grows with the pieces that are begun, because `data` may be far larger than the file. A deque, because the
  // pieces in flight refer to its elements.
  std::deque<Stretch> read;
  const auto move = [&](std::size_t begin, std::size_t size) {
    return read_piece(file, data.subspan(begin, size), offset + begin, read.emplace_back());
  };
  Pieces pieces(client_.loop(), data.size(), Pieces::by(most, data.size()), move);
  auto count = co_await pieces.run(1);
  if (!count) co_return count.error();
  Stretch out{*count, false, 0};
  if (*count == 0) co_return out;
  read.resize((*count - 1) / most + 1);  // what lies behind the end does not count
  out.has_holes = std::ranges::any_of(read, &Stretch::has_holes);
  out.hole_ends = read.back().hole_ends;
  co_return out;
}

namespace {

/// Makes a WRITE of memory that `keeper` keeps valid; without a keeper the engine makes a copy.
async::Task<Result<std::size_t>> write_piece(engine::ServerFile& file, std::span<const std::byte> piece,
                                             std::uint64_t offset, Stability stability,
                                             const std::shared_ptr<const void>& keeper) {
  async::Memory memory;
  if (keeper != nullptr) {
    auto* const at = const_cast<std::byte*>(piece.data());  // NOLINT: nobody writes to it
    memory.data = {std::const_pointer_cast<void>(keeper), at};
    memory.size = piece.size();
  }
  return file.write(piece, std::move(memory), offset, stability, nullptr);
}

}  // namespace

async::Task<Result<std::size_t>> FileCore::write_all(engine::ServerFile& file,
                                                     std::span<const std::byte> data, std::uint64_t offset,
                                                     Stability stability,
                                                     std::shared_ptr<const void> keeper) {
  if (auto far = too_far(data.size(), offset)) return refused<Result<std::size_t>>(std::move(*far));
  const auto write = [&file, data, offset, stability, keeper = std::move(keeper)](std::size_t begin,
                                                                                  std::size_t size) {
    return write_piece(file, data.subspan(begin, size), offset + begin, stability, keeper);
  };
  if (data.size() <= client_.wsize()) return write(0, data.size());
  return Pieces::all(client_.loop(), data.size(), Pieces::by(client_.wsize(), data.size()), write,
                     Pieces::kInFlight);
}

// ---- vectored transfers ----

namespace {

/// The parts of a vectored transfer, one after the other. A large part is transferred from or to its own
/// memory; small parts that follow each other share one READ or WRITE and go through a buffer.
class Gathered {
 public:
  explicit Gathered(Parts parts) : parts_(std::move(parts)) {
    ends_.reserve(parts_.size());
    for (const auto& part : parts_) ends_.push_back(size_ += part.size());
  }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Returns the size of the piece that begins there.
  [[nodiscard]] std::size_t cut(std::size_t begin, std::size_t most) const {
    std::size_t at = part_of(begin);
    if (ends_[at] - begin >= kWorthItsOwn) return std::min(most, ends_[at] - begin);
    std::size_t end = begin;
    for (; at < parts_.size() && ends_[at] - end < kWorthItsOwn && end - begin < most; ++at) end = ends_[at];
    return std::min(most, end - begin);
  }
  /// Returns the memory of the piece, if it is within one part.
  [[nodiscard]] std::span<std::byte> own(std::size_t begin, std::size_t size) const {
    const std::size_t at = part_of(begin);
    if (begin + size > ends_[at]) return {};
    return parts_[at].subspan(begin - (ends_[at] - parts_[at].size()), size);
  }
  /// Calls `copy(memory, from)` for each stretch of memory of the piece; `from`: its place in the piece.
  template <class Copy>
  void each(std::size_t begin, std::size_t size, Copy copy) const {
    for (std::size_t done = 0; done < size;) {
      const std::size_t at = part_of(begin + done);
      const std::size_t count = std::min(size - done, ends_[at] - begin - done);
      copy(own(begin + done, count), done);
      done += count;
    }
  }

 private:
  /// Parts of this size have a READ or WRITE of their own: copying them would cost more than a call.
  static constexpr std::size_t kWorthItsOwn = 32U << 10;
  [[nodiscard]] std::size_t part_of(std::size_t begin) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  }
  const Parts parts_;
  std::vector<std::size_t> ends_;
  std::size_t size_ = 0;
};

async::Task<Result<std::size_t>> read_gathered(engine::ServerFile& file, const Gathered& all,
                                               std::size_t begin, std::size_t size, std::uint64_t offset) {
  const auto own = all.own(begin, size);
  if (!own.empty()) co_return co_await file.read(own, offset + begin);
  std::vector<std::byte> buffer(size);
  auto count = co_await file.read(buffer, offset + begin);
  if (!count) co_return count;
  all.each(begin, *count, [&](std::span<std::byte> memory, std::size_t from) {
    std::memcpy(memory.data(), buffer.data() + from, memory.size());
  });
  co_return count;
}

async::Task<Result<std::size_t>> write_gathered(engine::ServerFile& file, const Gathered& all,
                                                std::size_t begin, std::size_t size, std::uint64_t offset,
                                                Stability stability) {
  const auto own = all.own(begin, size);
  if (!own.empty()) co_return co_await write_piece(file, own, offset + begin, stability, nullptr);
  const auto buffer = std::make_shared<std::vector<std::byte>>(size);
  all.each(begin, size, [&](std::span<std::byte> memory, std::size_t from) {
    std::memcpy(buffer->data() + from, memory.data(), memory.size());
  });
  co_return co_await write_piece(file, *buffer, offset + begin, stability, buffer);
}

}  // namespace

async::Task<Result<std::size_t>> FileCore::read_parts(engine::ServerFile& file, Parts parts,
                                                      std::uint64_t offset) {
  const Gathered all(std::move(parts));
  if (all.size() == 0) co_return std::size_t{0};
  const auto cut = [&](std::size_t begin) { return all.cut(begin, client_.rsize()); };
  const auto read = [&](std::size_t begin, std::size_t size) {
    return read_gathered(file, all, begin, size, offset);
  };
  Pieces pieces(client_.loop(), all.size(), cut, read);
  co_return co_await pieces.run(1);
}

async::Task<Result<std::size_t>> FileCore::write_parts(engine::ServerFile& file, Parts parts,
                                                       std::uint64_t offset, Stability stability) {
  const Gathered all(std::move(parts));
  if (auto far = too_far(all.size(), offset)) co_return *far;
  if (all.size() == 0) co_return std::size_t{0};
  const auto cut = [&](std::size_t begin) { return all.cut(begin, client_.wsize()); };
  const auto write = [&](std::size_t begin, std::size_t size) {
    return write_gathered(file, all, begin, size, offset, stability);
  };
  Pieces pieces(client_.loop(), all.size(), cut, write);
  co_return co_await pieces.run(Pieces::kInFlight);
}

// ---- attributes, extents, space, copies ----

async::Task<Result<std::optional<Extent>>> FileCore::find_extent(engine::ServerFile& file,
                                                                 std::uint64_t offset) {
  const auto explained = [this](const Error& error) {
    if (error.errno_value() != EOPNOTSUPP) return error;
    return Error(ErrorKind::server, ENOTSUP, "SEEK", *path_,
                 "the server cannot report where holes are; transfer the file as a whole");
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

async::Task<Result<Attributes>> FileCore::read_attributes(engine::ServerFile& file) {
  return with_ids(client_.loop(), file.attributes());
}

async::Task<Result<Attributes>> FileCore::set_attributes(engine::ServerFile& file,
                                                         const SetAttributes& changes) {
  const bool writes = file.access() != engine::Access::read;
  return client_.engine().set_attributes(nullptr, handle_, changes, writes ? file_ : nullptr);
}

async::Task<Result<std::uint64_t>> FileCore::copy_from(FileCore& source, std::uint64_t source_offset,
                                                       std::uint64_t offset, std::uint64_t count) {
  using Copied = Result<std::uint64_t>;
  if (&source.client_ != &client_) {
    return refused<Copied>({ErrorKind::usage, EXDEV, "COPY", *path_,
                            "the source file belongs to another client; open both with the same one"});
  }
  if (!source.is_usable(engine::Access::read)) return refused<Copied>(source.unusable(engine::Access::read));
  return client_.engine().copy(source.file_, source_offset, file_, offset, count);
}

// ---- locks ----

namespace {

/// Ends a wait for a lock at a certain time. If the task that waits is destroyed, its timer goes with it;
/// otherwise each cancelled call would leave a timer behind, for as long as it would have waited.
class LockTimer {
 public:
  LockTimer(async::Loop& loop, async::TimePoint when, locking::LockWait& wait)
      : loop_(loop), timer_(loop.at(when, [&wait] { wait.cancel(); })) {}
  ~LockTimer() { loop_.cancel(timer_); }
  LockTimer(const LockTimer&) = delete;
  LockTimer& operator=(const LockTimer&) = delete;

 private:
  async::Loop& loop_;
  const async::Loop::TimerId timer_;
};

}  // namespace

async::Task<Status> FileCore::lock(engine::ServerFile& file, LockRequest request,
                                   std::chrono::milliseconds most) {
  const Error taken(ErrorKind::server, EAGAIN, "LOCK", *path_,
                    "a conflicting lock is held by another process or client");
  if (most <= std::chrono::milliseconds(0)) {
    auto holder = co_await file.lock(request);
    if (!holder) co_return holder.error();
    if (*holder) co_return taken;
    co_return Status();
  }
  async::Loop& loop = client_.loop();
  const auto wait = std::make_shared<locking::LockWait>(loop);
  const LockTimer timer(loop, client_.later(most), *wait);
  auto done = co_await file.wait_for_lock(request, wait);
  const bool late = !done && done.error().kind() == ErrorKind::cancelled && wait->cancelled();
  if (late) co_return taken;
  co_return done;
}

/// Releases the range. If the range is the whole file, the engine and the server forget the owner, too.
async::Task<Status> FileCore::unlock(engine::ServerFile& file, std::uint64_t owner, LockRange range) {
  if (!file.knows_owner(owner)) co_return Status();
  // The data is committed before the lock goes: what a restart of the server loses is written again, and by
  // then somebody else may hold the lock.
  Status safe;
  if (file.has_unstable_data()) safe = co_await file.commit(nullptr);
  auto unlocking = range == LockRange() ? file.release_locks(owner) : file.unlock(owner, range);
  auto done = co_await std::move(unlocking);
  co_return safe ? done : safe;
}

// ---- the end ----

async::Task<void> FileCore::close_file(engine::Engine& engine, engine::ServerFileRef file,
                                       std::shared_ptr<Closing> closing, async::Use /*counted*/) {
  auto synced = co_await file->commit(nullptr);
  auto done = co_await engine.close(file);
  closing->outcome = synced ? done : synced;
  closing->ended.notify_all();
}

void FileCore::begin_closing() {
  if (is_closing()) return;
  closing_ = std::make_shared<Closing>(client_.loop());
  client_.loop().spawn(close_file(client_.engine(), file_, closing_, client_.closes_file()));
}

/// Waits for the end of the closing. Only the first caller to arrive here receives its error.
async::Task<Status> FileCore::closed(std::shared_ptr<Closing> closing) {
  while (!closing->outcome) (void)co_await closing->ended.wait_until(async::TimePoint::max());
  co_return std::exchange(*closing->outcome, Status());
}

async::Task<Status> FileCore::end() {
  begin_closing();
  return closed(closing_);
}

}  // namespace nfsrdma::api
