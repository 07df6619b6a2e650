/* A program that was linked against the first version of libnfsrdma.so.1 (2026-11-29), and runs with every later
 * one: old_program.x86_64 was built from this file and is never built anew. run.sh runs it with the library of
 * today. It uses each kind of call, and looks that nothing is written behind its structs, which are those of the
 * first version.
 *
 *   gcc -std=c99 -O2 -s -Wall -Wextra -I../../libclient/include old_program.c -lnfsrdma -o old_program.x86_64
 *
 * Usage: old_program URL-OF-A-DIRECTORY. The directory has the file "file" of 100000 bytes. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfsrdma/nfsrdma.h"

static nfsrdma_error* error;

static void check(int good, const char* what) {
  if (good) return;
  printf("FAILED: %s: %s\n", what, error != NULL ? nfsrdma_error_text(error) : "");
  exit(1);
}

/* A struct, and a word behind it that the library must not touch. */
#define GUARDED(type)     \
  struct {                \
    nfsrdma_##type value; \
    uint64_t behind;      \
  }
#define START(guarded)                                   \
  do {                                                   \
    memset(&(guarded).value, 0, sizeof(guarded).value);  \
    (guarded).value.struct_size = sizeof(guarded).value; \
    (guarded).behind = UINT64_C(0x1122334455667788);     \
  } while (0)
#define UNTOUCHED(guarded) \
  check((guarded).behind == UINT64_C(0x1122334455667788), "bytes behind a struct were overwritten")

static int callbacks;
static void done(void* data, const nfsrdma_completion* completion) {
  check(data == &callbacks && completion->tag == 9 && completion->result == 0, "callback");
  ++callbacks;
}

static void by_names(nfsrdma_dir* dir) {
  GUARDED(attributes) attributes;
  GUARDED(space) space;
  GUARDED(entry) entry;
  nfsrdma_listing* listing;
  int64_t page, names = 0;
  size_t i;
  START(attributes);
  check(nfsrdma_stat(dir, "file", 0, &attributes.value, NULL, &error) == 0, "stat");
  check(attributes.value.size == 100000 && attributes.value.type == NFSRDMA_TYPE_REGULAR, "attributes");
  UNTOUCHED(attributes);
  START(space);
  check(nfsrdma_statfs(dir, ".", &space.value, NULL, &error) == 0, "statfs");
  UNTOUCHED(space);
  check(nfsrdma_mkdir(dir, "made", 0755, NULL, &error) == 0, "mkdir");
  check(nfsrdma_rename(dir, "made", dir, "moved", NULL, &error) == 0, "rename");
  listing = nfsrdma_listing_new(dir, "", &error);
  check(listing != NULL, "listing_new");
  while ((page = nfsrdma_listing_next(listing, NULL, &error)) > 0) {
    for (i = 0; i < (size_t)page; ++i) {
      START(entry);
      entry.value.attributes = &attributes.value;
      check(nfsrdma_listing_entry(listing, i, &entry.value) == 0, "listing_entry");
      UNTOUCHED(entry);
      UNTOUCHED(attributes);
      if (strcmp(entry.value.name, "file") == 0 || strcmp(entry.value.name, "moved") == 0) ++names;
    }
  }
  check(page == 0 && names == 2, "listing");
  nfsrdma_listing_free(listing);
  check(nfsrdma_rmdir(dir, "moved", NULL, &error) == 0, "rmdir");
}

static void by_file(nfsrdma_dir* dir) {
  static char data[100000], copy[100000];
  struct iovec parts[2] = {{copy, 10}, {copy + 10, sizeof copy - 10}};
  GUARDED(attributes) attributes;
  nfsrdma_file* file = NULL;
  nfsrdma_file* made = NULL;
  check(nfsrdma_open(dir, "file", NFSRDMA_READ, 0, &file, NULL, &error) == 0, "open");
  check(nfsrdma_pread(file, data, sizeof data, 0, NULL, &error) == (int64_t)sizeof data, "pread");
  check(nfsrdma_preadv(file, parts, 2, 0, NULL, &error) == (int64_t)sizeof copy, "preadv");
  check(memcmp(data, copy, sizeof data) == 0, "what was read");
  START(attributes);
  check(nfsrdma_fstat(file, &attributes.value, NULL, &error) == 0, "fstat");
  UNTOUCHED(attributes);
  check(
      nfsrdma_open(dir, "new", NFSRDMA_READ | NFSRDMA_WRITE | NFSRDMA_CREATE, 0644, &made, NULL, &error) == 0,
      "create");
  check(nfsrdma_pwrite(made, data, 5000, 0, 0, NULL, &error) == 5000, "pwrite");
  check(nfsrdma_sync(made, NULL, &error) == 0, "sync");
  check(nfsrdma_close(made, NULL, &error) == 0, "close");
  nfsrdma_file_free(made);
  nfsrdma_file_free(file);
  check(nfsrdma_unlink(dir, "new", NULL, &error) == 0, "unlink");
}

