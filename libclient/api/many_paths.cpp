#include "api/many_paths.h"

namespace nfsrdma::api {
namespace {

using engine::Engine;
using engine::ManyRead;
using engine::ManyTold;
using engine::ManyWritten;
using engine::Path;

/// Least number of items in a directory for which the directory is looked up first. With fewer items each
/// request walks the directory's names itself, because the look-up would cost a round trip of its own.
constexpr std::size_t kWorthFinding = 3;
constexpr std::size_t kParallelLookups = 8;

}  // namespace

const engine::Spot* ManyPlaces::find(std::string_view path, std::string& name) {
  const std::size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (last.empty() || last == "." || last == "..") return nullptr;
  // The key keeps its trailing slash, because "/" (the server's root) and "" (where relative paths begin) are
  // different directories.
  const std::string_view above = slash == std::string_view::npos ? "" : path.substr(0, slash + 1);
  Place*& place = known_[above];
  if (place == nullptr) {
    auto parsed = begin_.parse(above);
    if (!parsed) return nullptr;
    place = &places_.emplace_back(Place{std::move(*parsed), {}});
    place->spot = place->path.spot();
  }
  ++place->items;
  name = last;
  return &place->spot;
}

async::Task<void> ManyPlaces::look_up_one(engine::Paths& paths, Place& place) {
  auto found = co_await paths.find(place.path, true);
  // If the directory cannot be found, its items keep the path as their spot, and each of them reports the
  // error.
  if (found) place.spot = engine::Spot(found->handle);
}

async::Task<void> ManyPlaces::look_up(async::Loop& loop, engine::Paths& paths) {
  std::vector<Place*> wanted;
  for (Place& one : places_) {
    const bool is_above = one.path.above() != 0;
    if (is_above || (!one.path.is_begin() && one.items >= kWorthFinding)) wanted.push_back(&one);
  }
  async::Each each(loop, wanted.size(), [&](std::size_t i) { return look_up_one(paths, *wanted[i]); });
  co_await each.run(kParallelLookups);
}

namespace {

async::Task<Result<FileRead>> read_by_path(ClientImpl& client, Path path, ManyRead& item) {
  auto opened = co_await client.paths().open(std::move(path), engine::Access::read, std::nullopt);
  if (!opened) co_return opened.error();
  co_return co_await engine::read_opened(client.engine(), std::move(*opened), item.data);
}

async::Task<Result<FileWritten>> write_by_path(ClientImpl& client, Path path, ManyWritten& item) {
  const Engine::Creation creation{item.mode, false, true};
  auto opened = co_await client.paths().open(std::move(path), engine::Access::write, creation);
  if (!opened) co_return opened.error();
  co_return co_await engine::write_opened(client.engine(), std::move(*opened), item.data);
}

async::Task<Result<Attributes>> stat_by_path(ClientImpl& client, Path path, bool follow) {
  auto object = co_await client.paths().find(std::move(path), follow);
  if (!object) co_return object.error();
  if (object->attributes) co_return *object->attributes;
  co_return co_await client.engine().attributes(nullptr, object->handle);
}

/// Takes the result back from items that are symbolic links, so that they are done again by path, which
/// follows the links.
void follow_links(std::vector<ManyTold*>& items) {
  for (ManyTold* item : items) {
    if (*item->result && (**item->result).type == FileType::symlink) item->result.reset();
  }
}

}  // namespace

std::vector<Result<FileRead>> read_files(ClientImpl& client, const PathBegin& begin,
                                         std::span<const ReadItem> items) {
  ManyFiles<FileRead, ManyRead> files(client, begin, items.size());
  for (const ReadItem& one : items) files.add(one.path, {{}, one.data});
  return files.run(
      [](Engine& engine, std::vector<ManyRead*> all) { return engine.read_many(nullptr, std::move(all)); },
      [&client](Path path, ManyRead& item) { return read_by_path(client, std::move(path), item); });
}

std::vector<Result<FileWritten>> write_files(ClientImpl& client, const PathBegin& begin,
                                             std::span<const WriteItem> items) {
  ManyFiles<FileWritten, ManyWritten> files(client, begin, items.size());
  for (const WriteItem& one : items) files.add(one.path, {{}, one.data, one.mode});
  return files.run(
      [](Engine& engine, std::vector<ManyWritten*> all) {
        return engine.write_many(nullptr, std::move(all));
      },
      [&client](Path path, ManyWritten& item) { return write_by_path(client, std::move(path), item); });
}

namespace {

async::Task<void> stat_together(Engine& engine, std::vector<ManyTold*> items, bool follow) {
  co_await engine.stat_many(nullptr, items);
  if (follow) follow_links(items);
}

}  // namespace

std::vector<Result<Attributes>> stat_files(ClientImpl& client, const PathBegin& begin,
                                           std::span<const std::string> paths, bool follow) {
  ManyFiles<Attributes, ManyTold> files(client, begin, paths.size());
  for (const std::string& one : paths) files.add(one, {});
  auto out = files.run(
      [follow](Engine& engine, std::vector<ManyTold*> all) {
        return stat_together(engine, std::move(all), follow);
      },
      [&client, follow](Path path, ManyTold&) { return stat_by_path(client, std::move(path), follow); });
  std::vector<Attributes> told;
  for (auto& one : out) {
    if (one) told.push_back(std::move(*one));
  }
  client.add_ids(told);
  std::size_t next = 0;
  for (auto& one : out) {
    if (one) one = std::move(told[next++]);
  }
  return out;
}

}  // namespace nfsrdma::api
