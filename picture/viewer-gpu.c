/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks of GPU engines and of their queues. A waiting request has its own lane from its first
 * slice there until it runs.
 */
#include "config.h"

#include "picture/viewer-private.h"

struct viewer_engine {
    vg_perfetto_lanes *lanes;
    struct viewer_counter waiting;
};

/* The queue of one user for one engine. */
struct viewer_queue {
    const struct viewer_user *user; /* NULL: the user is unknown */
    uint16_t device, engine;
    vg_perfetto_lanes *lanes;
};

/* The lane of a waiting request. */
struct viewer_wait {
    vg_perfetto_lanes *lanes;
    uint64_t track;
};

static void
engine_free(void *data)
{
    struct viewer_engine *engine = data;

    vg_perfetto_lanes_free(engine->lanes);
    g_free(engine);
}

static void
queue_free(void *data)
{
    struct viewer_queue *queue = data;

    vg_perfetto_lanes_free(queue->lanes);
    g_free(queue);
}

static unsigned int
queue_hash(const void *data)
{
    const struct viewer_queue *queue = data;

    return g_direct_hash(queue->user) ^ ((unsigned int)queue->device << 16 | queue->engine);
}

static int
queue_equal(const void *a, const void *b)
{
    const struct viewer_queue *x = a, *y = b;

    return x->user == y->user && x->device == y->device && x->engine == y->engine;
}

/* ---- tracks ---- */

static const char *
device_name(const struct vg_viewer *viewer, uint16_t device)
{
    return device == VG_NAME_NONE ? VG_GPU_DEVICE_UNNAMED
                                  : vg_names_text(viewer->recording->names, device);
}

static uint64_t
device_track(struct vg_viewer *viewer, uint16_t device)
{
    void *key = GUINT_TO_POINTER(device);
    uint64_t track = GPOINTER_TO_SIZE(g_hash_table_lookup(viewer->devices, key));

    if (track == 0) {
        g_autofree char *name = g_strdup_printf("GPU %s", device_name(viewer, device));
        track = vg_perfetto_track(viewer->trace, 0, name);
        g_hash_table_insert(viewer->devices, key, GSIZE_TO_POINTER(track));
    }
    return track;
}

static struct viewer_engine *
viewer_gpu_need_engine(struct vg_viewer *viewer, const struct vg_gpu_change *what)
{
    void *key = GUINT_TO_POINTER((unsigned int)what->device << 16 | what->engine);
    struct viewer_engine *engine = g_hash_table_lookup(viewer->engines, key);

    if (engine)
        return engine;
    uint64_t parent = device_track(viewer, what->device);
    const char *name = vg_names_text(viewer->recording->names, what->engine);
    g_autofree char *counter = g_strdup_printf("%s: requests that wait", name);
    engine = g_new0(struct viewer_engine, 1);
    engine->lanes = vg_perfetto_lanes_new(viewer->trace, parent, name);
    engine->waiting.track = vg_perfetto_track_counter(viewer->trace, parent, counter, "requests");
    g_hash_table_insert(viewer->engines, key, engine);
    return engine;
}

static struct viewer_user *
user_of(struct vg_viewer *viewer, const struct vg_gpu_change *what)
{
    struct vg_process *process = what->process == VG_PROCESS_NO_ID
                                     ? NULL
                                     : vg_topology_process_at(viewer->topology, what->process);

    return process ? viewer_user(viewer, process, what->comm) : NULL;
}

static vg_perfetto_lanes *
queue_lanes(struct vg_viewer *viewer, const struct vg_gpu_change *what)
{
    const struct viewer_user *user = user_of(viewer, what);
    const struct viewer_queue key = {user, what->device, what->engine, NULL};
    struct viewer_queue *queue = g_hash_table_lookup(viewer->queues, &key);

    if (queue)
        return queue->lanes;
    g_autofree char *name = g_strdup_printf("queue of %s %s", device_name(viewer, what->device),
                                            vg_names_text(viewer->recording->names, what->engine));
    uint64_t parent = user ? user->track : device_track(viewer, what->device);
    queue = g_new(struct viewer_queue, 1);
    *queue = key;
    queue->lanes = vg_perfetto_lanes_new(viewer->trace, parent, name);
    g_hash_table_add(viewer->queues, queue);
    return queue->lanes;
}

/* ---- slices ---- */

static void
viewer_gpu_describe(struct vg_viewer *viewer, const struct vg_gpu_change *what)
{
    if (what->vgpu != VG_NONE)
        vg_perfetto_add_int(viewer->trace, "vgpu", what->vgpu);
    if (what->context == 0)
        return;
    vg_perfetto_add_int(viewer->trace, "context", (int64_t)what->context);
    vg_perfetto_add_int(viewer->trace, "seqno", (int64_t)what->seqno);
}

