/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL programs release their GPUs themselves: the library between them and their vendor's OpenCL
 * does so on request, and takes GPUs again later (docs/opencl.md). Each program is connected to the
 * agent (guest/opencl-hub.h), which this file reaches through guest/opencl-link.h.
 *
 * Every process in the guest may connect. Only those that were seen holding a GPU count: the agent
 * does not wait for any other one, which cannot make the work fail, and has no memory. The only
 * answer of a program that counts is that it has stopped. Whether it has released its GPUs is
 * checked by finding the GPUs' holders. A program that does not answer is abandoned at the
 * deadline.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/child.h"
#include "guest/opencl-private.h"
#include "guest/provider.h"
#include "guest/util.h"

enum {
    /* The minimum time for programs to report whether they can be stopped. */
    QUERY_MS = 5000,
    /* The time for a program to answer after its time to stop, in addition to what it is
     * copying. */
    ANSWER_MS = 2000,
    /* The time for vendors' libraries to find GPUs that were plugged in, and the pause between two
     * attempts. */
    COME_MS = 10000,
    AGAIN_MS = 500,
    /* The pause between two checks of the GPUs' holders. */
    LOOK_MS = 50,
    /* The maximum number of pairs of a process and a node. */
    HOLDERS_MAX = 16384,
};

/* The programs of this worker process, and whether it is connected. */
static struct vg_opencl_link opencl_programs;
static bool opencl_is_open;

struct vg_opencl_link *
vg_opencl_open(const struct vg_guest_work *work)
{
    /* If an operator's command ends halfway, nothing else resumes programs. */
    bool is_hand = work->out < 0;

    if (!opencl_is_open)
        opencl_is_open = vg_opencl_link_open(&opencl_programs, work->config->root, is_hand) == 0;
    return opencl_is_open ? &opencl_programs : NULL;
}

void
vg_opencl_close(void)
{
    if (opencl_is_open)
        vg_opencl_link_close(&opencl_programs);
    opencl_is_open = false;
}

/* ---- which programs ---- */

/* Marks the programs that have nodes of the work's devices open or mapped. Returns how many of
 * these run. */
static size_t
opencl_find(const struct vg_guest_work *work)
{
    vg_guest_auto struct vg_guest_holder *holders = vg_guest_alloc(HOLDERS_MAX * sizeof *holders);
    struct vg_opencl_link *link = &opencl_programs;
    struct vg_guest_nodes nodes;
    size_t found = 0;

    vg_guest_nodes_read(work->config->root, work->devices, work->n_devices, &nodes);
    size_t n = vg_guest_holders_find(work->config->root, &nodes, holders, HOLDERS_MAX);
    vg_guest_nodes_clear(&nodes);
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        bool holds = false;
        for (size_t k = 0; k < n && k < HOLDERS_MAX && !holds; k++)
            holds = holders[k].pid == program->pid;
        program->is_wanted = program->is_told = program->is_wanted || holds;
        if (holds)
            vg_opencl_link_saw(link, program);
        found += holds && program->state == VG_OPENCL_RUNNING ? 1 : 0;
    }
    return found;
}

int64_t
vg_opencl_bytes(void)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < opencl_programs.n; i++) {
        const struct vg_opencl_program *program = &opencl_programs.programs[i];
        if (program->is_seen && program->is_told && program->state != VG_OPENCL_GONE &&
            program->bytes > 0)
            bytes += program->bytes;
    }
    return bytes;
}

/* ---- what is told of them ---- */

static void
opencl_put_ms(json_object *object, const char *name, int64_t us)
{
    if (us >= 0)
        json_object_object_add(object, name, json_object_new_int64((us + 500) / 1000));
}

static json_object *
opencl_json(const struct vg_opencl_program *program)
{
    static const char *const states[] = {[VG_OPENCL_RUNNING] = "running",
                                         [VG_OPENCL_STOPPING] = "unknown",
                                         [VG_OPENCL_RELEASED] = "released",
                                         [VG_OPENCL_GONE] = "gone"};
    json_object *object = json_object_new_object();

    json_object_object_add(object, "by", json_object_new_string("opencl"));
    json_object_object_add(object, "pid", json_object_new_int(program->pid));
    json_object_object_add(object, "comm", json_object_new_string(program->comm));
    json_object_object_add(object, "job", json_object_new_int(program->pid));
    json_object_object_add(object, "bytes",
                           program->bytes < 0 ? NULL : json_object_new_int64(program->bytes));
    bool is_away = program->is_away && program->state == VG_OPENCL_RUNNING;
    json_object_object_add(object, "state",
                           json_object_new_string(is_away ? "away" : states[program->state]));
    if (is_away && *program->place)
        json_object_object_add(object, "at", json_object_new_string(program->place));
    if (*program->why && program->state != VG_OPENCL_GONE)
        json_object_object_add(object, "why", json_object_new_string(program->why));
    opencl_put_ms(object, "checkpoint_ms", program->release_us);
    opencl_put_ms(object, "restore_ms", program->return_us);
    opencl_put_ms(object, "stop_ms", program->stop_us);
    return object;
}

