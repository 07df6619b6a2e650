/* The C interface of libnfsrdma: NFS over RDMA from a program, without a mount.
 *
 *     nfsrdma_error* error = NULL;
 *     nfsrdma_client* client = nfsrdma_connect("nfs://server/export/file", NULL, &error);
 *     nfsrdma_file* file = NULL;
 *     char data[4096];
 *     if (client != NULL &&
 *         nfsrdma_open(nfsrdma_root(client), nfsrdma_path(client), NFSRDMA_READ, 0, &file, NULL, &error) == 0) {
 *       int64_t count = nfsrdma_pread(file, data, sizeof data, 0, NULL, &error);
 *       ...
 *     }
 *     if (error != NULL) fprintf(stderr, "%s\n", nfsrdma_error_text(error));
 *     nfsrdma_error_free(error);
 *     nfsrdma_file_free(file);
 *     nfsrdma_client_free(client);
 *
 * gcc ... $(pkg-config --cflags --libs nfsrdma). C99 and later. The C++ headers (nfsrdma/client.h) and the
 * Python package stand on this interface.
 *
 * Results. A function that can fail returns -1 (or NULL) then, and stores an error in `*error`, which the
 * caller frees; `error` itself may be NULL. Otherwise it returns 0 or more (for example a number of bytes)
 * and leaves `*error` alone. errno is not used. `*error` is overwritten, not freed. If there is no memory
 * for an error, `*error` is NULL; all functions on errors accept that.
 *
 * Calls. Every function that asks the server has a parameter `call`. NULL makes a blocking call. Otherwise
 * `call` points to an nfsrdma_call, which says how long the call may take, and whether the call is only
 * started. A started call returns 0 at once and has exactly one completion: in a queue (nfsrdma_reap) or by
 * a callback (nfsrdma_wait). If it returns -1, it was not started, and there is no completion. The
 * completion holds the value that a blocking call would return, and its error.
 *
 * Memory. Buffers, and the variables that receive results, must stay valid until the call has returned, or
 * for a started call until its completion was delivered. A buffer is in reach of the server only while its
 * call is under way. Paths, names, and structs that only describe the call (nfsrdma_call, nfsrdma_changes,
 * nfsrdma_lock, struct iovec) are copied. Variables that receive results are written when the completion is
 * delivered, on the thread that receives it.
 *
 * Threads. A client, its queues, files and directories may be used from any thread. Blocking calls of
 * different threads are in flight at the same time. Do not free an object while another thread is inside a
 * call on it. Objects of a client must be freed before the client, but for nfsrdma_root().
 *
 * Callbacks run on a thread that is inside nfsrdma_wait or nfsrdma_service, nowhere else, after the call
 * that started them has returned. They may make any calls, blocking ones too, and free files, but must not
 * free the client. They must not throw C++ exceptions. Callbacks that are due together run one after the
 * other on one thread; one that calls nfsrdma_wait has the next ones run there. If several threads are
 * inside nfsrdma_wait, their callbacks may run at the same time.
 *
 * Deadlines. A call fails when the server has not answered for the time of the option `timeo`, and earlier
 * if its nfsrdma_call says so. Until then the library makes lost connections again and recovers sessions
 * and open files.
 *
 * fork(2). The child may not use what its parent has connected: every call fails with ENOTCONN and sends
 * nothing. Freeing it in the child does not affect the parent. The child may connect clients of its own;
 * over RDMA devices only if its parent had not used any.
 *
 * Compatibility. Programs that were linked against this version run with all later versions of
 * libnfsrdma.so.1. Structs that may grow begin with `struct_size`, in which the caller stores sizeof of the
 * struct. All members that a program does not set must be 0; a call fails with E2BIG if a struct of a newer
 * version asks for something that this library does not know. */
#ifndef NFSRDMA_NFSRDMA_H
#define NFSRDMA_NFSRDMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NFSRDMA_C_API __attribute__((visibility("default")))
#else
#define NFSRDMA_C_API
#endif

typedef struct nfsrdma_error nfsrdma_error;
typedef struct nfsrdma_options nfsrdma_options;
typedef struct nfsrdma_client nfsrdma_client;
typedef struct nfsrdma_queue nfsrdma_queue;
typedef struct nfsrdma_dir nfsrdma_dir;
typedef struct nfsrdma_file nfsrdma_file;
typedef struct nfsrdma_listing nfsrdma_listing;
typedef struct nfsrdma_acl nfsrdma_acl;
typedef struct nfsrdma_info nfsrdma_info;

/* Returns the version of the library as text, such as "0.1.0". */
NFSRDMA_C_API const char* nfsrdma_version(void);

/* ---- errors ---- */

/* Which side caused a failure. A program decides by this and by the errno; the texts are for people. */
enum {
  NFSRDMA_ERROR_USAGE = 0,      /* a wrong option, target or argument: nothing was sent */
  NFSRDMA_ERROR_LOCAL = 1,      /* this machine could not do it: memory, files, limits */
  NFSRDMA_ERROR_CONNECTION = 2, /* the server was not reached, or the connection was lost for good */
  NFSRDMA_ERROR_TIMEOUT = 3,    /* the deadline passed; the operation may or may not have been done */
  NFSRDMA_ERROR_PROTOCOL = 4,   /* the server broke a protocol */
  NFSRDMA_ERROR_SERVER = 5,     /* the server answered, and its answer was no */
  NFSRDMA_ERROR_CANCELLED = 6,  /* cancelled by the program; the operation may or may not have been done */
  NFSRDMA_ERROR_UNKNOWN_OUTCOME = 7 /* the reply was lost for good: the operation may or may not have been
                                       done. Check before repeating it */
};

