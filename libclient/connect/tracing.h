// The recorder of a client's connections (trace/recording), as the options say.
#pragma once

#include "connect/options.h"
#include "trace/recording/recorder.h"

namespace nfsrdma::connect {

/// Returns the Options of a Recorder.
trace::Options trace_options(const Options& options);

/// Returns the function that makes the Taps of connections; null without the option `trace`. If the file
/// cannot be written, `warn` (which may be null) is called, and the work goes on.
fabric::Tapper tapper_of(const Options& options, trace::Warn warn);

}  // namespace nfsrdma::connect
