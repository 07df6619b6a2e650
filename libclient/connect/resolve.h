// Resolves host names to addresses with a deadline, because getaddrinfo() has none.
//
// A look-up that does not end in time continues on a thread of its own, which uses nothing that belongs to
// the caller.
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
