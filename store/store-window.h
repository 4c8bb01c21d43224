/* SPDX-License-Identifier: Apache-2.0
 *
 * A window as the store keeps it in memory until it is on disk, and a while longer: its stored
 * figures, packed, about 80 bytes for a VM. Immutable, counted references.
 */
#ifndef VG_STORE_STORE_WINDOW_H
#define VG_STORE_STORE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <stdatomic.h>

#include "model/cpu-figures.h"
#include "model/provenance.h"
#include "model/window.h"
#include "store/store-host.h"

/* The flags of a sample. */
#define VG_SAMPLE_GUEST_KNOWN 1
#define VG_SAMPLE_GPU_KNOWN   2
/* The other bits are enum vg_cpu_lack, which older versions ignore. */
#define VG_SAMPLE_LACKS_SHIFT 2

/* A row of `sample`, without win and vm. */
struct vg_store_sample {
    int64_t windows;
    int64_t flags;
    int64_t gpu_active_ns;
    struct vg_cpu_figures cpu; /* blocked_ns follows from the others */
};

/* A row of `lost`. The aggressor is a number that the maker of the array has given; 0 is "rest". */
struct vg_store_loss {
    uint32_t aggressor;
    int64_t ns;
    int64_t error_ns; /* of a process: what it may have taken besides, before it had a row */
    uint64_t count;
};

/* What a process behind host:user took of the VM in a slot, or the CPU time of a program of the
 * host. */
#define VG_STORE_TOOK_PROGRAM G_MAXUINT
struct vg_store_took {
    guint slot; /* VG_STORE_TOOK_PROGRAM: of no VM */
    char *key;
    int64_t ns;
    uint64_t count;
};

/* Returns the key of a process: a letter that tells how long the name is, the name, and the control
 * group. The caller frees it. */
#define VG_STORE_TOOK_FIRST 'a'
char *vg_store_took_key(const char *comm, const char *cgroup);

/* So many of a VM are kept of a window, until its minute is summed. */
#define VG_STORE_TOOK_WINDOW 8

#define VG_STORE_REST "rest"

/* Adds more to sum; flags of any of them are set. */
void vg_store_sample_add(struct vg_store_sample *sum, const struct vg_store_sample *more);

/* Adds to the entry of the aggressor (struct vg_store_loss), which is made if need be. */
void vg_store_losses_add(GArray *losses, uint32_t aggressor, int64_t ns, uint64_t count);

/* Keeps the `top` aggressors with most ns, in this order; the others become "rest", the last
 * one. */
void vg_store_losses_cut(GArray *losses, int64_t top);

struct vg_store_vm {
    char *key; /* the UUID, or the name if there is none */
    char *name;
};

/* The VMs of windows, which share it as long as the VMs stay the same. */
struct vg_store_cast {
    atomic_int refs;
    guint n_slots;
    struct vg_store_vm *slots; /* in the order of appearance; keys differ */
    guint n_samples;
    guint *slot_of; /* by sample of the window; two processes with one key share a slot */
    uint32_t *ids;  /* by sample, the ids in the topology */
};

struct vg_store_window {
    atomic_int refs;
    char *source;
    int64_t begin_ns; /* epoch */
    int64_t end_ns;
    uint64_t lost_events;
    struct vg_store_host host;
    GArray *took;               /* struct vg_store_took, which own their keys; the writer's alone */
    struct vg_store_cast *cast; /* each of its slots has a sample */
    /* These belong to the ring, under its lock. */
    uint64_t number;
    bool committed;
    bool busy; /* it is being written */
    size_t size;
    uint8_t packed[];
};

/* Packs a window. provenance: its series is the source. begin_ns and end_ns: epoch. cast: that of
 * the window before, or NULL; shared if it fits. */
struct vg_store_window *vg_store_window_new(const struct vg_provenance *provenance,
                                            const struct vg_window *window, int64_t begin_ns,
                                            int64_t end_ns, struct vg_store_cast *cast);
struct vg_store_window *vg_store_window_ref(struct vg_store_window *window);
void vg_store_window_unref(void *window); /* struct vg_store_window */
struct vg_store_cast *vg_store_cast_ref(struct vg_store_cast *cast);
void vg_store_cast_unref(struct vg_store_cast *cast); /* NULL is fine */

/* Walks the samples in the order of the cast's slots. */
struct vg_store_cursor {
    const uint8_t *at;
};

/* Moves to the next sample. losses: struct vg_store_loss, which are overwritten. */
void vg_store_window_next(struct vg_store_cursor *cursor, struct vg_store_sample *ret,
                          GArray *losses);

/* Returns the name of an aggressor in these losses, which lives as long as the window. */
const char *vg_store_window_aggressor(const struct vg_store_window *window, uint32_t aggressor);

/* Returns the slot of a VM in a window in memory, or -1. */
int vg_store_slot_of(const struct vg_store_window *window, const char *vm);

#endif
