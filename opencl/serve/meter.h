/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of what a client's commands do at the device, in memory that the client's process shares
 * with the proxy. A command's wait time lasts from its arrival until the device has done everything
 * submitted before it, and the program has set the user events that it waits for. Its run time
 * lasts from then until it is done. As only one client has the device, time in which two queues run
 * concurrently counts once. A command is done when this side first sees that it is, by a callback,
 * a query or a call that waits. If its queue has profiling times, they show how long it ran.
 * Commands are counted only while the proxy has set is_wanted; otherwise counting costs nothing.
 * Memory use is always reported. While a tracer is attached, the same values are also reported for
 * each command.
 */
#ifndef VG_OPENCL_SERVE_METER_H
#define VG_OPENCL_SERVE_METER_H

#include <stdatomic.h>

#include "opencl/serve/progress.h"
#include "opencl/serve/serve.h"

/* Durations are counted in buckets: 32 for each power of two of ns, from 2^10 (1 us) to 2^42 (73
 * minutes). Values outside count in the nearest bucket. */
#define VG_SERVE_TOOK_LOW  10
#define VG_SERVE_TOOK_SUBS 5
#define VG_SERVE_TOOK      (32 << VG_SERVE_TOOK_SUBS)

unsigned vg_serve_took_bucket(int64_t ns);

/* Returns the middle of a bucket in ns. It differs from any value in the bucket by at most 1.6
 * %. */
int64_t vg_serve_took_middle(unsigned bucket);

#define VG_SERVE_NOTE_MAX 384 /* bytes */

/* A repeated event. */
struct vg_serve_note {
    _Atomic uint64_t n;
    _Atomic int64_t at; /* time of the last one, by vg_cl_now() */
    char text[VG_SERVE_NOTE_MAX];
};

/* How a client's data are transferred. */
enum vg_serve_way {
    VG_SERVE_WAY_NONE, /* not known yet */
    VG_SERVE_WAY_SOCKET,
    VG_SERVE_WAY_SHARED,
    VG_SERVE_WAY_SESSION,
};

struct vg_serve_counts {
    atomic_bool is_wanted;                /* set by the proxy while counters are requested */
    _Atomic uint64_t came, done;          /* commands */
    _Atomic int64_t wait_ns, run_ns;      /* of completed commands */
    _Atomic uint64_t took[VG_SERVE_TOOK]; /* number of completed commands per bucket of wait time
                                             plus run time */
    _Atomic uint64_t waited[VG_SERVE_TOOK], ran[VG_SERVE_TOOK];
    _Atomic uint64_t memory;  /* bytes of memory objects */
    _Atomic uint64_t objects; /* of all types */
    _Atomic unsigned way;     /* enum vg_serve_way */
    struct vg_wire_session_state link;
    struct vg_serve_note refused; /* requests beyond the client's limits */
    struct vg_serve_note failed;  /* failed calls, except queries */
    char device[64];              /* name of the first device used; empty if none was yet */
    struct vg_serve_progress told;
};

/* Counts in *NOTE and stores the text as the latest. One thread at a time. */
void vg_serve_note(struct vg_serve_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* COUNTS may be NULL. */
void vg_serve_meter_link(struct vg_serve_counts *counts, const struct vg_wire_link *link);

/* CALL has returned RESULT. */
void vg_serve_meter_result(const struct vg_serve_call *call, cl_int result);

/* Call the first function when CALL arrives, and the second before its command is submitted to the
 * device. */
void vg_serve_meter_came(struct vg_serve_call *call);
void vg_serve_meter_entered(struct vg_serve_call *call);

/* CALL has submitted a command to the device. EVENT reports its end. */
void vg_serve_meter_given(struct vg_serve_call *call, cl_command_queue queue, cl_event event);

/* Finds which commands are done, and counts them. Call it after anything that may have waited for
 * them. Never waits for the device. Any thread. */
void vg_serve_meter_settle(void);

/* Updates the client's memory and object counts after a call. */
void vg_serve_meter_have(struct vg_serve *serve);

/* CALL has returned RESULT. Commands that it submitted without an event count as done. */
void vg_serve_meter_back(struct vg_serve_call *call, cl_int result);

#endif