/* The texts stay valid until the error is freed. */
NFSRDMA_C_API int nfsrdma_error_kind(const nfsrdma_error* error);
NFSRDMA_C_API int nfsrdma_error_errno(const nfsrdma_error* error);
/* Returns the server's own status number (an nfsstat3 or nfsstat4), or 0 if the error has none. */
NFSRDMA_C_API uint32_t nfsrdma_error_status(const nfsrdma_error* error);
/* Returns 1 if the operation may have been done although it failed, else 0. */
NFSRDMA_C_API int nfsrdma_error_outcome_unknown(const nfsrdma_error* error);
NFSRDMA_C_API const char* nfsrdma_error_operation(const nfsrdma_error* error); /* "OPEN", "connect" */
/* Returns the server or the file concerned; "FILE on SERVER" if the server did not answer a call on a file. */
NFSRDMA_C_API const char* nfsrdma_error_peer(const nfsrdma_error* error);
NFSRDMA_C_API const char* nfsrdma_error_message(const nfsrdma_error* error); /* one sentence */
/* Returns the end of the message that says what to do next; "" if the message says nothing about that. */
NFSRDMA_C_API const char* nfsrdma_error_next_step(const nfsrdma_error* error);
/* Returns "peer: operation: message" without the parts that are empty. */
NFSRDMA_C_API const char* nfsrdma_error_text(const nfsrdma_error* error);
NFSRDMA_C_API nfsrdma_error* nfsrdma_error_copy(const nfsrdma_error* error);
NFSRDMA_C_API void nfsrdma_error_free(nfsrdma_error* error); /* NULL: does nothing */

/* ---- where to connect, and how ---- */

/* A target (host and path) and options by name. An options object belongs to one thread at a time. */
NFSRDMA_C_API nfsrdma_options* nfsrdma_options_new(void); /* NULL: no memory */
NFSRDMA_C_API nfsrdma_options* nfsrdma_options_copy(const nfsrdma_options* options);
NFSRDMA_C_API void nfsrdma_options_free(nfsrdma_options* options);
/* Sets one option, such as "rsize" to "65536"; nfsrdma_option_help names those that users may set. Programs
 * can also set "no_core" to "yes": from the first Kerberos key on, the process leaves no core file, and
 * only root can trace it. The error names the option and the values that it takes. */
NFSRDMA_C_API int nfsrdma_options_set(nfsrdma_options* options, const char* name, const char* value,
                                      nfsrdma_error** error);
/* Sets several: "rsize=65536,crc=on". */
NFSRDMA_C_API int nfsrdma_options_set_all(nfsrdma_options* options, const char* list, nfsrdma_error** error);
/* Sets host and path, and the options that the text has: "nfs://host[:port]/path?option=value&...",
 * "host:/path" or "[address]:/path". Options that neither this nor the program sets get the defaults that
 * nfsrdma.conf(5) and the variable NFSRDMA_OPTIONS have for the target; the option "config" set to "none"
 * keeps the library's own. */
NFSRDMA_C_API int nfsrdma_options_set_target(nfsrdma_options* options, const char* target,
                                             nfsrdma_error** error);
/* Returns the value of an option as text, or of "host" or "path"; "" if it is not set, NULL if there is no
 * such option. The text stays valid until the next call on `options`. */
NFSRDMA_C_API const char* nfsrdma_options_get(nfsrdma_options* options, const char* name);
/* Returns where the value of an option comes from: "default", "program" (nfsrdma_options_set), "target" (a URL),
 * "NFSRDMA_OPTIONS", or "FILE:LINE"; NULL if there is no such option. The text stays valid until the next call
 * on `options`. */
NFSRDMA_C_API const char* nfsrdma_options_origin(nfsrdma_options* options, const char* name);
/* Has `log` called with each notice of what went wrong and how the library deals with it, one sentence for
 * people. It is called on a thread that is inside a call or on the library's own thread, and must not call
 * the library. NULL: no notices. */
typedef void (*nfsrdma_log)(void* data, const char* text);
NFSRDMA_C_API void nfsrdma_options_set_log(nfsrdma_options* options, nfsrdma_log log, void* data);
/* A descriptor that ends blocking calls: while it is readable, they (and nfsrdma_connect) end within a
 * second with NFSRDMA_ERROR_CANCELLED, and nfsrdma_wait and nfsrdma_reap return at once; started calls go
 * on. A signal handler that writes to an eventfd is all that a program needs. -1: none. The descriptor
 * stays the caller's and must outlive the client. */
NFSRDMA_C_API void nfsrdma_options_set_interrupt(nfsrdma_options* options, int descriptor);

/* One option, for a program's own help. The texts are static. */
typedef struct nfsrdma_option {
  size_t struct_size;
  const char* name;
  const char* values;
  const char* text;
} nfsrdma_option;
/* Fills in `option` with the option of that number, from 0. Returns 0; -1: there are fewer. */
NFSRDMA_C_API int nfsrdma_option_help(size_t number, nfsrdma_option* option);

