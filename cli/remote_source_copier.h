// Copies entries of a server's directories, for get and cp. A file that has changed since its directory was listed is
// looked at again.
//
// Where copies are made is the matter of the derived class, whose functions run on the threads of the Crowd.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/source_copier.h"

namespace nfsrdma::cli {

class RemoteSourceCopier : public SourceCopier<TreeEntry> {
 public:
  void copy(const std::shared_ptr<const Between>& where, std::vector<TreeEntry> entries) final {
    sort(where, std::move(entries));
  }

 protected:
  /// A small file whose data was read.
  struct Fetched {
    const TreeEntry& entry;
    std::span<const std::byte> data;
  };
  using SourceCopier::SourceCopier;

  /// Copies one file.
  virtual Status one(const Where& where, const TreeEntry& entry) = 0;
  /// Writes small files, and calls copied() for those that were written. Reports failures.
  virtual void save(const Where& where, const std::vector<Fetched>& files) = 0;

 private:
  void together(const Where& where, std::vector<TreeEntry> files) final;
  void alone(const Where& where, TreeEntry entry) final { alone(where, entry, Listed::up_to_date); }
  /// Whether the attributes of an entry may still be those of the file.
  enum class Listed : std::uint8_t { up_to_date, out_of_date };
  void alone(const Where& where, const TreeEntry& entry, Listed listed);
};

}  // namespace nfsrdma::cli
