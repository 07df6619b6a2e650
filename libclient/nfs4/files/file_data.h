// The data of an open file, in and out, and its attributes (RFC 8881 18.7, 18.22, 18.30, 18.32; RFC 7862 15).
//
// READ places its data in the caller's memory; WRITE takes it from there. Data that the server has not
// made stable is kept by writing/unstable_data.h, which says what commit() promises, and what becomes
// of data that is lost.
//
// Every question about the data passes writing/question.h. If a restart may have cost the server something
// that any opener in this client wrote, that is written again first.
//
// All calls go through the FileState, which recovers a lost stateid and repeats the call, so that
// nothing here knows of reconnects. If the FileState cannot be used any more, every call returns
// its Error from then on.
//
// While the file is delegated to this client, no other client changes it. So its attributes are requested
// only once, by the first of its opens that needs them (Delegation::known).
//
// Confined to the loop's thread. The FileState must outlive it. Must not be destroyed while one of its tasks
// runs, except for a COMMIT in the background.
#pragma once

#include <optional>
#include <span>

#include "engine/engine.h"
#include "nfs4/files/convert.h"
#include "nfs4/session/fast_reads.h"
#include "nfs4/state/background_copies.h"
#include "nfs4/state/file_state.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

class FileData : private writing::Writer, private FastReadFile {
 public:
  using After = writing::After;

  explicit FileData(FileState& state);

