// The gate for every question to the server whose answer depends on the file's data: READ, READ_PLUS, SEEK,
// the size, the end at which an append begins. While the file is in doubt (write_record.h) the server's
// answer may lack data that the server has lost.
//
//     for (writing::Question question(record);;) {
//       if (!question.begin()) {
//         if (auto done = co_await question.settle(); !done) co_return done.error();
//       }
//       ... ask the server ...
//       if (question.again()) continue;
//       ... the answer counts ...
//     }
//
// begin() notes the state of the file when the question is asked, and returns false if the file is in doubt.
// settle() then verifies the data of every opener by a COMMIT, and writes lost data again. When the answer
// has come, again() checks once more: while the question was under way a restart may have become known, or
// lost data may have been written again that the answer does not show.
//
// Failure. If the server refuses to commit the data or to accept it again, the opener that wrote it gets the
// error (unstable_data.h), and the question is asked all the same, because this is the state of the file now.
// If the server does not answer in time, the question fails.
//
// Confined to the loop's thread. A task that holds a Turn of the file must not ask a question: settle() may
// start a rewrite, and a rewrite waits for the Turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "writing/write_record.h"

namespace nfsrdma::writing {

class Question {
 public:
  /// `file` is null if the file is not open here; then it has no unstable data.
  explicit Question(std::shared_ptr<WriteRecord> file) : file_(std::move(file)) {}

  /// Called before each time the server is asked. If it returns false, settle() is to be awaited first.
  [[nodiscard]] bool begin() {
    if (!file_) return true;
    end_ = file_->end();
    rewrites_ = file_->turns.rewrites;
    return refused_ || !file_->in_doubt();
  }
  /// Called in place of begin() if the server was asked before this object was made, when Turns::rewrites was
  /// `rewrites`.
  void has_begun(std::uint64_t rewrites) { rewrites_ = rewrites; }
  async::Task<Status> settle();
  /// Returns true if the answer may show the file as it was before a rewrite: it does not count, and the
  /// server is to be asked again.
  [[nodiscard]] bool again() {
    if (!file_) return false;
    const bool stale = file_->turns.rewrites != rewrites_ || (!refused_ && file_->in_doubt());
    return stale && tries_++ < kMostTries;
  }
  /// Variant of again() for an answer that says that the file ends at `size`. If unstable data reached
  /// further before the question was asked, either another client has cut the file, or the server lost the
  /// data without another sign. So the data is put in doubt first.
  [[nodiscard]] bool again(std::uint64_t size) {
    if (file_ && size < end_ && size < file_->end() && !refused_) file_->doubt();
    return again();
  }
  /// Returns `size`, which the server gave, or the end of the data that it may have lost if that is greater.
  [[nodiscard]] std::uint64_t corrected(std::uint64_t size) const {
    return file_ ? std::max(size, file_->end_in_doubt()) : size;
  }

 private:
  /// Number of repetitions after which an answer counts in any case, so that a question ends whatever else
  /// happens to the file.
  static constexpr unsigned kMostTries = 8;

  const std::shared_ptr<WriteRecord> file_;
  std::uint64_t rewrites_ = 0;  // Turns::rewrites when the server was asked
  std::uint64_t end_ = 0;       // WriteRecord::end() when the server was asked
  unsigned tries_ = 0;
  bool refused_ = false;
};

/// Commits the unstable data of all openers of the file. `file` may be null.
async::Task<Status> make_stable(std::shared_ptr<WriteRecord> file);

}  // namespace nfsrdma::writing
