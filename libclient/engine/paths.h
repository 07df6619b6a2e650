// Operations by path, on any engine: the one place where symbolic links are followed.
//
//     Paths paths(engine);
//     auto object = co_await paths.find(*Path::parse("/export/dir/file"), true);
//
// An engine walks a path's names in the same request as the operation where its version can, and follows no
// link. So each operation is tried as the path stands. Where the server says that a name on the way is no
// directory, or that the last is a symbolic link, the names are looked at one after the other, each link is
// replaced by what it points to, and the operation is tried again; after forty of them it ends with ELOOP. A
// path without links costs nothing more than its operation.
//
// Links are followed on the way, and at the end where an operation says so.
//
// Confined to the loop's thread. Must outlive its tasks, as the engine must.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/path.h"

namespace nfsrdma::engine {

class Paths {
 public:
  /// `caller`: whose rights count; null: those of the engine's own credential.
  explicit Paths(Engine& engine, Caller caller = nullptr) : engine_(engine), caller_(std::move(caller)) {}

  async::Task<Result<Object>> find(Path path, bool follow);
  async::Task<Result<std::string>> read_link(Path path);
  async::Task<Result<Rights>> access(Path path, unsigned wanted);  ///< follows
  async::Task<Result<Space>> space(Path path);                     ///< follows
  /// The first page; Engine::list() of its directory gives the others. Follows.
  async::Task<Result<Page>> list(Path path);
  async::Task<Status> make_directory(Path path, std::uint32_t mode);
  async::Task<Status> make_symlink(std::string text, Path created);
  async::Task<Status> make_node(Path path, FileType type, Engine::Device device, std::uint32_t mode);
  /// EISDIR, ENOTDIR: it is not what it is said to be.
  async::Task<Status> remove(Path path, Engine::Removed what);
  async::Task<Status> rename(Path from, Path to);
  async::Task<Status> link(Path existing, Path created);
  async::Task<Status> set_attributes(Path path, SetAttributes changes, bool follow);
  /// Follows, unless the file is to be made and must not be there.
  async::Task<Result<Opened>> open(Path path, Access access, std::optional<Engine::Creation> creation);

 private:
  // As the path stands.
  async::Task<Result<Object>> find_once(const Path& path, bool follow);
  async::Task<Result<Rights>> access_once(const Path& path, unsigned wanted);
  async::Task<Result<Space>> space_once(const Path& path);
  async::Task<Status> remove_once(const Path& path, Engine::Removed what);
  async::Task<Result<Opened>> open_once(const Path& path, Access access,
                                        std::optional<Engine::Creation> creation);

  /// What `run(path)` gives, when no symbolic link is in its way any more. `last`: nor at its end.
  template <class R, class Run>
  async::Task<R> following(Path path, bool last, Run run);
  template <class R, class Run>
  async::Task<R> following_both(Path first, Path second, Run run);
  async::Task<Status> rise(Path& path);
  /// True if there was a link.
  async::Task<Result<bool>> replace_links(Path& path, bool last);

  Engine& engine_;
  const Caller caller_;
};

}  // namespace nfsrdma::engine
