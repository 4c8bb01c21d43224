/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/plan-text.h"

#include <stdarg.h>

#include "base/printable.h"
#include "cli/fold.h"

/* 1e9 ns per second correspond to 1. */
#define NS_PER_S 1e9
#define GIB      (1024.0 * 1024 * 1024)

/* The column of the text after labels such as "why:". */
#define TEXT_INDENT 14

/* Quotes a host in a URI: other characters than letters, digits and "-._~" could end the host name,
 * or start a user, a port or a query. */
static char *
quote_uri(const char *host, vg_quote_function quote)
{
    g_autofree char *escaped = g_uri_escape_string(host, NULL, FALSE);
    g_autofree char *uri = g_strdup_printf("qemu+ssh://%s/system", escaped);

    return quote(uri);
}

char *
vg_plan_action_virsh(const struct vg_plan_action *action, vg_quote_function quote)
{
    g_autofree char *vm = quote(action->uuid ? action->uuid : action->vm);
    g_autofree char *from = quote_uri(action->from, quote);
    g_autofree char *to = quote_uri(action->to, quote);

    return g_strdup_printf("virsh -c %s migrate --live --persistent --undefinesource "
                           "--domain %s --desturi %s",
                           from, vm, to);
}

char *
vg_plan_action_openstack(const struct vg_plan_action *action, vg_quote_function quote)
{
    g_autofree char *vm = quote(action->uuid ? action->uuid : action->vm);
    g_autofree char *to = quote(action->to);

    /* The "=" ensures that a host named "-h2" is not read as an option. */
    return g_strdup_printf("openstack server migrate --live-migration --host=%s -- %s", to, vm);
}

static char *
gain_text(const struct vg_plan_gain *gain)
{
    double cores = (double)gain->lost_cpu_ns_per_s / NS_PER_S;

    if (gain->gpu_wait_ns_per_s == 0)
        return g_strdup_printf("%+.2f cores of CPU time no longer lost", cores);
    return g_strdup_printf(
        "%+.2f cores of CPU time no longer lost, %+.2f GPU engines of waiting avoided", cores,
        (double)gain->gpu_wait_ns_per_s / NS_PER_S);
}

/* A text whose lines are folded to a width, or not if it is 0. */
struct plan_lines {
    GString *text;
    size_t width;
};

