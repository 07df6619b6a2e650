// A lock service on the test's loop, for the tests of NFSv3's locks: what several clients hold, a server that
// restarts and forgets it, its grace period, and answers that get lost.
#pragma once

#include <cerrno>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/lock_manager.h"
#include "locking/held_locks.h"

namespace nfsrdma::testing {

/// What the server knows; shared by the clients' ModelLocks.
struct LockTable {
  struct Key {
    std::string file;
    int client = 0;
    std::uint64_t owner = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Waiter {
    Key key;
    LockRange range;
    bool write = false;
    std::function<void()> call;
  };
  std::map<Key, locking::HeldLocks> held;
  std::list<Waiter> queue;
  std::uint32_t state = 1;
  int forgotten = 0;  ///< by clients, while the server has something of theirs
  bool grace = false;
  bool tells_state = true;
  bool queues = false;    ///< whoever waits
  bool troubled = false;  ///< questions and answers get lost (tests/sim/locks.h)

  void restart() {
    held.clear();
    queue.clear();
    state += 2;
    grace = true;
  }
  /// Who is in the way of it.
  [[nodiscard]] std::optional<std::pair<Key, locking::HeldLock>> in_the_way(const Key& own,
                                                                            const LockRange& range,
                                                                            bool write) const {
    for (const auto& [other, locks] : held) {
      if (other.file != own.file || other == own) continue;
      for (const locking::HeldLock& one : locks.within(range)) {
        if (one.write || write) return std::pair(other, one);
      }
    }
    return std::nullopt;
  }
  /// Somebody has unlocked something: those who wait get what they can, in their order.
  void serve_queue() {
    for (auto at = queue.begin(); at != queue.end();) {
      if (in_the_way(at->key, at->range, at->write)) {
        ++at;
        continue;
      }
      held[at->key].lock(at->range, at->write);
      at->call();
      at = queue.erase(at);
    }
  }
  [[nodiscard]] std::size_t count() const {
    std::size_t out = 0;
    for (const auto& [key, locks] : held) out += locks.list().size();
    return out;
  }
};

class ModelLocks final : public engine::LockManager {
 public:
  ModelLocks(async::Loop& loop, LockTable& table, int client) : loop_(loop), table_(table), client_(client) {}

  int lose_answers = 0;                   ///< of so many questions that were carried out
  int asked = 0;                          ///< for locks
  int cancelled = 0;                      ///< of queued ones
  async::Clock::duration on_the_way{};    ///< each question for a lock
  async::Clock::duration delay{};         ///< of each answer
  async::Clock::duration unlock_delay{};  ///< the same of UNLOCK's
  async::Clock::duration state_delay{};   ///< of each question about the server's state

  async::Task<Result<std::optional<LockHolder>>> test(Question question,
                                                      async::TimePoint /*until*/) override {
    if (!table_.grace) co_return in_the_way(question);
    co_return Error(ErrorKind::server, EAGAIN, "TEST", "model", "it is in its grace period");
  }
  async::Task<Result<Verdict>> lock(Question question, async::TimePoint /*until*/) override {
    ++asked;
    co_await loop_.sleep_for(on_the_way);
    const Verdict verdict = judge(question);
    co_await loop_.sleep_for(delay);
    if (lose_answers > 0) {
      --lose_answers;
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "LOCK", "model", "the answer was lost");
    }
    co_return verdict;
  }
  async::Task<Status> cancel(Question question, async::TimePoint /*until*/) override {
    leave(question);
    ++cancelled;
    co_return Status();
  }
  async::Task<Result<Verdict>> unlock(Question question, async::TimePoint /*until*/) override {
    if (table_.grace) co_return Verdict::grace;
    const auto found = table_.held.find(key(question));
    if (found != table_.held.end()) found->second.unlock(question.lock.range);
    table_.serve_queue();
    co_await loop_.sleep_for(unlock_delay);
    co_return Verdict::granted;
  }
  void forget(const engine::FileHandle& file, std::uint64_t owner) override {
    const auto found = table_.held.find({std::string(file.chars()), client_, owner});
    if (found != table_.held.end() && !found->second.empty()) ++table_.forgotten;
  }
  async::Task<Result<std::uint32_t>> server_state(async::TimePoint /*until*/) override {
    co_await loop_.sleep_for(state_delay);
    if (table_.tells_state) co_return table_.state;
    co_return Error(ErrorKind::server, EOPNOTSUPP, "SM_STAT", "model", "it does not tell");
  }
  std::string how() const override { return "model"; }

 private:
  [[nodiscard]] LockTable::Key key(const Question& question) const {
    LockTable::Key out;
    out.file = question.file.chars();
    out.client = client_;
    out.owner = question.lock.owner;
    return out;
  }
  [[nodiscard]] std::optional<LockHolder> in_the_way(const Question& question) const {
    const auto found = table_.in_the_way(key(question), question.lock.range, question.lock.write);
    if (!found) return std::nullopt;
    LockHolder out;
    out.range = found->second.range;
    out.write = found->second.write;
    out.ours = found->first.client == client_;
    out.owner = out.ours ? found->first.owner : 0;
    return out;
  }
  void leave(const Question& question) {
    table_.queue.remove_if([&](const LockTable::Waiter& one) {
      return one.key == key(question) && one.range == question.lock.range && one.write == question.lock.write;
    });
  }
  Verdict judge(const Question& question) {
    if (table_.grace != question.reclaim) return Verdict::grace;
    leave(question);
    if (in_the_way(question)) {
      if (!table_.queues || !question.when_given) return Verdict::denied;
      table_.queue.push_back({key(question), question.lock.range, question.lock.write, question.when_given});
      return Verdict::queued;
    }
    table_.held[key(question)].lock(question.lock.range, question.lock.write);
    table_.serve_queue();  // it may have become a weaker one
    return Verdict::granted;
  }

  async::Loop& loop_;
  LockTable& table_;
  const int client_;
};

}  // namespace nfsrdma::testing
