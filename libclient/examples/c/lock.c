/* Waits for a lock with a deadline, and gives up when the user presses Ctrl-C: the wait is a call that was
 * started, with a callback and a tag, and nfsrdma_cancel ends it by its tag. When the program has the lock, it
 * keeps it for some seconds. Start it twice to see the second one wait.
 *
 *     gcc -std=c99 -D_GNU_SOURCE lock.c $(pkg-config --cflags --libs nfsrdma) -o lock
 *     ./lock nfs://server/export/file SECONDS-TO-WAIT SECONDS-TO-KEEP
 */
#include <errno.h>
#include <nfsrdma/nfsrdma.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { TAG_LOCK = 1, OWNER = 1 };

/* What became of the wait for the lock. */
struct outcome {
  int ended;
  int locked;
};

static int report(nfsrdma_error* error) {
  fprintf(stderr, "%s\n", nfsrdma_error_text(error));
  nfsrdma_error_free(error);
  return -1;
}

/* The library frees the completion's error after this function. */
static void on_lock(void* data, const nfsrdma_completion* completion) {
  struct outcome* outcome = data;
  outcome->ended = 1;
  outcome->locked = completion->result == 0;
  if (outcome->locked) return;
  if (nfsrdma_error_kind(completion->error) == NFSRDMA_ERROR_CANCELLED) {
    fprintf(stderr, "given up\n");
  } else if (nfsrdma_error_errno(completion->error) == EAGAIN) {
    fprintf(stderr, "the lock is still held by somebody else\n");
  } else {
    fprintf(stderr, "%s\n", nfsrdma_error_text(completion->error));
  }
}

static void show_holder(nfsrdma_file* file, const nfsrdma_lock* lock) {
  nfsrdma_lock holder = {.struct_size = sizeof holder};
  if (nfsrdma_test_lock(file, lock, &holder, NULL, NULL) == 1) {
    fprintf(stderr, "%s holds %s lock, waiting\n", holder.ours ? "this client" : "another client",
            holder.write ? "an exclusive" : "a shared");
  }
}

/* Returns whether the lock was granted. `signals` becomes readable when the user presses Ctrl-C. */
static int wait_for_lock(nfsrdma_client* client, nfsrdma_file* file, const nfsrdma_lock* lock,
                         int64_t milliseconds, int signals) {
  struct outcome outcome = {0, 0};
  nfsrdma_error* error = NULL;
  /* The deadline of the call leaves some time for the server's answer to the last attempt. */
  nfsrdma_call call = {.struct_size = sizeof call,
                       .done = on_lock,
                       .data = &outcome,
                       .tag = TAG_LOCK,
                       .timeout = milliseconds + 10000};
  if (nfsrdma_lock_range(file, lock, milliseconds, &call, &error) != 0) {
    report(error);
    return 0;
  }
  while (!outcome.ended) {
    struct signalfd_siginfo signal;
    nfsrdma_wait(client, -1, &signals, 1);
    /* The callback still runs: with the error of a cancelled call, or with the lock if it was just granted. */
    if (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) nfsrdma_cancel(client, TAG_LOCK);
  }
  return outcome.locked;
}

static int use_lock(nfsrdma_client* client, nfsrdma_file* file, int64_t milliseconds, int keep, int signals) {
  nfsrdma_error* error = NULL;
  const nfsrdma_lock lock = {
      .struct_size = sizeof lock, .owner = OWNER, .write = 1, .length = NFSRDMA_TO_THE_END};
  show_holder(file, &lock);
  if (!wait_for_lock(client, file, &lock, milliseconds, signals)) return -1;
  printf("locked\n");
  fflush(stdout);
  /* The library keeps the lock alive meanwhile. Ctrl-C ends this wait, too. */
  struct pollfd ctrl_c = {.fd = signals, .events = POLLIN};
  poll(&ctrl_c, 1, keep);
  if (nfsrdma_unlock_range(file, &lock, NULL, &error) != 0) return report(error);
  printf("unlocked\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s nfs://server/export/file SECONDS-TO-WAIT SECONDS-TO-KEEP\n", argv[0]);
    return 2;
  }
  int status = -1;
  nfsrdma_error* error = NULL;
  nfsrdma_file* file = NULL;
  /* Blocked before the client is connected, so that the library's threads do not receive the signal. */
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, NULL);
  const int signals = signalfd(-1, &interrupt, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signals < 0) {
    perror("signalfd");
    return 1;
  }
  nfsrdma_client* client = nfsrdma_connect(argv[1], NULL, &error);
  if (client == NULL ||
      nfsrdma_open(nfsrdma_root(client), nfsrdma_path(client), NFSRDMA_READ | NFSRDMA_WRITE | NFSRDMA_CREATE,
                   0666, &file, NULL, &error) != 0) {
    report(error);
  } else {
    status = use_lock(client, file, strtol(argv[2], NULL, 10) * 1000, (int)strtol(argv[3], NULL, 10) * 1000,
                      signals);
  }
  nfsrdma_file_free(file);
  nfsrdma_client_free(client);
  close(signals);
  return status != 0;
}