/* ---- the client ---- */

/* Connects to the target. `target` is text as for nfsrdma_options_set_target; if it is NULL, `options` has
 * the target. `options` may be NULL; they are copied. Blocks for at most the option `connect_timeout`. */
NFSRDMA_C_API nfsrdma_client* nfsrdma_connect(const char* target, const nfsrdma_options* options,
                                              nfsrdma_error** error);
/* Ends all calls that are under way, blocking ones of other threads and started ones, with
 * NFSRDMA_ERROR_CANCELLED; commits what was written; closes all files; and ends the session at the server.
 * May be called at any time; if another thread is disconnecting, waits until that has ended. Completions can
 * still be received afterwards. Calls that are made afterwards fail with ENOTCONN. */
NFSRDMA_C_API int nfsrdma_disconnect(nfsrdma_client* client, nfsrdma_error** error);
/* Disconnects, which takes three seconds at most, runs the callbacks that are still due, and frees the
 * client. These callbacks cannot start calls (ENOTCONN). The client's files, directories, listings and
 * queues must have been freed, or be freed by these callbacks. NULL: does nothing. */
NFSRDMA_C_API void nfsrdma_client_free(nfsrdma_client* client);
/* Returns the path of the target: absolute, "/" if the target named none. */
NFSRDMA_C_API const char* nfsrdma_path(const nfsrdma_client* client);
/* Returns the server's root directory, which belongs to the client and must not be freed. */
NFSRDMA_C_API nfsrdma_dir* nfsrdma_root(nfsrdma_client* client);

/* ---- calls ---- */

/* What became of a started call. This struct does not grow. */
typedef struct nfsrdma_completion {
  uint64_t tag;         /* that of the nfsrdma_call */
  int64_t result;       /* what the blocking call returns: -1 if it failed */
  nfsrdma_error* error; /* if it failed; the receiver frees it, except in a callback */
} nfsrdma_completion;

/* A callback. The completion and its error are valid until the callback returns. */
typedef void (*nfsrdma_done)(void* data, const nfsrdma_completion* completion);

enum {
  /* More calls follow: this one need not be sent before nfsrdma_submit, nfsrdma_reap, nfsrdma_wait, or a call
   * without this flag. Calls that are sent together cost less. */
  NFSRDMA_MORE = 1
};

/* How a call is made. */
typedef struct nfsrdma_call {
  size_t struct_size;
  nfsrdma_queue* queue; /* the queue that receives the completion */
  nfsrdma_done done;    /* the callback that receives it, if `queue` is NULL; both NULL: a blocking call */
  void* data;           /* for the callback */
  uint64_t tag;         /* the program's own number, for the completion and for nfsrdma_cancel */
  int64_t timeout;      /* milliseconds that the call may take at most; 0: as the option timeo says */
  uint32_t flags;
  uint32_t reserved;
} nfsrdma_call;

/* Sends what was started with NFSRDMA_MORE. */
NFSRDMA_C_API void nfsrdma_submit(nfsrdma_client* client);
/* Ends all calls of the client that have this tag and are under way, blocking ones too, with
 * NFSRDMA_ERROR_CANCELLED. Calls that were made without an nfsrdma_call have no tag. Their buffers are out
 * of the server's reach when this returns. Returns the number of calls that it ended. */
NFSRDMA_C_API int64_t nfsrdma_cancel(nfsrdma_client* client, uint64_t tag);
/* Makes a call that sends nothing and ends at once, with the result 0. Its completion wakes a thread that waits
 * for completions, and has it run a callback. */
NFSRDMA_C_API int64_t nfsrdma_post(nfsrdma_client* client, const nfsrdma_call* call, nfsrdma_error** error);

/* ---- completion queues: nothing of the library runs the program's code ---- */

NFSRDMA_C_API nfsrdma_queue* nfsrdma_queue_new(nfsrdma_client* client, nfsrdma_error** error);
/* Cancels the calls whose completions the queue would receive, and frees the queue. Files and directories
 * that such calls have opened are closed; variables that would receive results are not written. */
NFSRDMA_C_API void nfsrdma_queue_free(nfsrdma_queue* queue);
/* Stores up to `most` completions. If the interrupt descriptor is readable, stores those that there are;
 * otherwise waits until there are `least`, at most `timeout` milliseconds (-1: for as long as it takes),
 * and no longer than calls of the queue are under way. Returns the number that it stored. */
NFSRDMA_C_API int64_t nfsrdma_reap(nfsrdma_queue* queue, nfsrdma_completion* completions, size_t most,
                                   size_t least, int64_t timeout);
/* Returns a descriptor that stays the queue's, for poll(2) and the like. When it is readable, call
 * nfsrdma_reap with timeout 0, which also does the client's work that is due and may find no completion. */
NFSRDMA_C_API int nfsrdma_queue_descriptor(nfsrdma_queue* queue);
/* Returns the number of calls whose completions were not reaped yet. */
NFSRDMA_C_API size_t nfsrdma_queue_pending(nfsrdma_queue* queue);

/* ---- callbacks ---- */

/* Runs callbacks. Waits for the first one, for a descriptor among the `count` of `descriptors` to become
 * readable, or for `timeout` milliseconds (-1: for as long as it takes). Returns 1 if something happened,
 * else 0. */
