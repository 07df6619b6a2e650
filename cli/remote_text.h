// Helpers of head and tail: the text of an open file, and the line above the output of each file.
#pragma once

#include "cli/commands.h"
#include "cli/line_scan.h"

namespace nfsrdma::cli {

/// Returns a function that reads the file, which must stay open while the function is used.
ReadAt text_of(File& file);

/// The lines "==> TARGET <==", as head(1) and tail(1) show them: if there are several targets, or with
/// --verbose, and not with --quiet.
class Headings {
 public:
  explicit Headings(Call& call);
  /// Writes the line if the output that follows is of another file than the last one.
  void show(const Remote& remote);

 private:
  Call& call_;
  bool wanted_;
  std::string last_;
};

}  // namespace nfsrdma::cli
