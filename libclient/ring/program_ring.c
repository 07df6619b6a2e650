/* The program's side of a ring (nfsrdma/ring.h), on the memory that it shares with the daemon (layout.h).
 *
 * A slot is free, or belongs to the caller that has taken it (one atomic operation on `free_slots`) until the
 * caller has taken out its answer. No function has a lock or allocates, except those that open and close a
 * ring. So a signal handler that does the same may interrupt them anywhere.
 *
 * The program's own state is in pages that the kernel wipes in a child of fork(2) (MADV_WIPEONFORK), and the
 * shared memory is not mapped there. So `alive` is 0 in a child, however the child was made. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "nfsrdma/ring.h"
#include "ring/alone.h"
#include "ring/layout.h"

enum {
  DEFAULT_DEPTH = 64,
  DEFAULT_MEMORY = 16 << 20,
  ANSWER_SECONDS = 10,    /* for the daemon to admit the connection */
  LOOK_MILLISECONDS = 200 /* a waiting thread checks so often whether the daemon is still there */
};

struct nfsrdma_ring {
  atomic_uint alive; /* 0: the daemon has ended the ring, or this process is a child of the one that had it */
  int socket;
  unsigned depth;
  size_t mapped;
  size_t bytes;
  struct ring_header* header;
  struct ring_slot* slots;
  char* data;
  uint8_t token[RING_TOKEN_SIZE];
  _Atomic uint64_t free_slots[RING_WORDS];
  _Atomic uint64_t queued[RING_WORDS]; /* slots for nfsrdma_ring_completions to return */
  uint64_t ready[RING_WORDS];          /* answered slots that it has not returned yet */
  uint64_t tags[RING_MOST_SLOTS];
};

/* Shared words are plain in layout.h, because C++ reads that file, too. */
static _Atomic uint64_t* word64(uint64_t* word) {
  return (_Atomic uint64_t*)word;
}
static _Atomic uint32_t* word32(uint32_t* word) {
  return (_Atomic uint32_t*)word;
}
static uint64_t bit_of(unsigned slot) {
  return UINT64_C(1) << slot % 64;
}

/* ---- opening ---- */

/* Moves a descriptor out of the way of programs that close numbers they do not know, and that count on low
 * numbers. */
static int moved_up(int fd) {
  const int up = fcntl(fd, F_DUPFD_CLOEXEC, 700);
  if (up < 0) return fd;
  close(fd);
  return up;
}

static int reach(const struct ring_open* offer) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = strnlen(offer->name, RING_NAME_SIZE - 1);
  const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  memcpy(address.sun_path + 1, offer->name, length);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
      connect(fd, (const struct sockaddr*)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0 ||
      send(fd, offer->token, RING_TOKEN_SIZE, MSG_NOSIGNAL) != RING_TOKEN_SIZE) {
    const int code = errno;
    close(fd);
    return -code;
  }
  return fd;
}

/* Returns the descriptor of the memory, or the errno below zero. */
static int receive_memory(int socket) {
  char byte = 0;
  struct iovec data = {&byte, 1};
  _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN ? -ETIMEDOUT : -errno;
  const struct cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (got == 0 || control == NULL || control->cmsg_type != SCM_RIGHTS) return -ECONNREFUSED;
  int fd = -1;
  memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return fd;
}

static int map_memory(struct nfsrdma_ring* ring, int memory, const struct ring_open* offer) {
  const size_t slots_end = RING_SLOTS_AT + (size_t)offer->slots * sizeof(struct ring_slot);
  const size_t data_at = (slots_end + RING_PAGE - 1) / RING_PAGE * RING_PAGE;
  struct stat status;
  if (fstat(memory, &status) != 0) return -errno;
  ring->mapped = data_at + (size_t)offer->bytes;
  if (offer->slots == 0 || offer->slots > RING_MOST_SLOTS || (size_t)status.st_size < ring->mapped)
    return -EPROTO;
  void* all = mmap(NULL, ring->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (all == MAP_FAILED) return -errno;
  madvise(all, ring->mapped, MADV_DONTFORK);
  ring->header = all;
  ring->slots = (struct ring_slot*)((char*)all + RING_SLOTS_AT);
  ring->data = (char*)all + data_at;
  ring->bytes = (size_t)offer->bytes;
  ring->depth = offer->slots;
  for (unsigned i = 0; i < ring->depth; ++i) ring->free_slots[i / 64] |= bit_of(i);
  return 0;
}

static int join(struct nfsrdma_ring* ring, const struct ring_open* offer) {
  const int socket = reach(offer);
  if (socket < 0) return socket;
  const int memory = receive_memory(socket);
  if (memory < 0) {
    close(socket);
    return memory;
  }
  const int code = map_memory(ring, memory, offer);
  close(memory);
  if (code != 0) {
    close(socket);
    return code;
  }
  memcpy(ring->token, offer->token, RING_TOKEN_SIZE);
  ring->socket = moved_up(socket);
  return 0;
}

int nfsrdma_ring_open(int fd, const struct nfsrdma_ring_options* options, struct nfsrdma_ring** out) {
  struct ring_open offer = {.version = RING_VERSION, .slots = DEFAULT_DEPTH, .bytes = DEFAULT_MEMORY};
  if (options != NULL && options->depth != 0) offer.slots = options->depth;
  if (options != NULL && options->memory != 0) offer.bytes = options->memory;
  if (ioctl(fd, RING_OPEN, &offer) != 0) return errno == ENOSYS ? -ENOTTY : -errno;
  struct nfsrdma_ring* ring =
      mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ring == MAP_FAILED) return -errno;
  int code = madvise(ring, sizeof *ring, MADV_WIPEONFORK) == 0 ? 0 : -errno;
  if (code == 0) code = join(ring, &offer);
  if (code != 0) {
    munmap(ring, sizeof *ring);
    return code;
  }
  atomic_store(&ring->alive, 1);
  *out = ring;
  return 0;
}

