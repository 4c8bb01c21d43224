/* SPDX-License-Identifier: Apache-2.0
 *
 * Inheritors are forked children of a program that uses a GPU. They have its GPU files without
 * using them. They release these files: each descriptor then refers to /dev/null, and mappings of
 * the GPU become inaccessible. For a worker process (guest/child.h).
 */
#ifndef VG_GUEST_INHERITOR_H
#define VG_GUEST_INHERITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/node.h"

/* The processes among which inheritors are searched. */
struct vg_guest_inheritors {
    /* The directory before /proc, as for vg_guest_devices_read(). */
    const char *root;
    /* The files of the GPUs. */
    const struct vg_guest_nodes *nodes;
    /* The processes that use the GPUs themselves, and release them in another way. */
    const pid_t *owners;
    size_t n_owners;
    /* All processes that hold the nodes. Only these can share the files or mappings in question. */
    const pid_t *holders;
    size_t n_holders;
};

/* A process that may be an inheritor. */
struct vg_guest_inheritor {
    pid_t pid;
    /* inherited: all GPU files that it has come from an ancestor, whether it can release them or
     * not. ancestor: the nearest among the owners, or 0. */
    bool inherited;
    pid_t ancestor;
    /* The number of descriptors and mappings of GPU nodes that it has, or had before it released
     * them. */
    size_t descriptors, maps;
    bool gone;
    /* The reason why it cannot release them, starting with "it"; empty if it can, or did. */
    char why[200];
};

/* Checks that the process inheritor->pid has only those GPU files that an owner among its ancestors
 * has open as well, that it shares neither memory nor descriptors with another process, and that it
 * could be stopped. Changes nothing. Sets all other members. */
void vg_guest_inheritor_check(const struct vg_guest_inheritors *among,
                              struct vg_guest_inheritor *inheritor);

/* Stops each process, checks it again, and makes it release the files. Sets all other members of
 * each. A process with a `why` kept some or all of its files. Returns how many have a `why`. */
size_t vg_guest_inheritors_release(const struct vg_guest_inheritors *among,
                                   struct vg_guest_inheritor *inheritors, size_t n,
                                   int64_t until_ms);

#endif
