/* SPDX-License-Identifier: Apache-2.0
 *
 * Heirs are children that were forked by a program that uses a GPU, and have its files of the GPU
 * without using them. They give these up: each descriptor leads to /dev/null from then on, and
 * where the GPU was mapped, nothing can be read or written. For a worker process (guest/child.h).
 */
#ifndef VG_GUEST_HEIR_H
#define VG_GUEST_HEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/node.h"

/* The processes among which heirs are to be found. */
struct vg_guest_heirs {
    /* The directory before /proc, as for vg_guest_devices_read(). */
    const char *root;
    /* The files of the GPUs. */
    const struct vg_guest_nodes *nodes;
    /* The processes that use the GPUs themselves, and let go of them in another way. */
    const pid_t *owners;
    size_t n_owners;
    /* All processes that have the nodes: no other can share the files or maps in question. */
    const pid_t *holders;
    size_t n_holders;
};

/* A process that may be an heir. */
struct vg_guest_heir {
    pid_t pid;
    /* inherited: it has no files of the GPUs but those of an ancestor, whether it can give them up
     * or not. ancestor: the nearest one among the owners, or 0. */
    bool inherited;
    pid_t ancestor;
    /* The numbers of descriptors and maps of the nodes that it has, or has given up. */
    size_t descriptors, maps;
    bool gone;
    /* The reason why it cannot give them up, beginning with "it"; empty if it can, or did. */
    char why[200];
};

/* Checks that the process heir->pid has no files of the GPUs but those that an owner among its
 * ancestors has open as well, that it shares neither memory nor descriptors with another process,
 * and that it could be stopped. Changes nothing. Sets all other members. */
void vg_guest_heir_look(const struct vg_guest_heirs *among, struct vg_guest_heir *heir);

/* Stops each process, checks it again, and has it give up the files. Sets all other members of
 * each; a process with a `why` kept some or all of its files. Returns how many have one. */
size_t vg_guest_heirs_give_up(const struct vg_guest_heirs *among, struct vg_guest_heir *heirs,
                              size_t n, int64_t until_ms);

#endif