void nfsrdma_ring_close(struct nfsrdma_ring* ring) {
  if (ring->header != NULL) { /* NULL in a child of fork(2) */
    atomic_store(&ring->alive, 0);
    close(ring->socket);
    munmap(ring->header, ring->mapped);
  }
  munmap(ring, sizeof *ring);
}

void* nfsrdma_ring_memory(const struct nfsrdma_ring* ring, size_t* size) {
  if (size != NULL) *size = ring->bytes;
  return ring->data;
}
unsigned nfsrdma_ring_depth(const struct nfsrdma_ring* ring) {
  return ring->depth;
}
int nfsrdma_ring_descriptor(const struct nfsrdma_ring* ring) {
  return ring->socket;
}

int nfsrdma_ring_attach(struct nfsrdma_ring* ring, int fd, struct nfsrdma_ring_file* file) {
  struct ring_attach asked = {.file = 0};
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -errno;
  if (atomic_load(&ring->alive) == 0) return -ENOTCONN;
  memcpy(asked.token, ring->token, RING_TOKEN_SIZE);
  if (ioctl(fd, RING_ATTACH, &asked) != 0) return errno == ENOSYS ? -ENOTTY : -errno;
  file->number = asked.file;
  file->flags =
      ((flags & O_APPEND) != 0 ? RING_APPEND : 0U) | ((flags & (O_SYNC | O_DSYNC)) != 0 ? RING_STABLE : 0U);
  return 0;
}

/* ---- slots ---- */

/* Returns -1 if no slot is free. */
static int take_slot(struct nfsrdma_ring* ring) {
  for (unsigned i = 0; i < RING_WORDS; ++i) {
    uint64_t all = atomic_load(&ring->free_slots[i]);
    while (all != 0) {
      if (atomic_compare_exchange_weak(&ring->free_slots[i], &all, all & (all - 1))) {
        return (int)(i * 64) + __builtin_ctzll(all);
      }
    }
  }
  return -1;
}

static void free_slot(struct nfsrdma_ring* ring, unsigned slot) {
  atomic_fetch_or(&ring->free_slots[slot / 64], bit_of(slot));
}

/* Returns the slot's number, or the errno below zero. */
static int fill_slot(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request,
                     uint32_t more_flags) {
  if (atomic_load(&ring->alive) == 0) return -ENOTCONN;
  const int moves = request->operation == NFSRDMA_RING_READ || request->operation == NFSRDMA_RING_WRITE;
  const size_t at = moves ? (size_t)((uintptr_t)request->data - (uintptr_t)ring->data) : 0;
  const size_t length = moves ? request->length : 0;
  if (length > RING_MOST_LENGTH || (moves && request->file == NULL)) return -EINVAL;
  if (at > ring->bytes || length > ring->bytes - at) return -EFAULT;
  const int taken = take_slot(ring);
  if (taken < 0) return -EAGAIN;
  struct ring_slot* slot = &ring->slots[taken];
  slot->operation = (uint32_t)request->operation;
  slot->file = request->file != NULL ? request->file->number : 0;
  slot->offset = request->offset;
  slot->buffer = at;
  slot->length = (uint32_t)length;
  slot->flags = (request->flags & RING_AHEAD) | more_flags;
  if (moves && request->operation == NFSRDMA_RING_WRITE) slot->flags |= request->file->flags;
  atomic_store_explicit(word32(&slot->state), RING_UNDER_WAY, memory_order_relaxed);
  return taken;
}

