/* libnfsrdma-preload.so lets a program that knows nothing of rings bypass the kernel: read(2), write(2) and
 * similar calls use a ring if their descriptor is a file of an nfsrdma mount (nfsrdma/ring.h).
 *
 *   LD_PRELOAD=libnfsrdma-preload.so program ...
 *
 * Offsets: only the kernel knows what a descriptor is. Nothing that a program could share, hand on or inherit
 * is kept here. The offset of an open file stays in the kernel, where dup(2), fork(2), exec(3) and SCM_RIGHTS
 * share it. A read asks for the offset, reads, and moves the offset on by the bytes that it got. If another
 * thread or process has moved it meanwhile, the part that this read has moved over is its own, and is read
 * instead. A write moves the offset on first, which the kernel does in one step, and then writes the part
 * that it has moved over. So processes that write to one log by one open file never write over each other.
 *
 * Table: for the number of each descriptor an entry says what the number leads to: not known yet, a file on a
 * ring, or nothing that this library serves. Each call that may give the number another meaning (close, dup2,
 * fclose ...) clears the entry before and after. Each clearing increases the entry's age, so that a thread
 * which was about to fill the entry in does not do so. A number that is given away without libc (a close by
 * hand-written assembly) is missed.
 *
 * Left to the kernel: small requests (`least`), because the kernel has pages of its own for them, and the
 * beginning of every file, because most files are read in one go and attaching a file costs a request to the
 * daemon. If the ring fails before a byte was moved, the call is repeated through the kernel, which then
 * reports the error in its own words. An append is not repeated if it may have been done. An append that does
 * not fit into one request is left to the kernel, so that it stays in one piece.
 *
 * Threads and signal handlers: there is no lock and no malloc. A contended resource (ring slots, buffers, the
 * making of a ring) is tried once; if it cannot be had, the kernel does the call. In a child of fork(2) the
 * table reads as zero (MADV_WIPEONFORK), so the child begins anew. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "nfsrdma/ring.h"
#include "ring/alone.h"
#include "ring/layout.h"

#define EXPORTED __attribute__((visibility("default")))

enum {
  MOST_DESCRIPTORS = 1 << 16,
  MOST_MOUNTS = 8,
  BUFFERS = 32,
  BUFFER_SIZE = 1 << 20,
  TOGETHER = 4, /* most buffers of one call */
  CALLS_BEFORE = 2
};

/* ---- libc's own ---- */

#define REAL_FUNCTIONS(X)                                                \
  X(ssize_t, read, (int, void*, size_t))                                 \
  X(ssize_t, write, (int, const void*, size_t))                          \
  X(ssize_t, pread64, (int, void*, size_t, off64_t))                     \
  X(ssize_t, pwrite64, (int, const void*, size_t, off64_t))              \
  X(ssize_t, readv, (int, const struct iovec*, int))                     \
  X(ssize_t, writev, (int, const struct iovec*, int))                    \
  X(ssize_t, preadv64, (int, const struct iovec*, int, off64_t))         \
  X(ssize_t, pwritev64, (int, const struct iovec*, int, off64_t))        \
  X(ssize_t, preadv64v2, (int, const struct iovec*, int, off64_t, int))  \
  X(ssize_t, pwritev64v2, (int, const struct iovec*, int, off64_t, int)) \
  X(int, open64, (const char*, int, ...))                                \
  X(int, openat64, (int, const char*, int, ...))                         \
  X(int, close, (int))                                                   \
  X(int, dup, (int))                                                     \
  X(int, dup2, (int, int))                                               \
  X(int, dup3, (int, int, int))                                          \
  X(int, fcntl64, (int, int, ...))                                       \
  X(int, close_range, (unsigned, unsigned, int))                         \
  X(int, fclose, (FILE*))                                                \
  X(FILE*, freopen64, (const char*, const char*, FILE*))

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type
#define DECLARE(result, name, arguments) static result(*real_##name) arguments;
REAL_FUNCTIONS(DECLARE)
#undef DECLARE

static void resolve(void) {
#define RESOLVE(result, name, arguments) *(void**)(&real_##name) = dlsym(RTLD_NEXT, #name);
  REAL_FUNCTIONS(RESOLVE)
#undef RESOLVE
}

/* Resolves the functions on demand, because constructors of other libraries may run before begin_all(). */
#define REAL(name) (real_##name == NULL ? (resolve(), real_##name) : real_##name)

