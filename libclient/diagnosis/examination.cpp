#include "diagnosis/examination.h"

#include <cstdio>

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;

constexpr auto kFarewell = 2s;

/// Returns the target with an answer waited for no longer than a diagnosis has time for.
connect::Target impatient(connect::Target target) {
  target.options.timeout = std::min(target.options.timeout, kCallTime);
  return target;
}

}  // namespace

Examination::Examination(async::Loop& on, connect::Target to, Wanted asked, Means with)
    : loop(on),
      target(impatient(std::move(to))),
      wanted(std::move(asked)),
      means(std::move(with)),
      deadline(loop.now() + wanted.limit) {}

Examination::~Examination() {
  end();
}

async::Task<Status> Examination::open(const std::string& path) {
  connect::Target to = target;
  to.path = path;
  clients_.push_back(std::make_unique<connect::Server>(loop, to, addresses, connect::Server::NoticeSink(),
                                                       std::nullopt, means.around));
  connect::Server& client = *clients_.back();
  auto done = co_await client.connect(until(options().connect_timeout + kCallTime));
  if (!done) co_return done;
  server = &client;
  info = client.info();
  co_return done;
}

void Examination::end() {
  if (server != nullptr) (void)loop.run(server->close(loop.now() + kFarewell));
  server = nullptr;
  for (const auto& client : clients_) client->shut_down();
  if (channel) channel->shut_down();
  loop.drop_tasks();
  clients_.clear();
  channel.reset();
  knock.reset();
}

std::string comma_list(const std::vector<std::string>& words, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) out += (i == 0 ? "" : ", ") + words[i];
  return words.size() > most ? out + ", …" : out;
}

std::string text_of(std::chrono::nanoseconds time) {
  char text[32];
  const double ms = std::chrono::duration<double, std::milli>(time).count();
  std::snprintf(text, sizeof text, ms < 10 ? "%.3f ms" : "%.0f ms", ms);
  return text;
}

}  // namespace nfsrdma::diagnosis
