/* Reads all small files of a directory with nfsrdma_read_many, which puts a dozen of them into each request,
 * and prints the name, the number of bytes and a checksum of each. A file that fails does not stop the others.
 *
 *     gcc -std=c99 -D_GNU_SOURCE many.c $(pkg-config --cflags --libs nfsrdma) -o many
 *     ./many nfs://server/export/directory
 */
#include <inttypes.h>
#include <nfsrdma/nfsrdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, ROOM = 16384 };

/* The files that one nfsrdma_read_many reads. */
struct batch {
  size_t count;
  nfsrdma_read_item items[BATCH];
  char data[BATCH][ROOM];
};

static size_t failures;

static void report(nfsrdma_error* error) {
  fprintf(stderr, "%s\n", nfsrdma_error_text(error));
  nfsrdma_error_free(error);
  ++failures;
}

/* The sum of FNV-1a: something that shows that the data has arrived. */
static uint64_t checksum(const char* data, size_t size) {
  uint64_t sum = 0xcbf29ce484222325U;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ (unsigned char)data[i]) * 0x100000001b3U;
  return sum;
}

static void read_batch(nfsrdma_dir* directory, struct batch* batch) {
  nfsrdma_error* error = NULL;
  if (batch->count == 0) return;
  if (nfsrdma_read_many(directory, batch->items, batch->count, sizeof *batch->items, NULL, &error) < 0) {
    report(error);
  } else {
    for (size_t i = 0; i < batch->count; ++i) {
      const nfsrdma_read_item* item = &batch->items[i];
      if (item->count < 0) {
        report(item->error);
        continue;
      }
      printf("%016" PRIx64 " %8" PRId64 " %s%s\n", checksum(batch->data[i], (size_t)item->count), item->count,
             item->path, item->eof ? "" : " (only the beginning)");
    }
  }
  for (size_t i = 0; i < batch->count; ++i) free((char*)(uintptr_t)batch->items[i].path);
  batch->count = 0;
}

static void add(nfsrdma_dir* directory, struct batch* batch, const char* name) {
  /* The listing's text is valid only until the next page. */
  char* path = strdup(name);
  if (path == NULL) {
    fprintf(stderr, "%s: no memory\n", name);
    ++failures;
    return;
  }
  /* This also sets the members to 0 that later versions may add. */
  batch->items[batch->count] =
      (nfsrdma_read_item){.path = path, .data = batch->data[batch->count], .room = ROOM};
  if (++batch->count == BATCH) read_batch(directory, batch);
}

static void read_directory(nfsrdma_dir* directory, struct batch* batch) {
  nfsrdma_error* error = NULL;
  nfsrdma_attributes attributes = {.struct_size = sizeof attributes};
  nfsrdma_entry entry = {.struct_size = sizeof entry, .attributes = &attributes};
  nfsrdma_listing* listing = nfsrdma_listing_new(directory, ".", &error);
  int64_t count = -1;
  while (listing != NULL && (count = nfsrdma_listing_next(listing, NULL, &error)) > 0) {
    for (size_t i = 0; nfsrdma_listing_entry(listing, i, &entry) == 0; ++i) {
      if (entry.has_attributes && attributes.type != NFSRDMA_TYPE_REGULAR) continue;
      add(directory, batch, entry.name);
    }
  }
  if (count < 0) report(error);
  read_batch(directory, batch);
  nfsrdma_listing_free(listing);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s nfs://server/export/directory\n", argv[0]);
    return 2;
  }
  nfsrdma_error* error = NULL;
  nfsrdma_dir* directory = NULL;
  struct batch* batch = calloc(1, sizeof *batch);
  nfsrdma_client* client = nfsrdma_connect(argv[1], NULL, &error);
  if (batch == NULL) {
    fprintf(stderr, "no memory\n");
    ++failures;
    nfsrdma_error_free(error);
  } else if (client == NULL ||
             nfsrdma_open_dir(nfsrdma_root(client), nfsrdma_path(client), &directory, NULL, &error) != 0) {
    report(error);
  } else {
    read_directory(directory, batch);
  }
  nfsrdma_dir_free(directory);
  nfsrdma_client_free(client);
  free(batch);
  return failures != 0;
}
