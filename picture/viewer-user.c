/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the tracks of VMs and processes, and writes counters.
 */
#include "config.h"

#include <string.h>

#include "picture/viewer-private.h"

static char *
viewer_user_name(const struct vg_process *process, const char *comm)
{
    char name[VG_VM_NAME_MAX];

    if (process->is_vm)
        return g_strdup(vg_process_vm_name(process, name));
    return g_strdup_printf("%s (%d)", comm[0] ? comm : "process", process->pid);
}

static struct viewer_user *
viewer_user_new(struct vg_viewer *viewer, struct vg_process *process, const char *comm)
{
    struct viewer_user *user = g_new0(struct viewer_user, 1);

    user->process = process;
    user->is_vm = process->is_vm;
    user->name = viewer_user_name(process, comm);
    /* A placeholder for a VM has no pid. */
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
        user = viewer_user_new(viewer, process, comm);
    if (!found)
        g_hash_table_insert(viewer->by_process, process, user);
    /* A placeholder, or a process that was not a VM yet, may have got a name. */
    if (process->is_vm && strcmp(vg_process_vm_name(process, name), user->name) != 0) {
        g_free(user->name);
        user->name = g_strdup(name);
        user->is_vm = true;
    }
    return user;
}

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
