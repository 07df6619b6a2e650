#include "aux/lockd.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "async/backoff.h"
#include "async/until.h"
#include "aux/rpcbind.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using Verdict = engine::LockManager::Verdict;

constexpr std::array<Transport, 2> kLockTransports{Transport::tcp, Transport::udp};
constexpr int kMostCalls = 8;
constexpr async::Clock::duration kFirstPause = 200ms, kLongestPause = 5s;

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
      return make(ENOLCK,
                  "the server's lock service can give no lock; does rpc.statd run there? Its log says more");
    case NLM4_DEADLCK:
      return make(EDEADLK, "to wait for this lock would be a deadlock");
    case NLM4_ROFS:
      return make(EROFS, "the server's file system is read-only");
    case NLM4_STALE_FH:
      return make(ESTALE, "the server does not know the file any more");
    case NLM4_FBIG:
      return make(EFBIG, "the range ends behind what the server can lock");
    default:
      return make(ENOLCK, "the server's lock service failed; its log says more");
  }
}

std::string number_of(const rpc::Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto& storage = address.storage;
  const void* octets =
      storage.ss_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(storage).sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
  if (::inet_ntop(storage.ss_family, octets, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

async::Task<Result<Remote>> find_service(async::Loop& loop, std::vector<rpc::Address> addresses,
                                         std::string server, std::uint32_t program, std::uint32_t version,
                                         std::uint16_t port, async::TimePoint deadline) {
  std::optional<Error> first;
  for (const rpc::Address& address : addresses) {
    if (port != 0) co_return Remote{with_port(address, port), server, Transport::tcp};
    for (const Transport transport : kLockTransports) {
      const Service service{program, version, transport == Transport::tcp ? Wire::tcp : Wire::udp};
      auto found = co_await find_port(loop, address, server, service, deadline);
      if (found && *found) co_return Remote{with_port(address, **found), server, transport};
      if (!found && !first) first = found.error();
      if (!found) break;  // nobody is there whom one could ask about another transport
    }
  }
  if (first) co_return *first;
  co_return Error(ErrorKind::server, EPROTONOSUPPORT, "lock", server,
                  "the server's rpcbind does not know the service; do lockd and rpc.statd run there? With "
                  "local_lock=all locks are this machine's alone");
}

}  // namespace

Lockd::Lockd(async::Loop& loop, LockdOptions options)
    : loop_(loop),
      options_(std::move(options)),
      own_(random_handle(loop)),
      caller_name_(own_name(options_.host, own_)),
      next_svid_(loop.random<std::uint32_t>()),
      ended_(loop) {}

// ---- calls ----

async::Task<Result<Remote>> Lockd::reach(async::TimePoint deadline) {
  if (!remote_) {
    auto found = co_await find_service(loop_, options_.addresses, options_.server, kNlmProgram, 4,
                                       options_.port, deadline);
    if (!found) co_return found.error();
    remote_ = std::move(*found);
    remote_->kept = keep_connections();
  }
  found_ = true;
  co_return *remote_;
}

/// Tried until the deadline: a server that restarts is not there for a while, and its lockd then has another port.
template <class P>
async::Task<Result<typename P::Res>> Lockd::ask(security::Caller caller, typename P::Args args,
                                                async::TimePoint deadline) {
  const security::Identity identity = caller ? *caller : options_.identity;
  for (async::Backoff pause(kFirstPause, kLongestPause);;) {
    const bool free = co_await async::until(ended_, deadline, [this] { return under_way_ < kMostCalls; });
    if (!free) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, P::name, options_.server,
                      "other questions to the lock service have no answer yet");
    }
    const auto latest = std::min(deadline, loop_.now() + options_.call_timeout);
    std::optional<Error> error;
    {
      struct Place {
        explicit Place(Lockd& all) : lockd(all) { ++lockd.under_way_; }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        ~Place() {
          --lockd.under_way_;
          lockd.ended_.notify_one();
        }
        Lockd& lockd;
      };
      const Place place(*this);
      auto remote = co_await reach(latest);
      if (remote) {
        auto answer = co_await call<P>(loop_, *remote, identity, args, latest);
        if (answer) co_return std::move(*answer);
        error = answer.error();
      } else {
        error = remote.error();
      }
    }
    const bool gone =
        error->kind() == ErrorKind::connection || (found_ && error->errno_value() == EPROTONOSUPPORT);
    if (error->errno_value() == EPROTONOSUPPORT && !found_) {
      co_return Error(ErrorKind::server, ENOLCK, P::name, options_.server, error->text());
    }
    if (!gone) co_return *error;
    remote_.reset();
    const async::TimePoint next = loop_.now() + pause.take();
    if (next >= deadline) co_return *error;
    co_await loop_.sleep_until(next);
  }
}

