/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/manual.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "guest/child.h"
#include "guest/holder.h"
#include "guest/node.h"
#include "guest/provider.h"
#include "guest/util.h"

/* The time for each half, in addition to copying GPU memory. */
#define HAND_MS 120000

static void
manual_begin(struct vg_guest_work *work)
{
    size_t n;
    vg_guest_auto struct vg_guest_device *all = vg_guest_devices_read(work->config->root, &n);

    vg_guest_child_init();
    /* If this were ended halfway, programs would stay stopped. */
    signal(SIGTERM, SIG_IGN);
    work->details = json_object_new_object();
    work->began_ms = vg_guest_now_ms();
    work->until_ms = work->began_ms + HAND_MS;
    for (size_t i = 0; i < n && work->n_devices < VG_GUEST_DEVICES_MAX; i++) {
        if (vg_guest_device_is_gpu(&all[i]))
            work->devices[work->n_devices++] = all[i];
    }
}

static const char *
manual_text(json_object *process, const char *name)
{
    const char *text = json_object_get_string(json_object_object_get(process, name));

    return text ? text : "-";
}

static void
manual_print_process(json_object *process)
{
    json_object *why = json_object_object_get(process, "why");

    printf("%8s %-15s %-8s %8s %8s %10s %8s %8s%s%s\n", manual_text(process, "pid"),
           manual_text(process, "comm"), manual_text(process, "state"),
           manual_text(process, "stop_ms"), manual_text(process, "lock_ms"),
           manual_text(process, "checkpoint_ms"), manual_text(process, "restore_ms"),
           manual_text(process, "unlock_ms"), why ? "  " : "",
           why ? json_object_get_string(why) : "");
    if (json_object_get_int64(json_object_object_get(process, "held_threads")) > 0)
        printf("%8s threads that faulted and were held: %s\n", "",
               manual_text(process, "held_threads"));
}

static void
manual_print_units(json_object *list)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *unit = json_object_array_get_idx(list, i);
        bool ok = json_object_get_boolean(json_object_object_get(unit, "done"));
        printf("%s %s: %s, %s ms\n", manual_text(unit, "verb"), manual_text(unit, "name"),
               ok ? "done" : "failed", manual_text(unit, "ms"));
    }
}

/* Prints the results for all processes, and the reason for a failure. Returns the exit status. */
static int
manual_end(struct vg_guest_work *work)
{
    json_object *programs = json_object_object_get(work->details, "programs");
    json_object *list = json_object_object_get(programs, "list");
    size_t n = list ? json_object_array_length(list) : 0;
    int64_t total = json_object_get_int64(json_object_object_get(programs, "total"));
    int result = work->failure ? 1 : 0;

    if (n > 0)
        printf("%8s %-15s %-8s %8s %8s %10s %8s %8s  (ms)\n", "pid", "comm", "state", "stop",
               "lock", "checkpoint", "restore", "unlock");
    for (size_t i = 0; i < n; i++)
        manual_print_process(json_object_array_get_idx(list, i));
    if (total > (int64_t)n)
        printf("and %lld more\n", (long long)(total - (int64_t)n));
    json_object *forked = json_object_object_get(programs, "forked");
    if (forked)
        printf("forked children that released GPU files: %s (%s descriptors, %s mappings)\n",
               manual_text(forked, "processes"), manual_text(forked, "descriptors"),
               manual_text(forked, "maps"));
    if (total == 0 && !work->failure)
        printf("no CUDA or OpenCL program uses a GPU, or none can be reached\n");
    manual_print_units(json_object_object_get(work->details, "units"));
    if (work->failure)
        printf("failed: %s\n",
               json_object_get_string(json_object_object_get(work->failure, "message")));
    json_object_put(work->failure);
    json_object_put(work->details);
    return result;
}

static void
manual_print_holders(const struct vg_guest_work *work)
{
    struct vg_guest_holder holders[VG_GUEST_HOLDERS_MAX];
    struct vg_guest_nodes nodes;

    vg_guest_nodes_read(work->config->root, work->devices, work->n_devices, &nodes);
    size_t total = vg_guest_holders_find(work->config->root, &nodes, holders, VG_GUEST_HOLDERS_MAX);
    for (size_t i = 0; i < total && i < VG_GUEST_HOLDERS_MAX; i++)
        printf("still held by %d (%s): %s %s\n", (int)holders[i].pid, holders[i].comm,
               holders[i].path, holders[i].mapped ? "mapped" : "open");
    if (total == 0)
        printf("released: no process had a GPU open or mapped\n");
    vg_guest_nodes_clear(&nodes);
}

/* What an operator has released, in this order. */
static const struct vg_guest_provider *const manual_providers[] = {
    &vg_guest_provider_units, &vg_guest_provider_opencl, &vg_guest_provider_cuda};
enum { HAND_PROVIDERS = sizeof manual_providers / sizeof *manual_providers };

int
vg_guest_manual_try(const struct vg_guest_config *config)
{
    struct vg_guest_order order = {.request = {.type = VG_GUEST_PREPARE}};
    struct vg_guest_work work = {.config = config, .order = &order, .out = -1};
    json_object *kept[HAND_PROVIDERS] = {NULL};
    int released = 0;
    size_t n = 0;

    manual_begin(&work);
    while (released == 0 && n < HAND_PROVIDERS) {
        released = manual_providers[n]->prepare(&work, &kept[n]);
        n++;
    }
    if (released == 0 && json_object_object_get(work.details, "programs"))
        manual_print_holders(&work);
    json_object *failure = work.failure;
    work.failure = NULL;
    work.until_ms = vg_guest_now_ms() + HAND_MS;
    while (n-- > 0) {
        bool undo = released != 0 || manual_providers[n] == &vg_guest_provider_units;
        if (kept[n] || manual_providers[n] == &vg_guest_provider_opencl)
            manual_providers[n]->resume(&work, kept[n], undo);
        json_object_put(kept[n]);
    }
    if (failure) {
        json_object_put(work.failure);
        work.failure = failure;
    }
    return manual_end(&work);
}

int
vg_guest_manual_restore(const struct vg_guest_config *config)
{
    struct vg_guest_order order = {.request = {.type = VG_GUEST_RESUME}};
    struct vg_guest_work work = {.config = config, .order = &order, .out = -1};

    manual_begin(&work);
    for (size_t n = HAND_PROVIDERS; n-- > 0;)
        manual_providers[n]->resume(&work, NULL, false);
    return manual_end(&work);
}
