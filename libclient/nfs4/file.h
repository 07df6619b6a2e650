// An open file (RFC 8881 18.16, 18.22, 18.32): its state on the server, data in and out, and what is not yet
// stable.
//
// READ places its data in the caller's memory; WRITE takes it from there. What the server has not made stable
// is kept by writing/unstable_data.h, which says what commit() promises, and what becomes of data that is lost.
//
// While the file is delegated to this client nobody else changes it: its attributes are asked for once.
//
// A stateid that the server no longer knows is had again (OpenRecovery::reopen) and the operation repeated. What
// it cannot be had again for, and locks that were lost (locks.h), are what every further use gives.
//
// OpenFiles (open_files.h) makes them, and shares each between all who open the file on behalf of one caller.
//
// Confined to the loop's thread. Must not be destroyed while one of its tasks runs.
#pragma once

#include <cerrno>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "async/under_way.h"
#include "nfs4/convert.h"
#include "nfs4/loss_limit.h"
#include "nfs4/open_arguments.h"
#include "nfs4/session.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

/// One that nobody else makes: for EXCLUSIVE4_1.
verifier4 unique_verifier(async::Loop& loop);

class OpenFile : private writing::Writer {
 public:
  using After = writing::After;

  explicit OpenFile(Session& session);
  ~OpenFile() override;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// One READ, or more where the server gives fewer bytes than are there. Fewer than asked: the end of the
  /// file.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset);
  /// `stable`: UNSTABLE4 leaves it to commit(); with DATA_SYNC4 or FILE_SYNC4 it is safe when this returns.
  /// `after`, `memory`: as UnstableData has them.
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset,
                                         stable_how4 stable = UNSTABLE4, After* after = nullptr,
                                         async::Memory memory = {}) {
    return unstable_.write(data, offset, static_cast<writing::How>(stable), after, std::move(memory));
  }
  async::Task<Status> commit(After* after = nullptr) { return unstable_.commit(after); }
  async::Task<Result<WireAttributes>> attributes(bitmap4 wanted);
  /// What another call has brought, while Session::modifications() of it were `as_of`.
  void know(const bitmap4& wanted, const WireAttributes& attributes, std::uint64_t as_of);
  async::Task<Status> set_attributes(SetAttributes changes);

  // ---- NFSv4.2 (file_v42.cpp; RFC 7862 15). An Error with NFS4ERR_NOTSUPP where there is no such operation,
  // and for what else makes a caller do it by himself: is_unsupported() ----

  /// The next byte of the kind at or behind `offset`; none: there is none behind it.
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, data_content4 what);
  /// READ that is told where holes are, which come as zeros (RFC 8267 4.1.1). Otherwise as read().
  async::Task<Result<std::size_t>> read_plus(std::span<std::byte> data, std::uint64_t offset);
  async::Task<Status> allocate(std::uint64_t offset, std::uint64_t length);
  async::Task<Status> deallocate(std::uint64_t offset, std::uint64_t length);
  /// Within the server, and stable when it returns: how much of `count` was copied, which may be less. Both
  /// files are of one session; unstable data of the source is the server's to read. A server that copies
  /// beside only is waited for: for CB_OFFLOAD, and asked by OFFLOAD_STATUS, since that may be lost.
  static async::Task<Result<std::uint64_t>> copy(OpenFile& from, std::uint64_t from_offset, OpenFile& to,
                                                 std::uint64_t to_offset, std::uint64_t count);
  /// Shares the blocks: all of it or nothing. `count` 0: up to the end of the source.
  static async::Task<Status> clone(OpenFile& from, std::uint64_t from_offset, OpenFile& to,
                                   std::uint64_t to_offset, std::uint64_t count);
  /// clone() where the server can, else copy(). It is not asked for clones of the file again once it has said
  /// that it has none.
  static async::Task<Result<std::uint64_t>> clone_or_copy(OpenFile& from, std::uint64_t from_offset,
                                                          OpenFile& to, std::uint64_t to_offset,
                                                          std::uint64_t count);
  /// Whether the operation is not to be had here, and the caller's own way should be gone.
  static bool is_unsupported(const Error& error);

  // ---- for those who work on the file's state: OpenFiles, Locks ----

  [[nodiscard]] Open& state() { return open_; }
  [[nodiscard]] const std::shared_ptr<Open>& shared_state() const { return state_; }
  [[nodiscard]] const nfs_fh4& handle() const { return open_.file; }
  [[nodiscard]] stateid4 stateid() const { return open_.current(); }
  /// Ends when no CLOSE, OPEN_DOWNGRADE or OPEN by handle of it is under way. A server that does not look at
  /// the seqid of CLOSE closes what an OPEN has overtaken, and what was locked before that is lost with it.
  /// False: not in time.
  async::Task<bool> settled(async::TimePoint deadline);
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool has_unstable_data() const { return !unstable_.empty(); }
  /// The file was cut by somebody else: data behind it is not to be written again.
  void resized(std::uint64_t size);

  [[nodiscard]] const std::string& path() const override { return open_.path; }
  [[nodiscard]] Session& session() { return session_; }

 private:
  friend class OpenTable;
  friend class ParkedFiles;
  /// Who has it open, when OpenFiles shares it out.
  struct Sharing {
    unsigned counts[4] = {};   ///< by OPEN4_SHARE_ACCESS_*
    bool changing = false;     ///< OPEN_DOWNGRADE or CLOSE is under way, or waits: one at a time
    bool downgrading = false;  ///< OPEN_DOWNGRADE is, or what makes up for it
    /// Its place among those that are parked, while it is one of them (ParkedFiles in open_files.cpp).
    std::optional<std::list<std::shared_ptr<OpenFile>>::iterator> place;
    [[nodiscard]] std::uint32_t needed() const;
  };
  /// One operation behind PUTFH that uses the stateid, repeated after a lost stateid was had again.
  template <class Add, class Take>
  async::Task<Status> on_file(const char* what, Add add, Take take);
  // ---- writing::Writer ----
  async::Task<Result<Written>> write_piece(std::span<const std::byte> data, std::uint64_t offset,
                                           writing::How how, After* after) override;
  async::Task<Result<verifier4>> commit_file(After* after) override;
  [[nodiscard]] std::size_t most_written() const override { return session_.most_written(); }
  [[nodiscard]] async::TimePoint deadline() override { return session_.default_deadline(); }

  async::Task<Status> read_plus_once(std::span<std::byte> data, std::uint64_t offset, std::size_t& count,
                                     bool& eof);
  template <class Op, class Make>
  static async::Task<Status> between(OpenFile& from, OpenFile& to, const char* what, Make make,
                                     typename Op::Res& res);
  /// Why a copy is over, or goes on (file_v42.cpp).
  struct Beside;
  static async::Task<Status> copied_beside(OpenFile& to, CopiesBeside::One& copy, stateid4 stateid,
                                           Beside& out);
  static async::Task<Status> ask_of_copy(OpenFile& to, stateid4 stateid, Beside& out);
  async::Task<void> cancel_copy(stateid4 stateid);
  async::Task<Status> give_up_state();
  async::Task<void> open_once_more();
  async::Task<Status> downgrade(std::uint32_t access);
  async::Task<bool> look_again(stateid4& used, nfsstat4 status, int tries);

  /// Attributes that hold for as long as the delegation does and this client changes nothing.
  struct Known {
    bitmap4 wanted;
    stateid4 delegation;
    std::uint64_t modifications = 0;
    WireAttributes attributes;
  };

  Session& session_;
  const std::shared_ptr<Open> state_ = std::make_shared<Open>();  // recovery holds on to it, too
  Open& open_ = *state_;
  bool is_open_ = false;
  Sharing sharing_;
  unsigned uses_ = 0;           // operations with its stateid under way: CLOSE waits for them
  async::Event state_changed_;  // its stateid, or sharing_
  std::optional<Known> known_;
  bool clones_ = true;              // as far as the server has said: of what is to be written here
  writing::UnstableData unstable_;  // the last: its COMMITs use the others
};

