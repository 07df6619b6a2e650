#include "api/client_core.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>

#include "api/file_core.h"
#include "api/reading.h"
#include "async/helper.h"
#include "connect/tracing.h"

namespace nfsrdma::api {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kGoodbye = 2s;
// Time for files that are being closed in the background, before kGoodbye begins.
constexpr auto kClosings = 1s;
constexpr milliseconds kKeeperLook = 20ms;
constexpr unsigned kMostTurns = 64;  // in one service()

/// Returns the surroundings with what makes the trace that the options ask for. A file that cannot be written
/// is a notice even before the first connection, because no Error says it.
connect::Surroundings traced(const connect::Target& target, const Setup& setup) {
  connect::Surroundings out = setup.surroundings;
  if (out.tap) return out;
  out.tap =
      connect::tapper_of(target.options, [log = setup.log, data = setup.log_data](const std::string& text) {
        if (log != nullptr) log(data, text.c_str());
      });
  return out;
}
}  // namespace

ClientCore::ClientCore(const connect::Target& target, const std::vector<rpc::Address>& addresses,
                       const Setup& setup)
    : target_(target),
      log_(setup.log),
      log_data_(setup.log_data),
      interrupt_fd_(setup.interrupt),
      own_loop_(setup.loop != nullptr ? nullptr : std::make_unique<async::Loop>()),
      loop_(setup.loop != nullptr ? *setup.loop : *own_loop_),
      crew_(loop_, own_loop_ != nullptr),
      server_(
          loop_, target, addresses, [this](const std::string& text) { notice(text); }, setup.patience,
          traced(target, setup)),
      root_(std::make_unique<nfsrdma_dir>(*this, std::nullopt)) {
  watch_interrupt();
}

ClientCore::~ClientCore() {
  stop_keeper();
  {
    const Crew::Inside inside(crew_);
    loop_.unwatch(interrupt_fd_);
  }
  (void)end(false, {ErrorKind::cancelled, ECANCELED, "", target_.host, "the client was freed"});
  Batch last(this);
  {
    const Crew::Inside inside(crew_);
    server_.shut_down();
    loop_.drop_tasks();
    freed_ = true;
    take_due(last);
  }
  (void)run_due(last);
}

void ClientCore::notice(const std::string& text) {
  // Before the first connection, the Error that connect() returns says everything.
  if (connected_ && log_ != nullptr) log_(log_data_, text.c_str());
}

void ClientCore::watch_interrupt() {
  if (interrupt_fd_ < 0) return;
  loop_.watch(interrupt_fd_, POLLIN, [this](std::uint32_t) {
    interrupted_ = true;
    crew_.interrupt();
    if (shards_) shards_->interrupt();
  });
}

Error ClientCore::interrupted() const {
  return {ErrorKind::cancelled, EINTR, "", target_.host, "interrupted"};
}

/// Returns why a blocking call has not ended.
Error ClientCore::unfinished(const Blocked& blocked, const How& how) const {
  if (blocked.cancelled) return cancelled();
  if (how.timeout.count() != 0 && loop_.now() >= blocked.deadline) return late(how);
  return interrupted();
}

Error ClientCore::cancelled() const {
  return {ErrorKind::cancelled, ECANCELED, "", target_.host,
          "the call was cancelled by the program (nfsrdma_cancel or nfsrdma_disconnect)"};
}

Error ClientCore::late(const How& how) const {
  return {ErrorKind::timeout, ETIMEDOUT, "", target_.host,
          "the server has not answered within the " + std::to_string(how.timeout.count()) +
              " ms that the call may take; give it more time, or try again"};
}

Error ClientCore::called_from_log() const {
  return {ErrorKind::usage, EDEADLK, "", target_.host,
          "a log function may not call the library; do it after the log function has returned"};
}

Error ClientCore::disconnected() const {
  return {ErrorKind::usage, ENOTCONN, "", target_.host,
          "the client has been disconnected; connect again to make calls"};
}

Error ClientCore::on_its_path(const Error& why, const How& how) const {
  if (how.path == nullptr) return why;
  const std::string& path = **how.path;
  if (why.peer().empty()) return why.about(why.operation(), path);
  const bool is_of_server = why.kind() == ErrorKind::timeout || why.kind() == ErrorKind::connection ||
                            why.kind() == ErrorKind::cancelled || why.peer() == target_.host;
  if (!is_of_server || why.peer() == path) return why;
  return why.about(why.operation(), path + " on " + why.peer());
}

