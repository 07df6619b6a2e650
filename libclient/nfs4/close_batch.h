// CLOSEs that nobody waits for leave together (RFC 8881 18.2): several in one COMPOUND, each behind a PUTFH of its own,
// with the DELEGRETURN of its file behind it where there is a delegation.
//
// A program's close(2) is over before its CLOSE is, so a CLOSE may stand here for kHold, until kMost have come, or
// until somebody needs one of them done (hurry()). One that is not wanted any more by then, since the file is open
// again, is not sent. The server executes them in order, and ends with the first that it refuses: those behind it go
// in another COMPOUND.
//
// With sessions only: in NFSv4.0 an owner's calls come one after the other.
//
// Confined to the loop's thread. Its tasks hold on to what they need of it, and may not outlive the Calls.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "async/event.h"
#include "nfs4/calls.h"

namespace nfsrdma::nfs4 {

class CloseBatch {
 public:
  static constexpr auto kHold = std::chrono::milliseconds(4);
  static constexpr std::size_t kMost = 16;

  explicit CloseBatch(Calls& calls) : calls_(calls) {}
  ~CloseBatch();
  CloseBatch(const CloseBatch&) = delete;
  CloseBatch& operator=(const CloseBatch&) = delete;

  /// From now on close() may be used: nobody waits for what it does.
  void hold() { holds_ = true; }
  [[nodiscard]] bool holds() const { return holds_; }

  struct Closing {
    nfs_fh4 file;
    stateid4 stateid;
    Caller caller;
    bool urgent = false;  ///< somebody waits for it
    // Called while the task of close() lives.
    std::function<bool()> wanted;                         ///< asked when it is about to be sent
    std::function<std::optional<stateid4>()> delegation;  ///< to be returned with it; asked behind wanted()
    std::function<void()> on_returned;
  };
  /// The server's answer to the CLOSE; none: it was not wanted any more. An Error: there was no answer.
  async::Task<Result<std::optional<nfsstat4>>> close(Closing what);
  /// Those that stand here are sent now.
  void hurry();

 private:
  using Answer = Result<std::optional<nfsstat4>>;
  struct One {
    One(async::Loop& loop, Closing c) : what(std::move(c)), ended(loop) {}
    const Closing what;
    bool abandoned = false;  // nobody waits for the answer any more
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
  static async::Task<void> send(Calls& calls, Ones all);
  /// As many of the first as have room. How many of them were answered.
  static async::Task<std::size_t> send_some(Calls& calls, std::span<const std::shared_ptr<One>> some);

  Calls& calls_;
  bool holds_ = false;
  Ones waiting_;
  async::Loop::TimerId timer_ = 0;
};

}  // namespace nfsrdma::nfs4
