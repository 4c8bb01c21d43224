/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracer for LTTng-UST, a separate shared object, vgpud-lttng-ust.so. It contains the
 * tracepoints because a program with tracepoints always loads liblttng-ust-tracepoint before
 * main(), traced or not, even with LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE.
 */
#include "config.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "daemon/trace-lttng-events.h"

static void
window_closed(const struct vg_traced_window *window)
{
    lttng_ust_tracepoint(vgpud, window_closed, window);
}

static void
score_changed(const struct vg_traced_score *score)
{
    lttng_ust_tracepoint(vgpud, score_changed, score);
}

static void
plan_made(const struct vg_traced_plan *plan)
{
    lttng_ust_tracepoint(vgpud, plan_made, plan);
}

static void
queue_high_water(const struct vg_traced_queue *queue)
{
    lttng_ust_tracepoint(vgpud, queue_high_water, queue);
}

static void
events_lost(const struct vg_traced_loss *loss)
{
    lttng_ust_tracepoint(vgpud, events_lost, loss);
}

extern const struct vg_tracer vg_tracer_of_vgpud;

const struct vg_tracer vg_tracer_of_vgpud = {
    .version = PACKAGE_VERSION,
    .window_closed = window_closed,
    .score_changed = score_changed,
    .plan_made = plan_made,
    .queue_high_water = queue_high_water,
    .events_lost = events_lost,
};
