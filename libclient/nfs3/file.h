// A file that somebody has open, in NFSv3: the server knows nothing of that. What is left is data, in and out
// (RFC 1813 3.3.6, 3.3.7, 3.3.21), on behalf of whoever opened it.
//
// Confined to the loop's thread. What it is given must outlive it. Must not be destroyed while one of its tasks
// runs, but for a COMMIT beside.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nfs3/names.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs3 {

/// What all files of an engine have in common.
struct FileContext {
  Dialect& dialect;
  const Limits& limits;
  engine::Modifications& modifications;
};

class File final : private writing::Writer {
 public:
  using After = writing::After;
  /// `label`: what it is called in errors.
  File(FileContext context, Caller caller, const FileHandle& handle, std::string label);
  /// Once, before anything is done with it: it is one of those who have the file open.
  static void join(const std::shared_ptr<File>& file, std::shared_ptr<writing::WriteRecord> record) {
    file->unstable_.join(std::move(record), file);
  }
  /// The file has been closed: UnstableData::leave().
  void leave() { unstable_.leave(); }

  /// Fewer bytes than asked for: the end of the file.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset);
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, async::Memory memory,
                                         std::uint64_t offset, writing::How how, After* after);
  async::Task<Status> commit(After* after) { return unstable_.commit(after); }
  [[nodiscard]] bool has_unstable_data() const { return !unstable_.empty(); }
  [[nodiscard]] const std::shared_ptr<writing::WriteRecord>& record() const { return unstable_.record(); }

  [[nodiscard]] const Caller& caller() const { return caller_; }
  [[nodiscard]] const FileHandle& handle() const { return handle_; }
  [[nodiscard]] const std::string& path() const override { return label_; }

 private:
  // ---- writing::Writer ----
  async::Task<Result<Written>> write_piece(std::span<const std::byte> data, std::uint64_t offset,
                                           writing::How how, After* after) override;
  async::Task<Result<writing::Verifier>> commit_file(After* after) override;
  [[nodiscard]] std::size_t most_written() const override { return context_.limits.most_written; }
  [[nodiscard]] async::TimePoint deadline() override { return context_.dialect.calls().default_deadline(); }
  /// NFSv3 has no other sign of a restart than a verifier, and connections that end.
  [[nodiscard]] std::uint64_t server_instance() const override {
    return context_.dialect.calls().connections_made();
  }
  [[nodiscard]] engine::Modifications::Scope changing() const;

  const FileContext context_;
  const Caller caller_;
  const FileHandle handle_;
  const std::string label_;
  writing::UnstableData unstable_;  // the last: its COMMIT beside uses the others
};

}  // namespace nfsrdma::nfs3
