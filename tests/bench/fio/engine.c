/* fio's engine on libnfsrdma:
 *
 *     fio --ioengine=external:/path/libnfsrdma-fio.so --nfsrdma_url=nfs://server/export/dir --name=x --rw=read --size=1g
 *
 * Each job has a Client of its own, whether jobs are threads or processes, and reads into and writes from fio's buffers. Files
 * are those of the URL's directory; fio's `directory` would have to be there on this machine, too.
 *
 * fio sets jobs up in its first process, before it forks, and a Client does not survive a fork. So setup() has one of its own
 * for as long as it takes, which lays out what is to be read; the job's is made by init(), and is there until cleanup().
 *
 * Requests that queue() starts are sent together when fio waits for an answer, as a batch; where fio may do something else
 * first (rate, thinktime) they are sent at once. fio opens and closes files by calls that have to be over when they return,
 * so these block the job. */
#include "fio.h"
#include "optgroup.h"
#include "verify.h"
/* What stands above wants to be first. */
#include "session.h"

enum { layout_chunk = 4 << 20 };

extern struct ioengine_ops ioengine;

struct engine_options {
  void* unused; /* fio takes an option at offset 0 for none */
  char* url;
  char* options;
  unsigned int no_copy;
};

static struct fio_option engine_options[] = {
    {
        .name = "nfsrdma_url",
        .lname = "NFS/RDMA URL",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct engine_options, url),
        .help = "Directory of the files: nfs://server[:port]/path[?option=value&...]",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "nfsrdma_options",
        .lname = "NFS/RDMA options",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct engine_options, options),
        .help = "Options of the client: vers=3,rsize=65536,nconnect=2 (nfsrdma-cli --help has them all)",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "nfsrdma_no_copy",
        .lname = "Write without a copy",
        .type = FIO_OPT_BOOL,
        .off1 = offsetof(struct engine_options, no_copy),
        .def = "0",
        .help = "Written bytes are not copied until they are stable; should the server lose some, the "
                "buffer's next bytes are "
                "written again in their place",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {.name = NULL},
};

/* What a job has between init() and cleanup(). */
struct worker {
  struct session* session;
  bool no_copy;
  bool sends_at_once;
  bool syncs_on_close;
  uint64_t synced_at; /* writes that fio had issued when it last queued a sync; 0: it has not */
};

static void report(const char* text) {
  log_err("nfsrdma: %s\n", text);
}

/* For td_verror, whose text is that of the errno: the sentence has been reported. */
static int failed(struct thread_data* td, int error, const char* where) {
  if (error != 0) td_verror(td, error, where);
  return error;
}

static int begin_session(struct thread_data* td, struct session** out) {
  const struct engine_options* const options = td->eo;
  if (options->url == NULL) {
    report("no nfsrdma_url; it names the directory of the files: nfs://server/path");
    return failed(td, EINVAL, "nfsrdma_url");
  }
  return failed(td, session_begin(options->url, options->options, report, out), "nfsrdma connect");
}

/* The job's, or one for a while where the job has none yet. */
static int borrow_session(struct thread_data* td, struct session** out) {
  const struct worker* const worker = td->io_ops_data;
  if (worker == NULL) return begin_session(td, out);
  *out = worker->session;
  return 0;
}
static void give_back(struct thread_data* td, struct session* session) {
  if (td->io_ops_data == NULL) session_end(session);
}

/* ---- before the job: sizes, and what is to be read ---- */

/* fio's own structures are read and written, as its headers have them. */
static bool is_our_fio(const struct thread_data* td) {
  if (strcmp(fio_version_string, NFSRDMA_FIO_VERSION) == 0 && td->io_ops == &ioengine) return true;
  log_err(
      "nfsrdma: this engine was built for %s and this is %s; build it for this one "
      "(tests/bench/fio/source.sh)\n",
      NFSRDMA_FIO_VERSION, fio_version_string);
  return false;
}

