#include <algorithm>
#include <cerrno>

#include "api/client_impl.h"

namespace nfsrdma::api {

FileImpl::FileImpl(ClientImpl& client, std::unique_ptr<nfs4::OpenFile> file)
    : client_(client), file_(std::move(file)) {
  const std::lock_guard lock(client_.mutex());
  client_.add(*this);
}

FileImpl::~FileImpl() {
  const std::lock_guard lock(client_.mutex());
  client_.remove(*this);
  // Destroying the tasks takes their buffers out of the server's reach.
  for (auto pending = std::exchange(pending_, {}); const auto& [key, task] : pending)
    client_.loop().drop(task);
  if (!client_.running()) client_.loop().end_turn();
  if (client_.connected()) (void)close();
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
  const std::lock_guard lock(client_.mutex());
  const ClientImpl::StartScope scope(client_);
  const std::uint64_t key = ++last_key_;
  const auto entry = pending_.emplace(key, 0).first;
  entry->second = client_.loop().spawn(make(key));  // it does not end in here: callback_time()
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

// ---- blocking: in pieces that the server takes ----

Result<std::size_t> FileImpl::read(std::span<std::byte> data, std::uint64_t offset) {
  std::size_t total = 0;
  while (total < data.size()) {
    const auto piece = data.subspan(total, std::min<std::size_t>(data.size() - total, client_.rsize()));
    auto count = client_.run<Result<std::size_t>>(file_->read(piece, offset + total));
    if (!count) return count.error();
    total += *count;
    if (*count < piece.size()) break;
  }
  return total;
}

Result<std::size_t> FileImpl::write(std::span<const std::byte> data, std::uint64_t offset) {
  std::size_t total = 0;
  while (total < data.size()) {
    const auto piece = data.subspan(total, std::min<std::size_t>(data.size() - total, client_.wsize()));
    auto count = client_.run<Result<std::size_t>>(file_->write(piece, offset + total));
    if (!count) return count.error();
    total += *count;
  }
  return total;
}

Status FileImpl::sync() {
  return client_.run<Status>(file_->commit());
}

Result<Attributes> FileImpl::attributes() {
  auto wire = client_.run<Result<nfs4::WireAttributes>>(file_->attributes(nfs4::public_attributes()));
  if (!wire) return wire.error();
  Attributes out = nfs4::to_public(*wire);
  client_.add_ids(std::span(&out, 1));
  return out;
}

Status FileImpl::set_attributes(const SetAttributes& changes) {
  return client_.run<Status>(file_->set_attributes(changes));
}

Result<std::optional<Extent>> FileImpl::next_extent(std::uint64_t offset) {
  return client_.run<Result<std::optional<Extent>>>(file_->next_extent(offset));
}

Status FileImpl::close() {
  return client_.run<Status>(file_->close());
}

}  // namespace nfsrdma::api
