#include "aux/lockd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "async/backoff.h"
#include "aux/local_address.h"
#include "aux/nlm_widths.h"
#include "aux/rpcbind.h"
#include "fabric/address.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using Verdict = engine::LockManager::Verdict;

constexpr std::array<Transport, 2> kLockTransports{Transport::tcp, Transport::udp};
constexpr std::uint32_t kMostCalls = 8, kMostTold = 8;
constexpr async::Clock::duration kFirstPause = 200ms, kLongestPause = 5s;
constexpr async::Clock::duration kRegistrationTime = 3s;

netobj random_handle(async::Loop& loop) {
  netobj out;
  out.value.resize(16);
  loop.random(out.value);
  return out;
}

std::string own_name(const std::string& host, const netobj& own) {
  std::array<char, 16> suffix{};
  (void)std::snprintf(suffix.data(), suffix.size(), "-nfs-%02x%02x%02x%02x",
                      std::to_integer<unsigned>(own.value[0]), std::to_integer<unsigned>(own.value[1]),
                      std::to_integer<unsigned>(own.value[2]), std::to_integer<unsigned>(own.value[3]));
  return host + suffix.data();
}

Error lock_error(nlm4_stats status, const char* what, const std::string& server) {
  const auto make = [&](int errno_value, const char* text) {
    return Error(ErrorKind::server, errno_value, status, what, server, text);
  };
  switch (status) {
    case NLM4_DENIED_NOLOCKS:
      return make(
          ENOLCK,
          "the server's lock service cannot grant locks; check that rpc.statd runs there, and see its log");
    case NLM4_DEADLCK:
      return make(EDEADLK, "waiting for this lock would cause a deadlock");
    case NLM4_ROFS:
      return make(EROFS, "the server's file system is read-only");
    case NLM4_STALE_FH:
      return make(ESTALE, "the server no longer knows the file");
    case NLM4_DENIED_GRACE_PERIOD:
      return make(
          EAGAIN,
          "the server has restarted and processes no lock requests until its grace period ends; try again");
    case NLM4_FBIG:
      return make(EFBIG, "the range ends beyond the last offset that the server can lock");
    default:
      return make(ENOLCK, "the server's lock service failed; see its log");
  }
}

std::vector<std::byte> bytes_of(const engine::FileHandle& file) {
  const xdr::ConstBytes bytes = file.view();
  return {bytes.begin(), bytes.end()};
}

/// Returns a name for each path to the server: its address, this machine's address towards it, and "-v2" for
/// NFSv2. The server keeps locks by client address, and Linux also by NLM version.
std::vector<std::string> ways_to(const LockdOptions& options) {
  std::vector<std::string> out;
  for (const rpc::Address& server : options.addresses) {
    auto local = local_address_towards(server);
    out.push_back(fabric::host_text(server.storage) + "-" +
                  (local ? fabric::host_text(local->storage) : std::string()) +
                  (options.nfs_version == 2 ? "-v2" : ""));
  }
  return out;
}

std::vector<std::uint32_t> versions_for(const LockdOptions& options) {
  if (options.nlm_version != 0) return {options.nlm_version};
  if (options.nfs_version == 2) return {1, 3};
  return {4};
}

async::Task<Result<Remote>> find_service(async::Loop& loop, std::vector<rpc::Address> addresses,
                                         std::string server, std::uint32_t program, std::uint32_t version,
                                         std::uint16_t port, std::uint16_t rpcbind_port,
                                         async::TimePoint deadline) {
  std::optional<Error> first;
  for (const rpc::Address& address : addresses) {
    if (port != 0) co_return Remote{with_port(address, port), server, Transport::tcp};
    for (const Transport transport : kLockTransports) {
      const Service service{program, version, transport == Transport::tcp ? Wire::tcp : Wire::udp};
      auto found = co_await find_port(loop, address, server, service, deadline, rpcbind_port);
      if (found && *found) co_return Remote{with_port(address, **found), server, transport};
      if (!found && !first) first = found.error();
      if (!found) break;  // no rpcbind answers, so another transport need not be tried
    }
  }
  if (first) co_return *first;
  co_return Error(ErrorKind::server, EPROTONOSUPPORT, "lock", server,
                  "the server's rpcbind does not list the lock service; check that lockd and rpc.statd run "
                  "there, or mount with local_lock=all, which keeps locks local to this machine");
}

}  // namespace