/* ---- what descriptors lead to ---- */

struct mount {
  _Atomic(struct nfsrdma_ring*) ring; /* set last */
  char* memory;
  dev_t device;
  _Atomic uint64_t buffers; /* free buffers, a bit for each */
};

static struct table {
  struct mount mounts[MOST_MOUNTS];
  atomic_uint mounts_used;
  atomic_uint making;
  atomic_int highest; /* highest descriptor that has an entry */
  _Atomic uint64_t entries[MOST_DESCRIPTORS];
}* table; /* NULL: everything goes through the kernel */

static size_t least = 16 << 10;

/* An entry: number of the file in bits 0 to 31, its flags in 32 to 39, the mount in 40 to 43, calls so far in
 * 44 to 45, the kind in 46 and 47, its age above. */
enum { UNKNOWN = 0, ON_RING = 1, NOT_OURS = 2 };
enum { FLAGS_AT = 32, MOUNT_AT = 40, CALLS_AT = 44, KIND_AT = 46, AGE_AT = 48 };
/* A flag next to those that nfsrdma_ring_attach gives. RING_APPEND among those may be out of date: see
 * with_append(). */
enum { IS_DIRECT = 0x80 };

static unsigned kind_of(uint64_t entry) {
  return (unsigned)(entry >> KIND_AT) & 3U;
}
static uint64_t age_of(uint64_t entry) {
  return entry >> AGE_AT;
}
static uint64_t kept_age(uint64_t entry, unsigned kind) {
  return age_of(entry) << AGE_AT | (uint64_t)kind << KIND_AT;
}

static bool is_tracked(int fd) {
  return table != NULL && fd >= 0 && fd < MOST_DESCRIPTORS;
}

static void clear(int fd) {
  if (!is_tracked(fd)) return;
  uint64_t entry = atomic_load(&table->entries[fd]);
  while (!atomic_compare_exchange_weak(&table->entries[fd], &entry, (age_of(entry) + 1) << AGE_AT)) {
  }
}

/* Returns the mount whose ring has this socket, or -1. Programs do not know of these descriptors. */
static int mount_of_socket(int fd) {
  if (table == NULL || fd < 0) return -1;
  for (int i = 0; i < MOST_MOUNTS; ++i) {
    struct nfsrdma_ring* ring = atomic_load(&table->mounts[i].ring);
    if (ring != NULL && nfsrdma_ring_descriptor(ring) == fd) return i;
  }
  return -1;
}

/* Called when our socket may be about to become something else. Calls that use its ring go on through the
 * kernel. */
static void give_away(int fd) {
  const int mount = mount_of_socket(fd);
  if (mount >= 0) ring_abandon(atomic_load(&table->mounts[mount].ring));
}

/* Makes a ring with the mount of this file, and returns its index in `mounts`, or -1 if there is none. A
 * thread that comes while another one makes a ring goes through the kernel. */
static int make_mount(int fd, dev_t device) {
  const struct nfsrdma_ring_options options = {.depth = BUFFERS, .memory = (size_t)BUFFERS * BUFFER_SIZE};
  struct nfsrdma_ring* ring = NULL;
  if (atomic_exchange(&table->making, 1) != 0) return -1;
  int place = (int)atomic_load(&table->mounts_used);
  if (place < MOST_MOUNTS && nfsrdma_ring_open(fd, &options, &ring) == 0) {
    struct mount* mount = &table->mounts[place];
    mount->memory = nfsrdma_ring_memory(ring, NULL);
    mount->device = device;
    atomic_store(&mount->buffers, (UINT64_C(1) << BUFFERS) - 1);
    atomic_store(&mount->ring, ring);
    atomic_store(&table->mounts_used, (unsigned)place + 1);
  } else {
    place = -1;
  }
  atomic_store(&table->making, 0);
  return place;
}

static uint64_t attached(int fd, int place, uint64_t entry) {
  struct nfsrdma_ring_file file;
  const int flags = real_fcntl64(fd, F_GETFL);
  if (flags < 0 || nfsrdma_ring_attach(atomic_load(&table->mounts[place].ring), fd, &file) != 0) return 0;
  const uint64_t all = file.flags | ((flags & O_DIRECT) != 0 ? (unsigned)IS_DIRECT : 0U);
  return kept_age(entry, ON_RING) | (uint64_t)place << MOUNT_AT | all << FLAGS_AT | file.number;
}

