/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/move-advice.h"

#include <inttypes.h>
#include <string.h>

#include "base/printable.h"

/* Quotes a word for a shell if necessary. */
static char *
advice_quote(const char *word)
{
    static const char plain[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-";

    return word[0] && strspn(word, plain) == strlen(word) ? g_strdup(word)
                                                          : vg_printable_quote(word);
}

char *
vg_move_advice_command(const vg_migration *move, const char *peer, const char *verb)
{
    g_autofree char *id = advice_quote(move->id);
    g_autofree char *quoted = peer ? advice_quote(peer) : NULL;

    return g_strconcat("vgpuctl migration ", verb, " ", id, quoted ? " --peer=" : NULL, quoted,
                       NULL);
}

static bool
advice_was_touched(const vg_migration *move)
{
    static const char *const touching[] = {"quiesce", "detach", "migrate", NULL};

    for (guint i = 0; i < move->steps->len; i++) {
        const struct vg_migration_step *step = move->steps->pdata[i];
        if (g_strv_contains(touching, step->verb))
            return true;
    }
    return false;
}

/* Returns advice for a VM on the source. */
static char *
advice_on_source(const vg_migration *move, const char *retry, bool has_its_gpus)
{
    if (!has_its_gpus)
        return g_strdup_printf("`%s` gives the VM its GPUs back", retry);
    if (move->state == VG_MIGRATION_FAILED && advice_was_touched(move))
        return g_strdup_printf("`%s` makes the guest use its GPUs again", retry);
    g_autofree char *vm = advice_quote(move->vm);
    g_autofree char *to = advice_quote(move->to);
    return g_strdup_printf("there is nothing to clean up; fix the cause, then start a new move "
                           "with `vgpuctl migrate %s --to %s%s`",
                           vm, to, move->no_agent ? " --no-agent" : "");
}

/* Returns advice on programs that have not returned from their proxy, or NULL. The caller frees
 * it. */
static char *
advice_lost(const vg_migration *move)
{
    g_autoptr(GString) names = g_string_new(NULL);
    guint n = 0;

    for (guint i = 0; i < move->guest.programs->len; i++) {
        const struct vg_guest_program *program = move->guest.programs->pdata[i];
        const bool is_gone = g_strcmp0(program->state, "gone") == 0 && program->away_ns > 0;
        const bool is_lost = g_strcmp0(program->state, "away") == 0 && program->why;
        if (!is_gone && !is_lost)
            continue;
        n++;
        g_string_append_printf(names, "%s%" PRId64 " (%s)", names->len > 0 ? ", " : "",
                               program->pid, program->comm ? program->comm : "?");
    }
    if (n == 0)
        return NULL;
    return g_strdup_printf("check the output of %s %s in the guest: %s may have lost the data "
                           "that %s had at the proxy; if it is still running, end it and "
                           "restart it",
                           n == 1 ? "program" : "programs", names->str,
                           n == 1 ? "it has" : "they have", n == 1 ? "it" : "they");
}

static char *
advice_of_move(const vg_migration *move, const char *peer)
{
    const bool has_its_gpus = move->devices->len == 0 || move->gpu == VG_GPU_ATTACHED;
    g_autofree char *retry = vg_move_advice_command(move, peer, "retry");
    g_autofree char *undo = vg_move_advice_command(move, peer, "undo");
    g_autofree char *vm = advice_quote(move->vm);

    if (move->waits_for && !vg_migration_has_ended(move->state)) {
        g_autofree char *abort = vg_move_advice_command(move, peer, "abort");
        if (vg_migration_is_queued(move))
            return g_strdup_printf("the move starts automatically when its turn comes; `%s` "
                                   "removes it from the queue",
                                   abort);
        return g_strdup_printf("the move continues; `%s` cancels it; if that is not possible, "
                               "run the command again to stop waiting",
                               abort);
    }
    if (move->state != VG_MIGRATION_FAILED && move->state != VG_MIGRATION_ROLLED_BACK)
        return NULL;
    switch (move->vm_on) {
    case VG_PLACE_SOURCE:
        return advice_on_source(move, retry, has_its_gpus);
    case VG_PLACE_TARGET:
        return has_its_gpus
                   ? g_strdup_printf("`%s` completes the remaining steps; `%s` moves the VM back",
                                     retry, undo)
                   : g_strdup_printf("`%s` plugs in a GPU of %s, or brings the VM back to %s",
                                     retry, move->to, move->from);
    case VG_PLACE_NOWHERE:
        return g_strdup_printf("start the VM again, on the host that has its definition: `virsh "
                               "start %s`",
                               vm);
    case VG_PLACE_BOTH:
        return g_strdup_printf("stop the VM on the host where it should not run, with `virsh "
                               "destroy %s`; then complete the remaining steps with `%s`",
                               vm, retry);
    case VG_PLACE_UNKNOWN:
    case VG_PLACE_MOVING:
    case VG_PLACE_MAX:
    default:
        return g_strdup_printf("`%s` checks the hosts again and completes the remaining steps",
                               retry);
    }
}

/* Returns advice on resuming a paused VM, or NULL if it is running. */
static char *
advice_paused(const vg_migration *move)
{
    const bool is_there = move->vm_on == VG_PLACE_TARGET;
    g_autofree char *vm = advice_quote(move->vm);

    if (!move->stands || (!is_there && move->vm_on != VG_PLACE_SOURCE))
        return NULL;
    return g_strdup_printf("`virsh resume %s` on %s lets the VM continue", vm,
                           is_there ? move->to : move->from);
}

/* Joins two texts, which may be NULL. */
static char *
advice_then(const char *first, char *take_second)
{
    if (!first)
        return take_second;
    char *both = g_strconcat(first, take_second ? "; then " : NULL, take_second, NULL);
    g_free(take_second);
    return both;
}

char *
vg_move_advice(const vg_migration *move, const char *peer)
{
    const bool has_ended = vg_migration_has_ended(move->state);
    char *advice = advice_of_move(move, peer);
    g_autofree char *lost = has_ended ? advice_lost(move) : NULL;
    g_autofree char *paused = has_ended ? advice_paused(move) : NULL;

    return advice_then(paused, advice_then(lost, advice));
}
