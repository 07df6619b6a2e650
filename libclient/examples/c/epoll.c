/* Uses the library in an event loop of the program's own: epoll watches the descriptor of a completion queue
 * and a timer. The program reads a file piece by piece. Each time the timer runs out, it prints the progress
 * and starts a ping, so that two kinds of calls are in flight on one queue.
 *
 *     gcc -std=c99 -D_GNU_SOURCE epoll.c $(pkg-config --cflags --libs nfsrdma) -o epoll
 *     ./epoll nfs://server/export/file
 */
#include <inttypes.h>
#include <nfsrdma/nfsrdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { PIECE = 1 << 20, TICK_NANOSECONDS = 100 * 1000 * 1000 };
enum { TAG_READ = 1, TAG_PING = 2 };

struct state {
  nfsrdma_client* client;
  nfsrdma_queue* queue;
  nfsrdma_file* file;
  int epoll;
  int timer;
  uint64_t offset;
  int ended;
  int failed;
  char data[PIECE];
};

static void fail(struct state* state, nfsrdma_error* error) {
  fprintf(stderr, "%s\n", nfsrdma_error_text(error));
  nfsrdma_error_free(error);
  state->failed = 1;
}

static void start_read(struct state* state) {
  nfsrdma_error* error = NULL;
  nfsrdma_call call = {.struct_size = sizeof call, .queue = state->queue, .tag = TAG_READ};
  if (nfsrdma_pread(state->file, state->data, PIECE, state->offset, &call, &error) != 0) fail(state, error);
}

static void start_ping(struct state* state) {
  nfsrdma_error* error = NULL;
  nfsrdma_call call = {.struct_size = sizeof call, .queue = state->queue, .tag = TAG_PING};
  if (nfsrdma_ping(state->client, &call, &error) != 0) fail(state, error);
}

static void on_completion(struct state* state, const nfsrdma_completion* done) {
  if (done->result < 0) {
    fail(state, done->error);
  } else if (done->tag == TAG_PING) {
    printf("round trip: %" PRId64 " us\n", done->result / 1000);
  } else {
    state->offset += (uint64_t)done->result;
    if (done->result < PIECE) {
      state->ended = 1;
    } else {
      start_read(state);
    }
  }
}

/* nfsrdma_reap also does the client's work that is due, so it may find no completion. */
static void on_queue(struct state* state) {
  nfsrdma_completion done[16];
  int64_t count;
  do {
    count = nfsrdma_reap(state->queue, done, 16, 0, 0);
    for (int64_t i = 0; i < count; ++i) on_completion(state, &done[i]);
  } while (count == 16);
}

static void on_timer(struct state* state) {
  uint64_t ticks;
  if (read(state->timer, &ticks, sizeof ticks) != (ssize_t)sizeof ticks) return;
  /* After the end of the file no more pings are started, so that the loop can end. */
  if (state->ended) return;
  printf("%" PRIu64 " bytes so far\n", state->offset);
  start_ping(state);
}

static int watch(struct state* state, int descriptor) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
  return epoll_ctl(state->epoll, EPOLL_CTL_ADD, descriptor, &event);
}

static void run(struct state* state) {
  const int queue = nfsrdma_queue_descriptor(state->queue);
  const struct itimerspec tick = {{0, TICK_NANOSECONDS}, {0, TICK_NANOSECONDS}};
  state->epoll = epoll_create1(EPOLL_CLOEXEC);
  state->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (state->epoll < 0 || state->timer < 0 || timerfd_settime(state->timer, 0, &tick, NULL) != 0 ||
      watch(state, queue) != 0 || watch(state, state->timer) != 0) {
    perror("event loop");
    state->failed = 1;
    return;
  }
  start_ping(state);
  start_read(state);
  while (!state->failed && !(state->ended && nfsrdma_queue_pending(state->queue) == 0)) {
    struct epoll_event events[2];
    const int count = epoll_wait(state->epoll, events, 2, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == queue) on_queue(state);
      if (events[i].data.fd == state->timer) on_timer(state);
    }
  }
  printf("%" PRIu64 " bytes%s\n", state->offset, state->ended ? "" : ", and then an error");
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s nfs://server/export/file\n", argv[0]);
    return 2;
  }
  nfsrdma_error* error = NULL;
  struct state* state = calloc(1, sizeof *state);
  if (state == NULL) {
    fprintf(stderr, "no memory\n");
    return 1;
  }
  state->epoll = state->timer = -1;
  if ((state->client = nfsrdma_connect(argv[1], NULL, &error)) == NULL ||
      (state->queue = nfsrdma_queue_new(state->client, &error)) == NULL ||
      nfsrdma_open(nfsrdma_root(state->client), nfsrdma_path(state->client), NFSRDMA_READ, 0, &state->file,
                   NULL, &error) != 0) {
    fail(state, error);
  } else {
    run(state);
  }
  const int failed = state->failed;
  nfsrdma_queue_free(state->queue);
  nfsrdma_file_free(state->file);
  nfsrdma_client_free(state->client);
  if (state->timer >= 0) close(state->timer);
  if (state->epoll >= 0) close(state->epoll);
  free(state);
  return failed;
}
