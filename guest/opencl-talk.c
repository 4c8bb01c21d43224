/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's messages to OpenCL programs, and their answers. docs/vgpud-guest.7 describes the
 * lines.
 *
 * The agent itself makes a program continue at another place, whoever requests it: released ->
 * resume there -> or else resume where it was. A program thus continues, whatever happens to the
 * worker and the host. If it can continue nowhere, the request is repeated from time to time.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/opencl-hub-private.h"
#include "guest/util.h"

/* ---- what they are told ---- */

static bool
talk_send(vg_opencl_hub *hub, struct hub_program *program, const char *line)
{
    vg_guest_auto char *text = vg_guest_format("%s\n", line);

    if (send(program->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)strlen(text))
        return true;
    vg_opencl_hub_end_program(hub, program, "it does not read its messages");
    return false;
}

/* Resumes a program. place is a proxy, or empty for the program's own OpenCL. */
static void
talk_resume(vg_opencl_hub *hub, struct hub_program *program, const char *place)
{
    vg_guest_auto char *line =
        *place ? vg_guest_format("resume at %s", place) : vg_guest_copy("resume");

    if (!talk_send(hub, program, line))
        return;
    vg_guest_put(program->told_place, sizeof program->told_place, "%s", place);
    program->told = HUB_TOLD_RESUME;
    program->is_late = false;
    program->resume_us = vg_guest_now_us();
}

/* Requests a program to stop, within the time in the line. */
static bool
talk_prepare(vg_opencl_hub *hub, struct hub_program *program, const char *line)
{
    if (!talk_send(hub, program, line))
        return false;
    if (!program->is_released)
        program->stopped_us = vg_guest_now_us();
    program->told = HUB_TOLD_PREPARE;
    program->is_wanted = true;
    program->due_ms = INT64_MAX;
    return true;
}

static void
talk_abort(vg_opencl_hub *hub, struct hub_program *program)
{
    program->is_wanted = false;
    if (program->told == HUB_TOLD_PREPARE)
        talk_send(hub, program, "abort");
}

void
vg_opencl_talk_let_go_on(vg_opencl_hub *hub, struct hub_program *program)
{
    talk_abort(hub, program);
    if (program->told == HUB_TOLD_NOTHING && program->number != 0)
        talk_resume(hub, program, program->place);
}

/* Handles "move MS PLACE", with - for the program's own OpenCL. */
static void
talk_move(vg_opencl_hub *hub, struct hub_program *program, const char *order)
{
    int64_t ms;
    int at = 0;

    if (sscanf(order, "%" SCNd64 " %n", &ms, &at) != 1 || at == 0)
        return;
    const char *place = strcmp(order + at, "-") == 0 ? "" : order + at;
    vg_guest_put(program->move_to, sizeof program->move_to, "%s", place);
    program->return_us = program->stop_us = -1;
    program->worker = NULL;
    program->due_ms = INT64_MAX;
    if (program->is_released) {
        program->move = HUB_MOVE_GOING;
        talk_resume(hub, program, program->move_to);
        return;
    }
    vg_guest_auto char *line =
        vg_guest_format("prepare %" PRId64 "%s%s", ms, *place ? " " : "", place);
    program->move = HUB_MOVE_STOPPING;
    talk_prepare(hub, program, line);
}

static void
talk_request_prepare(vg_opencl_hub *hub, const struct hub_worker *worker,
                     struct hub_program *program, const char *line)
{
    if (!talk_prepare(hub, program, line))
        return;
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++)
        hub->programs[i].return_us = hub->programs[i].stop_us = -1;
    program->worker = worker;
}

void
vg_opencl_talk_send(vg_opencl_hub *hub, struct hub_worker *worker, struct hub_program *program,
                    const char *line)
{
    const char *place = vg_opencl_after(line, "resume");
    const char *order = vg_opencl_after(line, "move");
    bool is_question = strcmp(line, "ask") == 0;

    if (strcmp(line, "abort") == 0 || (place && !*place)) {
        talk_abort(hub, program);
        if (place && program->told == HUB_TOLD_NOTHING && program->number != 0)
            talk_resume(hub, program, "");
        return;
    }
    /* All workers get the answer. */
    if (is_question && program->is_asked)
        return;
    if (program->told != HUB_TOLD_NOTHING) {
        /* A line would cancel the stop in progress. */
        char text[64];
        vg_guest_put(text, sizeof text, "said %" PRIu32 " busy\n", program->number);
        vg_opencl_hub_send_worker(hub, worker, text);
    } else if (is_question) {
        program->is_asked = talk_send(hub, program, line);
    } else if (order) {
        talk_move(hub, program, order);
    } else if (place) {
        /* If this fails, it remains stopped. */
        talk_resume(hub, program, place + strlen("at "));
    } else {
        talk_request_prepare(hub, worker, program, line);
    }
}