Error ClientCore::freed() const {
  return {ErrorKind::usage, ENOTCONN, "", target_.host,
          "the client is being freed; its last callbacks may not start calls"};
}

// ---- in a child of fork(2) ----

Error ClientCore::inherited() const {
  return {ErrorKind::usage, ENOTCONN, "", target_.host,
          "the connection belongs to the parent process; connect again in the child process"};
}

std::int64_t ClientCore::refuse(StartedCall& call, const How& how) {
  call.how_ = how;
  call.how_.path = nullptr;
  call.to_ = how.queue != nullptr ? how.queue : &callbacks_;
  call.why_ = inherited();
  const std::lock_guard guard(refused_mutex_);
  refused_.push_back(&call);
  return 0;
}

namespace {

/// Hands calls that go to `queue` over to `take`, at most `most` of them.
template <class Take>
void take_refused_of(const Completions& queue, std::list<StartedCall*>& refused, std::size_t most,
                     Take take) {
  for (auto at = refused.begin(); at != refused.end() && most != 0;) {
    StartedCall& call = **at;
    if (&call.completions() != &queue) {
      ++at;
      continue;
    }
    take(call);
    call.release();
    at = refused.erase(at);
    --most;
  }
}

}  // namespace

std::int64_t ClientCore::reap_refused(const Completions& queue, std::span<nfsrdma_completion> out) {
  const std::lock_guard guard(refused_mutex_);
  std::size_t count = 0;
  take_refused_of(queue, refused_, out.size(), [&](StartedCall& call) { out[count++] = call.deliver(); });
  return static_cast<std::int64_t>(count);
}

std::size_t ClientCore::pending(const Completions& queue) {
  if (is_inherited()) {
    const std::lock_guard guard(refused_mutex_);
    const auto goes_there = [&](const StartedCall* call) { return &call->completions() == &queue; };
    return static_cast<std::size_t>(std::ranges::count_if(refused_, goes_there));
  }
  const Crew::Inside inside(crew_);
  return queue.pending();
}

void ClientCore::take_refused(Batch& batch) {
  const std::lock_guard guard(refused_mutex_);
  const std::size_t most = Batch::kMost - batch.count;
  take_refused_of(callbacks_, refused_, most, [&](StartedCall& call) { batch.add(call); });
}

// ---- beginning and end ----

async::Task<Status> ClientCore::start_task(async::TimePoint deadline) {
  if (auto done = co_await server_.connect(deadline); !done) co_return done;
  paths_.emplace(*server_.engine());
  co_return Status();
}

Status ClientCore::start(async::TimePoint deadline) {
  auto done = run<Status>({}, [&] { return start_task(deadline); });
  if (!done) return done;
  connected_ = true;
  // A trace would be hard to follow if several threads wrote to it.
  if (const std::uint32_t count = target_.options.shards; count != 0 && target_.options.trace.empty())
    shards_ = std::make_unique<Shards>(*this, server_, count, own_loop_ ? nullptr : &loop_);
  return start_keeper();
}

/// Closes the files that are open and ends the session. Without `waits_for_files` an answer to a CLOSE is
/// waited for no longer than kClosings.
async::Task<Status> ClientCore::say_goodbye(bool waits_for_files) {
  Status first;
  // The list is searched again each time, because callbacks run meanwhile, which open files and destroy them.
  const auto is_open = [](const FileCore* file) { return !file->is_closing(); };
  if (!waits_for_files) {
    for (FileCore* const file : files_) file->begin_closing();
  }
  for (;;) {
    const auto at = std::ranges::find_if(files_, is_open);
    if (at == files_.end()) break;
    auto done = co_await (*at)->end();
    if (!done && first) first = done;
  }
  // Files may be closing already: by start_close(), by a File destroyed in a callback, or by a close() that
  // was interrupted.
  const auto deadline = loop_.now() + kClosings;
  bool in_time = true;
  while (in_time && closing_files_ != 0) in_time = co_await files_closed_.wait_until(deadline);
  auto done = co_await server_.close(loop_.now() + kGoodbye);
  co_return first ? done : first;
}

