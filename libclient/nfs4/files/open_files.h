// Files opened by handle or by directory and name, for a mount (RFC 8881 9.7 to 9.11, 18.2, 18.16, 18.18).
//
//     const auto files = std::make_shared<OpenFiles>(session);
//     auto made = co_await files->open_at(caller, directory, "name", OPEN4_SHARE_ACCESS_BOTH, creation);
//     co_await made->file->write(data, 0);
//     co_await files->close(std::move(made->file));
//
// There is one open owner per caller, which is known by its numbers (uid, gid, groups). So there is one
// OpenFile and one stateid per caller and file, which the file's record has (state/file_record.h). Opening
// the file again upgrades that state. When the last open(2) that needs reading or writing is closed, that
// access is given back by OPEN_DOWNGRADE. When the last open(2) is closed, the state is given back by CLOSE.
// Each open(2) is an OpenRef, which counts in its OpenFile. No OPEN denies access to anybody
// (OPEN4_SHARE_DENY_NONE).
//
// Replies may overtake each other. The seqid of the stateid tells which of them is later
// (state/access_order.h). OPEN_DOWNGRADE and CLOSE name the state with its seqid, and the server refuses them
// (OLD_STATEID) if it executed an OPEN first. If that OPEN's Reply does not come soon, or another OPEN's
// Reply comes first, OPEN_DOWNGRADE and CLOSE are executed all the same. The state that the OPEN returned is
// then gone when its Reply comes, and the file is opened again. READ, WRITE and LOCK name the state without a
// seqid (seqid 0).
//
// If a file is held with a delegation, it is opened again without asking the server: for reading, or, with a
// write delegation, for any access that the file is open for. With keep_delegated() a file without any
// OpenRef stays open ("parked") until the delegation ends. Opening it again and closing it again then costs
// no call.
//
// Confined to the loop's thread. OpenRefs and tasks keep the OpenFiles alive, and none of them may outlive
// the ClientLease. An OpenRef that is destroyed before ClientLease::close() is closed, a later one is only
// dropped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nfs4/files/first_read.h"
#include "nfs4/files/object_operations.h"
#include "nfs4/files/open_file.h"

namespace nfsrdma::nfs4 {

class OpenFiles;

/// Handle of one open(2). OpenFiles::close() closes it. If it is destroyed instead, it is closed in the
/// background, and no caller learns how that ended.
class OpenRef {
 public:
  OpenRef() = default;
  /// For OpenFiles only, which has counted the open(2) in the OpenFile.
  OpenRef(std::shared_ptr<OpenFiles> files, std::shared_ptr<OpenFile> file, std::uint32_t access)
      : files_(std::move(files)), file_(std::move(file)), access_(access) {}
  OpenRef(OpenRef&& other) noexcept = default;
  OpenRef& operator=(OpenRef&& other) noexcept;
  OpenRef(const OpenRef&) = delete;
  OpenRef& operator=(const OpenRef&) = delete;
  ~OpenRef();

  explicit operator bool() const { return file_ != nullptr; }
  OpenFile* operator->() const { return file_.get(); }
  /// Returns the OpenFile for Locks, and for tasks that may outlast the OpenRef.
  [[nodiscard]] const std::shared_ptr<OpenFile>& file() const { return file_; }
  [[nodiscard]] std::uint32_t access() const { return access_; }
  /// For OpenFiles::close(): the caller that takes the OpenFile closes it. The OpenRef is empty afterwards.
  [[nodiscard]] std::shared_ptr<OpenFile> take() { return std::move(file_); }

 private:
  std::shared_ptr<OpenFiles> files_;
  std::shared_ptr<OpenFile> file_;
  std::uint32_t access_ = 0;
};

struct OpenResult {
  OpenRef file;
  Object object;
  /// Attributes of the directory that the file was opened in; none if it was opened by handle.
  std::optional<Attributes> directory;
  /// Whether the file has to be truncated again, because lost data of some file may have been rewritten after
  /// the OPEN truncated this one (writing::RewriteWatch).
  bool to_be_cut_again = false;
  /// Number of bytes that were read with the OPEN (first_read.h); none if nothing was read, or nothing that counts.
  std::optional<std::size_t> first = {};
};

class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  explicit OpenFiles(ClientLease& session) : session_(session), given_(session.loop()) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  ~OpenFiles();

  /// Opens by name. `creation`: the file is made if it does not exist. An exclusive create is recognised as
  /// this client's across a restart of the server (RFC 8881 18.16.3). A caller that has the file truncated
  /// must look at OpenResult::to_be_cut_again. `access`: OPEN4_SHARE_ACCESS_READ, _WRITE or _BOTH.
  async::Task<Result<OpenResult>> open_at(Caller caller, Spot directory, std::string name,
                                          std::uint32_t access, std::optional<Engine::Creation> creation);
  /// Opens by handle. `label`: the file's name in errors. With `found_at` the file is opened only if that
  /// name leads to it, and otherwise the result is ESTALE. The name is looked up in the same COMPOUND, if the
  /// caller may do that. `first`: room for the first bytes of the file, which are read in the same COMPOUND if that is
  /// possible (OpenResult::first). For OPEN4_SHARE_ACCESS_READ only.
  async::Task<Result<OpenResult>> open_handle(Caller caller, nfs_fh4 file, std::string label,
                                              std::uint32_t access, std::optional<Place> found_at = {},
                                              std::span<std::byte> first = {});
  /// Commits the file's unstable data if this is the last OpenRef that writes. Returns the error of that, or
  /// of the CLOSE.
  async::Task<Status> close(OpenRef ref);
  /// For ~OpenRef(): closes the file in a background task.
  void dropped(std::shared_ptr<OpenFile> file, std::uint32_t access);

