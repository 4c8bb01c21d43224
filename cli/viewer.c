/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/viewer.h"

#include <stdlib.h>
#include <string.h>

#include "cli/viewer-private.h"
#include "model/cpu-figures.h"
#include "model/score.h"

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
    /* Through a link, its target is replaced. */
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

/* ---- who ---- */

static char *
name_of(const struct vg_process *process, const char *comm)
{
    char name[VG_VM_NAME_MAX];

    if (process->is_vm)
        return g_strdup(vg_process_vm_name(process, name));
    return g_strdup_printf("%s (%d)", comm[0] ? comm : "process", process->pid);
}

static struct viewer_user *
user_new(struct vg_viewer *viewer, struct vg_process *process, const char *comm)
{
    struct viewer_user *user = g_new0(struct viewer_user, 1);

    user->process = process;
    user->is_vm = process->is_vm;
    user->name = name_of(process, comm);
    /* What only stands for a VM has no pid. */
    user->track = process->pid > 0
                      ? vg_perfetto_track_process(viewer->trace, user->name, process->pid)
                      : vg_perfetto_track(viewer->trace, 0, user->name);
    g_ptr_array_add(viewer->users, user);
    return user;
}

struct viewer_user *
viewer_user(struct vg_viewer *viewer, struct vg_process *process, const char *comm)
{
    process = vg_process_resolve(process);
    struct viewer_user *user = g_hash_table_lookup(viewer->by_process, process);
    char name[VG_VM_NAME_MAX];
    bool found = user;

    for (guint i = 0; !user && i < viewer->users->len; i++) {
        struct viewer_user *known = g_ptr_array_index(viewer->users, i);
        if (vg_process_resolve(known->process) == process)
            user = known;
    }
    if (!user)
        user = user_new(viewer, process, comm);
    if (!found)
        g_hash_table_insert(viewer->by_process, process, user);
    /* What only stood for a VM, or was no VM yet, may have got a name. */
    if (process->is_vm && strcmp(vg_process_vm_name(process, name), user->name) != 0) {
        g_free(user->name);
        user->name = g_strdup(name);
        user->is_vm = true;
    }
    return user;
}

/* ---- counters ---- */

void
viewer_counter_write(struct vg_viewer *viewer, struct viewer_counter *counter)
{
    bool same = counter->any_written && counter->written == counter->value;

    if (!counter->pending)
        return;
    counter->pending = false;
    if (same)
        return;
    vg_perfetto_counter_int(viewer->trace, counter->track, counter->t_ns, counter->value);
    counter->written = counter->value;
    counter->any_written = true;
}

void
viewer_counter_set(struct vg_viewer *viewer, struct viewer_counter *counter, int64_t t_ns,
                   int64_t value)
{
    if (t_ns > counter->t_ns)
        viewer_counter_write(viewer, counter);
    counter->t_ns = MAX(counter->t_ns, t_ns);
    counter->value = value;
    counter->pending = true;
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

/* ---- the end ---- */

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
