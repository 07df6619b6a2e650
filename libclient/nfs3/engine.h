// NFSv3, and NFSv2 translated to it, behind the interface of all versions: operations on names come from
// ObjectOperations, files are added here.
//
// Opening a file concerns only this client. The server is asked whether the caller may open it (ACCESS), once
// for as long as the file does not change, and checks every READ and WRITE itself. A file that was created by
// the caller is open for the access that the caller asked for.
#pragma once

#include <memory>
#include <string>

#include "async/tasks.h"
#include "nfs3/file_record.h"
#include "nfs3/locks.h"
#include "nfs3/nfs3_file.h"
#include "nfs3/object_operations.h"
#include "nfs3/rights.h"

namespace nfsrdma::nfs3 {

class Nfs3Engine final : public ObjectOperations {
 public:
  /// `locks`: grants the locks; null: there are none. It must outlive the engine.
  Nfs3Engine(ProcedureCalls& calls, Roots& roots, LockManager* locks = nullptr, unsigned version = NFS_V3);
  ~Nfs3Engine() override;

  async::Loop& loop() override { return calls_.loop(); }
  std::uint64_t client_number() const override { return number_; }
  const ServerCounters& counters() const override { return calls_.counters(); }
  ServerHoldings holdings() const override;
  async::Task<Status> ping() override;

  async::Task<Result<Object>> find(Caller caller, Spot spot) override;
  async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) override;
  async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                                 ServerFileRef file) override;
  async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                   std::optional<Place> found_at) override;
  async::Task<Result<Opened>> open_at(Caller caller, Spot directory, std::string name, Access access,
                                      std::optional<Creation> creation) override;
  async::Task<Status> close(ServerFileRef file) override;
  async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset, ServerFileRef to,
                                          std::uint64_t to_offset, std::uint64_t count) override;

  std::uint64_t modifications(const FileHandle& object) const override { return modifications_.of(object); }
  std::uint64_t modifications_after_call(const FileHandle& object) const override {
    return modifications_.after_call(object);
  }
  void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) override {
    records_.data()->lost = std::move(sink);
  }
  std::size_t open_files() const override { return open_; }
  std::size_t uncommitted_bytes() const override { return records_.data()->bytes; }

 private:
  class Open;
  ServerFileRef opened(Caller caller, const FileHandle& handle, std::string label, Access access);
  [[nodiscard]] bool is_in_doubt(const FileHandle& handle) const;
  /// Returns whether an open that truncates the file has something to truncate. Unstable data of this client
  /// counts, because the server may have lost it, and it would be written again after the truncation.
  [[nodiscard]] bool has_something_to_cut(const Object& file) const;
  async::Task<Result<Attributes>> may_open(Caller caller, Object file, std::string label, Access access);
  async::Task<Result<Opened>> open_existing(Caller caller, FileHandle directory, std::string name,
                                            std::string text, Access access, bool truncate);
  async::Task<Result<Made>> create(Caller caller, FileHandle directory, std::string name, std::string text,
                                   Creation creation);
  async::Task<Result<Made>> create_exclusively(Caller caller, FileHandle directory, std::string name,
                                               std::string text, std::uint32_t mode);

  const std::uint64_t number_;
  FileRecords records_;
  std::size_t open_ = 0;
  KnownRights rights_;
  Locks locks_;
  async::Tasks background_;  // last, so that what its tasks use outlives them
};

}  // namespace nfsrdma::nfs3
