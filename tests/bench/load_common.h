/* What both load generators share: options, the choice of offsets, measuring, and the line of JSON that they
 * print. In C, because one of them is C; and shared, so that a difference between their numbers is not one of
 * these.
 *
 * A run belongs to one thread; several threads have a part each (load_part()). A wrong option ends the program with status 2, anything else that fails with status 1. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { load_most_latency_buckets = 64 * 32 };

struct load_options {
  const char* server;
  const char* path;       /* absolute */
  const char* version;    /* --vers; null: the tool's own default */
  const char* extra;      /* --options: for the library, in its own notation */
  const char* local_copy; /* --verify: what is read must equal this file's bytes */
  size_t size;
  unsigned depth;
  uint64_t count; /* 0: until `seconds` have passed */
  double seconds;
  int random;
  int write; /* WRITEs of the file's own size, over what is there */
  int copy;
  int threads; /* one READ in flight each, by blocking calls */
  int queue;   /* the C interface with a completion queue, in place of callbacks */
  uint64_t seed;
  int port; /* 0: the tool's default */
};

/* Latencies in nanoseconds, in buckets of at most 3 % width. */
struct load_latencies {
  uint64_t buckets[load_most_latency_buckets];
  uint64_t sum, largest;
};

/* One run. The tool calls load_next() for each READ that it starts and load_finished() for each that ended.
 */
struct load_run {
  const struct load_options* options;
  uint64_t file_size;
  const unsigned char* expected; /* the local copy, mapped; null without --verify */
  uint64_t count;                /* 0: until `until` */
  uint64_t blocks, next_block, random_state;
  uint64_t started, ended, bytes;
  uint64_t begun_at, ended_at, until; /* nanoseconds */
  double cpu_begun, cpu_ended;        /* seconds, user and system, of the whole process */
  double busiest;                     /* the same of the thread that took most; 0: not known */
  struct load_latencies latencies;
};

struct load_options load_parse(int argc, char** argv, const char* tool, const char* versions);

/* CPU seconds of the calling thread. */
double load_thread_seconds(void);
uint64_t load_now(void);

/* Connecting and opening are over: from here on it is measured. */
void load_begin(struct load_run* run, const struct load_options* options, uint64_t file_size);
/* The offset of the next READ and its length; 0 where none is to be started any more. */
int load_next(struct load_run* run, uint64_t now, uint64_t* offset, size_t* length);
/* One READ or WRITE ended well: `data` may be null without --verify. Ends the program where the bytes are wrong. */
void load_finished(struct load_run* run, uint64_t started_at, uint64_t now, uint64_t offset, size_t expected,
                   size_t got, const void* data);
/* Makes the run of one of several threads of a run that has begun: its part of the count, and offsets of its own.
 * The thread uses the part alone; load_add() adds what it did to the whole when it has ended. */
void load_part(const struct load_run* whole, unsigned number, unsigned parts, struct load_run* part);
void load_add(struct load_run* whole, const struct load_run* part);
int load_is_over(const struct load_run* run);
void load_report(struct load_run* run, const char* tool, const char* protocol);

/* Says why on stderr and ends the program. */
void load_die(const char* tool, const char* what, const char* why) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
