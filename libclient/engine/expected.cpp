#include "engine/expected.h"

namespace nfsrdma::engine {

async::Task<bool> is_as_made(Engine& engine, Caller caller, Object object, Expected expected) {
  if (!object.attributes) {
    auto now = co_await engine.attributes(caller, object.handle);
    if (!now) co_return false;
    object.attributes = std::move(*now);
  }
  if (object.attributes->type != expected.type) co_return false;
  if (expected.type == FileType::symlink) {
    auto there = co_await engine.read_link(std::move(caller), object.handle);
    const bool same = there && *there == expected.text;
    co_return same;
  }
  constexpr std::uint32_t kPermissions = 0777;
  const std::uint32_t mode = object.attributes->mode;
  if (!expected.mode || (mode == 0 && expected.mode_may_be_missing)) co_return true;
  co_return ((*expected.mode ^ mode) & kPermissions) == 0;
}

bool is_renamed(const std::optional<Object>& found, const std::optional<FileHandle>& renamed) {
  return found && (!renamed || found->handle == *renamed);
}

}  // namespace nfsrdma::engine
