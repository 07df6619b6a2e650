// Which files a name may lead to, while several clients make, rename and remove it.
//
// The server carries out changes of names one by one, and a client asks it when it opens a file by name. So a name is a
// register: it may lead to whatever a change made of it that is not surely behind another change, which ended before the
// question began. A file is known by its handle on the server; "" is no file.
//
// Thread-safety: none. The OracleClock outlives it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sim/file_oracle.h"

namespace nfsrdma::sim {

class NameOracle {
 public:
  using File = std::string;
  using Outcome = FileOracle::Outcome;
  using ChangeId = std::size_t;

  /// The name leads nowhere.
  explicit NameOracle(OracleClock& clock);

  /// It is about to lead to one of these; none: to a file that is not known yet, `perhaps` to one of those.
  ChangeId begin(std::vector<File> to, std::vector<File> perhaps = {});
  /// `sure`: false if the name may lead elsewhere although the change was made.
  void end(ChangeId change, Outcome outcome, std::vector<File> to, bool sure = true);

  /// Whether it may lead to the file, by a change that is not `but`.
  [[nodiscard]] bool may_lead_to(const File& file, Tick begun,
                                 std::optional<ChangeId> but = std::nullopt) const;
  [[nodiscard]] bool may_lead_somewhere(Tick begun) const;
  /// As far as they are known.
  [[nodiscard]] std::vector<File> files(Tick begun) const;
  /// Whether it may lead to a file that is not known yet, by a change that is not `but`.
  [[nodiscard]] bool may_lead_to_unknown(Tick begun, std::optional<ChangeId> but = std::nullopt) const;
  /// No change was under way since then, but this one.
  [[nodiscard]] bool is_quiet_since(Tick begun, std::optional<ChangeId> but = std::nullopt) const;

 private:
  struct Change {
    ChangeId id = 0;
    Tick begun = 0, ended = 0;
    bool sure = true, loose = false;
    std::vector<File> to, perhaps;
  };
  [[nodiscard]] bool is_permitted(const Change& change, Tick begun) const;
  void prune();

  OracleClock& clock_;
  std::deque<Change> changes_;
  ChangeId last_ = 0;
};

}  // namespace nfsrdma::sim
