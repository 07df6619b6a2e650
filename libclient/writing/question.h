// Every question about a file whose answer depends on its data passes this gate: READ, READ_PLUS, SEEK, sizes, the end that
// an append goes behind. While the file is in doubt (write_record.h) the server's answer may lack data that it has lost.
//
//     for (writing::Question question(record);;) {
//       if (!question.begin()) {
//         if (auto done = co_await question.settle(); !done) co_return done.error();
//       }
//       … ask the server …
//       if (question.again()) continue;
//       … the answer counts …
//     }
//
// begin() notes the state of the file when the question is asked, and says whether the file is in doubt. settle() then has every opener's
// data verified by a COMMIT, and written again where it was lost. With the answer in hand again() looks once more: a
// restart may have shown while the question was under way, or lost data been written again behind the answer.
//
// Failure. Where the server refuses what is to be verified, its owner hears of that (unstable_data.h), and the question is
// asked all the same: this is how the file is now. Where the server does not answer in time, the question fails.
//
// Confined to the loop's thread. A task that has a Turn of the file must not ask: a rewrite waits for the Turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "writing/write_record.h"

namespace nfsrdma::writing {

class Question {
 public:
  /// `file`: null if the file is not open here, so that it has no unstable data.
  explicit Question(std::shared_ptr<WriteRecord> file) : file_(std::move(file)) {}

  /// To be called before each time the server is asked. False: settle() is to be awaited first.
  [[nodiscard]] bool begin() {
    if (!file_) return true;
    end_ = file_->end();
    rewrites_ = file_->turns.rewrites;
    return refused_ || !file_->in_doubt();
  }
  /// In place of begin(), where the server was asked before this was made, when Turns::rewrites was `rewrites`.
  void has_begun(std::uint64_t rewrites) { rewrites_ = rewrites; }
  async::Task<Status> settle();
  /// Whether the answer may be of before what was written: it does not count, and the server is to be asked again.
  [[nodiscard]] bool again() {
    if (!file_) return false;
    const bool stale = file_->turns.rewrites != rewrites_ || (!refused_ && file_->in_doubt());
    return stale && tries_++ < kMostTries;
  }
  /// For an answer by which the file ends at `size`. Where unstable data reached further before the question was
  /// asked, another client may have cut the file, or the server lost the data without another sign.
  [[nodiscard]] bool again(std::uint64_t size) {
    if (file_ && size < end_ && size < file_->end() && !refused_) file_->doubt();
    return again();
  }
  /// Returns `size`, which the server gave, or the end of the data that it may have lost if that is greater.
  [[nodiscard]] std::uint64_t corrected(std::uint64_t size) const {
    return file_ ? std::max(size, file_->end_in_doubt()) : size;
  }

 private:
  /// An answer counts after so many, so that a question ends whatever else goes on with the file.
  static constexpr unsigned kMostTries = 8;

  const std::shared_ptr<WriteRecord> file_;
  std::uint64_t rewrites_ = 0;  // Turns::rewrites as the server was asked
  std::uint64_t end_ = 0;       // WriteRecord::end() as the server was asked
  unsigned tries_ = 0;
  bool refused_ = false;
};

/// Commits the unstable data of all openers of the file. `file` may be null.
async::Task<Status> make_stable(std::shared_ptr<WriteRecord> file);

}  // namespace nfsrdma::writing
