// Signals that end the program: SIGINT, SIGTERM, SIGHUP.
//
// The first signal is noted and makes fd() readable, which ends blocking calls of the library (client.h,
// "Interruption"). Loops look at raised(). Work that was begun is then cleaned up under a Grace. A second
// signal, or the end of the grace, exits at once. SIGHUP stays ignored if it was ignored at the start
// (nohup).
//
// Thread-safety: raised() and exit_status() from anywhere, the rest from the main thread.
#pragma once

namespace nfsrdma::cli::interrupt {

void install();
/// Sets the handler of a signal, without SA_RESTART: a blocked read or write ends.
void handle(int number, void (*handler)(int));
/// Has `act` called before a signal ends the process at once. It must be async-signal-safe. Null: nothing is called.
void before_exit(void (*act)());
int fd();
bool raised();
/// 128 + the signal, as a shell reports it.
int exit_status();
/// Returns true if a write to a pipe without readers must end the program quietly, as it ends other filters.
bool sigpipe_was_default();
/// Ends the process the way SIGPIPE does.
void die_of_sigpipe();

/// While one lives, SIGINT ends what the program is doing, and not the program, and the end of a Grace does not exit
/// either. A second SIGINT exits at once only if what the program was doing has not ended within a second, so that
/// neither an impatient user nor a call that hangs loses control.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};
/// Makes a SIGINT undone, so that calls work again. Returns false if no Session lives, or if the signal was
/// another one: the program must end then.
bool forget();

/// While one lives, the terminal belongs to another program, and SIGINT and SIGQUIT are for that program alone, as
/// with system(3).
class Aside {
 public:
  Aside();
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
};

/// Lets blocking calls work again, though not for long: after two seconds they are cancelled, after two more
/// the process exits. All Graces after a signal share one deadline.
class Grace {
 public:
  Grace();
  ~Grace();
  Grace(const Grace&) = delete;
  Grace& operator=(const Grace&) = delete;
};

}  // namespace nfsrdma::cli::interrupt
