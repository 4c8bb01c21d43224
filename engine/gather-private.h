/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the gatherer's files.
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
    bool remembered; /* is in closed_parts */
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
    GPtrArray *pieces;    /* struct part that made no window, and may belong to the next window */
    int64_t closed_ns;    /* the end of the newest window that was closed */
    int64_t measured_ns;  /* and of the newest one that has CPU figures */
    uint64_t cpu_missed;  /* windows whose CPU figures arrived too late; not reported yet */
    uint64_t gpu_missed;  /* the same for GPU use, for the times in `lost` */
    GArray *lost;         /* successive spans of time that are reported as missing */
    int64_t forgotten_ns; /* all time before this is also reported */
    GArray *closed_parts; /* struct closed, the newest ones, to distinguish late parts from
                             duplicates */
    GArray *identities;   /* struct identity */
    uint32_t n_ids;
    struct vg_gather_stats stats;
};

struct closed {
    unsigned int source;
    int64_t end_ns;
};

/* Assigns the common ids to the VMs of a part. */
void vg_gather_rename(vg_gather *gather, struct part *part);

/* Drops VMs that have not been in any window for a long time. */
void vg_gather_forget(vg_gather *gather);

/* Removes a part's figures before begin_ns, which is in no open window. Returns false if nothing is
 * left. */
bool vg_gather_trim(vg_gather *gather, struct part *part, int64_t begin_ns);

/* Returns an empty array for reported spans of time. */
GArray *vg_gather_lost_new(void);

/* Counts the windows of this time that are not reported yet as windows whose GPU use arrived too
 * late. */
void vg_gather_lose(vg_gather *gather, int64_t begin_ns, int64_t end_ns);

/* Does the same for windows before a part that its source missed. */
void vg_gather_lose_before(vg_gather *gather, struct part *part);

/* Returns how many windows the leading source missed before one that starts at begin_ns, except
 * those that another source has seen or that are reported. */
uint64_t vg_gather_count_missed(vg_gather *gather, const struct vg_provenance *lead,
                                int64_t begin_ns);

/* Joins pieces. A late source makes one long window, while others continue; their pieces, of which
 * this part is the last, are joined again. */
void vg_gather_add_pieces(vg_gather *gather, struct part *last, int64_t begin_ns);

/* Joins a less trusted part: GPU use, and VMs that the lead does not see. A VM with only GPU use
 * waits until the lead sees it, because its CPU figures would be zeros. */
void vg_gather_join(struct vg_window *lead, struct vg_window *other, bool only_gpu);

#endif
