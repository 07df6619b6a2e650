// The record of one file's data, in every version of the protocol: its openers, the bytes that the server may still lose,
// and whose turn it is to change the file.
//
// There is one for each file and client, found by the file's handle (records.h). It lives for as long as somebody has
// the file open, or a task asks about it. Each answer has one rule:
//
//   May the server have lost bytes?   in_doubt(). An opener's unstable data is in doubt if, since it was written, a
//                                     connection was made or the server's state was lost (Writer::server_instance()), or
//                                     an answer to any opener's WRITE or COMMIT had another verifier. A COMMIT that
//                                     matches, or the rewrite behind one that does not, ends the doubt; so does the
//                                     opener's leave().
//   Which bytes are written again?    The newest of what this client wrote: replaced() takes a range from all openers,
//                                     for each later WRITE, and for what else sets, cuts or copies over those bytes.
//   Where does the file end?          Where the server says, asked through question.h. If the file is in doubt still,
//                                     end_in_doubt() wins where it is greater.
//   Is an answer of the server older
//   than what is written here?        Turns::rewrites tells, read before the server is asked, and again behind the answer.
//   Who may change the file?          WRITEs of callers beside each other, or a rewrite, which waits for them. What sets
//                                     the size, or copies over the file, has a Turn as a WRITE has: a COMPOUND that
//                                     sets a size cannot be built without one (Resizing).
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

/// The type of engine/spot.h, which stands above this layer.
using FileHandle = xdr::ShortOpaque<128>;

/// State that the files of one engine share.
struct AllFiles {
  std::size_t bytes = 0;       ///< unstable, of all files
  unsigned rewriting = 0;      ///< rewrites under way, of any file
  std::uint64_t rewrites = 0;  ///< rewrites that were begun
  /// Called with a file and the reason if unstable data of the file is lost. If it is empty, commit() returns the error.
  std::function<void(const FileHandle&, const Error&)> lost;
};

class UnstableData;

struct WriteRecord {
  WriteRecord(async::Loop& loop, std::shared_ptr<AllFiles> among, const FileHandle& handle)
      : all(std::move(among)), file(handle), turns(loop) {}

  struct Opener {
    UnstableData* data;
    /// Keeps `data` for as long as a task uses it.
    std::weak_ptr<const void> owner;
  };
  /// Order of changes to the file: lost data is written again before callers write, since it is older.
  struct Turns {
    explicit Turns(async::Loop& loop) : ended(loop) {}
    unsigned writing = 0;    ///< WRITEs of callers under way
    unsigned rewriting = 0;  ///< those who write again what the server lost: callers' WRITEs wait for them
    /// A counter that increases when a rewrite begins, and again when it ends. What the server was asked between two
    /// readings that differ may be of before.
    std::uint64_t rewrites = 0;
    async::Event ended;
  };

  /// Whether an opener has data that is not stable.
  [[nodiscard]] bool is_unstable() const;
  /// Whether unstable data of any opener may be lost.
  [[nodiscard]] bool in_doubt() const;
  /// The end of the last unstable byte that may be lost; 0 if there is none.
  [[nodiscard]] std::uint64_t end_in_doubt() const;
  /// The end of the last unstable byte; 0 if there is none.
  [[nodiscard]] std::uint64_t end() const;
  /// Puts all unstable data of the file in doubt.
  void doubt();
  /// Whether the verifier of an answer to a WRITE or COMMIT differs from that of the answer before, so that what is not
  /// stable of the file is in doubt.
  bool tells_restart(const Verifier& told);
  /// Something other than UnstableData::write() changed the file there, or a newer write did: no opener writes what it
  /// has there again.
  void replaced(std::uint64_t offset, std::uint64_t length);
  /// The file was cut.
  void resized(std::uint64_t size) { replaced(size, ~std::uint64_t{0} - size); }

  const std::shared_ptr<AllFiles> all;
  const FileHandle file;
  std::vector<Opener> openers;
  Turns turns;

 private:
  std::optional<Verifier> verifier_;  // of the last answer
};

/// A request that sets the size of a file cannot be made without a Resizing, which sees to it that no lost data is written
/// again behind the cut.
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
/// Waits for the turn of an operation `what` that changes the file and is no WRITE. The operation holds the Turn until
/// replaced() has been called: rewrites wait for it as they do for a caller's WRITE. A task that has a turn must not wait
/// for another. `file`: null if the file is not open here, so that there is nothing to wait for.
async::Task<Result<Turn>> take_turn(std::shared_ptr<WriteRecord> file, async::TimePoint deadline,
                                    const char* what);

/// A turn of a file, which may be closed meanwhile.
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

/// Tells whether anything that the server lost was being written again, in any file, at some time since this was made. For
/// what concerns files that are not known before the server answers: an OPEN that cuts the file which it finds by a name
/// can wait for no turn. Where it was overtaken, old data may have come behind the cut, and the file is to be cut again,
/// in a turn.
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
