// This machine's address as a server sees it, which an NFSv4.0 server needs for its callbacks (RFC 7530
// 16.33).
//
// Neither function sends anything or waits. For use from any thread.
#pragma once

#include <optional>
#include <string_view>

#include "nfsrdma/result.h"
#include "rpc/channel.h"

namespace nfsrdma::aux {

/// Returns the local address of the route to the server, with port 0. If a NAT between the two makes the
/// server see another address, the user has to give that address.
Result<rpc::Address> local_address_towards(const rpc::Address& server);

/// Parses "192.0.2.1" or "2001:db8::1". The port is 0. Returns nothing if the text is not an address.
std::optional<rpc::Address> address_in(std::string_view text);

}  // namespace nfsrdma::aux
