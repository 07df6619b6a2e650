/* Copies a directory of the server, with everything below it, into a local directory. Up to 64 files and
 * directories are in progress at the same time, on one thread: each is a job with one call in flight, and a
 * completion queue says which job goes on. A file that fails is reported and counted, and the others go on.
 *
 *     gcc -std=c99 -D_GNU_SOURCE copy_tree.c $(pkg-config --cflags --libs nfsrdma) -o copy_tree
 *     ./copy_tree nfs://server/export/directory LOCAL-DIRECTORY
 *
 * The memory that is needed does not grow with the size of a directory: jobs that wait are a stack, and a
 * directory's next page is fetched when the jobs of the page before it have all begun.
 *
 * Names come from the server and are not trusted: a name with a slash is refused, and the program follows no
 * symbolic link in the local directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nfsrdma/nfsrdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_JOBS = 64, PIECE = 256 << 10, LINK_ROOM = 4096 };

enum state { WAITING, LISTING, READING_LINK, OPENING, READING, CLOSING };

struct job {
  struct job* next; /* on the stack of jobs that wait */
  enum state state;
  char* path;    /* on the server, relative to the directory that is copied */
  uint32_t type; /* NFSRDMA_TYPE_... */
  uint32_t mode;
  nfsrdma_listing* listing;
  nfsrdma_file* file;
  int local;  /* descriptor of the local file; -1: none */
  int failed; /* the file is only closed any more */
  uint64_t offset;
  char* data; /* of a read, or the text of a link */
};

struct copier {
  nfsrdma_queue* queue;
  nfsrdma_dir* source;
  const char* destination;
  struct job* waiting;
  size_t in_progress;
  uint64_t files, directories, links, bytes, failures;
};

/* ---- errors: reported, counted, and no reason to stop ---- */

static void report(struct copier* copier, const char* path, const char* text) {
  fprintf(stderr, "%s: %s\n", path, text);
  ++copier->failures;
}

/* nfsrdma_error_text would name the file or, if the connection is lost, only the server. */
static void report_error(struct copier* copier, const char* path, nfsrdma_error* error) {
  fprintf(stderr, "%s: %s: %s\n", path, nfsrdma_error_operation(error), nfsrdma_error_message(error));
  ++copier->failures;
  nfsrdma_error_free(error);
}

/* ---- jobs ---- */

static void push(struct copier* copier, struct job* job) {
  job->state = WAITING;
  job->next = copier->waiting;
  copier->waiting = job;
}

/* Takes over `path`. */
static void add_job(struct copier* copier, char* path, uint32_t type, uint32_t mode) {
  struct job* job = path == NULL ? NULL : calloc(1, sizeof *job);
  if (job == NULL) {
    report(copier, path == NULL ? "a path" : path, "no memory");
    free(path);
    return;
  }
  job->path = path;
  job->type = type;
  job->mode = mode;
  job->local = -1;
  push(copier, job);
}

static void free_job(struct job* job) {
  nfsrdma_listing_free(job->listing);
  nfsrdma_file_free(job->file);
  if (job->local >= 0) close(job->local);
  free(job->data);
  free(job->path);
  free(job);
}

static void end_job(struct copier* copier, struct job* job) {
  --copier->in_progress;
  free_job(job);
}

/* Paths on the server are relative to the directory that is copied, which is "." itself. */
static int is_top(const char* path) {
  return strcmp(path, ".") == 0;
}

static char* joined(const char* directory, const char* name) {
  if (is_top(directory)) return strdup(name);
  const size_t size = strlen(directory) + strlen(name) + 2;
  char* path = malloc(size);
  if (path != NULL) snprintf(path, size, "%s/%s", directory, name);
  return path;
}

/* Returns what `job` becomes on this machine; the caller frees it. */
static char* local_path(struct copier* copier, const struct job* job) {
  char* path = is_top(job->path) ? strdup(copier->destination) : joined(copier->destination, job->path);
  if (path == NULL) report(copier, job->path, "no memory");
  return path;
}

/* ---- the calls of a job: one at a time, so that its address serves as the tag ---- */

static nfsrdma_call call_of(struct copier* copier, struct job* job) {
  nfsrdma_call call = {.struct_size = sizeof call,
                       .queue = copier->queue,
                       .tag = (uint64_t)(uintptr_t)job,
                       .flags = NFSRDMA_MORE}; /* nfsrdma_reap sends the calls together */
  return call;
}

/* `started` is what the function that starts the call has returned. A call that was not started has no
 * completion, so the job ends here. */
