#include "fs/file_system.h"

namespace nfsrdma::fs {

SharedParts::SharedParts(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root,
                         async::Tasks& background)
    : shared(std::move(engine), options, root, background),
      kernel(shared),
      name_checks(shared),
      entries(shared, name_checks),
      early_reads(shared),
      deferred_closes(*shared.engine, shared.inodes, shared.writes),
      removal(*shared.engine, shared.inodes, shared.freshness, shared.counters) {}

FileSystem::FileSystem(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root)
    : SharedParts(std::move(engine), options, root, background_),
      AttributeRequests(shared),
      Listing(shared, entries, *this),
      NameRequests(shared, name_checks, entries, *this, *this, deferred_closes, removal),
      Opening(shared, kernel, name_checks, entries, *this, early_reads, removal),
      Reading(shared, kernel),
      Writing(shared, kernel),
      FileLocks(shared, kernel),
      Closing(shared, deferred_closes, early_reads, removal),
      Xattrs(shared),
      background_(shared.loop) {
  Engine& server = *shared.engine;
  server.promises().keep_delegated(shared.options.most_delegated);
  server.promises().hold_closes();
  server.promises().on_delegation_end([this](const FileHandle& handle) {
    if (const auto inode = shared.inodes.find(handle)) shared.freshness.delegation_ended(*inode);
  });
  server.on_lost_data([this](const FileHandle& handle, const Error& error) {
    if (const auto inode = shared.inodes.find(handle)) shared.writes.lost(*inode, error);
  });
}

FileSystem::~FileSystem() {
  shared.engine->promises().on_delegation_end(nullptr);
  shared.engine->on_lost_data(nullptr);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = shared.inodes.size();
  out.files = shared.engine->open_files();
  out.bytes_behind = shared.writes.bytes_behind();
  out.bytes_ahead = shared.read_window.held();
  out.readers = shared.read_window.readers();
  out.bytes_listed = bytes_listed();
  out.read = shared.read_window.window();
  out.write = shared.writes.window();
  out.uncommitted_bytes = shared.engine->uncommitted_bytes();
  out.spare_bytes = shared.loop.memory().spare_bytes();
  return out;
}

}  // namespace nfsrdma::fs
