#include "api/started.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "api/client_core.h"
#include "api/clients.h"

namespace nfsrdma::api {

Result<How> How::from(const nfsrdma_call* call, const ClientCore& client, const SharedPath* path) {
  Result<How> out{How()};
  out->path = path;
  if (call == nullptr) return out;
  if (auto why = out->read(*call, client)) out = std::move(*why);
  return out;
}

std::optional<Error> How::read(const nfsrdma_call& call, const ClientCore& client) {
  nfsrdma_call given{};
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_call, flags);
  if (auto why = load("nfsrdma_call", &call, given, kShortest)) return why;
  if (given.timeout < 0) return missing("nfsrdma_call.timeout");
  if (auto why = unknown_flags(given.flags, NFSRDMA_MORE)) return why;
  if (given.queue != nullptr && &given.queue->client != &client) {
    return Error(ErrorKind::usage, EINVAL, "", client.target().host,
                 "the queue belongs to another client; use one that was made for this client");
  }
  constexpr std::int64_t kLongest = std::chrono::milliseconds(std::chrono::years(1)).count();
  queue = given.queue;
  done = given.done;
  data = given.data;
  tag = given.tag;
  timeout = std::chrono::milliseconds(std::min(given.timeout, kLongest));
  has_tag = true;
  more = (given.flags & NFSRDMA_MORE) != 0;
  return std::nullopt;
}

// ---- a call ----

void StartedCall::drop() {
  if (task_ != 0) client_.loop().drop(std::exchange(task_, 0));
}

void StartedCall::cancel(const Error& why) {
  if (over_) return;
  drop();
  why_ = why;
  ended();
}

void StartedCall::ended() {
  over_ = true;
  if (timer_ != 0) client_.loop().cancel(std::exchange(timer_, 0));
  unlink();
  to_->push(*this);
}

nfsrdma_completion StartedCall::deliver() {
  nfsrdma_completion out{how_.tag, -1, nullptr};
  try {
    auto result = why_ ? fail(*why_) : finish();
    if (result) {
      out.result = *result;
    } else {
      out.error = made(client_.on_its_path(result.error(), how_));
    }
  } catch (...) {
    out.error = made(from_exception());
  }
  return out;
}

// ---- completions ----

void Completions::clear() {
  while (!ended_.empty()) take().release();
}

void Completions::push(StartedCall& call) {
  ended_.push_back(call);
  ++count_;
  if (!receiving_) wake();
}

StartedCall& Completions::take() {
  StartedCall& out = ended_.front();
  ended_.pop_front();
  --count_;
  --pending_;
  return out;
}

void Completions::wake() {
  if (wake_ && !std::exchange(woken_, true)) wake_->set();
}

namespace {

async::Descriptor checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return async::Descriptor(fd);
}

}  // namespace

int Completions::descriptor(async::Loop& loop) {
  if (!poll_.is_valid()) {
    auto poll = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    auto timer = checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create");
    wake_.emplace();
    for (const int fd : {timer.get(), wake_->descriptor(), loop.descriptor()}) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = fd;
      if (::epoll_ctl(poll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
    timer_ = std::move(timer);
    poll_ = std::move(poll);
    settle(loop);
  }
  return poll_.get();
}

void Completions::settle_descriptor(async::Loop& loop) {
  const async::TimePoint due = loop.due();
  if (!empty() || due == async::TimePoint::min()) {
    wake();
  } else if (std::exchange(woken_, false)) {
    wake_->clear();
  }
  set_timer(loop.now(), due == async::TimePoint::min() ? async::TimePoint::max() : due);
}

/// Sets the timer for `due`, unless it will fire before that and be set again then.
void Completions::set_timer(async::TimePoint now, async::TimePoint due) {
  const bool fired = armed_ <= now;
  if (!fired && armed_ <= due) return;
  itimerspec when{};  // zeros stop the timer, and end its readability
  if (due != async::TimePoint::max()) {
    const auto left = std::max(due - now, async::Clock::duration(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    when.it_value = {seconds.count(), static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  armed_ = due;
}

}  // namespace nfsrdma::api
