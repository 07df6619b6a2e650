/* Functions for a caller that has several requests like that of nfsrdma_ring_run in flight, from any thread
 * and any signal handler: the preload library. Not for programs. */
#pragma once

#include "nfsrdma/ring.h"

/* Submits a request. Returns its slot, for ring_finish(), or the errno below zero. ring_rouse() must be
 * called between the two. */
int ring_start(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request);
void ring_rouse(struct nfsrdma_ring* ring);
/* Waits until the request is done. Returns bytes, or the errno below zero. */
ssize_t ring_finish(struct nfsrdma_ring* ring, int slot, uint64_t* where);

/* Called when the program has taken the ring's socket away, whose number may mean anything by now. Requests
 * in flight end, and the ring is left as it is. */
void ring_abandon(struct nfsrdma_ring* ring);
/* Returns 0 if the ring has ended, or belongs to the parent process. */
int ring_is_alive(const struct nfsrdma_ring* ring);
