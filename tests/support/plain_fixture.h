// The file layer on a PlainEngine, and a loop on virtual time.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fs/file_system.h"
#include "support/plain_engine.h"
#include "support/virtual_world.h"

namespace nfsrdma::fs::plain {

inline bool ok(const Status& done) {
  if (!done) MESSAGE(done.error().text());
  return static_cast<bool>(done);
}

struct Plain {
  explicit Plain(CacheOptions options = {}, ReadsElsewhere* elsewhere = nullptr) {
    engine = std::make_shared<PlainEngine>(loop, calls);
    const auto root = loop.run(engine->find(nullptr, Spot()));
    calls.clear();
    files.emplace(engine, options, *root, elsewhere);
  }
  ~Plain() { loop.drop_tasks(); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  /// Begins it. What it waits for is the test's to give.
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    turn();
  }
  /// Whatever can happen without time passing.
  void turn() {
    loop.end_turn();
    while (loop.turn(async::TimePoint::min())) {
    }
  }
  template <class T>
  T get(Answer<T> task) {
    auto got = loop.run(std::move(task));
    if (!got) FAIL(got.error().text());
    return std::move(*got);
  }
  int error(async::Task<Status> task) {
    const auto done = loop.run(std::move(task));
    return done ? 0 : done.error().errno_value();
  }
  template <class T>
  int error(Answer<T> task) {
    const auto got = loop.run(std::move(task));
    return got ? 0 : got.error().errno_value();
  }
  OpenedFile create(const std::string& name) {
    return get(files->create(nullptr, Inodes::kRoot, name, 0644, O_RDWR | O_CREAT));
  }
  void write(const OpenedFile& file, const std::string& text, std::uint64_t offset) {
    const auto data = std::as_bytes(std::span(text));
    CHECK(ok(loop.run(files->write(file.handle, {}, data, offset))));
  }
  std::string read(const OpenedFile& file, std::size_t size) { return read_at(file, 0, size); }
  std::string read_at(const OpenedFile& file, std::uint64_t offset, std::size_t size) {
    return text(get(files->read(file.handle, offset, size)));
  }
  static std::string text(const ReadData& data) {
    std::string out;
    for (const iovec& piece : data.pieces)
      out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    return out;
  }
  std::string take_calls() { return std::exchange(calls, ""); }

  nfsrdma::testing::VirtualWorld world;
  async::Loop loop{world};
  std::string calls;
  std::shared_ptr<PlainEngine> engine;
  std::optional<FileSystem> files;
};

}  // namespace nfsrdma::fs::plain
