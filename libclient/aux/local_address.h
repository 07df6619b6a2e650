// This machine's address as a server sees it: where an NFSv4.0 server is to call back (RFC 7530 16.33).
//
// Neither function sends anything, or waits. Any thread.
#pragma once

#include <optional>
#include <string_view>

#include "nfsrdma/result.h"
#include "rpc/channel.h"

namespace nfsrdma::aux {

/// The address of this machine from which it would reach the server, with port 0. A translator between the two may
/// make the server see another one: the user then has to give that.
Result<rpc::Address> local_address_towards(const rpc::Address& server);

/// "192.0.2.1" or "2001:db8::1", with port 0; none: it is not an address.
std::optional<rpc::Address> address_in(std::string_view text);

}  // namespace nfsrdma::aux
