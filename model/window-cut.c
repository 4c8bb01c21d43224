/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window-cut.h"

#include "base/error.h"
#include "model/window-sum.h"

/* The lengths of the first part and of the whole. */
struct cut {
    int64_t first_ns;
    int64_t all_ns;
};

static int64_t
window_cut_first(const struct cut *cut, int64_t all)
{
    return (int64_t)((__int128)all * cut->first_ns / cut->all_ns);
}

/* Leaves in *first its share of *all, and in *all the rest. */
static void
window_cut_time(const struct cut *cut, int64_t *all, int64_t *first)
{
    *first = window_cut_first(cut, *all);
    *all -= *first;
}

static void
window_cut_count(const struct cut *cut, uint64_t *all, uint64_t *first)
{
    *first = (uint64_t)window_cut_first(cut, (int64_t)MIN(*all, (uint64_t)INT64_MAX));
    *all -= *first;
}

static void
window_cut_gpu(const struct cut *cut, struct vg_gpu_sample *all, struct vg_gpu_sample *first)
{
    window_cut_count(cut, &all->requests, &first->requests);
    window_cut_count(cut, &all->partial, &first->partial);
    window_cut_count(cut, &all->coalesced, &first->coalesced);
    window_cut_time(cut, &all->busy_ns, &first->busy_ns);
    window_cut_time(cut, &all->exec_ns, &first->exec_ns);
    window_cut_time(cut, &all->vgpu_queue_ns, &first->vgpu_queue_ns);
    window_cut_time(cut, &all->dependency_ns, &first->dependency_ns);
    window_cut_time(cut, &all->driver_queue_ns, &first->driver_queue_ns);
    window_cut_time(cut, &all->wait_ns, &first->wait_ns);
    window_cut_count(cut, &all->slices, &first->slices);
    window_cut_time(cut, &all->suspended_ns, &first->suspended_ns);
}

static void
window_cut_gpus(const struct cut *cut, GArray *all, GArray *first)
{
    for (guint i = 0; i < all->len; i++)
        window_cut_gpu(cut, &g_array_index(all, struct vg_gpu_sample, i),
                       &g_array_index(first, struct vg_gpu_sample, i));
}

/* Leaves each request where it ended. */
static void
window_cut_requests(int64_t at_ns, GArray *all, GArray *first)
{
    for (guint i = all->len; i > 0; i--) {
        const bool is_first =
            g_array_index(all, struct vg_gpu_request_sample, i - 1).end_ns <= at_ns;
        g_array_remove_index(is_first ? all : first, i - 1);
    }
}

void
vg_window_cut(struct vg_window *window, int64_t at_ns, struct vg_window *first)
{
    const struct cut cut = {.first_ns = at_ns - window->begin_ns,
                            .all_ns = window->end_ns - window->begin_ns};

    if (cut.first_ns <= 0 || cut.first_ns >= cut.all_ns)
        vg_bug("a window is cut outside of it");
    vg_window_copy(first, window);
    first->end_ns = at_ns;
    window->begin_ns = at_ns;
    window_cut_count(&cut, &window->lost_events, &first->lost_events);
    window_cut_count(&cut, &window->lost_packets, &first->lost_packets);
    window_cut_count(&cut, &window->discontinuities, &first->discontinuities);
    window_cut_gpus(&cut, window->gpus, first->gpus);
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *all = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_vm_sample *part = &g_array_index(first->vms, struct vg_vm_sample, i);
        window_cut_time(&cut, &all->gpu_active_ns, &part->gpu_active_ns);
        window_cut_gpus(&cut, all->gpus, part->gpus);
    }
    for (guint i = 0; i < window->gpu_processes->len; i++)
        window_cut_gpu(&cut,
                       &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu,
                       &g_array_index(first->gpu_processes, struct vg_gpu_process_sample, i).gpu);
    window_cut_requests(at_ns, window->gpu_requests, first->gpu_requests);
}
