/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries both hosts' libvirt for the place of the VM, and for the definitions that remain at the
 * end.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "move/place.h"
#include "mover/private.h"

/* The interval between queries to a host that does not answer. It grows from the first value to the
 * second. */
#define LOOK_PAUSE_NS     (500 * VG_NS_PER_MS)
#define LOOK_PAUSE_MAX_NS (10 * VG_NS_PER_S)
/* The time after which an unresponsive host is reported. */
#define LOOK_WAITS_NS (5 * VG_NS_PER_S)

/* The time limit for a target's libvirt to end an incoming QEMU after its connection has ended, or
 * to answer again. */
#define LEAVE_NS (10 * VG_NS_PER_S)

GStrv
mover_aliases(const struct vg_migration *record)
{
    GStrv aliases = g_new0(char *, record->devices->len + 1);

    for (guint i = 0; i < record->devices->len; i++)
        aliases[i] = g_strdup(((const struct vg_move_device *)record->devices->pdata[i])->alias);
    return aliases;
}

static enum vg_migration_place
look_place(const struct mover_views *views)
{
    const struct vg_place_answer source = {views->source_known, views->source.place};
    const struct vg_place_answer target = {views->target_known, views->target.place};

    return vg_place_of_hosts(&source, &target);
}

static enum vg_migration_gpu
look_gpu(const struct mover_move *move, const struct vg_domain_look *look)
{
    const unsigned n = move->record->devices->len;

    if (look->present == n)
        return VG_GPU_ATTACHED;
    return look->present == 0 ? VG_GPU_DETACHED : VG_GPU_PARTLY;
}

/* ---- querying the hosts ---- */

static bool
look_at_source(struct mover_move *move, struct vg_domain_look *ret, GError **err)
{
    g_auto(GStrv) aliases = mover_aliases(move->record);
    vg_virt_link *host = mover_source(move, err);

    return host &&
           vg_virt_look(host, move->record->uuid, (const char *const *)aliases, ret, err) == 0;
}

static bool
look_at_target(struct mover_move *move, struct vg_domain_look *ret, GError **err)
{
    g_auto(GStrv) aliases = mover_aliases(move->record);
    vg_virt_link *host = mover_target(move, err);

    return host &&
           vg_virt_look(host, move->record->uuid, (const char *const *)aliases, ret, err) == 0;
}

static void
look_at_both(struct mover_move *move, struct mover_views *views, GString *why)
{
    g_autoptr(GError) source_error = NULL;
    g_autoptr(GError) target_error = NULL;

    views->source_known = look_at_source(move, &views->source, &source_error);
    views->target_known = look_at_target(move, &views->target, &target_error);
    g_string_printf(why, "%s%s%s", source_error ? source_error->message : "",
                    source_error && target_error ? "; " : "",
                    target_error ? target_error->message : "");
}

/* Queries the source, and the target only if the source's answer is not enough. The VM then gets
 * its GPU back without waiting for another host. */
static void
look_once(struct mover_move *move, struct mover_views *views, GString *why)
{
    g_autoptr(GError) error = NULL;

    *views = (struct mover_views){0};
    views->source_known = look_at_source(move, &views->source, &error);
    const struct vg_place_answer source = {views->source_known, views->source.place};
    g_string_assign(why, error ? error->message : "");
    g_clear_error(&error);
    if (!vg_place_needs_target(&source))
        return;
    views->target_known = look_at_target(move, &views->target, &error);
    if (error)
        g_string_append_printf(why, "%s%s", why->len > 0 ? "; " : "", error->message);
}

/* ---- the place of the VM ---- */

/* Returns whether a migration in either direction has started but not succeeded. */
static bool
look_is_unclear(const struct vg_move *machine)
{
    return (machine->asked[VG_MOVE_MIGRATE] && !machine->done[VG_MOVE_MIGRATE]) ||
           (machine->asked[VG_MOVE_RETURN] && !machine->done[VG_MOVE_RETURN]);
}

/* Resumes the VM if a migration that failed during the switch left it paused and the other host
 * certainly does not have it. The VM was running before, or it would not have been migrated. A VM
 * paused for a reason of its own, such as an I/O error, stays paused. */