/// Marks a question about an owner's locks as in flight, for as long as it lives.
class Lockd::Asking {
 public:
  Asking(Lockd& all, const LockOwner& who) : lockd_(all), place_(all.asking_.insert(who)) {}
  ~Asking() { lockd_.asking_.erase(place_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  Lockd& lockd_;
  const std::multiset<LockOwner>::iterator place_;
};

Lockd::Lockd(async::Loop& loop, LockdOptions options)
    : loop_(loop),
      options_(std::move(options)),
      own_(random_handle(loop)),
      caller_name_(own_name(options_.host, own_)),
      version_(versions_for(options_).front()),
      next_svid_(loop.random<std::uint32_t>()),
      places_(loop, kMostCalls),
      ways_(ways_to(options_)),
      records_(options_.records, ways_.front(), own_),
      calls_([this](const nlm4_testargs& what) { return given(what); },
             [this](nlm_res answer) { background_.spawn(tell(std::move(answer))); }),
      telling_(loop, kMostTold),
      listening_(loop),
      background_(loop) {}

// ---- calls ----

async::Task<Result<Remote>> Lockd::reach(async::TimePoint deadline) {
  if (!remote_) {
    std::optional<Error> error;
    for (const std::uint32_t version : versions_for(options_)) {
      auto found = co_await find_service(loop_, options_.addresses, options_.server, kNlmProgram, version,
                                         options_.port, options_.rpcbind_port, deadline);
      if (found) {
        remote_ = std::move(*found);
        remote_->kept = keep_connections();
        version_ = version;
        break;
      }
      if (!error) error = found.error();
      if (found.error().errno_value() != EPROTONOSUPPORT) break;
    }
    if (!remote_) co_return *error;
  }
  if (options_.port == 0) found_ = true;
  co_return *remote_;
}

namespace {
/// Decodes the result of another NLM version into that of version 4.
template <class P, class Res>
bool decode_narrow(xdr::Decoder& in, Res& out) {
  typename P::Res narrow;
  if (!xdr::decode(in, narrow)) return false;
  out = widen(narrow);
  return true;
}
}  // namespace

template <template <std::uint32_t> class P>
async::Task<Status> Lockd::ask_once(Remote remote, security::Identity identity,
                                    const typename P<4>::Args& args, async::TimePoint deadline,
                                    typename P<4>::Res& res) {
  const std::uint32_t version = version_;
  RawCall call = version == 1   ? raw_call<P<1>>(narrow(args))
                 : version == 3 ? raw_call<P<3>>(narrow(args))
                                : raw_call<P<4>>(args);
  co_return co_await call_raw(loop_, std::move(remote), std::move(identity), std::move(call), deadline,
                              [&](xdr::Decoder& in) {
                                if (version == 1) return decode_narrow<P<1>>(in, res);
                                if (version == 3) return decode_narrow<P<3>>(in, res);
                                return xdr::decode(in, res);
                              });
}

template <template <std::uint32_t> class P>
async::Task<Result<typename P<4>::Res>> Lockd::ask(security::Caller caller, typename P<4>::Args args,
                                                   async::TimePoint deadline) {
  typename P<4>::Res res;
  auto done =
      co_await ask_until(caller ? *caller : options_.identity, P<4>::name, deadline,
                         [&](Remote remote, security::Identity identity, async::TimePoint latest) {
                           return ask_once<P>(std::move(remote), std::move(identity), args, latest, res);
                         });
  if (!done) co_return done.error();
  co_return std::move(res);
}

/// Repeats the call until the deadline: a server that restarts is away for a while, and then its lockd has
/// another port.
async::Task<Status> Lockd::ask_until(security::Identity identity, const char* what, async::TimePoint deadline,
                                     AskOnce once) {
  const async::TimePoint began = loop_.now();
  for (async::Backoff pause(kFirstPause, kLongestPause);;) {
    bool in_time = true;
    if (places_.must_wait()) in_time = co_await places_.wait(deadline);
    if (!in_time) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, what, options_.server,
                      "earlier requests to the lock service have not been answered yet");
    }
    const auto latest = std::min(deadline, loop_.now() + options_.call_timeout);
    std::optional<Error> error;
    {
      const async::Places::Place place(places_);
      auto remote = co_await reach(latest);
      if (remote) {
        auto asked = co_await once(*remote, identity, latest);
        if (asked) {
          found_ = true;
          co_return asked;
        }
        error = asked.error();
      } else {
        error = remote.error();
      }
    }
    const bool gone =
        error->kind() == ErrorKind::connection || (found_ && error->errno_value() == EPROTONOSUPPORT);
    // If lockd was never reached, the search ends sooner than for one that restarts.
    const bool refused = error->errno_value() == ECONNREFUSED && loop_.now() - began >= options_.first_search;
    if (!found_ && (refused || error->errno_value() == EPROTONOSUPPORT)) {
      co_return Error(ErrorKind::server, ENOLCK, what, options_.server, error->text());
    }
    if (!gone) co_return *error;
    remote_.reset();
    const async::TimePoint next = loop_.now() + pause.take();
    if (next >= deadline) co_return *error;
    co_await loop_.sleep_until(next);
  }
}

