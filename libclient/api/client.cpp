#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "api/client_impl.h"
#include "async/helper.h"
#include "connect/exports.h"
#include "connect/resolve.h"

namespace nfsrdma {

Observer::~Observer() = default;
File::~File() = default;
Client::~Client() = default;

namespace {

/// Returns the target with its timeouts limited to a year, because they are added to clock times and
/// multiplied, and a program may pass milliseconds::max() for ever.
Target bounded(const Target& target) {
  constexpr std::chrono::milliseconds longest = std::chrono::years(1);
  Target out = target;
  for (std::chrono::milliseconds* time : {&out.options.timeout, &out.options.connect_timeout})
    *time = std::min(*time, longest);
  return out;
}

/// Returns what `make` returns for the bounded target. If no thread or descriptor is left, `make` throws; the
/// exception ends here and becomes an Error.
template <class R, class Make>
R within_limits(const Target& target, Make make) {
  try {
    return make(bounded(target));
  } catch (const std::system_error& failed) {
    return Error(ErrorKind::local, failed.code().value(), "connect", target.host,
                 "no file descriptor or thread is available for the connection (" + failed.code().message() +
                     "); close some, or raise the limits (ulimit -n, ulimit -u)");
  }
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const Target& wanted, Observer* observer, int interrupt) {
  using Connected = Result<std::unique_ptr<Client>>;
  return within_limits<Connected>(wanted, [&](const Target& target) -> Connected {
    const auto deadline = async::Clock::now() + target.options.connect_timeout;
    auto addresses = connect::resolve(target.host, target.options.port, deadline, interrupt);
    if (!addresses) return addresses.error();
    auto client = std::make_unique<api::ClientImpl>(target, *addresses, observer, interrupt);
    if (auto done = client->start(deadline); !done) return done.error();
    return std::unique_ptr<Client>(std::move(client));
  });
}

Result<std::vector<Export>> list_exports(const Target& wanted, int interrupt) {
  using Listed = Result<std::vector<Export>>;
  return within_limits<Listed>(wanted, [&](const Target& target) -> Listed {
    const auto deadline = async::Clock::now() + target.options.connect_timeout;
    auto listed = connect::list_exports(target, deadline, interrupt);
    if (!listed) return listed.error();
    std::vector<Export> out;
    for (aux::Export& one : *listed) out.push_back({std::move(one.path), std::move(one.clients)});
    return out;
  });
}

Result<std::vector<MountedBy>> list_mounts(const Target& wanted, int interrupt) {
  using Listed = Result<std::vector<MountedBy>>;
  return within_limits<Listed>(wanted, [&](const Target& target) -> Listed {
    const auto deadline = async::Clock::now() + target.options.connect_timeout;
    auto listed = connect::list_mounts(target, deadline, interrupt);
    if (!listed) return listed.error();
    std::vector<MountedBy> out;
    for (aux::MountedBy& one : *listed) out.push_back({std::move(one.client), std::move(one.path)});
    return out;
  });
}

namespace api {
namespace {

using namespace std::chrono_literals;

constexpr auto kGoodbye = 2s;
// Time for files that are being closed in the background, before kGoodbye begins.
constexpr auto kClosings = 1s;
constexpr std::chrono::milliseconds kKeeperLook = 20ms;
constexpr unsigned kMostTurns = 64;  // in one service()
}  // namespace

ClientImpl::ClientImpl(const Target& target, const std::vector<rpc::Address>& addresses, Observer* observer,
                       int interrupt, Setup setup)
    : NamesImpl(*this, std::nullopt),
      target_(target),
      observer_(observer),
      interrupt_fd_(interrupt),
      own_loop_(setup.loop != nullptr ? nullptr : std::make_unique<async::Loop>()),
      loop_(setup.loop != nullptr ? *setup.loop : *own_loop_),
      crew_(loop_, own_loop_ != nullptr),
      server_(
          loop_, target, addresses, [this](const std::string& text) { notice(text); }, setup.patience,
          std::move(setup.surroundings)) {
  watch_interrupt();
}

ClientImpl::~ClientImpl() {
  stop_keeper();
  {
    const Crew::Inside inside(crew_);
    loop_.unwatch(interrupt_fd_);
    started_.drop();
    loop_.end_turn();
  }
  (void)disconnect();
  const Crew::Inside inside(crew_);
  server_.shut_down();
  loop_.drop_tasks();
}

void ClientImpl::operator delete(ClientImpl* client, std::destroying_delete_t) {
  if (client->is_inherited()) return;
  client->~ClientImpl();
  ::operator delete(client);
}

void ClientImpl::notice(const std::string& text) {
  // Before the first connection, the Error that connect() returns says everything.
  if (!connected_) return;
  if (observer_ != nullptr) observer_->notice(text);
}

void ClientImpl::watch_interrupt() {
  if (interrupt_fd_ < 0) return;
  loop_.watch(interrupt_fd_, POLLIN, [this](std::uint32_t) {
    interrupted_ = true;
    crew_.interrupt();
  });
}

Error ClientImpl::interrupted() const {
  return {ErrorKind::cancelled, EINTR, "", target_.host, "interrupted"};
}

Error ClientImpl::called_from_callback() const {
  return {ErrorKind::usage, EDEADLK, "", target_.host,
          "a callback may not make blocking calls; start an asynchronous one"};
}

// ---- in a child of fork(2) ----

Error ClientImpl::inherited() const {
  return {ErrorKind::usage, ENOTCONN, "", target_.host,
          "the connection belongs to the parent process; connect again in the child process"};
}

void ClientImpl::tell_later(std::weak_ptr<const void> unless_gone, std::function<void()> callback) {
  const std::lock_guard guard(refused_mutex_);
  refused_.push_back({std::move(unless_gone), std::move(callback)});
}

/// Returns true if a callback ran.
bool ClientImpl::tell_refused() {
  std::vector<Refused> all;
  {
    const std::lock_guard guard(refused_mutex_);
    all.swap(refused_);
  }
  bool told = false;
  for (const Refused& one : all) {
    if (one.unless_gone.expired()) continue;
    one.callback();  // the callback may delete the object that the next one was started on
    told = true;
  }
  return told;
}

// ---- beginning and end ----

async::Task<Status> ClientImpl::start_task(async::TimePoint deadline) {
  if (auto done = co_await server_.connect(deadline); !done) co_return done;
  paths_.emplace(*server_.engine());
  co_return Status();
}

Status ClientImpl::start(async::TimePoint deadline) {
  auto done = run<Status>([&] { return start_task(deadline); });
  if (!done) return done;
  connected_ = true;
  return start_keeper();
}

async::Task<Status> ClientImpl::say_goodbye() {
  Status first;
  // The list is searched again each time, because callbacks run meanwhile, which open files and destroy them.
  const auto is_open = [](const FileImpl* file) { return !file->is_closing(); };
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

Status ClientImpl::disconnect() {
  if (is_inherited()) return inherited();
  {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return called_from_callback();
    if (!std::exchange(connected_, false)) return {};
  }
  stop_keeper();
  auto done = run<Status>([this] { return say_goodbye(); });
  const Crew::Inside inside(crew_);
  server_.shut_down();
  return done;
}

// ---- the keeper ----

Status ClientImpl::start_keeper() {
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

void ClientImpl::stop_keeper() {
  keeper_stop_.set();
  if (keeper_.joinable()) keeper_.join();
}

/// Called when a user's thread leaves. Wakes the keeper if no other thread leads and a timer is due before
/// the keeper looks next.
void ClientImpl::tell_keeper() {
  if (crew_.led() || loop_.next_timer() >= keeper_looks_) return;
  keeper_looks_ = {};  // one wake-up is enough
  keeper_wake_.set();
}

void ClientImpl::keep() {
  using std::chrono::milliseconds;
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
    keeping_ = true;  // callbacks wait for a user's thread meanwhile
    interrupted_ = false;
    while (loop_.turn(async::TimePoint::min())) {
      if (interrupted_) break;  // the interrupt descriptor stays readable
    }
    keeping_ = false;
    if (interrupted_) users_inside = true;  // do not spin on the interrupt descriptor
    const auto due = std::chrono::ceil<milliseconds>(loop_.next_timer() - loop_.now());
    // The lease is read each time, because a restarted server may have another one.
    const milliseconds lease = server_.lease();
    pause = std::clamp(due, kKeeperLook, std::max(kKeeperLook, lease / 8));
    keeper_looks_ = loop_.now() + pause;
  }
}

// ---- asynchronous calls ----

void Started::drop() {
  // Destroying a callback destroys what it holds, which may call drop() on other tasks.
  for (auto all = std::exchange(under_way_, {}); const auto& [key, task] : all) client_.loop().drop(task);
}

async::Task<void> ClientImpl::callback_time() {
  while (starting_ != 0 || keeping_) {
    if (keeping_) {
      co_await user_here_.wait_until(async::TimePoint::max());
    } else {
      co_await loop_.sleep_until(async::TimePoint::min());
    }
  }
}

/// Returns the time `most` from now, or TimePoint::max() if the clock ends before that.
async::TimePoint ClientImpl::later(std::chrono::milliseconds most) const {
  const async::TimePoint now = loop_.now();
  const auto left = std::chrono::floor<std::chrono::milliseconds>(async::TimePoint::max() - now);
  return most < left ? now + std::max(most, std::chrono::milliseconds(0)) : async::TimePoint::max();
}

bool ClientImpl::wait(std::chrono::milliseconds most, std::span<const int> also) {
  if (is_inherited()) return tell_refused();
  const Crew::Inside inside(crew_);
  if (inside.nested()) return false;
  const UserScope scope(*this);
  std::vector<int> others(also.begin(), also.end());
  std::erase(others, interrupt_fd_);  // the loop itself watches this one
  const std::uint64_t before = delivered_;
  loop_.end_turn();
  const auto delivered = [&] { return delivered_ != before; };
  return crew_.wait(delivered, later(most), others);
}

/// Longest pause between the service() calls of a program that polls. If the program stays away for twice as
/// long, the keeper runs the loop.
std::chrono::milliseconds ClientImpl::longest_pause() {
  const std::chrono::milliseconds lease = server_.lease();
  return std::min<std::chrono::milliseconds>(500ms, lease / 8);
}

int ClientImpl::descriptor() {
  if (is_inherited()) return -1;
  const Crew::Inside inside(crew_);
  polled_ = true;
  serviced_ = loop_.now();
  return loop_.descriptor();
}

std::chrono::milliseconds ClientImpl::service() {
  using std::chrono::milliseconds;
  if (is_inherited()) {
    (void)tell_refused();
    return milliseconds(500);
  }
  const Crew::Inside inside(crew_);
  if (inside.nested()) return milliseconds(0);
  const UserScope scope(*this);
  loop_.end_turn();
  // If a thread waits in the crew, that thread runs the loop.
  for (unsigned i = 0; i < kMostTurns && !crew_.led() && loop_.turn(async::TimePoint::min()); ++i) {
  }
  serviced_ = loop_.now();
  const async::Clock::duration left = loop_.due() - std::min(loop_.due(), serviced_);
  return std::chrono::ceil<milliseconds>(std::min<async::Clock::duration>(left, longest_pause()));
}

// ---- operations ----

Result<std::chrono::nanoseconds> ClientImpl::ping() {
  const auto before = async::Clock::now();  // not loop_.now(), which only a thread that is inside may call
  if (auto done = run<Status>([this] { return engine().ping(); }); !done) return done.error();
  return async::Clock::now() - before;
}

namespace {

std::vector<ids::Principal> wanted_by(std::span<const Attributes> all) {
  std::vector<ids::Principal> out;
  for (const Attributes& one : all) ids::IdNames::system().add_wanted(one, out);
  return out;
}

/// Looks up the numbers of these names. Names that cannot be resolved in time get no numbers.
async::Task<Status> learn(async::Loop& loop, std::vector<ids::Principal> wanted) {
  if (!wanted.empty()) co_await ids::IdNames::system().learn(loop, std::move(wanted));
  co_return Status();
}

}  // namespace

void ClientImpl::add_ids(std::span<Attributes> all) {
  if (is_inherited()) return;
  auto wanted = wanted_by(all);
  if (!wanted.empty()) (void)run<Status>([&] { return learn(loop_, std::move(wanted)); });
  for (Attributes& one : all) ids::IdNames::system().fill_in(one);
}

async::Task<Result<Attributes>> ClientImpl::with_ids(async::Loop& loop,
                                                     async::Task<Result<Attributes>> asked) {
  auto found = co_await std::move(asked);
  if (!found) co_return found;
  (void)co_await learn(loop, wanted_by(std::span(&*found, 1)));
  ids::IdNames::system().fill_in(*found);
  co_return found;
}

Info ClientImpl::info() {
  if (is_inherited()) return {};
  const Crew::Inside inside(crew_);
  return server_.info();
}

}  // namespace api
}  // namespace nfsrdma
