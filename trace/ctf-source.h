/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a plan (trace/ctf-write.h) as a component of babeltrace2, with one port and one
 * stream. sink.ctf.fs takes only packets of a certain kind: those that follow a loss begin where
 * nothing is missing any more, and a loss is told from the end of the packet before to the end of
 * the one behind it. So a packet is put together before the first message of it is handed on.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_SOURCE_H
#define VG_TRACE_CTF_SOURCE_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

#include "trace/ctf-packet.h"
#include "trace/ctf-write.h"

struct ctf_source;

/* VG_E_INVALID for what no trace can say. */
int ctf_plan_check(const struct vg_ctf_plan *plan, GError **err);

/* The plan is borrowed, and has been checked. */
struct ctf_source *ctf_source_new(const struct vg_ctf_plan *plan);

/* After the graph: a sink that has broken off reads from the trace when it is freed, and must not
 * be the last who holds it. */
void ctf_source_free(struct ctf_source *source);

int ctf_source_add(struct ctf_source *source, bt_graph *graph, const bt_component_source **ret,
                   GError **err);

/* Why the records ended before their end; NULL if that was not their fault. The caller frees it. */
GError *ctf_source_take_error(struct ctf_source *source);

/* Lets go of the messages that nobody has taken; before the graph is freed. */
void ctf_source_drop_messages(struct ctf_source *source);

/* A UUID that is the same whenever the same was digested. */
void ctf_digest_to_uuid(GChecksum *sha256, uint8_t ret[CTF_UUID_SIZE]);

#endif
