// Looks up this machine's users and groups through the name service switch, and its NFSv4 domain. Each call
// may take as long as the switch's sources take. May be called on any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ids/id_names.h"

namespace nfsrdma::ids {

Answer look_up_system_name(Kind kind, const std::string& name);
/// Returns the name of a number, or no value if the number has no name here.
std::optional<std::string> system_name_of(Kind kind, std::uint32_t id);
/// Returns [General] Domain of /etc/idmapd.conf, else the DNS domain of the host's name, else "localdomain".
std::string local_nfs_domain();
/// Returns the domain of this file, which the *.conf files in FILE.d override in the order of their names; ""
/// if none of them has one.
std::string configured_domain(const std::string& file);

/// Calls `call`, which is getpwnam_r() or the like and returns an errno, with more room while it returns
/// ERANGE, up to a limit.
Answer with_room(const std::function<int(std::span<char> room, std::optional<std::uint32_t>& id)>& call);
/// Returns the domain that the text of an idmapd.conf names, or "".
std::string domain_in_idmapd_conf(std::string_view text);

}  // namespace nfsrdma::ids
