/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that read memory all the time, and memory that is taken away from them and given back, as
 * NVIDIA's driver does with that of its programs. For faulty.c and fake-cuda-worker.c.
 */
#ifndef VG_TESTS_GUEST_READERS_H
#define VG_TESTS_GUEST_READERS_H

#include <stdbool.h>

/* Makes the memory. Returns 0, or -1. */
int readers_init(void);

/* Starts n more threads. Returns 0, or -1. */
int readers_start(unsigned n);

/* Takes the memory away: "protect", "unmap", or "bus", which leaves the mapping. Returns 0, or
 * -1. */
int readers_take(const char *how);

/* Gives it back. */
int readers_give(void);

/* Returns an address in the memory. */
void *readers_memory(void);

/* Counts how often the memory was read, and how often it was wrong. */
void readers_count(unsigned long *ret_passes, unsigned long *ret_wrong);

#endif
