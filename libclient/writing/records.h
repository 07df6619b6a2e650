// The table of a client's records of files, found by the files' handles.
//
//     Records<FileRecord> files;
//     auto record = files.of(handle, [&] { return new FileRecord(handle); });   // the file's one record
//     files.find(handle);                                                      // null if it has no holder
//
// Each part of the client that has state of a file holds the file's record, which is destroyed with the last
// holder. A record may outlive the table. Confined to one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace nfsrdma::writing {

template <class Record>
class Records {
 public:
  using Found = std::shared_ptr<Record>;

  template <class FileHandle>
  [[nodiscard]] Found find(const FileHandle& file) const {
    if (all_->empty()) return nullptr;
    const auto at = all_->find(file.chars());
    return at != all_->end() ? at->second.lock() : nullptr;
  }
  /// Returns the file's record. If there is none, `make()` creates it.
  template <class FileHandle, class Make>
  [[nodiscard]] Found of(const FileHandle& file, Make make) {
    if (auto known = find(file)) return known;
    const auto at = all_->try_emplace(std::string(file.chars())).first;
    const auto forget = [all = std::weak_ptr(all_), at](const Record* record) {
      if (const auto still = all.lock()) still->erase(at);
      delete record;
    };
    Found out(make(), forget);
    at->second = out;
    return out;
  }
  /// Returns the first record for which `pred` is true, in the order of the handles; null if there is none.
  /// `pred` must not add or remove records.
  template <class Pred>
  [[nodiscard]] Found find_if(Pred pred) const {
    for (const auto& [handle, record] : *all_) {
      if (auto there = record.lock(); there && pred(there)) return there;
    }
    return nullptr;
  }
  /// Calls `fn` with each record. `fn` must not add or remove records.
  template <class Fn>
  void each(Fn fn) const {
    (void)find_if([&fn](const Found& record) {
      fn(record);
      return false;
    });
  }

 private:
  using All = std::map<std::string, std::weak_ptr<Record>, std::less<>>;
  const std::shared_ptr<All> all_ = std::make_shared<All>();
};

}  // namespace nfsrdma::writing
