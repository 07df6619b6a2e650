// Operations by path, on any engine. This is the only place where symbolic links are followed.
//
//     Paths paths(engine);
//     auto object = co_await paths.find(*Path::parse("/export/dir/file"), true);
//
// An engine walks the names of a path in the request that carries the operation, if its version can, and
// follows no link. So each operation is first tried with the path as it is. If the server answers that a name
// on the path is no directory, or that the last name is a symbolic link, the names are examined one after the
// other, each link is replaced by its target, and the operation is tried again. After forty links it ends
// with ELOOP. A path without links costs only the operation itself.
//
// Links in front of the last name are always followed. A link at the end is followed if the operation says
// so.
//
// Confined to the loop's thread. A Paths must outlive its tasks, and so must the engine.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/path.h"

namespace nfsrdma::engine {

class Paths {
 public:
  /// `caller` is the user whose rights count; null means the engine's own credential.
  explicit Paths(Engine& engine, Caller caller = nullptr) : engine_(engine), caller_(std::move(caller)) {}

  async::Task<Result<Object>> find(Path path, bool follow);
  async::Task<Result<std::string>> read_link(Path path);
  async::Task<Result<Rights>> access(Path path, unsigned wanted);  ///< follows a link at the end
  async::Task<Result<Space>> space(Path path);                     ///< follows a link at the end
  /// Returns the first page; Engine::list() of its directory returns the others. Follows a link at the end.
  async::Task<Result<Page>> list(Path path);
  async::Task<Status> make_directory(Path path, std::uint32_t mode);
  async::Task<Status> make_symlink(std::string text, Path created);
  async::Task<Status> make_node(Path path, FileType type, Engine::Device device, std::uint32_t mode);
  /// Fails with EISDIR or ENOTDIR if the object is not of the kind `what`.
  async::Task<Status> remove(Path path, Engine::Removed what);
  async::Task<Status> rename(Path from, Path to);
  async::Task<Status> link(Path existing, Path created);
  async::Task<Status> set_attributes(Path path, SetAttributes changes, bool follow);
  /// Follows a link at the end, unless the file is to be created exclusively.
  async::Task<Result<Opened>> open(Path path, Access access, std::optional<Engine::Creation> creation);

 private:
  // Each of these makes a single attempt, with the path as it is.
  async::Task<Result<Object>> find_once(const Path& path, bool follow);
  async::Task<Result<Rights>> access_once(const Path& path, unsigned wanted);
  async::Task<Result<Space>> space_once(const Path& path);
  async::Task<Status> remove_once(const Path& path, Engine::Removed what);
  async::Task<Result<Opened>> open_once(const Path& path, Access access,
                                        std::optional<Engine::Creation> creation);

  /// Returns the result of `run(path)` once no symbolic link obstructs it. `last`: a link at the end of the
  /// path is followed, too.
  template <class R, class Run>
  async::Task<R> following(Path path, bool last, Run run);
  template <class R, class Run>
  async::Task<R> following_both(Path first, Path second, Run run);
  async::Task<Status> rise(Path& path);
  /// Replaces the links on the path by their targets. Returns true if there was one.
  async::Task<Result<bool>> replace_links(Path& path, bool last);

  Engine& engine_;
  const Caller caller_;
};

}  // namespace nfsrdma::engine
