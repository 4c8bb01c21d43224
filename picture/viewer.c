/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "picture/viewer.h"

#include <stdlib.h>

#include "model/cpu-figures.h"
#include "model/score.h"
#include "picture/viewer-private.h"

static void
user_free(void *data)
{
    struct viewer_user *user = data;

    g_free(user->name);
    g_free(user);
}

vg_viewer *
vg_viewer_open(const char *path, const vg_recording *recording, GError **err)
{
    /* Replace the target of a link. */
    char *real_path = realpath(path, NULL);
    vg_perfetto *trace =
        vg_perfetto_open(real_path ? real_path : path, recording->clock_offset_ns, err);

    free(real_path);
    if (!trace)
        return NULL;
    vg_viewer *viewer = g_new0(vg_viewer, 1);
    viewer->trace = trace;
    viewer->recording = recording;
    viewer->users = g_ptr_array_new_with_free_func(user_free);
    viewer->by_process = g_hash_table_new(NULL, NULL);
    viewer_init_cpus(viewer);
    viewer_init_gpus(viewer);
    return viewer;
}

void
vg_viewer_free(vg_viewer *viewer)
{
    if (!viewer)
        return;
    viewer_clear_gpus(viewer);
    viewer_clear_cpus(viewer);
    g_hash_table_unref(viewer->by_process);
    g_ptr_array_unref(viewer->users);
    vg_perfetto_free(viewer->trace);
    g_free(viewer);
}

void
vg_viewer_begin(vg_viewer *viewer, const vg_topology *topology)
{
    viewer->topology = topology;
}

static void
put_percent(struct vg_viewer *viewer, uint64_t parent, uint64_t *track, const char *name,
            int64_t t_ns, double share)
{
    if (*track == 0)
        *track = vg_perfetto_track_counter(viewer->trace, parent, name, "%");
    vg_perfetto_counter_double(viewer->trace, *track, t_ns, 100 * share);
}

int
vg_viewer_window(vg_viewer *viewer, const struct vg_window *window, GError **err)
{
    int64_t length_ns = window->end_ns - window->begin_ns;

    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_process *process = vg_topology_process_at(viewer->topology, vm->id);
        if (!process)
            continue;
        struct viewer_user *user = viewer_user(viewer, process, "");
        if (vm->cpu.observed_ns > 0)
            put_percent(viewer, user->track, &user->cpu_track, "CPU intensity", window->begin_ns,
                        vg_cpu_figures_intensity(&vm->cpu));
        if (vm->gpu_known)
            put_percent(viewer, user->track, &user->gpu_track, "GPU intensity", window->begin_ns,
                        vg_gpu_intensity(vm->gpu_active_ns, length_ns));
    }
    return vg_perfetto_failed(viewer->trace) ? vg_perfetto_close(viewer->trace, 0, err) : 0;
}

int
vg_viewer_close(vg_viewer *viewer, int64_t end_ns, GError **err)
{
    viewer_finish_cpus(viewer, end_ns);
    viewer_finish_gpus(viewer, end_ns);
    for (guint i = 0; i < viewer->users->len; i++) {
        struct viewer_user *user = g_ptr_array_index(viewer->users, i);
        viewer_counter_write(viewer, &user->waits);
    }
    return vg_perfetto_close(viewer->trace, end_ns, err);
}

uint32_t
vg_viewer_missing(const vg_viewer *viewer)
{
    return viewer->missing;
}