static void
look_resume(struct mover_move *move, struct mover_views *views, GString *why)
{
    const enum vg_migration_place place = look_place(views);
    struct vg_domain_look *view = place == VG_PLACE_TARGET ? &views->target : &views->source;
    g_autoptr(GError) error = NULL;

    if ((place != VG_PLACE_SOURCE && place != VG_PLACE_TARGET) || view->place != VG_DOMAIN_STILL ||
        !view->by_migration || !look_is_unclear(&move->machine))
        return;
    vg_virt_link *host = place == VG_PLACE_TARGET ? move->target : move->source;
    if (vg_virt_go_on(host, move->record->uuid, &error) < 0) {
        g_string_append_printf(why, "%s%s", why->len > 0 ? "; " : "", error->message);
        return;
    }
    view->place = VG_DOMAIN_HERE;
    view->stands = NULL;
}

/* Returns why the VM is paused, or NULL. */
static const char *
look_why_paused(const struct mover_views *views, enum vg_migration_place place)
{
    return place == VG_PLACE_SOURCE   ? views->source.stands
           : place == VG_PLACE_TARGET ? views->target.stands
                                      : NULL;
}

static char *
look_text(const struct mover_move *move, const struct mover_views *views,
          const struct vg_move_facts *facts, const char *why)
{
    const bool is_on_a_host = facts->place == VG_PLACE_SOURCE || facts->place == VG_PLACE_TARGET;
    const char *stands = look_why_paused(views, facts->place);

    return g_strdup_printf("the VM is %s%s%s%s; %s%s%s%s", is_on_a_host ? "on the " : "",
                           vg_migration_place_names[facts->place], stands ? ", " : "",
                           stands ? stands : "",
                           move->record->devices->len > 0 ? "its GPUs are " : "it has no GPUs",
                           move->record->devices->len > 0 ? vg_migration_gpu_names[facts->gpu] : "",
                           *why ? "; " : "", why);
}

/* Reports which host the search waits for. */
static void
look_report_waiting(struct mover_move *move, const struct mover_views *views, const char *why)
{
    const char *from = move->record->from, *to = move->record->to;
    const bool both = !views->source_known && !views->target_known;
    const bool stands = views->source_known && views->source.place == VG_DOMAIN_STILL;
    g_autofree char *command = mover_command(move, false, "resume");
    g_autofree char *paused =
        stands ? g_strdup_printf("; the VM stays paused because it may be running there; if you "
                                 "are certain that it is not, %s resumes it",
                                 command)
               : g_strdup("");
    g_autofree char *text = g_strdup_printf(
        "libvirt on '%s'%s%s%s: %s; if its daemon hangs, restart it (`vgpuctl doctor` there names "
        "it)%s",
        views->source_known ? to : from, both ? " and on '" : "", both ? to : "", both ? "'" : "",
        why, paused);

    mover_wait(move, text);
}

/* Pauses before the next query. Returns false if the search is over. A VM that the move has changed
 * may be without its GPUs: the search for it continues until a host reports it or the move is
 * abandoned. The search for an unchanged VM has a time limit. */
static bool
look_continues(struct mover_move *move, enum vg_migration_place place, int64_t began_ns,
               int64_t *pause_ns)
{
    const struct vg_move *machine = &move->machine;
    const bool was_touched = machine->asked[VG_MOVE_QUIESCE] || machine->asked[VG_MOVE_DETACH] ||
                             machine->asked[VG_MOVE_MIGRATE];
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (place != VG_PLACE_MOVING && place != VG_PLACE_UNKNOWN)
        return false;
    if (atomic_load(&move->given_up))
        return false;
    if (!was_touched && now_ns >= began_ns + vg_move_deadline_ns(VG_MOVE_LOOK))
        return false;
    if (!vg_thread_sleep_until(move->thread, now_ns + *pause_ns))
        return false;
    *pause_ns =
        place == VG_PLACE_MOVING ? LOOK_PAUSE_NS : MIN(*pause_ns * 3 / 2, LOOK_PAUSE_MAX_NS);
    return true;
}

