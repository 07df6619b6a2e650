// The object that a LOOKUP should find after this client has made or renamed it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace nfsrdma::engine {

struct Expected {
  FileType type = FileType::unknown;
  std::optional<std::uint32_t> mode;
  std::string text;  ///< text of a symbolic link
  /// A mode of 0 in the object's attributes may mean that the server does not report the mode.
  bool mode_may_be_missing = false;
};

/// Returns whether the object that was found is as this client would have made it for the caller.
async::Task<bool> is_as_made(Engine& engine, Caller caller, Object object, Expected expected);

/// Returns whether the object that was found under the new name of a rename is the renamed one: `renamed`, or any object if
/// the caller does not know which one the old name led to.
bool is_renamed(const std::optional<Object>& found, const std::optional<FileHandle>& renamed);

}  // namespace nfsrdma::engine