  /// Sends a READ or READ_PLUS (state/hole_reads.h), and more of them if the server returns fewer bytes than
  /// there are. Returns fewer bytes than requested only at the end of the file. If a restart of the server
  /// has lost something that was written here, that is written again first. `holes`: what the server
  /// reported of them; may be null.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset,
                                        engine::ReportedHoles* holes = nullptr) {
    return read_all(data, offset, nullptr, holes);
  }
  /// Starts a read by the fast path, as ServerFile::start() has it.
  bool start(engine::FastRead& read) {
    return is_plain_read() && session_.start_read(*this, read);  // the file may no longer exist afterwards
  }
  /// Prepares a read for a shard, as ServerFile::prepare_read() has it.
  std::unique_ptr<engine::ShardRead> prepare_read(std::size_t size, std::uint64_t offset) {
    return is_plain_read() ? session_.prepare_read(*this, size, offset) : nullptr;
  }
  /// `stable`: with UNSTABLE4 commit() makes the data safe; with DATA_SYNC4 or FILE_SYNC4 it is safe when
  /// this returns. `after`, `memory`: see UnstableData.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset,
                                         stable_how4 stable = UNSTABLE4, After* after = nullptr,
                                         async::Memory memory = {}, writing::OriginRef origin = nullptr) {
    return unstable_.write(data, offset, static_cast<writing::How>(stable), after, std::move(memory),
                           std::move(origin));
  }
  /// Does what ServerFile::write_and_set_times() says. `origin`: of this data alone.
  async::Task<Result<engine::WrittenWithTimes>> write_and_set_times(std::span<const std::byte> data,
                                                                    async::Memory memory,
                                                                    std::uint64_t offset,
                                                                    SetAttributes changes, After* after,
                                                                    std::shared_ptr<DataOrigin> origin);
  async::Soon<Status> commit(After* after = nullptr) { return unstable_.commit(after); }
  [[nodiscard]] bool has_unstable_data() const { return !unstable_.empty(); }
  [[nodiscard]] bool in_doubt() const { return record()->in_doubt(); }
  [[nodiscard]] std::uint64_t end_in_doubt() const { return record()->end_in_doubt(); }
  /// Makes this one of the openers of the file, whose data is bounded together. `owner`: the object
  /// that this is a part of.
  void join(std::shared_ptr<writing::WriteRecord> record, std::weak_ptr<const void> owner) {
    unstable_.join(std::move(record), std::move(owner));
  }
  /// Called when the file has been closed: UnstableData::leave().
  void leave() { unstable_.leave(); }
  [[nodiscard]] const std::shared_ptr<writing::WriteRecord>& record() const { return unstable_.record(); }

  async::Task<Result<Attributes>> attributes();
  /// Takes attributes from the answer to another call. `as_of`: ClientLease::modifications() of the file
  /// when that call was sent.
  void know(const Attributes& attributes, std::uint64_t as_of);
  /// `after`: the attributes right after the change, if the server returns them; null: not wanted.
  async::Task<Status> set_attributes(SetAttributes changes, After* after = nullptr);
  /// For a caller that has a turn of the file already.
  async::Task<Status> set_attributes(SetAttributes changes, const writing::Turn& turn,
                                     After* after = nullptr);

  // ---- NFSv4.2 (file_v42.cpp; RFC 7862 15). Each returns an Error with NFS4ERR_NOTSUPP if the server
  // does not have the operation; is_unsupported() tells which Errors mean that the caller has to do
  // the work itself ----

  /// Returns the next byte of the kind at or behind `offset`; none if there is none.
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, data_content4 what);
  async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length);
  async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length);
  /// Copies within the server; the copy is stable when this returns. Returns how much of `count` was copied,
  /// which may be less. Both files belong to one session. Unstable data of the source, from any opener, is
  /// made stable before. If the server only copies in the background, this waits for CB_OFFLOAD and also
  /// polls by OFFLOAD_STATUS, because CB_OFFLOAD may be lost.
  static async::Task<Result<std::uint64_t>> copy(FileData& from, std::uint64_t from_offset, FileData& to,
                                                 std::uint64_t to_offset, std::uint64_t count);
  /// Shares the blocks: all of the range or nothing. `count` 0: up to the end of the source.
  static async::Task<Status> clone(FileData& from, std::uint64_t from_offset, FileData& to,
                                   std::uint64_t to_offset, std::uint64_t count);
  /// Calls clone() if the server can clone, else copy(). After the server has said that it cannot clone into
  /// the file, it is not asked again for that file.
  static async::Task<Result<std::uint64_t>> clone_or_copy(FileData& from, std::uint64_t from_offset,
                                                          FileData& to, std::uint64_t to_offset,
                                                          std::uint64_t count);

 private:
  // ---- FastReadFile ----
  FileState& file_state() override { return state_; }
  std::uint64_t as_of() const override { return record()->turns.rewrites; }
  bool is_outdated(std::uint64_t as_of) const override {
    return record()->turns.rewrites != as_of || in_doubt();
  }
  async::Task<Result<std::size_t>> read_on(std::span<std::byte> data, std::uint64_t offset,
                                           std::unique_ptr<SentRequest> sent_request) override {
    return read_all(data, offset, std::move(sent_request), nullptr);
  }

  // ---- writing::Writer ----
  async::Task<Result<Written>> write_piece(const Piece& piece, writing::How how, After* after) override;
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
  /// Whether the next read may be one READ that needs none of read_all(). If so, the hint on holes counts it.
  [[nodiscard]] bool is_plain_read() {
    if (in_doubt() || asks_for_holes()) return false;
    passed_over_holes();
    return true;
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
                                            std::unique_ptr<SentRequest> sent_request,
                                            engine::ReportedHoles* holes);
  struct ReadPiece {
    std::size_t count = 0;
    bool eof = false;
    bool otherwise = false;  ///< nothing was read: the server is to be asked another way
    engine::ReportedHoles holes;
  };
  async::Task<Status> read_piece(std::span<std::byte> data, std::uint64_t offset, ReadPiece& out,
                                 std::unique_ptr<SentRequest> sent_request);
  async::Task<Status> read_plus(std::span<std::byte> data, std::uint64_t offset, ReadPiece& out);
  template <class Op, class Make>
  static async::Task<Status> between(FileState& from, FileState& to, RangeStateid& stateid, const char* what,
                                     Make make, typename Op::Res& res);
  /// Progress of a copy that the server makes in the background.
  struct BackgroundCopy;
  async::Task<Status> copied_in_background(BackgroundCopies::One& copy, stateid4 stateid,
                                           BackgroundCopy& out);
  async::Task<Status> ask_of_copy(stateid4 stateid, BackgroundCopy& out);
  async::Task<void> cancel_copy(stateid4 stateid);

  FileState& state_;
  ClientLease& session_;
  bool clones_ = true;  // false: the server has said that it cannot clone into this file
  // The last member, because its COMMIT in the background uses those above.
  writing::UnstableData unstable_;
};

}  // namespace nfsrdma::nfs4
