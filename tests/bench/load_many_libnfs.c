/* The peer of load_many: each file is opened, read and closed by libnfs's asynchronous API over TCP, many of them in
 * flight. What libnfs gives is a pointer into its own memory; it is not copied, but written to a file where --to names a
 * directory for that, as the program must that gets files.
 *
 *     load_many_libnfs --port N --vers 3|4 --directory /many --count 1000 --size 4096 --seconds 2 --depth 64 [--to DIR] SERVER
 */
/* clang-format off */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <nfsc/libnfs.h>
/* clang-format on */

struct lane {
  struct nfsfh* file;
  unsigned number;
};

static struct nfs_context* nfs;
static const char* directory = "/many";
static const char* to;
static unsigned count = 1000, next_file, under_way;
static size_t size = 4096;
static double most_seconds = 2, begun;
static unsigned long long files;
static int is_over;

static void die(const char* what, const char* why) {
  fprintf(stderr, "load_many_libnfs: %s: %s\n", what, why);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void start(struct lane* lane);

static void closed(int status, struct nfs_context* context, void* data, void* private_data) {
  (void)context;
  if (status < 0) die("close", data != NULL ? (const char*)data : strerror(-status));
  ++files;
  --under_way;
  start(private_data);
}

static void keep(const struct lane* lane, const void* data, size_t length) {
  char path[512];
  snprintf(path, sizeof path, "%s/file-%u", to, lane->number);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || write(fd, data, length) != (ssize_t)length || close(fd) != 0) die(path, strerror(errno));
}

static void was_read(int status, struct nfs_context* context, void* data, void* private_data) {
  struct lane* lane = private_data;
  if (status < 0) die("read", data != NULL ? (const char*)data : strerror(-status));
  if ((size_t)status != size) die("read", "a file is short");
  if (to != NULL) keep(lane, data, size);
  if (nfs_close_async(context, lane->file, closed, lane) != 0) die("close", nfs_get_error(context));
}

static void opened(int status, struct nfs_context* context, void* data, void* private_data) {
  struct lane* lane = private_data;
  if (status < 0) die("open", data != NULL ? (const char*)data : strerror(-status));
  lane->file = data;
  if (nfs_pread_async(context, lane->file, 0, size, was_read, lane) != 0) die("read", nfs_get_error(context));
}

/* Passes over all files, until the time is over at the end of one. */
static void start(struct lane* lane) {
  if (next_file == count) {
    next_file = 0;
    is_over = is_over || now() - begun >= most_seconds;
  }
  if (is_over) return;
  lane->number = next_file++;
  char path[512];
  snprintf(path, sizeof path, "%s/file-%u", directory, lane->number);
  ++under_way;
  if (nfs_open_async(nfs, path, O_RDONLY, opened, lane) != 0) die("open", nfs_get_error(nfs));
}

static void serve(void) {
  while (under_way != 0) {
    if ((nfs_which_events(nfs) & POLLOUT) != 0 && nfs_service(nfs, POLLOUT) < 0)
      die("nfs_service", nfs_get_error(nfs));
    struct pollfd fd = {.fd = nfs_get_fd(nfs), .events = (short)nfs_which_events(nfs)};
    if (poll(&fd, 1, 1000) < 0 && errno != EINTR) die("poll", strerror(errno));
    if (fd.revents != 0 && nfs_service(nfs, fd.revents) < 0) die("nfs_service", nfs_get_error(nfs));
  }
}

int main(int argc, char** argv) {
  const char *server = NULL, *port = "2049", *version = "3";
  unsigned depth = 64;
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    if (word[0] != '-') {
      server = word;
      continue;
    }
    if (i + 1 == argc) die(word, "takes a value");
    const char* value = argv[++i];
    if (strcmp(word, "--port") == 0)
      port = value;
    else if (strcmp(word, "--vers") == 0)
      version = value;
    else if (strcmp(word, "--directory") == 0)
      directory = value;
    else if (strcmp(word, "--count") == 0)
      count = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(word, "--size") == 0)
      size = strtoul(value, NULL, 10);
    else if (strcmp(word, "--seconds") == 0)
      most_seconds = strtod(value, NULL);
    else if (strcmp(word, "--depth") == 0)
      depth = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(word, "--to") == 0)
      to = value;
    else
      die(word, "is no option");
  }
  if (server == NULL) die("arguments", "a server is missing");
  nfs = nfs_init_context();
  if (nfs == NULL) die("nfs_init_context", "no memory");
  if (nfs_set_version(nfs, version[0] - '0') != 0) die("nfs_set_version", nfs_get_error(nfs));
  char url[300];
  snprintf(url, sizeof url, "nfs://%s/?version=%s&nfsport=%s&mountport=%s", server, version, port, port);
  struct nfs_url* parsed = nfs_parse_url_incomplete(nfs, url);
  if (parsed == NULL) die("--port", nfs_get_error(nfs));
  nfs_destroy_url(parsed);
  nfs_set_readahead(nfs, 0);
  nfs_set_pagecache(nfs, 0);
  if (nfs_mount(nfs, server, "/") != 0) die("mount", nfs_get_error(nfs));

  struct lane* lanes = calloc(depth, sizeof *lanes);
  if (lanes == NULL) die("no memory", "lower --depth");
  const double cpu = cpu_seconds();
  begun = now();
  for (unsigned i = 0; i < depth; ++i) start(&lanes[i]);
  serve();
  const double seconds = now() - begun, used = cpu_seconds() - cpu;
  printf(
      "{\"tool\":\"load_many_libnfs\",\"files\":%llu,\"seconds\":%.3f,\"files_per_second\":%.0f,\"cpu_us_per_"
      "file\":%.2f}"
      "\n",
      files, seconds, (double)files / seconds, used * 1e6 / (double)files);
  nfs_destroy_context(nfs);
  return 0;
}
