/* One load on a directory of a mounted file system, timed, and one line of JSON about it:
 *
 *   load_mount TOOL LOAD DIRECTORY SIZE [DAEMON]
 *
 * TOOL    goes into the report
 * LOAD    write   SIZE MiB into the file `data` in pieces of 1 MiB, fsync and close included
 *         read    that file, the same way
 *         random  SIZE reads of 4 KiB at random in it, O_DIRECT, 16 in flight (io_submit), or as many as
 *                 LOAD_IN_FLIGHT in the environment says, at most 256; of as many bytes as LOAD_BLOCK says there, a
 *                 multiple of 4096 up to 1 MiB
 *         create  SIZE empty files in the directory `many`, which it makes
 *         save    the same, with 4 KiB in each; what is still under way behind close(2) is not waited for
 *         stat    each of them
 *         unlink  each of them, and the directory
 *         tar     SIZE files in the directory `tree`, read by tar(1) into a pipe
 *         small   SIZE files in `tree`, which is listed: each opened, read to its end and closed, in the listing's order
 *         random-small  the same with the names file-0 and so on in random order, without a listing
 * DAEMON  process id of the file system's own program: its CPU time counts, too
 *
 * In C: inside User-Mode Linux an interpreter would be half of what is measured.
 * Exit status: 0, 1, 2 (usage). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { piece = 1 << 20, small = 4096, most_in_flight = 256 };

static int in_flight = 16;
static int block_size = small;

static const char* directory;
static uint64_t size;

static void fail(const char* what) {
  fprintf(stderr, "load_mount: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double seconds_of(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) fail("clock_gettime");
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static const char* path_of(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static int open_data(int flags) {
  const int file = open(path_of("data"), flags, 0644);
  if (file < 0) fail(path_of("data"));
  return file;
}

static void* page_aligned(size_t length) {
  void* memory = NULL;
  if (posix_memalign(&memory, small, length) != 0) abort();
  memset(memory, 0x5a, length);
  return memory;
}

static uint64_t sequential_write(void) {
  char* buffer = page_aligned(piece);
  const int file = open_data(O_WRONLY | O_CREAT | O_TRUNC);
  for (uint64_t i = 0; i < size; ++i) {
    memcpy(buffer, &i, sizeof i);
    if (write(file, buffer, piece) != piece) fail("write");
  }
  if (fsync(file) != 0 || close(file) != 0) fail("fsync, close");
  free(buffer);
  return size * piece;
}

static uint64_t sequential_read(void) {
  char* buffer = page_aligned(piece);
  const int file = open_data(O_RDONLY);
  for (uint64_t i = 0; i < size; ++i) {
    uint64_t number = 0;
    if (read(file, buffer, piece) != piece) fail("read");
    memcpy(&number, buffer, sizeof number);
    if (number != i || buffer[piece - 1] != 0x5a) {
      errno = EILSEQ;
      fail("these are not the bytes that were written");
    }
  }
  close(file);
  free(buffer);
  return size * piece;
}

static uint64_t next_random(void) {
  static uint64_t state = 88172645463325252U;
  state ^= state << 13; /* xorshift64 */
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}
static void submit(aio_context_t context, struct iocb* block, uint64_t blocks) {
  block->aio_offset = (int64_t)(next_random() % blocks * (uint64_t)block_size);
  if (syscall(SYS_io_submit, context, 1, &block) != 1) fail("io_submit");
}

static uint64_t random_read(void) {
  struct stat status;
  struct iocb blocks[most_in_flight];
  struct io_event events[most_in_flight];
  aio_context_t context = 0;
  char* buffers = page_aligned((size_t)in_flight * (size_t)block_size);
  uint64_t started = 0, ended = 0;
  const int file = open_data(O_RDONLY | O_DIRECT);
  if (fstat(file, &status) != 0 || status.st_size < block_size) fail("fstat");
  if (syscall(SYS_io_setup, in_flight, &context) != 0) fail("io_setup");
  memset(blocks, 0, sizeof blocks);
  for (int i = 0; i < in_flight && started < size; ++i, ++started) {
    blocks[i].aio_lio_opcode = IOCB_CMD_PREAD;
    blocks[i].aio_fildes = (uint32_t)file;
    blocks[i].aio_buf = (uint64_t)(uintptr_t)(buffers + (size_t)i * (size_t)block_size);
    blocks[i].aio_nbytes = (uint64_t)block_size;
    submit(context, &blocks[i], (uint64_t)(status.st_size / block_size));
  }
  while (ended < started) {
    const long count = syscall(SYS_io_getevents, context, 1, in_flight, events, NULL);
    if (count < 0 && errno != EINTR) fail("io_getevents");
    for (long i = 0; i < count; ++i, ++ended) {
      if (events[i].res != block_size) fail("a read of a block");
      if (started < size) {
        submit(context, (struct iocb*)(uintptr_t)events[i].obj, (uint64_t)(status.st_size / block_size));
        ++started;
      }
    }
  }
  syscall(SYS_io_destroy, context);
  close(file);
  free(buffers);
  return size * (uint64_t)block_size;
}