NFSRDMA_C_API int nfsrdma_wait(nfsrdma_client* client, int64_t timeout, const int* descriptors, size_t count);
/* For programs with an event loop of their own: a descriptor that stays the client's. When it is readable,
 * call nfsrdma_service, which runs the callbacks that are due and does the client's work without waiting. */
NFSRDMA_C_API int nfsrdma_descriptor(nfsrdma_client* client);
NFSRDMA_C_API void nfsrdma_service(nfsrdma_client* client);

/* ---- what is known of the connection ---- */

/* Measures one round trip. Returns nanoseconds. */
NFSRDMA_C_API int64_t nfsrdma_ping(nfsrdma_client* client, const nfsrdma_call* call, nfsrdma_error** error);
/* Returns what was negotiated, and the counters, as they are now. The caller frees it. NULL: no memory, or
 * in a child of fork(2). */
NFSRDMA_C_API nfsrdma_info* nfsrdma_info_get(nfsrdma_client* client);
/* Returns the counters of the client's calls, as entries with numbers: totals ("bytes_sent"), and for each kind of call
 * "NAME.count", "NAME.total_us" and others, which nfsrdma_info(3) lists. Like nfsrdma_info_get in all else. */
NFSRDMA_C_API nfsrdma_info* nfsrdma_statistics_get(nfsrdma_client* client);
NFSRDMA_C_API void nfsrdma_info_free(nfsrdma_info* info);
/* Returns the name of the entry of that number, from 0; NULL: there are fewer. libnfsrdma(3) lists the
 * names. */
NFSRDMA_C_API const char* nfsrdma_info_name(const nfsrdma_info* info, size_t number);
/* Returns an entry's value as text; NULL: there is no such entry. */
NFSRDMA_C_API const char* nfsrdma_info_text(const nfsrdma_info* info, const char* name);
/* Returns an entry's value as a number (yes or no: 1 or 0); 0 if there is no such entry or it is no number.
 */
NFSRDMA_C_API uint64_t nfsrdma_info_number(const nfsrdma_info* info, const char* name);

/* Asks the server's mount service for its exports, as showmount -e does; the server need not run NFS.
 * Blocks. Calls `entry` for each; `clients` are those that may mount it, separated by spaces, "":
 * everybody. */
typedef void (*nfsrdma_export_entry)(void* data, const char* path, const char* clients);
NFSRDMA_C_API int nfsrdma_list_exports(const char* target, const nfsrdma_options* options,
                                       nfsrdma_export_entry entry, void* data, nfsrdma_error** error);
/* Asks it who has mounted its exports, as showmount -a does. */
typedef void (*nfsrdma_mount_entry)(void* data, const char* client, const char* path);
NFSRDMA_C_API int nfsrdma_list_mounts(const char* target, const nfsrdma_options* options,
                                      nfsrdma_mount_entry entry, void* data, nfsrdma_error** error);

/* ---- diagnosis: why a target cannot be used, or is slow ---- */

enum {
  NFSRDMA_FINDING_OK = 0,
  NFSRDMA_FINDING_WARNING = 1,
  NFSRDMA_FINDING_FAILED = 2,
  NFSRDMA_FINDING_SKIPPED = 3
};

/* Something that a step has measured or learned, for programs. This struct does not grow. */
typedef struct nfsrdma_fact {
  const char* name;
  const char* value;
} nfsrdma_fact;

/* What a step has found. The texts are valid until the nfsrdma_report returns. */
typedef struct nfsrdma_finding {
  size_t struct_size;
  const char* step;   /* "resolve", "port", ...; the last finding is the "verdict" */
  const char* seen;   /* one sentence for people */
  const char* advice; /* what to change; "" if there is nothing to change */
  const nfsrdma_fact* facts;
  size_t fact_count;
  int64_t duration; /* nanoseconds */
  uint32_t state;   /* NFSRDMA_FINDING_... */
  uint32_t reserved;
} nfsrdma_finding;

/* What is examined beside what every diagnosis examines. */
typedef struct nfsrdma_diagnosis {
  size_t struct_size;
  const char* read; /* a file to read from: an absolute path, or one below the target's; NULL: none */
  int64_t limit;    /* milliseconds for the whole diagnosis; 0: 30 seconds */
  uint32_t write;   /* 1: make a file in the target's directory, write and read it, and remove it */
  uint32_t reserved;
} nfsrdma_diagnosis;

typedef void (*nfsrdma_report)(void* data, const nfsrdma_finding* finding);
/* Examines the target step by step, from its name to the rights on its path, with a connection and a session of
 * its own. Blocks. Calls `report` for each step as soon as it has ended. `target` and `options` are those of
 * nfsrdma_connect; `wanted` may be NULL. Returns the number of steps that failed. */
NFSRDMA_C_API int nfsrdma_diagnose(const char* target, const nfsrdma_options* options,
                                   const nfsrdma_diagnosis* wanted, nfsrdma_report report, void* data,
                                   nfsrdma_error** error);

/* ---- attributes ---- */

enum {
  NFSRDMA_TYPE_UNKNOWN = 0,
  NFSRDMA_TYPE_REGULAR = 1,
  NFSRDMA_TYPE_DIRECTORY = 2,
  NFSRDMA_TYPE_SYMLINK = 3,
  NFSRDMA_TYPE_BLOCK = 4,
  NFSRDMA_TYPE_CHARACTER = 5,
  NFSRDMA_TYPE_FIFO = 6,
  NFSRDMA_TYPE_SOCKET = 7
};