/* Finds out what the descriptor leads to, and returns the new entry. */
static uint64_t found_out(int fd, uint64_t entry) {
  struct stat status;
  struct statfs system;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return kept_age(entry, NOT_OURS);
  for (int i = 0; i < MOST_MOUNTS; ++i) {
    struct nfsrdma_ring* ring = atomic_load(&table->mounts[i].ring);
    if (ring == NULL || table->mounts[i].device != status.st_dev || !ring_is_alive(ring)) continue;
    const uint64_t out = attached(fd, i, entry);
    if (out != 0) return out;
  }
  if (fstatfs(fd, &system) != 0 || system.f_type != FUSE_SUPER_MAGIC) return kept_age(entry, NOT_OURS);
  const int place = make_mount(fd, status.st_dev);
  const uint64_t out = place < 0 ? 0 : attached(fd, place, entry);
  return out != 0 ? out : kept_age(entry, NOT_OURS);
}

/* Returns the entry of a file on a ring for a request of this size, else 0. */
static uint64_t on_ring(int fd, size_t size) {
  if (!is_tracked(fd) || size == 0) return 0;
  uint64_t entry = atomic_load(&table->entries[fd]);
  if (kind_of(entry) == NOT_OURS) return 0;
  if (kind_of(entry) == UNKNOWN) {
    const unsigned calls = (unsigned)(entry >> CALLS_AT) & 3U;
    const int code = errno;
    const uint64_t next = calls < CALLS_BEFORE ? entry + (UINT64_C(1) << CALLS_AT) : found_out(fd, entry);
    errno = code;
    if (!atomic_compare_exchange_strong(&table->entries[fd], &entry, next)) return 0;
    int highest = atomic_load_explicit(&table->highest, memory_order_relaxed);
    while (highest < fd && !atomic_compare_exchange_weak(&table->highest, &highest, fd)) {
    }
    entry = next;
  }
  if (kind_of(entry) != ON_RING) return 0;
  if (size < least && (entry >> FLAGS_AT & IS_DIRECT) == 0) return 0;
  return entry;
}

/* ---- moving bytes ---- */

/* A position in a program's pieces of memory. */
struct cursor {
  const struct iovec* piece;
  size_t used; /* bytes of that piece */
};

static void copy(struct cursor* at, char* buffer, size_t size, bool to_buffer) {
  while (size != 0) {
    const size_t left = at->piece->iov_len - at->used;
    const size_t part = left < size ? left : size;
    char* memory = (char*)at->piece->iov_base + at->used;
    if (part != 0) memcpy(to_buffer ? buffer : memory, to_buffer ? memory : buffer, part);
    buffer += part;
    size -= part;
    at->used += part;
    if (at->used == at->piece->iov_len) {
      ++at->piece;
      at->used = 0;
    }
  }
}

/* Returns the size of all pieces, or SIZE_MAX if that is more than one call may move, or makes no sense. */
static size_t sum_of(const struct iovec* pieces, int count) {
  size_t sum = 0;
  if (count < 0 || count > IOV_MAX) return SIZE_MAX;
  for (int i = 0; i < count; ++i) {
    if (pieces[i].iov_len > (size_t)SSIZE_MAX - sum) return SIZE_MAX;
    sum += pieces[i].iov_len;
  }
  return sum;
}

/* Takes as many buffers as are wanted and free, up to TOGETHER, and returns how many. */
static int take_buffers(struct mount* mount, size_t size, int* out) {
  const size_t wanted = (size + BUFFER_SIZE - 1) / BUFFER_SIZE;
  uint64_t all = atomic_load(&mount->buffers);
  int count = 0;
  while (all != 0 && count < TOGETHER && (size_t)count < wanted) {
    if (!atomic_compare_exchange_weak(&mount->buffers, &all, all & (all - 1))) continue;
    out[count++] = __builtin_ctzll(all);
    all &= all - 1;
  }
  return count;
}

static void give_buffer(struct mount* mount, int buffer) {
  atomic_fetch_or(&mount->buffers, UINT64_C(1) << buffer);
}

/* A request of a call that is divided into several requests in flight. */
struct flight {
  int slot;
  int buffer;
  size_t size;
};

struct transfer {
  struct mount* mount;
  struct nfsrdma_ring* ring;
  struct nfsrdma_ring_file file;
  bool writes;
  bool ahead;
  uint64_t offset;
  size_t begun, size;
  struct cursor cursor;
};

