// CLOSEs that no caller waits for are sent together (RFC 8881 18.2): several in one COMPOUND, each behind a
// PUTFH of its own, and followed by the DELEGRETURN of its file if there is a delegation to return.
//
// A program's close(2) returns before its CLOSE is sent. So a CLOSE may wait here for kHold, until kMost have
// come, or until something depends on one of them (hurry()). If the file has been opened again by then, its
// CLOSE is not sent. The server executes the CLOSEs in order and stops at the first that it refuses; those
// behind it go in another COMPOUND.
//
// Used with sessions only: in NFSv4.0 an owner's calls are sent one after the other.
//
// Confined to the loop's thread. The tasks share ownership of what they need, and must not outlive the
// CallLayer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "async/event.h"
#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

class CloseBatch {
 public:
  static constexpr auto kHold = std::chrono::milliseconds(4);
  static constexpr std::size_t kMost = 16;

  explicit CloseBatch(CallLayer& calls) : calls_(calls) {}
  ~CloseBatch();
  CloseBatch(const CloseBatch&) = delete;
  CloseBatch& operator=(const CloseBatch&) = delete;

  /// Allows close() from now on, because no program waits for the end of a CLOSE any more.
  void hold() { holds_ = true; }
  [[nodiscard]] bool holds() const { return holds_; }

  struct Closing {
    nfs_fh4 file;
    stateid4 stateid;
    Caller caller;
    bool urgent = false;  ///< the CLOSE is awaited, so it is sent at once
    // The functions below are called only while the task of close() lives.
    std::function<bool()> wanted;  ///< called just before the CLOSE is sent
    /// Returns the delegation to be returned with the CLOSE, if there is one. Called after wanted().
    std::function<std::optional<stateid4>()> delegation;
    std::function<void()> on_returned;
  };
  /// Returns the server's answer to the CLOSE, or none if the CLOSE was no longer wanted. An Error means that
  /// there was no answer.
  async::Task<Result<std::optional<nfsstat4>>> close(Closing what);
  /// Sends at once the CLOSEs that wait here.
  void hurry();

 private:
  using Answer = Result<std::optional<nfsstat4>>;
  struct One {
    One(async::Loop& loop, Closing c) : what(std::move(c)), ended(loop) {}
    const Closing what;
    bool abandoned = false;  // the task of close() has gone, so the answer is of no use
    std::optional<Answer> answer;
    async::Event ended;
    void end(Answer with) {
      answer.emplace(std::move(with));
      ended.notify_all();
    }
  };
  struct Waiting {
    explicit Waiting(std::shared_ptr<One> o) : one(std::move(o)) {}
    ~Waiting() { one->abandoned = true; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    const std::shared_ptr<One> one;
  };
  using Ones = std::vector<std::shared_ptr<One>>;
  static async::Task<void> send(CallLayer& calls, Ones all);
  /// Sends as many of the first CLOSEs as one COMPOUND has room for. Returns how many of them were answered.
  static async::Task<std::size_t> send_some(CallLayer& calls, std::span<const std::shared_ptr<One>> some);

  CallLayer& calls_;
  bool holds_ = false;
  Ones waiting_;
  async::Loop::TimerId timer_ = 0;
};

}  // namespace nfsrdma::nfs4