typedef struct nfsrdma_time {
  int64_t seconds;
  uint32_t nanoseconds;
  uint32_t reserved;
} nfsrdma_time;

enum { NFSRDMA_HAS_UID = 1, NFSRDMA_HAS_GID = 2 };

typedef struct nfsrdma_attributes {
  size_t struct_size;
  uint32_t type;
  uint32_t mode; /* permission bits, 07777 */
  uint32_t links;
  uint32_t has; /* which of uid and gid are known: owners may be names without a number on this machine */
  uint32_t uid, gid;
  uint64_t size, space_used, file_id, change;
  uint64_t filesystem_major, filesystem_minor;
  uint32_t device_major, device_minor;
  nfsrdma_time accessed, modified, changed;
  /* Owner and group as the server reports them, a number or name@domain: if the caller provides room, a text of
   * at most that many bytes with its zero is stored there. NULL: not wanted. */
  char* owner;
  size_t owner_room;
  char* group;
  size_t group_room;
} nfsrdma_attributes;

enum {
  NFSRDMA_SET_MODE = 1,
  NFSRDMA_SET_UID = 2,
  NFSRDMA_SET_GID = 4,
  NFSRDMA_SET_SIZE = 8,
  NFSRDMA_SET_ACCESSED = 16,
  NFSRDMA_SET_MODIFIED = 32,
  NFSRDMA_SET_ACCESSED_NOW = 64, /* to the server's clock */
  NFSRDMA_SET_MODIFIED_NOW = 128
};

typedef struct nfsrdma_changes {
  size_t struct_size;
  uint32_t set; /* which of the members are to be set */
  uint32_t mode, uid, gid;
  uint64_t size;
  nfsrdma_time accessed, modified;
} nfsrdma_changes;

typedef struct nfsrdma_space {
  size_t struct_size;
  uint64_t total, free, available;                   /* bytes */
  uint64_t files_total, files_free, files_available; /* inodes */
} nfsrdma_space;

/* ---- names. A path that begins with "/" begins at the server's root; others begin at the directory. "."
 * and ".." are resolved in the text. Symbolic links on the way are followed; at the end they are followed
 * unless NFSRDMA_NO_FOLLOW says otherwise, or the operation is about the name itself. ---- */

enum { NFSRDMA_NO_FOLLOW = 1 };