static bool begin(struct transfer* t, struct flight* flight) {
  const size_t left = t->size - t->begun;
  flight->size = left < BUFFER_SIZE ? left : BUFFER_SIZE;
  char* data = t->mount->memory + (size_t)flight->buffer * BUFFER_SIZE;
  if (t->writes) copy(&t->cursor, data, flight->size, true);
  const struct nfsrdma_ring_request request = {
      .operation = t->writes ? NFSRDMA_RING_WRITE : NFSRDMA_RING_READ,
      .file = &t->file,
      .data = data,
      .length = flight->size,
      .offset = t->offset + t->begun,
      .flags = t->ahead ? NFSRDMA_RING_AHEAD : 0};
  flight->slot = ring_start(t->ring, &request);
  if (flight->slot == -ENOTCONN) flight->slot = -EAGAIN; /* not submitted, unlike one that was in flight */
  if (flight->slot < 0) return false;
  t->begun += flight->size;
  return true;
}

/* Moves what it can, in order. Returns the bytes, or a number below zero if nothing was moved; -ENOTCONN: it
 * is not known whether anything was. `where` becomes the offset of the last WRITE. */
static ssize_t move_all(struct transfer* t, struct flight* flights, int count, uint64_t* where) {
  int first = 0, flying = 0;
  ssize_t moved = 0, error = 0;
  bool ended = false; /* the end of the file, or an error: requests behind it do not count */
  for (;;) {
    while (!ended && flying < count && t->begun < t->size) {
      if (!begin(t, &flights[(first + flying) % count])) {
        error = flights[(first + flying) % count].slot;
        ended = true;
        break;
      }
      ++flying;
    }
    if (flying == 0) break;
    ring_rouse(t->ring);
    struct flight* flight = &flights[first];
    const ssize_t got = ring_finish(t->ring, flight->slot, where);
    /* The daemon may still use the buffer, so the buffer is not given back. */
    if (got == -ENOTCONN) flight->buffer = -1;
    if (!ended && got > 0) {
      if (!t->writes)
        copy(&t->cursor, t->mount->memory + (size_t)flight->buffer * BUFFER_SIZE, (size_t)got, false);
      moved += got;
    }
    if (!ended && got < 0) error = got;
    ended = ended || got < 0 || (size_t)got < flight->size;
    first = (first + 1) % count;
    --flying;
  }
  return moved != 0 ? moved : error;
}

/* Returns the bytes, or a number below zero if nothing was moved, and the kernel is to do it. -ENOTCONN:
 * bytes may have been moved. */
static ssize_t move(int fd, uint64_t entry, bool writes, bool ahead, const struct iovec* pieces, size_t size,
                    uint64_t offset, uint64_t* where) {
  struct transfer t = {.mount = &table->mounts[entry >> MOUNT_AT & 15U],
                       .file = {.number = (uint32_t)entry, .flags = (uint32_t)(entry >> FLAGS_AT & 0x7f)},
                       .writes = writes,
                       .ahead = ahead,
                       .offset = offset,
                       .size = size,
                       .cursor = {.piece = pieces}};
  struct flight flights[TOGETHER];
  int buffers[TOGETHER];
  uint64_t ignored = 0;
  t.ring = atomic_load(&t.mount->ring);
  if (t.ring == NULL) return -EAGAIN;
  const int count = take_buffers(t.mount, size, buffers);
  if (count == 0) return -EAGAIN;
  const int code = errno;
  for (int i = 0; i < count; ++i) flights[i].buffer = buffers[i];
  const ssize_t moved = move_all(&t, flights, count, where != NULL ? where : &ignored);
  for (int i = 0; i < count; ++i) {
    if (flights[i].buffer >= 0) give_buffer(t.mount, flights[i].buffer);
  }
  errno = code;
  if (moved < 0 && (moved != -EAGAIN || !ring_is_alive(t.ring))) clear(fd);
  return moved;
}