static void started(nfsrdma_client* client, nfsrdma_dir* dir) {
  static char data[4][1000];
  GUARDED(call) call;
  nfsrdma_completion completions[4];
  GUARDED(attributes) attributes;
  nfsrdma_queue* queue = nfsrdma_queue_new(client, &error);
  nfsrdma_file* file = NULL;
  uint64_t i, seen = 0;
  int64_t count;
  check(queue != NULL, "queue_new");
  check(nfsrdma_open(dir, "file", NFSRDMA_READ, 0, &file, NULL, &error) == 0, "open");
  for (i = 0; i < 4; ++i) {
    START(call);
    call.value.queue = queue;
    call.value.tag = i;
    call.value.timeout = 30000;
    call.value.flags = NFSRDMA_MORE;
    check(nfsrdma_pread(file, data[i], sizeof data[i], i * 1000, &call.value, &error) == 0, "started pread");
    UNTOUCHED(call);
  }
  nfsrdma_submit(client);
  while (nfsrdma_queue_pending(queue) != 0) {
    struct pollfd poll_for = {nfsrdma_queue_descriptor(queue), POLLIN, 0};
    check(poll(&poll_for, 1, 30000) == 1, "poll");
    count = nfsrdma_reap(queue, completions, 4, 0, 0);
    while (count-- > 0) {
      check(completions[count].result == 1000 && completions[count].error == NULL, "completion");
      seen |= UINT64_C(1) << completions[count].tag;
    }
  }
  check(seen == 15, "tags");
  nfsrdma_queue_free(queue);
  nfsrdma_file_free(file);
  START(attributes);
  START(call);
  call.value.done = done;
  call.value.data = &callbacks;
  call.value.tag = 9;
  check(nfsrdma_stat(dir, "file", 0, &attributes.value, &call.value, &error) == 0, "started stat");
  while (callbacks == 0) nfsrdma_wait(client, 1000, NULL, 0);
  check(attributes.value.size == 100000, "what the started stat found");
  UNTOUCHED(attributes);
}

static void many(nfsrdma_dir* dir) {
  char data[2][10];
  nfsrdma_read_item items[2] = {{"file", data[0], 10, NULL, 0, 0, 0, NULL},
                                {"missing", data[1], 10, NULL, 0, 0, 0, NULL}};
  check(nfsrdma_read_many(dir, items, 2, sizeof items[0], NULL, &error) == 1, "read_many");
  check(items[0].count == 10 && items[0].eof == 0, "read_many: what was read");
  check(items[1].count == -1 && items[1].error != NULL, "read_many: what is missing");
  nfsrdma_error_free(items[1].error);
}

int main(int argc, char** argv) {
  nfsrdma_options* options = nfsrdma_options_new();
  nfsrdma_client* client;
  nfsrdma_dir* dir = NULL;
  nfsrdma_info* info;
  GUARDED(option) option;
  if (argc != 2) return 2;
  check(nfsrdma_options_set(options, "timeo", "30s", &error) == 0, "options_set");
  check(nfsrdma_options_set(options, "no such option", "1", &error) == -1, "a wrong option");
  nfsrdma_error_free(error);
  error = NULL;
  START(option);
  check(nfsrdma_option_help(0, &option.value) == 0 && option.value.name != NULL, "option_help");
  UNTOUCHED(option);
  client = nfsrdma_connect(argv[1], options, &error);
  check(client != NULL, "connect");
  nfsrdma_options_free(options);
  check(nfsrdma_open_dir(nfsrdma_root(client), nfsrdma_path(client), &dir, NULL, &error) == 0, "open_dir");
  by_names(dir);
  by_file(dir);
  started(client, dir);
  many(dir);
  info = nfsrdma_info_get(client);
  check(nfsrdma_info_number(info, "calls") > 0, "info");
  nfsrdma_info_free(info);
  nfsrdma_dir_free(dir);
  check(nfsrdma_disconnect(client, &error) == 0, "disconnect");
  nfsrdma_client_free(client);
  printf("ok with libnfsrdma %s\n", nfsrdma_version());
  return 0;
}
