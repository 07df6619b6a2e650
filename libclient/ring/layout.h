/* The interface between a program and the daemon of a mount, to the byte: the ioctls by which a program gets
 * a ring, the socket that goes with it, and the memory. C, and C++ in the daemon. `nfsrdma/ring.h` says what
 * a ring is for.
 *
 * Getting a ring
 *   1. The program opens any file of the mount and issues RING_OPEN on it. The daemon answers with the name
 *      of its socket (abstract, unix(7)) and a token that is good for one connection of this user within some
 *      seconds.
 *   2. The program connects and sends the token. The daemon answers with one byte and a descriptor of the
 *      memory, which can be neither shrunk nor grown (F_SEAL_SHRINK, F_SEAL_GROW).
 *   3. The program issues RING_ATTACH on a descriptor, with the token. The daemon learns which open file it
 *      is, with the rights that it was opened with, and answers with a number for it. The number is the same
 *      each time for the same open file.
 *   Either side ends the ring by closing the socket. An open file is attached until its last descriptor is
 *   closed.
 *
 * The memory: ring_header, `slots` of ring_slot from RING_SLOTS_AT on, then `bytes` of data, where the slots'
 * buffers are. A slot belongs to the program until its bit is set in `submitted`, and to the daemon from then
 * on until the program has seen that it is done.
 *   A request    The program fills a slot and sets its bit in `submitted` (release). If `daemon_sleeps` is 1
 *                then, the program sets it to 0 and sends a byte through the socket.
 *   An answer    The daemon writes `result` and `where` and sets `state` to RING_DONE (release). Unless the
 *                request was RING_ALONE, the daemon sets the slot's bit in `completed` before it ends its
 *                turn. If `program_waits` is not 0, and so many bits are set in `completed` by then, the
 *                daemon sets it to 0. If it had RING_BY_FUTEX, the daemon wakes the threads that wait for
 *                that word (futex(2)), else it sends a byte. If `state` was RING_WAITED_FOR, it wakes the
 *                threads that wait for `state`.
 * Bits take the place of queues of numbers: any pattern of them means something, there is nothing to wrap
 * around or to overflow, and several threads and signal handlers set theirs without a lock.
 *
 * The daemon trusts nothing that it reads here, and reads each field once. A bit for a slot that the daemon
 * has already got ends the ring. A request that makes no sense is answered with an error. */
#pragma once

#include <stdint.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RING_VERSION = 1,
  RING_TOKEN_SIZE = 16,
  RING_NAME_SIZE = 40,
  RING_WORDS = 4,
  RING_MOST_SLOTS = RING_WORDS * 64,
  RING_MOST_LENGTH = 1 << 20, /* of one request's data */
  RING_SLOTS_AT = 4096,
  RING_PAGE = 4096
};

struct ring_open {
  uint32_t version; /* of the program, then of the daemon */
  uint32_t slots;   /* wanted, then given */
  uint64_t bytes;   /* of data; wanted, then given */
  uint8_t token[RING_TOKEN_SIZE];
  char name[RING_NAME_SIZE]; /* of the socket, without the zero in front; ends with a zero */
};

struct ring_attach {
  uint8_t token[RING_TOKEN_SIZE];
  uint32_t file;
  uint32_t rights; /* RING_MAY_READ, RING_MAY_WRITE */
};
enum { RING_MAY_READ = 1, RING_MAY_WRITE = 2 };

#define RING_OPEN _IOWR(0xf5, 0x71, struct ring_open)
#define RING_ATTACH _IOWR(0xf5, 0x72, struct ring_attach)

enum { RING_NOTHING = 0, RING_READ = 1, RING_WRITE = 2, RING_SYNC = 3 };
enum {
  RING_ALONE = 1,  /* the thread that submitted the request waits for `state` */
  RING_AHEAD = 2,  /* READ: the daemon may read more ahead, and answer from data that was read ahead */
  RING_APPEND = 4, /* WRITE: at the end of the file, whatever `offset` is */
  RING_STABLE = 8, /* WRITE: answered when the data is on the server's disk */
  RING_ALL_FLAGS = 15
};
#define RING_BY_FUTEX UINT32_C(0x80000000) /* a flag in program_waits, next to the number */
enum { RING_UNDER_WAY = 0, RING_WAITED_FOR = 1, RING_DONE = 2 };

struct ring_slot {
  /* written by the program */
  uint32_t operation;
  uint32_t file;
  uint64_t offset; /* in the file */
  uint64_t buffer; /* in the data */
  uint32_t length;
  uint32_t flags;
  /* written by the daemon */
  uint64_t where; /* WRITE: the offset that the data went to */
  int32_t result; /* bytes, or the errno below zero */
  uint32_t state; /* written by both */
  uint64_t unused[2];
};

/* Each group of fields has cache lines of its own. */
struct ring_header {
  uint32_t version;
  uint32_t slots;
  uint64_t data_at;
  uint64_t bytes;
  uint64_t unused[5];
  uint64_t submitted[RING_WORDS];
  uint64_t unused_submitted[4];
  uint32_t daemon_sleeps;
  uint32_t unused_sleeps[15];
  uint64_t completed[RING_WORDS];
  uint64_t unused_completed[4];
  uint32_t program_waits;
  uint32_t unused_waits[15];
};

#ifdef __cplusplus
}
static_assert(sizeof(ring_slot) == 64 && sizeof(ring_header) == 320);
static_assert(RING_SLOTS_AT >= sizeof(ring_header));
#endif