/* ---- what they say ---- */

/* Handles a hello: "hello 1 PID", and "released BYTES PLACE" from a stopped program, or "away BYTES
 * PLACE". The pid is that in its container. The kernel reports the agent's. */
static bool
talk_take_hello(vg_opencl_hub *hub, struct hub_program *program, const char *line)
{
    char state[16];
    int version, pid, at = 0, place_at = 0;
    int64_t bytes;

    if (program->is_known || sscanf(line, "hello %d %d%n", &version, &pid, &at) != 2 || at == 0 ||
        version != 1)
        return false;
    if (sscanf(line + at, " %15s %" SCNd64 " %n", state, &bytes, &place_at) == 2 && bytes >= 0 &&
        (strcmp(state, "released") == 0 || strcmp(state, "away") == 0)) {
        vg_guest_auto char *place =
            vg_guest_clean(place_at > 0 ? line + at + place_at : "", VG_OPENCL_PLACE_MAX - 1);
        program->is_released = *state == 'r';
        /* Without the place, the program would count as using its own OpenCL. */
        vg_guest_put(program->place, sizeof program->place, "%s",
                     *state == 'a' && !*place ? "proxy:" : place);
        program->bytes = bytes < VG_OPENCL_BYTES_MAX ? bytes : VG_OPENCL_BYTES_MAX;
    } else if (line[at] != '\0') {
        return false;
    }
    /* The program connects again, although a child keeps its previous connection. */
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++) {
        struct hub_program *other = &hub->programs[i];
        if (other != program && other->is_known && other->pid == program->pid)
            vg_opencl_hub_end_program(hub, other, "it has connected again");
    }
    program->is_known = true;
    program->due_ms = program->is_released ? vg_guest_now_ms() + VG_OPENCL_ORPHAN_MS : INT64_MAX;
    vg_guest_log(LOG_INFO, "OpenCL program connected pid=%d released=%d", (int)program->pid,
                 program->is_released);
    vg_opencl_hub_announce(hub, program);
    return true;
}

/* Handles the answer to `ask`: "is STATE BYTES REASON". */
static bool
talk_take_state(struct hub_program *program, const char *line)
{
    int64_t bytes;
    char state[16];

    if (!program->is_asked || sscanf(line, "is %15s %" SCNd64, state, &bytes) != 2 || bytes < 0)
        return false;
    program->is_asked = false;
    program->is_remote = program->is_remote || strcmp(state, "remote") == 0;
    program->bytes = bytes < VG_OPENCL_BYTES_MAX ? bytes : VG_OPENCL_BYTES_MAX;
    return true;
}

/* Reports the result: `moved`, `stayed` and the reason, or `waits` and the reason if it can
 * continue nowhere. */
static void
talk_move_ended(vg_opencl_hub *hub, struct hub_program *program, const char *how)
{
    program->move = HUB_MOVE_NONE;
    if (strcmp(how, "waits") == 0)
        program->due_ms = vg_guest_now_ms() + VG_OPENCL_ORPHAN_MS;
    vg_guest_auto char *place = vg_guest_quote(program->place, VG_OPENCL_PLACE_MAX);
    vg_guest_auto char *why = vg_guest_quote(program->why, sizeof program->why);
    vg_guest_log(LOG_NOTICE, "OpenCL program %s pid=%d place=%s stop_ms=%" PRId64 " why=%s", how,
                 (int)program->pid, place, program->stop_us / 1000, why);
    vg_opencl_hub_send_all(hub, "said %" PRIu32 " %s %s\n", program->number, how, program->why);
}

