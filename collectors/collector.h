/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector reads the live host, or a recording, and sends reports. The daemon runs it in a
 * thread named col-NAME; only the reports are shared. run() returns when vg_thread_stopping(), or
 * when there is nothing more to read. After a failure it does not return: it reports the state,
 * waits and retries. It sends a heartbeat (base/thread.h) at least every two seconds, unless a call
 * to a library or the kernel hangs, which the missing heartbeat reveals.
 */
#ifndef VG_COLLECTORS_COLLECTOR_H
#define VG_COLLECTORS_COLLECTOR_H

#include "base/thread.h"
#include "collectors/report.h"

typedef struct vg_collector vg_collector;

struct vg_collector_ops {
    const char *name;      /* at most 11 bytes: the thread is called col-NAME */
    bool measures_windows; /* reports windows; a window is complete when all such collectors have
                              passed it */
    void (*run)(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink);
    /* Wakes run() from a wait that base/thread.h does not know of. Any thread. May be NULL. */
    void (*wake)(vg_collector *collector);
    void (*free)(vg_collector *collector); /* after run() has returned */
};

/* Collectors embed this as their first member. */
struct vg_collector {
    const struct vg_collector_ops *ops;
    int64_t lag_ns; /* how much later its windows may arrive than others for the same time */
};

static inline void
vg_collector_free(vg_collector *collector)
{
    if (collector)
        collector->ops->free(collector);
}

/* Creates the collector of libvirt's state and events (collectors/libvirt.c). The first one starts
 * the virt-ev thread, which all of the process's connections need and which never ends. The pids
 * and vCPU threads of domains are found in proc. sys ("/sys" except in tests) and proc provide
 * what libvirt does not report about this machine's GPUs. Everything is reread after poll_ns and
 * after every event. */
vg_collector *vg_libvirt_new(const char *uri, const char *host_name, const char *sys,
                             const char *proc, int64_t poll_ns);

#endif
