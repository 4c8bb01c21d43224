/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrival times and sizes of requests.
 */
#include "config.h"

#include "policy/gpusched-private.h"

/* ---- the heap ---- */

static bool
gpusched_arrivals_is_before(const struct vg_sim_arrival *a, const struct vg_sim_arrival *b)
{
    return a->ts_ns != b->ts_ns ? a->ts_ns < b->ts_ns : a->order < b->order;
}

static void
sim_push_arrival(vg_gpusched *sim, int64_t ts_ns, uint32_t source)
{
    const struct vg_sim_arrival arrival = {ts_ns, sim->n_arrivals++, source};

    if (ts_ns >= sim->scenario->duration_ns)
        return;
    g_array_append_val(sim->arrivals, arrival);
    struct vg_sim_arrival *heap = (struct vg_sim_arrival *)(void *)sim->arrivals->data;
    uint32_t at = sim->arrivals->len - 1;
    for (uint32_t up = (at - 1) / 2; at > 0 && gpusched_arrivals_is_before(&arrival, &heap[up]);
         up = (at - 1) / 2) {
        heap[at] = heap[up];
        at = up;
    }
    heap[at] = arrival;
}

struct vg_sim_arrival
vg_sim_pop_arrival(vg_gpusched *sim)
{
    struct vg_sim_arrival *heap = (struct vg_sim_arrival *)(void *)sim->arrivals->data;
    const struct vg_sim_arrival first = heap[0];
    const uint32_t length = sim->arrivals->len - 1;
    const struct vg_sim_arrival last = heap[length];
    uint32_t at = 0;

    for (uint32_t down = 1; down < length; down = 2 * at + 1) {
        if (down + 1 < length && gpusched_arrivals_is_before(&heap[down + 1], &heap[down]))
            down++;
        if (!gpusched_arrivals_is_before(&heap[down], &last))
            break;
        heap[at] = heap[down];
        at = down;
    }
    heap[at] = last;
    g_array_set_size(sim->arrivals, length);
    return first;
}

/* ---- sources ---- */

/* FNV-1a over the seed, the VM's name and the job's place. Other VMs have no effect. */
static uint64_t
stream_seed(uint64_t seed, const char *name, uint32_t job, bool gaps)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return (hash ^ (2 * (uint64_t)job + gaps)) * UINT64_C(0x100000001b3) + seed;
}

static void
gpusched_arrivals_add_source(vg_gpusched *sim, uint32_t vm, struct vg_sim_source source)
{
    source.vm = vm;
    g_array_append_val(sim->sources, source);
    sim->vms[vm].n_sources++;
}

static void
add_job_source(vg_gpusched *sim, uint32_t vm, uint32_t job)
{
    const struct vg_gpusched_vm *is = sim->vms[vm].is;
    struct vg_sim_source source = {.job = &g_array_index(is->jobs, struct vg_gpusched_job, job)};
    uint64_t seed = sim->scenario->seed;

    source.engine = source.job->engine;
    vg_sim_random_seed(&source.sizes, stream_seed(seed, is->name, job, false));
    vg_sim_random_seed(&source.gaps, stream_seed(seed, is->name, job, true));
    vg_sim_lane_of(sim, (int)vm, source.engine)->used = true;
    gpusched_arrivals_add_source(sim, vm, source);
}

static const struct vg_gpusched_request *
stream_at(const vg_gpusched *sim, const struct vg_sim_source *source)
{
    const GArray *stream = sim->vms[source->vm].is->stream;

    return source->next < stream->len
               ? &g_array_index(stream, struct vg_gpusched_request, source->next)
               : NULL;
}

/* Returns the next request of a stream. A chain skips requests for other engines. It contains at
 * least one request, so this ends. */
static const struct vg_gpusched_request *
next_of_stream(const vg_gpusched *sim, struct vg_sim_source *source)
{
    const struct vg_gpusched_request *request = stream_at(sim, source);

    while (source->chain && (!request || request->engine != source->engine)) {
        if (!request && !sim->vms[source->vm].is->repeat)
            return NULL;
        source->next = request ? source->next + 1 : 0;
        request = stream_at(sim, source);
    }
    return request;
}

