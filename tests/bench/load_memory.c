/* The memory that the library needs for what a program has with it, one line of JSON for each kind:
 *
 *   load_memory PORT DIRECTORY FILES CALLS [OPTIONS]
 *
 * PORT       of a responder on this machine (NFS over RDMA), which has the files DIRECTORY/file-0 and so on
 * FILES      open files that one client holds
 * CALLS      READs of 4 KiB that are started and have not ended
 * OPTIONS    of the library, in the form of the option -o
 *
 * Heap: what malloc has given out (mallinfo2). Resident: the process's own pages (Pss_Anon in smaps_rollup). Buffers of
 * the program are not counted. `left` is the heap that is still in use when the kind has been given back. Files and
 * clients are held twice, and the second time is reported, so that pools which have filled up do not count as left. Of
 * calls it is the first time, because it fills the pools that all later calls take their memory from.
 *
 * Exit status: 0, 1, 2 (usage). */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfsrdma/nfsrdma.h"

enum { small = 4096, connections = 9, clients = 8 };

static const char *port, *directory, *extra;

static void fail(const char* what, nfsrdma_error* error) {
  fprintf(stderr, "load_memory: %s: %s\n", what, error != NULL ? nfsrdma_error_text(error) : "no memory");
  exit(1);
}

static int64_t heap(void) {
  const struct mallinfo2 now = mallinfo2();
  return (int64_t)(now.uordblks + now.hblkhd);
}

static int64_t resident(void) {
  char line[256];
  long long kib = -1;
  FILE* from = fopen("/proc/self/smaps_rollup", "r");
  while (from != NULL && kib < 0 && fgets(line, sizeof line, from) != NULL) {
    if (sscanf(line, "Pss_Anon: %lld kB", &kib) != 1) kib = -1;
  }
  if (from != NULL) fclose(from);
  return kib < 0 ? 0 : (int64_t)kib * 1024;
}

static nfsrdma_client* connected(unsigned count) {
  nfsrdma_error* error = NULL;
  char number[16];
  snprintf(number, sizeof number, "%u", count);
  nfsrdma_options* options = nfsrdma_options_new();
  if (options == NULL) fail("options", NULL);
  if (nfsrdma_options_set_target(options, "127.0.0.1:/", &error) != 0 ||
      nfsrdma_options_set(options, "port", port, &error) != 0 ||
      nfsrdma_options_set(options, "nconnect", number, &error) != 0 ||
      (extra != NULL && nfsrdma_options_set_all(options, extra, &error) != 0))
    fail("options", error);
  nfsrdma_client* out = nfsrdma_connect(NULL, options, &error);
  nfsrdma_options_free(options);
  if (out == NULL) fail("connect", error);
  return out;
}

/* What a kind of thing takes: `before` there are any, with `count` of them, and `after` the last is gone. */
struct measured {
  int64_t heap_before, resident_before, heap_with, resident_with;
};

static void begin(struct measured* it) {
  malloc_trim(0);
  it->heap_before = heap();
  it->resident_before = resident();
}

static void with_all(struct measured* it) {
  it->heap_with = heap();
  it->resident_with = resident();
}

static void report(const char* what, size_t count, const struct measured* it) {
  malloc_trim(0);
  const double number = (double)count;
  printf(
      "{\"tool\":\"load_memory\",\"what\":\"%s\",\"count\":%zu,\"heap_each\":%.0f,\"resident_each\":%.0f,"
      "\"left\":%lld,\"resident_left\":%lld}\n",
      what, count, (double)(it->heap_with - it->heap_before) / number,
      (double)(it->resident_with - it->resident_before) / number, (long long)(heap() - it->heap_before),
      (long long)(resident() - it->resident_before));
  fflush(stdout);
}

static nfsrdma_file* opened(nfsrdma_client* client, size_t number) {
  nfsrdma_error* error = NULL;
  nfsrdma_file* file = NULL;
  char path[512];
  snprintf(path, sizeof path, "/%s/file-%zu", directory, number);
  if (nfsrdma_open(nfsrdma_root(client), path, NFSRDMA_READ, 0, &file, NULL, &error) != 0) fail(path, error);
  return file;
}