static bool is_supported(const struct thread_options* options) {
  const char* what = NULL;
  if (options->fill_device) what = "fill_device";
  if (options->pre_read) what = "pre_read";
  if (options->zone_mode == ZONE_MODE_ZBD) what = "zonemode=zbd";
  if (what != NULL) log_err("nfsrdma: the engine does not know %s; leave it out\n", what);
  return what == NULL;
}

/* Where fio's setup_files() will have the file end. */
static uint64_t wanted_size(struct thread_data* td, struct fio_file* file, unsigned int index,
                            uint64_t size) {
  const struct thread_options* const options = &td->o;
  if (options->file_size_low != 0) {
    if (size >= options->file_size_low && size <= options->file_size_high) return size;
    if (options->file_size_low == options->file_size_high) return options->file_size_low;
    return get_rand_file_size(td);
  }
  if (options->size == 0 || options->nr_files == 0) return size;
  const uint64_t share = options->size / options->nr_files;
  const uint64_t left = options->size - share * options->nr_files;
  const uint64_t block = td_min_bs(td);
  return get_start_offset(td, file) + share + (index < left / block ? block : 0);
}

static int write_layout(struct thread_data* td, struct session_file* file, uint64_t begin, uint64_t end) {
  char* const bytes = malloc(layout_chunk);
  if (bytes == NULL) return failed(td, ENOMEM, "malloc");
  int error = 0;
  while (begin < end && error == 0 && !td->terminate) {
    const uint64_t size = min((uint64_t)layout_chunk, end - begin);
    fill_io_buffer(td, bytes, size, size);
    error = session_write_now(file, bytes, size, begin);
    begin += size;
  }
  free(bytes);
  return error;
}

/* Gives the file what it lacks behind `size`. */
static int lay_out(struct thread_data* td, struct session* session, struct fio_file* file, uint64_t size,
                   unsigned int index) {
  if (read_only) {
    report("a file is too short, and fio was told not to write (--readonly)");
    return EROFS;
  }
  if (index == 0 && (output_format & FIO_OUTPUT_NORMAL))
    log_info("%s: Laying out IO files (%u)\n", td->o.name, td->o.nr_files);
  struct session_file* opened = NULL;
  int error = session_open(session, file->file_name, true, td->o.allow_create, &opened);
  if (error != 0) return error;
  error = write_layout(td, opened, size, file->real_file_size);
  const int closed = session_close(opened, error == 0 && td->o.create_fsync);
  return error != 0 ? error : closed;
}

static int setup_file(struct thread_data* td, struct session* session, struct fio_file* file,
                      unsigned int index) {
  uint64_t size = 0;
  int error = session_size(session, file->file_name, &size);
  if (error != 0 && error != ENOENT) return error;
  /* This machine may have something of the same name. */
  file->filetype = FIO_TYPE_FILE;
  file->real_file_size = size;
  file->real_file_size = max(size, wanted_size(td, file, index, size));
  fio_file_set_size_known(file);
  if (size >= file->real_file_size) return 0;
  const bool overwrites = td_write(td) && td->o.overwrite;
  /* So the user has it: an earlier job makes the file, or its open fails. */
  if (td->o.create_on_open && !td_write(td)) return 0;
  if (td_read(td) || overwrites) return lay_out(td, session, file, size, index);
  /* Files that are only written begin anew, unless they are there in full. */
  if (error == ENOENT || read_only) return 0;
  error = session_remove(session, file->file_name);
  return error == ENOENT ? 0 : error;
}

static int engine_setup(struct thread_data* td) {
  if (!is_our_fio(td) || !is_supported(&td->o)) return failed(td, EINVAL, "nfsrdma setup");
  struct session* session = NULL;
  int error = borrow_session(td, &session);
  if (error != 0) return error;
  if (td->subjob_number == 0 && (output_format & FIO_OUTPUT_NORMAL)) {
    char text[200];
    session_describe(session, text, sizeof text);
    log_info("%s: %s\n", td->o.name, text);
  }
  struct fio_file* file = NULL;
  unsigned int i = 0;
  temp_stall_ts = 1;
  for_each_file(td, file, i) {
    error = setup_file(td, session, file, i);
    if (error != 0) break;
  }
  temp_stall_ts = 0;
  give_back(td, session);
  return failed(td, error, "nfsrdma setup");
}

