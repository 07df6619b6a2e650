// NFSv4.1 and 4.2 behind the interface of all versions: Objects, OpenFiles and Locks on a Session.
#pragma once

#include "engine/engine.h"
#include "nfs4/locks.h"
#include "nfs4/objects.h"
#include "nfs4/open_files.h"

namespace nfsrdma::nfs4 {

using namespace engine;  // NOLINT: what this file says in the words of all versions

class Nfs4Engine final : public Engine {
 public:
  explicit Nfs4Engine(Session& session);
  ~Nfs4Engine() override;

  async::Loop& loop() override { return session_.loop(); }
  std::uint64_t client_number() const override { return session_.facts().client_id; }

  const ServerCounters& counters() const override { return session_.counters(); }
  ServerHoldings holdings() const override { return session_.holdings(); }
  async::Task<Status> ping() override;

  async::Task<Result<Object>> find(Caller caller, Spot spot) override;
  async::Task<Result<Object>> parent(Caller caller, FileHandle directory) override;
  async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) override;
  async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                                 ServerFileRef file) override;
  async::Task<Result<Rights>> access(Caller caller, Spot spot, unsigned wanted) override;
  async::Task<Result<std::string>> read_link(Caller caller, Spot spot) override;
  async::Task<Result<Space>> space(Caller caller, Spot spot) override;
  async::Task<Result<Made>> make_directory(Caller caller, Spot directory, std::string name,
                                           std::uint32_t mode) override;
  async::Task<Result<Made>> make_symlink(Caller caller, Spot directory, std::string name,
                                         std::string text) override;
  async::Task<Result<Made>> make_node(Caller caller, Spot directory, std::string name, FileType type,
                                      Device device, std::uint32_t mode) override;
  async::Task<Result<Made>> link(Caller caller, Spot object, Spot directory, std::string name) override;
  async::Task<Result<std::optional<Attributes>>> remove(Caller caller, Spot directory, std::string name,
                                                        Removed what) override;
  async::Task<Result<Renamed>> rename(Caller caller, Spot from, std::string old_name, Spot to,
                                      std::string new_name) override;
  async::Task<Result<Page>> list(Caller caller, Spot directory, std::uint64_t cookie,
                                 ListVerifier verifier) override;

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                        std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) override;

  async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                   std::optional<Place> found_at) override;
  async::Task<Result<Opened>> open_at(Caller caller, Spot directory, std::string name, Access access,
                                      std::optional<Creation> creation) override;
  async::Task<Status> close(ServerFileRef file) override;
  async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset, ServerFileRef to,
                                          std::uint64_t to_offset, std::uint64_t count) override;

  std::uint64_t modifications(const FileHandle& object) const override;
  std::uint64_t modifications_after_call(const FileHandle& object) const override;
  bool delegated(const FileHandle& file) const override { return files_.delegated(file) != nullptr; }
  std::chrono::seconds delegated_for() const override;
  void on_delegation_end(std::function<void(const FileHandle&)> sink) override;
  void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) override {
    files_.on_lost_data(std::move(sink));
  }
  void keep_delegated(std::size_t most) override { files_.keep_delegated(most); }
  void forget(const FileHandle& file) override { files_.unpark(file); }
  async::Task<void> forget_all() override { return files_.unpark_all(); }
  std::size_t open_files() const override { return files_.count(); }
  std::size_t kept_files() const override { return files_.parked(); }
  std::size_t uncommitted_bytes() const override { return files_.uncommitted_bytes(); }

 private:
  Opened opened(OpenResult from);

  Session& session_;
  Objects objects_;
  OpenFiles files_;
  std::function<void(const FileHandle&)> delegation_end_;
};

}  // namespace nfsrdma::nfs4
