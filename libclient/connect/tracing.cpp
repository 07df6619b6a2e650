#include "connect/tracing.h"

#include <chrono>
#include <utility>

#include "aux/local_address.h"
#include "fabric/address.h"

namespace nfsrdma::connect {
namespace {

std::uint64_t wall_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

sockaddr_storage local_address(const sockaddr_storage& server) {
  const auto found = aux::local_address_towards({server, fabric::address_size(server)});
  return found ? found->storage : sockaddr_storage{};
}

}  // namespace

trace::Options trace_options(const Options& options) {
  return {options.trace_size, options.trace_bytes, wall_clock, local_address};
}

fabric::Tapper tapper_of(const Options& options, trace::Warn warn) {
  if (options.trace.empty()) return nullptr;
  return trace::recorder_of(options.trace, trace_options(options), warn)->tapper(std::move(warn));
}

}  // namespace nfsrdma::connect
