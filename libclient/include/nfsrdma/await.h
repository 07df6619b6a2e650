// Started calls for coroutines (C++20): what they await ends when the call has its result.
//
//     Task copy(nfsrdma::File& from, nfsrdma::File& to, std::span<std::byte> data) {
//       for (std::uint64_t offset = 0;;) {
//         const auto count = co_await nfsrdma::await_read(from, data, offset);
//         if (!count) co_return failed(count.error());
//         if (*count == 0) break;
//         const auto written = co_await nfsrdma::await_write(to, data.first(*count), offset);
//         ...
//       }
//     }
//     while (!task.ended()) client->wait(std::chrono::seconds(1));
//
// Task stands for a coroutine type of the program's own or of its framework; the library has none.
//
// Where coroutines resume: inside wait() or service() of the Client, on the thread that is in there, like a
// callback (client.h says what callbacks may do). With an executor, anything that can be called with a
// std::coroutine_handle<>, they resume where the executor does it:
//
//     const auto executor = [&](std::coroutine_handle<> h) { pool.post([h] { h.resume(); }); };
//     co_await nfsrdma::await_read(file, data, 0, executor);
//
// Every other start_... call is awaited by async():
//
//     co_await nfsrdma::async<nfsrdma::Status>(
//         [&](auto done) { client.start_rename("/a", "/b", std::move(done)); });
//
// If the File, or for calls by path the Client, is destroyed while a coroutine awaits one of its calls, the
// coroutine never resumes; the program then destroys it or leaves it. A coroutine must not be destroyed while
// a call that it awaits is under way, unless the File or Client was destroyed before.
//
// Thread-safety: each awaited object belongs to its coroutine.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "nfsrdma/client.h"
#include "nfsrdma/file.h"
#include "nfsrdma/names.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// The executor that resumes a coroutine on the thread that delivers the result.
struct ResumeInPlace {
  void operator()(std::coroutine_handle<> coroutine) const { coroutine.resume(); }
};

/// The awaitable that async() returns. It starts a call when it is awaited.
template <class Value, class Start, class Executor>
class [[nodiscard]] Async {
 public:
  Async(Start start, Executor executor) : start_(std::move(start)), executor_(std::move(executor)) {}

  [[nodiscard]] bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    // The coroutine may be resumed by another thread, which destroys this object, before `start` returns.
    Start start = std::move(start_);
    start([this, coroutine](Value value) {
      value_ = std::move(value);
      Executor executor = std::move(executor_);
      executor(coroutine);
    });
  }
  Value await_resume() { return *std::move(value_); }

 private:
  Start start_;
  Executor executor_;
  std::optional<Value> value_;
};

/// Awaits a call that start(done) starts, where `done` takes a Value.
template <class Value, class Start, class Executor = ResumeInPlace>
Async<Value, Start, Executor> async(Start start, Executor executor = {}) {
  return {std::move(start), std::move(executor)};
}

// ---- the common calls. Buffers must stay valid until the call has ended ----

template <class Executor = ResumeInPlace>
auto await_read(File& file, std::span<std::byte> data, std::uint64_t offset, Executor executor = {}) {
  return async<Result<std::size_t>>(
      [&file, data, offset](auto done) { file.start_read(data, offset, std::move(done)); },
      std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_write(File& file, std::span<const std::byte> data, std::uint64_t offset, Executor executor = {}) {
  return async<Result<std::size_t>>(
      [&file, data, offset](auto done) { file.start_write(data, offset, std::move(done)); },
      std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_sync(File& file, Executor executor = {}) {
  return async<Status>([&file](auto done) { file.start_sync(std::move(done)); }, std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_close(File& file, Executor executor = {}) {
  return async<Status>([&file](auto done) { file.start_close(std::move(done)); }, std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_attributes(File& file, Executor executor = {}) {
  return async<Result<Attributes>>([&file](auto done) { file.start_attributes(std::move(done)); },
                                   std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_stat(Names& names, std::string_view path, bool follow = true, Executor executor = {}) {
  return async<Result<Attributes>>(
      [&names, path, follow](auto done) { names.start_stat(path, std::move(done), follow); },
      std::move(executor));
}

template <class Executor = ResumeInPlace>
auto await_open(Names& names, std::string_view path, OpenMode mode, const OpenFlags& flags = {},
                Executor executor = {}) {
  return async<Result<std::unique_ptr<File>>>(
      [&names, path, mode, flags](auto done) { names.start_open(path, mode, std::move(done), flags); },
      std::move(executor));
}

}  // namespace nfsrdma