static void
put_run(struct vg_viewer *viewer, const struct vg_gpu_slice *slice)
{
    const struct viewer_user *user = user_of(viewer, &slice->what);
    vg_perfetto_lanes *lanes = viewer_gpu_need_engine(viewer, &slice->what)->lanes;
    uint64_t track = vg_perfetto_lanes_place(lanes, slice->what.t_ns, slice->end_ns);
    const char *category = !user ? "host" : user->is_vm ? "vm" : "process";

    vg_perfetto_slice_begin(viewer->trace, track, slice->what.t_ns, user ? user->name : "host",
                            category);
    if (slice->flow != 0)
        vg_perfetto_add_flow_end(viewer->trace, slice->flow);
    viewer_gpu_describe(viewer, &slice->what);
    vg_perfetto_slice_end(viewer->trace, track, slice->end_ns);
}

static const char *
stage_name(enum vg_gpu_stage stage)
{
    return stage == VG_GPU_STAGE_QUEUED      ? "queued"
           : stage == VG_GPU_STAGE_SUBMITTED ? "submitted"
                                             : "ready";
}

static void
put_wait(struct vg_viewer *viewer, const struct vg_gpu_slice *slice)
{
    void *key = GUINT_TO_POINTER(slice->what.request);
    struct viewer_wait *wait = g_hash_table_lookup(viewer->waiting, key);

    if (!wait) {
        wait = g_new(struct viewer_wait, 1);
        wait->lanes = queue_lanes(viewer, &slice->what);
        wait->track = vg_perfetto_lanes_take(wait->lanes, slice->what.t_ns);
        g_hash_table_insert(viewer->waiting, key, wait);
    }
    vg_perfetto_slice_begin(viewer->trace, wait->track, slice->what.t_ns,
                            stage_name(slice->what.stage), "wait");
    if (slice->flow != 0)
        vg_perfetto_add_flow(viewer->trace, slice->flow);
    viewer_gpu_describe(viewer, &slice->what);
    vg_perfetto_slice_end(viewer->trace, wait->track, slice->end_ns);
    if (slice->goes_on)
        return;
    vg_perfetto_lanes_give_back(wait->lanes, wait->track, slice->end_ns);
    g_hash_table_remove(viewer->waiting, key);
}

static void
on_slice(void *data, const struct vg_gpu_slice *slice)
{
    if (slice->what.stage == VG_GPU_STAGE_RUNNING)
        put_run(data, slice);
    else
        put_wait(data, slice);
}

static void
on_level(void *data, const struct vg_gpu_change *what, bool more)
{
    struct vg_viewer *viewer = data;

    if (!vg_gpu_stage_waits(what->stage))
        return;
    struct viewer_counter *waiting = &viewer_gpu_need_engine(viewer, what)->waiting;
    viewer_counter_set(viewer, waiting, what->t_ns, waiting->value + (more ? 1 : -1));
}

/* ---- all of it ---- */

void
viewer_init_gpus(struct vg_viewer *viewer)
{
    static const struct vg_gpu_slices_ops ops = {on_slice, on_level};

    viewer->slices = vg_gpu_slices_new(&ops, viewer);
    viewer->devices = g_hash_table_new(NULL, NULL);
    viewer->engines = g_hash_table_new_full(NULL, NULL, NULL, engine_free);
    viewer->queues = g_hash_table_new_full(queue_hash, queue_equal, queue_free, NULL);
    viewer->waiting = g_hash_table_new_full(NULL, NULL, NULL, g_free);
}

void
viewer_clear_gpus(struct vg_viewer *viewer)
{
    vg_gpu_slices_free(viewer->slices);
    g_hash_table_unref(viewer->waiting);
    g_hash_table_unref(viewer->queues);
    g_hash_table_unref(viewer->engines);
    g_hash_table_unref(viewer->devices);
}

void
vg_viewer_gpu(vg_viewer *viewer, const struct vg_gpu_change *change)
{
    vg_gpu_slices_take(viewer->slices, change);
}

void
viewer_finish_gpus(struct vg_viewer *viewer, int64_t end_ns)
{
    GHashTableIter iter;
    void *engine;

    vg_gpu_slices_finish(viewer->slices, end_ns);
    g_hash_table_iter_init(&iter, viewer->engines);
    while (g_hash_table_iter_next(&iter, NULL, &engine))
        viewer_counter_write(viewer, &((struct viewer_engine *)engine)->waiting);
}
