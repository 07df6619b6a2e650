// Trees on the server that a command walks, from each of its targets on.
#pragma once

#include <cerrno>

#include "cli/crowd.h"

namespace nfsrdma::cli {

/// Makes a Walker, of this call and of `more`, and lets it look at each target.
template <class Walker, class Look, class... More>
void walk(Call& call, bool follow, Look look, More&&... more) {
  if (!call.choose_line_end()) return;
  Progress none("", {}, false);
  Tree tree(call, none);
  Crowd crowd;
  Walker walker(call, tree, crowd, std::forward<More>(more)...);
  call.each(0, [&](const Remote& remote) -> Status {
    const auto attributes = remote.client->stat(remote.path, follow);
    if (!attributes) return attributes.error();
    look(walker, remote, *attributes);
    return {};
  });
  crowd.run();
  if (interrupt::raised()) call.failed({ErrorKind::cancelled, EINTR, "", "", "interrupted"});
}

}  // namespace nfsrdma::cli
