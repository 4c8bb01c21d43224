/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends migrations that do not end on their own: cancelled ones, stalled ones, and those that exceed
 * their deadline, including migrations that an earlier vgpud started.
 */
#include "config.h"

#include "base/clock.h"
#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The time for a cancelled migration to end before the other host's QEMU is ended. */
#define LEAVE_NS (2 * VG_NS_PER_S)
/* The time for an incoming QEMU to end if no migration to it is running. */
#define LEFT_NS (5 * VG_NS_PER_S)
/* libvirt may fail to end it. After this time, the VM's place counts as known: where it runs. */
#define LEFT_MOST_NS (30 * VG_NS_PER_S)
/* An answer that took longer may be outdated. */
#define FRESH_NS VG_NS_PER_S
/* The interval between attempts to end the incoming QEMU. */
#define AGAIN_NS (15 * VG_NS_PER_S)

/* A running migration: the domain that leaves, and the QEMU that waits for it. */
struct stuck_direction {
    bool is_back; /* from the target to the source */
    /* The migration is over: the domain stays, and a libvirtd that died left the waiting QEMU. */
    bool is_left;
    const struct vg_domain_look *from;
    bool is_awaited; /* the other host's QEMU is known to wait */
};

/* Returns false if no host reports a migration of the VM. */
static bool
stuck_find_direction(const struct mover_views *views, struct stuck_direction *ret)
{
    const bool is_out = views->source_known && views->source.place == VG_DOMAIN_LEAVING;
    const bool is_awaited_there = views->target_known && views->target.place == VG_DOMAIN_INCOMING;
    const bool is_awaited_here = views->source_known && views->source.place == VG_DOMAIN_INCOMING;
    const bool is_back = views->target_known && views->target.place == VG_DOMAIN_LEAVING;
    const bool is_left =
        is_awaited_here && views->target_known && views->target.place == VG_DOMAIN_HERE;

    *ret = is_out ? (struct stuck_direction){.from = &views->source, .is_awaited = is_awaited_there}
                  : (struct stuck_direction){true, is_left, &views->target, is_awaited_here};
    return is_out || is_back || is_left;
}

static bool
stuck_goes_back(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    return move->machine.back;
}

/* Records the progress. While the VM switches hosts, there may be none for some time. */
static void
stuck_note(struct mover_stuck *stuck, const struct vg_domain_look *from, int64_t now_ns)
{
    if (stuck->since_ns == 0)
        stuck->since_ns = stuck->copied_ns = now_ns;
    if (from->runs != stuck->runs || from->copied_bytes != stuck->copied_bytes)
        stuck->copied_ns = now_ns;
    stuck->copied_bytes = from->copied_bytes;
    stuck->runs = from->runs;
}

/* Returns whether the migration is to be ended. */
static bool
stuck_is_over(struct mover_move *move, const struct mover_stuck *stuck,
              const struct stuck_direction *direction, int64_t now_ns)
{
    const int64_t most_ns = direction->from->copied_bytes > 0
                                ? VG_VIRT_STUCK_NS
                                : MAX(direction->from->begin_ns, VG_VIRT_STUCK_NS);

    return stuck->off_ns > 0 || move->called_off || direction->is_left ||
           (!direction->is_back && stuck_goes_back(move)) || now_ns - stuck->copied_ns >= most_ns ||
           now_ns - stuck->since_ns >= move->settings->migrate_deadline_ns;
}

/* Queries the host again, as the answers may be outdated. */
static bool
stuck_has_copied_nothing(struct mover_move *move, const struct stuck_direction *direction)
{
    const int64_t began_ns = vg_clock_monotonic_ns();
    struct vg_domain_look look;

    return vg_virt_look(direction->is_back ? move->target : move->source, move->record->uuid, NULL,
                        &look, NULL) == 0 &&
           look.place == direction->from->place && look.runs && look.copied_bytes == 0 &&
           vg_clock_monotonic_ns() - began_ns < FRESH_NS;
}

