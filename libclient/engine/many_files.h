// Operations on many files at once: the items of Engine::read_many(), write_many() and stat_many(), and the
// functions that do one item by the ordinary operations. Those are used if a version has nothing better
// (many_files.cpp), or if a file turns out to need individual treatment.
//
// The items, and what they point to, belong to the caller and must outlive the task. If a task is destroyed,
// its calls that are under way end. Items without a result were then not done, or it is unknown whether they
// were.
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

/// The file of an item: a name in a directory. Several items may share the directory.
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

/// The largest number of files that are open, or asked about, at the same time.
inline constexpr std::size_t kParallelOpens = 16;

class Engine;
struct Opened;

/// Reads a file from its beginning and closes it. `opened` is open for reading.
async::Task<Result<FileRead>> read_opened(Engine& engine, Opened opened, std::span<std::byte> data);
/// Writes all of `data` to a file and closes it. `opened` is open for writing, and the file is empty.
async::Task<Result<FileWritten>> write_opened(Engine& engine, Opened opened, std::span<const std::byte> data);

}  // namespace nfsrdma::engine
