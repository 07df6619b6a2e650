// Files opened by handle or by directory and name, for a mount (RFC 8881 9.7 to 9.11, 18.2, 18.16, 18.18).
//
//     const auto files = std::make_shared<OpenFiles>(session);
//     auto made = co_await files->open_at(caller, directory, "name", OPEN4_SHARE_ACCESS_BOTH, creation);
//     co_await made->file->write(data, 0);
//     co_await files->close(std::move(made->file));
//
// One open owner per caller (who is who he is by his numbers), so one OpenFile and one stateid per caller and file, which
// the file's record has (file_record.h). Opening it again is an upgrade of that state; what the last closer of a kind
// leaves is given back by OPEN_DOWNGRADE, what the last closer leaves by CLOSE. Each open(2) is an OpenRef, which counts in
// its OpenFile. Nobody is ever denied (OPEN4_SHARE_DENY_NONE).
//
// Replies may overtake each other. The seqid of the stateid tells which is later (access_order.h);
// OPEN_DOWNGRADE and CLOSE say which state they mean, and the server refuses them (OLD_STATEID) if an OPEN
// came first. Where its Reply does not come soon either, or another OPEN's was faster, they are executed all
// the same, and what the OPEN brought is over when its Reply comes: the file is opened again. READ, WRITE and
// LOCK mean the state as it is (seqid 0).
//
// A file that is held with a delegation is opened again without asking the server, for reading, or for whatever it is
// open for where the delegation is one for writing. With keep_delegated() it stays so when nobody has it open any more
// ("parked"), until the delegation ends: to open it again costs nothing then, and nothing to close it.
//
// Confined to the loop's thread. OpenRefs and tasks keep the OpenFiles; none may outlive the LeaseHolder. OpenRefs that go
// before LeaseHolder::close() are closed, later ones are only dropped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nfs4/file.h"
#include "nfs4/objects.h"

namespace nfsrdma::nfs4 {

class OpenFiles;

/// One open(2). Closed by OpenFiles::close(); one that is destroyed instead is closed beside, and nobody
/// hears how that went.
class OpenRef {
 public:
  OpenRef() = default;
  /// For OpenFiles, which has counted it in.
  OpenRef(std::shared_ptr<OpenFiles> files, std::shared_ptr<OpenFile> file, std::uint32_t access)
      : files_(std::move(files)), file_(std::move(file)), access_(access) {}
  OpenRef(OpenRef&& other) noexcept = default;
  OpenRef& operator=(OpenRef&& other) noexcept;
  OpenRef(const OpenRef&) = delete;
  OpenRef& operator=(const OpenRef&) = delete;
  ~OpenRef();

  explicit operator bool() const { return file_ != nullptr; }
  OpenFile* operator->() const { return file_.get(); }
  /// For Locks, and for tasks that may outlast the OpenRef.
  [[nodiscard]] const std::shared_ptr<OpenFile>& file() const { return file_; }
  [[nodiscard]] std::uint32_t access() const { return access_; }
  /// For OpenFiles::close(): whoever takes it closes it. Nothing is left here.
  [[nodiscard]] std::shared_ptr<OpenFile> take() { return std::move(file_); }

 private:
  std::shared_ptr<OpenFiles> files_;
  std::shared_ptr<OpenFile> file_;
  std::uint32_t access_ = 0;
};

struct OpenResult {
  OpenRef file;
  Object object;
  /// Of the directory that it was opened in; none where it was opened by handle.
  std::optional<Attributes> directory;
  /// The file was to be cut, and something may have been written again behind that (writing::RewriteWatch).
  bool to_be_cut_again = false;
};

class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  explicit OpenFiles(LeaseHolder& session) : session_(session), given_(session.loop()) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  ~OpenFiles();

  /// By name. `creation`: it is made if it is not there; an exclusive one is known for ours across a restart
  /// of the server (RFC 8881 18.16.3). Whoever has a file cut looks at OpenResult::to_be_cut_again. `access`: OPEN4_SHARE_ACCESS_READ, _WRITE or _BOTH.
  async::Task<Result<OpenResult>> open_at(Caller caller, Spot directory, std::string name,
                                          std::uint32_t access, std::optional<Engine::Creation> creation);
  /// `label`: what the file is called in errors. With a place it is opened only if that leads to it: ESTALE
  /// if it does not. It is looked up in the same COMPOUND, as far as the caller may.
  async::Task<Result<OpenResult>> open_handle(Caller caller, nfs_fh4 file, std::string label,
                                              std::uint32_t access, std::optional<Place> found_at = {});
  /// Commits what the file has of unstable data, if this is the last one that writes. Its error, and that of
  /// the CLOSE, come from here.
  async::Task<Status> close(OpenRef ref);
  /// For ~OpenRef(): closes the file by a task of its own.
  void dropped(std::shared_ptr<OpenFile> file, std::uint32_t access);

