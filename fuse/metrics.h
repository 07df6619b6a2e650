// The statistics of a mount as metrics of Prometheus: the content of .nfsrdma-stats.prom, in the text format
// 0.0.4, which node_exporter's textfile collector and Prometheus itself read.
//
// Every sample has the label `mountpoint`, and at most one of `operation` (the kernel's requests, or
// kinds of calls to the server) and `connection`. The number of series is therefore bounded: names of files,
// users or other clients are in no label.
//
// Depends neither on libfuse nor on a mount.
#pragma once

#include <string>

#include "fuse/statistics.h"

namespace nfsrdma::fuse {

std::string metrics_text(const Picture& picture);

}  // namespace nfsrdma::fuse
