// Many small files at once: read_many, write_many and stat_many of a Client or Directory (names.h), and what they
// are given and give.
//
//     std::vector<std::byte> room(names.size() * 4096);
//     std::vector<nfsrdma::ReadItem> items;
//     for (std::size_t i = 0; i < names.size(); ++i) {
//       items.push_back({names[i], std::span(room).subspan(i * 4096, 4096)});
//     }
//     const auto results = (*directory)->read_many(items);
//     for (std::size_t i = 0; i < results.size(); ++i) {
//       if (!results[i]) std::cerr << results[i].error().text() << '\n';
//       else if (!results[i]->eof) …it is longer than 4096 bytes: open it
//       else use(items[i].data.first(results[i]->count));
//     }
//
// With NFSv4.1 and 4.2 as many files go into one request as the session takes, a dozen or more, and several such
// requests are in flight at the same time: an open file costs at least three round trips, here a dozen files cost
// one. With the older versions the files are opened, read or written, and closed by themselves, several of them in
// flight. The result is the same.
//
// Each item has a result of its own: a file that fails holds up no other. Results come in the order of the items;
// what is done on the server has no order. Where a call is interrupted (client.h), or its Client disconnected, items
// that were not done have that Error, and the others what became of them.
//
// Paths are those of names.h. Symbolic links are followed, which costs such an item some round trips of its own.
//
// Thread-safety and deadlines: as client.h says it for all calls. The deadline is each request's, not that of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "nfsrdma/types.h"

namespace nfsrdma {

/// A file to read from its beginning. `data` is the caller's, exposed to the server for the call. Where the item
/// fails, nothing is known of what is in it.
struct ReadItem {
  std::string path;
  std::span<std::byte> data;
};

/// The file is read without being opened where the server lets that be: a lock or share reservation that is in the
/// way makes it an ordinary open. Whose file it is may read it then although its mode says otherwise, as with any
/// other client of NFS that has it open.
struct FileRead {
  std::size_t count = 0;  ///< bytes that were read
  bool eof = false;       ///< the file ends there; false: it is longer than `data`
  /// Of just behind the reading, without owner and group; none where the server did not tell them.
  std::optional<Attributes> attributes;
};

/// A file to make, or whose content to replace: when its result has come, `data` is all that is in it, on the
/// server's disk. `data` is the caller's, exposed to the server for the call.
struct WriteItem {
  std::string path;
  std::span<const std::byte> data;
  std::uint32_t mode = 0666;  ///< permissions of a file that is made; the server applies no umask
};

/// Where a write fails, the file may be there and be empty, or have a part of the data.
struct FileWritten {
  /// Of just behind the writing, without owner and group; none where the server did not tell them.
  std::optional<Attributes> attributes;
};

}  // namespace nfsrdma