/* Schedules the next request of a chain once enough earlier ones have ended. */
static void
try_chain(vg_gpusched *sim, uint32_t index)
{
    struct vg_sim_source *source = &g_array_index(sim->sources, struct vg_sim_source, index);
    const struct vg_gpusched_request *next = source->due ? NULL : next_of_stream(sim, source);

    if (!next || source->n_ended + next->ahead < source->n_arrived)
        return;
    source->due = true;
    sim_push_arrival(sim, sim->now + next->think_ns, index);
}

static void
add_stream_sources(vg_gpusched *sim, uint32_t vm)
{
    const struct vg_gpusched_vm *is = sim->vms[vm].is;

    for (uint32_t i = 0; i < is->stream->len; i++) {
        uint8_t engine = g_array_index(is->stream, struct vg_gpusched_request, i).engine;
        struct vg_sim_lane *lane = vg_sim_lane_of(sim, (int)vm, engine);
        const struct vg_sim_source chain = {.chain = true, .engine = engine};
        if (!lane->used && is->replay == VG_GPUSCHED_CLOSED)
            gpusched_arrivals_add_source(sim, vm, chain);
        lane->used = true;
    }
    if (is->stream->len > 0 && is->replay == VG_GPUSCHED_OPEN)
        gpusched_arrivals_add_source(sim, vm, (struct vg_sim_source){0});
}

/* Adds streams first: they use a lane's state to detect whether it has a chain. */
void
vg_sim_add_sources(vg_gpusched *sim)
{
    for (uint32_t vm = 0; vm < sim->n_vms; vm++) {
        sim->vms[vm].first_source = sim->sources->len;
        add_stream_sources(sim, vm);
        for (uint32_t job = 0; job < sim->vms[vm].is->jobs->len; job++)
            add_job_source(sim, vm, job);
    }
}

void
vg_sim_start_sources(vg_gpusched *sim, int vm)
{
    const struct vg_sim_vm *of = &sim->vms[vm];

    for (uint32_t i = of->first_source; i < of->first_source + of->n_sources; i++) {
        struct vg_sim_source *source = &g_array_index(sim->sources, struct vg_sim_source, i);
        const struct vg_gpusched_job *job = source->job;
        source->due = true;
        if (!job)
            sim_push_arrival(sim, MAX(sim->now, next_of_stream(sim, source)->arrival_ns), i);
        else if (job->loop == VG_GPUSCHED_OPEN)
            sim_push_arrival(sim, sim->now + vg_sim_draw(&source->gaps, &job->gap, 1), i);
        else
            for (uint32_t n = 0; n < job->depth; n++)
                sim_push_arrival(sim, sim->now, i);
    }
}

int64_t
vg_sim_take_arrival(vg_gpusched *sim, uint32_t index, uint8_t *ret_engine)
{
    struct vg_sim_source *source = &g_array_index(sim->sources, struct vg_sim_source, index);
    const struct vg_gpusched_job *job = source->job;

    if (job) {
        if (job->loop == VG_GPUSCHED_OPEN)
            sim_push_arrival(sim, sim->now + vg_sim_draw(&source->gaps, &job->gap, 1), index);
        *ret_engine = job->engine;
        return vg_sim_draw(&source->sizes, &job->size, 1);
    }
    const struct vg_gpusched_request *request = next_of_stream(sim, source);
    source->next++;
    *ret_engine = request->engine;
    if (source->chain) {
        source->due = false;
        source->n_arrived++;
        try_chain(sim, index);
        return request->size_ns;
    }
    const struct vg_gpusched_request *next = next_of_stream(sim, source);
    if (next)
        sim_push_arrival(sim, MAX(sim->now, next->arrival_ns), index);
    return request->size_ns;
}

void
vg_sim_after_end(vg_gpusched *sim, uint32_t index)
{
    struct vg_sim_source *source = &g_array_index(sim->sources, struct vg_sim_source, index);
    const struct vg_gpusched_job *job = source->job;

    source->n_ended++;
    if (sim->vms[source->vm].state != VG_SIM_STARTED)
        return;
    if (job && job->loop == VG_GPUSCHED_CLOSED)
        sim_push_arrival(sim, sim->now + vg_sim_draw(&source->gaps, &job->gap, 0), index);
    else if (source->chain)
        try_chain(sim, index);
}
