// Task<T>: a coroutine that starts when it is awaited, and resumes its awaiter when it ends.
//
// With a Task one logical flow (open a session, recover, write and commit) reads top to bottom. Tasks belong
// to the thread that runs their Loop. Destroying a Task that has not ended destroys its frame and everything
// that the frame owns; only the Loop and the owners of a suspended Task may do so. Exceptions do not leave a
// Task: one that escapes aborts the program.
//
// Own code because Boost.Asio's awaitable ties every coroutine to its executor and costs about twice the
// instructions per await; a Task is three pointers and a symmetric transfer.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>

#include "async/free_blocks.h"

namespace nfsrdma::async {

template <class T>
class Task;

namespace detail {

struct FinalAwaiter {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
    return ended.promise().continuation;
  }
  void await_resume() const noexcept {}
};

/// A thread's pool of coroutine frames, by size: one READ makes six. As many of each size are kept as a deep queue needs,
/// fewer of the large ones. Under AddressSanitizer frames are not reused, so that it can detect the use of a frame after its
/// end.
class FramePool {
 public:
  static void* get(std::size_t size) {
    if (!kPooled) return ::operator new(size);
    if (void* const frame = frames().take(size)) return frame;
    throw std::bad_alloc();
  }
  static void put(void* frame, std::size_t size) noexcept {
    if (!kPooled) return ::operator delete(frame);
    frames().give(frame, size);
  }
  /// Frees the pooled frames of this thread.
  static void clear() noexcept { frames().clear(); }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kPooled = false;
#elif defined(__has_feature)
  static constexpr bool kPooled = !__has_feature(address_sanitizer);
#else
  static constexpr bool kPooled = true;
#endif
  struct Sizes {
    static constexpr std::size_t kUnit = 64, kLargest = 10176;
    static constexpr std::uint32_t most(std::size_t bytes) { return bytes < 2560 ? 1024 : 64; }
  };
  static FreeBlocks<Sizes>& frames() noexcept { return OwnBlocks<Sizes>::get(); }
};

struct PromiseBase {
  static void* operator new(std::size_t size) { return FramePool::get(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { FramePool::put(frame, size); }
  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept { std::abort(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { destroy(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().continuation = awaiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

  /// Returns the handle, for owners that start a task without awaiting it (Loop::spawn, Loop::run).
  [[nodiscard]] Handle handle() const { return handle_; }
  [[nodiscard]] bool done() const { return handle_ && handle_.done(); }

 private:
  void destroy() {
    if (handle_) handle_.destroy();
    handle_ = nullptr;
  }
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace nfsrdma::async
