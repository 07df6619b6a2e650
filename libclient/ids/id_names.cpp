#include "ids/id_names.h"

#include <strings.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "async/descriptor.h"
#include "async/event.h"
#include "async/helper.h"
#include "async/wakeup.h"
#include "ids/system_names.h"

namespace nfsrdma::ids {
namespace {

/// How often a Waiter that helpers cannot wake looks for their answers.
constexpr std::chrono::milliseconds kLookEvery(50);

}  // namespace

std::optional<std::uint32_t> number_of(std::string_view principal) {
  std::uint32_t number = 0;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): from_chars is given the end, too
  const char* const begin = principal.data();
  const char* const end = begin + principal.size();
  const auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

/// State that helpers share with the IdNames. Helpers may outlive the IdNames.
struct IdNames::State {
  struct Entry {
    Answer answer;           // the latest answer
    async::TimePoint until;  // time before which it is not asked for again
    bool asked = false;      // queued, or with a helper
    async::TimePoint asked_at;
  };

  State(Sources from, Limits within, std::function<async::TimePoint()> clock)
      : sources(std::move(from)), limits(within), now(std::move(clock)) {}

  [[nodiscard]] bool is_wanted(const Principal& principal) const {
    const auto at = entries.find(principal);
    return at == entries.end() || at->second.asked || at->second.until <= now();
  }
  void ask(const Principal& principal);
  void make_room();
  /// Returns true if every helper has been busy with one name for too long.
  [[nodiscard]] bool is_stuck() const {
    const auto old = now() - limits.patience;
    return running.size() == kMostThreads &&
           std::ranges::all_of(running, [&](auto begun) { return begun < old; });
  }
  /// Returns the time until which it is worth waiting for the wanted names, or no value if none of them is
  /// being asked for or all helpers are stuck.
  [[nodiscard]] std::optional<async::TimePoint> worth_waiting_until(
      const std::vector<Principal>& wanted) const;
  /// Runs on a helper's thread, without the mutex.
  Answer find(const Principal& principal);
  std::string local_domain();
  void learned(const Principal& principal, Answer answer);

