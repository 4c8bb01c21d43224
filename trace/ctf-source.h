/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a plan (trace/ctf-write.h) as a babeltrace2 component with one port and one
 * stream. sink.ctf.fs accepts only certain packets. After a loss, a packet must start where no
 * records are missing any more. The loss must extend from the end of the previous packet to the
 * end of the next. So each packet is assembled before its first message is sent. One thread at a
 * time.
 */
#ifndef VG_TRACE_CTF_SOURCE_H
#define VG_TRACE_CTF_SOURCE_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

#include "trace/ctf-packet.h"
#include "trace/ctf-write.h"

struct ctf_source;

/* Fails with VG_E_INVALID for anything that a trace cannot represent. */
int ctf_plan_check(const struct vg_ctf_plan *plan, GError **err);

/* The plan is borrowed and must have been checked. */
struct ctf_source *ctf_source_new(const struct vg_ctf_plan *plan);

/* Call after the graph is freed. A sink that failed reads from the trace when it is freed, and
 * must not hold the last reference to it. */
void ctf_source_free(struct ctf_source *source);

int ctf_source_add(struct ctf_source *source, bt_graph *graph, const bt_component_source **ret,
                   GError **err);

/* Returns the error that ended the records early, or NULL if they caused none. The caller frees
 * it. */
GError *ctf_source_take_error(struct ctf_source *source);

/* Frees the messages that were not consumed. Call before the graph is freed. */
void ctf_source_drop_messages(struct ctf_source *source);

/* Makes a UUID that depends only on the digested data. */
void ctf_digest_to_uuid(GChecksum *sha256, uint8_t ret[CTF_UUID_SIZE]);

#endif