static void hold_files(nfsrdma_client* client, nfsrdma_file** files, size_t count, struct measured* it) {
  begin(it);
  for (size_t i = 0; i < count; ++i) files[i] = opened(client, i);
  with_all(it);
  for (size_t i = 0; i < count; ++i) nfsrdma_file_free(files[i]);
}

static void measure_files(size_t count) {
  struct measured it;
  nfsrdma_client* client = connected(1);
  nfsrdma_file** files = calloc(count, sizeof *files);
  if (files == NULL) fail("files", NULL);
  hold_files(client, files, count / 10 + 1, &it);
  hold_files(client, files, count, &it);
  report("open file", count, &it);
  free(files);
  nfsrdma_client_free(client);
}

/* NFSRDMA_MORE holds the calls back, so that all of them are there at once. */
static void start_reads(nfsrdma_file* file, nfsrdma_queue* queue, char* data, size_t count) {
  nfsrdma_error* error = NULL;
  nfsrdma_call call = {.struct_size = sizeof call, .queue = queue, .flags = NFSRDMA_MORE};
  for (size_t i = 0; i < count; ++i) {
    if (nfsrdma_pread(file, data + i * small, small, 0, &call, &error) < 0) fail("pread", error);
  }
}

static void reap_all(nfsrdma_client* client, nfsrdma_queue* queue) {
  nfsrdma_completion completions[64];
  nfsrdma_submit(client);
  while (nfsrdma_queue_pending(queue) != 0) {
    const int64_t count = nfsrdma_reap(queue, completions, 64, 1, -1);
    for (int64_t i = 0; i < count; ++i) {
      if (completions[i].error != NULL) fail("READ", completions[i].error);
    }
  }
}

static void measure_calls(size_t count) {
  struct measured it;
  nfsrdma_error* error = NULL;
  nfsrdma_client* client = connected(1);
  nfsrdma_file* file = opened(client, 0);
  nfsrdma_queue* queue = nfsrdma_queue_new(client, &error);
  char* data = calloc(count, small);
  if (queue == NULL || data == NULL) fail("queue", error);
  /* Only the first time takes memory from the heap. */
  start_reads(file, queue, data, 1);
  reap_all(client, queue);
  begin(&it);
  start_reads(file, queue, data, count);
  with_all(&it);
  reap_all(client, queue);
  report("call in flight", count, &it);
  nfsrdma_queue_free(queue);
  nfsrdma_file_free(file);
  nfsrdma_client_free(client);
  free(data);
}

static void hold_clients(struct measured* it, unsigned each) {
  nfsrdma_client* all[clients];
  begin(it);
  for (size_t i = 0; i < clients; ++i) all[i] = connected(each);
  with_all(it);
  for (size_t i = 0; i < clients; ++i) nfsrdma_client_free(all[i]);
}

static void measure_connections(void) {
  struct measured one, many;
  hold_clients(&one, 1);
  hold_clients(&one, 1);
  report("client with its first connection", clients, &one);
  hold_clients(&many, connections);
  hold_clients(&many, connections);
  many.heap_with -= one.heap_with - one.heap_before;
  many.resident_with -= one.resident_with - one.resident_before;
  report("further connection", (size_t)clients * (connections - 1), &many);
}

int main(int argc, char** argv) {
  if (argc < 5 || argc > 6) {
    fprintf(stderr, "usage: load_memory PORT DIRECTORY FILES CALLS [OPTIONS]\n");
    return 2;
  }
  port = argv[1];
  directory = argv[2];
  extra = argc == 6 ? argv[5] : NULL;
  const size_t files = strtoul(argv[3], NULL, 10), calls = strtoul(argv[4], NULL, 10);
  if (files != 0) measure_files(files);
  if (calls != 0) measure_calls(calls);
  if (calls != 0) measure_connections();
  return 0;
}