Status ClientCore::disconnect() {
  return end(true, cancelled());
}

/// Cancels the calls of other threads, and those that were started.
void ClientCore::end_calls(const Error& why) {
  const Crew::Inside inside(crew_);
  if (shards_) shards_->shut_down();
  for (Blocked* const one : blocked_) {
    if (!one->cancelled) one->cancelled = one->drop();
  }
  for (Calls* const calls : all_calls()) calls->cancel_all(why);
  loop_.end_turn();
}

/// While a Disconnecting lives, other threads that disconnect wait. Its thread is inside when it begins, and not when it ends:
/// then the connections are shut down.
class ClientCore::Disconnecting {
 public:
  explicit Disconnecting(ClientCore& client) : client_(client) { client.disconnecting_ = true; }
  ~Disconnecting() {
    const Crew::Inside inside(client_.crew_);
    client_.server_.shut_down();
    client_.disconnecting_ = false;
  }
  Disconnecting(const Disconnecting&) = delete;
  Disconnecting& operator=(const Disconnecting&) = delete;

 private:
  ClientCore& client_;
};

/// Ends the session. If another thread is doing so, waits until that thread has done it.
Status ClientCore::end(bool waits_for_files, const Error& why) {
  if (is_inherited()) return inherited();
  std::optional<Disconnecting> until_the_end;
  {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return called_from_log();
    if (!std::exchange(connected_, false)) {
      (void)crew_.wait([this] { return !disconnecting_; });
      return {};
    }
    until_the_end.emplace(*this);
  }
  stop_keeper();
  end_calls(why);
  return run<Status>({}, [&] { return say_goodbye(waits_for_files); });
}

// ---- the keeper ----

Status ClientCore::start_keeper() {
  if (!own_loop_) return {};
  try {
    const async::AllSignalsBlocked blocked;
    keeper_ = std::thread([this] { keep(); });
  } catch (const std::system_error& failed) {
    return Error(ErrorKind::local, failed.code().value(), "connect", target_.host,
                 "no thread could be created to renew the lease (" + failed.code().message() +
                     "); end some, or raise the limit: ulimit -u, or TasksMax= of the service");
  }
  return {};
}

void ClientCore::stop_keeper() {
  keeper_stop_.set();
  if (keeper_.joinable()) keeper_.join();
}

void ClientCore::tell_keeper() {
  if (crew_.led() || loop_.due() >= keeper_looks_) return;
  keeper_looks_ = {};  // one wake-up is enough
  keeper_wake_.set();
}

void ClientCore::keep() {
  std::array<pollfd, 3> fds{{{keeper_stop_.descriptor(), POLLIN, 0},
                             {keeper_wake_.descriptor(), POLLIN, 0},
                             {loop_.descriptor(), POLLIN, 0}}};
  // While users are inside, they run the loop and may be polling its descriptor, so the keeper only looks now
  // and then.
  bool users_inside = false;
  for (milliseconds pause = kKeeperLook;;) {
    ::poll(fds.data(), users_inside ? 1 : fds.size(), static_cast<int>(pause.count()));
    if (fds[0].revents != 0) return;
    const Crew::Inside inside(crew_, std::try_to_lock);
    users_inside = !inside || crew_.led() || (polled_ && loop_.now() - serviced_ < 2 * longest_pause());
    pause = kKeeperLook;
    if (users_inside) continue;
    keeper_wake_.clear();
    interrupted_ = false;
    try {
      while (loop_.turn(async::TimePoint::min())) {
        if (interrupted_) break;  // the interrupt descriptor stays readable
      }
    } catch (const std::exception& failure) {
      // The loop goes on, because a lack of memory may pass. Calls that have lost an answer by it end by their deadlines.
      notice(failure.what());
    }
    const auto due = std::chrono::ceil<milliseconds>(loop_.next_timer() - loop_.now());
    // The lease is read each time, because a restarted server may have another one.
    const milliseconds lease = server_.lease();
    pause = std::clamp(due, kKeeperLook, std::max(kKeeperLook, lease / 8));
    if (interrupted_) {
      // The loop's descriptor stays readable with the interrupt descriptor, so polling it would spin. The
      // keeper looks at short intervals instead, because started calls go on.
      users_inside = true;
      pause = kKeeperLook;
    }
    keeper_looks_ = loop_.now() + pause;
  }
}

