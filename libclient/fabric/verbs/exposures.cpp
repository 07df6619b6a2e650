#include "fabric/verbs/exposures.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace nfsrdma::fabric::verbs {
namespace {

constexpr std::uint32_t own_bits = 0xff;  // the bits of a window's handle that its owner chooses

/// Returns the window's next handle. The bits that we choose are random, and differ from those before, as
/// binding demands.
std::uint32_t next_handle(async::Loop& loop, std::uint32_t handle) {
  for (;;) {
    const std::uint32_t next = (handle & ~own_bits) | loop.random<std::uint8_t>();
    if (next != handle) return next;
  }
}

}  // namespace

Error Exposures::failure(int errno_value, std::size_t length) const {
  std::string text = std::to_string(length) + " bytes cannot be registered with " + endpoint_.traits.device +
                     ": " + std::strerror(errno_value);
  rlimit limit{};
  // The limit of locked memory is what an unprivileged user reaches first.
  if ((errno_value == ENOMEM || errno_value == EAGAIN || errno_value == EPERM) &&
      ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += ". Raise the limit of locked memory (ulimit -l, now " + std::to_string(limit.rlim_cur / 1024) +
            " KiB), or lower rsize, wsize or credits, or use fabric=iwarp";
  } else {
    text += ". Lower rsize, wsize or credits, or use fabric=iwarp";
  }
  return {ErrorKind::local, errno_value, "", "", std::move(text)};
}

Status Exposures::expose(Bytes memory, Reach reach, std::vector<RemoteSegment>& to) {
  const std::size_t before = to.size();
  for (const Bytes piece : split(memory, endpoint_.depth.segment)) {
    auto one = expose_one(piece, reach);
    if (!one) {
      // The other segments have not been sent to the peer. Their binds are still in the queue, ahead of any
      // later work, so revoke() can take them out of it.
      (void)revoke(std::span(to).subspan(before), std::nullopt, false);
      to.resize(before);
      return one.error();
    }
    to.push_back(*one);
  }
  return {};
}

Result<RemoteSegment> Exposures::expose_one(Bytes memory, Reach reach) {
  const auto length = static_cast<std::uint32_t>(memory.size());
  if (memory.empty()) memory = {&nothing_, 1};
  const bool windows = endpoint_.traits.memory_windows;
  ibv_mw* const window = windows ? take_window() : nullptr;
  if (windows && window == nullptr) return failure(ENOMEM, memory.size());
  int rights = reach == Reach::remote_write ? IBV_ACCESS_LOCAL_WRITE : 0;
  rights |= windows                        ? IBV_ACCESS_MW_BIND
            : reach == Reach::remote_write ? IBV_ACCESS_REMOTE_WRITE
                                           : IBV_ACCESS_REMOTE_READ;
  ibv_mr* const registration = endpoint_.lib.reg_mr(endpoint_.pd, memory.data(), memory.size(), rights);
  if (registration == nullptr) {
    const int failed = errno;
    if (window != nullptr) free_windows_.push_back(window);
    return failure(failed, memory.size());
  }
  std::uint32_t handle = registration->rkey;
  if (window != nullptr) {
    handle = next_handle(loop_, window->rkey);
    Work bind;
    bind.kind = Work::Kind::bind;
    bind.handle = handle;
    bind.memory = memory.data();
    bind.length = memory.size();
    bind.registration = registration;
    bind.window = window;
    bind.reach = reach;
    queue_.post(std::move(bind));
  }
  exposed_.emplace(handle, Exposed{registration, window});
  return RemoteSegment{handle, length, reinterpret_cast<std::uintptr_t>(memory.data())};
}

ibv_mw* Exposures::take_window() {
  if (free_windows_.empty()) {
    if (windows_.size() >= endpoint_.depth.windows) return nullptr;
    ibv_mw* fresh = ibv_alloc_mw(endpoint_.pd, IBV_MW_TYPE_2);
    if (fresh == nullptr) return nullptr;
    windows_.push_back(fresh);
    return fresh;
  }
  ibv_mw* window = free_windows_.back();
  free_windows_.pop_back();
  return window;
}

/// Releases the registration and the window of a handle that no peer can use any more.
bool Exposures::release(std::uint32_t handle) {
  const auto found = exposed_.find(handle);
  if (found == exposed_.end()) return true;
  if (endpoint_.lib.dereg_mr(found->second.registration) != 0) return false;
  if (found->second.window != nullptr) free_windows_.push_back(found->second.window);
  exposed_.erase(found);
  return true;
}

/// Deallocates a window that is bound, which unbinds it.
bool Exposures::give_window_back(Exposed& one) {
  if (ibv_dealloc_mw(one.window) != 0) return false;
  std::erase(windows_, std::exchange(one.window, nullptr));
  return true;
}

Exposures::Revoked Exposures::revoke(std::span<const RemoteSegment> segments,
                                     std::optional<std::uint64_t> cookie, bool at_once) {
  std::vector<std::uint32_t> to_invalidate;
  for (const RemoteSegment& segment : segments) {
    const auto found = exposed_.find(segment.handle);
    if (found == exposed_.end()) continue;  // the peer has invalidated it
    const bool bound = found->second.window != nullptr && !queue_.retract_bind(segment.handle);
    if (bound && !endpoint_.invalidate_is_unsafe && !at_once) {
      to_invalidate.push_back(segment.handle);
      continue;
    }
    if (bound && !give_window_back(found->second)) return Revoked::failed;
    if (!release(segment.handle)) return Revoked::failed;
  }
  for (const std::uint32_t handle : to_invalidate) {
    Work work;
    work.kind = Work::Kind::invalidate;
    work.handle = handle;
    work.cookie = cookie.value_or(0);
    work.last = cookie && handle == to_invalidate.back();
    queue_.post(std::move(work));
    ++invalidations_;
  }
  return to_invalidate.empty() ? Revoked::done : Revoked::later;
}

std::optional<std::uint64_t> Exposures::invalidated(const Work& work) {
  --invalidations_;
  // If this fails, the memory stays pinned until clear(), but has no remote right.
  (void)release(work.handle);
  return work.last ? std::optional(work.cookie) : std::nullopt;
}

void Exposures::invalidated_remotely(std::uint32_t handle) {
  (void)release(handle);
}

ibv_mr* Exposures::register_local(Bytes memory, Work::Kind kind) {
  int rights = 0;
  if (kind == Work::Kind::read) {
    rights = IBV_ACCESS_LOCAL_WRITE;
    // RFC 5040 5.2: on iWARP the sink of a Read is named to the peer, and written like any tagged buffer.
    if (endpoint_.is_iwarp()) rights |= IBV_ACCESS_REMOTE_WRITE;
  }
  if (memory.empty()) memory = {&nothing_, 1};
  return endpoint_.lib.reg_mr(endpoint_.pd, memory.data(), memory.size(), rights);
}

void Exposures::clear() {
  // Windows go first, because a registration cannot be released while a window is bound over it.
  for (ibv_mw* window : windows_) ibv_dealloc_mw(window);
  windows_.clear();
  free_windows_.clear();
  for (const auto& [handle, one] : exposed_) endpoint_.lib.dereg_mr(one.registration);
  exposed_.clear();
}

}  // namespace nfsrdma::fabric::verbs
