// The record of one file in NFSv3, whose server knows of no opens: the data that the server may still lose, and the locks
// that this client has by the service beside NFS.
//
// There is one for each file and engine, found by the file's handle, while the file is open here or somebody has a lock on
// it. Each answer has one rule:
//
//   What may the server lose, and
//   who may change the file now?   WriteRecord (writing/write_record.h), through writing/question.h.
//   Which ranges are locked?       `locks`: what the lock service has granted and has not unlocked since, by its latest
//                                  answer to the owner (locks.h). A restart of the server after which a lock cannot be
//                                  claimed loses it, and then every use of the file gives EIO until the owner lets go.
//   May the caller open it?        Not here: KnownRights (rights.h) outlives opens, and is as good as the attributes are.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "writing/records.h"
#include "writing/write_record.h"

namespace nfsrdma::nfs3 {

struct LockState;  // of locks.cpp

struct FileRecord : writing::WriteRecord {
  using WriteRecord::WriteRecord;
  std::map<std::uint64_t, std::shared_ptr<LockState>> locks;  // by owner; each holds the record
};

class FileRecords : public writing::Records<FileRecord> {
 public:
  explicit FileRecords(async::Loop& loop) : loop_(loop) {}
  /// State that the data of all files shares.
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const { return data_; }
  [[nodiscard]] Found of(const writing::FileHandle& file) {
    return Records::of(file, [&] { return new FileRecord(loop_, data_, file); });
  }

 private:
  async::Loop& loop_;
  const std::shared_ptr<writing::AllFiles> data_ = std::make_shared<writing::AllFiles>();
};

}  // namespace nfsrdma::nfs3
