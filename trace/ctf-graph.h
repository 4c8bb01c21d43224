/* SPDX-License-Identifier: Apache-2.0
 *
 * One babeltrace2 graph: a source.ctf.fs on one trace directory, and a sink that serves one stream
 * at a time on demand. Keeps everything about components and ports in one place.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_GRAPH_H
#define VG_TRACE_CTF_GRAPH_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

struct ctf_graph;

enum ctf_pull {
    CTF_PULL_MORE,
    CTF_PULL_END,
    CTF_PULL_FAILED /* this stream cannot be decoded further; the others can */
};

/* Sees one message; borrows it. */
typedef void ctf_message_fn(void *data, const bt_message *message);

/* NULL and *err if babeltrace2 refuses the directory. */
struct ctf_graph *ctf_graph_open(const char *dir, GError **err);

struct ctf_graph *ctf_graph_ref(struct ctf_graph *graph);
void ctf_graph_unref(struct ctf_graph *graph);

/* Number of streams. */
unsigned int ctf_graph_streams(const struct ctf_graph *graph);

/* Hands the next few messages of a stream to fn. After FAILED (with *err) or END the stream must
 * not be pulled again. */
enum ctf_pull ctf_graph_pull(struct ctf_graph *graph, unsigned int stream, ctf_message_fn *fn,
                             void *data, GError **err);

#endif
