/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of `vgpuctl migration show`: the course of a move from start to end.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/move-text.h"

#define LABEL_WIDTH 15
#define STEP_INDENT 34

/* Appends "asked by:      root". A long value continues below itself. */
G_GNUC_PRINTF(4, 5)
static void
move_story_line(GString *to, int width, const char *label, const char *fmt, ...)
{
    g_autoptr(GString) value = g_string_new(NULL);
    va_list args;

    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    vg_move_text_append_wrapped(value, LABEL_WIDTH, width, text);
    if (value->len < LABEL_WIDTH)
        return;
    g_string_append_printf(to, "%-*s%s", LABEL_WIDTH, label, value->str + LABEL_WIDTH);
}

static const char *
move_story_utc(int64_t t_ns, char buf[VG_UTC_LEN])
{
    return vg_utc_format(t_ns / VG_NS_PER_S * VG_NS_PER_S, buf);
}

static void
move_story_times(GString *to, const vg_migration *move, int width)
{
    char utc[VG_UTC_LEN];

    move_story_line(to, width, "requested:", "%s by %s", move_story_utc(move->made_ns, utc),
                    move->asked_by ? move->asked_by : "by an unknown client");
    if (move->plan_id)
        move_story_line(to, width, "plan:", "%s", move->plan_id);
    if (move->undo_of)
        move_story_line(to, width, "takes back:", "%s", move->undo_of);
    if (move->mode_why)
        move_story_line(to, width, "mode:", "%s: %s", vg_migration_mode_names[move->mode],
                        move->mode_why);
    if (move->no_agent)
        move_story_line(to, width, "guest:", "will not be asked to release its GPUs");
    if (move->ended_ns == 0)
        return;
    g_autofree char *took = vg_move_text_time(vg_move_text_took_ns(move));
    move_story_line(to, width, "ended:", "%s, after %s", move_story_utc(move->ended_ns, utc), took);
}

static void
move_story_copied(GString *to, const vg_migration *move, int width)
{
    const struct vg_migration_progress *progress = &move->progress;

    if (move->standstill_ns > 0) {
        g_autofree char *time = vg_move_text_time(move->standstill_ns);
        move_story_line(to, width, "paused:", "%s (programs that use a GPU)", time);
    } else if (move->standstill_began_ns > 0) {
        char utc[VG_UTC_LEN];
        move_story_line(to, width, "paused:", "since %s (programs that use a GPU)",
                        move_story_utc(move->standstill_began_ns, utc));
    }
    g_autofree char *downtime = vg_move_text_downtime(move);
    if (downtime)
        move_story_line(to, width, "downtime:", "%s, measured by libvirt",
                        downtime + strlen("downtime "));
    if (move->guest_pause_ns > 0) {
        g_autofree char *time = vg_move_text_time(move->guest_pause_ns);
        move_story_line(to, width, "longest pause:", "%s, measured in the guest", time);
    }
    if (progress->total_bytes == 0)
        return;
    if (move->step && (strcmp(move->step, "migrate") == 0 || strcmp(move->step, "return") == 0)) {
        g_autofree char *copying = vg_move_text_copy(progress);
        move_story_line(to, width, "copying:", "%s", copying);
        return;
    }
    g_autofree char *copied = vg_move_text_bytes(progress->processed_bytes);
    g_autofree char *total = vg_move_text_bytes(progress->total_bytes);
    g_autofree char *time = vg_move_text_time(progress->elapsed_ns);
    if (move->executor == VG_EXECUTOR_NOVA) {
        move_story_line(to, width, "copied:", "%s of %s of memory in %s, as last reported by nova",
                        copied, total, time);
        return;
    }
    move_story_line(to, width, "copied:", "%s for %s of memory, %" PRId64 " iterations, %s", copied,
                    total, progress->iteration, time);
}

/* Appends "1.20 cores in the 300 s before, 0.10 in the 62 s after; the plan foresaw 1.00 less". */
static void
move_story_effect(GString *to, const vg_migration *move, int width)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (move->before.known)
        g_string_append_printf(text, "%.2f cores in the %" PRId64 " s before",
                               (double)move->before.lost_cpu_ns_per_s / 1e9, move->before.seconds);
    if (move->after.known)
        g_string_append_printf(text, "%s%.2f in the %" PRId64 " s after", text->len > 0 ? ", " : "",
                               (double)move->after.lost_cpu_ns_per_s / 1e9, move->after.seconds);
    if (move->predicted)
        g_string_append_printf(text, "%sthe plan predicted %.2f less on all hosts",
                               text->len > 0 ? "; " : "",
                               (double)move->predicted_gain_ns_per_s / 1e9);
    if (text->len > 0)
        move_story_line(to, width, "CPU time lost:", "%s", text->str);
}

