// The base of the parts of a mounted file system. All parts use the engine, the options, the table of inodes, the known
// attributes, and the writes under way.
//
// FileSystem owns one MountState and the parts. Each part implements some of the kernel's requests, and calls other parts
// only if its constructor takes them.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "async/tasks.h"
#include "engine/engine.h"
#include "fs/cache_options.h"
#include "fs/counters.h"
#include "fs/freshness.h"
#include "fs/inodes.h"
#include "fs/lookups_ahead.h"
#include "fs/missing_names.h"
#include "fs/numbering.h"
#include "fs/read_window.h"
#include "fs/reads_elsewhere.h"
#include "fs/refusal.h"
#include "fs/write_behind.h"

namespace nfsrdma::fs {

/// Attributes are requested again if the size was set meanwhile, up to this many times.
inline constexpr int kMostTries = 4;

struct MountState {
  MountState(std::shared_ptr<Engine> of, const CacheOptions& how, const Object& root, async::Tasks& tasks,
             ReadsElsewhere* elsewhere);
  MountState(const MountState&) = delete;
  MountState& operator=(const MountState&) = delete;
  const std::shared_ptr<Engine> engine;
  async::Loop& loop;
  const CacheOptions options;
  Numbering numbering;
  Counters counters;
  ReadWindow read_window;
  ReadsElsewhere* const reads_elsewhere;  ///< may be null
  Freshness freshness;
  Inodes inodes;
  WriteBehind writes;
  LookupsAhead lookups_ahead;
  MissingNames missing_names;
  /// Tasks that no request waits for. They are destroyed before everything else.
  async::Tasks& background;
};

class Part {
 public:
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 protected:
  explicit Part(MountState& state)
      : engine_(state.engine),
        loop_(state.loop),
        options_(state.options),
        counters_(state.counters),
        freshness_(state.freshness),
        inodes_(state.inodes),
        writes_(state.writes),
        lookups_ahead_(state.lookups_ahead),
        background_(state.background) {}
  ~Part() = default;

  /// Returns the inode of a number, or ESTALE.
  [[nodiscard]] Result<std::shared_ptr<Inode>> find(std::uint64_t id) const;
  /// Handles ESTALE: the kernel then walks the path again, and must get the server's current answers for the names.
  template <class Answer>
  void handle_stale(const Inode& inode, const Answer& answer) {
    if (!answer && answer.error().errno_value() == ESTALE) is_stale(inode);
  }

  const std::shared_ptr<Engine>& engine_;
  async::Loop& loop_;
  const CacheOptions& options_;
  Counters& counters_;
  Freshness& freshness_;
  Inodes& inodes_;
  WriteBehind& writes_;
  LookupsAhead& lookups_ahead_;
  async::Tasks& background_;

 private:
  void is_stale(const Inode& inode);
};

}  // namespace nfsrdma::fs