/* Gives the slot to the daemon. */
static void give_slot(struct nfsrdma_ring* ring, unsigned slot) {
  atomic_fetch_or(word64(&ring->header->submitted[slot / 64]), bit_of(slot));
}

static void rouse_daemon(struct nfsrdma_ring* ring) {
  _Atomic uint32_t* sleeps = word32(&ring->header->daemon_sleeps);
  if (atomic_load(sleeps) == 0 || atomic_exchange(sleeps, 0) == 0) return;
  /* If the byte does not fit into the socket, the daemon has another byte to read already. */
  (void)!send(ring->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int is_hung_up(const struct nfsrdma_ring* ring) {
  if (atomic_load(&ring->alive) == 0) return 1;
  struct pollfd socket = {.fd = ring->socket, .events = POLLRDHUP};
  return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* ---- many in flight ---- */

int nfsrdma_ring_queue(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request) {
  const int slot = fill_slot(ring, request, 0);
  if (slot < 0) return slot;
  ring->tags[slot] = request->tag;
  atomic_fetch_or(&ring->queued[slot / 64], bit_of((unsigned)slot));
  give_slot(ring, (unsigned)slot);
  return 0;
}

void nfsrdma_ring_submit(struct nfsrdma_ring* ring) {
  const int code = errno;
  if (atomic_load(&ring->alive) != 0) rouse_daemon(ring);
  errno = code;
}

/* Takes new answers in. Returns the number of answers that are ready. */
static unsigned collect(struct nfsrdma_ring* ring) {
  unsigned count = 0;
  for (unsigned i = 0; i < RING_WORDS; ++i) {
    _Atomic uint64_t* completed = word64(&ring->header->completed[i]);
    if (atomic_load_explicit(completed, memory_order_relaxed) != 0) {
      ring->ready[i] |= atomic_exchange(completed, 0) & atomic_load(&ring->queued[i]);
    }
    count += (unsigned)__builtin_popcountll(ring->ready[i]);
  }
  return count;
}

static unsigned in_flight(struct nfsrdma_ring* ring) {
  unsigned count = 0;
  for (unsigned i = 0; i < RING_WORDS; ++i)
    count += (unsigned)__builtin_popcountll(atomic_load(&ring->queued[i]));
  return count;
}

static int give_out(struct nfsrdma_ring* ring, struct nfsrdma_ring_completion* out, int most) {
  int count = 0;
  for (unsigned i = 0; i < RING_WORDS; ++i) {
    while (ring->ready[i] != 0 && count < most) {
      const unsigned slot = i * 64 + (unsigned)__builtin_ctzll(ring->ready[i]);
      ring->ready[i] &= ring->ready[i] - 1;
      out[count].tag = ring->tags[slot];
      out[count].where = ring->slots[slot].where;
      out[count].result = ring->slots[slot].result;
      ++count;
      atomic_fetch_and(&ring->queued[i], ~bit_of(slot));
      free_slot(ring, slot);
    }
  }
  return count;
}

/* Ends requests in flight with -ENOTCONN, up to `most` of them. Their slots are not used again. */
static int give_up(struct nfsrdma_ring* ring, struct nfsrdma_ring_completion* out, int most) {
  int count = 0;
  for (unsigned i = 0; i < RING_WORDS; ++i) {
    for (uint64_t lost = atomic_load(&ring->queued[i]); lost != 0 && count < most; lost &= lost - 1) {
      const unsigned slot = i * 64 + (unsigned)__builtin_ctzll(lost);
      out[count].tag = ring->tags[slot];
      out[count].where = 0;
      out[count].result = -ENOTCONN;
      ++count;
      atomic_fetch_and(&ring->queued[i], ~bit_of(slot));
    }
  }
  return count != 0 ? count : -ENOTCONN;
}

/* Returns the number of answers that collect() has not taken in. The daemon counts these. */
static unsigned uncollected(struct nfsrdma_ring* ring) {
  unsigned count = 0;
  for (unsigned i = 0; i < RING_WORDS; ++i) {
    count += (unsigned)__builtin_popcountll(atomic_load(word64(&ring->header->completed[i])));
  }
  return count;
}

/* Asks the daemon to wake this program when `wanted` answers are ready. Returns true if they are ready
 * already. `how`: RING_BY_FUTEX, or 0. */
static bool arm(struct nfsrdma_ring* ring, unsigned wanted, uint32_t how) {
  const unsigned there = collect(ring);
  if (there >= wanted) return true;
  atomic_store(word32(&ring->header->program_waits), (wanted - there) | how);
  return uncollected(ring) >= wanted - there;
}

/* Empties the socket of bytes that an nfsrdma_ring_arm has asked for. */
static void drain(struct nfsrdma_ring* ring) {
  char bytes[16];
  while (recv(ring->socket, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
  }
}

int nfsrdma_ring_arm(struct nfsrdma_ring* ring) {
  if (atomic_load(&ring->alive) == 0) return 1;
  drain(ring);
  return arm(ring, 1, 0);
}

/* Waits while the word has this value, at most `milliseconds`, and at most LOOK_MILLISECONDS. Returns 0, or
 * the errno. */
static int await_word(_Atomic uint32_t* word, uint32_t value, int milliseconds) {
  if (milliseconds < 0 || milliseconds > LOOK_MILLISECONDS) milliseconds = LOOK_MILLISECONDS;
  const struct timespec most = {.tv_nsec = milliseconds * 1000L * 1000L};
  return syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0) == 0 ? 0 : errno;
}

static int64_t now_in_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until the daemon has woken this program, or the time is over. Returns 0, -EINTR, or -ENOTCONN if the
 * daemon has gone. */
static int await_wake(struct nfsrdma_ring* ring, int64_t until) {
  _Atomic uint32_t* waits = word32(&ring->header->program_waits);
  for (;;) {
    const uint32_t asked = atomic_load(waits);
    if (asked == 0) return 0;
    const int64_t left = until < 0 ? -1 : until - now_in_milliseconds();
    if (until >= 0 && left <= 0) return 0;
    const int code = await_word(waits, asked, left < INT_MAX ? (int)left : INT_MAX);
    if (code == EINTR) return -EINTR;
    if (code == ETIMEDOUT && is_hung_up(ring)) return -ENOTCONN;
  }
}

int nfsrdma_ring_completions(struct nfsrdma_ring* ring, struct nfsrdma_ring_completion* out, int most,
                             int least, int timeout) {
  if (ring->header == NULL) return -ENOTCONN;
  int64_t until = -1;
  for (;;) {
    const unsigned there = collect(ring), flying = in_flight(ring);
    unsigned wanted = least < 1 ? 1 : (unsigned)least;
    if (wanted > flying && flying != 0) wanted = flying;
    const bool late = timeout == 0 || (until >= 0 && now_in_milliseconds() >= until);
    if (there >= wanted || (there != 0 && late)) return give_out(ring, out, most);
    if (atomic_load(&ring->alive) == 0)
      return there != 0 ? give_out(ring, out, most) : give_up(ring, out, most);
    if (late) return 0;
    if (timeout > 0 && until < 0) until = now_in_milliseconds() + timeout;
    if (arm(ring, wanted, RING_BY_FUTEX)) continue;
    const int code = await_wake(ring, until);
    if (code == -EINTR) return code;
    if (code == -ENOTCONN) atomic_store(&ring->alive, 0); /* answers that were given by then count */
  }
}

/* ---- one at a time ---- */

/* Returns 0 if the request is done, or -ENOTCONN if the daemon has gone. */
static int await_slot(struct nfsrdma_ring* ring, struct ring_slot* slot) {
  _Atomic uint32_t* state = word32(&slot->state);
  uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
  while (seen != RING_DONE) {
    if (seen == RING_UNDER_WAY && !atomic_compare_exchange_strong(state, &seen, RING_WAITED_FOR)) continue;
    const bool late = await_word(state, RING_WAITED_FOR, -1) == ETIMEDOUT;
    seen = atomic_load_explicit(state, memory_order_acquire);
    if (late && seen != RING_DONE && is_hung_up(ring)) {
      atomic_store(&ring->alive, 0);
      return -ENOTCONN;
    }
  }
  return 0;
}

int ring_start(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request) {
  const int slot = fill_slot(ring, request, RING_ALONE);
  if (slot >= 0) give_slot(ring, (unsigned)slot);
  return slot;
}

void ring_rouse(struct nfsrdma_ring* ring) {
  rouse_daemon(ring);
}

ssize_t ring_finish(struct nfsrdma_ring* ring, int taken, uint64_t* where) {
  struct ring_slot* slot = &ring->slots[taken];
  if (await_slot(ring, slot) != 0) return -ENOTCONN;
  const ssize_t result = slot->result;
  if (where != NULL) *where = slot->where;
  free_slot(ring, (unsigned)taken);
  return result;
}

void ring_abandon(struct nfsrdma_ring* ring) {
  atomic_store(&ring->alive, 0);
  ring->socket = -1;
}

int ring_is_alive(const struct nfsrdma_ring* ring) {
  return atomic_load(&ring->alive) != 0;
}

ssize_t nfsrdma_ring_run(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request,
                         uint64_t* where) {
  const int code = errno;
  const int slot = ring_start(ring, request);
  if (slot < 0) return slot;
  rouse_daemon(ring);
  const ssize_t result = ring_finish(ring, slot, where);
  errno = code;
  return result;
}