/* ---- the job ---- */

static bool may_pause(const struct thread_options* options) {
  if (options->thinktime != 0) return true;
  for (int i = 0; i < DDIR_RWDIR_CNT; ++i) {
    if (options->rate[i] != 0 || options->rate_iops[i] != 0) return true;
  }
  return false;
}

static int engine_init(struct thread_data* td) {
  const struct engine_options* const options = td->eo;
  if (options->no_copy && td->o.verify != VERIFY_NONE) {
    report(
        "nfsrdma_no_copy does not go with verify: should the server lose bytes, others would be written "
        "again");
    return failed(td, EINVAL, "nfsrdma_no_copy");
  }
  struct worker* const worker = calloc(1, sizeof *worker);
  if (worker == NULL) return failed(td, ENOMEM, "calloc");
  const int error = begin_session(td, &worker->session);
  if (error != 0) {
    free(worker);
    return error;
  }
  worker->no_copy = options->no_copy;
  worker->sends_at_once = may_pause(&td->o);
  /* fio would call fsync(2), and there is no descriptor. */
  worker->syncs_on_close = td->o.fsync_on_close && td_write(td);
  td->o.fsync_on_close = 0;
  td->io_ops_data = worker;
  return 0;
}

static void engine_cleanup(struct thread_data* td) {
  struct worker* const worker = td->io_ops_data;
  if (worker == NULL) return;
  session_end(worker->session);
  free(worker);
  td->io_ops_data = NULL;
}

static int engine_io_u_init(struct thread_data* td, struct io_u* io_u) {
  struct worker* const worker = td->io_ops_data;
  io_u->engine_data = session_request_new(worker->session, io_u);
  return 0;
}

static void engine_io_u_free(struct thread_data fio_unused* td, struct io_u* io_u) {
  if (io_u->engine_data != NULL) session_request_free(io_u->engine_data);
  io_u->engine_data = NULL;
}

static void note_issue_time(struct thread_data* td, struct io_u* io_u) {
  if (!fio_fill_issue_time(td)) return;
  fio_gettime(&io_u->issue_time, NULL);
  if (td->o.read_iolog_file) td->last_issue = io_u->issue_time;
}

static enum session_writing how_to_write(const struct thread_data* td) {
  const struct worker* const worker = td->io_ops_data;
  if (td->o.sync_io != 0) return SESSION_STABLE;
  return worker->no_copy ? SESSION_IN_PLACE : SESSION_COPIED;
}

/* A sync that is in flight counts as one: fio asks for it again until the last thing that ended is a sync. */
static int keep_synced(struct thread_data* td, struct io_u fio_unused** io_u) {
  const struct worker* const worker = td->io_ops_data;
  td->last_was_sync = worker->synced_at == td->io_issues[DDIR_WRITE];
  return 0;
}

static void queue_sync(struct thread_data* td, struct io_u* io_u) {
  struct worker* const worker = td->io_ops_data;
  worker->synced_at = td->io_issues[DDIR_WRITE];
  td->last_was_sync = true;
  /* It has the size of what the io_u was before, which fio would count as issued. */
  io_u->xfer_buflen = 0;
  session_sync(io_u->engine_data, io_u->file->engine_data);
}

static enum fio_q_status engine_queue(struct thread_data* td, struct io_u* io_u) {
  struct worker* const worker = td->io_ops_data;
  struct session_file* const file = io_u->file->engine_data;
  fio_ro_check(td, io_u);
  if (io_u->ddir == DDIR_READ) {
    session_read(io_u->engine_data, file, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset);
  } else if (io_u->ddir == DDIR_WRITE) {
    session_write(io_u->engine_data, file, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, how_to_write(td));
  } else if (ddir_sync(io_u->ddir)) {
    queue_sync(td, io_u);
  } else {
    session_trim(io_u->engine_data, file, io_u->xfer_buflen, io_u->offset);
  }
  if (ddir_rw(io_u->ddir) && io_u->end_io == NULL) io_u->end_io = keep_synced;
  note_issue_time(td, io_u);
  if (worker->sends_at_once) session_send(worker->session);
  return FIO_Q_QUEUED;
}