// ---- calls ----

void ClientCore::begin(StartedCall& call, Calls& calls, const How& how) {
  call.over_ = false;
  call.why_.reset();
  call.how_ = how;
  if (how.path != nullptr) {
    call.path_ = *how.path;
    call.how_.path = &call.path_;
  }
  call.to_ = how.queue != nullptr ? how.queue : &callbacks_;
  call.to_->expect();
  calls.add(call);
  if (how.timeout.count() == 0) return;
  call.timer_ = loop_.at(later(how.timeout), [&call] {
    call.timer_ = 0;
    call.cancel(call.client_.late(call.how_));
  });
}

void ClientCore::begun(const StartedCall& call, bool nested) {
  Completions& to = call.completions();
  // Threads that wait do not know that there is something to send.
  if (!nested && (!call.how().more || crew_.led())) loop_.end_turn();
  to.settle(loop_);
  tell_keeper();
}

void ClientCore::submit() {
  if (is_inherited()) return;
  const Crew::Inside inside(crew_);
  if (!inside.nested()) loop_.end_turn();
}

std::size_t ClientCore::cancel(std::uint64_t tag) {
  if (is_inherited()) return 0;
  const Crew::Inside inside(crew_);
  if (inside.nested()) return 0;
  const UserScope scope(*this);
  std::size_t count = 0;
  for (Blocked* const one : blocked_) {
    if (!one->how.has_tag || one->how.tag != tag || one->cancelled) continue;
    one->cancelled = one->drop();
    if (one->cancelled) ++count;
  }
  const auto has_tag = [tag](const StartedCall& call) { return call.how().tag == tag; };
  for (Calls* const calls : all_calls()) count += calls->cancel_if(has_tag, cancelled());
  if (shards_) count += shards_->cancel(tag);
  loop_.end_turn();
  return count;
}

void ClientCore::cancel_all(Completions& queue) {
  if (is_inherited()) return;
  const Crew::Inside inside(crew_);
  const UserScope scope(*this);
  const auto goes_there = [&](const StartedCall& call) { return &call.completions() == &queue; };
  for (Calls* const calls : all_calls()) (void)calls->cancel_if(goes_there, cancelled());
  queue.clear();
  if (!inside.nested()) loop_.end_turn();  // sends the CLOSEs of the files that were in the queue
}

/// Returns the calls of the client and of all its objects.
std::vector<Calls*> ClientCore::all_calls() const {
  std::vector<Calls*> out = others_;
  for (FileCore* const file : files_) out.push_back(&file->calls());
  return out;
}

// ---- completions ----

/// Returns the time `most` from now, or TimePoint::max() if the clock ends before that.
async::TimePoint ClientCore::later(milliseconds most) const {
  const async::TimePoint now = loop_.now();
  const auto left = std::chrono::floor<milliseconds>(async::TimePoint::max() - now);
  return most < left ? now + std::max(most, milliseconds(0)) : async::TimePoint::max();
}

/// Does what is due, without waiting. If a thread waits in the crew, that thread runs the loop.
void ClientCore::turns() {
  for (unsigned i = 0; i < kMostTurns && !crew_.led() && loop_.turn(async::TimePoint::min()); ++i) {
  }
  serviced_ = loop_.now();
}

namespace {
/// While a Receiving lives, a thread takes the completions of the queue. What the loop runs may throw.
class Receiving {
 public:
  explicit Receiving(Completions& queue) : queue_(queue) { queue_.set_receiving(true); }
  ~Receiving() { queue_.set_receiving(false); }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

 private:
  Completions& queue_;
};
}  // namespace

