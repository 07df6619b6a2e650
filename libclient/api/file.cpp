#include <algorithm>
#include <cerrno>

#include "api/client_impl.h"
#include "async/tasks.h"

namespace nfsrdma::api {

FileImpl::FileImpl(ClientImpl& client, std::shared_ptr<nfs4::OpenFile> file)
    : client_(client), file_(std::move(file)) {
  const Crew::Inside inside(client_.crew());
  client_.add(*this);
}

FileImpl::~FileImpl() {
  bool closes = false;
  {
    const Crew::Inside inside(client_.crew());
    client_.remove(*this);
    // Destroying the tasks takes their buffers out of the server's reach.
    for (auto pending = std::exchange(pending_, {}); const auto& [key, task] : pending)
      client_.loop().drop(task);
    if (!inside.nested()) client_.loop().end_turn();
    closes = client_.connected();
  }
  if (closes) (void)close();
  const Crew::Inside inside(client_.crew());
  file_.reset();
}

Error FileImpl::too_large(const char* what, std::size_t size, std::uint32_t most) const {
  return {ErrorKind::usage, EINVAL, what, file_->path(),
          std::to_string(size) + " bytes in one request; this server takes " + std::to_string(most) +
              " (Info::rsize, wsize)"};
}

// ---- asynchronous ----

async::Task<void> FileImpl::tell(std::uint64_t key, Result<std::size_t> result, Done done) {
  co_await client_.callback_time();
  pending_.erase(key);
  client_.count_callback();
  async::Loop& loop = client_.loop();
  done(std::move(result));  // may destroy this file
  loop.look_at_clock();
}

async::Task<void> FileImpl::read_beside(std::uint64_t key, std::span<std::byte> data, std::uint64_t offset,
                                        Done done) {
  auto result = co_await file_->read(data, offset);
  co_await tell(key, std::move(result), std::move(done));
}

async::Task<void> FileImpl::write_beside(std::uint64_t key, std::span<const std::byte> data,
                                         std::uint64_t offset, Done done) {
  auto result = co_await file_->write(data, offset);
  co_await tell(key, std::move(result), std::move(done));
}

template <class Make>
void FileImpl::start(Make make) {
  const Crew::Inside inside(client_.crew());
  const ClientImpl::StartScope scope(client_);
  const std::uint64_t key = ++last_key_;
  const auto entry = pending_.emplace(key, 0).first;
  entry->second = client_.loop().spawn(make(key));  // it does not end in here: callback_time()
  // Those who wait do not know that there is something to send.
  if (!inside.nested() && client_.crew().led()) client_.loop().end_turn();
}

void FileImpl::start_read(std::span<std::byte> data, std::uint64_t offset, Done done) {
  start([&](std::uint64_t key) {
    if (data.size() > client_.rsize()) {
      return tell(key, too_large("READ", data.size(), client_.rsize()), std::move(done));
    }
    return read_beside(key, data, offset, std::move(done));
  });
}

void FileImpl::start_write(std::span<const std::byte> data, std::uint64_t offset, Done done) {
  start([&](std::uint64_t key) {
    if (data.size() > client_.wsize()) {
      return tell(key, too_large("WRITE", data.size(), client_.wsize()), std::move(done));
    }
    return write_beside(key, data, offset, std::move(done));
  });
}

// ---- blocking: in pieces that the server takes, several of them in flight ----

/// Ends with the first piece that fails or that is short, when nothing is under way any more.
class FileImpl::Pieces {
 public:
  using Move = std::function<async::Task<Result<std::size_t>>(std::size_t begin, std::size_t size)>;

  /// As many as keep a server busy that is some milliseconds away.
  static constexpr std::size_t kInFlight = 8;

  Pieces(async::Loop& loop, std::size_t size, std::size_t most, Move move)
      : size_(size), most_(most), move_(std::move(move)), ended_(loop), tasks_(loop) {}

  /// Begins with so many; each piece that went whole brings one more.
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
      // The first of them counts: behind it nothing does.
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
  std::optional<Error> error_;  // at end_
  std::size_t running_ = 0;
  async::Event ended_;
  async::Tasks tasks_;  // the last: they use the others
};

async::Task<Result<std::size_t>> FileImpl::read_all(std::span<std::byte> data, std::uint64_t offset) {
  const auto file = file_;
  if (data.size() <= client_.rsize()) co_return co_await file->read(data, offset);
  Pieces pieces(client_.loop(), data.size(), client_.rsize(), [&](std::size_t begin, std::size_t size) {
    return file->read(data.subspan(begin, size), offset + begin);
  });
  co_return co_await pieces.run(1);  // a small file needs no more
}

async::Task<Result<std::size_t>> FileImpl::write_all(std::span<const std::byte> data, std::uint64_t offset) {
  const auto file = file_;
  if (data.size() <= client_.wsize()) co_return co_await file->write(data, offset);
  Pieces pieces(client_.loop(), data.size(), client_.wsize(), [&](std::size_t begin, std::size_t size) {
    return file->write(data.subspan(begin, size), offset + begin);
  });
  co_return co_await pieces.run(Pieces::kInFlight);
}

Result<std::size_t> FileImpl::read(std::span<std::byte> data, std::uint64_t offset) {
  return client_.run<Result<std::size_t>>([&] { return read_all(data, offset); });
}

Result<std::size_t> FileImpl::write(std::span<const std::byte> data, std::uint64_t offset) {
  return client_.run<Result<std::size_t>>([&] { return write_all(data, offset); });
}

Status FileImpl::sync() {
  return client_.run<Status>([&] { return file_->commit(); });
}

Result<Attributes> FileImpl::attributes() {
  auto wire =
      client_.run<Result<nfs4::WireAttributes>>([&] { return file_->attributes(nfs4::public_attributes()); });
  if (!wire) return wire.error();
  Attributes out = nfs4::to_public(*wire);
  client_.add_ids(std::span(&out, 1));
  return out;
}

Status FileImpl::set_attributes(const SetAttributes& changes) {
  return client_.run<Status>([&] { return file_->set_attributes(changes); });
}

Result<std::optional<Extent>> FileImpl::next_extent(std::uint64_t offset) {
  return client_.run<Result<std::optional<Extent>>>([&] { return file_->next_extent(offset); });
}

Status FileImpl::close() {
  return client_.run<Status>([&] { return file_->close(); });
}

}  // namespace nfsrdma::api
