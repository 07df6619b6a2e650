#include "engine/many_files.h"

#include <cerrno>
#include <utility>

#include "async/each.h"
#include "engine/engine.h"

namespace nfsrdma::engine {

async::Task<Result<FileRead>> read_opened(Engine& engine, Opened opened, std::span<std::byte> data) {
  ServerFile& file = *opened.file;
  auto count = co_await file.read(data, 0);
  if (!count) {
    (void)co_await engine.close(std::move(opened.file));
    co_return count.error();
  }
  FileRead out{*count, *count < data.size(), std::move(opened.object.attributes)};
  // If the buffer is full, the file's size after the read tells whether more follows.
  if (!out.eof || !out.attributes) {
    auto now = co_await file.attributes();
    if (now) out.attributes = std::move(*now);
    out.eof = out.eof || (out.attributes && out.attributes->size <= out.count);
  }
  (void)co_await engine.close(std::move(opened.file));
  co_return out;
}

async::Task<Result<FileWritten>> write_opened(Engine& engine, Opened opened,
                                              std::span<const std::byte> data) {
  FileWritten out;
  Status done;
  if (!data.empty()) {
    auto count = co_await opened.file->write(data, {}, 0, Stability::on_disk, &out.attributes);
    if (!count) done = count.error();
    if (count && *count < data.size()) {
      done = Error(ErrorKind::server, EFBIG, "WRITE", "", "the server does not accept files of this size");
    }
  } else {
    out.attributes = std::move(opened.object.attributes);
  }
  auto closed = co_await engine.close(std::move(opened.file));
  if (!done) co_return done.error();
  if (!closed) co_return closed.error();
  co_return out;
}

namespace {

async::Task<void> read_one(Engine& engine, const Caller& caller, ManyRead& item) {
  auto opened =
      co_await engine.open_at(caller, *item.file.directory, item.file.name, Access::read, std::nullopt);
  if (!opened) {
    item.result.emplace(opened.error());
    co_return;
  }
  auto read = co_await read_opened(engine, std::move(*opened), item.data);
  item.result.emplace(std::move(read));
}

async::Task<void> write_one(Engine& engine, const Caller& caller, ManyWritten& item) {
  const Engine::Creation creation{item.mode, false, true};
  auto opened =
      co_await engine.open_at(caller, *item.file.directory, item.file.name, Access::write, creation);
  if (!opened) {
    item.result.emplace(opened.error());
    co_return;
  }
  auto written = co_await write_opened(engine, std::move(*opened), item.data);
  item.result.emplace(std::move(written));
}

async::Task<void> stat_one(Engine& engine, const Caller& caller, ManyTold& item) {
  Spot spot = *item.file.directory;
  spot.names.push_back(item.file.name);
  auto found = co_await engine.find(caller, std::move(spot));
  if (!found) {
    item.result.emplace(found.error());
    co_return;
  }
  if (found->attributes) {
    item.result.emplace(std::move(*found->attributes));
    co_return;
  }
  auto asked = co_await engine.attributes(caller, found->handle);
  item.result.emplace(std::move(asked));
}

}  // namespace

async::Task<void> Engine::read_many(Caller caller, std::vector<ManyRead*> items) {
  async::Each each(loop(), items.size(), [&](std::size_t i) { return read_one(*this, caller, *items[i]); });
  co_await each.run(kParallelOpens);
}

async::Task<void> Engine::write_many(Caller caller, std::vector<ManyWritten*> items) {
  async::Each each(loop(), items.size(), [&](std::size_t i) { return write_one(*this, caller, *items[i]); });
  co_await each.run(kParallelOpens);
}

async::Task<void> Engine::stat_many(Caller caller, std::vector<ManyTold*> items) {
  async::Each each(loop(), items.size(), [&](std::size_t i) { return stat_one(*this, caller, *items[i]); });
  co_await each.run(kParallelOpens);
}

}  // namespace nfsrdma::engine