// ---- locks on the wire ----

std::int32_t Lockd::svid_of(std::uint64_t owner) {
  const auto known = svids_.find(owner);
  if (known != svids_.end()) return known->second;
  constexpr std::uint32_t kUpperHalf = 0x40000000;
  std::int32_t number = 0;
  do {
    number = static_cast<std::int32_t>(kUpperHalf | (next_svid_++ & (kUpperHalf - 1)));
  } while (owners_.contains(number));
  svids_.emplace(owner, number);
  owners_.emplace(number, owner);
  return number;
}

/// Forgets the owner's svid, unless the owner may hold a lock or has a question in flight. Numbers are not
/// used again.
void Lockd::drop_svid(std::uint64_t owner) {
  const auto found = svids_.find(owner);
  if (found == svids_.end()) return;
  const std::int32_t number = found->second;
  const auto asking = asking_.lower_bound(LockOwner{number, {}});
  const bool asks = asking != asking_.end() && asking->svid == number;
  if (records_.has(number) || asks) return;
  owners_.erase(number);
  svids_.erase(found);
}

void Lockd::record(const Question& question, const std::string& caller_name) {
  records_.add(lock_owner_of(question),
               {caller_name, question.caller ? *question.caller : options_.identity});
}

void Lockd::forget(const engine::FileHandle& file, std::uint64_t owner) {
  const auto svid = svids_.find(owner);
  if (svid == svids_.end()) return;
  records_.remove({svid->second, bytes_of(file)});
  drop_svid(owner);
}

std::optional<std::uint64_t> Lockd::own_number(const nlm4_holder& holder) const {
  // Linux returns no oh.
  if (!holder.oh.value.empty() && holder.oh.value != own_.value) return std::nullopt;
  const auto found = owners_.find(holder.svid);
  if (found == owners_.end()) return std::nullopt;
  return found->second;
}

nlm4_lock Lockd::to_wire(const Question& question) {
  nlm4_lock out;
  out.caller_name.value = caller_name_;
  out.fh.value = bytes_of(question.file);
  out.oh = own_;
  out.svid = svid_of(question.lock.owner);
  const LockRange& range = question.lock.range;
  out.l_offset = range.offset;
  out.l_len = range.end() == LockRange::kToTheEnd ? 0 : range.length;
  return out;
}

