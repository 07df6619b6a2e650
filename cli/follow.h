// A file that tail -f follows, and how often it is looked at.
//
// NFS has no call that waits for a file to change, so a Followed file is looked at again and again: one
// GETATTR by its path. The attributes tell what has happened since:
//   - it has grown: the new bytes are read through the open file;
//   - it has become shorter: that is reported, and the file is read from its beginning;
//   - the path leads to another file (a log that was rotated): what is left of the old one is read first, then
//     the new one is opened and read from its beginning;
//   - the path leads nowhere, or the server cannot be asked: that is reported once, and the file is looked for
//     until it is there again.
//
// judge() and LookPauses are pure. Thread-safety: one thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/remote_text.h"

namespace nfsrdma::cli {

/// Kind of change of a followed file.
enum class Turn : unsigned char { same, grown, truncated, replaced };

/// Compares a file of which `position` bytes were read with what its path leads to now.
Turn judge(const Attributes& followed, std::uint64_t position, const Attributes& now);

/// Pauses between two looks: short after something has happened, and longer while nothing does.
class LookPauses {
 public:
  using Pause = std::chrono::milliseconds;
  static constexpr Pause shortest{250}, longest{2000};
  /// `fixed`: all pauses are as long as this.
  explicit LookPauses(std::optional<Pause> fixed) : fixed_(fixed) {}
  /// Returns the pause after a look that has found something new, or nothing.
  Pause next(bool found_something);

 private:
  const std::optional<Pause> fixed_;
  Pause pause_ = shortest;
};

class Followed {
 public:
  explicit Followed(Remote remote) : remote_(std::move(remote)) {}

  /// Opens the file and writes its end, from the offset that `start` returns for its text and size.
  using Start = std::function<Result<std::uint64_t>(const ReadAt& text, std::uint64_t size)>;
  Status begin(Call& call, Headings& headings, const Start& start);
  /// Acts on what the path leads to now. Returns true if there was something new.
  bool look(Call& call, Headings& headings, const Result<Attributes>& now);
  [[nodiscard]] const Remote& remote() const { return remote_; }

 private:
  Status open(Attributes& attributes);
  bool lost(Call& call, const Error& error);
  bool replaced(Call& call, Headings& headings, const char* what);
  /// Writes everything behind position_. Returns true if there was something.
  Result<bool> write_new(Call& call, Headings& headings);

  Remote remote_;
  std::unique_ptr<File> file_;
  Attributes attributes_;  ///< of file_, when it was opened or found last
  std::uint64_t position_ = 0;
  std::string trouble_;  ///< was reported, and lasts
};

/// Looks at the files until a signal comes, or the reader of standard output goes away.
void follow(Call& call, Headings& headings, std::vector<Followed>& files,
            std::optional<LookPauses::Pause> pause);

}  // namespace nfsrdma::cli