std::int64_t ClientCore::reap(Completions& queue, std::span<nfsrdma_completion> out, std::size_t least,
                              milliseconds most) {
  if (is_inherited()) return reap_refused(queue, out);
  const Crew::Inside inside(crew_);
  if (inside.nested()) return 0;
  const UserScope scope(*this);
  std::size_t count = 0;
  {
    const Receiving receiving(queue);
    loop_.end_turn();
    least = std::min(least, out.size());
    const auto over = [&] { return queue.count() >= least || queue.count() == queue.pending(); };
    if (most.count() == 0 || least == 0) {
      if (queue.count() < std::max<std::size_t>(least, 1)) turns();
    } else {
      (void)crew_.wait(over, later(most));
      serviced_ = loop_.now();
    }
    for (; count < out.size() && !queue.empty(); ++count) {
      StartedCall& call = queue.take();
      out[count] = call.deliver();
      call.release();
    }
  }
  queue.settle(loop_);
  return static_cast<std::int64_t>(count);
}

/// Takes callbacks that are due. The caller is inside.
void ClientCore::take_due(Batch& batch) {
  while (!callbacks_.empty() && !batch.is_full()) {
    StartedCall& call = callbacks_.take();
    batch.add(call);
    call.release();
  }
  callbacks_.settle(loop_);
}

thread_local ClientCore::Running* ClientCore::Running::innermost = nullptr;

/// Runs the callbacks. The caller is not inside. Returns false in a process that a callback has forked.
bool ClientCore::run(Batch& batch) {
  const bool was_inherited = is_inherited();
  const Running running(batch);
  while (batch.next < batch.count) {
    const Callback& one = batch.callbacks[batch.next++];
    one.done(one.data, &one.completion);
    nfsrdma_error_free(one.completion.error);
    if (is_inherited() && !was_inherited) return false;
  }
  return true;
}

/// Runs what is left of a batch whose callback is running on this thread and has called wait() or service().
/// Returns true if there was something.
bool ClientCore::run_rest_of_outer_batch() {
  for (const Running* one = Running::innermost; one != nullptr; one = one->outer) {
    Batch& batch = one->batch;
    if (batch.client != this || batch.next == batch.count) continue;
    (void)run(batch);
    return true;
  }
  return false;
}

/// Runs the callbacks of `batch`, and all that are due after it. Returns true if there were any.
bool ClientCore::run_due(Batch& batch) {
  bool any = false;
  while (batch.count != 0) {
    any = true;
    const bool is_last = !batch.is_full();
    if (!run(batch) || is_last) break;
    batch.count = batch.next = 0;
    if (is_inherited()) {
      take_refused(batch);
    } else {
      const Crew::Inside inside(crew_);
      take_due(batch);
    }
  }
  return any;
}

bool ClientCore::wait(milliseconds most, std::span<const int> also) {
  if (run_rest_of_outer_batch()) return true;
  bool happened = false;
  Batch batch(this);
  if (is_inherited()) {
    take_refused(batch);
  } else {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return false;
    const UserScope scope(*this);
    std::vector<int> others(also.begin(), also.end());
    std::erase(others, interrupt_fd_);  // the loop itself watches this one
    loop_.end_turn();
    {
      const Receiving receiving(callbacks_);
      happened = crew_.wait([&] { return !callbacks_.empty(); }, later(most), others);
    }
    if (is_inherited()) return false;
    take_due(batch);
  }
  return run_due(batch) || happened;
}

void ClientCore::service() {
  if (run_rest_of_outer_batch()) return;
  Batch batch(this);
  if (is_inherited()) {
    take_refused(batch);
  } else {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return;
    const UserScope scope(*this);
    loop_.end_turn();
    {
      const Receiving receiving(callbacks_);
      turns();
    }
    take_due(batch);
  }
  (void)run_due(batch);
}

/// Longest pause between the visits of a program that polls. If the program stays away for twice as long, the
/// keeper runs the loop.
milliseconds ClientCore::longest_pause() {
  const milliseconds lease = server_.lease();
  return std::min<milliseconds>(500ms, lease / 8);
}

int ClientCore::descriptor(Completions& queue) {
  if (is_inherited()) return -1;
  const Crew::Inside inside(crew_);
  polled_ = true;
  serviced_ = loop_.now();
  try {
    return queue.descriptor(loop_);
  } catch (const std::system_error&) {
    return -1;
  }
}

Info ClientCore::info() {
  if (is_inherited()) return {};
  const Crew::Inside inside(crew_);
  Info out = server_.info();
  if (shards_) {
    out.shards = static_cast<std::uint32_t>(shards_->working());
    shards_->add_totals(out);
  }
  return out;
}

}  // namespace nfsrdma::api
