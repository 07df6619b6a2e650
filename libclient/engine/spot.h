// The object on a server that an operation applies to: a handle, or names that lead to the object from a
// handle or from the server's root. An engine walks the names in the request that carries the operation, if
// its version can.
//
// A plain value, which may be used on any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xdr/xdr.h"

namespace nfsrdma::engine {

/// A file handle: 32 octets in NFSv2, at most 64 in NFSv3, at most 128 in NFSv4.
using FileHandle = xdr::ShortOpaque<128>;

struct Spot {
  /// The server's root.
  Spot() = default;
  Spot(const FileHandle& handle) : from(handle) {}  // NOLINT: whoever has a handle is at a spot
  Spot(std::optional<FileHandle> begin, std::vector<std::string> way) : from(begin), names(std::move(way)) {}

  /// The object where the names begin; no value means the server's root.
  std::optional<FileHandle> from;
  /// Single components, neither "." nor "..". A symbolic link among them is not followed: the operation fails
  /// with ENOTDIR or ELOOP.
  std::vector<std::string> names;

  [[nodiscard]] bool is_handle() const { return from && names.empty(); }
  /// Returns the path for messages: absolute if it begins at the root; empty for a handle alone.
  [[nodiscard]] std::string text() const {
    if (names.empty()) return from ? "" : "/";
    std::string out;
    for (const std::string& name : names) out += out.empty() && from ? name : "/" + name;
    return out;
  }
  /// Returns the path of `name` in the directory at this spot, for messages.
  [[nodiscard]] std::string text(const std::string& name) const {
    if (name.empty()) return text();
    std::string out = text();
    if (!out.empty() && out != "/") out += '/';
    return out + name;
  }
};

/// The place where an object was found.
struct Place {
  FileHandle directory;
  std::string name;
  /// The name has just been looked up, so the server need not check again where it leads.
  bool fresh = false;

  [[nodiscard]] bool is_same(const Place& other) const {
    return name == other.name && directory == other.directory;
  }
};

}  // namespace nfsrdma::engine