void
vg_opencl_describe(json_object *message, bool is_status)
{
    static struct vg_guest_reported told;
    size_t n = 0, listed = 0;

    for (size_t i = 0; i < opencl_programs.n; i++)
        n += opencl_programs.programs[i].is_told ? 1 : 0;
    /* Without programs, the member is omitted, except in a status. */
    if (n == 0 && !is_status)
        return;
    json_object *list =
        vg_guest_programs_add(message, "opencl", (int64_t)n, vg_opencl_bytes(), &told);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < opencl_programs.n; i++) {
            const struct vg_opencl_program *program = &opencl_programs.programs[i];
            if (program->is_told && (*program->why == '\0') == (pass == 1) &&
                listed++ < VG_GUEST_HOLDERS_MAX)
                json_object_array_add(list, opencl_json(program));
        }
    }
}

void
vg_opencl_progress(struct vg_guest_work *work, const char *step,
                   const struct vg_opencl_program *program)
{
    json_object *more = json_object_new_object();

    json_object_object_add(more, "pid", json_object_new_int(program->pid));
    json_object_object_add(more, "comm", json_object_new_string(program->comm));
    json_object_object_add(more, "bytes",
                           program->bytes < 0 ? NULL : json_object_new_int64(program->bytes));
    vg_guest_work_progress(work, step, more);
}

/* ---- asking ---- */

const struct vg_opencl_program *
vg_opencl_ask(const struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    /* They run in the meantime. In a busy guest, they may take long to answer. */
    int64_t left_ms = work->until_ms - vg_guest_now_ms();
    int64_t ms = left_ms / 4 > QUERY_MS ? left_ms / 4 : QUERY_MS;
    int64_t until_ms = vg_guest_now_ms() + (ms < left_ms ? ms : left_ms);
    const struct vg_opencl_program *bad = NULL;

    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        program->answer = VG_OPENCL_YES;
        if (program->is_wanted && program->state == VG_OPENCL_STOPPING) {
            program->answer = VG_OPENCL_NO;
            vg_guest_put(program->why, sizeof program->why,
                         "it has not answered an earlier request to stop");
        } else if (program->is_wanted && program->state == VG_OPENCL_RUNNING) {
            vg_opencl_link_send(link, program, "ask");
        }
    }
    while (vg_opencl_link_silent(link) > 0 && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE && vg_opencl_link_wait(link, until_ms) == 0)
        continue;
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        if (!program->is_wanted || program->state == VG_OPENCL_GONE ||
            program->answer == VG_OPENCL_YES)
            continue;
        if (program->answer == VG_OPENCL_SILENT)
            vg_guest_put(program->why, sizeof program->why, "it does not answer");
        bad = bad ? bad : program;
    }
    return bad;
}

/* ---- releasing ---- */

int
vg_opencl_check_memory(struct vg_guest_work *work)
{
    int64_t need = vg_opencl_bytes(), free_bytes = vg_guest_free_memory(work->config->root);

    if (free_bytes < 0 || need <= free_bytes)
        return 0;
    return vg_guest_work_fail(work, VG_GUEST_NO_MEMORY,
                              "releasing OpenCL programs needs %lld MiB of the guest's memory, but "
                              "only %lld MiB are available",
                              (long long)(need >> 20), (long long)(free_bytes >> 20));
}

/* Fails with the first program that has not stopped. Returns -1, or 0 if all have. */
static int
opencl_check_stopped(struct vg_guest_work *work)
{
    if (vg_guest_child_stop() == VG_GUEST_STOP_CANCEL)
        return vg_guest_work_check(work, "release");
    for (size_t i = 0; i < opencl_programs.n; i++) {
        struct vg_opencl_program *program = &opencl_programs.programs[i];
        if (!program->is_wanted || program->state == VG_OPENCL_GONE ||
            program->answer == VG_OPENCL_YES)
            continue;
        if (program->answer == VG_OPENCL_SILENT)
            vg_guest_put(program->why, sizeof program->why, "it has not answered in time");
        vg_guest_auto char *why = vg_guest_quote(program->why, sizeof program->why);
        vg_guest_log(LOG_ERR, "OpenCL program is not released pid=%d comm='%s' why=%s",
                     (int)program->pid, program->comm, why);
        vg_guest_work_fail(
            work, program->answer == VG_OPENCL_SILENT ? VG_GUEST_TIMEOUT : VG_GUEST_OPENCL_FAILED,
            "process %d (%s) cannot be released: %s", (int)program->pid, program->comm,
            program->why);
    }
    return work->failure ? -1 : vg_guest_work_check(work, "release");
}

