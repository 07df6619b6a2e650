// This machine's users and groups, by the name service switch, and its NFSv4 domain. Each call may take as
// long as the switch's sources take. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ids/id_names.h"

namespace nfsrdma::ids {

Answer look_up_system_name(Kind kind, const std::string& name);
/// The name of a number; none: it has none here.
std::optional<std::string> system_name_of(Kind kind, std::uint32_t id);
/// [General] Domain in idmapd.conf, else the DNS domain of the host's name, else "localdomain".
std::string local_nfs_domain();
/// What that file says, and what *.conf in FILE.d say in its place, by their names' order; "": nothing.
std::string configured_domain(const std::string& file);

/// `call` is getpwnam_r() or the like: it gets more room while it says ERANGE, up to a limit, and returns an
/// errno.
Answer with_room(const std::function<int(std::span<char> room, std::optional<std::uint32_t>& id)>& call);
/// Of the text of an idmapd.conf; "" if it names none.
std::string domain_in_idmapd_conf(std::string_view text);

}  // namespace nfsrdma::ids