/* Appends "helped: the VMs of its hosts lose 1.10 cores less", and the figures for this. */
static void
move_story_verdict(GString *to, const vg_migration *move, int width)
{
    const struct vg_move_verdict *verdict = &move->verdict;

    if (verdict->result == VG_VERDICT_NONE)
        return;
    move_story_line(to, width, "verdict:", "%s: %s", vg_verdict_text(verdict->result),
                    verdict->why ? verdict->why : "no reason is known");
    g_autofree char *figures = vg_move_text_verdict_figures(verdict);
    if (figures)
        move_story_line(to, width, "", "%s", figures);
}

static void
move_story_head(GString *to, const vg_migration *move, const char *advice, int width)
{
    g_autofree char *where = vg_move_text_where(move);
    g_autofree char *waits = vg_move_text_waits(move);

    vg_printable_append_line(to, "%s: %s", move->id, vg_move_text_state(move->state));
    move_story_line(to, width, "VM:", "%s%s%s (%s)", move->display_name ? move->display_name : "",
                    move->display_name ? ", " : "", move->vm, move->uuid);
    move_story_line(to, width, "from, to:", "%s, %s%s", move->from, move->to,
                    move->executor == VG_EXECUTOR_NOVA ? ", by nova" : "");
    move_story_times(to, move, width);
    if (move->retries > 0)
        move_story_line(to, width, "retried:", "%" PRId64 " time%s, last by %s", move->retries,
                        move->retries == 1 ? "" : "s",
                        move->retried_by ? move->retried_by : "by an unknown client");
    if (move->abort_asked)
        move_story_line(to, width, "abort:", "was requested");
    if (move->cause)
        move_story_line(to, width, "cause:", "%s", move->cause);
    if (waits)
        move_story_line(to, width, "now:", "%s", waits);
    move_story_line(to, width, waits ? "" : "now:", "%s", where);
    if (advice)
        move_story_line(to, width, "what now:", "%s", advice);
    move_story_copied(to, move, width);
    move_story_effect(to, move, width);
    move_story_verdict(to, move, width);
}

/* ---- devices ---- */

static void
move_story_add_place(GString *to, const char *where, const char *address)
{
    if (address && address[0])
        g_string_append_printf(to, "; %s %s", where, address);
}

static void
move_story_devices(GString *to, const vg_migration *move, int width)
{
    g_autofree char *on_source = g_strconcat("on ", move->from, NULL);
    g_autofree char *on_target = g_strconcat("on ", move->to, NULL);

    if (move->devices->len > 0)
        g_string_append(to, "\nGPUs that move with it\n");
    for (guint i = 0; i < move->devices->len; i++) {
        const struct vg_move_device *device = move->devices->pdata[i];
        g_autofree char *alias = vg_printable_text(device->alias ? device->alias : "-");
        g_autoptr(GString) what = g_string_new(NULL);
        g_string_append_printf(what, "%s %s", vg_move_device_kind_names[device->kind],
                               device->type);
        move_story_add_place(what, "in the guest", device->guest_address);
        move_story_add_place(what, on_source, device->source_address);
        move_story_add_place(what, on_target, device->target_address);
        move_story_line(to, width, alias, "%s", what->str);
    }
}

/* ---- programs ---- */

/* Appends "; released in 940 ms (1.75 GiB/s)": the driver's total time, and the rate of copying the
 * memory. */
static void
move_story_add_copy(GString *to, const char *what, int64_t bytes, int64_t copy_ns, int64_t other_ns)
{
    if (copy_ns <= 0)
        return;
    g_autofree char *time = vg_move_text_time(copy_ns + other_ns);
    g_string_append_printf(to, "; %s in %s", what, time);
    if (bytes > 0) {
        const double per_s = (double)bytes / ((double)copy_ns / 1e9);
        g_autofree char *speed = vg_move_text_bytes((int64_t)MIN(per_s, 1e18));
        g_string_append_printf(to, " (%s/s)", speed);
    }
}

