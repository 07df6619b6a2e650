// An open file (RFC 8881 18.16, 18.22, 18.32): its state on the server, data in and out, and what is not yet
// stable.
//
// READ places its data in the caller's memory; WRITE takes it from there. A WRITE that the server has not
// made stable leaves a copy here (uncommitted.h), bounded: past kCommitAt a COMMIT goes out beside the
// writes, past kMostUncommitted writes wait for it.
//
// While the file is delegated to this client nobody else changes it: its attributes are asked for once.
//
// A stateid that the server no longer knows is had again (Session::reopen) and the operation repeated.
//
// Confined to the loop's thread. Must not be destroyed while one of its tasks runs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nfs4/namespace.h"
#include "nfs4/session.h"
#include "nfs4/uncommitted.h"

namespace nfsrdma::nfs4 {

/// SETATTR; `stateid` is that of an open file, or zero (RFC 8881 8.2.3).
async::Task<Status> set_attributes_of(Session& session, nfs_fh4 handle, stateid4 stateid,
                                      SetAttributes changes, std::string path);

/// OPEN's arguments for a file that was open before: in the grace period, and otherwise.
OPEN4args open_previous(const Session& session, const Open& open);
OPEN4args open_by_handle(const Session& session, const Open& open);

class OpenFile {
 public:
  static async::Task<Result<std::unique_ptr<OpenFile>>> open(Session& session, Path path, OpenMode mode,
                                                             OpenFlags flags);
  explicit OpenFile(Session& session);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// One READ, or more where the server gives fewer bytes than are there. Fewer than asked: the end of the
  /// file.
  async::Task<Result<std::size_t>> read(std::span<std::byte> data, std::uint64_t offset);
  async::Task<Result<std::size_t>> write(std::span<const std::byte> data, std::uint64_t offset);
  async::Task<Status> commit();
  async::Task<Result<WireAttributes>> attributes(bitmap4 wanted);
  async::Task<Status> set_attributes(SetAttributes changes);
  async::Task<Result<std::optional<Extent>>> next_extent(std::uint64_t offset);
  async::Task<Status> close();

  [[nodiscard]] const std::string& path() const { return open_.path; }
  [[nodiscard]] Session& session() { return session_; }

 private:
  /// One operation behind PUTFH that uses the stateid, repeated after a lost stateid was had again.
  template <class Add, class Take>
  async::Task<Status> on_file(const char* what, Add add, Take take);
  async::Task<Result<std::size_t>> write_once(std::span<const std::byte> data, std::uint64_t offset);
  async::Task<Result<std::optional<std::uint64_t>>> seek(std::uint64_t offset, data_content4 what,
                                                         bool& supported);
  async::Task<void> commit_beside();
  async::Task<Status> commit_once();
  async::Task<Status> rewrite(std::uint64_t number, verifier4 verifier);

  /// Attributes that hold for as long as the delegation does and this client changes nothing.
  struct Known {
    bitmap4 wanted;
    stateid4 delegation;
    std::uint64_t modifications = 0;
    WireAttributes attributes;
  };

  Session& session_;
  Open open_;
  bool is_open_ = false;
  std::optional<Known> known_;
  Uncommitted uncommitted_;
  bool committing_ = false;
  std::uint64_t commit_task_ = 0;  // commit_beside(), for Loop::drop()
  async::Event committed_;
  int writing_ = 0;         // WRITEs of callers under way
  bool rewriting_ = false;  // lost data is being written again: WRITEs of callers come after it
  async::Event written_;
  std::optional<Error>
      late_error_;  // of a COMMIT or rewrite that nobody waited for; sync() and close() tell it
};

}  // namespace nfsrdma::nfs4
