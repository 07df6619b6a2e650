// Whether a thread that waits for an answer is about to end.
//
// The kernel tells the daemon of any signal that reaches a thread which waits for it (FUSE_INTERRUPT), and
// once only. A file system that is mounted hard goes on then, unless the signal ends the process: the thread
// cannot end while it waits for an answer that has been sent for. So the daemon looks into /proc, as often as
// it takes, since a fatal signal may follow a harmless one.
//
// A signal that ends a process puts SIGKILL among the pending ones of each of its threads, but for those that
// dump core: they stay what they are until a thread takes them.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace nfsrdma::fuse {

enum class Fate : unsigned char {
  goes_on,
  ends,     ///< it has been killed, or is no more
  unknown,  ///< the thread cannot be seen from here: another PID namespace, or hidepid
};

/// Of the thread with this id as fuse_ctx has it: 0 where it has no number here.
Fate fate_of(pid_t thread);

/// From /proc/TID/status: a signal is pending that ends the process.
bool has_fatal_signal(std::string_view status);
/// From /proc/TID/stat: it is on its way out because of a signal.
bool dies_of_signal(std::string_view stat);

}  // namespace nfsrdma::fuse
