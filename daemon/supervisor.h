/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts, monitors and stops the collectors and their threads, and records the state of each. Main
 * thread, except vg_supervisor_status().
 */
#ifndef VG_DAEMON_SUPERVISOR_H
#define VG_DAEMON_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/event-log.h"
#include "base/queue.h"
#include "collectors/collector.h"
#include "daemon/node.h"

typedef struct vg_supervisor vg_supervisor;

struct vg_supervisor_options {
    vg_node *node;        /* borrowed */
    vg_event_log *events; /* borrowed */
    vg_store *store;      /* borrowed; a replay waits for it */
    int64_t thread_limit_ns;
    bool replay;        /* a replay: windows are never dropped; reading waits instead */
    size_t backlog_max; /* a replay pauses while more than this number of windows are waiting to be
                           written to disk */
};

vg_supervisor *vg_supervisor_new(const struct vg_supervisor_options *options);

/* Stops the threads. A thread that does not end within a few seconds is left running, with
 * everything that it uses. *ret_all_ended is then false, and the process should exit without
 * cleaning up. */
void vg_supervisor_stop(vg_supervisor *supervisor, bool *ret_all_ended);
void vg_supervisor_free(vg_supervisor *supervisor);

/* Starts a collector on its thread. optional: the daemon is ready even if the collector has never
 * worked, because this host may not have the hardware or software that it measures. */
int vg_supervisor_add(vg_supervisor *supervisor, vg_collector *take_collector, bool optional,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns whether a collector of this name has failed permanently. */
bool vg_supervisor_has_failed(const vg_supervisor *supervisor, const char *name);

void vg_supervisor_set_thread_limit(vg_supervisor *supervisor, int64_t thread_limit_ns);

/* _fd returns a file descriptor that is readable while reports are waiting. _take passes up to
 * `most` of these reports to the node, and returns false if there were none. */
enum vg_supervisor_queue { VG_SUPERVISOR_WINDOWS, VG_SUPERVISOR_CONTROL, VG_SUPERVISOR_QUEUES };
int vg_supervisor_fd(const vg_supervisor *supervisor, enum vg_supervisor_queue queue);
bool vg_supervisor_take(vg_supervisor *supervisor, enum vg_supervisor_queue queue,
                        unsigned int most);

/* Detects collectors that hang, and collectors that have recovered. Called once a second. */
void vg_supervisor_watch(vg_supervisor *supervisor);

/* Adds a struct vg_part_status for each collector. Any thread. */
void vg_supervisor_status(vg_supervisor *supervisor, GPtrArray *parts);
void vg_supervisor_read_stats(vg_supervisor *supervisor, struct vg_queue_stats *ret);

#endif
