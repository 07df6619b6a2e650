// du, sum: walk trees with several threads. Lines are written as they are found: in the server's order
// within a directory, and in no order between directories.
#include <cerrno>
#include <set>
#include <tuple>

#include "cli/changes.h"
#include "cli/crowd.h"
#include "cli/file_sum.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/sha256.h"
#include "cli/walk.h"

namespace nfsrdma::cli {
namespace {

// ---- du ----

/// The space that a directory and everything below it takes.
class Usage {
 public:
  Usage(std::shared_ptr<Usage> above, std::function<void(std::uint64_t)> done)
      : above_(std::move(above)), done_(std::move(done)) {}
  /// Runs when no task works below the directory any more.
  ~Usage() {
    done_(bytes_);
    if (above_) above_->add(bytes_);
  }
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;
  void add(std::uint64_t bytes) { bytes_ += bytes; }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  const std::shared_ptr<Usage> above_;
  const std::function<void(std::uint64_t)> done_;
};

class Counter {
 public:
  Counter(Call& call, Tree& tree, Crowd& crowd)
      : call_(call),
        tree_(tree),
        crowd_(crowd),
        json_(call.json()),
        apparent_(call.has("apparent-size")),
        summary_(call.has("summarize")),
        human_(call.has("human")) {}

  void count(const Remote& remote, const Attributes& attributes, const std::shared_ptr<Usage>& above,
             bool named) {
    if (attributes.type != FileType::directory) {
      const std::uint64_t bytes = is_new(attributes) ? used(attributes) : 0;
      if (above) above->add(bytes);
      if (named) show(remote, bytes);
      return;
    }
    const auto here = std::make_shared<Usage>(above, [this, remote, named](std::uint64_t bytes) {
      if (tree_.going() && (named || !summary_)) show(remote, bytes);
    });
    here->add(used(attributes));
    crowd_.add([this, remote, here] {
      if (!tree_.going()) return;
      const auto entries = tree_.list(remote);
      if (!entries) return tree_.failed(entries.error());
      for (const TreeEntry& one : entries.value()) count(remote.child(one.name), one.attributes, here, false);
    });
  }

 private:
  [[nodiscard]] std::uint64_t used(const Attributes& one) const {
    return apparent_ ? one.size : one.space_used;
  }
  /// Returns false for a file that was counted before under another name.
  bool is_new(const Attributes& one) {
    if (one.links < 2) return true;
    const std::lock_guard lock(mutex_);
    return seen_.insert({one.filesystem_major, one.filesystem_minor, one.file_id}).second;
  }
  void show(const Remote& remote, std::uint64_t bytes) {
    if (json_) {
      tree_.line(json::Object()
                     .text("path", remote.path)
                     .text("target", remote.target())
                     .number("bytes", bytes)
                     .str());
      return;
    }
    constexpr std::uint64_t unit = 1024;
    const std::string size = human_      ? human_size(bytes)
                             : apparent_ ? std::to_string(bytes)
                                         : std::to_string((bytes + unit - 1) / unit);
    tree_.line(size + "\t" + call_.shown(remote.target()));
  }

  const Call& call_;
  Tree& tree_;
  Crowd& crowd_;
  const bool json_, apparent_, summary_, human_;
  std::mutex mutex_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> seen_;
};

// ---- sum ----

class Summer {
 public:
  Summer(Call& call, Tree& tree, Crowd& crowd)
      : call_(call), tree_(tree), crowd_(crowd), json_(call.json()), recursive_(call.has("recursive")) {}

  void look(const Remote& remote, const Attributes& attributes) {
    if (attributes.type == FileType::directory && !recursive_) {
      return tree_.failed(Error(ErrorKind::usage, EISDIR, "sum", remote.text(),
                                "is a directory; use sum -r for the files in it"));
    }
    if (attributes.type == FileType::directory) {
      crowd_.add([this, remote] { directory(remote); });
    } else if (attributes.type == FileType::regular) {
      crowd_.add([this, remote, attributes] { one(remote, attributes); });
    } else if (attributes.type != FileType::symlink) {
      tree_.failed(Error(ErrorKind::local, EOPNOTSUPP, "sum", remote.text(),
                         "is a device, a FIFO or a socket; skipped"));
    }
  }

 private:
  void directory(const Remote& remote) {
    if (!tree_.going()) return;
    auto entries = tree_.list(remote);
    if (!entries) return tree_.failed(entries.error());
    std::vector<TreeEntry> small;
    for (TreeEntry& entry : *entries) {
      if (entry.attributes.type == FileType::regular && entry.attributes.size <= small_file)
        small.push_back(std::move(entry));
      else
        look(remote.child(entry.name), entry.attributes);
    }
    in_parts(std::move(small), [&](std::vector<TreeEntry> part) {
      crowd_.add([this, remote, files = std::move(part)] { together(remote, files); });
    });
  }
  void together(const Remote& remote, const std::vector<TreeEntry>& files) {
    if (!tree_.going()) return;
    Rooms rooms(files);
    const auto results = read_together(remote, files, rooms);
    for (std::size_t i = 0; i < files.size(); ++i) {
      const Remote file = remote.child(files[i].name);
      if (!results[i]) {
        tree_.failed(results[i].error());
      } else if (has_changed(files[i].attributes, *results[i])) {
        report(copy_afresh(file, reader(file)));
      } else {
        Sha256 sum;
        sum.add(rooms[i].first(results[i]->count));
        show(file, sum.finish(), results[i]->count);
      }
    }
  }
  void one(const Remote& remote, const Attributes& attributes) {
    if (tree_.going()) report(copy_listed(remote, attributes, reader(remote)));
  }
  void report(const Status& done) {
    if (!done) tree_.failed(done.error());
  }
  CopyOf reader(const Remote& remote) {
    return [this, &remote](const Attributes& attributes) { return read(remote, attributes); };
  }
  Status read(const Remote& remote, const Attributes& attributes) {
    const auto sum = sum_of(remote, attributes, "sum", tree_.progress_of_one());
    if (!sum) return sum.error();
    show(remote, sum->sha256, sum->size);
    return {};
  }
  void show(const Remote& remote, const std::string& sum, std::uint64_t size) {
    if (json_) {
      tree_.line(json::Object()
                     .text("path", remote.path)
                     .text("target", remote.target())
                     .text("sha256", sum)
                     .number("size", size)
                     .str());
    } else if (call_.ends_lines_with_nul()) {
      tree_.line(sum + "  " + remote.target());
    } else {
      tree_.line(call_.shown(checksum_line(sum, remote.target())));
    }
  }

  const Call& call_;
  Tree& tree_;
  Crowd& crowd_;
  const bool json_, recursive_;
};

}  // namespace

void run_du(Call& call) {
  walk<Counter>(call, false, [](Counter& counter, const Remote& remote, const Attributes& attributes) {
    counter.count(remote, attributes, nullptr, true);
  });
}

void run_sum(Call& call) {
  walk<Summer>(call, true, [](Summer& summer, const Remote& remote, const Attributes& attributes) {
    summer.look(remote, attributes);
  });
}

}  // namespace nfsrdma::cli
