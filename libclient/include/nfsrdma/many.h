// Many small files at once: the items and results of read_many, write_many and stat_many of a Client or
// Directory (names.h).
//
//     std::vector<std::byte> room(names.size() * 4096);
//     std::vector<nfsrdma::ReadItem> items;
//     for (std::size_t i = 0; i < names.size(); ++i) {
//       items.push_back({names[i], std::span(room).subspan(i * 4096, 4096)});
//     }
//     const auto results = (*directory)->read_many(items);
//     for (std::size_t i = 0; i < results.size(); ++i) {
//       if (!results[i]) std::cerr << results[i].error().text() << '\n';
//       else if (!results[i]->eof) ...it is longer than 4096 bytes: open it
//       else use(items[i].data.first(results[i]->count));
//     }
//
// With NFSv4.1 and 4.2 one request carries as many files as the session allows, a dozen or more, and several
// such requests are in flight at the same time: a file that is opened costs at least three round trips, but
// here a dozen files cost one. With older versions each file is opened, read or written, and closed
// separately, several files at a time. The result is the same.
//
// Each item has a result of its own: a file that fails does not delay the others. Results come in the order
// of the items; the server may process the items in any order. If a call is interrupted (client.h) or its
// Client is disconnected, items that were not done have that Error, and the others keep their results.
//
// Paths are those of names.h. Symbolic links are followed; an item whose path has one takes some round trips
// of its own.
//
// Thread-safety and deadlines: see client.h. The deadline applies to each request, not to the call as a
// whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "nfsrdma/types.h"

namespace nfsrdma {

/// A file to read from its beginning. `data` is the caller's, and is exposed to the server during the call.
/// If the item fails, the contents of `data` are undefined.
struct ReadItem {
  std::string path;
  std::span<std::byte> data;
};

/// The result of a read. If the server permits it, the file is read without being opened; if a lock or share
/// reservation conflicts, it is opened as usual. Without the open the file's owner can read it even if its
/// mode forbids that, as with any NFS client that has the file open.
struct FileRead {
  std::size_t count = 0;  ///< bytes that were read
  bool eof = false;       ///< the file ends there; false: it is longer than `data`
  /// The attributes just after the read, without owner and group; absent if the server did not report them.
  std::optional<Attributes> attributes;
};

/// A file to create or whose content to replace. When the item has succeeded, `data` is the file's whole
/// content and is on the server's disk. `data` is the caller's, and is exposed to the server during the call.
struct WriteItem {
  std::string path;
  std::span<const std::byte> data;
  std::uint32_t mode = 0666;  ///< permissions of a file that is made; the server applies no umask
};

/// The result of a write. If the write fails, the file may exist and be empty, or hold a part of the data.
struct FileWritten {
  /// The attributes just after the write, without owner and group; absent if the server did not report them.
  std::optional<Attributes> attributes;
};

}  // namespace nfsrdma
