// read_many, write_many and stat_many of a Client or Directory (nfsrdma/many.h): many files by their paths.
//
// Directories that several paths have in common are looked up once, and the engine gets names in them. An
// item whose path leads through a symbolic link, or does not end in a name, is done by its path alone
// (engine/paths.h).
//
// The items are kept here while the task runs, so that if the task is interrupted, the items that were done
// keep their results.
#pragma once

#include <cerrno>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/client_impl.h"
#include "async/each.h"
#include "engine/many_files.h"

namespace nfsrdma::api {

/// The directories that contain the files of many paths.
class ManyPlaces {
 public:
  explicit ManyPlaces(const PathBegin& begin) : begin_(begin) {}

  /// Returns the directory of `path` and sets `name`, or returns null if the path has to be done by itself.
  /// `path` must stay valid.
  const engine::Spot* find(std::string_view path, std::string& name);
  /// Looks up the directories that several items are in, and those whose path leads above a directory's
  /// handle ("..").
  async::Task<void> look_up(async::Loop& loop, engine::Paths& paths);

 private:
  struct Place {
    engine::Path path;
    engine::Spot spot;
    std::size_t items = 0;
  };
  static async::Task<void> look_up_one(engine::Paths& paths, Place& place);

  const PathBegin& begin_;
  std::deque<Place> places_;  // a deque, because known_ points to its elements
  std::unordered_map<std::string_view, Place*> known_;
};

/// `Item`: an item of engine/many_files.h. `T`: its result's value.
template <class T, class Item>
class ManyFiles {
 public:
  ManyFiles(ClientImpl& client, const PathBegin& begin, std::size_t count)
      : client_(client), begin_(begin), places_(begin) {
    entries_.reserve(count);
  }

  /// `path` must stay valid.
  void add(std::string_view path, Item item) {
    item.file.directory = places_.find(path, item.file.name);
    entries_.push_back({path, std::move(item)});
  }

  /// `together(engine, items)` does all items that are names in directories; `by_path(path, item)` does one
  /// of the remaining items.
  template <class Together, class ByPath>
  std::vector<Result<T>> run(Together together, ByPath by_path) {
    const Status ended = client_.run<Status>([&] { return task(together, by_path); });
    std::vector<Result<T>> out;
    out.reserve(entries_.size());
    for (Entry& one : entries_) {
      auto& result = one.item.result;
      const std::string path(one.path);
      if (result && *result) {
        out.push_back(std::move(*result));
        continue;
      }
      Error why =
          ended ? Error(ErrorKind::local, EIO, "", path,
                        "this path was not processed, which is an error in this program; please report it")
                : ended.error();
      if (result) why = result->error();
      out.emplace_back(why.about(why.operation(), path));
    }
    return out;
  }

 private:
  struct Entry {
    std::string_view path;
    Item item;
  };
  static constexpr std::size_t kParallelPaths = 8;

  [[nodiscard]] static bool is_by_itself(const Item& item) {
    if (!item.result) return true;
    if (*item.result || item.result->error().kind() != ErrorKind::server) return false;
    const int code = item.result->error().errno_value();
    return code == ELOOP || code == ENOTDIR;
  }

  template <class Together, class ByPath>
  async::Task<Status> task(Together together, ByPath by_path) {
    co_await places_.look_up(client_.loop(), client_.paths());
    std::vector<Item*> named;
    named.reserve(entries_.size());
    for (Entry& one : entries_) {
      if (one.item.file.directory != nullptr) named.push_back(&one.item);
    }
    if (!named.empty()) co_await together(client_.engine(), std::move(named));
    std::vector<Entry*> rest;
    for (Entry& one : entries_) {
      if (is_by_itself(one.item)) rest.push_back(&one);
    }
    async::Each each(client_.loop(), rest.size(),
                     [&](std::size_t i) { return one_by_path(*rest[i], by_path); });
    co_await each.run(kParallelPaths);
    co_return Status();
  }

  template <class ByPath>
  async::Task<void> one_by_path(Entry& one, const ByPath& by_path) {
    auto path = begin_.parse(one.path);
    if (!path) {
      one.item.result.emplace(path.error());
      co_return;
    }
    auto done = co_await by_path(std::move(*path), one.item);
    one.item.result.emplace(std::move(done));
  }

  ClientImpl& client_;
  const PathBegin& begin_;
  ManyPlaces places_;
  std::vector<Entry> entries_;
};

}  // namespace nfsrdma::api
