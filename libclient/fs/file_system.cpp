#include "fs/file_system.h"

namespace nfsrdma::fs {

FileSystem::FileSystem(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root)
    : shared_(std::move(engine), options, root, background_),
      kernel_(shared_),
      name_checks_(shared_),
      entries_(shared_, name_checks_),
      attributes_(shared_),
      listing_(shared_, entries_, attributes_),
      deferred_closes_(*shared_.engine, shared_.inodes, shared_.writes),
      removal_(*shared_.engine, shared_.inodes, shared_.freshness, shared_.counters),
      names_(shared_, entries_, listing_, attributes_, deferred_closes_, removal_),
      early_reads_(shared_),
      opening_(shared_, kernel_, name_checks_, entries_, attributes_, early_reads_, removal_),
      reading_(shared_, kernel_),
      writing_(shared_, kernel_),
      locks_(shared_, kernel_),
      closing_(shared_, deferred_closes_, early_reads_, removal_),
      xattrs_(shared_),
      background_(shared_.loop) {
  Engine& server = *shared_.engine;
  server.promises().keep_delegated(shared_.options.most_delegated);
  server.promises().hold_closes();
  server.promises().on_delegation_end([this](const FileHandle& handle) {
    if (const auto inode = shared_.inodes.find(handle)) shared_.freshness.delegation_ended(*inode);
  });
  server.on_lost_data([this](const FileHandle& handle, const Error& error) {
    if (const auto inode = shared_.inodes.find(handle)) shared_.writes.lost(*inode, error);
  });
}

FileSystem::~FileSystem() {
  shared_.engine->promises().on_delegation_end(nullptr);
  shared_.engine->on_lost_data(nullptr);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = shared_.inodes.size();
  out.files = shared_.engine->open_files();
  out.bytes_behind = shared_.writes.bytes_behind();
  out.bytes_ahead = shared_.read_window.held();
  out.readers = shared_.read_window.readers();
  out.bytes_listed = listing_.bytes();
  out.read = shared_.read_window.window();
  out.write = shared_.writes.window();
  out.uncommitted_bytes = shared_.engine->uncommitted_bytes();
  out.spare_bytes = shared_.loop.memory().spare_bytes();
  return out;
}

}  // namespace nfsrdma::fs
