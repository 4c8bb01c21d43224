/* SPDX-License-Identifier: Apache-2.0
 *
 * Records with the LTTng kernel tracer, which causes the least load and writes CTF directly.
 */
#include "config.h"

#include "base/clock.h"
#include "cli/record-dir.h"
#include "cli/record.h"
#include "trace/lttng-session.h"

#define STOP_NS (30 * VG_NS_PER_S)

static void *
lttng_start(struct vg_record_context *context, GError **err)
{
    const struct vg_lttng_options options = {.prefix = "vgpuctl-record", .dir = context->dir};
    g_autoptr(vg_lttng_session) session = vg_lttng_session_new(&options, err);

    if (!session || vg_lttng_session_start(session, err) < 0)
        return NULL;
    vg_record_note_missing(context, vg_lttng_session_missing(session));
    return g_steal_pointer(&session);
}

static int
lttng_finish(void *way, struct vg_record_context *context, uint64_t *ret_lost, GError **err)
{
    (void)context;
    if (vg_lttng_session_stop(way, STOP_NS, err) < 0)
        return -1;
    return vg_lttng_session_lost(way, ret_lost, err);
}

static void
lttng_free(void *way)
{
    vg_lttng_session_free(way);
}

const struct vg_record_way vg_record_lttng = {
    .name = "lttng",
    .trace = VG_RECORD_LTTNG,
    .start = lttng_start,
    .finish = lttng_finish,
    .free = lttng_free,
};