static void expect(struct copier* copier, struct job* job, int64_t started, nfsrdma_error* error) {
  if (started == 0) return;
  report_error(copier, job->path, error);
  end_job(copier, job);
}

static void start_read(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  const nfsrdma_call call = call_of(copier, job);
  job->state = READING;
  expect(copier, job, nfsrdma_pread(job->file, job->data, PIECE, job->offset, &call, &error), error);
}

static void start_open(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  const nfsrdma_call call = call_of(copier, job);
  job->state = OPENING;
  expect(copier, job, nfsrdma_open(copier->source, job->path, NFSRDMA_READ, 0, &job->file, &call, &error),
         error);
}

static void start_close(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  const nfsrdma_call call = call_of(copier, job);
  job->state = CLOSING;
  expect(copier, job, nfsrdma_close(job->file, &call, &error), error);
}

/* Ends a job that has failed. nfsrdma_file_free would wait until the server has closed the file, and all jobs with
 * it, so that the file is closed by a call of its own first. */
static void give_up(struct copier* copier, struct job* job) {
  job->failed = 1;
  if (job->file != NULL && job->state != CLOSING) {
    start_close(copier, job);
  } else {
    end_job(copier, job);
  }
}

static void start_readlink(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  const nfsrdma_call call = call_of(copier, job);
  job->state = READING_LINK;
  expect(copier, job, nfsrdma_readlink(copier->source, job->path, job->data, LINK_ROOM, &call, &error),
         error);
}

static void start_page(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  const nfsrdma_call call = call_of(copier, job);
  job->state = LISTING;
  expect(copier, job, nfsrdma_listing_next(job->listing, &call, &error), error);
}

/* ---- the local side ---- */

/* Returns 0, or -1 after reporting why there is no such directory. */
static int make_directory(struct copier* copier, const struct job* job) {
  char* path = local_path(copier, job);
  if (path == NULL) return -1;
  int status = mkdir(path, 0777);
  int reason = errno;
  if (status != 0 && reason == EEXIST) {
    struct stat now;
    /* A symbolic link to a directory will do only as the destination, which the user has named. */
    status = is_top(job->path) ? stat(path, &now) : lstat(path, &now);
    if (status == 0 && !S_ISDIR(now.st_mode)) status = -1;
  }
  if (status != 0) report(copier, path, strerror(reason));
  free(path);
  return status;
}

static int make_file(struct copier* copier, struct job* job) {
  char* path = local_path(copier, job);
  if (path == NULL) return -1;
  job->local = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, job->mode & 0777);
  if (job->local < 0) report(copier, path, strerror(errno));
  free(path);
  return job->local < 0 ? -1 : 0;
}

static void make_link(struct copier* copier, const struct job* job) {
  char* path = local_path(copier, job);
  if (path == NULL) return;
  if (symlink(job->data, path) == 0) {
    ++copier->links;
  } else {
    report(copier, path, strerror(errno));
  }
  free(path);
}

static int write_out(struct copier* copier, const struct job* job, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = pwrite(job->local, job->data + done, size - done, (off_t)(job->offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      report(copier, job->path, strerror(errno));
      return -1;
    }
    done += (size_t)count;
  }
  return 0;
}

/* ---- what a job does, from its first call to its last ---- */

static void begin_directory(struct copier* copier, struct job* job) {
  nfsrdma_error* error = NULL;
  if (job->listing == NULL) {
    if (make_directory(copier, job) != 0) {
      end_job(copier, job);
      return;
    }
    job->listing = nfsrdma_listing_new(copier->source, job->path, &error);
    if (job->listing == NULL) {
      report_error(copier, job->path, error);
      end_job(copier, job);
      return;
    }
    ++copier->directories;
  }
  start_page(copier, job);
}

static void begin(struct copier* copier, struct job* job) {
  ++copier->in_progress;
  if (job->type == NFSRDMA_TYPE_DIRECTORY) {
    begin_directory(copier, job);
    return;
  }
  if (job->type != NFSRDMA_TYPE_REGULAR && job->type != NFSRDMA_TYPE_SYMLINK) {
    report(copier, job->path, "left out, because it is neither a file, a directory nor a symbolic link");
    end_job(copier, job);
    return;
  }
  job->data = malloc(job->type == NFSRDMA_TYPE_SYMLINK ? LINK_ROOM + 1 : PIECE);
  if (job->data == NULL) {
    report(copier, job->path, "no memory");
    end_job(copier, job);
  } else if (job->type == NFSRDMA_TYPE_SYMLINK) {
    start_readlink(copier, job);
  } else {
    start_open(copier, job);
  }
}