/// Returns false if the range begins beyond what NFSv2 can address, where no file has bytes.
bool Lockd::reaches(const LockRange& range) const {
  return options_.nfs_version != 2 || range.offset <= kNarrowOffsets;
}

async::Task<Result<std::optional<LockHolder>>> Lockd::test(Question question, async::TimePoint deadline) {
  if (!reaches(question.lock.range)) co_return std::optional<LockHolder>();
  nlm4_testargs args;
  args.exclusive = question.lock.write;
  args.alock = to_wire(question);
  auto answer = co_await ask<NLM_TEST>(question.caller, std::move(args), deadline);
  struct Dropped {
    Lockd& lockd;
    std::uint64_t owner;
    ~Dropped() { lockd.drop_svid(owner); }
  };
  const Dropped dropped{*this, question.lock.owner};
  if (!answer) co_return answer.error();
  const nlm4_stats status = answer->stat.tag();
  if (status == NLM4_GRANTED) co_return std::optional<LockHolder>();
  const nlm4_holder* holder = answer->stat.get<NLM4_DENIED>();
  if (holder == nullptr) co_return lock_error(status, "NLM_TEST", options_.server);
  LockHolder out;
  out.range = {holder->l_offset, holder->l_len == 0 ? LockRange::kToTheEnd : holder->l_len};
  out.write = holder->exclusive;
  if (const auto own = own_number(*holder)) {
    out.ours = true;
    out.owner = *own;
  }
  co_return std::optional(out);
}

async::Task<Result<Verdict>> Lockd::lock_once(Question question, async::TimePoint deadline,
                                              std::string caller_name, nlm4_stats* status) {
  nlm4_lockargs args;
  const LockOwner by = lock_owner_of(question);
  const Asking asking(*this, by);
  stop_waiting(by, question.lock.range);
  const bool queues = question.when_given && server_ != nullptr;
  args.block = queues;
  record(question, caller_name);
  // Registered before the call, because NLM_GRANTED may arrive before its answer.
  if (queues) waiters_.emplace(by, Waiter{question.lock.range, question.when_given});
  args.exclusive = question.lock.write;
  args.alock = to_wire(question);
  args.alock.caller_name.value = std::move(caller_name);
  args.reclaim = question.reclaim;
  auto answer = co_await ask<NLM_LOCK>(question.caller, std::move(args), deadline);
  if (!answer) {
    // A request that the server refused is in no queue. If the answer was lost, the request may be queued
    // until cancel().
    if (answer.error().kind() == ErrorKind::server) stop_waiting(by, question.lock.range);
    co_return answer.error();
  }
  *status = answer->stat;
  if (answer->stat != NLM4_BLOCKED) stop_waiting(by, question.lock.range);
  switch (answer->stat) {
    case NLM4_GRANTED:
      co_return Verdict::granted;
    case NLM4_BLOCKED:
      co_return queues ? Verdict::queued : Verdict::denied;
    case NLM4_DENIED:
      co_return Verdict::denied;
    case NLM4_DENIED_GRACE_PERIOD:
      co_return Verdict::grace;
    default:
      co_return lock_error(answer->stat, "NLM_LOCK", options_.server);
  }
}

async::Task<Result<Verdict>> Lockd::lock(Question question, async::TimePoint deadline) {
  if (!reaches(question.lock.range)) co_return lock_error(NLM4_FBIG, "NLM_LOCK", options_.server);
  if (question.when_given) co_await listen();
  nlm4_stats status = NLM4_GRANTED;
  const std::string name = caller_name_;
  auto done = co_await lock_once(question, deadline, name, &status);
  if (status != NLM4_DENIED_NOLOCKS || name == options_.host) co_return done;
  // The server may want a name that it can look up. Another question in flight may have found that out before
  // this one.
  auto again = co_await lock_once(question, deadline, options_.host, &status);
  if (again) caller_name_ = options_.host;
  // The owner's earlier locks are held under the old name.
  if (!again && again.error().kind() == ErrorKind::server) record(question, name);
  co_return again;
}