static bool is_limited(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* Each of the following functions returns a number below zero if the kernel is to do the call. But if a write
 * returns FAILED it has failed, with errno. */
enum { FAILED = -ENOTCONN };

static ssize_t read_at(int fd, const struct iovec* pieces, size_t size, off64_t offset) {
  const uint64_t entry = on_ring(fd, size);
  if (entry == 0 || offset < 0 || size > (size_t)SSIZE_MAX) return -1;
  pthread_testcancel();
  return move(fd, entry, false, false, pieces, size, (uint64_t)offset, NULL);
}

/* Returns the entry with RING_APPEND as the open file has it now, because another descriptor or a child that
 * shares the open file may have set or cleared the flag. Returns 0 if the descriptor is not open. */
static uint64_t with_append(int fd, uint64_t entry) {
  const uint64_t bit = (uint64_t)RING_APPEND << FLAGS_AT;
  const int flags = real_fcntl64(fd, F_GETFL);
  if (flags < 0) return 0;
  return (flags & O_APPEND) != 0 ? entry | bit : entry & ~bit;
}

static bool appends(uint64_t entry) {
  return (entry >> FLAGS_AT & RING_APPEND) != 0;
}

/* Returns the entry of a file for a WRITE of this size, or 0 if the kernel is to do it. */
static uint64_t for_write(int fd, size_t size) {
  uint64_t entry = on_ring(fd, size);
  if (entry == 0 || size > (size_t)SSIZE_MAX || is_limited()) return 0;
  entry = with_append(fd, entry);
  /* Bytes of another writer could come between two requests. */
  return appends(entry) && size > BUFFER_SIZE ? 0 : entry;
}

/* A WRITE at an offset can be done twice, but one at the end of the file cannot. */
static ssize_t put_at(int fd, uint64_t entry, const struct iovec* pieces, size_t size, uint64_t offset,
                      uint64_t* where) {
  const ssize_t put = move(fd, entry, true, false, pieces, size, offset, where);
  if (put != -ENOTCONN) return put;
  if (!appends(entry)) return -1;
  errno = EIO; /* it is not known whether it was done */
  return FAILED;
}

static ssize_t write_at(int fd, const struct iovec* pieces, size_t size, off64_t offset) {
  const uint64_t entry = for_write(fd, size);
  if (entry == 0 || offset < 0) return -1;
  pthread_testcancel();
  return put_at(fd, entry, pieces, size, (uint64_t)offset, NULL);
}

static ssize_t read_on(int fd, const struct iovec* pieces, size_t size) {
  const uint64_t entry = on_ring(fd, size);
  if (entry == 0 || size > (size_t)SSIZE_MAX) return -1;
  pthread_testcancel();
  const off64_t at = lseek64(fd, 0, SEEK_CUR);
  if (at < 0) return -1;
  const ssize_t got = move(fd, entry, false, true, pieces, size, (uint64_t)at, NULL);
  if (got <= 0) return got;
  const off64_t end = lseek64(fd, got, SEEK_CUR);
  if (end - got == at) return got;
  /* Another thread or process has moved the offset meanwhile. */
  const ssize_t again = move(fd, entry, false, false, pieces, (size_t)got, (uint64_t)(end - got), NULL);
  const ssize_t kept = again < 0 ? 0 : again;
  if (kept != got) lseek64(fd, kept - got, SEEK_CUR);
  return again;
}

static ssize_t append(int fd, uint64_t entry, const struct iovec* pieces, size_t size) {
  uint64_t where = 0;
  const ssize_t put = put_at(fd, entry, pieces, size, 0, &where);
  if (put > 0) lseek64(fd, (off64_t)(where + (uint64_t)put), SEEK_SET);
  return put;
}

static ssize_t write_on(int fd, const struct iovec* pieces, size_t size) {
  const uint64_t entry = for_write(fd, size);
  if (entry == 0) return -1;
  pthread_testcancel();
  if (appends(entry)) return append(fd, entry, pieces, size);
  const int code = errno;
  const off64_t end = lseek64(fd, (off64_t)size, SEEK_CUR);
  if (end < 0) {
    errno = code;
    return -1;
  }
  const ssize_t put = put_at(fd, entry, pieces, size, (uint64_t)end - size, NULL);
  const ssize_t kept = put < 0 ? 0 : put;
  if ((size_t)kept != size) lseek64(fd, kept - (ssize_t)size, SEEK_CUR);
  return put;
}

/* ---- the functions ---- */

EXPORTED ssize_t read(int fd, void* memory, size_t size) {
  const struct iovec piece = {memory, size};
  const ssize_t done = read_on(fd, &piece, size);
  return done >= 0 ? done : REAL(read)(fd, memory, size);
}
EXPORTED ssize_t __read_chk(int fd, void* memory, size_t size, size_t room) {
  if (size > room) abort();
  return read(fd, memory, size);
}
EXPORTED ssize_t write(int fd, const void* memory, size_t size) {
  const struct iovec piece = {(void*)memory, size};
  const ssize_t done = write_on(fd, &piece, size);
  if (done == FAILED) return -1;
  return done >= 0 ? done : REAL(write)(fd, memory, size);
}
EXPORTED ssize_t pread64(int fd, void* memory, size_t size, off64_t offset) {
  const struct iovec piece = {memory, size};
  const ssize_t done = read_at(fd, &piece, size, offset);
  return done >= 0 ? done : REAL(pread64)(fd, memory, size, offset);
}
EXPORTED ssize_t pread(int fd, void* memory, size_t size, off_t offset) {
  return pread64(fd, memory, size, offset);
}
EXPORTED ssize_t __pread64_chk(int fd, void* memory, size_t size, off64_t offset, size_t room) {
  if (size > room) abort();
  return pread64(fd, memory, size, offset);
}
EXPORTED ssize_t __pread_chk(int fd, void* memory, size_t size, off_t offset, size_t room) {
  return __pread64_chk(fd, memory, size, offset, room);
}
EXPORTED ssize_t pwrite64(int fd, const void* memory, size_t size, off64_t offset) {
  const struct iovec piece = {(void*)memory, size};
  const ssize_t done = write_at(fd, &piece, size, offset);
  if (done == FAILED) return -1;
  return done >= 0 ? done : REAL(pwrite64)(fd, memory, size, offset);
}
EXPORTED ssize_t pwrite(int fd, const void* memory, size_t size, off_t offset) {
  return pwrite64(fd, memory, size, offset);
}
EXPORTED ssize_t readv(int fd, const struct iovec* pieces, int count) {
  const ssize_t done = read_on(fd, pieces, sum_of(pieces, count));
  return done >= 0 ? done : REAL(readv)(fd, pieces, count);
}
EXPORTED ssize_t writev(int fd, const struct iovec* pieces, int count) {
  const ssize_t done = write_on(fd, pieces, sum_of(pieces, count));
  if (done == FAILED) return -1;
  return done >= 0 ? done : REAL(writev)(fd, pieces, count);
}
EXPORTED ssize_t preadv64(int fd, const struct iovec* pieces, int count, off64_t offset) {
  const ssize_t done = read_at(fd, pieces, sum_of(pieces, count), offset);
  return done >= 0 ? done : REAL(preadv64)(fd, pieces, count, offset);
}
EXPORTED ssize_t preadv(int fd, const struct iovec* pieces, int count, off_t offset) {
  return preadv64(fd, pieces, count, offset);
}
EXPORTED ssize_t pwritev64(int fd, const struct iovec* pieces, int count, off64_t offset) {
  const ssize_t done = write_at(fd, pieces, sum_of(pieces, count), offset);
  if (done == FAILED) return -1;
  return done >= 0 ? done : REAL(pwritev64)(fd, pieces, count, offset);
}
EXPORTED ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  return pwritev64(fd, pieces, count, offset);
}
/* Calls with flags are left to the kernel, and so are calls at the file's own offset (-1), which are rare. */
EXPORTED ssize_t preadv64v2(int fd, const struct iovec* pieces, int count, off64_t offset, int flags) {
  const ssize_t done = flags == 0 ? read_at(fd, pieces, sum_of(pieces, count), offset) : -1;
  return done >= 0 ? done : REAL(preadv64v2)(fd, pieces, count, offset, flags);
}
EXPORTED ssize_t preadv2(int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
  return preadv64v2(fd, pieces, count, offset, flags);
}
EXPORTED ssize_t pwritev64v2(int fd, const struct iovec* pieces, int count, off64_t offset, int flags) {
  const ssize_t done = flags == 0 ? write_at(fd, pieces, sum_of(pieces, count), offset) : -1;
  if (done == FAILED) return -1;
  return done >= 0 ? done : REAL(pwritev64v2)(fd, pieces, count, offset, flags);
}
EXPORTED ssize_t pwritev2(int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
  return pwritev64v2(fd, pieces, count, offset, flags);
}

