/* Writes a file of a mount (nfsrdma-fuse) to standard output, through a ring, which bypasses the kernel: eight
 * READs of 1 MiB are in flight, and their data is written in the order of the file.
 *
 *     gcc -std=c99 ring_cat.c $(pkg-config --cflags --libs nfsrdma-ring) -o ring_cat
 *     ./ring_cat /mnt/file
 *
 * If there is no ring, most programs would read as usual; this one prints why there is none. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nfsrdma/ring.h"

enum { PARTS = 8, SIZE = NFSRDMA_RING_MOST_LENGTH };

static int failed(const char* what, int code) {
  fprintf(stderr, "ring_cat: %s: %s\n", what, strerror(code < 0 ? -code : code));
  return 1;
}

static int put(const char* data, size_t size) {
  return fwrite(data, 1, size, stdout) == size ? 0 : -1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("usage: ring_cat FILE\n", stderr);
    return 2;
  }
  const int fd = open(argv[1], O_RDONLY);
  if (fd < 0) {
    perror(argv[1]);
    return 1;
  }
  const struct nfsrdma_ring_options options = {PARTS, (size_t)PARTS * SIZE};
  struct nfsrdma_ring* ring = NULL;
  struct nfsrdma_ring_file file;
  int code = nfsrdma_ring_open(fd, &options, &ring);
  if (code != 0) return failed("there is no ring", code);
  code = nfsrdma_ring_attach(ring, fd, &file);
  if (code != 0) return failed("the file cannot be attached", code);
  char* memory = nfsrdma_ring_memory(ring, NULL);
  ssize_t results[PARTS];
  int there[PARTS] = {0};
  uint64_t begun = 0, given = 0; /* in parts: the n-th is in the memory's part n % PARTS */
  for (int ended = 0; !ended;) {
    for (; begun < given + PARTS; ++begun) {
      const uint64_t part = begun % PARTS;
      const struct nfsrdma_ring_request request = {
          NFSRDMA_RING_READ, &file, memory + part * SIZE, SIZE, begun * SIZE, 0, part};
      code = nfsrdma_ring_queue(ring, &request);
      if (code != 0) return failed("a request", code);
    }
    nfsrdma_ring_submit(ring);
    struct nfsrdma_ring_completion done[PARTS];
    const int count = nfsrdma_ring_completions(ring, done, PARTS, 1, -1);
    if (count < 0) return failed("the ring", count);
    for (int i = 0; i < count; ++i) {
      results[done[i].tag] = done[i].result;
      there[done[i].tag] = 1;
    }
    while (!ended && there[given % PARTS]) {
      const uint64_t part = given++ % PARTS;
      there[part] = 0;
      if (results[part] < 0) return failed(argv[1], (int)results[part]);
      if (put(memory + part * SIZE, (size_t)results[part]) != 0) return failed("standard output", 5);
      ended = results[part] < SIZE; /* the end of the file */
    }
  }
  nfsrdma_ring_close(ring);
  return fflush(stdout) == 0 ? 0 : 1;
}
