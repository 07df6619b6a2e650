#define _GNU_SOURCE
#include "load_common.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { buckets_per_octave = 32, octave_bits = 5 };

void load_die(const char* tool, const char* what, const char* why) {
  fprintf(stderr, "%s: %s: %s\n", tool, what, why);
  exit(1);
}

/* ---- options ---- */

static void usage(const char* tool, const char* versions, int status) {
  fprintf(status == 0 ? stdout : stderr,
          "usage: %s [options] SERVER PATH\n"
          "Keeps READs of a file in flight and prints one line of JSON.\n"
          "  --write           WRITEs over it, instead\n"
          "  --size BYTES      of one READ, with K or M behind it if you like (4K)\n"
          "  --depth N         READs in flight (1)\n"
          "  --count N         READs in all; or\n"
          "  --seconds S       for so long (10)\n"
          "  --random          offsets at random; without it one after the other, from the start again at "
          "the end\n"
          "  --seed N          of the random offsets (1)\n"
          "  --verify FILE     compare with this copy of the file\n"
          "  --vers V          %s\n"
          "  --port N          of the server\n"
          "  --copy            copy the data to a buffer of the program's where the library does not place "
          "it there\n"
          "  --threads         DEPTH threads with blocking calls, instead of one with callbacks\n"
          "  --queue           the C interface with a completion queue, instead of callbacks\n"
          "  --options LIST    more options, in the library's own notation\n",
          tool, versions);
  exit(status);
}

static uint64_t number(const char* tool, const char* name, const char* text) {
  char* end;
  errno = 0;
  uint64_t value = strtoull(text, &end, 10);
  if (*end == 'K' || *end == 'k')
    value <<= 10, ++end;
  else if (*end == 'M' || *end == 'm')
    value <<= 20, ++end;
  if (errno != 0 || end == text || *end != '\0' || *text == '-') {
    fprintf(stderr, "%s: --%s takes a number, not '%s'\n", tool, name, text);
    exit(2);
  }
  return value;
}

