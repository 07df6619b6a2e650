/* The peer of load_nfsrdma: the same load on libnfs's asynchronous API, over TCP.
 *
 * As its own examples do it: poll() for what nfs_which_events() asks, then nfs_service(). What queued READs
 * leave behind is written at once, which saves a poll() for each batch. Cache and readahead are
 * off: with them, READs would not reach the server. libnfs passes a pointer into its own memory; it is not
 * copied unless --copy says so, which is the best that a user of libnfs can have. load_common.h has the
 * options and the report. */
/* libnfs.h needs <sys/time.h> before it and does not include it. */
/* clang-format off */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <nfsc/libnfs.h>
/* clang-format on */

#include "load_common.h"

static const char tool[] = "load_libnfs";

struct lane {
  struct load_run* run;
  struct nfsfh* file;
  uint64_t offset, started;
  size_t length;
  unsigned char* buffer; /* null without --copy and --write */
};

static void lane_start(struct lane* lane, struct nfs_context* nfs, uint64_t now);

static void lane_ended(int status, struct nfs_context* nfs, void* data, void* private_data) {
  struct lane* lane = private_data;
  if (status < 0) load_die(tool, "READ", data != NULL ? (const char*)data : strerror(-status));
  const uint64_t now = load_now();
  if (lane->buffer != NULL && !lane->run->options->write) {
    memcpy(lane->buffer, data, (size_t)status);
    data = lane->buffer;
  }
  load_finished(lane->run, lane->started, now, lane->offset, lane->length, (size_t)status, data);
  lane_start(lane, nfs, now);
}

static void lane_start(struct lane* lane, struct nfs_context* nfs, uint64_t now) {
  if (load_next(lane->run, now, &lane->offset, &lane->length) == 0) return;
  lane->started = now;
  const int failed =
      lane->run->options->write
          ? nfs_pwrite_async(nfs, lane->file, lane->offset, lane->length, lane->buffer, lane_ended, lane)
          : nfs_pread_async(nfs, lane->file, lane->offset, lane->length, lane_ended, lane);
  if (failed) load_die(tool, "nfs_pread_async, nfs_pwrite_async", nfs_get_error(nfs));
}

static void serve(struct nfs_context* nfs, struct load_run* run) {
  while (!load_is_over(run)) {
    if ((nfs_which_events(nfs) & POLLOUT) != 0 && nfs_service(nfs, POLLOUT) < 0) {
      load_die(tool, "nfs_service", nfs_get_error(nfs));
    }
    struct pollfd fd = {.fd = nfs_get_fd(nfs), .events = (short)nfs_which_events(nfs)};
    if (poll(&fd, 1, 1000) < 0 && errno != EINTR) load_die(tool, "poll", strerror(errno));
    if (fd.revents != 0 && nfs_service(nfs, fd.revents) < 0)
      load_die(tool, "nfs_service", nfs_get_error(nfs));
  }
}

static struct nfs_context* mount_root(const struct load_options* options, const char** protocol) {
  struct nfs_context* nfs = nfs_init_context();
  if (nfs == NULL) load_die(tool, "nfs_init_context", "no memory");
  const char* version = options->version != NULL ? options->version : "4";
  if (strcmp(version, "4") != 0 && strcmp(version, "3") != 0) load_die(tool, "--vers", "takes 3 or 4");
  if (options->extra != NULL) load_die(tool, "--options", "not for libnfs");
  *protocol = version[0] == '4' ? "NFSv4.0/TCP" : "NFSv3/TCP";
  if (nfs_set_version(nfs, version[0] - '0') != 0) load_die(tool, "nfs_set_version", nfs_get_error(nfs));
  if (options->port != 0) {
    char url[300];
    snprintf(url, sizeof url, "nfs://%s/?version=%s&nfsport=%d&mountport=%d", options->server, version,
             options->port, options->port);
    struct nfs_url* parsed = nfs_parse_url_incomplete(nfs, url);
    if (parsed == NULL) load_die(tool, "--port", nfs_get_error(nfs));
    nfs_destroy_url(parsed);
  }
  nfs_set_readahead(nfs, 0);
  nfs_set_pagecache(nfs, 0);
  /* NFSv3 knows the export by the server's name for it, NFSv4 by the path in its own tree: one that has both
   * names is mounted by its directory below. */
  const char* export_path = getenv("LOAD_LIBNFS_EXPORT");
  if (export_path == NULL) export_path = version[0] == '4' || options->port != 0 ? "/" : "/mnt/exp";
  if (nfs_mount(nfs, options->server, export_path) != 0) load_die(tool, "mount", nfs_get_error(nfs));
  return nfs;
}

int main(int argc, char** argv) {
  const struct load_options options = load_parse(argc, argv, tool, "3 or 4 (4)");
  if (options.threads) load_die(tool, "--threads", "only load_nfsrdma has it");
  const char* protocol;
  struct nfs_context* nfs = mount_root(&options, &protocol);
  struct nfsfh* file;
  if (nfs_open(nfs, options.path, options.write ? O_RDWR : O_RDONLY, &file) != 0)
    load_die(tool, "open", nfs_get_error(nfs));
  struct nfs_stat_64 facts;
  if (nfs_fstat64(nfs, file, &facts) != 0) load_die(tool, "stat", nfs_get_error(nfs));

  struct load_run* run = calloc(1, sizeof *run);
  struct lane* lanes = calloc(options.depth, sizeof *lanes);
  if (run == NULL || lanes == NULL) load_die(tool, "no memory", "lower --depth");
  for (unsigned i = 0; i < options.depth; ++i) {
    lanes[i] = (struct lane){.run = run, .file = file};
    if ((options.copy || options.write) && (lanes[i].buffer = malloc(options.size)) == NULL)
      load_die(tool, "no memory", "lower --size");
    if (options.write) memset(lanes[i].buffer, 'x', options.size);
  }
  load_begin(run, &options, facts.nfs_size);
  for (unsigned i = 0; i < options.depth; ++i) lane_start(&lanes[i], nfs, load_now());
  serve(nfs, run);
  load_report(run, tool, protocol);
  nfs_close(nfs, file);
  nfs_destroy_context(nfs);
  return 0;
}
