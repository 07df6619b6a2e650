// Many files at once: the items of Engine::read_many(), write_many() and stat_many(), and how one of them is done by
// the ordinary operations, where a version has nothing better (many.cpp), or where a file is not as it should be.
//
// The items, and what they point to, are the caller's, and must outlive the task. A task that is destroyed ends what
// it has under way; items that have no result then were not done, or nobody knows.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/task.h"
#include "engine/spot.h"
#include "nfsrdma/many.h"
#include "nfsrdma/result.h"

namespace nfsrdma::engine {

/// Which file it is: a name in a directory, which items may have in common.
struct Named {
  const Spot* directory = nullptr;
  std::string name;
  [[nodiscard]] std::string text() const { return directory->text(name); }
};

struct ManyRead {
  Named file;
  std::span<std::byte> data;
  std::optional<Result<FileRead>> result = {};
};
struct ManyWritten {
  Named file;
  std::span<const std::byte> data;
  std::uint32_t mode = 0;
  std::optional<Result<FileWritten>> result = {};
};
struct ManyTold {
  Named file;
  std::optional<Result<Attributes>> result = {};
};

/// So many at most are open, or asked about, beside each other.
inline constexpr std::size_t kOpenBeside = 16;

class Engine;
struct Opened;

/// Reads a file that has been opened for that from its beginning, and closes it.
async::Task<Result<FileRead>> read_opened(Engine& engine, Opened opened, std::span<std::byte> data);
/// Writes all of one that has been opened, and cut, for that, and closes it.
async::Task<Result<FileWritten>> write_opened(Engine& engine, Opened opened, std::span<const std::byte> data);

}  // namespace nfsrdma::engine
