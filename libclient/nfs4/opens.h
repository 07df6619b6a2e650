// The registry of open files: those whose state the server has, and which are reclaimed after it restarted.
//
// Whoever opens a file registers its Open (open_state.h) and releases it when the server has closed it, or
// nobody can use it any more. The registry holds on to each in between; what recovers one in a task holds on
// to it, too, and finds by Open::held whether it was released meanwhile. The order is that of registration,
// whatever comes and goes, so that all of them can be gone through with calls to the server in between:
//
//     for (auto at = opens.all().begin(); at != opens.all().end(); at = opens.all().upper_bound(number)) …
//
// The files' records (file_record.h) are found here, too: a registered open has the one of its file.
//
// Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "nfs4/open_state.h"
#include "writing/records.h"

namespace nfsrdma::nfs4 {

class Opens {
 public:
  explicit Opens(async::Loop& loop) : loop_(loop) {}
  Opens(const Opens&) = delete;
  Opens& operator=(const Opens&) = delete;

  void hold(const std::shared_ptr<Open>& open) {
    open->number = ++last_;
    open->held = true;
    all_.emplace_hint(all_.end(), open->number, open);
    if (!open->record)
      open->record = files_.of(open->file, [&] { return new FileRecord(loop_, data_, open->file); });
    auto& opens = open->record->opens;
    opens.insert(std::ranges::upper_bound(opens, open->owner, {}, &Open::owner), open.get());
  }
  /// Nothing where it is not registered.
  void release(Open& open) {
    if (!std::exchange(open.held, false)) return;
    all_.erase(open.number);
    if (on_release) on_release(open);
    std::erase(open.record->opens, &open);
  }
  /// Makes an open owner unique (Open::owner).
  [[nodiscard]] std::uint64_t next_owner() { return ++last_owner_; }

  [[nodiscard]] const std::map<std::uint64_t, std::shared_ptr<Open>>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  using Files = writing::Records<FileRecord>;
  [[nodiscard]] const Files& files() const { return files_; }
  /// The record of a file of which this client has an open; null if it has none.
  [[nodiscard]] Files::Found file(const nfs_fh4& handle) const { return files_.find(handle); }
  /// State that the data of all files shares.
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const { return data_; }
  /// Ranges that are locked.
  [[nodiscard]] std::size_t locks() const {
    std::size_t out = 0;
    for (const auto& [number, open] : all_) {
      for (const auto& [owner, state] : open->locks) out += state->held.list().size();
    }
    return out;
  }

  /// Called when one was released.
  std::function<void(Open& open)> on_release;

 private:
  async::Loop& loop_;
  const std::shared_ptr<writing::AllFiles> data_ = std::make_shared<writing::AllFiles>();
  Files files_;
  std::map<std::uint64_t, std::shared_ptr<Open>> all_;  // by Open::number
  std::uint64_t last_ = 0;
  std::uint64_t last_owner_ = 0;
};

}  // namespace nfsrdma::nfs4