  /// Returns null if the file is not open here.
  [[nodiscard]] std::shared_ptr<writing::WriteRecord> record(const nfs_fh4& file) const {
    return writes_of(session_.opens().file(file));
  }
  /// Whether any file is in doubt: what is asked of files by their names may then be of before a restart.
  [[nodiscard]] bool any_in_doubt() const;
  /// Ends all doubt, as far as the server lets that be done.
  async::Task<void> settle_doubt();
  /// State that the data of all files shares. AllFiles::lost is called if unstable data of a file is lost.
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const { return session_.opens().data(); }
  /// The size was set by something else than OpenFile::set_attributes(): unstable data behind it is gone.
  void resized(const nfs_fh4& file, std::uint64_t size) {
    if (const auto known = record(file)) known->resized(size);
  }
  /// Whoever has the file open, for its stateid: SETATTR of the size, or reading on behalf of somebody.
  /// Prefers this caller's; null if nobody has.
  [[nodiscard]] std::shared_ptr<OpenFile> find(const Caller& caller, const nfs_fh4& file,
                                               std::uint32_t access);
  /// How many files at most are kept open for their delegation alone; those that were used longest ago go.
  void keep_delegated(std::size_t most) { most_parked_ = most; }
  /// The file is not kept for its delegation any more: that has ended, or nobody will ask for the file.
  void unpark(const nfs_fh4& file);
  /// No file is.
  async::Task<void> unpark_all();
  /// One that holds a delegation which can be relied upon; null if there is none.
  [[nodiscard]] std::shared_ptr<OpenFile> delegated(const nfs_fh4& file) const;
  /// OpenFiles, with those that are parked.
  [[nodiscard]] std::size_t count() const { return session_.opens().size(); }
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// Of all of them: memory that is kept until the server says that it has it on its disk.
  [[nodiscard]] std::size_t uncommitted_bytes() const { return data()->bytes; }

 private:
  /// Arguments of an OPEN, by name or by handle.
  struct Opening {
    Caller caller;
    std::string label;
    std::uint32_t access = 0;
    openflag4 how = openflag4::of<OPEN4_NOCREATE>();
    open_claim4 claim = open_claim4::of<CLAIM_FH>();
    std::optional<Place> place = {};  ///< the name that it is opened by, for Open::place
    std::uint32_t besides = 0;        ///< access that is asked for, too, and not needed
    [[nodiscard]] std::uint32_t asked() const { return access | besides; }
  };
  std::uint64_t owner_of(const Caller& caller);
  [[nodiscard]] std::shared_ptr<OpenFile> known(const nfs_fh4& handle, std::uint64_t owner) const;
  void widen(Opening& what) const;
  static bool narrows(Opening& what, const CompoundReply& reply);
  void add_open(Compound& compound, const Opening& what);
  OpenRef adopt(const Opening& what, const nfs_fh4& handle, const OPEN4resok& ok,
                const Openings::Guard& guard, const CompoundReply& reply);
  OpenRef count_in(std::shared_ptr<OpenFile> file, std::uint32_t access);
  async::Task<Result<OpenResult>> open_name(Opening what, Spot directory, SetAttributes changes,
                                            writing::RewriteWatch watch);
  async::Task<Result<OpenResult>> open_known(Opening what, nfs_fh4 handle, std::optional<Place> found_at);
  async::Task<Result<OpenResult>> open_found(Opening what, nfs_fh4 handle);
  async::Task<Status> close(std::shared_ptr<OpenFile> file, std::uint32_t access);
  async::Task<Status> shrink(std::shared_ptr<OpenFile> file, bool may_park = true);
  bool park(const std::shared_ptr<OpenFile>& file);
  bool take_out(OpenFile& file);
  std::shared_ptr<OpenFile> take_first();
  void unpark_now(const nfs_fh4& handle);
  static async::Task<void> close_beside(std::shared_ptr<OpenFiles> self, std::shared_ptr<OpenFile> file,
                                        std::uint32_t access);
  static async::Task<void> shrink_beside(std::shared_ptr<OpenFiles> self, std::shared_ptr<OpenFile> file);
  static async::Task<void> unpark_soon(std::shared_ptr<OpenFiles> self, nfs_fh4 handle);

  LeaseHolder& session_;
  std::map<std::optional<security::Identity>, std::uint64_t> owners_;  // none: no caller
  /// Files without an OpenRef that are kept open for their delegations, by Open::parked.
  std::map<std::uint64_t, std::shared_ptr<OpenFile>> parked_;
  std::uint64_t last_parked_ = 0;
  std::size_t most_parked_ = 0;
  /// Tasks that give state back to the server: unpark_all() waits for them.
  unsigned giving_ = 0;
  async::Event given_;
};

}  // namespace nfsrdma::nfs4
