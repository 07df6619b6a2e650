// The plan of sync for one directory: the entries of the source are compared with those of the destination.
//
// Pure: no server, file or clock. sync_walk.h carries a plan out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/crowd.h"
#include "cli/traits.h"

namespace nfsrdma::cli {

/// How it is decided whether a file is unchanged.
enum class Compare : std::uint8_t {
  size_and_time,
  contents,  ///< --checksum: by size, then by SHA-256
  update,    ///< get -u, put -u, cp -u: the copy has the same size and is not older
};

struct SyncRules {
  Compare compare = Compare::size_and_time;
  Keep keep = Keep::times;
  bool removes = false;   ///< --delete
  bool is_dry = false;    ///< --dry-run: nothing is changed
  bool verifies = false;  ///< --verify
  bool resumes = false;   ///< --resume
};

enum class Verdict : std::uint8_t {
  unchanged,
  copy,
  compare_contents,  ///< of two files of the same size
  compare_texts,     ///< of two symbolic links
  set_traits,        ///< the contents are the same, and mode, owner or times are not
  directory,
  unsupported,  ///< a device, a FIFO or a socket
};

/// The decision about one entry of the source.
struct SyncStep {
  TreeEntry source;
  std::optional<Attributes> there = {};  ///< of the entry of this name in the destination
  Verdict verdict = Verdict::unchanged;
  const char* reason = "";  ///< of a copy, in one word

  /// Returns true if the entry in the destination has another type.
  [[nodiscard]] bool is_blocked() const { return there && there->type != source.attributes.type; }
};

struct SyncPlan {
  std::vector<SyncStep> steps;
  std::vector<TreeEntry> extraneous;  ///< entries of the destination that the source does not have
};

/// Returns true if both are the same time, as exactly as the coarser of two file systems stores it.
bool are_same_times(const Time& one, const Time& other);
/// Returns true if the copy lacks something that it is to keep, apart from its contents.
bool have_other_traits(const Attributes& source, const Attributes& copy, Keep keep);
/// Returns true if --update skips the file: its copy has the same size and is not older.
bool is_up_to_date(const Attributes& source, const Attributes& copy);
SyncStep judge(const TreeEntry& source, const Attributes* there, const SyncRules& rules);
SyncPlan make_plan(const std::vector<TreeEntry>& source, const std::vector<TreeEntry>& there,
                   const SyncRules& rules);

}  // namespace nfsrdma::cli