/* ---- what gives a descriptor's number another meaning ---- */

EXPORTED int close(int fd) {
  if (mount_of_socket(fd) >= 0) { /* the program never opened it */
    errno = EBADF;
    return -1;
  }
  clear(fd);
  const int done = REAL(close)(fd);
  clear(fd);
  return done;
}

static int cleared(int fd) {
  clear(fd);
  return fd;
}
static mode_t mode_in(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}
#define OPEN_LIKE(name, real, ...)               \
  va_list arguments;                             \
  va_start(arguments, flags);                    \
  const mode_t mode = mode_in(flags, arguments); \
  va_end(arguments);                             \
  return cleared(REAL(real)(__VA_ARGS__, flags, mode))
EXPORTED int open64(const char* path, int flags, ...) {
  OPEN_LIKE(open64, open64, path);
}
EXPORTED int open(const char* path, int flags, ...) {
  OPEN_LIKE(open, open64, path);
}
EXPORTED int openat64(int at, const char* path, int flags, ...) {
  OPEN_LIKE(openat64, openat64, at, path);
}
EXPORTED int openat(int at, const char* path, int flags, ...) {
  OPEN_LIKE(openat, openat64, at, path);
}

EXPORTED int dup(int fd) {
  return cleared(REAL(dup)(fd));
}
EXPORTED int dup2(int from, int to) {
  if (from == to) return REAL(dup2)(from, to);
  give_away(to);
  clear(to);
  return cleared(REAL(dup2)(from, to));
}
EXPORTED int dup3(int from, int to, int flags) {
  give_away(to);
  clear(to);
  return cleared(REAL(dup3)(from, to, flags));
}

