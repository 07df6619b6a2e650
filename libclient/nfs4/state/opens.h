// The registry of open files: those whose state the server has, and which are reclaimed after it restarted.
//
// The code that opens a file registers its Open (open_state.h), and releases it when the server has closed it
// or when it cannot be used any more. The registry keeps each Open alive in between. A task that recovers an
// Open keeps it alive as well, and finds by Open::held whether it was released meanwhile. The registry is in
// the order of registration, whatever is added or released, so that a loop over it may call the server in
// between:
//
//     for (auto at = opens.all().begin(); at != opens.all().end(); at = opens.all().upper_bound(number)) …
//
// The files' records (file_record.h) are found here as well: a registered Open has the record of its file.
//
// Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "nfs4/state/open_state.h"
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
  /// Removes an Open from the registry. Does nothing if it is not registered.
  void release(Open& open) {
    if (!std::exchange(open.held, false)) return;
    all_.erase(open.number);
    if (on_release) on_release(open);
    std::erase(open.record->opens, &open);
  }
  /// Returns a number that makes an open owner unique (Open::owner).
  [[nodiscard]] std::uint64_t next_owner() { return ++last_owner_; }

  [[nodiscard]] const std::map<std::uint64_t, std::shared_ptr<Open>>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  using Files = writing::Records<FileRecord>;
  [[nodiscard]] const Files& files() const { return files_; }
  /// Returns the record of a file of which this client has an open; null if it has none.
  [[nodiscard]] Files::Found file(const nfs_fh4& handle) const { return files_.find(handle); }
  /// Returns the open of the file whose state the stateid belongs to, whatever its seqid; null if none is
  /// registered.
  [[nodiscard]] Open* with_state(const nfs_fh4& handle, const stateid4& stateid) const {
    const Files::Found record = files_.find(handle);
    if (!record) return nullptr;
    const auto found = std::ranges::find_if(
        record->opens, [&](const Open* open) { return open->stateid.other == stateid.other; });
    return found != record->opens.end() ? *found : nullptr;
  }
  /// State that the data of all files shares.
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const { return data_; }
  /// Number of locked ranges.
  [[nodiscard]] std::size_t locks() const {
    std::size_t out = 0;
    for (const auto& [number, open] : all_) {
      for (const auto& [owner, state] : open->locks) out += state->held.list().size();
    }
    return out;
  }

  /// Called when an Open has been released.
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