/* Requests the wanted running programs to stop, and waits until they have. */
static int
opencl_stop(struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    const int64_t bytes = vg_opencl_bytes();

    vg_guest_work_allow_copy(work, bytes);
    int64_t left_ms = work->until_ms - vg_guest_now_ms();
    int64_t ms = left_ms > 4 ? left_ms * 3 / 4 : 1;
    int64_t until_ms = vg_guest_now_ms() + ms + ANSWER_MS + vg_guest_copy_ms(bytes);
    vg_guest_auto char *line = vg_guest_format("prepare %lld", (long long)ms);

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        program->answer = VG_OPENCL_YES;
        if (!program->is_wanted || program->state != VG_OPENCL_RUNNING)
            continue;
        vg_opencl_progress(work, "release", program);
        vg_opencl_link_send(link, program, line);
    }
    while (vg_opencl_link_silent(link) > 0 && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE) {
        if (vg_opencl_link_wait(link, until_ms) != 0)
            return vg_guest_work_fail(work, VG_GUEST_INTERNAL,
                                      "OpenCL programs can no longer be reached");
    }
    return opencl_check_stopped(work);
}

/* Makes the stopped programs continue at the proxy that the host has named. A program that cannot
 * waits, as it would without a proxy, and the reason is reported. */
static int
opencl_send_away(struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    vg_guest_auto char *line = vg_guest_format("resume at %s", work->order->request.opencl_at);

    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        if (!program->is_wanted || program->state != VG_OPENCL_RELEASED)
            continue;
        vg_opencl_progress(work, "away", program);
        vg_opencl_link_send(link, program, line);
    }
    while (vg_opencl_link_silent(link) > 0) {
        if (vg_guest_work_check(work, "away") != 0)
            return -1;
        if (vg_opencl_link_wait(link, work->until_ms) != 0)
            return vg_guest_work_fail(work, VG_GUEST_INTERNAL,
                                      "OpenCL programs can no longer be reached");
    }
    return 0;
}

/* Waits until no program that released its GPUs holds one, as an ending program may for a moment.
 * Stops programs that have started in the meantime. */
static int
opencl_stop_all(struct vg_guest_work *work)
{
    while (opencl_find(work) > 0) {
        const struct vg_opencl_program *bad = vg_opencl_ask(work);
        if (bad)
            return vg_guest_work_fail(work, VG_GUEST_UNRELEASABLE,
                                      "process %d (%s) has a GPU and cannot be released: %s",
                                      (int)bad->pid, bad->comm, bad->why);
        if (vg_opencl_check_memory(work) != 0 || opencl_stop(work) != 0)
            return -1;
        /* Do this immediately, because they are stopped until they have switched. */
        if (*work->order->request.opencl_at && opencl_send_away(work) != 0)
            return -1;
        vg_guest_child_sleep(vg_guest_now_ms() + LOOK_MS);
        if (vg_opencl_link_wait(&opencl_programs, vg_guest_now_ms()) != 0)
            return vg_guest_work_fail(work, VG_GUEST_INTERNAL,
                                      "OpenCL programs can no longer be reached");
    }
    return 0;
}

/* ---- coming back from a proxy ---- */

/* Resumes the programs that were never seen with a GPU, and does not wait for them: the agent takes
 * care of it, whatever happens to this work. */
static void
opencl_resume_others(const struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    int64_t left_ms = work->until_ms - vg_guest_now_ms();
    vg_guest_auto char *line =
        vg_guest_format("move %lld -", (long long)(left_ms > 1 ? left_ms : 1));

    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        if (!program->is_seen && (program->is_away || program->state == VG_OPENCL_RELEASED))
            vg_opencl_link_send(link, program, program->is_away ? line : "resume");
    }
}

