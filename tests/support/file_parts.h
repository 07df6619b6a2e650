// What the parts of the file layer stand on, without a FileSystem: a PlainEngine on virtual time, inodes, and
// files that are open.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fs/freshness.h"
#include "fs/open_handle.h"
#include "support/plain_engine.h"
#include "support/virtual_world.h"

namespace nfsrdma::fs::plain {

struct FileParts {
  using File = std::shared_ptr<OpenHandle>;
  using InodeRef = std::shared_ptr<Inode>;

  explicit FileParts(CacheOptions set = {}) : options(set) {
    freshness.on_doubt([this](std::uint64_t id) { doubted.push_back(id); });
  }
  FileParts(const FileParts&) = delete;
  FileParts& operator=(const FileParts&) = delete;

  InodeRef root() { return inodes.find(Inodes::kRoot); }
  InodeRef inode(const FileHandle& handle, const std::string& name, FileType type = FileType::regular) {
    InodeRef out = inodes.look_up(handle, name, type);
    inodes.place(*out, Inodes::kRoot, name);
    return out;
  }
  /// Opens the file in the root, which is made if it is not there.
  File open(const std::string& name) {
    auto opened = loop.run(engine.open_at(nullptr, Spot(), name, Access::both, Engine::Creation()));
    REQUIRE(opened);
    File out = std::make_shared<OpenHandle>(loop, counters, window, inode(opened->object.handle, name),
                                            std::move(opened->file), nullptr, nullptr);
    calls.clear();
    return out;
  }
  PlainEngine::Node& node(const InodeRef& of) { return engine.nodes.at(PlainEngine::id_of(of->handle)); }
  /// Begins it. What it waits for is the test's to give.
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    turn();
  }
  /// The end of one that was begun.
  template <class T>
  T finish(async::Task<T>& task) {
    for (int turns = 0; !task.done(); ++turns) {
      REQUIRE(turns < 1000);
      loop.turn(async::TimePoint::max());
    }
    return task.await_resume();
  }
  /// Whatever can happen without time passing.
  void turn() {
    loop.end_turn();
    while (loop.turn(async::TimePoint::min())) {
    }
  }
  /// Lets time pass, and what is due by then happen.
  void pass(async::Clock::duration time) {
    const auto until = loop.now() + time;
    while (loop.now() < until) loop.turn(until);
    turn();
  }
  std::string take_calls() { return std::exchange(calls, ""); }

  testing::VirtualWorld world;
  async::Loop loop{world};
  std::string calls;
  PlainEngine engine{loop, calls};
  const CacheOptions options;
  Numbering numbering{std::nullopt};
  Counters counters;
  ReadWindow window{loop, options.rsize, options.most_ahead};
  Freshness freshness{engine, numbering, options};
  Inodes inodes{loop, PlainEngine::handle(1)};
  std::vector<std::uint64_t> doubted;
};

}  // namespace nfsrdma::fs::plain
