// The data of an open file, in and out, and its attributes (RFC 8881 18.7, 18.22, 18.30, 18.32; RFC 7862 15).
//
// READ places its data in the caller's memory; WRITE takes it from there. What the server has not made stable
// is kept by writing/unstable_data.h, which says what commit() promises, and what becomes of data that is lost.
//
// What is asked about the data passes writing/question.h: where a restart may have cost the server something that was
// written here, by whomever, that is made good first.
//
// All calls go through the FileState, which has a lost stateid again and repeats them, so that nothing here
// knows of reconnects. An Error of the FileState is what every call gives from then on.
//
// While the file is delegated to this client nobody else changes it: its attributes are asked for once, by whichever open
// (Delegation::known).
//
// Confined to the loop's thread. The FileState must outlive it. Must not be destroyed while one of its tasks
// runs, but for a COMMIT beside.
#pragma once

#include <optional>
#include <span>

#include "engine/engine.h"
#include "nfs4/convert.h"
#include "nfs4/copies_beside.h"
#include "nfs4/file_state.h"
#include "nfs4/quick_reads.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

class FileData : private writing::Writer, private QuickFile {
 public:
  using After = writing::After;

  explicit FileData(FileState& state);

  /// Sends a READ or READ_PLUS (hole_reads.h), and more if the server gives fewer bytes than are there. Fewer than asked:
  /// the end of the file. What was written here and a restart of the server has lost is written again before. `holes`: what
  /// the server reported of them; may be null.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset,
                                        engine::ReportedHoles* holes = nullptr) {
    return read_all(data, offset, nullptr, holes);
  }
  /// As ServerFile has it.
  bool start(engine::QuickRead& read) {
    if (in_doubt() || asks_for_holes()) return false;
    passed_over_holes();
    return session_.start_read(*this, read);  // the file may be gone behind it
  }
  /// `stable`: UNSTABLE4 leaves it to commit(); with DATA_SYNC4 or FILE_SYNC4 it is safe when this returns.
  /// `after`, `memory`: as UnstableData has them.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset,
                                         stable_how4 stable = UNSTABLE4, After* after = nullptr,
                                         async::Memory memory = {}, writing::OriginRef origin = nullptr) {
    return unstable_.write(data, offset, static_cast<writing::How>(stable), after, std::move(memory),
                           std::move(origin));
  }
  async::Task<Status> commit(After* after = nullptr) { return unstable_.commit(after); }
  [[nodiscard]] bool has_unstable_data() const { return !unstable_.empty(); }
  [[nodiscard]] bool in_doubt() const { return record()->in_doubt(); }
  [[nodiscard]] std::uint64_t end_in_doubt() const { return record()->end_in_doubt(); }
  /// From now on it is one of those who have the file open, and its data is bounded with theirs. `owner`: what this is a
  /// part of.
  void join(std::shared_ptr<writing::WriteRecord> record, std::weak_ptr<const void> owner) {
    unstable_.join(std::move(record), std::move(owner));
  }
  /// The file has been closed: UnstableData::leave().
  void leave() { unstable_.leave(); }
  [[nodiscard]] const std::shared_ptr<writing::WriteRecord>& record() const { return unstable_.record(); }

  async::Task<Result<Attributes>> attributes();
  /// What another call has brought, while LeaseHolder::modifications() of it were `as_of`.
  void know(const Attributes& attributes, std::uint64_t as_of);
  /// `after`: the attributes as of just behind it, if the server tells them; null: not wanted.
  async::Task<Status> set_attributes(SetAttributes changes, After* after = nullptr);
  /// For a caller that has a turn of the file already.
  async::Task<Status> set_attributes(SetAttributes changes, const writing::Turn& turn,
                                     After* after = nullptr);

  // ---- NFSv4.2 (file_v42.cpp; RFC 7862 15). An Error with NFS4ERR_NOTSUPP where there is no such operation,
  // and for what else makes a caller do it by himself: is_unsupported() ----

  /// The next byte of the kind at or behind `offset`; none: there is none behind it.
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, data_content4 what);
  async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length);
  async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length);
  /// Within the server, and stable when it returns: how much of `count` was copied, which may be less. Both
  /// files are of one session; unstable data of the source, whoever wrote it, is made stable before. A server that copies
  /// beside only is waited for: for CB_OFFLOAD, and asked by OFFLOAD_STATUS, since that may be lost.
  static async::Task<Result<std::uint64_t>> copy(FileData& from, std::uint64_t from_offset, FileData& to,
                                                 std::uint64_t to_offset, std::uint64_t count);
  /// Shares the blocks: all of it or nothing. `count` 0: up to the end of the source.
  static async::Task<Status> clone(FileData& from, std::uint64_t from_offset, FileData& to,
                                   std::uint64_t to_offset, std::uint64_t count);
  /// clone() where the server can, else copy(). It is not asked for clones of the file again once it has said
  /// that it has none.
  static async::Task<Result<std::uint64_t>> clone_or_copy(FileData& from, std::uint64_t from_offset,
                                                          FileData& to, std::uint64_t to_offset,
                                                          std::uint64_t count);

 private:
  // ---- QuickFile ----
  FileState& file_state() override { return state_; }
  std::uint64_t as_of() const override { return record()->turns.rewrites; }
  bool is_outdated(std::uint64_t as_of) const override {
    return record()->turns.rewrites != as_of || in_doubt();
  }
  async::Task<Result<std::size_t>> read_on(std::span<std::byte> data, std::uint64_t offset,
                                           std::unique_ptr<Adopted> adopted) override {
    return read_all(data, offset, std::move(adopted), nullptr);
  }

  // ---- writing::Writer ----
  async::Task<Result<Written>> write_piece(std::span<const std::byte> data, std::uint64_t offset,
                                           writing::How how, After* after) override {
    return write_piece_of(nullptr, data, offset, how, after);
  }
  async::Task<Result<Written>> write_piece_of(writing::OriginRef origin, std::span<const std::byte> data,
                                              std::uint64_t offset, writing::How how, After* after) override;
  async::Task<Result<verifier4>> commit_file(After* after) override;
  [[nodiscard]] std::size_t most_written() const override { return session_.most_written(); }
  [[nodiscard]] async::TimePoint deadline() override { return session_.default_deadline(); }
  [[nodiscard]] const std::string& path() const override { return state_.path(); }
  [[nodiscard]] std::uint64_t server_instance() const override { return session_.server_instance(); }

  // file_v42.cpp
  [[nodiscard]] std::optional<Error> missing(const char* what) const;
  /// Whether the next read is to be made by READ_PLUS.
  [[nodiscard]] bool asks_for_holes() const {
    const HoleHint* const hint = hole_hint();
    return hint != nullptr && session_.hole_reads().wanted(*hint);
  }
  void passed_over_holes() {
    if (HoleHint* const hint = hole_hint()) hint->passed_over();
  }
  /// Null for an open that was never registered, whose file has no record.
  [[nodiscard]] HoleHint* hole_hint() const {
    FileRecord* const file = state_.state().record.get();
    return file != nullptr ? &file->holes : nullptr;
  }
  async::Task<Result<std::size_t>> read_all(std::span<std::byte> data, std::uint64_t offset,
                                            std::unique_ptr<Adopted> adopted, engine::ReportedHoles* holes);
  struct Piece {
    std::size_t count = 0;
    bool eof = false;
    bool otherwise = false;  ///< nothing was read: the server is to be asked another way
    engine::ReportedHoles holes;
  };
  async::Task<Status> read_piece(std::span<std::byte> data, std::uint64_t offset, Piece& out,
                                 std::unique_ptr<Adopted> adopted);
  async::Task<Status> read_plus(std::span<std::byte> data, std::uint64_t offset, Piece& out);
  template <class Op, class Make>
  static async::Task<Status> between(FileState& from, FileState& to, RangeStateid& stateid, const char* what,
                                     Make make, typename Op::Res& res);
  /// Why a copy is over, or goes on.
  struct Beside;
  async::Task<Status> copied_beside(CopiesBeside::One& copy, stateid4 stateid, Beside& out);
  async::Task<Status> ask_of_copy(stateid4 stateid, Beside& out);
  async::Task<void> cancel_copy(stateid4 stateid);

  FileState& state_;
  LeaseHolder& session_;
  bool clones_ = true;              // as far as the server has said: of what is to be written here
  writing::UnstableData unstable_;  // the last: its COMMIT beside uses the others
};

}  // namespace nfsrdma::nfs4
