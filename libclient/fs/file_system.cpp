#include "fs/file_system.h"

namespace nfsrdma::fs {

InnerParts::InnerParts(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root,
                       async::Tasks& background, ReadsElsewhere* elsewhere)
    : state(std::move(engine), options, root, background, elsewhere),
      kernel(state),
      name_checks(state),
      entries(state, name_checks),
      early_reads(state),
      deferred_closes(*state.engine, state.inodes, state.writes),
      removal(*state.engine, state.inodes, state.freshness, state.counters) {}

FileSystem::FileSystem(std::shared_ptr<Engine> engine, const CacheOptions& options, const Object& root,
                       ReadsElsewhere* elsewhere)
    : InnerParts(std::move(engine), options, root, background_, elsewhere),
      AttributeRequests(state),
      Listing(state, entries, *this),
      NameRequests(state, name_checks, entries, *this, *this, deferred_closes, removal),
      Opening(state, kernel, name_checks, entries, *this, early_reads, removal),
      Reading(state, kernel),
      Writing(state, kernel),
      FileLocks(state, kernel),
      Closing(state, deferred_closes, early_reads, removal),
      Xattrs(state),
      background_(state.loop) {
  Engine& server = *state.engine;
  server.promises().keep_delegated(state.options.most_delegated);
  server.promises().hold_closes();
  server.promises().on_delegation_end([this](const FileHandle& handle) {
    const auto inode = state.inodes.find(handle);
    if (!inode) return;
    ++inode->delegations_ended;
    state.freshness.delegation_ended(*inode);
  });
  server.on_lost_data([this](const FileHandle& handle, const Error& error) {
    if (const auto inode = state.inodes.find(handle)) state.writes.lost(*inode, error);
  });
}

FileSystem::~FileSystem() {
  state.engine->promises().on_delegation_end(nullptr);
  state.engine->on_lost_data(nullptr);
}

Holdings FileSystem::holdings() const {
  Holdings out;
  out.inodes = state.inodes.size();
  out.files = state.engine->open_files();
  out.bytes_behind = state.writes.bytes_behind();
  out.bytes_ahead = state.read_window.held();
  out.readers = state.read_window.readers();
  out.bytes_listed = bytes_listed();
  out.read = state.read_window.window();
  out.write = state.writes.window();
  out.uncommitted_bytes = state.engine->uncommitted_bytes();
  out.spare_bytes = state.loop.memory().spare_bytes();
  return out;
}

}  // namespace nfsrdma::fs
