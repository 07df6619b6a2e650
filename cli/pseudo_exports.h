// A server's exports as NFSv4 shows them: file systems below its root, and directories that lead to them
// ("pseudo file system", RFC 7530 7.3, RFC 8881 2.10).
#pragma once

#include <string>
#include <vector>

#include "nfsrdma/names.h"

namespace nfsrdma::cli {

/// Returns paths from the server's root. The server does not say which directories are exports, so they are
/// judged by their contents. A directory that has nothing but directories, each of which is another file
/// system or leads to one, only leads to exports. Any other is an export. An export inside another one is
/// found only in the topmost directory of that one. Bounded in calls, however large the server is.
Result<std::vector<std::string>> pseudo_exports(Names& server);

}  // namespace nfsrdma::cli
