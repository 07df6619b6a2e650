// A READ that costs little: while all goes well no coroutine runs for it, and nothing is allocated.
//
//     class Mine final : public engine::QuickRead { … };
//     mine.data = buffer;
//     mine.offset = 0;
//     if (!file.start(mine)) co_await file.read(buffer, 0);      // not now, or not here
//
// The engine has it from ServerFile::start(), if that says true, until it calls ended() or goes_on(), once, or until its
// owner calls drop(). Meanwhile the owner keeps it where it is, and holds on to the file. It may be destroyed, started
// again, or the file be let go of, inside ended() and goes_on(). Either may be called from inside start().
//
// For whoever is a coroutine already there is QuickWait, which also reads by the ordinary way where it must:
//
//     auto quick = co_await engine::QuickWait(file, data, offset);
//     if (quick.rest) … co_await std::move(*quick.rest) …
//     else … quick.count …
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

class QuickRead {
 public:
  QuickRead() = default;
  QuickRead(std::span<std::byte> into, std::uint64_t from) : data(into), offset(from) {}
  virtual ~QuickRead() = default;
  QuickRead(const QuickRead&) = delete;
  QuickRead& operator=(const QuickRead&) = delete;

  std::span<std::byte> data;
  std::uint64_t offset = 0;

  /// As many bytes have been read as were asked for, or all up to the end of the file.
  virtual void ended(std::size_t count) = 0;
  /// Something is not as usual. What is left to do, and how it ends, is this task's, which is to be run.
  virtual void goes_on(async::Task<Result<std::size_t>> rest) = 0;

  [[nodiscard]] bool is_under_way() const { return under_way_ != nullptr; }
  /// Ends it without a word. When this returns its memory is out of the server's reach.
  void drop() {
    if (under_way_ != nullptr) std::exchange(under_way_, nullptr)->drop();
  }

  // ---- for engines ----

  /// What an engine has of one.
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

/// Awaits one, of a ServerFile or whatever else has start() and read(). Destroyed while it waits, it is dropped.
template <class File>
class QuickWait final : private QuickRead {
 public:
  QuickWait(File& file, std::span<std::byte> into, std::uint64_t from) : QuickRead(into, from), file_(file) {}
  QuickWait(const QuickWait&) = delete;
  QuickWait& operator=(const QuickWait&) = delete;
  ~QuickWait() override { drop(); }

  /// How many bytes it brought, or what is left to do for that.
  struct Outcome {
    std::size_t count = 0;
    std::optional<async::Task<Result<std::size_t>>> rest;
  };

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    // It may go on, or end, from inside start(): then nobody is to be resumed.
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