/* Takes the next step of a program that is moving to another place, after its answer. */
static void
talk_move_on(vg_opencl_hub *hub, struct hub_program *program, const char *answer)
{
    const char *why = vg_opencl_after(answer, "failed");

    why = why ? why : vg_opencl_after(answer, "refused");
    why = why ? why : vg_opencl_after(answer, "error");
    if (program->move == HUB_MOVE_STOPPING || (program->move == HUB_MOVE_GOING && why)) {
        vg_guest_auto char *said = vg_guest_quote(why ? why : "", VG_OPENCL_SAID_MAX);
        vg_guest_put(program->why, sizeof program->why, "%s%s", why ? "it says " : "",
                     why ? said : "");
    }
    if (program->is_released && program->move == HUB_MOVE_STOPPING && program->is_wanted) {
        program->move = HUB_MOVE_GOING;
        talk_resume(hub, program, program->move_to);
    } else if (program->is_released && program->move != HUB_MOVE_BACK) {
        if (program->move == HUB_MOVE_STOPPING)
            vg_guest_put(program->why, sizeof program->why, "it stopped too late");
        program->move = HUB_MOVE_BACK;
        talk_resume(hub, program, program->place);
    } else if (program->is_released) {
        talk_move_ended(hub, program, "waits");
    } else {
        talk_move_ended(hub, program, program->move == HUB_MOVE_GOING && !why ? "moved" : "stayed");
    }
}

/* Handles the answer to `prepare` or `resume`. */
static bool
talk_take_outcome(struct hub_program *program, const char *line)
{
    bool stands = vg_opencl_after(line, "released") || vg_opencl_after(line, "lost");
    bool prepared = stands || vg_opencl_after(line, "refused");
    bool resumed = vg_opencl_after(line, "resumed");

    if (program->told != (prepared ? HUB_TOLD_PREPARE : HUB_TOLD_RESUME) ||
        (!prepared && !resumed && !vg_opencl_after(line, "failed")))
        return false;
    program->told = HUB_TOLD_NOTHING;
    /* A program that has not stopped has not moved either. */
    if (resumed && program->is_released)
        vg_guest_put(program->place, sizeof program->place, "%s", program->told_place);
    program->is_released = stands || vg_opencl_after(line, "failed");
    if (stands)
        program->release_us = vg_guest_now_us() - program->stopped_us;
    if (resumed && program->stopped_us >= 0) {
        program->return_us = vg_guest_now_us() - program->resume_us;
        program->stop_us = vg_guest_now_us() - program->stopped_us;
    }
    if (!program->is_released) {
        program->is_wanted = false;
        program->due_ms = INT64_MAX;
    }
    return true;
}

/* Requests what the agent decides after a program's answer. */
static void
talk_follow(vg_opencl_hub *hub, struct hub_program *program, const char *line)
{
    bool has_failed = vg_opencl_after(line, "failed");

    if (program->move != HUB_MOVE_NONE)
        talk_move_on(hub, program, line);
    /* No other process resumes it, and its previous proxy may no longer exist. */
    else if (has_failed && program->due_ms != INT64_MAX && *program->told_place)
        talk_resume(hub, program, "");
    /* The answer comes too late: it was abandoned, or the process that stopped it has ended. */
    else if (!has_failed && program->is_released && !program->is_wanted)
        talk_resume(hub, program, program->place);
}

/* Notes, once per `resume`, that it takes long, and why. This is not an answer yet. */
static bool
talk_take_late(struct hub_program *program, const char *line)
{
    const char *why = vg_opencl_after(line, "late");

    if (!why || program->told != HUB_TOLD_RESUME || program->is_late)
        return false;
    program->is_late = true;
    vg_guest_auto char *said = vg_guest_quote(why, VG_OPENCL_SAID_MAX);
    vg_guest_log(LOG_WARNING, "OpenCL program does not resume yet pid=%d why=%s", (int)program->pid,
                 said);
    return true;
}

void
vg_opencl_talk_take(vg_opencl_hub *hub, struct hub_program *program, const char *line)
{
    if (!program->is_known) {
        if (!talk_take_hello(hub, program, line))
            vg_opencl_hub_end_program(hub, program, "its first line is not a hello");
        return;
    }
    vg_guest_auto char *clean = vg_guest_clean(line, VG_OPENCL_LINE_MAX);
    bool is_error = vg_opencl_after(line, "error") && (program->is_asked || program->told);
    bool is_outcome = !is_error && talk_take_outcome(program, line);
    if (is_error) {
        program->is_asked = false;
        program->told = HUB_TOLD_NOTHING;
    } else if (!is_outcome && !talk_take_state(program, line) && !talk_take_late(program, clean)) {
        vg_opencl_hub_end_program(hub, program, "it sent an unexpected message");
        return;
    }
    vg_opencl_hub_send_all(hub, "said %" PRIu32 " %s\n", program->number, clean);
    if (is_outcome || (is_error && program->move != HUB_MOVE_NONE))
        talk_follow(hub, program, clean);
}
