/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectors and their threads: started, watched, stopped, and what is known of how each is
 * doing. Main thread, but for vg_supervisor_status().
 */
#ifndef VG_DAEMON_SUPERVISOR_H
#define VG_DAEMON_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "api/event-log.h"
#include "base/queue.h"
#include "collectors/collector.h"
#include "daemon/node.h"

typedef struct vg_supervisor vg_supervisor;

struct vg_supervisor_options {
    vg_node *node;        /* borrowed */
    vg_event_log *events; /* borrowed */
    vg_store *store;      /* borrowed: a replay waits for it */
    int64_t thread_limit_ns;
    bool replay;        /* windows are never dropped, reading waits */
    size_t backlog_max; /* a replay waits while more windows than this wait for the disk */
};

vg_supervisor *vg_supervisor_new(const struct vg_supervisor_options *options);

/* Stops the threads. One that does not end within some seconds is left to itself, with what it
 * uses: *ret_all_ended says if that happened, the process should then end without tidying up. */
void vg_supervisor_stop(vg_supervisor *supervisor, bool *ret_all_ended);
void vg_supervisor_free(vg_supervisor *supervisor);

/* Starts a collector on its thread. optional: the daemon counts as ready also while it has never
 * worked, because this host may not have what it looks for. */
int vg_supervisor_add(vg_supervisor *supervisor, vg_collector *take_collector, bool optional,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Is the collector of this name there, and has it given up? */
bool vg_supervisor_has_failed(const vg_supervisor *supervisor, const char *name);

void vg_supervisor_set_thread_limit(vg_supervisor *supervisor, int64_t thread_limit_ns);

/* File descriptors that are readable while reports wait, and what to do then: takes up to `most`
 * reports into the node; false: there was none. */
enum vg_supervisor_queue { VG_SUPERVISOR_WINDOWS, VG_SUPERVISOR_CONTROL, VG_SUPERVISOR_QUEUES };
int vg_supervisor_fd(const vg_supervisor *supervisor, enum vg_supervisor_queue queue);
bool vg_supervisor_take(vg_supervisor *supervisor, enum vg_supervisor_queue queue,
                        unsigned int most);

/* Once a second: who hangs, and who has come back? */
void vg_supervisor_watch(vg_supervisor *supervisor);

/* struct vg_part_status, one per collector. Any thread. */
void vg_supervisor_status(vg_supervisor *supervisor, GPtrArray *parts);
void vg_supervisor_read_stats(vg_supervisor *supervisor, struct vg_queue_stats *ret);

#endif
