// Where on a server an operation applies: an object's handle, or the names that lead to the object from
// another one or from the server's root. An engine walks the names in the same request as the operation where
// its version can.
//
// A plain value; any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xdr/xdr.h"

namespace nfsrdma::engine {

/// 32 octets in NFSv2, at most 64 in NFSv3, at most 128 in NFSv4.
using FileHandle = xdr::ShortOpaque<128>;

struct Spot {
  /// The server's root.
  Spot() = default;
  Spot(const FileHandle& handle) : from(handle) {}  // NOLINT: whoever has a handle is at a spot
  Spot(std::optional<FileHandle> begin, std::vector<std::string> way) : from(begin), names(std::move(way)) {}

  /// None: the server's root.
  std::optional<FileHandle> from;
  /// Single components, neither "." nor "..". One that is a symbolic link is not followed: ENOTDIR or ELOOP.
  std::vector<std::string> names;

  [[nodiscard]] bool is_handle() const { return from && names.empty(); }
  /// For messages: a path, absolute where it begins at the root; empty for a handle alone.
  [[nodiscard]] std::string text() const {
    if (names.empty()) return from ? "" : "/";
    std::string out;
    for (const std::string& name : names) out += out.empty() && from ? name : "/" + name;
    return out;
  }
  /// The same for the name in the directory at this spot.
  [[nodiscard]] std::string text(const std::string& name) const {
    if (name.empty()) return text();
    std::string out = text();
    if (!out.empty() && out != "/") out += '/';
    return out + name;
  }
};

/// Where an object was found.
struct Place {
  FileHandle directory;
  std::string name;
  /// It has just been looked up: what it leads to need not be looked at again.
  bool fresh = false;
};

}  // namespace nfsrdma::engine