  /// Returns null if the file is not open here.
  [[nodiscard]] std::shared_ptr<writing::WriteRecord> record(const nfs_fh4& file) const {
    return writes_of(session_.opens().file(file));
  }
  /// Whether any file is in doubt. Answers to questions about files by their names may then be older than a
  /// restart.
  [[nodiscard]] bool any_in_doubt() const;
  /// Ends the doubt of all files, as far as the server lets that be done.
  async::Task<void> settle_doubt();
  /// State that the data of all files shares. AllFiles::lost is called if unstable data of a file is lost.
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const { return session_.opens().data(); }
  /// Called when the size was set by something other than OpenFile::set_attributes(): discards unstable data
  /// behind it.
  void resized(const nfs_fh4& file, std::uint64_t size) {
    if (const auto known = record(file)) known->resized(size);
  }
  /// Returns an OpenFile whose stateid may be used for SETATTR of the size, or for reading in another
  /// caller's name. An OpenFile of this caller is preferred. Null if none is open for `access`.
  [[nodiscard]] std::shared_ptr<OpenFile> find(const Caller& caller, const nfs_fh4& file,
                                               std::uint32_t access);
  /// Sets how many files at most are kept open for their delegation alone. The files that were used longest
  /// ago are closed.
  void keep_delegated(std::size_t most) { most_parked_ = most; }
  /// Ends the parking of one file: its delegation has ended, or no caller will open the file again.
  void unpark(const nfs_fh4& file);
  /// Ends all parking, and waits until the server has been given back everything that is no longer needed.
  async::Task<void> unpark_all();
  /// Returns an OpenFile with a delegation that can be relied upon; null if there is none.
  [[nodiscard]] std::shared_ptr<OpenFile> delegated(const nfs_fh4& file) const;
  /// Number of OpenFiles, including those that are parked.
  [[nodiscard]] std::size_t count() const { return session_.opens().size(); }
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// Memory of all files' data that is kept until the server has it on stable storage.
  [[nodiscard]] std::size_t uncommitted_bytes() const { return data()->bytes; }

 private:
  /// Arguments of an OPEN, by name or by handle.
  struct Opening {
    Caller caller;
    std::string label;
    std::uint32_t access = 0;
    openflag4 how = openflag4::of<OPEN4_NOCREATE>();
    open_claim4 claim = open_claim4::of<CLAIM_FH>();
    /// Name by which the file is opened, for Open::place.
    std::optional<Place> place = {};
    /// Access that is asked for in addition, and that the caller does not need.
    std::uint32_t besides = 0;
    std::span<std::byte> first = {};  ///< room for the first bytes of the file
    [[nodiscard]] std::uint32_t asked() const { return access | besides; }
  };
  std::uint64_t owner_of(const Caller& caller);
  [[nodiscard]] std::shared_ptr<OpenFile> known(const nfs_fh4& handle, std::uint64_t owner) const;
  void widen(Opening& what) const;
  static bool narrows(Opening& what, const CompoundReply& reply);
  bool opens_without_read(Opening& what, const FirstRead& read, const Error& failed);
  enum class FirstReads : std::uint8_t { unknown, work, refused };
  void note_first_read(FirstReads outcome);
  void add_open(Compound& compound, const Opening& what);
  void take_first_read(OpenResult& out, FirstRead& read, CompoundReply& reply);
  OpenRef adopt(const Opening& what, const nfs_fh4& handle, const OPEN4resok& ok,
                const Openings::Guard& guard, const CompoundReply& reply);
  OpenRef count_in(std::shared_ptr<OpenFile> file, std::uint32_t access);
  async::Task<Result<OpenResult>> open_name(Opening what, Spot directory, SetAttributes changes,
                                            writing::RewriteWatch watch);
  async::Task<Result<OpenResult>> open_known(Opening what, nfs_fh4 handle, std::optional<Place> found_at);
  async::Task<Result<OpenResult>> open_found(Opening what, nfs_fh4 handle);
  async::Task<Status> close(std::shared_ptr<OpenFile> file, std::uint32_t access);
  async::Task<Status> close_last_writer(std::shared_ptr<OpenFile> file, std::uint32_t access);
  async::Task<Status> shrink(std::shared_ptr<OpenFile> file, bool may_park = true);
  bool park(const std::shared_ptr<OpenFile>& file);
  bool take_out(OpenFile& file);
  std::shared_ptr<OpenFile> take_first();
  void unpark_now(const nfs_fh4& handle);
  static async::Task<void> close_in_background(std::shared_ptr<OpenFiles> self,
                                               std::shared_ptr<OpenFile> file, std::uint32_t access);
  static async::Task<void> shrink_in_background(std::shared_ptr<OpenFiles> self,
                                                std::shared_ptr<OpenFile> file);
  static async::Task<void> unpark_soon(std::shared_ptr<OpenFiles> self, nfs_fh4 handle);

  ClientLease& session_;
  // The open owner of each caller; nullopt: no caller.
  std::map<std::optional<security::Identity>, std::uint64_t> owners_;
  /// Files without an OpenRef that are kept open for their delegations. The key is Open::parked.
  std::map<std::uint64_t, std::shared_ptr<OpenFile>> parked_;
  std::uint64_t last_parked_ = 0;
  FirstReads first_reads_ = FirstReads::unknown;  ///< whether the server executes READ behind OPEN
  std::size_t most_parked_ = 0;
  /// Number of tasks that give state back to the server. unpark_all() waits for them.
  unsigned giving_ = 0;
  async::Event given_;
};

}  // namespace nfsrdma::nfs4
