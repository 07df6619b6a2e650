// What all AnyWorkers of a world know (any_work.h): the oracles of their files and names, who has what locked and open, and which
// classes of operations have occurred. The simulation sees what no single program can.
//
// Thread-safety: none. The Findings outlive it.
#pragma once

#include <array>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/coverage.h"
#include "sim/file_oracle.h"
#include "sim/job.h"
#include "sim/name_oracle.h"

namespace nfsrdma::sim {

/// Names that AnyWorkers open, rename, link and remove.
inline constexpr std::array kSharedNames{"a", "b", "c", "d"};

/// A range of a file, as traces have it.
[[nodiscard]] inline std::string range_text(std::uint64_t offset, std::uint64_t length) {
  return std::to_string(offset) + "+" + std::to_string(length);
}

struct Commons {
  /// `names`: how many of kSharedNames there are. `stripes`: workers write stripes of the first one now and then.
  Commons(const Findings& findings, std::size_t names, bool stripes);
  Commons(const Commons&) = delete;
  Commons& operator=(const Commons&) = delete;

  /// By the file's handle on the server; made where it was not known.
  FileOracle& file(const std::string& key);
  NameOracle& name(const std::string& name) { return names.at(name); }
  /// An open(2) with O_TRUNC under way. It cuts whichever file the name leads to when the server executes it.
  struct Cut {
    std::string name;
    FileOracle::Who who;
    Tick begun = 0;
    std::map<std::string, FileOracle::ChangeId> changes;  ///< by the file's handle
  };
  using CutRef = std::list<Cut>::iterator;
  /// Called when open(2) begins; the entry goes by cuts.erase(), or by kill().
  CutRef begin_cut(const std::string& name, FileOracle::Who who, Tick begun);
  /// Called when the name has been given to the files, or may be soon: those who cut that name may cut them.
  void may_lead(const std::string& name, const std::vector<std::string>& keys);
  /// Called when the client was killed.
  void kill(FileOracle::Client client);

  struct Lock {
    FileOracle::Client client = 0;
    std::uint64_t owner = 0;
    std::string file;
    LockRange range;
    bool write = false;
    Tick released = 0;  ///< when its holder began to release it; 0: it has it
  };
  OracleClock clock;
  const Findings& findings;
  const bool stripes;
  std::map<std::string, std::unique_ptr<FileOracle>> files;
  std::map<std::string, NameOracle> names;
  std::set<std::string> unnamed;  ///< files that have lost a name
  std::vector<Lock> locks;
  std::list<Cut> cuts;
  /// How many descriptors of the file each client has.
  std::map<std::string, std::map<FileOracle::Client, unsigned>> opens;
  /// The handles of the files that anybody has opened, by st_ino, which is the same for all clients.
  std::map<std::uint64_t, std::string> numbers;
  Coverage coverage;
  std::set<FileOracle::Client> lost_state;  ///< clients that the server has taken state from
  std::uint64_t members = 0, records = 0;
};

}  // namespace nfsrdma::sim
