/* One load on a file of a mount through a ring (nfsrdma/ring.h), timed, and one line of JSON about it, as load_mount's:
 *
 *   load_ring TOOL LOAD DIRECTORY SIZE DEPTH [DAEMON]
 *
 * TOOL    goes into the report
 * LOAD    write   SIZE MiB into the file `data` in WRITEs of 1 MiB, fsync and close included
 *         read    that file, in READs of 1 MiB
 *         random  SIZE READs of 4 KiB at random in it
 *         nothing SIZE requests that the daemon only answers
 * DEPTH   requests in flight
 * DAEMON  process id of the mount's daemon: its CPU time counts, too
 *
 * Exit status: 0, 1, 2 (usage). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nfsrdma/ring.h"

enum { piece = 1 << 20, small = 4096 };

static uint64_t size;
static unsigned depth;
static struct nfsrdma_ring* ring;
static struct nfsrdma_ring_file attached;
static char* memory;

static void fail(const char* what, int code) {
  fprintf(stderr, "load_ring: %s: %s\n", what, strerror(code < 0 ? -code : code));
  exit(1);
}

static double seconds_of(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) fail("clock_gettime", errno);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One more request, in the part of the memory with this number, which is also its tag. */
static void queue(enum nfsrdma_ring_operation operation, unsigned part, size_t length, uint64_t offset) {
  struct nfsrdma_ring_request request = {.operation = operation,
                                         .file = &attached,
                                         .data = memory + (size_t)part * length,
                                         .length = length,
                                         .offset = offset,
                                         .tag = part};
  const int code = nfsrdma_ring_queue(ring, &request);
  if (code != 0) fail("queue", code);
}

static uint64_t offsets[256];

static void begin_piece(enum nfsrdma_ring_operation operation, unsigned part, uint64_t number) {
  offsets[part] = number;
  if (operation == NFSRDMA_RING_WRITE) memcpy(memory + (size_t)part * piece, &number, sizeof number);
  queue(operation, part, piece, number * piece);
}
static void begin_small(enum nfsrdma_ring_operation operation, unsigned part, uint64_t number) {
  static uint64_t state = 88172645463325252U;
  (void)number;
  state ^= state << 13; /* xorshift64 */
  state ^= state >> 7;
  state ^= state << 17;
  queue(operation, part, small, state % offsets[255] * small);
}
static void check_piece(unsigned part) {
  uint64_t number = 0;
  memcpy(&number, memory + (size_t)part * piece, sizeof number);
  if (number != offsets[part] || memory[(size_t)part * piece + piece - 1] != 0x5a) {
    fail("these are not the bytes that were written", EILSEQ);
  }
}

static void run_all(enum nfsrdma_ring_operation operation, size_t length,
                    void (*begin)(enum nfsrdma_ring_operation, unsigned, uint64_t), int check) {
  struct nfsrdma_ring_completion done[64];
  uint64_t begun = 0, ended = 0;
  for (unsigned part = 0; part < depth && begun < size; ++part) begin(operation, part, begun++);
  nfsrdma_ring_submit(ring);
  while (ended < size) {
    const int count = nfsrdma_ring_completions(ring, done, 64, (int)(depth + 1) / 2, -1);
    if (count < 0) fail("completions", count);
    for (int i = 0; i < count; ++i) {
      if (done[i].result < 0) fail("a request", (int)done[i].result);
      if ((size_t)done[i].result != length) fail("a request was cut short", EIO);
      if (check) check_piece((unsigned)done[i].tag);
      ++ended;
      if (begun < size) begin(operation, (unsigned)done[i].tag, begun++);
    }
    nfsrdma_ring_submit(ring);
  }
}

int main(int argc, char** argv) {
  clockid_t daemon_clock = CLOCK_REALTIME;
  const int has_daemon = argc > 6;
  if (argc >= 6 && argc <= 7) {
    size = strtoull(argv[4], NULL, 10);
    depth = (unsigned)strtoul(argv[5], NULL, 10);
  }
  if (size == 0 || depth == 0 || depth > 255) {
    fputs("usage: load_ring TOOL write|read|random|nothing DIRECTORY SIZE DEPTH [DAEMON]\n", stderr);
    return 2;
  }
  const char* load = argv[2];
  const int writes = strcmp(load, "write") == 0;
  if (has_daemon && (errno = clock_getcpuclockid((pid_t)strtol(argv[6], NULL, 10), &daemon_clock)) != 0) {
    fail("the daemon's CPU clock", errno);
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/data", argv[3]);
  const double daemon_begun = has_daemon ? seconds_of(daemon_clock) : 0;
  const double cpu_begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double begun = seconds_of(CLOCK_MONOTONIC);
  const int file = open(path, writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0644);
  if (file < 0) fail(path, errno);
  const size_t length = strcmp(load, "random") == 0 ? small : strcmp(load, "nothing") == 0 ? 0 : piece;
  const struct nfsrdma_ring_options options = {.depth = depth,
                                               .memory = depth * (length != 0 ? length : small)};
  int code = nfsrdma_ring_open(file, &options, &ring);
  if (code != 0) fail("a ring", code);
  code = nfsrdma_ring_attach(ring, file, &attached);
  if (code != 0) fail("the file cannot be attached", code);
  memory = nfsrdma_ring_memory(ring, NULL);
  if (writes) {
    memset(memory, 0x5a, depth * (size_t)piece);
    run_all(NFSRDMA_RING_WRITE, piece, begin_piece, 0);
    if (fsync(file) != 0) fail("fsync", errno);
  } else if (strcmp(load, "read") == 0) {
    run_all(NFSRDMA_RING_READ, piece, begin_piece, 1);
  } else if (strcmp(load, "random") == 0) {
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size < small) fail("fstat", errno);
    offsets[255] = (uint64_t)status.st_size / small;
    run_all(NFSRDMA_RING_READ, small, begin_small, 0);
  } else {
    offsets[255] = 1;
    run_all(NFSRDMA_RING_NOTHING, 0, begin_small, 0);
  }
  nfsrdma_ring_close(ring);
  if (close(file) != 0) fail("close", errno);
  const double seconds = seconds_of(CLOCK_MONOTONIC) - begun;
  const double own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
  const double daemon = has_daemon ? seconds_of(daemon_clock) - daemon_begun : 0;
  printf(
      "{\"tool\": \"%s\", \"load\": \"%s\", \"ops\": %llu, \"bytes\": %llu, \"seconds\": %.6f, "
      "\"ops_per_second\": %.1f, \"mb_per_second\": %.2f, \"cpu_seconds\": %.6f, \"daemon_seconds\": %.6f}\n",
      argv[1], load, (unsigned long long)size, (unsigned long long)(size * length), seconds,
      (double)size / seconds, (double)(size * length) / 1e6 / seconds, own + daemon, daemon);
  return 0;
}
