/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/perfetto-lanes.h"

struct lane {
    uint64_t track;
    int64_t free_ns; /* time from which it is free */
    bool taken;
};

struct vg_perfetto_lanes {
    vg_perfetto *trace;
    uint64_t parent;
    char *name;
    GArray *lanes; /* struct lane */
};

vg_perfetto_lanes *
vg_perfetto_lanes_new(vg_perfetto *trace, uint64_t parent, const char *name)
{
    vg_perfetto_lanes *lanes = g_new0(vg_perfetto_lanes, 1);

    lanes->trace = trace;
    lanes->parent = parent;
    lanes->name = g_strdup(name);
    lanes->lanes = g_array_new(FALSE, FALSE, sizeof(struct lane));
    return lanes;
}

void
vg_perfetto_lanes_free(vg_perfetto_lanes *lanes)
{
    if (!lanes)
        return;
    g_array_unref(lanes->lanes);
    g_free(lanes->name);
    g_free(lanes);
}

static struct lane *
add_lane(vg_perfetto_lanes *lanes)
{
    struct lane lane = {
        .track = vg_perfetto_track(lanes->trace, lanes->parent, lanes->name),
    };

    g_array_append_val(lanes->lanes, lane);
    return &g_array_index(lanes->lanes, struct lane, lanes->lanes->len - 1);
}

uint64_t
vg_perfetto_lanes_take(vg_perfetto_lanes *lanes, int64_t begin_ns)
{
    struct lane *found = NULL;

    for (unsigned int i = 0; !found && i < lanes->lanes->len; i++) {
        struct lane *lane = &g_array_index(lanes->lanes, struct lane, i);
        if (!lane->taken && lane->free_ns <= begin_ns)
            found = lane;
    }
    if (!found && lanes->lanes->len >= VG_PERFETTO_LANES_MAX)
        return 0;
    if (!found)
        found = add_lane(lanes);
    found->taken = true;
    return found->track;
}

void
vg_perfetto_lanes_give_back(vg_perfetto_lanes *lanes, uint64_t track, int64_t end_ns)
{
    for (unsigned int i = 0; i < lanes->lanes->len; i++) {
        struct lane *lane = &g_array_index(lanes->lanes, struct lane, i);
        if (lane->track == track) {
            lane->taken = false;
            lane->free_ns = MAX(lane->free_ns, end_ns);
        }
    }
}

uint64_t
vg_perfetto_lanes_place(vg_perfetto_lanes *lanes, int64_t begin_ns, int64_t end_ns)
{
    uint64_t track = vg_perfetto_lanes_take(lanes, begin_ns);

    vg_perfetto_lanes_give_back(lanes, track, end_ns);
    return track;
}

unsigned int
vg_perfetto_lanes_count(const vg_perfetto_lanes *lanes)
{
    return lanes->lanes->len;
}
