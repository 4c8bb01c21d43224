/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/forecast.h"

#include <glib.h>

#include "base/clock.h"

#define UNPLUG_S 1.0
#define GUEST_S  2.0
/* The time that one question to another program takes. */
#define ASK_S 0.1
/* The rates at which NVIDIA's driver moves GPU memory on an H100, also side by side:
 * docs/benchmarks.md. */
#define RELEASE_BYTES_PER_S (1.6 * 1073741824)
#define RESTORE_BYTES_PER_S (5.0 * 1073741824)

/* Returns the time of the copying. While the VM moves, the guest's memory also holds what programs
 * have in GPU memory, in pages that were free before and so would not have been copied. */
static double
forecast_copy_s(const struct vg_forecast_facts *facts)
{
    const double most = (double)facts->bandwidth_bytes_per_s;
    const double rate = (double)facts->link_bytes_per_s;
    const double bytes = (double)facts->memory_bytes + (double)facts->gpu_bytes;

    return bytes / (most > 0 ? MIN(most, rate) : rate) +
           (double)facts->stun_ns / (double)VG_NS_PER_S;
}

static double
forecast_expected_s(enum vg_move_verb verb, const struct vg_forecast_facts *facts)
{
    switch (verb) {
    case VG_MOVE_QUIESCE:
        return GUEST_S + (double)facts->gpu_bytes / RELEASE_BYTES_PER_S;
    case VG_MOVE_RESUME:
        return GUEST_S + (double)facts->gpu_bytes / RESTORE_BYTES_PER_S;
    case VG_MOVE_DETACH:
    case VG_MOVE_ATTACH:
        return UNPLUG_S;
    case VG_MOVE_MIGRATE:
        return forecast_copy_s(facts);
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_RESERVE:
    case VG_MOVE_VERIFY:
    case VG_MOVE_RETURN:
    case VG_MOVE_REATTACH:
    case VG_MOVE_REVIVE:
    case VG_MOVE_TIDY:
    case VG_MOVE_RELEASE:
    case VG_MOVE_VERB_MAX:
    default:
        return ASK_S;
    }
}

static double
forecast_deadline_s(enum vg_move_verb verb, const struct vg_forecast_limits *limits)
{
    int64_t ns = vg_move_deadline_ns(verb);

    if (verb == VG_MOVE_QUIESCE || verb == VG_MOVE_RESUME)
        ns = limits->guest_ns;
    else if (verb == VG_MOVE_DETACH)
        ns = limits->unplug_ns;
    else if (verb == VG_MOVE_MIGRATE)
        ns = limits->migrate_ns;
    return (double)ns / (double)VG_NS_PER_S;
}

void
vg_forecast_make(bool has_gpus, bool has_agent, const struct vg_forecast_facts *facts,
                 const struct vg_forecast_limits *limits, struct vg_forecast *ret)
{
    const struct vg_move_facts begin = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
    struct vg_move move;
    enum vg_move_verb verb;

    *ret = (struct vg_forecast){0};
    vg_move_init(&move, has_gpus, has_gpus && has_agent);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX && ret->n < VG_MOVE_VERB_MAX) {
        struct vg_forecast_step *step = &ret->steps[ret->n++];
        vg_move_told(&move, true, verb == VG_MOVE_LOOK ? &begin : NULL);
        step->verb = verb;
        step->expected_s = forecast_expected_s(verb, facts);
        step->deadline_s = forecast_deadline_s(verb, limits);
        ret->expected_s += step->expected_s;
    }
}
