// A server's exports as NFSv4 shows them: file systems below its root, and directories that lead to them ("pseudo file
// system", RFC 7530 7.3, RFC 8881 2.10).
#pragma once

#include <string>
#include <vector>

#include "nfsrdma/names.h"

namespace nfsrdma::cli {

/// Paths from the server's root. The server does not say which directories are exports, so that it is judged by what
/// is in them: where there is nothing but directories, and each is another file system or leads to one, it is the way to
/// exports, and otherwise an export. An export that lies deeper in another one is found only in its uppermost directory.
/// Bounded in calls, however large the server is.
Result<std::vector<std::string>> pseudo_exports(Names& server);

}  // namespace nfsrdma::cli