  const Sources sources;
  const Limits limits;
  const std::function<async::TimePoint()> now;
  std::mutex mutex;  // guards everything below
  std::map<Principal, Entry> entries;
  std::deque<Principal> queue;
  std::list<async::TimePoint> running;  // time at which each helper began with its name
  unsigned threads = 0;
  std::list<const async::Wakeup*> waiting;
  std::optional<std::string> domain;
  async::TimePoint domain_until{};
};

void IdNames::State::ask(const Principal& principal) {
  if (!is_wanted(principal)) return;
  const bool is_known = entries.contains(principal);
  if (!is_known) make_room();
  if (!is_known && entries.size() >= limits.most_known) return;
  Entry& entry = entries[principal];
  if (std::exchange(entry.asked, true)) return;
  entry.asked_at = now();
  queue.push_back(principal);
}

/// Drops answers that have aged, and if that is not enough, all that are not being asked for.
void IdNames::State::make_room() {
  if (entries.size() < limits.most_known) return;
  const auto current = now();
  std::erase_if(entries, [&](const auto& e) { return !e.second.asked && e.second.until <= current; });
  if (entries.size() < limits.most_known) return;
  std::erase_if(entries, [](const auto& e) { return !e.second.asked; });
}

std::optional<async::TimePoint> IdNames::State::worth_waiting_until(
    const std::vector<Principal>& wanted) const {
  std::optional<async::TimePoint> last;
  if (is_stuck()) return last;
  const auto current = now();
  for (const Principal& principal : wanted) {
    const auto at = entries.find(principal);
    if (at == entries.end() || !at->second.asked) continue;
    const auto until = at->second.asked_at + limits.patience;
    if (until > current) last = std::max(last.value_or(until), until);
  }
  return last;
}

std::string IdNames::State::local_domain() {
  {
    const std::lock_guard guard(mutex);
    if (domain && now() < domain_until) return *domain;
  }
  std::string found = sources.domain();
  const std::lock_guard guard(mutex);
  domain = found;
  domain_until = now() + limits.found_for;
  return found;
}

Answer IdNames::State::find(const Principal& principal) {
  const std::size_t at = principal.text.rfind('@');
  if (at == std::string::npos) return sources.look_up(principal.kind, principal.text);
  const std::string theirs = principal.text.substr(at + 1);
  if (::strcasecmp(theirs.c_str(), local_domain().c_str()) != 0) return {Answer::State::absent, 0};
  return sources.look_up(principal.kind, principal.text.substr(0, at));
}

void IdNames::State::learned(const Principal& principal, Answer answer) {
  Entry& entry = entries[principal];
  entry.asked = false;
  switch (answer.state) {
    case Answer::State::found:
      entry.until = now() + limits.found_for;
      break;
    case Answer::State::absent:
      entry.until = now() + limits.absent_for;
      break;
    case Answer::State::failed:
      entry.until = now() + limits.failed_for;
      if (entry.answer.state == Answer::State::found) answer = entry.answer;  // better than none
      break;
  }
  entry.answer = answer;
  for (const async::Wakeup* one : waiting) one->set();
}

void IdNames::help(const std::shared_ptr<State>& state) {
  std::unique_lock guard(state->mutex);
  while (!state->queue.empty()) {
    const Principal principal = std::move(state->queue.front());
    state->queue.pop_front();
    const auto mine = state->running.insert(state->running.end(), state->now());
    guard.unlock();
    const Answer answer = state->find(principal);
    guard.lock();
    state->running.erase(mine);
    state->learned(principal, answer);
  }
  --state->threads;
}

/// Is woken by helpers while it lives. If no descriptor is left for that, it looks at regular intervals.
class IdNames::Waiter {
 public:
  Waiter(async::Loop& loop, std::shared_ptr<State> state)
      : loop_(loop), state_(std::move(state)), more_(loop) {
    try {
      wakeup_.emplace();
    } catch (const std::system_error&) {
      return;
    }
    loop_.watch(wakeup_->descriptor(), EPOLLIN, [this](std::uint32_t) {
      wakeup_->clear();
      more_.notify_all();
    });
    const std::lock_guard guard(state_->mutex);
    place_ = state_->waiting.insert(state_->waiting.end(), &*wakeup_);
  }
  ~Waiter() {
    if (!wakeup_) return;
    {
      const std::lock_guard guard(state_->mutex);
      state_->waiting.erase(place_);
    }
    loop_.unwatch(wakeup_->descriptor());
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  /// Waits until there may be more to know, but not longer than until `when`.
  async::Event::Wait until(async::TimePoint when) {
    return more_.wait_until(wakeup_ ? when : std::min(when, loop_.now() + kLookEvery));
  }

 private:
  async::Loop& loop_;
  const std::shared_ptr<State> state_;
  std::optional<async::Wakeup> wakeup_;
  async::Event more_;
  std::list<const async::Wakeup*>::iterator place_;  // position of the wakeup in `waiting`
};

IdNames::IdNames(Sources sources, Limits limits, std::function<async::TimePoint()> now)
    : state_(std::make_shared<State>(std::move(sources), limits, std::move(now))) {}

namespace {

struct OfProcess {
  async::Birth birth;
  IdNames names{{&look_up_system_name, &local_nfs_domain}, {}};
};

}  // namespace

/// A child of fork(2) gets an object of its own. A helper, which does not exist in the child, may have held
/// the lock of the inherited one. Inherited objects are never freed.
IdNames& IdNames::system() {
  static std::atomic<OfProcess*> current;
  OfProcess* found = current;
  while (found == nullptr || found->birth.is_inherited()) {
    auto made = std::make_unique<OfProcess>();
    if (current.compare_exchange_strong(found, made.get())) found = made.release();
  }
  return found->names;
}

std::optional<std::uint32_t> IdNames::known(Kind kind, const std::string& principal) const {
  if (const auto number = number_of(principal)) return number;
  const std::lock_guard guard(state_->mutex);
  const auto at = state_->entries.find({kind, principal});
  if (at == state_->entries.end() || at->second.answer.state != Answer::State::found) return std::nullopt;
  return at->second.answer.id;
}

void IdNames::add_wanted(const Attributes& attributes, std::vector<Principal>& wanted) const {
  const auto add = [&](Kind kind, const std::string& text) {
    if (text.empty() || number_of(text)) return;
    Principal principal{kind, text};
    const std::lock_guard guard(state_->mutex);
    if (state_->is_wanted(principal)) wanted.push_back(std::move(principal));
  };
  if (!attributes.uid) add(Kind::user, attributes.owner);
  if (!attributes.gid) add(Kind::group, attributes.group);
}

void IdNames::fill_in(Attributes& attributes) const {
  if (!attributes.uid) attributes.uid = known(Kind::user, attributes.owner);
  if (!attributes.gid) attributes.gid = known(Kind::group, attributes.group);
}

/// Queues wanted names that are not being asked for yet, and starts helpers. `state->mutex` must be held.
void IdNames::ask(const std::shared_ptr<State>& state, const std::vector<Principal>& wanted) {
  for (const Principal& principal : wanted) state->ask(principal);
  const std::size_t names = state->running.size() + state->queue.size();
  while (state->threads < std::min<std::size_t>(kMostThreads, names)) {
    const async::AllSignalsBlocked blocked;
    try {
      std::thread(&IdNames::help, state).detach();
    } catch (const std::system_error&) {
      return;  // no thread is left: the existing helpers go on
    }
    ++state->threads;
  }
}

async::Task<void> IdNames::learn(async::Loop& loop, std::vector<Principal> wanted) {
  const auto until = [&] {
    const std::lock_guard guard(state_->mutex);
    return state_->worth_waiting_until(wanted);
  };
  {
    const std::lock_guard guard(state_->mutex);
    ask(state_, wanted);
  }
  if (!until()) co_return;
  Waiter waiter(loop, state_);
  for (auto when = until(); when; when = until()) (void)co_await waiter.until(*when);
}

}  // namespace nfsrdma::ids