/* Stops the programs at a proxy, so that they can take a GPU here. */
static int
opencl_fetch(struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    size_t n = 0;

    for (size_t i = 0; i < link->n; i++) {
        link->programs[i].is_wanted = link->programs[i].is_seen && link->programs[i].is_away;
        n += link->programs[i].is_wanted ? 1 : 0;
    }
    return n > 0 ? opencl_stop(work) : 0;
}

static int
opencl_prepare(struct vg_guest_work *work, json_object **ret_kept)
{
    (void)ret_kept;
    /* Without an agent, there is nothing to stop. */
    if (!vg_opencl_open(work))
        return 0;
    int result = opencl_stop_all(work);
    vg_opencl_describe(work->details, false);
    return result;
}

/* ---- taking back ---- */

static bool
opencl_continues(const struct vg_opencl_program *program)
{
    return program->state == VG_OPENCL_GONE ||
           (program->state == VG_OPENCL_RUNNING && program->answer != VG_OPENCL_SILENT);
}

/* Returns whether it could not take a GPU again, and may be requested to try again. */
static bool
opencl_has_failed(const struct vg_opencl_program *program)
{
    return program->state == VG_OPENCL_RELEASED && program->answer == VG_OPENCL_NO;
}

/* Waits until all wanted programs continue, or report that they cannot, or until_ms. Returns how
 * many cannot, or -1 if they can no longer be reached. */
static int
opencl_wait_until_on(const struct vg_guest_work *work, int64_t until_ms)
{
    struct vg_opencl_link *link = &opencl_programs;

    int64_t stuck_ms = vg_guest_now_ms() + VG_OPENCL_STUCK_MS + vg_guest_copy_ms(vg_opencl_bytes());

    until_ms = until_ms < work->until_ms ? until_ms : work->until_ms;
    stuck_ms = stuck_ms < until_ms ? stuck_ms : until_ms;
    for (;;) {
        int waits = 0, failed = 0, stuck = 0;
        for (size_t i = 0; i < link->n; i++) {
            const struct vg_opencl_program *program = &link->programs[i];
            if (!program->is_wanted || opencl_continues(program))
                continue;
            failed += opencl_has_failed(program) ? 1 : 0;
            waits += opencl_has_failed(program) ? 0 : 1;
            stuck += program->state == VG_OPENCL_STOPPING ? 1 : 0;
        }
        int64_t wait_ms = waits == stuck ? stuck_ms : until_ms;
        if (waits == 0 || vg_guest_now_ms() >= wait_ms)
            return failed;
        if (vg_guest_child_stop() != VG_GUEST_STOP_NONE || vg_opencl_link_wait(link, wait_ms) != 0)
            return -1;
    }
}

/* Resumes the wanted programs. Those that fail are requested again for a while, because GPUs may be
 * about to appear. */
static void
opencl_resume_all(struct vg_guest_work *work)
{
    struct vg_opencl_link *link = &opencl_programs;
    int64_t again_ms = vg_guest_now_ms() + COME_MS;
    bool is_first = true;

    again_ms = again_ms < work->until_ms ? again_ms : work->until_ms;
    for (;;) {
        for (size_t i = 0; i < link->n; i++) {
            struct vg_opencl_program *program = &link->programs[i];
            if (!program->is_wanted || program->state == VG_OPENCL_GONE ||
                !(is_first || opencl_has_failed(program)))
                continue;
            if (is_first)
                vg_opencl_progress(work, "return", program);
            vg_opencl_link_send(link, program, "resume");
        }
        is_first = false;
        int failed = opencl_wait_until_on(work, work->until_ms);
        if (failed <= 0 || vg_guest_now_ms() + AGAIN_MS >= again_ms)
            return;
        vg_guest_child_sleep(vg_guest_now_ms() + AGAIN_MS);
    }
}

/* Fails with the first program that does not continue. */
static int
opencl_check_resumed(struct vg_guest_work *work)
{
    int result = 0;

    for (size_t i = 0; i < opencl_programs.n; i++) {
        struct vg_opencl_program *program = &opencl_programs.programs[i];
        if (!program->is_wanted)
            continue;
        if (opencl_continues(program)) {
            vg_guest_log(LOG_NOTICE, "OpenCL program pid=%d comm='%s' gone=%d stop_ms=%lld",
                         (int)program->pid, program->comm, program->state == VG_OPENCL_GONE,
                         (long long)program->stop_us / 1000);
            continue;
        }
        /* It may have reported what it waits for. */
        if (!opencl_has_failed(program) && !program->why[0])
            vg_guest_put(program->why, sizeof program->why, "it has not answered in time");
        vg_guest_auto char *why = vg_guest_quote(program->why, sizeof program->why);
        vg_guest_log(LOG_ERR, "OpenCL program does not resume pid=%d comm='%s' why=%s",
                     (int)program->pid, program->comm, why);
        result = vg_guest_work_fail(
            work, opencl_has_failed(program) ? VG_GUEST_OPENCL_FAILED : VG_GUEST_TIMEOUT,
            "process %d (%s) cannot use a GPU again: %s", (int)program->pid, program->comm,
            program->why);
    }
    return result;
}

