// The record of one file's data, for every version of the protocol: the openers of the file, the bytes that
// the server may still lose, and whose turn it is to change the file. An opener is one open of the file by
// this client; several may exist at the same time.
//
// A client has one record for each file, found by the file's handle (records.h). The record lives for as long
// as an opener or a task holds it. Each question has one rule:
//
//   May the server have lost bytes?    in_doubt(). An opener's unstable data is in doubt if, since it was
//                                      written, a connection was made or the server's state was lost
//                                      (Writer::server_instance()), or an answer to any opener's WRITE or
//                                      COMMIT had another verifier. Three things end the doubt: a COMMIT that
//                                      matches, the rewrite after one that does not, and the opener's
//                                      leave().
//   Which bytes are written again?     The newest that this client wrote: replaced() removes a range from the
//                                      data of all openers at each later WRITE, and at each other operation
//                                      that sets, cuts or copies over those bytes.
//   Where does the file end?           Where the server says, asked through question.h. If the file is still
//                                      in doubt then, the greater of the server's size and end_in_doubt().
//   Is an answer of the server older   It may be if Turns::rewrites has changed between the question and the
//   than what is written here?         answer. The asking task reads the counter before it asks, and again
//                                      when it has the answer.
//   Who may change the file?           Either any number of callers' WRITEs at the same time, or a rewrite,
//                                      which waits for them. An operation that sets the size or copies over
//                                      the file takes a Turn, which counts as a WRITE does. A COMPOUND that
//                                      sets a size cannot be built without one (Resizing).
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "async/event.h"
#include "async/loop.h"
#include "async/task.h"
#include "async/under_way.h"
#include "nfsrdma/result.h"
#include "writing/uncommitted.h"
#include "xdr/xdr.h"

namespace nfsrdma::writing {

/// Identical to the FileHandle of engine/spot.h, which this layer cannot include because it stands above.
using FileHandle = xdr::ShortOpaque<128>;

/// State that the files of one engine share.
struct AllFiles {
  std::size_t bytes = 0;       ///< unstable bytes of all files
  unsigned rewriting = 0;      ///< number of rewrites that are under way, in all files
  std::uint64_t rewrites = 0;  ///< number of rewrites that have ever begun, in all files
  /// Called with a file and the reason when unstable data of the file is lost. If it is empty, commit()
  /// returns the error instead and the data is kept.
  std::function<void(const FileHandle&, const Error&)> lost;
};

class UnstableData;

struct WriteRecord {
  WriteRecord(async::Loop& loop, std::shared_ptr<AllFiles> among, const FileHandle& handle)
      : all(std::move(among)), file(handle), turns(loop) {}

  struct Opener {
    UnstableData* data;
    /// Locked by a task that uses `data`, so that `data` lives for as long as the task.
    std::weak_ptr<const void> owner;
  };
  /// Keeps changes of the file in order. Lost data is written again before callers write, because it is older
  /// than theirs.
  struct Turns {
    explicit Turns(async::Loop& loop) : ended(loop) {}
    unsigned writing = 0;    ///< callers' WRITEs and Turns that are under way
    unsigned rewriting = 0;  ///< rewrites that are under way; callers' WRITEs wait for them
    /// A counter that increases when a rewrite begins, and again when it ends. If two readings differ, an
    /// answer of the server to a question between them may show the file as it was before the rewrite.
    std::uint64_t rewrites = 0;
    async::Event ended;
  };

  /// Returns whether an opener has data that is not stable.
  [[nodiscard]] bool is_unstable() const;
  /// Returns whether unstable data of any opener may be lost.
  [[nodiscard]] bool in_doubt() const;
  /// Returns the end of the last unstable byte that may be lost; 0 if there is none.
  [[nodiscard]] std::uint64_t end_in_doubt() const;
  /// Returns the end of the last unstable byte; 0 if there is none.
  [[nodiscard]] std::uint64_t end() const;
  /// Puts all unstable data of the file in doubt.
  void doubt();
  /// Notes the verifier of an answer to a WRITE or COMMIT. Returns true if the verifier differs from that of
  /// the previous answer while the file has unstable data; then all of that data is in doubt.
  bool tells_restart(const Verifier& told);
  /// Called when a newer write, or an operation other than UnstableData::write(), has changed this range. No
  /// opener writes its older data there again.
  void replaced(std::uint64_t offset, std::uint64_t length);
  /// Called when the size of the file was set.
  void resized(std::uint64_t size) { replaced(size, ~std::uint64_t{0} - size); }

  const std::shared_ptr<AllFiles> all;
  const FileHandle file;
  std::vector<Opener> openers;
  Turns turns;

 private:
  std::optional<Verifier> verifier_;  // the verifier of the last answer to a WRITE or COMMIT
};

/// Proof that a request may set the size of a file. The request cannot be built without one. Each derived
/// class sees to it that no lost data is written again past the new end, or that the caller learns that this
/// may have happened.
class Resizing {
 public:
  Resizing(const Resizing&) = default;
  Resizing(Resizing&&) = default;
  Resizing& operator=(const Resizing&) = default;
  Resizing& operator=(Resizing&&) = default;

 protected:
  Resizing() = default;
  ~Resizing() = default;
};

class Turn;
/// Waits until no rewrite of the file is under way, then takes a turn for an operation that changes the file
/// and is not a WRITE. `what` names the operation in errors. The operation holds the Turn until it has called
/// replaced(): a rewrite waits for the Turn as it does for a caller's WRITE. A task that holds a Turn must
/// not wait for another one, because a rewrite may wait for the first. `file` is null if the file is not open
/// here; then there is nothing to wait for.
async::Task<Result<Turn>> take_turn(std::shared_ptr<WriteRecord> file, async::TimePoint deadline,
                                    const char* what);

/// The right to change one file. The record stays alive for as long as the Turn, even if the file is closed
/// meanwhile.
class Turn final : public Resizing {
 public:
  void end() {
    writing_ = {};
    of_.reset();
  }

 private:
  friend async::Task<Result<Turn>> take_turn(std::shared_ptr<WriteRecord> file, async::TimePoint deadline,
                                             const char* what);
  Turn() = default;
  std::shared_ptr<WriteRecord> of_;
  async::Use writing_;
};

/// Detects a rewrite, in any file, at any time since this object was made. For operations on a file that is
/// not known before the server answers: an OPEN that truncates the file which it finds by name can wait for
/// no turn. If overtaken() returns true, old data may have been written past the new end, and the file has to
/// be cut again, in a turn.
class RewriteWatch final : public Resizing {
 public:
  explicit RewriteWatch(std::shared_ptr<const AllFiles> all)
      : all_(std::move(all)), begun_(all_->rewrites), under_way_(all_->rewriting != 0) {}
  [[nodiscard]] bool overtaken() const { return under_way_ || all_->rewrites != begun_; }

 private:
  std::shared_ptr<const AllFiles> all_;
  std::uint64_t begun_;
  bool under_way_;
};

}  // namespace nfsrdma::writing