template <class Add, class Take>
async::Task<Status> OpenFile::on_file(const char* what, Add add, Take take) {
  const async::TimePoint deadline = session_.default_deadline();
  const async::Counted under_way(uses_, state_changed_);
  for (LossLimit losses(session_.loop(), deadline);;) {
    if (!is_open_) co_return Error(ErrorKind::usage, EBADF, what, open_.path, "the file has been closed");
    if (const Error* error = open_.unusable()) co_return *error;
    const stateid4 used = open_.stateid;
    Compound compound = session_.begin(what, open_.caller);
    compound.add<op::PUTFH>({open_.file});
    add(compound);
    auto reply = co_await session_.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    if (reply->template take<op::PUTFH>() && take(*reply)) co_return Status();
    const nfsstat4 status = reply->failed_status();
    if (status == NFS4ERR_OPENMODE && sharing_.downgrading) {
      // An OPEN_DOWNGRADE that came behind the OPEN for this: whoever is at it has the file opened again.
      const bool in_time = co_await state_changed_.wait_until(deadline);
      if (in_time) continue;
    }
    const bool again = co_await losses.again(Session::is_lost_state(status));
    if (!again) co_return session_.error_of(*reply, what, open_.path);
    if (auto done = co_await session_.open_recovery().reopen(state_, used, status, deadline); !done)
      co_return done;
  }
}

}  // namespace nfsrdma::nfs4
