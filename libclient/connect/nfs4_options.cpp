#include "connect/nfs4_options.h"

#include <array>
#include <cinttypes>
#include <cstdio>

#include "engine/path.h"

namespace nfsrdma::connect {
namespace {

std::string random_hex(async::Loop& loop) {
  std::array<char, 17> text{};
  (void)std::snprintf(text.data(), text.size(), "%016" PRIx64, loop.random<std::uint64_t>());
  return text.data();
}

}  // namespace

nfs4::SessionOptions session_options(const Ground& ground) {
  const Options& options = ground.target.options;
  const Surroundings& surroundings = ground.surroundings;
  rpc::Channel& channel = *ground.channels.front();
  nfs4::SessionOptions out;
  out.minor_version = options.minor_version;
  out.minor_version_fixed = options.minor_version_fixed;
  out.rsize = options.rsize;
  out.wsize = options.wsize;
  out.read_plus = options.read_plus;
  out.slots = most_calls(options, channel.established());
  out.callback_slots = kCallbackSlots;
  out.flavor = ground.flavor;
  // The owner id must be unique among clients (RFC 8881 2.4). Each Client without a given id uses one of its
  // own, and leaves nothing to reclaim.
  out.owner_id = surroundings.owner_id;
  if (out.owner_id.empty()) {
    out.owner_id =
        "nfsrdma " + surroundings.host + " " + surroundings.process + " " + random_hex(channel.loop());
  }
  // The verifier differs each time, so that a server which knows the client already drops all state of its
  // previous instance (RFC 8881 18.35.4, case 5).
  channel.loop().random(out.verifier);
  out.timeout = options.timeout;
  out.patience = ground.patience;
  if (auto path = engine::Path::parse(ground.target.path)) out.target = path->names();
  return out;
}

}  // namespace nfsrdma::connect