struct load_options load_parse(int argc, char** argv, const char* tool, const char* versions) {
  static const struct option known[] = {
      {"size", required_argument, NULL, 's'},
      {"depth", required_argument, NULL, 'd'},
      {"count", required_argument, NULL, 'n'},
      {"seconds", required_argument, NULL, 't'},
      {"write", no_argument, NULL, 'w'},
      {"random", no_argument, NULL, 'r'},
      {"sequential", no_argument, NULL, 'q'},
      {"seed", required_argument, NULL, 'e'},
      {"verify", required_argument, NULL, 'v'},
      {"vers", required_argument, NULL, 'V'},
      {"port", required_argument, NULL, 'p'},
      {"options", required_argument, NULL, 'o'},
      {"copy", no_argument, NULL, 'c'},
      {"threads", no_argument, NULL, 'T'},
      {"queue", no_argument, NULL, 'Q'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  struct load_options o = {.size = 4096, .depth = 1, .seconds = 10, .seed = 1};
  int which, index = 0;
  while ((which = getopt_long(argc, argv, "", known, &index)) != -1) {
    const char* name = which == '?' ? "" : known[index].name;
    switch (which) {
      case 's':
        o.size = number(tool, name, optarg);
        break;
      case 'd':
        o.depth = (unsigned)number(tool, name, optarg);
        break;
      case 'n':
        o.count = number(tool, name, optarg);
        break;
      case 't':
        o.seconds = atof(optarg);
        break;
      case 'w':
        o.write = 1;
        break;
      case 'r':
        o.random = 1;
        break;
      case 'q':
        o.random = 0;
        break;
      case 'e':
        o.seed = number(tool, name, optarg);
        break;
      case 'v':
        o.local_copy = optarg;
        break;
      case 'V':
        o.version = optarg;
        break;
      case 'p':
        o.port = (int)number(tool, name, optarg);
        break;
      case 'o':
        o.extra = optarg;
        break;
      case 'c':
        o.copy = 1;
        break;
      case 'T':
        o.threads = 1;
        break;
      case 'Q':
        o.queue = 1;
        break;
      case 'h':
        usage(tool, versions, 0);
        break;
      default:
        usage(tool, versions, 2);
    }
  }
  if (argc - optind != 2 || o.size == 0 || o.depth == 0 || o.depth > 1024 ||
      (o.count == 0 && o.seconds <= 0)) {
    usage(tool, versions, 2);
  }
  if (o.write && (o.local_copy != NULL || o.threads || o.queue))
    load_die(tool, "--write", "goes without --verify, --threads and --queue");
  o.server = argv[optind];
  o.path = argv[optind + 1];
  return o;
}

/* ---- measuring ---- */

uint64_t load_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static double cpu_seconds(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

double load_thread_seconds(void) {
  struct timespec taken;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &taken);
  return (double)taken.tv_sec + (double)taken.tv_nsec / 1e9;
}

static unsigned bucket_of(uint64_t value) {
  if (value < buckets_per_octave) return (unsigned)value;
  const unsigned octave = 63U - (unsigned)__builtin_clzll(value);
  const unsigned shift = octave - octave_bits;
  return (shift + 1) * buckets_per_octave + (unsigned)((value >> shift) & (buckets_per_octave - 1));
}

/* The middle of a bucket. */
static double value_of(unsigned bucket) {
  if (bucket < buckets_per_octave) return bucket;
  const unsigned shift = bucket / buckets_per_octave - 1;
  return ((double)(buckets_per_octave + bucket % buckets_per_octave) + 0.5) * (double)(UINT64_C(1) << shift);
}

static double percentile(const struct load_latencies* latencies, uint64_t total, double part) {
  const double wanted = part * (double)total;
  uint64_t seen = 0;
  for (unsigned i = 0; i < load_most_latency_buckets; ++i) {
    seen += latencies->buckets[i];
    if (seen > 0 && (double)seen >= wanted) return value_of(i);
  }
  return 0;
}

/* ---- one run ---- */

static const unsigned char* map_copy(const char* path, uint64_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (fd < 0 || fstat(fd, &facts) != 0) load_die("load", path, strerror(errno));
  if ((uint64_t)facts.st_size != size) load_die("load", path, "not as long as the file on the server");
  void* at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) load_die("load", path, strerror(errno));
  close(fd);
  return at;
}

static uint64_t random_state_of(uint64_t seed) {
  return seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

void load_begin(struct load_run* run, const struct load_options* options, uint64_t file_size) {
  memset(run, 0, sizeof *run);
  run->options = options;
  run->file_size = file_size;
  run->blocks = (file_size + options->size - 1) / options->size;
  /* The file's end is for sequential reading only: at random, every READ is of the same size. */
  if (options->random) run->blocks = file_size / options->size;
  if (run->blocks == 0) load_die("load", options->path, "the file is shorter than one READ");
  if (options->local_copy != NULL) run->expected = map_copy(options->local_copy, file_size);
  run->random_state = random_state_of(options->seed);
  run->count = options->count;
  run->cpu_begun = cpu_seconds();
  run->begun_at = load_now();
  run->until = options->count != 0 ? UINT64_MAX : run->begun_at + (uint64_t)(options->seconds * 1e9);
}

static uint64_t next_block(struct load_run* run) {
  if (!run->options->random) {
    const uint64_t block = run->next_block;
    run->next_block = block + 1 == run->blocks ? 0 : block + 1;
    return block;
  }
  uint64_t x = run->random_state; /* xorshift64* */
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  run->random_state = x;
  x *= UINT64_C(0x2545f4914f6cdd1d);
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)(((wide)x * run->blocks) >> 64);
}

int load_next(struct load_run* run, uint64_t now, uint64_t* offset, size_t* length) {
  if (run->count != 0 ? run->started >= run->count : now >= run->until) return 0;
  ++run->started;
  *offset = next_block(run) * run->options->size;
  const uint64_t left = run->file_size - *offset;
  *length = left < run->options->size ? (size_t)left : run->options->size;
  return 1;
}

void load_finished(struct load_run* run, uint64_t started_at, uint64_t now, uint64_t offset, size_t expected,
                   size_t got, const void* data) {
  if (got != expected) {
    fprintf(stderr, "load: %s at offset %" PRIu64 " gave %zu of %zu bytes\n",
            run->options->write ? "WRITE" : "READ", offset, got, expected);
    exit(1);
  }
  if (run->expected != NULL && memcmp(run->expected + offset, data, got) != 0) {
    fprintf(stderr, "load: READ of %zu bytes at offset %" PRIu64 " gave wrong bytes\n", got, offset);
    exit(1);
  }
  const uint64_t latency = now - started_at;
  ++run->latencies.buckets[bucket_of(latency)];
  run->latencies.sum += latency;
  if (latency > run->latencies.largest) run->latencies.largest = latency;
  ++run->ended;
  run->bytes += got;
  run->ended_at = now;
}

int load_is_over(const struct load_run* run) {
  if (run->ended != run->started) return 0;
  return run->count != 0 ? run->started >= run->count : load_now() >= run->until;
}

void load_part(const struct load_run* whole, unsigned number, unsigned parts, struct load_run* part) {
  *part = *whole;
  part->random_state = random_state_of(whole->options->seed + number);
  part->next_block = whole->blocks * number / parts;
  if (whole->count == 0) return;
  part->count = whole->count / parts + (number < whole->count % parts);
  /* A count of none would mean that time is the limit. */
  if (part->count == 0) part->until = 0;
}

void load_add(struct load_run* whole, const struct load_run* part) {
  for (unsigned i = 0; i < load_most_latency_buckets; ++i)
    whole->latencies.buckets[i] += part->latencies.buckets[i];
  whole->latencies.sum += part->latencies.sum;
  if (part->latencies.largest > whole->latencies.largest) whole->latencies.largest = part->latencies.largest;
  whole->started += part->started;
  whole->ended += part->ended;
  whole->bytes += part->bytes;
  if (part->ended_at > whole->ended_at) whole->ended_at = part->ended_at;
  if (part->busiest > whole->busiest) whole->busiest = part->busiest;
}

void load_report(struct load_run* run, const char* tool, const char* protocol) {
  run->cpu_ended = cpu_seconds();
  const double seconds = (double)(run->ended_at - run->begun_at) / 1e9;
  const double cpu = run->cpu_ended - run->cpu_begun;
  const double ops = (double)run->ended;
  const struct load_latencies* l = &run->latencies;
  printf(
      "{\"tool\":\"%s\",\"protocol\":\"%s\",\"pattern\":\"%s%s\",\"size\":%zu,\"depth\":%u,\"verified\":%s,"
      "\"ops\":%" PRIu64 ",\"bytes\":%" PRIu64
      ",\"seconds\":%.6f,\"ops_per_second\":%.1f,\"mb_per_second\":%.2f,"
      "\"cpu_seconds\":%.6f,\"cpu_us_per_op\":%.3f,\"busiest_us_per_op\":%.3f,\"latency_us\":{\"mean\":%.2f,"
      "\"p50\":%.2f,\"p90\":%.2f,"
      "\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f}}\n",
      tool, protocol, run->options->random ? "random" : "sequential", run->options->write ? " write" : "",
      run->options->size, run->options->depth, run->expected != NULL ? "true" : "false", run->ended,
      run->bytes, seconds, ops / seconds, (double)run->bytes / 1e6 / seconds, cpu, cpu * 1e6 / ops,
      run->busiest * 1e6 / ops, (double)l->sum / ops / 1e3, percentile(l, run->ended, 0.5) / 1e3,
      percentile(l, run->ended, 0.9) / 1e3, percentile(l, run->ended, 0.99) / 1e3,
      percentile(l, run->ended, 0.999) / 1e3, (double)l->largest / 1e3);
}
