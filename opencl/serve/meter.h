/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's commands did at the device, counted in memory that the client's process has in
 * common with the proxy, which reads it. A command waits from when it came until all that was given
 * to the device before it is done, and it runs from then on until it is done itself: one client at
 * a time has the device, and what two queues do at once counts once. While nobody asks, no command
 * is counted, and it costs nothing; what memory it has is always told. The same is told of each
 * command, one by one, while somebody traces.
 */
#ifndef VG_OPENCL_SERVE_METER_H
#define VG_OPENCL_SERVE_METER_H

#include <stdatomic.h>

#include "opencl/serve/serve.h"
#include "opencl/serve/told.h"

/* How long commands took is counted in buckets: 32 for each power of two of ns, from 2^10 (1 us) to
 * 2^42 (73 minutes); what is outside counts as what is next to it. */
#define VG_SERVE_TOOK_LOW  10
#define VG_SERVE_TOOK_SUBS 5
#define VG_SERVE_TOOK      (32 << VG_SERVE_TOOK_SUBS)

unsigned vg_serve_took_bucket(int64_t ns);

/* Returns the middle of a bucket in ns, which is within 1.6 % of all that is in it. */
int64_t vg_serve_took_middle(unsigned bucket);

#define VG_SERVE_NOTE_MAX 384 /* bytes */

/* What happened again and again. */
struct vg_serve_note {
    _Atomic uint64_t n;
    _Atomic int64_t at; /* when, last, by vg_cl_now() */
    char text[VG_SERVE_NOTE_MAX];
};

/* By what a client's bytes come. */
enum vg_serve_way {
    VG_SERVE_WAY_NONE, /* it has not said yet */
    VG_SERVE_WAY_SOCKET,
    VG_SERVE_WAY_SHARED,
    VG_SERVE_WAY_SESSION,
};

struct vg_serve_counts {
    atomic_bool is_wanted;                /* by the proxy: somebody asks */
    _Atomic uint64_t came, done;          /* commands */
    _Atomic int64_t wait_ns, run_ns;      /* of those that are done */
    _Atomic uint64_t took[VG_SERVE_TOOK]; /* of them, by wait and run */
    _Atomic uint64_t waited[VG_SERVE_TOOK], ran[VG_SERVE_TOOK];
    _Atomic uint64_t memory;  /* bytes of memory objects */
    _Atomic uint64_t objects; /* of all types */
    _Atomic unsigned way;     /* enum vg_serve_way */
    struct vg_wire_session_told link;
    struct vg_serve_note refused; /* what it may not have */
    struct vg_serve_note failed;  /* what gave an error, but for questions */
    char device[64];              /* name of the device that was used first; empty: none yet */
    struct vg_serve_told told;
};

/* Counts in *NOTE, from one thread at a time, and keeps the text as the last one. */
void vg_serve_note(struct vg_serve_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* COUNTS may be NULL. */
void vg_serve_meter_link(struct vg_serve_counts *counts, const struct vg_wire_link *link);

/* CALL has got this result. */
void vg_serve_meter_result(const struct vg_serve_call *call, cl_int result);

/* Before CALL is done, and before its command is given to the device. */
void vg_serve_meter_came(struct vg_serve_call *call);
void vg_serve_meter_entered(struct vg_serve_call *call);

/* CALL has given a command to the device, whose end EVENT tells. */
void vg_serve_meter_given(struct vg_serve_call *call, cl_command_queue queue, cl_event event);

/* What the client has now, after a call. */
void vg_serve_meter_have(struct vg_serve *serve);

/* CALL has come back, with RESULT. What it gave to the device and no event tells of is done. */
void vg_serve_meter_back(struct vg_serve_call *call, cl_int result);

#endif
