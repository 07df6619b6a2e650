// The recorder of a client's connections (trace/recording), as the options say.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "connect/options.h"
#include "trace/recording/recorder.h"

namespace nfsrdma::connect {

/// Returns the Options of a Recorder. `warn` is told once if the trace ends early; it may be null.
trace::Options trace_options(const Options& options, std::function<void(const std::string&)> warn);

/// Returns what makes the Taps of connections; nothing without the option `trace`. A file that cannot be
/// written is told to `warn`, and the work goes on.
fabric::Tapper tapper_of(const Options& options, std::function<void(const std::string&)> warn);

}  // namespace nfsrdma::connect
