// Makes the security flavors with which callers prove who they are, as the options say.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <vector>

#include "connect/server.h"
#include "security/flavor.h"

namespace nfsrdma::connect {

/// Makes the flavor, or a security::Choice if the options permit several. All arguments must outlive it.
std::shared_ptr<security::Flavor> make_flavor(async::Loop& loop, const Target& target,
                                              const std::vector<rpc::Address>& addresses,
                                              const Surroundings& surroundings,
                                              const Server::NoticeSink& notices);

/// Returns the flavors that the options permit, the preferred one first.
std::vector<Security> permitted(const Options& options);

/// Tells the server, with procedure NULL, that it may discard this client's security contexts. Gives up at
/// the deadline.
async::Task<void> say_farewell(security::Flavor& flavor, rpc::Channel& channel, std::uint32_t version,
                               async::TimePoint deadline);

}  // namespace nfsrdma::connect
