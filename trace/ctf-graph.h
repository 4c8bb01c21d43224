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
    CTF_PULL_AGAIN, /* live: nothing available now, or interrupted */
    CTF_PULL_END,
    CTF_PULL_FAILED /* this stream cannot be decoded further; the others can */
};

/* Receives one message, which is borrowed. */
typedef void ctf_message_fn(void *data, const bt_message *message);

/* Returns NULL and *err if babeltrace2 rejects the directory. */
struct ctf_graph *ctf_graph_open(const char *dir, GError **err);

/* Connects only in the first pull, which fails if the relay daemon is not running and ends if the
 * session does not exist. interrupter is borrowed for the graph's life. While it is set, a
 * blocking network call that a signal interrupts is not resumed, and the pull returns. Only
 * ctf_graph_unref() may follow. */
struct ctf_graph *ctf_graph_open_live(const char *url, bt_interrupter *interrupter, GError **err);

struct ctf_graph *ctf_graph_ref(struct ctf_graph *graph);
void ctf_graph_unref(struct ctf_graph *graph);

/* Number of ports. */
unsigned int ctf_graph_streams(const struct ctf_graph *graph);

/* Passes the next few messages of a port to fn. After FAILED (with *err) or END, the port must not
 * be pulled again. */
enum ctf_pull ctf_graph_pull(struct ctf_graph *graph, unsigned int stream, ctf_message_fn *fn,
                             void *data, GError **err);

/* For code that builds other graphs: returns sink.ctf.fs, which is never freed, or NULL and *err
 * if the plug-in is missing. */
const bt_component_class_sink *ctf_sink_class(GError **err);

/* Takes babeltrace2's pending error of this thread, if any, as the cause of `what`. Returns -1.
 * Call it after a failed babeltrace2 call, before any other. */
int ctf_take_error(GError **err, const char *what);

#endif
