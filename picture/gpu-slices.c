/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "picture/gpu-slices.h"

/* The number of parts of a request that are stored until it has run and its owner is known.
 * Requests in order that are never preempted have fewer. */
#define PARTS_MAX 32

/* A completed stage. */
struct part {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t process;
    uint16_t device;
    uint16_t engine;
    uint8_t stage; /* enum vg_gpu_stage */
};

struct request {
    struct vg_gpu_change now; /* stage OVER: this place is free */
    GArray *parts;            /* struct part; NULL: none yet */
};

struct vg_gpu_slices {
    struct vg_gpu_slices_ops ops;
    void *data;
    GArray *requests; /* struct request, by number */
    uint64_t flows;
};

static void
clear_request(void *data)
{
    struct request *request = data;

    g_clear_pointer(&request->parts, g_array_unref);
}

vg_gpu_slices *
vg_gpu_slices_new(const struct vg_gpu_slices_ops *ops, void *data)
{
    vg_gpu_slices *slices = g_new0(vg_gpu_slices, 1);

    slices->ops = *ops;
    slices->data = data;
    slices->requests = g_array_new(FALSE, FALSE, sizeof(struct request));
    g_array_set_clear_func(slices->requests, clear_request);
    return slices;
}

void
vg_gpu_slices_free(vg_gpu_slices *slices)
{
    if (!slices)
        return;
    g_array_unref(slices->requests);
    g_free(slices);
}

static struct request *
need_request(vg_gpu_slices *slices, uint32_t number)
{
    const struct request none = {.now = {.stage = VG_GPU_STAGE_OVER}};

    while (slices->requests->len <= number)
        g_array_append_val(slices->requests, none);
    return &g_array_index(slices->requests, struct request, number);
}

static bool
is_slice(enum vg_gpu_stage stage)
{
    return vg_gpu_stage_waits(stage) || stage == VG_GPU_STAGE_RUNNING;
}

static bool
same_place(const struct vg_gpu_change *a, const struct vg_gpu_change *b)
{
    return a->process == b->process && a->engine == b->engine && a->device == b->device;
}

/* ---- parts ---- */

static bool
follows(const struct part *part, const struct part *next)
{
    return next->begin_ns == part->end_ns && next->process == part->process &&
           next->engine == part->engine && next->device == part->device;
}

/* Joins parts that proved to be the same stage. */
static void
join_parts(GArray *parts)
{
    guint n = 0;

    for (guint i = 1; i < parts->len; i++) {
        struct part *last = &g_array_index(parts, struct part, n);
        const struct part *part = &g_array_index(parts, struct part, i);
        if (follows(last, part) && part->stage == last->stage)
            last->end_ns = part->end_ns;
        else
            g_array_index(parts, struct part, ++n) = *part;
    }
    g_array_set_size(parts, MIN(n + 1, parts->len));
}

static void
hand_out(vg_gpu_slices *slices, const struct request *request)
{
    uint64_t flow = 0;

    if (!request->parts)
        return;
    join_parts(request->parts);
    for (guint i = 0; i < request->parts->len; i++) {
        const struct part *part = &g_array_index(request->parts, struct part, i);
        const struct part *next = i + 1 < request->parts->len ? part + 1 : NULL;
        struct vg_gpu_slice slice = {.what = request->now, .end_ns = part->end_ns};
        slice.what.stage = (enum vg_gpu_stage)part->stage;
        slice.what.t_ns = part->begin_ns;
        slice.what.device = part->device;
        slice.what.engine = part->engine;
        slice.what.process = part->process;
        if (part->process != request->now.process)
            slice.what.comm[0] = '\0';
        if (vg_gpu_stage_waits(slice.what.stage)) {
            slice.goes_on =
                next && follows(part, next) && vg_gpu_stage_waits((enum vg_gpu_stage)next->stage);
            flow = next && next->stage == VG_GPU_STAGE_RUNNING && next->begin_ns == part->end_ns
                       ? ++slices->flows
                       : 0;
            slice.flow = flow;
        } else {
            slice.flow = flow;
            flow = 0;
        }
        slices->ops.on_slice(slices->data, &slice);
    }
    g_array_set_size(request->parts, 0);
}

