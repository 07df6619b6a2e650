// What callers prove who they are with, as the options say.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <vector>

#include "connect/server.h"
#include "security/flavor.h"

namespace nfsrdma::connect {

/// All of these outlive it. Where the options leave a choice it is one.
std::shared_ptr<security::Flavor> make_flavor(async::Loop& loop, const Target& target,
                                              const std::vector<rpc::Address>& addresses,
                                              const Surroundings& surroundings,
                                              const Server::NoticeSink& notices);

/// What the options let be used, the one that is liked best first.
std::vector<Security> permitted(const Options& options);

/// Tells the server what it need not keep any more; nothing is waited for beyond the deadline.
async::Task<void> say_farewell(security::Flavor& flavor, rpc::Channel& channel, std::uint32_t version,
                               async::TimePoint deadline);

}  // namespace nfsrdma::connect
