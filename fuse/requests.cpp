#include "fuse/requests.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "fuse/thread_fate.h"

namespace nfsrdma::fuse {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);

/// Inode numbers start anew in each mount, and a process has one mount. A handle that name_to_handle_at(2)
/// gave in another mount must not lead to a file of this one.
std::uint64_t mount_generation() {
  static const std::uint64_t once = std::random_device()() | 1U;
  return once;
}

std::vector<char> joined(const fs::ReadData& data) {
  std::vector<char> out;
  out.reserve(data.size);
  for (const iovec& piece : data.pieces) {
    const char* const from = static_cast<const char*>(piece.iov_base);
    out.insert(out.end(), from, from + piece.iov_len);
  }
  return out;
}

}  // namespace

fuse_entry_param to_entry(const fs::Entry& from) {
  fuse_entry_param out{};
  out.ino = from.inode;
  // The kernel assumes that the root has generation 0.
  out.generation = from.inode == fs::Inodes::kRoot ? 0 : mount_generation();
  if (from.inode != 0) out.attr = to_stat(from.attributes);
  out.attr_timeout = from.attributes_valid.count();
  out.entry_timeout = from.name_valid.count();
  return out;
}

std::shared_ptr<Request> Request::begin(async::Loop& loop, RequestCounters& counters, fuse_req_t request) {
  return std::make_shared<Request>(Key(), loop, counters, request);
}

/// libfuse calls the function only while it reads a request, and never after the answer, which frees the
/// libfuse request.
void Request::await_interrupts() {
  if (request_ == nullptr) return;
  fuse_req_interrupt_func(
      request_, [](fuse_req_t, void* self) { static_cast<Request*>(self)->interrupt(); }, this);
}

Request::~Request() {
  code(EIO);  // the task that had the request was dropped, because the mount is ending
}

fuse_req_t Request::take(bool refused) {
  if (request_ == nullptr) return nullptr;
  counters_.answered(ticket_, refused, loop_.now());
  if (timer_ != 0) loop_.cancel(std::exchange(timer_, 0));
  wait_ = nullptr;
  return std::exchange(request_, nullptr);
}

fuse_req_t Request::hand_out() {
  fuse_req_t r = take();
  // libfuse may read an interrupt of the request before the other thread has answered it.
  if (r != nullptr) fuse_req_interrupt_func(r, nullptr, nullptr);
  return r;
}

/// Called by libfuse with its lock on the request held, so nothing may be answered in here.
void Request::interrupt() {
  if (!interrupted_at_) interrupted_at_ = loop_.now();
  if (wait_) wait_->cancel();
  if (timer_ == 0) look_in({});
}

void Request::set_wait(std::shared_ptr<locking::LockWait> wait) {
  wait_ = std::move(wait);
  if (interrupted_at_) wait_->cancel();
}

void Request::look_in(async::Clock::duration time) {
  if (timer_ != 0) loop_.cancel(timer_);
  timer_ = loop_.at(loop_.now() + time, [self = weak_from_this()] {
    const auto request = self.lock();
    if (!request) return;
    request->timer_ = 0;
    request->look();
  });
}

void Request::look() {
  const Fate fate = fate_of(thread_);
  const bool long_ago = interrupted_at_ && loop_.now() - *interrupted_at_ >= kGrace;
  if (fate == Fate::ends || (fate == Fate::unknown && long_ago)) return code(EINTR);
  // If the thread cannot be seen, and no signal has reached it, it is not looked at again.
  if (fate == Fate::goes_on || interrupted_at_) look_in(kLook);
}

void Request::code(int errno_value) {
  if (fuse_req_t r = take(errno_value != 0)) fuse_reply_err(r, errno_value);
}
void Request::error(const Error& error) {
  code(error.kind() == ErrorKind::timeout ? ETIMEDOUT : error.errno_value() != 0 ? error.errno_value() : EIO);
}
bool Request::entry(const fs::Entry& entry) {
  fuse_req_t r = take();
  if (r == nullptr) return false;
  const fuse_entry_param param = to_entry(entry);
  return fuse_reply_entry(r, &param) == 0;
}
void Request::attributes(const fs::Attributed& attributes) {
  fuse_req_t r = take();
  if (r == nullptr) return;
  const struct stat attr = to_stat(attributes.attributes);
  fuse_reply_attr(r, &attr, attributes.valid.count());
}
bool Request::opened(const fuse_file_info& info) {
  fuse_req_t r = take();
  return r != nullptr && fuse_reply_open(r, &info) == 0;
}
bool Request::created(const fs::Entry& entry, const fuse_file_info& info) {
  fuse_req_t r = take();
  if (r == nullptr) return false;
  const fuse_entry_param param = to_entry(entry);
  return fuse_reply_create(r, &param, &info) == 0;
}
/// Sends the memory that the READs came into. splice was as fast, and took the daemon 6 % more CPU time.
void Request::data(const fs::ReadData& data) {
  if (data.pieces.size() > kMostPieces) return bytes(joined(data));  // with a small rsize
  fuse_req_t r = take();
  if (r == nullptr) return;
  fuse_reply_iov(r, data.pieces.data(), static_cast<int>(data.pieces.size()));
}
void Request::data(std::span<const std::byte> bytes) {
  this->bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}
void Request::bytes(std::span<const char> bytes) {
  if (fuse_req_t r = take()) fuse_reply_buf(r, bytes.data(), bytes.size());
}
void Request::text(const std::string& text) {
  if (fuse_req_t r = take()) fuse_reply_readlink(r, text.c_str());
}
void Request::written(std::size_t count) {
  if (fuse_req_t r = take()) fuse_reply_write(r, count);
}
void Request::space(const FilesystemSpace& space, std::uint32_t block, std::uint32_t longest_name) {
  fuse_req_t r = take();
  if (r == nullptr) return;
  struct statvfs out{};
  out.f_bsize = out.f_frsize = block;
  out.f_blocks = space.total / block;
  out.f_bfree = space.free / block;
  out.f_bavail = space.available / block;
  out.f_files = space.files_total;
  out.f_ffree = space.files_free;
  out.f_favail = space.files_available;
  out.f_namemax = longest_name;
  fuse_reply_statfs(r, &out);
}
void Request::lock(const struct flock& lock) {
  if (fuse_req_t r = take()) fuse_reply_lock(r, &lock);
}
void Request::offset(std::uint64_t offset) {
  if (fuse_req_t r = take()) fuse_reply_lseek(r, static_cast<off_t>(offset));
}
void Request::xattr_size(std::size_t size) {
  if (fuse_req_t r = take()) fuse_reply_xattr(r, size);
}

}  // namespace nfsrdma::fuse
