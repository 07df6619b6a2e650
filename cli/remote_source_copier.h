// What get and cp share: copies of entries of a server's directories, wherever the copies are made. Small files are read
// many at a time, the others each by itself. A file that has changed since its directory was listed is looked at again.
//
// Where copies are made is the matter of the derived class, whose functions run on the threads of the Crowd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/tree_transfer.h"

namespace nfsrdma::cli {

class RemoteSourceCopier : public EntryCopier {
 public:
  void copy(const std::shared_ptr<const Between>& where, std::vector<TreeEntry> entries) final;

 protected:
  using Where = std::shared_ptr<const Between>;
  /// A small file whose data was read.
  struct Fetched {
    const TreeEntry& entry;
    std::span<const std::byte> data;
  };
  RemoteSourceCopier(Tree& tree, Crowd& crowd, const CopyRules& rules)
      : tree_(tree), crowd_(crowd), rules_(rules) {}

  /// Returns true if a small file with these attributes is to be copied by itself all the same.
  [[nodiscard]] virtual bool needs_handle(const Attributes& attributes) const = 0;
  virtual Status link(const Where& where, const std::string& name, const std::string& text) = 0;
  /// Copies one file, and counts it.
  virtual Status one(const Where& where, const TreeEntry& entry) = 0;
  /// Writes small files, counts them, and calls copied() for those that were written. Reports failures.
  virtual void save(const Where& where, const std::vector<Fetched>& files) = 0;
  static void copied(const Where& where, const std::string& name, std::uint64_t size) {
    if (where->copied) where->copied(name, size);
  }

  Tree& tree_;
  Crowd& crowd_;
  const CopyRules rules_;

 private:
  void entry(const Where& where, TreeEntry& entry, std::vector<TreeEntry>& small);
  void symlink(const Where& where, const std::string& name);
  void together(const Where& where, const std::vector<TreeEntry>& files);
  /// Whether the attributes of an entry may still be those of the file.
  enum class Listed : std::uint8_t { up_to_date, out_of_date };
  void alone(const Where& where, const TreeEntry& entry, Listed listed);
};

}  // namespace nfsrdma::cli
