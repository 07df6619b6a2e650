#include "responder/worker.h"

#include <sys/epoll.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace nfsrdma::bench {

Worker::Worker(const Answers::Server& server, unsigned number)
    : answers_(server, number), rdma_(loop_, answers_), tcp_(loop_, answers_) {
  loop_.watch(arrivals_.descriptor(), EPOLLIN, [this](std::uint32_t) { take_all(); });
  loop_.watch(wake_.descriptor(), EPOLLIN, [](std::uint32_t) {});
}

Worker::~Worker() {
  stop();
  loop_.unwatch(wake_.descriptor());
  loop_.unwatch(arrivals_.descriptor());
}

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  ends_ = true;
  wake_.set();
  thread_.join();
}

void Worker::run() {
  try {
    while (!ends_) loop_.turn(async::TimePoint::max());
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "responder: %s\n", failed.what());
    std::_Exit(2);  // the other threads are in the middle of their work
  }
}

void Worker::give(std::unique_ptr<fabric::Incoming> incoming) {
  if (!thread_.joinable()) return rdma_.accept(std::move(incoming));
  if (incoming->move_to(loop_)) send(std::move(incoming));
}

void Worker::give(TcpSide::Client client) {
  if (!thread_.joinable()) return tcp_.take(std::move(client));
  send(std::move(client));
}

void Worker::send(Arrival arrival) {
  std::vector<Arrival> one;
  one.push_back(std::move(arrival));
  arrivals_.give(one);
}

void Worker::take_all() {
  std::vector<Arrival> all;
  arrivals_.take(all);
  for (Arrival& one : all) {
    if (auto* const incoming = std::get_if<std::unique_ptr<fabric::Incoming>>(&one)) {
      rdma_.accept(std::move(*incoming));
    } else {
      tcp_.take(std::move(std::get<TcpSide::Client>(one)));
    }
  }
}

}  // namespace nfsrdma::bench
