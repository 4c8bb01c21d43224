/* SPDX-License-Identifier: Apache-2.0
 *
 * A window in the store's memory, where it stays until some time after it is on disk. It contains
 * the stored figures in packed form, about 80 bytes per VM. Immutable, reference-counted.
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

/* A row of `lost`. The aggressor is a number assigned by the array's creator; 0 is "rest". */
struct vg_store_loss {
    uint32_t aggressor;
    int64_t ns;
    int64_t error_ns; /* for a process: maximum additional time, taken before it had a row */
    uint64_t count;
};

/* The CPU time that a host:user process took from the VM of a slot, or the CPU time that a host
 * program used. */
#define VG_STORE_TOOK_PROGRAM G_MAXUINT
struct vg_store_took {
    guint slot; /* VG_STORE_TOOK_PROGRAM if no VM is concerned */
    char *key;
    int64_t ns;
    uint64_t count;
};

/* Returns the key of a process: a letter for the length of the name, the name, and the control
 * group. The caller frees it. */
#define VG_STORE_TOOK_FIRST 'a'
char *vg_store_took_key(const char *comm, const char *cgroup);

/* Maximum number of processes that are kept per VM and window until the minute is summed. */
#define VG_STORE_TOOK_WINDOW 8

#define VG_STORE_REST "rest"

/* Adds more to sum; the sum has the flags of both. */
void vg_store_sample_add(struct vg_store_sample *sum, const struct vg_store_sample *more);

/* Adds a loss to the entry of the aggressor (struct vg_store_loss), which is created if necessary.
 */
void vg_store_losses_add(GArray *losses, uint32_t aggressor, int64_t ns, uint64_t count);

/* Keeps the `top` aggressors with the most ns, sorted by ns, and adds up the others as "rest" in
 * the last entry. */
void vg_store_losses_cut(GArray *losses, int64_t top);

struct vg_store_vm {
    char *key; /* the UUID, or the name if there is none */
    char *name;
};

/* The VMs of windows, shared by windows with the same VMs. */
struct vg_store_cast {
    atomic_int refs;
    guint n_slots;
    struct vg_store_vm *slots; /* in order of appearance, with unique keys */
    guint n_samples;
    guint *slot_of; /* the slot of each sample; two processes with the same key share a slot */
    uint32_t *ids;  /* the id of each sample in the topology */
};

struct vg_store_window {
    atomic_int refs;
    char *source;
    int64_t begin_ns; /* epoch */
    int64_t end_ns;
    uint64_t lost_events;
    struct vg_store_host host;
    GArray *took; /* struct vg_store_took, which own their keys; used only by the writer */
    struct vg_store_cast *cast; /* each of its slots has a sample */
    /* The ring's members, under its lock. */
    uint64_t number;
    bool committed;
    bool busy; /* it is being written */
    size_t size;
    uint8_t packed[];
};

/* Packs a window. provenance: its series is the source. begin_ns and end_ns: epoch. cast: that of
 * the previous window, or NULL; it is shared if the VMs are the same. */
struct vg_store_window *vg_store_window_new(const struct vg_provenance *provenance,
                                            const struct vg_window *window, int64_t begin_ns,
                                            int64_t end_ns, struct vg_store_cast *cast);
struct vg_store_window *vg_store_window_ref(struct vg_store_window *window);
void vg_store_window_unref(void *window); /* struct vg_store_window */
struct vg_store_cast *vg_store_cast_ref(struct vg_store_cast *cast);
void vg_store_cast_unref(struct vg_store_cast *cast); /* NULL is accepted */

/* Walks the samples in the order of the cast's slots. */
struct vg_store_cursor {
    const uint8_t *at;
};

/* Moves to the next sample. losses: struct vg_store_loss, which are overwritten. */
void vg_store_window_next(struct vg_store_cursor *cursor, struct vg_store_sample *ret,
                          GArray *losses);

/* Returns the name of an aggressor in these losses, valid as long as the window. */
const char *vg_store_window_aggressor(const struct vg_store_window *window, uint32_t aggressor);

/* Returns the slot of a VM in a window in memory, or -1. */
int vg_store_slot_of(const struct vg_store_window *window, const char *vm);

#endif
