// The recorder of a client's connections (trace/recording), as the options say.
#pragma once

#include "connect/options.h"
#include "trace/recording/recorder.h"

namespace nfsrdma::connect {

/// Returns the Options of a Recorder.
trace::Options trace_options(const Options& options);

/// Returns what makes the Taps of connections; nothing without the option `trace`. A file that cannot be
/// written is told to `warn`, which may be null, and the work goes on.
fabric::Tapper tapper_of(const Options& options, trace::Warn warn);

}  // namespace nfsrdma::connect