/* The argument is at most as large as a pointer, whatever its type is. */
EXPORTED int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const int done = REAL(fcntl64)(fd, command, argument);
  if (command == F_SETFL) clear(fd);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) clear(done);
  return done;
}
EXPORTED int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl64(fd, command, argument);
}

/* Closes the range except for our sockets. */
EXPORTED int close_range(unsigned first, unsigned last, int flags) {
  if (table == NULL || first > last || ((unsigned)flags & CLOSE_RANGE_CLOEXEC) != 0) {
    return REAL(close_range)(first, last, flags);
  }
  const unsigned highest = (unsigned)atomic_load(&table->highest);
  const unsigned end = last < highest ? last : highest;
  for (unsigned fd = first; fd <= end; ++fd) {
    if (atomic_load_explicit(&table->entries[fd], memory_order_relaxed) << (64 - AGE_AT) != 0) clear((int)fd);
  }
  for (;;) {
    unsigned ours = UINT_MAX; /* the first of our sockets in the range */
    for (int i = 0; i < MOST_MOUNTS; ++i) {
      struct nfsrdma_ring* ring = atomic_load(&table->mounts[i].ring);
      const int fd = ring == NULL ? -1 : nfsrdma_ring_descriptor(ring);
      if (fd >= 0 && (unsigned)fd >= first && (unsigned)fd <= last && (unsigned)fd < ours)
        ours = (unsigned)fd;
    }
    if (ours == UINT_MAX) return REAL(close_range)(first, last, flags);
    if (ours > first && REAL(close_range)(first, ours - 1, flags) != 0) return -1;
    if (ours == last) return 0;
    first = ours + 1;
  }
}
EXPORTED void closefrom(int low) {
  (void)close_range(low < 0 ? 0U : (unsigned)low, UINT_MAX, 0);
}

EXPORTED int fclose(FILE* file) {
  const int fd = file != NULL ? fileno(file) : -1;
  clear(fd);
  const int done = REAL(fclose)(file);
  clear(fd);
  return done;
}
EXPORTED FILE* freopen64(const char* path, const char* mode, FILE* file) {
  const int before = file != NULL ? fileno(file) : -1;
  clear(before);
  FILE* done = REAL(freopen64)(path, mode, file);
  clear(before);
  if (done != NULL) clear(fileno(done));
  return done;
}
EXPORTED FILE* freopen(const char* path, const char* mode, FILE* file) {
  return freopen64(path, mode, file);
}

__attribute__((constructor)) static void begin_all(void) {
  const int code = errno;
  resolve();
  const char* wanted = getenv("NFSRDMA_PRELOAD_LEAST");
  if (wanted != NULL) least = strtoul(wanted, NULL, 10);
  void* memory = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && madvise(memory, sizeof(struct table), MADV_WIPEONFORK) == 0) table = memory;
  errno = code;
}
