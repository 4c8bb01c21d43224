/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the gatherer share.
 */
#ifndef VG_ENGINE_GATHER_PRIVATE_H
#define VG_ENGINE_GATHER_PRIVATE_H

#include "engine/gather.h"

/* One source's measurement of one window. */
struct part {
    unsigned int source;
    struct vg_window window;
    struct vg_provenance provenance;
    int64_t clock_offset_ns;
    bool remembered; /* as one of a closed window */
};

struct source {
    bool alive;
    bool besides; /* its newest part has no CPU figures */
    int64_t lag_ns;
    int64_t passed_ns; /* the end of its newest part; INT64_MIN if there is none yet */
};

/* A VM of one source, and its name in gathered windows. */
struct identity {
    unsigned int source;
    uint32_t source_id;
    uint32_t id;
    int32_t pid;
    char uuid[VG_UUID_LEN];
    uint64_t last_window;
};

struct vg_gather {
    int64_t window_ns;
    struct source sources[VG_GATHER_SOURCES_MAX];
    unsigned int n_sources;
    GPtrArray *parts;     /* struct part, sorted by end, then by source */
    GPtrArray *pieces;    /* struct part that made no window, and may be pieces of the next one */
    int64_t closed_ns;    /* the end of the newest window that was closed */
    int64_t measured_ns;  /* and of the newest one that has CPU figures */
    uint64_t cpu_missed;  /* windows whose CPU figures came too late; not told yet */
    uint64_t gpu_missed;  /* likewise, use of GPUs, of time that is in lost */
    GArray *lost;         /* spans of time, one after another, that are told to be missing */
    int64_t forgotten_ns; /* likewise all before that */
    GArray *closed_parts; /* struct closed, the newest ones, to tell late parts from double ones */
    GArray *identities;   /* struct identity */
    uint32_t n_ids;
    struct vg_gather_stats stats;
};

struct closed {
    unsigned int source;
    int64_t end_ns;
};

/* Gives the VMs of a part their common ids. */
void vg_gather_rename(vg_gather *gather, struct part *part);

/* Forgets VMs that were in no window for long. */
void vg_gather_forget(vg_gather *gather);

/* Cuts off what a part tells of the time before begin, which is in no window that is closed from
 * now on. False: nothing is left. */
bool vg_gather_trim(vg_gather *gather, struct part *part, int64_t begin_ns);

/* Spans of time that are told. */
GArray *vg_gather_lost_new(void);

/* Counts the windows of this time, as far as they are not told, as those whose use of GPUs came too
 * late. */
void vg_gather_lose(vg_gather *gather, int64_t begin_ns, int64_t end_ns);

/* Likewise those before a part that its source missed. */
void vg_gather_lose_before(vg_gather *gather, struct part *part);

/* Returns how many windows who leads has missed before one that begins then, unless another source
 * has seen them, or they are told. */
uint64_t vg_gather_count_missed(vg_gather *gather, const struct vg_provenance *lead,
                                int64_t begin_ns);

/* Joins pieces. A source that was late makes one long window, while others went on; their pieces,
 * the last of which is this part, are put together again. */
void vg_gather_add_pieces(vg_gather *gather, struct part *last, int64_t begin_ns);

/* Joins a less trusted part: GPU use, and VMs that the lead does not see. A VM of which only GPU
 * use is known waits for the lead to see it, since its CPU figures would be zeros. */
void vg_gather_join(struct vg_window *lead, struct vg_window *other, bool only_gpu);

#endif
