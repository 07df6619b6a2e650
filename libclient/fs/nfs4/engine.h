// NFSv4.1 and 4.2, as the file layer sees them: Objects, OpenFiles and Locks on a Session.
#pragma once

#include "fs/engine.h"
#include "nfs4/locks.h"
#include "nfs4/objects.h"
#include "nfs4/open_files.h"

namespace nfsrdma::fs {

class Nfs4Engine final : public Engine {
 public:
  explicit Nfs4Engine(nfs4::Session& session);
  ~Nfs4Engine() override;

  async::Loop& loop() override { return session_.loop(); }
  std::uint64_t client_number() const override { return session_.facts().client_id; }

  async::Task<Result<Object>> root(std::string path) override;
  async::Task<Result<std::optional<Object>>> lookup(Caller caller, FileHandle directory,
                                                    std::string name) override;
  async::Task<Result<Object>> parent(Caller caller, FileHandle directory) override;
  async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) override;
  async::Task<Result<Attributes>> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                                 ServerFileRef file) override;
  async::Task<Result<unsigned>> access(Caller caller, FileHandle object, FileType type,
                                       unsigned wanted) override;
  async::Task<Result<std::string>> read_link(Caller caller, FileHandle object) override;
  async::Task<Result<Space>> space(Caller caller, FileHandle object) override;
  async::Task<Result<Made>> make_directory(Caller caller, FileHandle directory, std::string name,
                                           std::uint32_t mode) override;
  async::Task<Result<Made>> make_symlink(Caller caller, FileHandle directory, std::string name,
                                         std::string text) override;
  async::Task<Result<Made>> make_node(Caller caller, FileHandle directory, std::string name, FileType type,
                                      Device device, std::uint32_t mode) override;
  async::Task<Result<Made>> link(Caller caller, FileHandle object, FileHandle directory,
                                 std::string name) override;
  async::Task<Result<std::optional<Attributes>>> remove(Caller caller, FileHandle directory,
                                                        std::string name) override;
  async::Task<Result<Renamed>> rename(Caller caller, FileHandle from, std::string old_name, FileHandle to,
                                      std::string new_name) override;
  async::Task<Result<Page>> list(Caller caller, FileHandle directory, std::uint64_t cookie,
                                 ListVerifier verifier) override;

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                        std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) override;

  async::Task<Result<Opened>> open(Caller caller, FileHandle file, std::string label, Access access,
                                   std::optional<Place> found_at) override;
  async::Task<Result<Opened>> create(Caller caller, FileHandle directory, std::string name, Access access,
                                     Creation how) override;
  async::Task<Status> close(ServerFileRef file) override;
  async::Task<Result<std::uint64_t>> copy(ServerFileRef from, std::uint64_t from_offset, ServerFileRef to,
                                          std::uint64_t to_offset, std::uint64_t count) override;

  std::uint64_t modifications(const FileHandle& object) const override;
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
  Opened opened(nfs4::Opened from);

  nfs4::Session& session_;
  nfs4::Objects objects_;
  nfs4::OpenFiles files_;
  std::function<void(const FileHandle&)> delegation_end_;
};

}  // namespace nfsrdma::fs
