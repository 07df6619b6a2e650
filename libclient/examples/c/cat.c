/* Copies a whole file to standard output, with 8 reads in flight. A completion queue receives the results, in
 * any order; the program writes the pieces in the order of the file.
 *
 *     gcc -std=c99 cat.c $(pkg-config --cflags --libs nfsrdma) -o cat
 *     ./cat nfs://server/export/file > copy
 */
#include <nfsrdma/nfsrdma.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN_FLIGHT = 8, PIECE = 1 << 20 };

/* The buffer of one read. Piece number n of the file goes to slot n % IN_FLIGHT. */
struct slot {
  char* data;
  int64_t count; /* bytes that were read; -1: the read is in flight */
};

static int report(nfsrdma_error* error) {
  fprintf(stderr, "%s\n", nfsrdma_error_text(error));
  nfsrdma_error_free(error);
  return -1;
}

static int start_read(nfsrdma_file* file, nfsrdma_queue* queue, struct slot* slots, uint64_t piece) {
  struct slot* slot = &slots[piece % IN_FLIGHT];
  nfsrdma_error* error = NULL;
  /* NFSRDMA_MORE: nfsrdma_reap sends the reads, several at once. */
  nfsrdma_call call = {.struct_size = sizeof call, .queue = queue, .tag = piece, .flags = NFSRDMA_MORE};
  slot->count = -1;
  return nfsrdma_pread(file, slot->data, PIECE, piece * PIECE, &call, &error) == 0 ? 0 : report(error);
}

/* Waits for completions and notes them in their slots. */
static int reap(nfsrdma_queue* queue, struct slot* slots) {
  nfsrdma_completion done[IN_FLIGHT];
  int status = 0;
  int64_t count = nfsrdma_reap(queue, done, IN_FLIGHT, 1, -1);
  for (int64_t i = 0; i < count; ++i) {
    if (done[i].result < 0) {
      status = report(done[i].error);
    } else {
      slots[done[i].tag % IN_FLIGHT].count = done[i].result;
    }
  }
  return status;
}

static int copy(nfsrdma_file* file, nfsrdma_queue* queue, struct slot* slots) {
  for (uint64_t piece = 0; piece < IN_FLIGHT; ++piece) {
    if (start_read(file, queue, slots, piece) != 0) return -1;
  }
  for (uint64_t piece = 0;; ++piece) {
    struct slot* slot = &slots[piece % IN_FLIGHT];
    while (slot->count < 0) {
      if (reap(queue, slots) != 0) return -1;
    }
    if (fwrite(slot->data, 1, (size_t)slot->count, stdout) != (size_t)slot->count) {
      perror("standard output");
      return -1;
    }
    /* A short read means the end of the file. Reads behind it are cancelled with the queue. */
    if (slot->count < PIECE) return 0;
    if (start_read(file, queue, slots, piece + IN_FLIGHT) != 0) return -1;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s nfs://server/export/file\n", argv[0]);
    return 2;
  }
  int status = -1;
  nfsrdma_error* error = NULL;
  nfsrdma_file* file = NULL;
  nfsrdma_queue* queue = NULL;
  struct slot slots[IN_FLIGHT];
  char* memory = malloc((size_t)IN_FLIGHT * PIECE);
  nfsrdma_client* client = nfsrdma_connect(argv[1], NULL, &error);
  for (size_t i = 0; i < IN_FLIGHT && memory != NULL; ++i) slots[i].data = memory + i * PIECE;
  if (memory == NULL) {
    fprintf(stderr, "no memory\n");
  } else if (client == NULL || (queue = nfsrdma_queue_new(client, &error)) == NULL ||
             nfsrdma_open(nfsrdma_root(client), nfsrdma_path(client), NFSRDMA_READ, 0, &file, NULL, &error) !=
                 0) {
    report(error);
    error = NULL;
  } else {
    status = copy(file, queue, slots);
  }
  nfsrdma_error_free(error);
  nfsrdma_queue_free(queue); /* After this, the server cannot write to `memory` any more. */
  nfsrdma_file_free(file);
  nfsrdma_client_free(client);
  free(memory);
  if (fflush(stdout) != 0 && status == 0) {
    perror("standard output");
    status = -1;
  }
  return status != 0;
}
