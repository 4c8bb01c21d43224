/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectors and their threads: started, watched, stopped, and what is known of how each is
 * doing. Main thread, but for vg_crew_status().
 */
#ifndef VG_DAEMON_SUPERVISE_H
#define VG_DAEMON_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "api/event-log.h"
#include "base/queue.h"
#include "collectors/collector.h"
#include "daemon/node.h"

typedef struct vg_crew vg_crew;

struct vg_crew_options {
    vg_node *node;        /* borrowed */
    vg_event_log *events; /* borrowed */
    vg_store *store;      /* borrowed: a replay waits for it */
    int64_t thread_limit_ns;
    bool replay;        /* windows are never dropped, reading waits */
    size_t backlog_max; /* a replay waits while more windows than this wait for the disk */
};

vg_crew *vg_crew_new(const struct vg_crew_options *options);

/* Stops the threads. One that does not end within some seconds is left to itself, with what it
 * uses: *ret_all_ended says if that happened, the process should then end without tidying up. */
void vg_crew_stop(vg_crew *crew, bool *ret_all_ended);
void vg_crew_free(vg_crew *crew);

/* Starts a collector on its thread. optional: the daemon counts as ready also while it has never
 * worked, because this host may not have what it looks for. */
int vg_crew_add(vg_crew *crew, vg_collector *take_collector, bool optional,
                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Is the collector of this name there, and has it given up? */
bool vg_crew_has_failed(const vg_crew *crew, const char *name);

void vg_crew_set_thread_limit(vg_crew *crew, int64_t thread_limit_ns);

/* File descriptors that are readable while reports wait, and what to do then: takes up to `most`
 * reports into the node; false: there was none. */
enum vg_crew_queue { VG_CREW_WINDOWS, VG_CREW_CONTROL, VG_CREW_QUEUES };
int vg_crew_fd(const vg_crew *crew, enum vg_crew_queue queue);
bool vg_crew_take(vg_crew *crew, enum vg_crew_queue queue, unsigned int most);

/* Once a second: who hangs, and who has come back? */
void vg_crew_watch(vg_crew *crew);

/* struct vg_part_status, one per collector. Any thread. */
void vg_crew_status(vg_crew *crew, GPtrArray *parts);
void vg_crew_read_stats(vg_crew *crew, struct vg_queue_stats *ret);

#endif