void
mover_look(struct mover_move *move, struct mover_outcome *ret)
{
    const int64_t began_ns = vg_clock_monotonic_ns();
    int64_t pause_ns = LOOK_PAUSE_NS;
    g_autoptr(GString) why = g_string_new(NULL);
    struct mover_views views;
    struct mover_stuck stuck = {0};

    do {
        look_once(move, &views, why);
        look_resume(move, &views, why);
        ret->facts.place = look_place(&views);
        if (ret->facts.place == VG_PLACE_MOVING && mover_end_stuck(move, &views, &stuck))
            ret->facts.place = VG_PLACE_TARGET;
        const bool is_late = vg_clock_monotonic_ns() >= began_ns + LOOK_WAITS_NS;
        if (is_late && ret->facts.place == VG_PLACE_UNKNOWN)
            look_report_waiting(move, &views, why->str);
        else if (is_late && ret->facts.place == VG_PLACE_MOVING &&
                 (stuck.off_ns > 0 || move->record->cause))
            mover_tell_stuck(move, &views, &stuck, why->str);
        else
            mover_go_on(move);
    } while (look_continues(move, ret->facts.place, began_ns, &pause_ns));
    mover_go_on(move);
    mover_stuck_clear(&stuck);
    ret->facts.final =
        (ret->facts.place == VG_PLACE_UNKNOWN || ret->facts.place == VG_PLACE_MOVING) &&
        atomic_load(&move->given_up);
    ret->facts.gpu = ret->facts.place == VG_PLACE_SOURCE   ? look_gpu(move, &views.source)
                     : ret->facts.place == VG_PLACE_TARGET ? look_gpu(move, &views.target)
                                                           : VG_GPU_UNKNOWN;
    ret->stands = look_why_paused(&views, ret->facts.place);
    ret->text = look_text(move, &views, &ret->facts, why->str);
}

/* ---- the definitions ---- */

/* Restores the GPUs to the VM's persistent definition, if it had them there. */
static int
look_define_gpus(struct mover_move *move, bool on_target, GError **err)
{
    const struct vg_migration *record = move->record;
    vg_virt_link *host = on_target ? mover_target(move, err) : mover_source(move, err);

    if (!host)
        return -1;
    for (guint i = 0; i < record->devices->len; i++) {
        const struct vg_move_device *device = record->devices->pdata[i];
        const char *xml = on_target ? device->target_xml : device->source_xml;
        if (xml && vg_virt_define_device(host, record->uuid, device, xml, err) < 0)
            return -1;
    }
    return 0;
}

/* Removes the definition that this migration has left in the target's libvirt. Before the migration
 * there was none, the source has the VM, and nothing of it runs on the target. */
static int
look_undefine(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    g_autofree char *command = mover_command(move, true, "undefine");
    g_autoptr(GError) error = NULL;

    if (!move->machine.done[VG_MOVE_PRECHECK])
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' also has a definition of the VM, and it is not certain that this "
                        "move left it there; %s removes it",
                        move->record->to, command);
    if (vg_virt_undefine(move->target, move->record->uuid, &error) < 0)
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' still has a definition of the VM (%s), which must not be started "
                        "there; %s removes it",
                        move->record->to, error->message, command);
    ret->text = g_strdup_printf("the definition of the VM that the migration left on '%s' has been "
                                "removed",
                                move->record->to);
    return 0;
}

/* Queries the target until it answers, as its libvirtd may be restarting, and until no QEMU waits
 * for the migration. */
static bool
look_at_leftover(struct mover_move *move, struct vg_domain_look *ret, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + LEAVE_NS;
    bool known;

    do {
        g_clear_error(err);
        known = look_at_target(move, ret, err);
    } while ((!known || ret->place == VG_DOMAIN_INCOMING) && vg_clock_monotonic_ns() < until_ns &&
             vg_thread_sleep_until(move->thread, vg_clock_monotonic_ns() + LOOK_PAUSE_NS));
    return known;
}

static int
look_tidy_target(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    struct vg_domain_look there;

    if (!look_at_leftover(move, &there, err)) {
        g_prefix_error(
            err, "it is unknown whether '%s' still has anything of the VM: ", move->record->to);
        return -1;
    }
    if (there.place != VG_DOMAIN_ABSENT) {
        g_autofree char *command = mover_command(move, true, "destroy");
        return vg_error(
            err, VG_E_CONFLICT,
            "'%s' also has a QEMU process of the VM (%s); if it is not needed, %s ends it",
            move->record->to, there.stands ? there.stands : "it is running or waiting", command);
    }
    return there.defined ? look_undefine(move, ret, err) : 0;
}