async::Task<Status> Lockd::cancel(Question question, async::TimePoint deadline) {
  const LockOwner by = lock_owner_of(question);
  const Asking asking(*this, by);
  stop_waiting(by, question.lock.range);
  nlm4_cancargs args;
  args.block = true;
  args.exclusive = question.lock.write;
  args.alock = to_wire(question);
  auto answer = co_await ask<NLM_CANCEL>(question.caller, std::move(args), deadline);
  // The answer does not matter, because the caller does not wait for the lock any more.
  if (!answer) co_return answer.error();
  co_return Status();
}

async::Task<Result<Verdict>> Lockd::unlock(Question question, async::TimePoint deadline) {
  if (!reaches(question.lock.range)) co_return Verdict::granted;
  const Asking asking(*this, lock_owner_of(question));
  nlm4_unlockargs args;
  args.alock = to_wire(question);
  auto answer = co_await ask<NLM_UNLOCK>(question.caller, std::move(args), deadline);
  if (!answer) co_return answer.error();
  // A file that is gone has no locks.
  const bool gone = answer->stat == NLM4_STALE_FH;
  if (gone || answer->stat == NLM4_GRANTED) co_return Verdict::granted;
  if (answer->stat == NLM4_DENIED_GRACE_PERIOD) co_return Verdict::grace;
  co_return lock_error(answer->stat, "NLM_UNLOCK", options_.server);
}

async::Task<Result<std::uint32_t>> Lockd::server_state(async::TimePoint deadline) {
  const auto latest = std::min(deadline, loop_.now() + options_.call_timeout);
  auto statd = co_await find_service(loop_, options_.addresses, options_.server, kNsmProgram, 1,
                                     options_.nsm_port, options_.rpcbind_port, latest);
  if (!statd) co_return statd.error();
  sm_name args;
  args.mon_name.value = fabric::host_text(statd->address.storage);
  auto answer = co_await call<SM_STAT>(loop_, *statd, options_.identity, std::move(args), latest);
  if (!answer) co_return answer.error();
  if (answer->res_stat != 0) {
    co_return Error(ErrorKind::server, EOPNOTSUPP, "SM_STAT", options_.server,
                    "the server's statd does not report its state number");
  }
  co_return static_cast<std::uint32_t>(answer->state);
}

// ---- what was left behind ----

async::Task<Status> Lockd::settle_one(const LeftLocks& left, async::TimePoint deadline) {
  for (const auto& [owner, asker] : left.owners()) {
    nlm4_unlockargs args;
    args.alock.caller_name.value = asker.caller_name;
    args.alock.fh.value = owner.file;
    args.alock.oh = left.handle();
    args.alock.svid = owner.svid;
    const auto caller = std::make_shared<const security::Identity>(asker.identity);
    auto answer = co_await ask<NLM_UNLOCK>(caller, std::move(args), deadline);
    if (!answer) co_return answer.error();
    // These also count as unlocked: after a restart of the server, or the removal of the file, the locks are
    // gone.
    const nlm4_stats status = answer->stat;
    const bool gone = status == NLM4_GRANTED || status == NLM4_DENIED_GRACE_PERIOD || status == NLM4_STALE_FH;
    if (!gone) co_return lock_error(status, "NLM_UNLOCK", options_.server);
  }
  co_return Status();
}

async::Task<Result<std::size_t>> Lockd::settle(async::TimePoint deadline) {
  std::size_t count = 0;
  std::optional<Error> error;
  if (options_.records.empty()) co_return count;
  auto all = left_locks(options_.records, ways_);
  for (LeftLocks& left : all) {
    auto done = co_await settle_one(left, deadline);
    if (!done) error = done.error();
    if (!done) continue;
    count += left.owners().size();
    left.forget();
  }
  if (error) co_return *error;
  co_return count;
}

// ---- the server's calls ----