// ---- what a lock is on the wire ----

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

std::optional<std::uint64_t> Lockd::own_number(const nlm4_holder& holder) const {
  // Linux gives no oh.
  if (!holder.oh.value.empty() && holder.oh.value != own_.value) return std::nullopt;
  const auto found = owners_.find(holder.svid);
  if (found == owners_.end()) return std::nullopt;
  return found->second;
}

nlm4_lock Lockd::to_wire(const Question& question) {
  nlm4_lock out;
  out.caller_name.value = caller_name_;
  const xdr::ConstBytes handle = question.file.view();
  out.fh.value.assign(handle.begin(), handle.end());
  out.oh = own_;
  out.svid = svid_of(question.lock.owner);
  const LockRange& range = question.lock.range;
  out.l_offset = range.offset;
  out.l_len = range.end() == LockRange::kToTheEnd ? 0 : range.length;
  return out;
}

async::Task<Result<std::optional<LockHolder>>> Lockd::test(Question question, async::TimePoint deadline) {
  nlm4_testargs args;
  args.exclusive = question.lock.write;
  args.alock = to_wire(question);
  auto answer = co_await ask<NLM4_TEST>(question.caller, std::move(args), deadline);
  if (!answer) co_return answer.error();
  const nlm4_stats status = answer->stat.tag();
  if (status == NLM4_GRANTED) co_return std::optional<LockHolder>();
  const nlm4_holder* holder = answer->stat.get<NLM4_DENIED>();
  if (holder == nullptr) co_return lock_error(status, "NLM4_TEST", options_.server);
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
                                              nlm4_stats* status) {
  nlm4_lockargs args;
  args.exclusive = question.lock.write;
  args.alock = to_wire(question);
  args.reclaim = question.reclaim;
  auto answer = co_await ask<NLM4_LOCK>(question.caller, std::move(args), deadline);
  if (!answer) co_return answer.error();
  *status = answer->stat;
  switch (answer->stat) {
    case NLM4_GRANTED:
      co_return Verdict::granted;
    case NLM4_DENIED:
    case NLM4_BLOCKED:
      co_return Verdict::denied;
    case NLM4_DENIED_GRACE_PERIOD:
      co_return Verdict::grace;
    default:
      co_return lock_error(answer->stat, "NLM4_LOCK", options_.server);
  }
}

async::Task<Result<Verdict>> Lockd::lock(Question question, async::TimePoint deadline) {
  nlm4_stats status = NLM4_GRANTED;
  auto done = co_await lock_once(question, deadline, &status);
  if (status != NLM4_DENIED_NOLOCKS || caller_name_ == options_.host) co_return done;
  // It may want a name that it can look up.
  const std::string before = std::exchange(caller_name_, options_.host);
  auto again = co_await lock_once(std::move(question), deadline, &status);
  if (!again) caller_name_ = before;
  co_return again;
}

async::Task<Result<Verdict>> Lockd::unlock(Question question, async::TimePoint deadline) {
  nlm4_unlockargs args;
  args.alock = to_wire(question);
  auto answer = co_await ask<NLM4_UNLOCK>(question.caller, std::move(args), deadline);
  if (!answer) co_return answer.error();
  if (answer->stat == NLM4_GRANTED) co_return Verdict::granted;
  if (answer->stat == NLM4_DENIED_GRACE_PERIOD) co_return Verdict::grace;
  co_return lock_error(answer->stat, "NLM4_UNLOCK", options_.server);
}

async::Task<Result<std::uint32_t>> Lockd::server_state(async::TimePoint deadline) {
  const auto latest = std::min(deadline, loop_.now() + options_.call_timeout);
  auto statd = co_await find_service(loop_, options_.addresses, options_.server, kNsmProgram, 1,
                                     options_.nsm_port, latest);
  if (!statd) co_return statd.error();
  sm_name args;
  args.mon_name.value = number_of(statd->address);
  auto answer = co_await call<SM_STAT>(loop_, *statd, options_.identity, std::move(args), latest);
  if (!answer) co_return answer.error();
  if (answer->res_stat != 0) {
    co_return Error(ErrorKind::server, EOPNOTSUPP, "SM_STAT", options_.server,
                    "the server does not tell its state number");
  }
  co_return static_cast<std::uint32_t>(answer->state);
}

}  // namespace nfsrdma::aux
