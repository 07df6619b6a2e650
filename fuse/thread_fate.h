// Finds out whether a thread that waits for an answer is about to end.
//
// The kernel reports to the daemon any signal that reaches a thread which waits for the daemon
// (FUSE_INTERRUPT), but only once. A file system that is mounted hard goes on then, unless the signal ends
// the process: the thread cannot end before the request that it waits for is answered. So the daemon looks
// into /proc, repeatedly, because a fatal signal may follow a harmless one.
//
// A signal that ends a process adds SIGKILL to the pending signals of each of its threads. Signals that dump
// core are an exception: they stay pending as they are until a thread takes them.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace nfsrdma::fuse {

enum class Fate : unsigned char {
  goes_on,
  ends,     ///< the thread has been killed, or no longer exists
  unknown,  ///< the thread cannot be seen from here: another PID namespace, or hidepid
};

/// Returns the fate of a thread, whose id is as in fuse_ctx: 0 if the thread has no number in this PID
/// namespace.
Fate fate_of(pid_t thread);

/// Returns true if a signal is pending that ends the process. `status` is the text of /proc/TID/status.
bool has_fatal_signal(std::string_view status);
/// Returns true if the thread is exiting because of a signal. `stat` is the text of /proc/TID/stat.
bool dies_of_signal(std::string_view stat);

}  // namespace nfsrdma::fuse