NFSRDMA_C_API int64_t nfsrdma_stat(nfsrdma_dir* dir, const char* path, uint32_t flags,
                                   nfsrdma_attributes* attributes, const nfsrdma_call* call,
                                   nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_set_attributes(nfsrdma_dir* dir, const char* path, uint32_t flags,
                                             const nfsrdma_changes* changes, const nfsrdma_call* call,
                                             nfsrdma_error** error);
/* `wanted`: bits of access(2): 4 read, 2 write, 1 execute. Returns those that the server grants. */
NFSRDMA_C_API int64_t nfsrdma_access(nfsrdma_dir* dir, const char* path, uint32_t wanted,
                                     const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_statfs(nfsrdma_dir* dir, const char* path, nfsrdma_space* space,
                                     const nfsrdma_call* call, nfsrdma_error** error);
/* Stores the text of a symbolic link, without a zero at its end. Returns its length; ERANGE if it is longer
 * than `room`. A `room` of 0 asks for the length only. */
NFSRDMA_C_API int64_t nfsrdma_readlink(nfsrdma_dir* dir, const char* path, char* text, size_t room,
                                       const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_mkdir(nfsrdma_dir* dir, const char* path, uint32_t mode,
                                    const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_symlink(nfsrdma_dir* dir, const char* text, const char* created,
                                      const nfsrdma_call* call, nfsrdma_error** error);
/* Makes a fifo, a socket, or a device. */
NFSRDMA_C_API int64_t nfsrdma_mknod(nfsrdma_dir* dir, const char* path, uint32_t type, uint32_t mode,
                                    uint32_t major, uint32_t minor, const nfsrdma_call* call,
                                    nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_unlink(nfsrdma_dir* dir, const char* path, const nfsrdma_call* call,
                                     nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_rmdir(nfsrdma_dir* dir, const char* path, const nfsrdma_call* call,
                                    nfsrdma_error** error);
/* Both directories must be of the same client (EXDEV). */
NFSRDMA_C_API int64_t nfsrdma_rename(nfsrdma_dir* from_dir, const char* from, nfsrdma_dir* to_dir,
                                     const char* to, const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_link(nfsrdma_dir* existing_dir, const char* existing, nfsrdma_dir* created_dir,
                                   const char* created, const nfsrdma_call* call, nfsrdma_error** error);
/* Opens a directory, so that paths can begin there. It is known by its handle: it stays the same directory
 * when it is renamed. A started call goes on if its directory is freed. */
NFSRDMA_C_API int64_t nfsrdma_open_dir(nfsrdma_dir* dir, const char* path, nfsrdma_dir** opened,
                                       const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API void nfsrdma_dir_free(nfsrdma_dir* dir);

/* ---- listing a directory: page by page, so that the memory needed does not grow with the directory ---- */

typedef struct nfsrdma_entry {
  size_t struct_size;
  const char* name; /* valid until the next nfsrdma_listing_next on the listing */
  uint64_t cookie;
  nfsrdma_attributes* attributes; /* room that the caller provides, or NULL */
  uint32_t has_attributes;        /* 0: the server could not report them */
  uint32_t reserved;
} nfsrdma_entry;

/* Makes a listing; asks nothing yet, so that a wrong path is an error of the first nfsrdma_listing_next. A
 * symbolic link at the end is followed. */
NFSRDMA_C_API nfsrdma_listing* nfsrdma_listing_new(nfsrdma_dir* dir, const char* path, nfsrdma_error** error);
/* Cancels a nfsrdma_listing_next that is under way. */
NFSRDMA_C_API void nfsrdma_listing_free(nfsrdma_listing* listing);
/* Fetches the next page. Returns the number of its entries, without "." and ".."; 0: there are no more. One
 * such call at a time. */
NFSRDMA_C_API int64_t nfsrdma_listing_next(nfsrdma_listing* listing, const nfsrdma_call* call,
                                           nfsrdma_error** error);
/* Fills in the entry of that number, from 0, of the current page. Returns 0; -1: there are fewer, or a
 * struct_size is wrong. */
NFSRDMA_C_API int nfsrdma_listing_entry(const nfsrdma_listing* listing, size_t number, nfsrdma_entry* entry);

/* ---- files ---- */

enum {
  NFSRDMA_READ = 1,
  NFSRDMA_WRITE = 2,
  NFSRDMA_CREATE = 4,
  NFSRDMA_EXCLUSIVE = 8, /* with CREATE: EEXIST if the file exists */
  NFSRDMA_TRUNCATE = 16
};

/* Opens a file, for NFSRDMA_READ, NFSRDMA_WRITE or both. `mode`: permissions of a file that is created; the
 * server applies no umask. */
NFSRDMA_C_API int64_t nfsrdma_open(nfsrdma_dir* dir, const char* path, uint32_t flags, uint32_t mode,
                                   nfsrdma_file** file, const nfsrdma_call* call, nfsrdma_error** error);
/* Commits what was written and closes the file. Calls that begin later fail with EBADF. Once begun, closing
 * goes on even if the call is cancelled. */
NFSRDMA_C_API int64_t nfsrdma_close(nfsrdma_file* file, const nfsrdma_call* call, nfsrdma_error** error);
/* Cancels the calls on the file that are under way, and frees it. If nfsrdma_close was not called, closes
 * the file first, waits for that, and reports no error. NULL: does nothing. */
NFSRDMA_C_API void nfsrdma_file_free(nfsrdma_file* file);

/* Reads into the caller's memory, which the server writes to directly. Returns the number of bytes; fewer
 * than `size` only at the end of the file. Reads larger than the option rsize are split, several pieces in
 * flight. */
NFSRDMA_C_API int64_t nfsrdma_pread(nfsrdma_file* file, void* data, size_t size, uint64_t offset,
                                    const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_preadv(nfsrdma_file* file, const struct iovec* parts, size_t count,
                                     uint64_t offset, const nfsrdma_call* call, nfsrdma_error** error);

enum {
  NFSRDMA_ON_DISK = 1 /* the data is on the server's disk when the call ends; else after nfsrdma_sync */
};

/* Writes all of the data. Returns `size`. Without NFSRDMA_ON_DISK the library keeps a copy until the data
 * is on the server's disk, and writes it again if the server loses it. If the call fails, parts may have
 * been written. */
NFSRDMA_C_API int64_t nfsrdma_pwrite(nfsrdma_file* file, const void* data, size_t size, uint64_t offset,
                                     uint32_t flags, const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_pwritev(nfsrdma_file* file, const struct iovec* parts, size_t count,
                                      uint64_t offset, uint32_t flags, const nfsrdma_call* call,
                                      nfsrdma_error** error);
/* Like nfsrdma_pwrite, but the library keeps no copy: the data must stay as it is until
 * `release(release_data)` is called, once, also if the call fails or was not started. `release` is called
 * on any thread, and must not call the library. */
NFSRDMA_C_API int64_t nfsrdma_pwrite_kept(nfsrdma_file* file, const void* data, size_t size, uint64_t offset,
                                          uint32_t flags, void (*release)(void*), void* release_data,
                                          const nfsrdma_call* call, nfsrdma_error** error);
/* Makes everything that was written stable (COMMIT), and writes again what a restarted server lost. Covers
 * the writes that have ended when the call begins. */
NFSRDMA_C_API int64_t nfsrdma_sync(nfsrdma_file* file, const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_fstat(nfsrdma_file* file, nfsrdma_attributes* attributes,
                                    const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_fset_attributes(nfsrdma_file* file, const nfsrdma_changes* changes,
                                              const nfsrdma_call* call, nfsrdma_error** error);

typedef struct nfsrdma_extent {
  size_t struct_size;
  uint64_t offset, length;
  uint32_t is_hole;
  uint32_t reserved;
} nfsrdma_extent;

typedef struct nfsrdma_holes {
  size_t struct_size;
  uint32_t has_holes; /* some of the bytes that were read are in holes */
  uint64_t hole_ends; /* end of the hole that contains the last byte; 0 if the last byte is data */
} nfsrdma_holes;

/* Like nfsrdma_pread, and stores which holes the server reported, if it reports holes (option read_plus). */
NFSRDMA_C_API int64_t nfsrdma_pread_holes(nfsrdma_file* file, void* data, size_t size, uint64_t offset,
                                          nfsrdma_holes* holes, const nfsrdma_call* call,
                                          nfsrdma_error** error);
/* Finds the next extent, hole or data, at or after `offset`. Returns 1, or 0 at the end of the file.
 * EOPNOTSUPP if the server has no SEEK. */
NFSRDMA_C_API int64_t nfsrdma_next_extent(nfsrdma_file* file, uint64_t offset, nfsrdma_extent* extent,
                                          const nfsrdma_call* call, nfsrdma_error** error);
/* Finds the next hole (`hole` not 0) or data at or after `offset`. Returns 1 and stores its offset; 0:
 * there is none. */
NFSRDMA_C_API int64_t nfsrdma_seek(nfsrdma_file* file, uint64_t offset, int hole, uint64_t* found,
                                   const nfsrdma_call* call, nfsrdma_error** error);
/* Reserves space on the server's disk; the file grows if it ends before the end of the range. */
NFSRDMA_C_API int64_t nfsrdma_allocate(nfsrdma_file* file, uint64_t offset, uint64_t length,
                                       const nfsrdma_call* call, nfsrdma_error** error);
/* Turns the range into a hole. */
NFSRDMA_C_API int64_t nfsrdma_punch(nfsrdma_file* file, uint64_t offset, uint64_t length,
                                    const nfsrdma_call* call, nfsrdma_error** error);
/* Copies within the server, between files of one client. Returns how many bytes were copied; they are
 * stable. Fewer than `count` is no error: continue after them. 0: the source has ended. EOPNOTSUPP if the
 * server has no COPY. */
NFSRDMA_C_API int64_t nfsrdma_copy(nfsrdma_file* source, uint64_t source_offset, nfsrdma_file* file,
                                   uint64_t offset, uint64_t count, const nfsrdma_call* call,
                                   nfsrdma_error** error);

/* ---- byte-range locks: advisory, as those of fcntl(2). A lost lock is reported: the next call on the file
 * fails with EIO, until the owner has unlocked the whole file. ---- */

#define NFSRDMA_TO_THE_END UINT64_MAX

typedef struct nfsrdma_lock {
  size_t struct_size;
  uint64_t owner; /* a number that the program chooses for each party that locks */
  uint32_t write; /* 1: exclusive; 0: shared */
  uint32_t ours;  /* of a holder: it is the lock owner `owner` of this client */
  uint64_t offset;
  uint64_t length; /* not 0; NFSRDMA_TO_THE_END: however far the file grows */
} nfsrdma_lock;

/* Waits at most `wait` milliseconds (0 or less: not at all) for a conflicting lock to go; then the error is
 * EAGAIN. The option timeo does not limit this, but the nfsrdma_call does. */
NFSRDMA_C_API int64_t nfsrdma_lock_range(nfsrdma_file* file, const nfsrdma_lock* lock, int64_t wait,
                                         const nfsrdma_call* call, nfsrdma_error** error);
/* Commits what was written and unlocks. The commit's error is returned; the lock is released even then. */
NFSRDMA_C_API int64_t nfsrdma_unlock_range(nfsrdma_file* file, const nfsrdma_lock* lock,
                                           const nfsrdma_call* call, nfsrdma_error** error);
/* Returns 1 and stores a lock that conflicts with the request; 0: there is none. */
NFSRDMA_C_API int64_t nfsrdma_test_lock(nfsrdma_file* file, const nfsrdma_lock* lock, nfsrdma_lock* holder,
                                        const nfsrdma_call* call, nfsrdma_error** error);

/* ---- many small files at once. With NFSv4.1 and 4.2 one request carries a dozen files or more, and
 * several requests are in flight. The functions return the number of items that succeeded; every other item
 * has its own error, which the caller frees. They return -1 only if the arguments are wrong. `item_size` is
 * sizeof *items. ---- */

typedef struct nfsrdma_read_item {
  const char* path; /* to set */
  void* data;
  size_t room;
  nfsrdma_attributes* attributes; /* room for the attributes just after the read, or NULL */
  int64_t count;                  /* result: bytes read; -1: failed */
  uint32_t eof;                   /* the file ends there; 0: it is longer than `room` */
  uint32_t has_attributes;        /* they are without owner and group */
  nfsrdma_error* error;
} nfsrdma_read_item;

typedef struct nfsrdma_write_item {
  const char* path; /* to set; the data becomes the file's whole content and is on the server's disk */
  const void* data;
  size_t size;
  nfsrdma_attributes* attributes;
  uint32_t mode;           /* permissions of a file that is made; the server applies no umask */
  uint32_t has_attributes; /* result */
  int64_t count;           /* result: bytes written; -1: failed */
  nfsrdma_error* error;
} nfsrdma_write_item;

typedef struct nfsrdma_stat_item {
  const char* path; /* to set */
  nfsrdma_attributes* attributes;
  int64_t count; /* result: 0; -1: failed */
  nfsrdma_error* error;
} nfsrdma_stat_item;

NFSRDMA_C_API int64_t nfsrdma_read_many(nfsrdma_dir* dir, nfsrdma_read_item* items, size_t count,
                                        size_t item_size, const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_write_many(nfsrdma_dir* dir, nfsrdma_write_item* items, size_t count,
                                         size_t item_size, const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_stat_many(nfsrdma_dir* dir, nfsrdma_stat_item* items, size_t count,
                                        size_t item_size, uint32_t flags, const nfsrdma_call* call,
                                        nfsrdma_error** error);

/* ---- extended attributes, those that Linux calls "user.NAME"; `name` without "user." ---- */

enum { NFSRDMA_XATTR_CREATE = 1, NFSRDMA_XATTR_REPLACE = 2 };

/* Returns the value's length; ERANGE if it is longer than `room`. A `room` of 0 asks for the length only. */
NFSRDMA_C_API int64_t nfsrdma_get_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags, const char* name,
                                        void* value, size_t room, const nfsrdma_call* call,
                                        nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_set_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags, const char* name,
                                        const void* value, size_t size, uint32_t how,
                                        const nfsrdma_call* call, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_remove_xattr(nfsrdma_dir* dir, const char* path, uint32_t flags,
                                           const char* name, const nfsrdma_call* call, nfsrdma_error** error);
/* Stores the names, each with a zero at its end. Returns the number of bytes; ERANGE as above. */
NFSRDMA_C_API int64_t nfsrdma_list_xattrs(nfsrdma_dir* dir, const char* path, uint32_t flags, char* names,
                                          size_t room, const nfsrdma_call* call, nfsrdma_error** error);

/* ---- access control lists. A server has POSIX lists (NFSv3) or NFSv4 lists; setting the other form fails
 * with EOPNOTSUPP. ---- */

enum { NFSRDMA_ACL_POSIX = 1, NFSRDMA_ACL_NFS4 = 2 };

typedef struct nfsrdma_ace {
  size_t struct_size;
  /* POSIX: 1 owner, 2 user, 4 owning group, 8 group, 16 mask, 32 other. NFSv4: 0 allow, 1 deny, 2 audit, 3 alarm */
  uint32_t type;
  uint32_t flags;       /* NFSv4: inheritance, and 0x40: `who` is a group */
  uint32_t permissions; /* POSIX: 4 read, 2 write, 1 execute. NFSv4: the mask of RFC 8881 6.2.1.3 */
  uint32_t id;          /* POSIX: of a named user or group */
  uint32_t inherited;   /* POSIX: 1: the entry is of the default list of a directory */
  const char* who;      /* NFSv4: OWNER@, GROUP@, EVERYONE@, name@domain, or a number */
} nfsrdma_ace;

/* How ids are shown as names and names are read as ids. `name` stores at most `room` bytes with the zero
 * and returns 1, or 0 if the id has no name; `id` returns 1 and stores the id, or 0. NULL: numbers only. */
typedef struct nfsrdma_acl_names {
  size_t struct_size;
  int (*name)(void* data, int group, uint32_t id, char* text, size_t room);
  int (*id)(void* data, int group, const char* name, uint32_t* id);
  void* data;
} nfsrdma_acl_names;

NFSRDMA_C_API nfsrdma_acl* nfsrdma_acl_new(int form); /* an empty list; NULL: no memory, or no such form */
NFSRDMA_C_API void nfsrdma_acl_free(nfsrdma_acl* acl);
NFSRDMA_C_API int nfsrdma_acl_form(const nfsrdma_acl* acl);
/* Fills in the entry of that number, from 0. Returns 0; -1: there are fewer. `who` is valid as long as the
 * list. */
NFSRDMA_C_API int nfsrdma_acl_entry(const nfsrdma_acl* acl, size_t number, nfsrdma_ace* entry);
NFSRDMA_C_API int nfsrdma_acl_add(nfsrdma_acl* acl, const nfsrdma_ace* entry, nfsrdma_error** error);
/* Parses text as getfacl(1) or nfs4_getfacl(1) prints it, separated by newlines or commas. */
NFSRDMA_C_API nfsrdma_acl* nfsrdma_acl_parse(const char* text, const nfsrdma_acl_names* names,
                                             nfsrdma_error** error);
/* Returns the list as text, one entry per line. The caller frees it with nfsrdma_text_free. */
NFSRDMA_C_API char* nfsrdma_acl_text(const nfsrdma_acl* acl, const nfsrdma_acl_names* names);
NFSRDMA_C_API void nfsrdma_text_free(char* text);
/* Adds to a POSIX list what it leaves out, as setfacl(1) does, from the list that the object has. */
NFSRDMA_C_API int nfsrdma_acl_complete(nfsrdma_acl* wanted, const nfsrdma_acl* current,
                                       nfsrdma_error** error);
/* Sorts a POSIX list. EINVAL if an entry is missing, occurs twice or has no meaning. */
NFSRDMA_C_API int nfsrdma_acl_sort(nfsrdma_acl* acl, nfsrdma_error** error);
NFSRDMA_C_API int64_t nfsrdma_get_acl(nfsrdma_dir* dir, const char* path, uint32_t flags, nfsrdma_acl** acl,
                                      const nfsrdma_call* call, nfsrdma_error** error);
/* Replaces the whole list; of POSIX lists both, and an empty default list removes that of a directory. */
NFSRDMA_C_API int64_t nfsrdma_set_acl(nfsrdma_dir* dir, const char* path, uint32_t flags,
                                      const nfsrdma_acl* acl, const nfsrdma_call* call,
                                      nfsrdma_error** error);

#ifdef __cplusplus
}
#endif
#endif