/* Appends "python3: released; 1.57 GiB of GPU memory; was paused for 1.4 s". */
static void
move_story_program(GString *to, const struct vg_guest_program *program, int width)
{
    g_autofree char *pid = g_strdup_printf("%" PRId64, program->pid);
    g_autoptr(GString) what = g_string_new(NULL);

    g_string_append_printf(what, "%s: %s", program->comm ? program->comm : "?",
                           program->state ? program->state : "unknown");
    if (program->gpu_bytes > 0) {
        g_autofree char *bytes = vg_move_text_bytes(program->gpu_bytes);
        g_string_append_printf(what, "; %s of GPU memory", bytes);
    }
    if (program->stop_ns > 0) {
        g_autofree char *time = vg_move_text_time(program->stop_ns);
        if (program->away_ns > 0) {
            g_autofree char *away = vg_move_text_time(program->away_ns);
            g_string_append_printf(what, "; was paused for %s before it used the proxy, and then",
                                   away);
        } else {
            g_string_append(what, "; was paused");
        }
        g_string_append_printf(what, " for %s", time);
    }
    move_story_add_copy(what, "released", program->gpu_bytes, program->checkpoint_ns,
                        program->lock_ns);
    move_story_add_copy(what, "brought back", program->gpu_bytes, program->restore_ns,
                        program->unlock_ns);
    if (program->held_threads > 0)
        g_string_append_printf(what, "; %" PRId64 " thread%s that faulted %s held",
                               program->held_threads, program->held_threads == 1 ? "" : "s",
                               program->held_threads == 1 ? "was" : "were");
    if (program->why)
        g_string_append_printf(what, "; %s", program->why);
    move_story_line(to, width, pid, "%s", what->str);
}

static void
move_story_programs(GString *to, const vg_migration *move, int width)
{
    const struct vg_guest_programs *guest = &move->guest;
    const int64_t more = guest->total - guest->programs->len;

    if (guest->doing)
        move_story_line(to, width, "in the guest:", "%s", guest->doing);
    if (guest->programs->len > 0)
        g_string_append(to, "\nPrograms in the guest that use a GPU, by pid\n");
    for (guint i = 0; i < guest->programs->len; i++)
        move_story_program(to, guest->programs->pdata[i], width);
    if (more > 0)
        g_string_append_printf(to, "and %" PRId64 " more\n", more);
    if (guest->forked > 0) {
        g_autofree char *forked =
            vg_move_text_forked(guest->forked, guest->forked_descriptors, guest->forked_maps);
        g_string_append_printf(to, "and %s\n", forked);
    }
}

/* ---- steps ---- */

static char *
move_story_took(const struct vg_migration_step *step, bool is_running)
{
    if (step->ended_ns > 0)
        return vg_move_text_seconds(MAX(step->ended_ns - step->began_ns, 0));
    return g_strdup(is_running ? "now" : "?");
}

/* Appends a step: its start, duration and name, followed by the request and the answer. */
static void
move_story_step(GString *to, const vg_migration *move, guint i, int width)
{
    const struct vg_migration_step *step = move->steps->pdata[i];
    const bool is_running =
        step->ended_ns == 0 && !vg_migration_has_ended(move->state) && i + 1 == move->steps->len;
    g_autofree char *after = vg_move_text_seconds(MAX(step->began_ns - move->made_ns, 0));
    g_autofree char *took = move_story_took(step, is_running);
    g_autofree char *verb = vg_printable_text(step->verb);
    g_autoptr(GString) text = g_string_new(NULL);

    if (step->asked)
        vg_move_text_append_wrapped(text, STEP_INDENT, width, step->asked);
    if (step->ended_ns == 0 && !is_running)
        vg_move_text_append_wrapped(text, STEP_INDENT, width, "(result unknown)");
    else if (step->answer) {
        g_autofree char *answer = step->ok ? g_strdup_printf("-> %s", step->answer)
                                           : g_strdup_printf("-> FAILED: %s", step->answer);
        vg_move_text_append_wrapped(text, STEP_INDENT, width, answer);
    } else if (step->ended_ns > 0 && !step->ok)
        vg_move_text_append_wrapped(text, STEP_INDENT, width, "-> FAILED");
    g_string_append_printf(to, "%11s %10s %s %-9s", after, took, step->undoes ? "<" : " ", verb);
    if (text->len > STEP_INDENT)
        g_string_append(to, text->str + STEP_INDENT);
    else
        g_string_append_c(to, '\n');
}

char *
vg_move_text_story(const vg_migration *move, const char *advice, int width)
{
    GString *to = g_string_new(NULL);
    bool goes_back = false;

    move_story_head(to, move, advice, width);
    move_story_devices(to, move, width);
    move_story_programs(to, move, width);
    if (move->steps->len > 0)
        g_string_append_printf(to, "\n%11s %10s   %s\n", "AFTER", "TOOK", "STEP");
    for (guint i = 0; i < move->steps->len; i++) {
        const struct vg_migration_step *step = move->steps->pdata[i];
        goes_back = goes_back || step->undoes;
        move_story_step(to, move, i, width);
    }
    if (goes_back)
        g_string_append(to, "< marks steps of the rollback\n");
    return g_string_free(to, FALSE);
}