Service Lockd::place() const {
  return {kNlmProgram, version_, Wire::tcp};
}

LockOwner Lockd::lock_owner_of(const Question& question) {
  return {svid_of(question.lock.owner), bytes_of(question.file)};
}

void Lockd::stop_waiting(const LockOwner& by, const LockRange& range) {
  const auto [begin, end] = waiters_.equal_range(by);
  for (auto at = begin; at != end; ++at) {
    if (at->second.range != range) continue;
    waiters_.erase(at);
    return;
  }
}

/// Handles NLM_GRANTED: each waiter for the lock asks the server again.
bool Lockd::given(const nlm4_testargs& what) {
  if (what.alock.oh.value != own_.value) return false;
  const LockOwner by{what.alock.svid, what.alock.fh.value};
  const auto [begin, end] = waiters_.equal_range(by);
  for (auto at = begin; at != end; ++at) at->second.call();
  // If a question about the owner is in flight, the lock counts as wanted: it may be a repeated request or an
  // unlock, whose answer decides.
  return begin != end || asking_.contains(by);
}

/// Sends NLM_GRANTED_RES. If too many are in flight, or the call fails, nothing is sent: the server calls
/// again, and a waiter asks again from time to time anyway.
async::Task<void> Lockd::tell(nlm_res answer) {
  if (telling_.must_wait()) co_return;
  const async::Places::Place place(telling_);
  const auto latest = loop_.now() + options_.call_timeout;
  auto remote = co_await reach(latest);
  if (!remote) co_return;
  NLM_GRANTED_RES<4>::Res none;
  auto done = co_await ask_once<NLM_GRANTED_RES>(*remote, options_.identity, answer, latest, none);
}

async::Task<Status> Lockd::try_to_listen() {
  const int family = options_.addresses.front().storage.ss_family;
  RecordServerOptions options;
  options.local.storage.ss_family = static_cast<sa_family_t>(family);
  options.local.length = options_.addresses.front().length;
  auto server = RecordServer::listen(loop_, options, [this](xdr::ConstBytes call, xdr::Message& reply) {
    return calls_.answer(call, reply);
  });
  if (!server) co_return server.error();
  if (!options_.registers) {
    server_ = std::move(*server);
    co_return Status();
  }
  auto taken =
      co_await Registration::take(loop_, place(), (*server)->address(), loop_.now() + kRegistrationTime);
  if (!taken) co_return taken.error();
  server_ = std::move(*server);
  place_ = std::move(*taken);
  co_return Status();
}

/// Tries once to listen and to register.
async::Task<void> Lockd::listen() {
  if (!options_.listens || tried_) co_return;
  const async::Mutex::Lock turn = co_await listening_.lock();
  if (tried_) co_return;
  // Reaching lockd determines the NLM version, and so the version that is registered.
  auto there = co_await reach(loop_.now() + kRegistrationTime);
  auto done = co_await try_to_listen();
  tried_ = true;
  why_not_.reset();
  if (!done) why_not_ = done.error();
}

async::Task<void> Lockd::look_now() {
  const int family = options_.addresses.front().storage.ss_family;
  auto found = co_await Registration::look(loop_, place(), family, loop_.now() + kRegistrationTime);
  if (tried_) co_return;
  looked_ = true;
  if (!found) why_not_ = found.error();
}

void Lockd::look() {
  if (options_.listens && options_.registers) background_.spawn(look_now());
}

std::string Lockd::how() const {
  std::string version = "NLM " + std::to_string(version_);
  if (!options_.listens || (!tried_ && !looked_)) return version;
  if (!why_not_) return version + "; the server calls back when it grants a lock";
  return version + "; waiting locks are polled: " + why_not_->message();
}

async::Task<void> Lockd::close(async::TimePoint deadline) {
  if (place_) co_await place_->give_up(std::min(deadline, loop_.now() + kRegistrationTime));
  place_.reset();
  server_.reset();
}

}  // namespace nfsrdma::aux