static int engine_getevents(struct thread_data* td, unsigned int min_events, unsigned int max_events,
                            const struct timespec* t) {
  struct worker* const worker = td->io_ops_data;
  const long most = t == NULL ? -1 : (long)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
  return (int)session_wait(worker->session, min_events, max_events, most);
}

static struct io_u* engine_event(struct thread_data* td, int event) {
  struct worker* const worker = td->io_ops_data;
  const struct session_request* const request = session_ended(worker->session, (unsigned int)event);
  struct io_u* const io_u = session_owner(request);
  io_u->error = (unsigned int)session_error(request);
  io_u->resid = io_u->error != 0 ? 0 : io_u->xfer_buflen - session_moved(request);
  /* fio itself does not look whether a sync that was queued has failed. */
  if (io_u->error != 0 && ddir_sync(io_u->ddir)) {
    report(session_error_text(request));
    td_verror(td, (int)io_u->error, "nfsrdma sync");
  }
  return io_u;
}

static char* engine_errdetails(struct io_u* io_u) {
  return strdup(session_error_text(io_u->engine_data));
}

/* fio calls it for what is in flight when a job ends early. */
static int engine_cancel(struct thread_data fio_unused* td, struct io_u* io_u) {
  return session_cancel(io_u->engine_data) ? 0 : -1;
}

/* ---- files ---- */

static int engine_open_file(struct thread_data* td, struct fio_file* file) {
  struct worker* const worker = td->io_ops_data;
  const bool writes = (td_write(td) || td_trim(td)) && !read_only;
  struct session_file* opened = NULL;
  const bool creates = writes && td->o.allow_create;
  const int error = session_open(worker->session, file->file_name, writes, creates, &opened);
  if (error != 0) return failed(td, error, "nfsrdma open");
  file->engine_data = opened;
  return 0;
}

static int engine_close_file(struct thread_data* td, struct fio_file* file) {
  struct worker* const worker = td->io_ops_data;
  const int error = session_close(file->engine_data, worker->syncs_on_close);
  file->engine_data = NULL;
  return failed(td, error, "nfsrdma close");
}

static int engine_unlink_file(struct thread_data* td, struct fio_file* file) {
  struct session* session = NULL;
  int error = borrow_session(td, &session);
  if (error != 0) return error;
  error = session_remove(session, file->file_name);
  give_back(td, session);
  /* fio does so twice, before it closes a file and after. */
  return error == ENOENT ? 0 : error;
}

static int engine_get_file_size(struct thread_data* td, struct fio_file* file) {
  if (fio_file_size_known(file)) return 0;
  struct session* session = NULL;
  int error = borrow_session(td, &session);
  if (error != 0) return error;
  uint64_t size = 0;
  error = session_size(session, file->file_name, &size);
  give_back(td, session);
  if (error != 0) return failed(td, error, "nfsrdma size");
  file->real_file_size = size;
  fio_file_set_size_known(file);
  return 0;
}

/* Found by its name. */
struct ioengine_ops ioengine = {
    .name = "nfsrdma",
    .version = FIO_IOOPS_VERSION,
    /* Nothing here is of this machine: fio makes no files and looks at no disk. It does not append then either. */
    .flags = FIO_DISKLESSIO | FIO_NODISKUTIL | FIO_NOEXTEND | FIO_NO_OFFLOAD | FIO_ASYNCIO_SETS_ISSUE_TIME,
    .setup = engine_setup,
    .init = engine_init,
    .cleanup = engine_cleanup,
    .io_u_init = engine_io_u_init,
    .io_u_free = engine_io_u_free,
    .queue = engine_queue,
    .getevents = engine_getevents,
    .event = engine_event,
    .errdetails = engine_errdetails,
    .cancel = engine_cancel,
    .open_file = engine_open_file,
    .close_file = engine_close_file,
    .unlink_file = engine_unlink_file,
    .get_file_size = engine_get_file_size,
    .options = engine_options,
    .option_struct_size = sizeof(struct engine_options),
};
