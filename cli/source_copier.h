// Sorts the entries of a directory by the way in which get, put and cp copy them: small files go together, the others each
// by itself.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/tree_transfer.h"

namespace nfsrdma::cli {

/// `Entry`: TreeEntry if the sources are on a server, LocalEntry if they are on this machine. The functions of the derived
/// class run on the threads of the Crowd.
template <class Entry>
class SourceCopier : public EntryCopier {
 protected:
  using Where = std::shared_ptr<const Between>;
  SourceCopier(Tree& tree, Crowd& crowd, const CopyRules& rules)
      : tree_(tree), crowd_(crowd), rules_(rules) {}

  /// Adds tasks that copy the entries, which are no directories.
  void sort(const Where& where, std::vector<Entry> entries) {
    std::vector<Entry> small;
    for (Entry& one : entries) sort_one(where, one, small);
    in_parts(std::move(small), [&](std::vector<Entry> part) {
      crowd_.add([this, where, files = std::move(part)] { together(where, files); });
    });
  }
  /// Returns true if a small file is to be copied by itself all the same.
  [[nodiscard]] virtual bool needs_handle(const Entry& entry) const = 0;
  /// Makes a symbolic link with this text.
  virtual Status link(const Where& where, const std::string& name, const std::string& text) = 0;
  virtual void together(const Where& where, std::vector<Entry> files) = 0;
  virtual void alone(const Where& where, Entry entry) = 0;
  /// Counts a file or a symbolic link that was copied.
  void copied(const Where& where, const std::string& name, std::uint64_t size) {
    tree_.count_file();
    if (where->copied) where->copied(name, size);
  }

  Tree& tree_;
  Crowd& crowd_;
  const CopyRules rules_;

 private:
  void sort_one(const Where& where, Entry& entry, std::vector<Entry>& small) {
    if (entry.type() == FileType::symlink) {
      crowd_.add([this, where, name = entry.name] { symlink(where, name); });
    } else if (entry.type() != FileType::regular) {
      tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, tree_.operation(), where->from.text(entry.name),
                         "is a device, a FIFO or a socket; skipped"));
    } else if (entry.size() <= small_file && !needs_handle(entry)) {
      small.push_back(std::move(entry));
    } else {
      crowd_.add([this, where, entry] { alone(where, entry); });
    }
  }
  void symlink(const Where& where, const std::string& name) {
    if (!tree_.going()) return;
    const auto text = where->from.read_link(name);
    const Status done = text ? link(where, name, *text) : Status(text.error());
    if (!done) return tree_.failed(done.error());
    copied(where, name, 0);
  }
};

}  // namespace nfsrdma::cli
