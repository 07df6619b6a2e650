// NFSv4.0 to 4.2 behind the interface of all versions (engine/engine.h), on one ClientLease. Names and
// objects are served by ObjectOperations, open files by OpenFiles and Locks.
#pragma once

#include "nfs4/files/locks.h"
#include "nfs4/files/object_operations.h"
#include "nfs4/files/open_files.h"
#include "nfs4/files/small_files.h"

namespace nfsrdma::nfs4 {

class Nfs4Engine final : public ObjectOperations, public engine::Promises {
 public:
  explicit Nfs4Engine(ClientLease& session);
  ~Nfs4Engine() override;

  async::Loop& loop() override { return session_.loop(); }
  std::uint64_t client_number() const override { return session_.facts().client_id; }

  const ServerCounters& counters() const override { return session_.counters(); }
  ServerHoldings holdings() const override { return session_.holdings(); }
  async::Task<Status> ping() override;

  async::Task<Result<Object>> find(Caller caller, Spot spot) override;
  async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) override;
  async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                                 ServerFileRef file) override;
  async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                   std::optional<Place> found_at) override;
  async::Task<Result<Opened>> open_at(Caller caller, Spot directory, std::string name, Access access,
                                      std::optional<Creation> creation) override;
  async::Task<Result<Opened>> open_and_read(Caller caller, FileHandle file, std::string label,
                                            std::optional<Place> found_at,
                                            std::span<std::byte> into) override;
  async::Task<Status> close(ServerFileRef file) override;
  async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset, ServerFileRef to,
                                          std::uint64_t to_offset, std::uint64_t count) override;

  async::Task<void> read_many(Caller caller, std::vector<ManyRead*> items) override;
  async::Task<void> write_many(Caller caller, std::vector<ManyWritten*> items) override;
  async::Task<void> stat_many(Caller caller, std::vector<ManyTold*> items) override;

  std::uint64_t modifications(const FileHandle& object) const override;
  std::uint64_t modifications_after_call(const FileHandle& object) const override;
  void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) override {
    files_->data()->lost = std::move(sink);
  }
  std::size_t open_files() const override { return files_->count(); }
  std::size_t uncommitted_bytes() const override { return files_->uncommitted_bytes(); }

  engine::Promises& promises() override { return *this; }
  bool delegated(const FileHandle& file) const override { return files_->delegated(file) != nullptr; }
  std::chrono::seconds delegated_for() const override;
  void on_delegation_end(std::function<void(const FileHandle&)> sink) override;
  void write_back_owner(engine::WriteBackOwner* who) override {
    session_.delegations().write_back_owner(who);
  }
  std::uint64_t max_size_for_deferred_close(const FileHandle& file) const override;
  void close_is_deferred(const ServerFileRef& file) override;
  void keep_delegated(std::size_t most) override { files_->keep_delegated(most); }
  void forget(const FileHandle& file) override { files_->unpark(file); }
  async::Task<void> forget_all() override { return files_->unpark_all(); }
  std::size_t kept_files() const override { return files_->parked(); }
  void hold_closes() override { session_.close_batch().hold(); }
  void hurry_closes() override { session_.close_batch().hurry(); }

 private:
  async::Task<Result<std::optional<Attributes>>> set_in_turn(Caller caller, FileHandle object,
                                                             SetAttributes changes, ServerFileRef file,
                                                             const writing::Turn& turn);
  const std::shared_ptr<OpenFiles> files_;
  SmallFiles small_files_{session_, *files_};
  std::function<void(const FileHandle&)> delegation_end_;
};

}  // namespace nfsrdma::nfs4
