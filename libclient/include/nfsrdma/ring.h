/* A way around the kernel: a ring in memory that a program shares with the daemon of a mount (nfsrdma-fuse(8)).
 *
 * A program opens files of the mount as ever. It then has a ring, attaches its descriptors to it, and from then on
 * reads and writes by requests in shared memory: without a system call for each, with as many in flight as it likes,
 * and what is read is placed by the server straight into the ring's memory, or copied there (on the iwarp fabric, where
 * others may use the mount, too). Everything else (names, attributes, locks, mappings, ftruncate) goes on through the
 * descriptor, and both ways see each other's data.
 *
 *   struct nfsrdma_ring* ring;
 *   int fd = open("/mnt/data", O_RDONLY);
 *   int error = nfsrdma_ring_open(fd, NULL, &ring);
 *   if (error == 0) {
 *     struct nfsrdma_ring_file file;
 *     error = nfsrdma_ring_attach(ring, fd, &file);
 *   }
 *   if (error != 0) … go on with read(2): -error says why …
 *
 *   char* memory = nfsrdma_ring_memory(ring, NULL);
 *   struct nfsrdma_ring_request request = {NFSRDMA_RING_READ, &file, memory, 4096, 0, 0, 17};
 *   nfsrdma_ring_queue(ring, &request);                  // as many as there is room for
 *   nfsrdma_ring_submit(ring);
 *   struct nfsrdma_ring_completion done;
 *   if (nfsrdma_ring_completions(ring, &done, 1, 1, -1) == 1 && done.result >= 0)
 *     … done.result bytes of request done.tag are at `memory` …
 *   nfsrdma_ring_close(ring);
 *
 * gcc -std=c11 … -lnfsrdma-ring. C11 and C++; needs nothing but libc.
 *
 * What it means. A READ is read(2): fewer bytes than asked for are the end of the file, and it sees what was written
 * before it was queued, whichever way and by whoever on this mount. A WRITE that was answered is one that write(2)
 * has returned from: on its way, on the server's disk after fsync(2), close(2) or NFSRDMA_RING_SYNC, which tell of
 * errors that came late. It heeds O_APPEND, O_SYNC and O_DSYNC as they were when the file was attached. Requests
 * that are in flight together are done in any order. Opening and closing make up close-to-open consistency as ever.
 * A ring is for one process: a child of fork(2) does not have it, and every function gives -ENOTCONN there.
 *
 * Rights are those of the descriptor. A file is attached until the last descriptor of that open file is closed.
 *
 * Memory. All data lies in the ring's memory. A request's part of it is the daemon's until the request is answered;
 * a program that touches it before reads or writes bytes that mean nothing. Requests may share a part if they only
 * write from it.
 *
 * Errors are errno values below zero. They never end the program or the mount: -ENOTCONN is given by everything once
 * the daemon has ended or has ended the ring, also for what was in flight; whether that was done is not known.
 *
 * Thread-safety: nfsrdma_ring_queue, _submit and _run may be called from any thread at any time and from signal
 * handlers; _completions by one thread at a time; _open, _attach and _close as any function that is not safe.
 *
 * Mounts with `noring`, and those that are not nfsrdma's, refuse nfsrdma_ring_open. So does the daemon of a mount that
 * lies in another network namespace. With writeback_cache files that are open for writing cannot be attached. */
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
  unsigned depth; /* requests in flight at most: up to 256; 0: 64 */
  size_t memory;  /* bytes for data: up to 256 MiB; 0: 16 MiB */
};

/* An open file, as the ring knows it. A plain value. */
struct nfsrdma_ring_file {
  uint32_t number;
  uint32_t flags;
};

enum nfsrdma_ring_operation {
  NFSRDMA_RING_NOTHING = 0, /* is answered, and that is all */
  NFSRDMA_RING_READ = 1,
  NFSRDMA_RING_WRITE = 2,
  NFSRDMA_RING_SYNC = 3 /* fsync(2) */
};
enum {
  NFSRDMA_RING_AHEAD = 2, /* of a READ, where the next ones go on behind it: the daemon reads ahead */
  NFSRDMA_RING_MOST_LENGTH = 1 << 20
};

