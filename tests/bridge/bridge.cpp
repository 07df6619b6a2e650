#include "bridge/bridge.h"

#include <utility>

namespace nfsrdma::bridge {

Bridge::Bridge(async::Loop& loop, const BridgeOptions& options, Log log)
    : loop_(loop), options_(options), log_(std::move(log)), faults_(options.faults, options.seed) {}

Status Bridge::start() {
  ListenOptions fabric = options_.fabric;
  fabric.queues = queues_of(options_.session);
  auto made = listen(loop_, fabric, options_.listen,
                     [this](std::unique_ptr<fabric::Incoming> incoming) { take(std::move(incoming)); });
  if (!made) return made.error();
  listener_ = std::move(*made);
  return {};
}

void Bridge::take(std::unique_ptr<fabric::Incoming> incoming) {
  const unsigned number = ++connections_;
  const auto log = [this, number](const std::string& text) {
    log_("#" + std::to_string(number) + " " + text);
  };
  log("from " + incoming->peer_name());
  auto session = std::make_unique<Session>(loop_, options_.session, faults_, log);
  const auto ended = [this, number] {
    const auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    calls_ += found->second->calls();
    sessions_.erase(found);
  };
  if (session->start(*incoming, options_.server, ended)) sessions_.emplace(number, std::move(session));
}

std::string Bridge::summary() const {
  std::uint64_t calls = calls_;
  for (const auto& [number, session] : sessions_) calls += session->calls();
  const std::string faults = faults_.summary();
  return std::to_string(connections_) + " connections, " + std::to_string(calls) + " calls" +
         (faults.empty() ? "" : "; faults: " + faults);
}

}  // namespace nfsrdma::bridge
