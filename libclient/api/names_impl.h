// The implementation that Client and Directory share: calls by path. They differ only in where a path begins.
//
// Thread-safety: that of the Client (crew.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/paths.h"
#include "nfsrdma/client.h"

namespace nfsrdma::api {

class ClientImpl;

/// The Client that paths belong to, and the directory where relative paths begin.
class PathBegin {
 public:
  PathBegin(ClientImpl& client, std::optional<engine::FileHandle> directory)
      : client_(client), directory_(directory) {}
  virtual ~PathBegin();
  PathBegin(const PathBegin&) = delete;
  PathBegin& operator=(const PathBegin&) = delete;
  [[nodiscard]] Result<engine::Path> parse(std::string_view text) const;
  [[nodiscard]] ClientImpl& client() const { return client_; }

 private:
  ClientImpl& client_;
  const std::optional<engine::FileHandle> directory_;  // none: the server's root
};

// Defined in many_paths.cpp.
std::vector<Result<FileRead>> read_files(ClientImpl& client, const PathBegin& begin,
                                         std::span<const ReadItem> items);
std::vector<Result<FileWritten>> write_files(ClientImpl& client, const PathBegin& begin,
                                             std::span<const WriteItem> items);
std::vector<Result<Attributes>> stat_files(ClientImpl& client, const PathBegin& begin,
                                           std::span<const std::string> paths, bool follow);

/// `Face`: the public class, Client or Directory.
template <class Face>
class NamesImpl : public Face, public PathBegin {
 public:
  using PathBegin::PathBegin;

  Result<Attributes> stat(std::string_view path, bool follow) override;
  void start_stat(std::string_view path, Names::Told done, bool follow) override;
  Result<std::string> read_link(std::string_view path) override;
  Result<FilesystemSpace> space(std::string_view path) override;
  Status list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) override;
  Status make_directory(std::string_view path, std::uint32_t mode) override;
  Status symlink(std::string_view text, std::string_view created) override;
  Status make_node(std::string_view path, FileType type, std::uint32_t mode, std::uint32_t major,
                   std::uint32_t minor) override;
  Status remove_file(std::string_view path) override;
  Status remove_directory(std::string_view path) override;
  Status rename(std::string_view from, std::string_view to) override { return rename(from, *this, to); }
  Status link(std::string_view existing, std::string_view created) override {
    return link(existing, *this, created);
  }
  Status rename(std::string_view from, Names& target, std::string_view to) override;
  Status link(std::string_view existing, Names& target, std::string_view created) override;
  Status set_attributes(std::string_view path, const SetAttributes& changes, bool follow) override;
  Result<unsigned> access(std::string_view path, unsigned wanted) override;
  Result<std::unique_ptr<File>> open(std::string_view path, OpenMode mode, const OpenFlags& flags) override;
  void start_open(std::string_view path, OpenMode mode, Names::Opened done, const OpenFlags& flags) override;
  Result<std::unique_ptr<Directory>> open_directory(std::string_view path) override;
  std::vector<Result<FileRead>> read_many(std::span<const ReadItem> items) override {
    return read_files(client(), *this, items);
  }
  std::vector<Result<FileWritten>> write_many(std::span<const WriteItem> items) override {
    return write_files(client(), *this, items);
  }
  std::vector<Result<Attributes>> stat_many(std::span<const std::string> paths, bool follow) override {
    return stat_files(client(), *this, paths, follow);
  }
  Result<std::vector<std::byte>> get_xattr(std::string_view path, std::string_view name,
                                           bool follow) override;
  Status set_xattr(std::string_view path, std::string_view name, std::span<const std::byte> value,
                   XattrMode mode, bool follow) override;
  Status remove_xattr(std::string_view path, std::string_view name, bool follow) override;
  Result<std::vector<std::string>> list_xattrs(std::string_view path, bool follow) override;
  Result<Acl> get_acl(std::string_view path, bool follow) override;
  Status set_acl(std::string_view path, const Acl& acl, bool follow) override;

 private:
  /// Returns the task that `make(path, paths)` makes, or one that fails if `text` is not a valid path.
  template <class R, class Make>
  async::Task<R> begin(std::string_view text, Make& make);
  /// Runs that task to its end.
  template <class R, class Make>
  R on_path(std::string_view text, Make make);
  /// Starts that task. The task uses nothing of this object, which may be destroyed meanwhile.
  template <class R, class Make>
  void start_on_path(std::string_view text, Make make, std::function<void(R)> done);
  template <class Make>
  Status on_paths(std::string_view first, Names& target, std::string_view second, Make make);
  /// Finds the object that the path leads to, and runs `call(engine, handle)` on it.
  template <class R, class Call>
  R on_object(std::string_view text, bool follow, Call call);
};

}  // namespace nfsrdma::api