/* Ends the other host's QEMU, which has received nothing of the VM. The VM still runs at its
 * source. */
static void
stuck_end_incoming(struct mover_move *move, const struct stuck_direction *direction,
                   struct mover_stuck *stuck)
{
    const char *host = direction->is_back ? move->record->from : move->record->to;
    vg_virt_link *link = direction->is_back ? move->source : move->target;
    g_autoptr(GError) error = NULL;

    if (!stuck_has_copied_nothing(move, direction))
        return;
    vg_log_warn(
        "ending a QEMU process that waits for a stalled migration id=%s vm=\"%s\" host=\"%s\"",
        move->record->id, move->record->vm, host);
    g_clear_pointer(&stuck->why, g_free);
    if (vg_virt_end_incoming(link, move->record->uuid, &error) < 0)
        stuck->why = g_strdup(error->message);
    stuck->ended_ns = vg_clock_monotonic_ns();
}

bool
mover_end_stuck(struct mover_move *move, const struct mover_views *views, struct mover_stuck *stuck)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    struct stuck_direction direction;

    if (!stuck_find_direction(views, &direction))
        return false;
    stuck_note(stuck, direction.from, now_ns);
    if (!stuck_is_over(move, stuck, &direction, now_ns))
        return false;
    if (stuck->off_ns == 0)
        stuck->off_ns = now_ns;
    if (!direction.is_left)
        vg_virt_abort(direction.is_back ? move->target : move->source, move->record->uuid);
    if (direction.from->runs && direction.from->copied_bytes == 0 && direction.is_awaited &&
        now_ns >= stuck->off_ns + (direction.is_left ? LEFT_NS : LEAVE_NS) &&
        (stuck->ended_ns == 0 || now_ns >= stuck->ended_ns + AGAIN_NS))
        stuck_end_incoming(move, &direction, stuck);
    if (direction.is_left && now_ns >= stuck->off_ns + LEFT_MOST_NS)
        move->leaves_left = true;
    return direction.is_left && move->leaves_left;
}

/* ---- texts ---- */

/* Describes the wait when the host that the VM leaves answers. */
static char *
stuck_describe(const struct mover_move *move, const struct stuck_direction *direction,
               const struct mover_stuck *stuck)
{
    const struct vg_migration *record = move->record;
    const char *from = direction->is_back ? record->to : record->from;
    const char *to = direction->is_back ? record->from : record->to;
    g_autofree char *command = mover_command(move, !direction->is_back, "destroy");
    g_autofree char *end =
        direction->from->runs && direction->is_awaited
            ? g_strdup_printf("; as the VM runs on '%s', %s ends it%s%s", from, command,
                              stuck->why ? ", which failed: " : "", stuck->why ? stuck->why : "")
            : g_strdup("");

    if (direction->is_left)
        return g_strdup_printf(
            "the end of the QEMU process that a finished migration left on '%s'%s", to, end);
    return g_strdup_printf("libvirt on '%s' to end the migration, which may need an answer from "
                           "libvirt on '%s'%s",
                           from, to, end);
}

void
mover_tell_stuck(struct mover_move *move, const struct mover_views *views,
                 const struct mover_stuck *stuck, const char *why)
{
    /* reached only if no host reports that the VM leaves it */
    const bool is_back = views->source_known;
    struct stuck_direction direction;
    g_autofree char *text = NULL;

    if (stuck_find_direction(views, &direction)) {
        text = stuck_describe(move, &direction, stuck);
    } else {
        g_autofree char *command = mover_command(move, is_back, "destroy");
        text = g_strdup_printf("an answer from libvirt on '%s' about the migration: %s; if "
                               "its daemon hangs there, restart it (`vgpuctl doctor` there names "
                               "it); if QEMU hangs, %s ends the VM",
                               is_back ? move->record->to : move->record->from, why, command);
    }
    mover_wait(move, text);
}

void
mover_stuck_clear(struct mover_stuck *stuck)
{
    g_clear_pointer(&stuck->why, g_free);
}