static void add_entry(struct copier* copier, const struct job* directory, const nfsrdma_entry* entry) {
  if (strchr(entry->name, '/') != NULL) {
    report(copier, directory->path, "the server lists a name with a slash");
    return;
  }
  char* path = joined(directory->path, entry->name);
  if (entry->has_attributes) {
    add_job(copier, path, entry->attributes->type, entry->attributes->mode);
  } else {
    report(copier, path == NULL ? directory->path : path, "the server does not report the attributes");
    free(path);
  }
}

static void on_page(struct copier* copier, struct job* job, int64_t count) {
  nfsrdma_attributes attributes = {.struct_size = sizeof attributes};
  nfsrdma_entry entry = {.struct_size = sizeof entry, .attributes = &attributes};
  if (count == 0) {
    end_job(copier, job);
    return;
  }
  /* The entries come onto the stack above their directory. Its next page is fetched after they have begun. */
  --copier->in_progress;
  push(copier, job);
  for (size_t i = 0; nfsrdma_listing_entry(job->listing, i, &entry) == 0; ++i) add_entry(copier, job, &entry);
}

static void on_opened(struct copier* copier, struct job* job) {
  if (make_file(copier, job) == 0) {
    start_read(copier, job);
  } else {
    give_up(copier, job);
  }
}

static void on_read(struct copier* copier, struct job* job, int64_t count) {
  if (write_out(copier, job, (size_t)count) != 0) {
    give_up(copier, job);
    return;
  }
  job->offset += (uint64_t)count;
  copier->bytes += (uint64_t)count;
  if (count == PIECE) {
    start_read(copier, job);
  } else {
    start_close(copier, job);
  }
}

static void on_closed(struct copier* copier, struct job* job) {
  if (!job->failed) {
    /* A local file system may report only now that it could not write. */
    const int closed = close(job->local);
    job->local = -1;
    if (closed == 0) {
      ++copier->files;
    } else {
      report(copier, job->path, strerror(errno));
    }
  }
  end_job(copier, job);
}

static void on_completion(struct copier* copier, const nfsrdma_completion* done) {
  struct job* job = (struct job*)(uintptr_t)done->tag;
  if (done->result < 0) {
    report_error(copier, job->path, done->error);
    give_up(copier, job);
    return;
  }
  switch (job->state) {
    case LISTING:
      on_page(copier, job, done->result);
      break;
    case READING_LINK:
      job->data[done->result] = '\0';
      make_link(copier, job);
      end_job(copier, job);
      break;
    case OPENING:
      on_opened(copier, job);
      break;
    case READING:
      on_read(copier, job, done->result);
      break;
    case CLOSING:
      on_closed(copier, job);
      break;
    case WAITING:
      break;
  }
}

static void run(struct copier* copier) {
  nfsrdma_completion done[MOST_JOBS];
  while (copier->waiting != NULL || copier->in_progress > 0) {
    while (copier->waiting != NULL && copier->in_progress < MOST_JOBS) {
      struct job* job = copier->waiting;
      copier->waiting = job->next;
      begin(copier, job);
    }
    const int64_t count = nfsrdma_reap(copier->queue, done, MOST_JOBS, 1, -1);
    for (int64_t i = 0; i < count; ++i) on_completion(copier, &done[i]);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s nfs://server/export/directory LOCAL-DIRECTORY\n", argv[0]);
    return 2;
  }
  nfsrdma_error* error = NULL;
  struct copier copier = {.destination = argv[2]};
  nfsrdma_client* client = nfsrdma_connect(argv[1], NULL, &error);
  if (client == NULL || (copier.queue = nfsrdma_queue_new(client, &error)) == NULL ||
      nfsrdma_open_dir(nfsrdma_root(client), nfsrdma_path(client), &copier.source, NULL, &error) != 0) {
    report_error(&copier, argv[1], error);
  } else {
    add_job(&copier, strdup("."), NFSRDMA_TYPE_DIRECTORY, 0777);
    run(&copier);
    printf("%" PRIu64 " files with %" PRIu64 " bytes, %" PRIu64 " directories, %" PRIu64 " links, %" PRIu64
           " failures\n",
           copier.files, copier.bytes, copier.directories, copier.links, copier.failures);
  }
  nfsrdma_queue_free(copier.queue);
  nfsrdma_dir_free(copier.source);
  nfsrdma_client_free(client);
  return copier.failures != 0;
}