/* Appends a line, which continues below its text if it is too long. */
static void append_line(struct plan_lines *lines, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
append_line(struct plan_lines *lines, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *line = g_strdup_vprintf(fmt, args);
    va_end(args);
    g_autofree char *shown = vg_printable_text(line);
    vg_fold_append(lines->text, shown, TEXT_INDENT, lines->width);
    g_string_append_c(lines->text, '\n');
}

/* Appends the commands, which are never folded. */
static void
append_commands(GString *text, const struct vg_plan_action *action)
{
    g_autofree char *virsh = vg_plan_action_virsh(action, vg_printable_quote);
    g_autofree char *openstack = vg_plan_action_openstack(action, vg_printable_quote);

    vg_printable_append_line(text, "   libvirt:   %s", virsh);
    vg_printable_append_line(text, "   openstack: %s", openstack);
}

static void
append_action(struct plan_lines *lines, const struct vg_plan_action *action, unsigned int number)
{
    const struct vg_plan_runner_up *other = &action->runner_up;
    g_autofree char *gain = gain_text(&action->gain);
    g_autofree char *vm = action->display_name
                              ? g_strdup_printf("%s (%s)", action->display_name, action->vm)
                              : g_strdup(action->vm);

    g_autofree char *wave =
        action->wave > 1 ? g_strdup_printf(", wave %" G_GINT64_FORMAT, action->wave) : g_strdup("");

    append_line(lines, "%u. Move %s from %s to %s  (%s%s)", number, vm, action->from, action->to,
                action->role, wave);
    for (unsigned i = 0; i < action->gpus->len; i++) {
        const struct vg_gpu_target *gpu = action->gpus->pdata[i];
        append_line(lines, "   gpu:       %s, from %s to %s", gpu->type, gpu->from,
                    gpu->to ? gpu->to : "a GPU that the host chooses");
    }
    append_line(lines, "   why:       %s", action->reason.text);
    append_line(lines, "   gain:      %s", gain);
    append_line(lines, "   cost:      %.1f s to copy %.1f GiB%s, a pause of %.2f s",
                action->cost.migration_s, (double)action->cost.memory_bytes / GIB,
                action->cost.memory_assumed ? " (assumed; the snapshot does not contain the size)"
                                            : "",
                action->cost.stun_s);
    if (other->what) {
        g_autofree char *less = gain_text(&other->gain);
        append_line(lines, "   runner-up: %s: %s (%s)", other->what, other->why, less);
    }
}

/* Appends the action for a VM whose programs use a proxy. */
static void
append_proxy(struct plan_lines *lines, const struct vg_plan_proxy_action *action,
             unsigned int number)
{
    if (action->to)
        append_line(lines, "%u. Move %s's programs to GPU %s of %s  (%s, %s)", number, action->vm,
                    action->to_gpu, action->to_host, action->kind, action->price);
    else
        append_line(lines, "%u. Give %s the weight %d instead of %d, at GPU %s of %s  (%s, %s)",
                    number, action->vm, (int)action->weight, (int)action->weight_before,
                    action->from_gpu, action->from_host, action->kind, action->price);
    append_line(lines, "   why:       %s", action->reason.text);
    append_line(lines, "   gain:      %+.2f GPU engines of waiting avoided",
                (double)action->gain.gpu_wait_ns_per_s / NS_PER_S);
    if (action->to)
        append_line(lines, "   cost:      a pause of %.2f s, %.2f s of it to copy %.2f GiB",
                    action->cost.stun_s + action->cost.migration_s, action->cost.migration_s,
                    (double)action->cost.memory_bytes / GIB);
}

static void
append_list(struct plan_lines *lines, const char *title, const GPtrArray *sentences)
{
    for (unsigned int i = 0; i < sentences->len; i++)
        append_line(lines, "%s%s", i == 0 ? title : "           ",
                    (const char *)g_ptr_array_index(sentences, i));
}

static const char *
verdict_text(const vg_plan *plan)
{
    switch (plan->verdict) {
    case VG_PLAN_CHANGES:
        return "changes are proposed; nothing has been done";
    case VG_PLAN_INFEASIBLE:
        if (plan->free_up)
            return "vgpud found no moves that free these slots";
        return "there is contention, but no move is possible";
    case VG_PLAN_NOTHING_TO_DO:
    case VG_PLAN_VERDICT_MAX:
        break;
    }
    return "nothing to do";
}

char *
vg_plan_text(const vg_plan *plan, bool commands, size_t width)
{
    GString *text = g_string_new(NULL);
    struct plan_lines lines = {text, width};

    append_line(&lines, "%s (rule %s%s%s): %s", plan->id, plan->rule, plan->free_up ? " " : "",
                plan->free_up ? plan->free_up : "", verdict_text(plan));
    for (unsigned int i = 0; i < plan->proxies->len; i++) {
        g_string_append_c(text, '\n');
        append_proxy(&lines, g_ptr_array_index(plan->proxies, i), i + 1);
    }
    for (unsigned int i = 0; i < plan->actions->len; i++) {
        g_string_append_c(text, '\n');
        append_action(&lines, g_ptr_array_index(plan->actions, i), plan->proxies->len + i + 1);
        if (commands)
            append_commands(text, g_ptr_array_index(plan->actions, i));
    }
    if (plan->why->len + plan->skipped->len + plan->notes->len > 0)
        g_string_append_c(text, '\n');
    append_list(&lines, plan->actions->len + plan->proxies->len > 0 ? "No more:   " : "Because:   ",
                plan->why);
    for (unsigned int i = 0; i < plan->skipped->len; i++) {
        const struct vg_plan_skip *skip = g_ptr_array_index(plan->skipped, i);
        append_line(&lines, "Skipped:   %s on %s: %s", skip->vm, skip->host, skip->reason);
    }
    append_list(&lines, "Note:      ", plan->notes);
    return g_string_free(text, FALSE);
}
