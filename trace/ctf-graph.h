/* SPDX-License-Identifier: Apache-2.0
 *
 * One babeltrace2 graph: a source, and a sink that serves one of its ports at a time on demand. The
 * source is source.ctf.fs on a trace directory, with a port for each stream, or
 * source.ctf.lttng-live on a session, with one port that has the messages of all streams in the
 * order of time. Keeps everything about components and ports in one place.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_GRAPH_H
#define VG_TRACE_CTF_GRAPH_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

struct ctf_graph;

enum ctf_pull {
    CTF_PULL_MORE,
    CTF_PULL_AGAIN, /* live: nothing for now, or interrupted */
    CTF_PULL_END,
    CTF_PULL_FAILED /* this stream cannot be decoded further; the others can */
};

/* Sees one message; borrows it. */
typedef void ctf_message_fn(void *data, const bt_message *message);

/* NULL and *err if babeltrace2 refuses the directory. */
struct ctf_graph *ctf_graph_open(const char *dir, GError **err);

/* Nobody is asked before the first pull, which connects and fails if there is no relay daemon, or
 * ends if it has no such session. interrupter is borrowed for the life of the graph: while it is
 * set, a blocking call of the network that a signal interrupts is not resumed, and the pull
 * returns; only ctf_graph_unref() may follow. */
struct ctf_graph *ctf_graph_open_live(const char *url, bt_interrupter *interrupter, GError **err);

struct ctf_graph *ctf_graph_ref(struct ctf_graph *graph);
void ctf_graph_unref(struct ctf_graph *graph);

/* Number of ports. */
unsigned int ctf_graph_streams(const struct ctf_graph *graph);

/* Hands the next few messages of a port to fn. After FAILED (with *err) or END the port must not be
 * pulled again. */
enum ctf_pull ctf_graph_pull(struct ctf_graph *graph, unsigned int stream, ctf_message_fn *fn,
                             void *data, GError **err);

/* For who builds graphs of another kind: sink.ctf.fs, which lives as long as the program; NULL and
 * *err if there is no plug-in. */
const bt_component_class_sink *ctf_sink_class(GError **err);

/* Takes babeltrace2's error of this thread, if there is one, as the cause of `what`; returns -1.
 * Wherever a call of babeltrace2 has failed, nothing else may be asked of it before. */
int ctf_take_error(GError **err, const char *what);

#endif
