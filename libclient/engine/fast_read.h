// A READ on the fast path: in the normal case it runs no coroutine and allocates nothing.
//
//     class Mine final : public engine::FastRead { ... };
//     mine.data = buffer;
//     mine.offset = 0;
//     if (!file.start(mine)) co_await file.read(buffer, 0);      // not now, or not here
//
// Ownership. ServerFile::start() hands the object to the engine if it returns true. The engine has it until
// it calls either ended() or goes_on(), once, or until the owner calls drop(). Meanwhile the owner must
// neither move the object nor release the file. Inside ended() and goes_on() the object may be destroyed or
// started again, and the file may be released. Either may be called from inside start().
//
// A coroutine uses FastReadWait, which also falls back to the ordinary read() if it has to:
//
//     auto fast = co_await engine::FastReadWait(file, data, offset);
//     if (fast.rest) ... co_await std::move(*fast.rest) ...
//     else ... fast.count ...
//
// Confined to the loop's thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "async/task.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

class FastRead {
 public:
  FastRead() = default;
  FastRead(std::span<std::byte> into, std::uint64_t from) : data(into), offset(from) {}
  virtual ~FastRead() = default;
  FastRead(const FastRead&) = delete;
  FastRead& operator=(const FastRead&) = delete;

  std::span<std::byte> data;
  std::uint64_t offset = 0;

  /// Called when all bytes up to the end of the range, or up to the end of the file, have been read.
  virtual void ended(std::size_t count) = 0;
  /// Called when the READ has left the fast path. The caller is to run `rest`, which does what is left to do
  /// and returns the result.
  virtual void goes_on(async::Task<Result<std::size_t>> rest) = 0;

  [[nodiscard]] bool is_under_way() const { return under_way_ != nullptr; }
  /// Abandons the READ; neither ended() nor goes_on() is called. When this returns, the server can no longer
  /// write into `data`, unless another thread makes the READ (fs/reads_elsewhere.h).
  void drop() {
    if (under_way_ != nullptr) std::exchange(under_way_, nullptr)->drop();
  }

  // ---- for engines ----

  /// The engine's side of a READ that is under way.
  class UnderWay {
   public:
    virtual void drop() = 0;

   protected:
    ~UnderWay() = default;
  };
  void begin(UnderWay& what) { under_way_ = &what; }
  void end() { under_way_ = nullptr; }

 private:
  UnderWay* under_way_ = nullptr;
};

/// Awaits a FastRead of a ServerFile, or of another class with start() and read(). If it is destroyed while
/// it waits, the READ is dropped.
template <class File>
class FastReadWait final : private FastRead {
 public:
  FastReadWait(File& file, std::span<std::byte> into, std::uint64_t from)
      : FastRead(into, from), file_(file) {}
  FastReadWait(const FastReadWait&) = delete;
  FastReadWait& operator=(const FastReadWait&) = delete;
  ~FastReadWait() override { drop(); }

  /// The number of bytes that were read, or the task that does the rest.
  struct Outcome {
    std::size_t count = 0;
    std::optional<async::Task<Result<std::size_t>>> rest;
  };

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    // The READ may end or leave the fast path inside start(); the coroutine must not be suspended then.
    if (!file_.start(*this)) outcome_.rest.emplace(file_.read(data, offset));
    if (is_over()) return false;
    waiting_ = waiting;
    return true;
  }
  Outcome await_resume() { return std::move(outcome_); }

 private:
  [[nodiscard]] bool is_over() const { return over_ || outcome_.rest; }
  void ended(std::size_t count) override {
    outcome_.count = count;
    over_ = true;
    if (waiting_) waiting_.resume();
  }
  void goes_on(async::Task<Result<std::size_t>> rest) override {
    outcome_.rest.emplace(std::move(rest));
    if (waiting_) waiting_.resume();
  }

  File& file_;
  Outcome outcome_;
  bool over_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace nfsrdma::engine
