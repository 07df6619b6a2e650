/* A ring: memory that a program shares with the daemon of a mount (nfsrdma-fuse(8)), for I/O that bypasses
 * the kernel.
 *
 * A program opens files of the mount as usual. It then opens a ring, attaches its descriptors to the ring,
 * and from then on reads and writes by requests in the shared memory. A request needs no system call of its
 * own, and many requests may be in flight. The server places the data of a READ straight into the ring's
 * memory; on the iwarp fabric of a mount that other users may use, too, the daemon copies it there.
 * Everything else (names, attributes, locks, mappings, ftruncate) goes through the descriptor as before, and
 * both ways see each other's data.
 *
 *   struct nfsrdma_ring* ring;
 *   int fd = open("/mnt/data", O_RDONLY);
 *   int error = nfsrdma_ring_open(fd, NULL, &ring);
 *   if (error == 0) {
 *     struct nfsrdma_ring_file file;
 *     error = nfsrdma_ring_attach(ring, fd, &file);
 *   }
 *   if (error != 0) ... go on with read(2): -error says why ...
 *
 *   char* memory = nfsrdma_ring_memory(ring, NULL);
 *   struct nfsrdma_ring_request request = {NFSRDMA_RING_READ, &file, memory, 4096, 0, 0, 17};
 *   nfsrdma_ring_queue(ring, &request);                  // as many as there is room for
 *   nfsrdma_ring_submit(ring);
 *   struct nfsrdma_ring_completion done;
 *   if (nfsrdma_ring_completions(ring, &done, 1, 1, -1) == 1 && done.result >= 0)
 *     ... done.result bytes of request done.tag are at `memory` ...
 *   nfsrdma_ring_close(ring);
 *
 * gcc -std=c11 ... -lnfsrdma-ring. C11 and C++; needs nothing but libc.
 *
 * Semantics. A READ behaves like read(2): fewer bytes than asked for mean the end of the file, and it sees
 * all data that was written before it was queued, by whichever way and by any program on this mount. A WRITE
 * that was answered is like a write(2) that has returned: the data is on its way to the server, and is on the
 * server's disk after fsync(2), close(2) or NFSRDMA_RING_SYNC, which report errors that came late. A WRITE
 * follows O_APPEND, O_SYNC and O_DSYNC as they were set when the file was attached. Requests that are in
 * flight together are done in any order. Opening and closing give close-to-open consistency as usual. A ring
 * is for one process: a child of fork(2) does not have it, and every function that uses it returns -ENOTCONN
 * there.
 *
 * Permissions are those of the descriptor. A file stays attached until the last descriptor of that open file
 * is closed.
 *
 * Memory. All data is in the ring's memory. The part that a request names belongs to the daemon until the
 * request is answered; a program that touches it before then reads or writes undefined bytes. WRITE requests
 * may share a part.
 *
 * Errors are negative errno values. They never end the program or the mount. Once the daemon has ended, or
 * has ended the ring, everything returns -ENOTCONN, including requests that were in flight; whether those
 * were done is unknown.
 *
 * Thread-safety: nfsrdma_ring_queue, _submit and _run may be called from any thread at any time, and from
 * signal handlers; _completions by one thread at a time; _open, _attach and _close may not be called from a
 * signal handler.
 *
 * nfsrdma_ring_open fails on mounts with `noring`, on mounts that are not nfsrdma's, and if the daemon of the
 * mount is in another network namespace. With writeback_cache, files that are open for writing cannot be
 * attached. */
#ifndef NFSRDMA_RING_H
#define NFSRDMA_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NFSRDMA_RING_API __attribute__((visibility("default")))
#else
#define NFSRDMA_RING_API
#endif

struct nfsrdma_ring;

struct nfsrdma_ring_options {
  unsigned depth; /* most requests in flight: up to 256; 0: 64 */
  size_t memory;  /* bytes of memory for data: up to 256 MiB; 0: 16 MiB */
};

/* An open file that is attached to a ring. A plain value. */
struct nfsrdma_ring_file {
  uint32_t number;
  uint32_t flags;
};

enum nfsrdma_ring_operation {
  NFSRDMA_RING_NOTHING = 0, /* no operation: the request is only answered */
  NFSRDMA_RING_READ = 1,
  NFSRDMA_RING_WRITE = 2,
  NFSRDMA_RING_SYNC = 3 /* fsync(2) */
};
enum {
  NFSRDMA_RING_AHEAD = 2, /* flag of a READ that others will follow in sequence: the daemon reads ahead */
  NFSRDMA_RING_MOST_LENGTH = 1 << 20
};