static int make_one(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  return file < 0 ? -1 : close(file);
}
static int stat_one(const char* path) {
  struct stat status;
  return stat(path, &status);
}
static int save_one(const char* path) {
  static const char data[4096];
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (file < 0) return -1;
  const int wrong = write(file, data, sizeof data) != (ssize_t)sizeof data;
  return close(file) != 0 || wrong ? -1 : 0;
}
static void for_all(int (*one)(const char*)) {
  char name[32];
  for (uint64_t i = 0; i < size; ++i) {
    snprintf(name, sizeof name, "many/%06u", (unsigned)i);
    if (one(path_of(name)) != 0) fail(path_of(name));
  }
}
static void make_all(int (*one)(const char*)) {
  if (mkdir(path_of("many"), 0755) != 0) fail("mkdir");
  for_all(one);
}
static uint64_t create_all(void) {
  make_all(make_one);
  return 0;
}
static uint64_t save_all(void) {
  make_all(save_one);
  return 0;
}
static uint64_t stat_all(void) {
  for_all(stat_one);
  return 0;
}
static uint64_t unlink_all(void) {
  for_all(unlink);
  if (rmdir(path_of("many")) != 0) fail("rmdir");
  return 0;
}

/* tar(1) reads nothing where it sees that it writes to /dev/null. */
static uint64_t tar_all(void) {
  char command[4200];
  snprintf(command, sizeof command, "tar -C '%s' -cf - tree | cat > /dev/null", directory);
  if (system(command) != 0) fail(command);
  return 0;
}

/* Opens, reads and closes a file of `tree`, as cat(1) does. */
static void read_small(const char* name) {
  static char buffer[1 << 17];
  char path[300];
  snprintf(path, sizeof path, "tree/%s", name);
  const int file = open(path_of(path), O_RDONLY);
  if (file < 0) fail(path_of(path));
  ssize_t count = 0, all = 0;
  while ((count = read(file, buffer, sizeof buffer)) > 0) all += count;
  if (count < 0 || all == 0) fail("read");
  if (close(file) != 0) fail("close");
}
static uint64_t listed_small(void) {
  DIR* listing = opendir(path_of("tree"));
  const struct dirent* entry = NULL;
  char(*names)[256] = malloc(size * sizeof *names);
  uint64_t count = 0;
  if (listing == NULL || names == NULL) fail(path_of("tree"));
  while (count < size && (entry = readdir(listing)) != NULL) {
    if (entry->d_name[0] != '.') snprintf(names[count++], sizeof *names, "%s", entry->d_name);
  }
  closedir(listing);
  if (count < size) fail("too few files in `tree`");
  for (uint64_t i = 0; i < size; ++i) read_small(names[i]);
  free(names);
  return 0;
}
static uint64_t random_small(void) {
  uint64_t* order = malloc(size * sizeof *order);
  char name[40];
  if (order == NULL) fail("malloc");
  for (uint64_t i = 0; i < size; ++i) order[i] = i;
  for (uint64_t i = size - 1; i > 0; --i) {
    const uint64_t other = next_random() % (i + 1), last = order[i];
    order[i] = order[other];
    order[other] = last;
  }
  for (uint64_t i = 0; i < size; ++i) {
    snprintf(name, sizeof name, "file-%llu", (unsigned long long)order[i]);
    read_small(name);
  }
  free(order);
  return 0;
}

static const struct {
  const char* name;
  uint64_t (*run)(void);
} loads[] = {{"write", sequential_write},   {"read", sequential_read}, {"random", random_read},
             {"create", create_all},        {"save", save_all},        {"stat", stat_all},
             {"unlink", unlink_all},        {"tar", tar_all},          {"small", listed_small},
             {"random-small", random_small}};

int main(int argc, char** argv) {
  uint64_t (*run)(void) = NULL;
  clockid_t daemon_clock = CLOCK_REALTIME;
  const int has_daemon = argc > 5;
  if (argc >= 5 && argc <= 6) {
    for (size_t i = 0; i < sizeof loads / sizeof *loads; ++i) {
      if (strcmp(argv[2], loads[i].name) == 0) run = loads[i].run;
    }
    size = strtoull(argv[4], NULL, 10);
  }
  if (run == NULL || size == 0) {
    fputs(
        "usage: load_mount TOOL write|read|random|create|save|stat|unlink|tar|small|random-small DIRECTORY "
        "SIZE "
        "[DAEMON]\n",
        stderr);
    return 2;
  }
  directory = argv[3];
  const char* wanted = getenv("LOAD_IN_FLIGHT");
  if (wanted != NULL) in_flight = atoi(wanted);
  const char* block = getenv("LOAD_BLOCK");
  if (block != NULL) block_size = atoi(block);
  if (block_size < small || block_size > piece || block_size % small != 0) {
    fputs("load_mount: LOAD_BLOCK is a multiple of 4096 up to 1 MiB\n", stderr);
    return 2;
  }
  if (in_flight < 1 || in_flight > most_in_flight) {
    fputs("load_mount: LOAD_IN_FLIGHT is 1 to 256\n", stderr);
    return 2;
  }
  if (has_daemon && (errno = clock_getcpuclockid((pid_t)strtol(argv[5], NULL, 10), &daemon_clock)) != 0) {
    fail("the daemon's CPU clock");
  }
  const double daemon_begun = has_daemon ? seconds_of(daemon_clock) : 0;
  const double cpu_begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double begun = seconds_of(CLOCK_MONOTONIC);
  const uint64_t bytes = run();
  const double seconds = seconds_of(CLOCK_MONOTONIC) - begun;
  const double own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
  const double daemon = has_daemon ? seconds_of(daemon_clock) - daemon_begun : 0;
  printf(
      "{\"tool\": \"%s\", \"load\": \"%s\", \"ops\": %llu, \"bytes\": %llu, \"seconds\": %.6f, "
      "\"ops_per_second\": %.1f, \"mb_per_second\": %.2f, \"cpu_seconds\": %.6f, \"daemon_seconds\": %.6f}\n",
      argv[1], argv[2], (unsigned long long)size, (unsigned long long)bytes, seconds, (double)size / seconds,
      (double)bytes / 1e6 / seconds, own + daemon, daemon);
  return 0;
}
