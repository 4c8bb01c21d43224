/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector reads the live host, or a recording, and reports. The daemon makes a thread for it,
 * named col-NAME; nothing is shared but the reports. run() returns when vg_thread_stopping(), or
 * when there is nothing more to read. It does not give up on trouble: it reports the state, waits
 * and tries again. It beats (base/thread.h) at least every two seconds, unless a foreign call
 * hangs, which the heartbeat is there to show.
 */
#ifndef VG_COLLECTORS_COLLECTOR_H
#define VG_COLLECTORS_COLLECTOR_H

#include "base/thread.h"
#include "collectors/report.h"

typedef struct vg_collector vg_collector;

struct vg_collector_ops {
    const char *name;      /* at most 11 bytes: the thread is called col-NAME */
    bool measures_windows; /* reports windows; a window is complete when all such collectors
                            * passed it */
    void (*run)(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink);
    /* Wakes run() from a wait that base/thread.h does not know of; any thread. May be NULL. */
    void (*wake)(vg_collector *collector);
    void (*free)(vg_collector *collector); /* after run() has returned */
};

/* Collectors embed this as their first member. */
struct vg_collector {
    const struct vg_collector_ops *ops;
    int64_t lag_ns; /* how much later its windows may come than others of the same time */
};

static inline void
vg_collector_free(vg_collector *collector)
{
    if (collector)
        collector->ops->free(collector);
}

/* Makes the collector of libvirt's state and events (collectors/libvirt.c). The virt-ev thread,
 * which all connections of the process need, is started with the first one and never ends. proc as
 * above: pids and vCPU threads of domains are found there. sys ("/sys" except in tests) and proc
 * tell what libvirt does not about this machine's GPUs. poll_ns: time after which everything is
 * read again; it is also read after every event. */
vg_collector *vg_libvirt_new(const char *uri, const char *host_name, const char *sys,
                             const char *proc, int64_t poll_ns);

#endif
