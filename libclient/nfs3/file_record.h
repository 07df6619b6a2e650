// The record of one file in NFSv3, whose server knows nothing of opens: the data that the server may still
// lose, and the locks that this client has from the lock service.
//
// There is one record for each file and engine, found by the file's handle. It exists while the file is open
// here or a lock is held on it. Each question has one rule:
//
//   What may the server lose, and
//   who may change the file now?  WriteRecord (writing/write_record.h), through writing/question.h.
//   Which ranges are locked?      `locks`: what the lock service has granted and has not unlocked since, by
//                                 its latest answer to the owner (locks.h). A lock that cannot be claimed
//                                 after a restart of the server is lost; then every use of the file fails
//                                 with EIO until the owner has released its locks.
//   May the caller open it?       Not answered by the record but by KnownRights (rights.h), which outlives
//                                 opens and is as reliable as the attributes are.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "writing/records.h"
#include "writing/write_record.h"

namespace nfsrdma::nfs3 {

struct LockState;  // defined in locks.cpp

struct FileRecord : writing::WriteRecord {
  using WriteRecord::WriteRecord;
  // By owner; each LockState holds a reference to the record.
  std::map<std::uint64_t, std::shared_ptr<LockState>> locks;
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
