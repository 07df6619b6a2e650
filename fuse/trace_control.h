// The trace of a mount, and how it is switched while the mount is served: what a program writes to the file
// .nfsrdma-trace in the root of the mount, and what that file says (statistics_files.h).
//
//   on         begin a trace in the file of the option `trace`, or in the last one that was named
//   on FILE    begin a trace in this file, which must have an absolute path
//   off        end the trace
//
// FILE must not be on a mount of this program, because the daemon would wait for itself.
//
// Only root and the user who mounted see the control file. The daemon opens FILE with its own rights, which
// are that user's, and trace/recording/trace_file.h refuses to replace anything but a trace.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "connect/options.h"
#include "fuse/log.h"
#include "trace/recording/recorder.h"

namespace nfsrdma::fuse {

/// Returns true if the absolute path leads to or through a mount of this program. Looks at each component
/// before it is entered, so that the daemon does not ask itself.
bool leads_to_nfsrdma(const std::string& path);

class TraceControl {
 public:
  TraceControl(const connect::Options& options, Log log);
  /// Begins the trace that the options ask for. A failure goes to the log, because the mount works without.
  void start();
  [[nodiscard]] fabric::Tapper tapper() const { return recorder_->tapper(log_); }
  /// Returns true while a trace is being written.
  [[nodiscard]] bool is_on() const { return recorder_->on(); }
  /// Carries out what was written to the control file. Returns 0 or an errno, which the log explains.
  int obey(std::string_view command);
  /// Returns the text of the control file.
  [[nodiscard]] std::string text() const;

 private:
  int begin(const std::string& file);
  int begin_elsewhere(const std::string& file);

  const Log log_;
  std::string file_;  // the last one that was named; empty: none
  std::shared_ptr<trace::Recorder> recorder_;
};

}  // namespace nfsrdma::fuse