static int
opencl_resume(struct vg_guest_work *work, json_object *kept, bool undo)
{
    struct vg_opencl_link *link = &opencl_programs;
    size_t n = 0;

    (void)kept;
    (void)undo;
    if (!vg_opencl_open(work))
        return 0;
    opencl_resume_others(work);
    int result = opencl_fetch(work);
    for (size_t i = 0; i < link->n; i++) {
        struct vg_opencl_program *program = &link->programs[i];
        program->is_wanted = program->is_seen && (program->state == VG_OPENCL_RELEASED ||
                                                  program->state == VG_OPENCL_STOPPING);
        /* Including those that continued in an earlier attempt. */
        program->is_told =
            program->is_seen && (program->is_told || program->is_wanted || program->stop_us >= 0);
        n += program->is_wanted ? 1 : 0;
    }
    if (n > 0) {
        vg_guest_work_allow_copy(work, vg_opencl_bytes());
        opencl_resume_all(work);
        result = opencl_check_resumed(work) != 0 ? -1 : result;
    }
    vg_opencl_describe(work->details, false);
    vg_opencl_close();
    return result;
}

/* ---- looking ---- */

static void
opencl_status(const struct vg_guest_work *look, json_object *about)
{
    struct vg_opencl_link *link = &opencl_programs;
    struct vg_guest_work work = *look;
    char why[sizeof link->programs->why + 64] = "";
    bool busy = work.order->state && strcmp(work.order->state, "idle") != 0 &&
                strcmp(work.order->state, "resumed") != 0;

    work.until_ms = vg_guest_now_ms() + QUERY_MS;
    bool has_agent = vg_opencl_open(&work) != NULL;
    size_t connected = has_agent ? link->n : 0;
    link->n = connected;
    if (has_agent) {
        opencl_find(&work);
        const struct vg_opencl_program *bad = busy ? NULL : vg_opencl_ask(&work);
        int64_t free_bytes = vg_guest_free_memory(work.config->root);
        if (bad)
            vg_guest_put(why, sizeof why, "%d (%s): %s", (int)bad->pid, bad->comm, bad->why);
        else if (free_bytes >= 0 && vg_opencl_bytes() > free_bytes)
            vg_guest_put(why, sizeof why,
                         "%lld MiB of memory are needed, but only %lld MiB are available",
                         (long long)(vg_opencl_bytes() >> 20), (long long)(free_bytes >> 20));
        for (size_t i = 0; i < link->n; i++) {
            struct vg_opencl_program *program = &link->programs[i];
            /* Programs that are stopped, or at a proxy, have no GPU. */
            program->is_told |= program->state == VG_OPENCL_RELEASED || program->is_away;
            if (program->state == VG_OPENCL_RUNNING)
                program->release_us = program->return_us = program->stop_us = -1;
        }
    }
    vg_opencl_describe(about, true);
    json_object_object_add(about, "connected", json_object_new_int64((int64_t)connected));
    json_object_object_add(about, "releasable",
                           busy ? NULL : json_object_new_boolean(*why == '\0'));
    if (*why)
        json_object_object_add(about, "why", json_object_new_string(why));
    vg_opencl_close();
}

/* ---- in the agent ---- */

static void *
opencl_load(const struct vg_guest_config *config)
{
    return vg_opencl_hub_new(config->root);
}

static void
opencl_look(void *cookie)
{
    vg_opencl_hub_look(cookie);
}

static int
opencl_fd(void *cookie)
{
    return vg_opencl_hub_fd(cookie);
}

static void
opencl_ready(void *cookie)
{
    vg_opencl_hub_serve(cookie);
}

static void
opencl_unload(void *cookie)
{
    vg_opencl_hub_free(cookie);
}

const struct vg_guest_provider vg_guest_provider_opencl = {
    .name = "opencl",
    .load = opencl_load,
    .look = opencl_look,
    .fd = opencl_fd,
    .ready = opencl_ready,
    .unload = opencl_unload,
    .prepare = opencl_prepare,
    .resume = opencl_resume,
    .status = opencl_status,
};
