// Names to addresses, with a deadline: getaddrinfo() itself has none.
//
// A look-up that does not end in time is left behind on its own thread, which holds nothing of its caller's.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "nfsrdma/result.h"
#include "rpc/channel.h"

namespace nfsrdma::connect {

Result<std::vector<rpc::Address>> resolve(const std::string& host, std::uint16_t port,
                                          std::chrono::steady_clock::time_point deadline, int interrupt);

}  // namespace nfsrdma::connect