/* Adds the GPUs to the VM's definition on the target, where it is or was until it ended. */
static int
look_tidy_arrived(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    struct vg_domain_look there;

    if (!look_at_target(move, &there, err))
        return -1;
    /* Without a reservation, the GPUs may be promised to another VM. */
    if (there.defined && move->record->reservation && look_define_gpus(move, true, err) < 0)
        return -1;
    ret->text = there.defined ? g_strdup_printf("the VM is defined on '%s'", move->record->to)
                              : g_strdup("the VM is defined on neither host");
    return 0;
}

int
mover_tidy(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    const bool is_on_target = move->machine.facts.place == VG_PLACE_TARGET;
    struct vg_domain_look here = {0};

    if (!is_on_target && !look_at_source(move, &here, err))
        return -1;
    if (is_on_target || (here.place == VG_DOMAIN_ABSENT && !here.defined))
        return look_tidy_arrived(move, ret, err);
    if (here.defined && look_define_gpus(move, false, err) < 0)
        return -1;
    if (move->machine.asked[VG_MOVE_MIGRATE] && look_tidy_target(move, ret, err) < 0)
        return -1;
    if (!ret->text)
        ret->text = g_strdup_printf("'%s' has no definition of the VM", move->record->to);
    return 0;
}

/* ---- the last check ---- */

/* Ends the paused QEMU on the source. It remained because the message that the VM runs on the
 * target was lost. */
static int
look_end_source(struct mover_move *move, struct vg_domain_look *ret, GError **err)
{
    if (vg_virt_end_paused(move->source, move->record->uuid, err) < 0 ||
        !look_at_source(move, ret, err) ||
        (ret->defined && vg_virt_undefine(move->source, move->record->uuid, err) < 0))
        return -1;
    return look_at_source(move, ret, err) ? 0 : -1;
}

int
mover_verify(struct mover_move *move, struct mover_outcome *ret, GError **err)
{
    const struct vg_migration *record = move->record;
    g_autoptr(GString) why = g_string_new(NULL);
    struct mover_views views = {0};

    look_at_both(move, &views, why);
    if (!views.source_known || !views.target_known)
        return vg_error(err, VG_E_UNREACHABLE, "%s", why->str);
    if (look_place(&views) != VG_PLACE_TARGET)
        return vg_error(err, VG_E_CONFLICT, "the VM is not running on '%s' alone", record->to);
    if (views.target.place == VG_DOMAIN_STILL) {
        g_autofree char *command = mover_command(move, true, "resume");
        return vg_error(err, VG_E_CONFLICT,
                        "the VM is on '%s', but is not running: %s; %s resumes it", record->to,
                        views.target.stands, command);
    }
    if (record->devices->len > 0 && look_gpu(move, &views.target) != VG_GPU_ATTACHED)
        return vg_error(err, VG_E_CONFLICT, "some of the VM's GPUs are missing");
    if (look_define_gpus(move, true, err) < 0)
        return -1;
    if (views.source.place == VG_DOMAIN_STILL && look_is_unclear(&move->machine) &&
        look_end_source(move, &views.source, err) < 0)
        return -1;
    if (views.source.place != VG_DOMAIN_ABSENT) {
        g_autofree char *command = mover_command(move, false, "destroy");
        return vg_error(err, VG_E_CONFLICT,
                        "the VM runs on '%s', but '%s' still has a QEMU process of it (%s); %s "
                        "ends that process",
                        record->to, record->from,
                        views.source.stands ? views.source.stands : "it is running", command);
    }
    if (views.source.defined) {
        g_autofree char *command = mover_command(move, false, "undefine");
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' still has a definition of the VM, which must not be started there; "
                        "%s removes it",
                        record->from, command);
    }
    ret->text = g_strdup_printf("the VM runs on '%s' and not on '%s'%s", record->to, record->from,
                                record->devices->len > 0 ? ", and has its GPUs" : "");
    return 0;
}
