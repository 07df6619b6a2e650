// The directories of many paths, for read_many, write_many and stat_many: directories that several paths have
// in common are looked up once, and the engine gets names in them.
//
// Thread-safety: that of the client (crew.h).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/places.h"
#include "async/loop.h"
#include "engine/many_files.h"
#include "engine/paths.h"

namespace nfsrdma::api {

class ManyPlaces {
 public:
  explicit ManyPlaces(const nfsrdma_dir& begin) : begin_(begin.client, begin.directory) {}

  /// Returns the directory of `path` and sets `name`, or returns null if the path has to be done by itself.
  /// `path` must stay valid.
  const engine::Spot* find(std::string_view path, std::string& name);
  /// Looks up the directories that several items are in, and those whose path leads above a directory's
  /// handle ("..").
  async::Task<void> look_up(async::Loop& loop, engine::Paths& paths);
  [[nodiscard]] Result<engine::Path> parse(std::string_view text) const { return begin_.parse(text); }

 private:
  struct Place {
    engine::Path path;
    engine::Spot spot;
    std::size_t items = 0;
  };
  static async::Task<void> look_up_one(engine::Paths& paths, Place& place);

  const nfsrdma_dir begin_;   // a copy: the caller may free its own
  std::deque<Place> places_;  // a deque, because known_ points to its elements
  std::unordered_map<std::string_view, Place*> known_;
};

}  // namespace nfsrdma::api
