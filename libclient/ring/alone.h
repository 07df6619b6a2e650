/* For who has several requests of nfsrdma_ring_run's kind in flight, from any thread and any signal handler: the
 * preload library. Not for programs. */
#pragma once

#include "nfsrdma/ring.h"

/* The slot, for ring_finish, or the errno below zero. Between the two ring_rouse. */
int ring_start(struct nfsrdma_ring* ring, const struct nfsrdma_ring_request* request);
void ring_rouse(struct nfsrdma_ring* ring);
/* Waits for it: bytes, or the errno below zero. */
ssize_t ring_finish(struct nfsrdma_ring* ring, int slot, uint64_t* where);

/* The socket has been taken from us, and its number may be anything by now: what is in flight ends, and the ring is
 * left as it lies. */
void ring_abandon(struct nfsrdma_ring* ring);
/* 0: it has ended, or is a parent's. */
int ring_is_alive(const struct nfsrdma_ring* ring);
