/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/opencl-switch.h"

#include <string.h>

#include "guest/child.h"
#include "guest/opencl-private.h"
#include "guest/util.h"

/* Returns whether a program computes at a proxy, or did so before it was stopped. */
static bool
switch_is_remote(const struct vg_opencl_program *program)
{
    return *program->place || program->is_remote;
}

/* Queries where all programs are. Marks those at a proxy as told, and those at another proxy as
 * wanted. Returns the number of the latter. */
static size_t
switch_choose(const struct vg_guest_work *work, struct vg_opencl_link *link, const char *to)
{
    size_t n = 0;

    for (size_t i = 0; i < link->n; i++)
        link->programs[i].is_wanted = link->programs[i].state == VG_OPENCL_RUNNING;
    vg_opencl_ask(work);
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        bool stands = program->state == VG_OPENCL_RELEASED;
        program->is_told = program->state != VG_OPENCL_GONE && switch_is_remote(program);
        /* Programs that compute at a proxy and need no GPU of the guest count here. */
        program->is_seen = program->is_told;
        program->is_wanted = program->is_told && (stands || strcmp(program->place, to) != 0);
        /* If it cannot stop, it answers so again when requested. */
        program->answer = VG_OPENCL_YES;
        program->why[0] = '\0';
        n += program->is_wanted ? 1 : 0;
    }
    return n;
}

static void
switch_wait(struct vg_opencl_link *link, int64_t until_ms)
{
    while (vg_opencl_link_silent(link) > 0 && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE && vg_opencl_link_wait(link, until_ms) == 0)
        continue;
}

/* Makes the wanted programs switch, each as soon as it has stopped. A program that has not stopped
 * in time, or before the host cancels, continues where it is. */
static void
switch_send(struct vg_guest_work *work, struct vg_opencl_link *link, const char *to)
{
    int64_t left_ms = work->until_ms - vg_guest_now_ms();
    vg_guest_auto char *line = vg_guest_format(
        "move %lld %s", (long long)(left_ms > 4 ? left_ms * 3 / 4 : 1), *to ? to : "-");

    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        if (!program->is_wanted)
            continue;
        vg_opencl_progress(work, "switch", program);
        vg_guest_put(program->move_to, sizeof program->move_to, "%s", to);
        vg_opencl_link_send(link, program, line);
    }
    switch_wait(link, work->until_ms);
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        if (program->is_wanted && program->state == VG_OPENCL_STOPPING &&
            program->answer == VG_OPENCL_SILENT)
            vg_opencl_link_send(link, program, "abort");
    }
    vg_guest_child_ignore_cancel();
    switch_wait(link, vg_guest_now_ms() + VG_OPENCL_STUCK_MS + vg_guest_copy_ms(vg_opencl_bytes()));
}

/* Fails with the first program that is not there now. Sets *ret_undone if all of these continue
 * where they were. */
static int
switch_check(struct vg_guest_work *work, struct vg_opencl_link *link, bool *ret_undone)
{
    bool is_cancelled = vg_guest_child_stop() == VG_GUEST_STOP_CANCEL;
    int result = 0;

    *ret_undone = true;
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        bool is_silent = program->answer == VG_OPENCL_SILENT;
        if (!program->is_wanted || program->state == VG_OPENCL_GONE ||
            program->answer == VG_OPENCL_YES)
            continue;
        bool goes_on = program->state == VG_OPENCL_RUNNING && !is_silent;
        *ret_undone = *ret_undone && goes_on;
        if (is_silent && !program->why[0])
            vg_guest_put(program->why, sizeof program->why, "it has not answered in time");
        result =
            vg_guest_work_fail(work,
                               is_cancelled ? VG_GUEST_CANCELLED
                               : is_silent  ? VG_GUEST_TIMEOUT
                                            : VG_GUEST_OPENCL_FAILED,
                               "process %d (%s) %s: %s", (int)program->pid, program->comm,
                               goes_on ? "continues where it was" : "remains paused", program->why);
    }
    return result;
}

int
vg_opencl_switch(struct vg_guest_work *work, bool *ret_undone)
{
    const char *at = work->order->request.opencl_at;
    const char *to = strcmp(at, VG_GUEST_PLACE_DIRECT) == 0 ? "" : at;
    struct vg_opencl_link *link = vg_opencl_open(work);

    *ret_undone = true;
    if (!link)
        return vg_guest_work_fail(work, VG_GUEST_INTERNAL,
                                  "OpenCL programs cannot be reached: the socket for them is "
                                  "closed");
    int result = switch_choose(work, link, to) > 0 ? vg_opencl_check_memory(work) : 0;
    if (result == 0) {
        switch_send(work, link, to);
        result = switch_check(work, link, ret_undone);
    }
    vg_opencl_describe(work->details, true);
    vg_opencl_close();
    return result;
}