struct nfsrdma_ring_request {
  enum nfsrdma_ring_operation operation;
  const struct nfsrdma_ring_file* file;
  void* data;    /* READ, WRITE: a place in the ring's memory */
  size_t length; /* at most NFSRDMA_RING_MOST_LENGTH */
  uint64_t offset;
  unsigned flags;
  uint64_t tag; /* the program's own number; returned with the answer */
};

struct nfsrdma_ring_completion {
  uint64_t tag;
  uint64_t where; /* WRITE: the offset at which it wrote; with O_APPEND not the one in the request */
  ssize_t result; /* number of bytes, or a negative errno */
};

/* Opens a ring with the daemon of the mount on which `fd` is an open file. Returns 0 and stores the ring,
 * which the caller closes. -ENOTTY: `fd` is not a file of such a mount; -EDQUOT: the user has as many rings,
 * or as much memory in rings, as a user may have; -ECONNREFUSED: the daemon cannot be reached from here. */
NFSRDMA_RING_API int nfsrdma_ring_open(int fd, const struct nfsrdma_ring_options* options,
                                       struct nfsrdma_ring** ring);
/* Closes the ring. A request that is in flight may or may not be done; its answer is discarded. No other
 * thread may be using the ring. */
NFSRDMA_RING_API void nfsrdma_ring_close(struct nfsrdma_ring* ring);

/* Returns the memory for data, aligned to a page. The caller divides it among its requests. `size` may be
 * null. */
NFSRDMA_RING_API void* nfsrdma_ring_memory(const struct nfsrdma_ring* ring, size_t* size);
NFSRDMA_RING_API unsigned nfsrdma_ring_depth(const struct nfsrdma_ring* ring);

/* Attaches the open file of `fd` to the ring. Returns 0 and fills in `file`, which is valid in requests of
 * this ring. An open file may be attached any number of times. -ENOENT: the file is on another mount;
 * -EOPNOTSUPP: the file cannot be attached (writeback_cache); -EMFILE: 4096 files are attached already. */
NFSRDMA_RING_API int nfsrdma_ring_attach(struct nfsrdma_ring* ring, int fd, struct nfsrdma_ring_file* file);

/* Queues a request; `request` may be reused when the call returns. The daemon may begin it at once, and
 * certainly does after the next nfsrdma_ring_submit. Returns 0; -EAGAIN: as many requests are in flight as
 * the ring has room for; -EFAULT: the data is not in the ring's memory; -EINVAL: the request is too long, or
 * a READ or WRITE has no file. */
NFSRDMA_RING_API int nfsrdma_ring_queue(struct nfsrdma_ring* ring,
                                        const struct nfsrdma_ring_request* request);
NFSRDMA_RING_API void nfsrdma_ring_submit(struct nfsrdma_ring* ring);

/* Waits for answers and stores up to `most` of them, in any order. Waits until there are `least` answers, or
 * as many as requests are in flight, but at most `timeout` milliseconds (-1: for as long as it takes). Being
 * woken once for several answers saves both the program and the daemon most of the cost of waking. Returns
 * the number of answers stored; 0: none came in time; -EINTR: a signal came. */
NFSRDMA_RING_API int nfsrdma_ring_completions(struct nfsrdma_ring* ring, struct nfsrdma_ring_completion* out,
                                              int most, int least, int timeout);
/* nfsrdma_ring_descriptor and nfsrdma_ring_arm let a program wait in poll(2) for the ring together with other
 * descriptors. Call nfsrdma_ring_arm first. If it returns 0, the descriptor becomes readable once there is an
 * answer; 1 means that there is one already. Then call nfsrdma_ring_completions. */
NFSRDMA_RING_API int nfsrdma_ring_descriptor(const struct nfsrdma_ring* ring);
NFSRDMA_RING_API int nfsrdma_ring_arm(struct nfsrdma_ring* ring);

/* Queues one request and waits for its answer. Returns the number of bytes, or a negative errno. `where` may
 * be null. */
NFSRDMA_RING_API ssize_t nfsrdma_ring_run(struct nfsrdma_ring* ring,
                                          const struct nfsrdma_ring_request* request, uint64_t* where);

#ifdef __cplusplus
}
#endif
#endif