/* Stores what the request did until now as a part, unless it took no time. */
static void
end_stage(vg_gpu_slices *slices, struct request *request, int64_t end_ns)
{
    const struct vg_gpu_change *now = &request->now;
    const struct part part = {
        .begin_ns = now->t_ns,
        .end_ns = end_ns,
        .process = now->process,
        .device = now->device,
        .engine = now->engine,
        .stage = (uint8_t)now->stage,
    };

    if (end_ns <= now->t_ns || !is_slice(now->stage))
        return;
    if (!request->parts)
        request->parts = g_array_sized_new(FALSE, FALSE, sizeof(struct part), 4);
    g_array_append_val(request->parts, part);
    bool is_known = now->process != VG_PROCESS_NO_ID;
    if ((now->stage == VG_GPU_STAGE_RUNNING && is_known) || request->parts->len >= PARTS_MAX)
        hand_out(slices, request);
}

/* Shortens the parts because the request did something else from this time on. */
static void
take_back(struct request *request, int64_t t_ns)
{
    GArray *parts = request->parts;

    while (parts && parts->len > 0) {
        struct part *last = &g_array_index(parts, struct part, parts->len - 1);
        if (last->begin_ns < t_ns) {
            last->end_ns = MIN(last->end_ns, t_ns);
            return;
        }
        g_array_set_size(parts, parts->len - 1);
    }
}

/* Corrects all parts: the change holds from the beginning. */
static void
correct_parts(struct request *request, const struct vg_gpu_change *change)
{
    for (guint i = 0; request->parts && i < request->parts->len; i++) {
        struct part *part = &g_array_index(request->parts, struct part, i);
        part->device = change->device;
        part->engine = change->engine;
        if (part->process == VG_PROCESS_NO_ID)
            part->process = change->process;
    }
}

/* ---- changes ---- */

static void
report_level(const vg_gpu_slices *slices, const struct vg_gpu_change *before,
             const struct vg_gpu_change *after)
{
    struct vg_gpu_change left = *before;

    left.t_ns = after->t_ns;
    if (is_slice(before->stage))
        slices->ops.on_level(slices->data, &left, false);
    if (is_slice(after->stage))
        slices->ops.on_level(slices->data, after, true);
}

/* Removes the parts of a request that did not exist. */
static void
void_request(struct request *request)
{
    if (request->parts)
        g_array_set_size(request->parts, 0);
}

void
vg_gpu_slices_take(vg_gpu_slices *slices, const struct vg_gpu_change *change)
{
    struct request *request = need_request(slices, change->request);
    struct vg_gpu_change *now = &request->now;
    bool over = change->stage == VG_GPU_STAGE_OVER;

    if (now->stage == VG_GPU_STAGE_OVER && over)
        return;
    if (over) {
        report_level(slices, now, change);
        end_stage(slices, request, change->t_ns);
        if (change->in_hindsight)
            void_request(request);
        hand_out(slices, request);
        now->stage = VG_GPU_STAGE_OVER;
        return;
    }
    if (change->in_hindsight)
        correct_parts(request, change);
    if (now->stage == change->stage && same_place(now, change)) {
        now->vgpu = change->vgpu;
        now->context = change->context;
        now->seqno = change->seqno;
        return;
    }
    report_level(slices, now, change);
    end_stage(slices, request, change->t_ns);
    take_back(request, change->t_ns);
    *now = *change;
}

void
vg_gpu_slices_finish(vg_gpu_slices *slices, int64_t end_ns)
{
    for (uint32_t i = 0; i < slices->requests->len; i++) {
        const struct vg_gpu_change over = {
            .request = i, .stage = VG_GPU_STAGE_OVER, .t_ns = end_ns};
        vg_gpu_slices_take(slices, &over);
    }
}
