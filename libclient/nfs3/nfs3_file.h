// An open file in NFSv3. The server knows nothing of opens; what remains is reading and writing data (RFC
// 1813 3.3.6, 3.3.7, 3.3.21) on behalf of the caller that opened the file.
//
// Confined to the loop's thread. The objects given to the constructor must outlive the File. A File must not
// be destroyed while one of its tasks runs, except a COMMIT in the background.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nfs3/object_operations.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs3 {

/// The objects that all files of an engine share.
struct FileContext {
  Dialect& dialect;
  const Limits& limits;
  engine::Modifications& modifications;
};

class File final : private writing::Writer {
 public:
  using After = writing::After;
  /// `label`: the file's name in errors.
  File(FileContext context, Caller caller, const FileHandle& handle, std::string label);
  /// Adds the file to the openers of `record`. Called once, before any other operation.
  static void join(const std::shared_ptr<File>& file, std::shared_ptr<writing::WriteRecord> record) {
    file->unstable_.join(std::move(record), file);
  }
  /// Called when the file has been closed: see UnstableData::leave().
  void leave() { unstable_.leave(); }

  /// Returns fewer bytes than asked for only at the end of the file.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset);
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                         std::uint64_t offset, writing::How how, After* after);
  async::Soon<Status> commit(After* after) { return unstable_.commit(after); }
  [[nodiscard]] bool has_unstable_data() const { return !unstable_.empty(); }
  [[nodiscard]] const std::shared_ptr<writing::WriteRecord>& record() const { return unstable_.record(); }

  [[nodiscard]] const Caller& caller() const { return caller_; }
  [[nodiscard]] const FileHandle& handle() const { return handle_; }
  [[nodiscard]] const std::string& path() const override { return label_; }

 private:
  // ---- writing::Writer ----
  async::Task<Result<Written>> write_piece(const Piece& piece, writing::How how, After* after) override;
  async::Task<Result<writing::Verifier>> commit_file(After* after) override;
  [[nodiscard]] std::size_t most_written() const override { return context_.limits.most_written; }
  [[nodiscard]] async::TimePoint deadline() override { return context_.dialect.calls().default_deadline(); }
  /// Counts new connections, because in NFSv3 only a lost connection or another verifier shows that the
  /// server has restarted.
  [[nodiscard]] std::uint64_t server_instance() const override {
    return context_.dialect.calls().connections_made();
  }
  [[nodiscard]] engine::Modifications::Scope changing() const;

  const FileContext context_;
  const Caller caller_;
  const FileHandle handle_;
  const std::string label_;
  writing::UnstableData unstable_;  // last, because its COMMIT in the background uses the members above
};

}  // namespace nfsrdma::nfs3
