// Files opened by handle or by directory and name, for a mount (RFC 8881 9.7 to 9.11, 18.2, 18.16, 18.18).
//
//     OpenFiles files(session);
//     auto made = co_await files.open_at(caller, directory, "name", OPEN4_SHARE_ACCESS_BOTH, creation);
//     co_await made->file->write(data, 0);
//     co_await files.close(std::move(made->file));
//
// One open owner per caller (who is who he is by his numbers), so one OpenFile and one
// stateid per caller and file. Opening it again is an upgrade of that state; what the last closer of a kind
// leaves is given back by OPEN_DOWNGRADE, what the last closer leaves by CLOSE. Each open(2) is an OpenRef,
// which counts in its OpenFile. Nobody is ever denied (OPEN4_SHARE_DENY_NONE).
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
// Confined to the loop's thread. OpenRefs may outlive the OpenFiles, not the LeaseHolder; those that go before
// LeaseHolder::close() are closed, later ones are only dropped.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "nfs4/file.h"
#include "nfs4/objects.h"

namespace nfsrdma::nfs4 {

class OpenTable;

/// One open(2). Closed by OpenFiles::close(); one that is destroyed instead is closed beside, and nobody
/// hears how that went.
class OpenRef {
 public:
  OpenRef() = default;
  /// For OpenTable, which has counted it in.
  OpenRef(std::shared_ptr<OpenTable> table, std::shared_ptr<OpenFile> file, std::uint32_t access)
      : table_(std::move(table)), file_(std::move(file)), access_(access) {}
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
  std::shared_ptr<OpenTable> table_;
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

class OpenFiles {
 public:
  explicit OpenFiles(LeaseHolder& session);
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

  /// Told of a file, and why, where unstable data of it is lost (writing/unstable_data.h).
  void on_lost_data(std::function<void(const nfs_fh4&, const Error&)> sink);
  /// Returns null if the file is not open here.
  [[nodiscard]] std::shared_ptr<writing::WriteRecord> record(const nfs_fh4& file) const;
  /// Whether that is so of any file: what is asked of files by their names may then be of before a restart.
  [[nodiscard]] bool any_in_doubt() const;
  /// Ends all doubt, as far as the server lets that be done.
  async::Task<void> settle_doubt();
  [[nodiscard]] const std::shared_ptr<writing::AllFiles>& data() const;
  /// The size was set by something else than OpenFile::set_attributes(): unstable data behind it is gone.
  void resized(const nfs_fh4& file, std::uint64_t size);
  /// Whoever has the file open, for its stateid: SETATTR of the size, or reading on behalf of somebody.
  /// Prefers this caller's; null if nobody has.
  [[nodiscard]] std::shared_ptr<OpenFile> find(const Caller& caller, const nfs_fh4& file,
                                               std::uint32_t access) const;
  /// How many files at most are kept open for their delegation alone; those that were used longest ago go.
  void keep_delegated(std::size_t most);
  /// The file is not kept for its delegation any more: that has ended, or nobody will ask for the file.
  void unpark(const nfs_fh4& file);
  /// No file is.
  async::Task<void> unpark_all();
  /// One that holds a delegation which can be relied upon; null if there is none.
  [[nodiscard]] std::shared_ptr<OpenFile> delegated(const nfs_fh4& file) const;
  [[nodiscard]] std::size_t count() const;  ///< OpenFiles, with those that are parked
  [[nodiscard]] std::size_t parked() const;
  /// Of all of them: memory that is kept until the server says that it has it on its disk.
  [[nodiscard]] std::size_t uncommitted_bytes() const;

 private:
  std::shared_ptr<OpenTable> table_;
};

}  // namespace nfsrdma::nfs4