struct nfsrdma_ring_request {
  enum nfsrdma_ring_operation operation;
  const struct nfsrdma_ring_file* file;
  void* data;    /* READ, WRITE: in the ring's memory */
  size_t length; /* at most NFSRDMA_RING_MOST_LENGTH */
  uint64_t offset;
  unsigned flags;
  uint64_t tag; /* comes back with the answer */
};

struct nfsrdma_ring_completion {
  uint64_t tag;
  uint64_t where; /* WRITE: the offset that it went to, with O_APPEND another than was asked for */
  ssize_t result; /* bytes, or the errno below zero */
};

/* Has a ring with the mount that `fd` is a file of. 0, and the ring is the caller's to close. -ENOTTY: it is no file
 * of such a mount; -EDQUOT: the user has as many rings, or as much memory in them, as one may have; -ECONNREFUSED:
 * the daemon cannot be reached from here. */
NFSRDMA_RING_API int nfsrdma_ring_open(int fd, const struct nfsrdma_ring_options* options,
                                       struct nfsrdma_ring** ring);
/* Requests that are in flight are done, or not; nobody hears. No other thread may be in the ring. */
NFSRDMA_RING_API void nfsrdma_ring_close(struct nfsrdma_ring* ring);

/* The memory for data, aligned to a page; the caller's to divide. `size` may be null. */
NFSRDMA_RING_API void* nfsrdma_ring_memory(const struct nfsrdma_ring* ring, size_t* size);
NFSRDMA_RING_API unsigned nfsrdma_ring_depth(const struct nfsrdma_ring* ring);

/* 0, and `file` is for requests of this ring. The same open file may be attached any number of times. -ENOENT: it is
 * on another mount; -EOPNOTSUPP: it cannot be attached (writeback_cache); -EMFILE: 4096 are. */
NFSRDMA_RING_API int nfsrdma_ring_attach(struct nfsrdma_ring* ring, int fd, struct nfsrdma_ring_file* file);

/* Hands a request over; it need not be kept. The daemon may begin it at once, and surely does after the next
 * nfsrdma_ring_submit. 0; -EAGAIN: as many as the ring has room for are in flight; -EFAULT: the data does not lie in
 * the ring's memory; -EINVAL: it is too long, or has no file. */
NFSRDMA_RING_API int nfsrdma_ring_queue(struct nfsrdma_ring* ring,
                                        const struct nfsrdma_ring_request* request);
NFSRDMA_RING_API void nfsrdma_ring_submit(struct nfsrdma_ring* ring);

/* Answers, as many as there are up to `most`, in any order; until there are `least`, or as many as are in flight, it
 * waits up to `timeout` milliseconds, -1: for as long as it takes. To be woken for several at a time saves both ends
 * most of what waking costs. Gives how many; 0: none in time. -EINTR: a signal came. */
NFSRDMA_RING_API int nfsrdma_ring_completions(struct nfsrdma_ring* ring, struct nfsrdma_ring_completion* out,
                                              int most, int least, int timeout);
/* For poll(2) beside other things: arm the ring, and where that gives 0 the descriptor becomes readable once there is
 * an answer. 1: there is one already. Then call nfsrdma_ring_completions. */
NFSRDMA_RING_API int nfsrdma_ring_descriptor(const struct nfsrdma_ring* ring);
NFSRDMA_RING_API int nfsrdma_ring_arm(struct nfsrdma_ring* ring);

/* One request, and waits for it: bytes, or the errno below zero. `where` may be null. */
NFSRDMA_RING_API ssize_t nfsrdma_ring_run(struct nfsrdma_ring* ring,
                                          const struct nfsrdma_ring_request* request, uint64_t* where);

#ifdef __cplusplus
}
#endif
#endif
