/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/acting.h"

#include <string.h>

#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define COUNT_MAX 1e6
#define WORD_MAX  512
#define TEXT_MAX  4096
/* Maximum bytes of a reason. Causes of moves and answers of peers may be longer. */
#define WHY_MAX  512
#define PLAN_MAX 65536

#define NEEDED(member) VG_ROW_STRING(member, VG_FIELD_REQUIRED, 1, WORD_MAX)
#define TEXT(member)   VG_ROW_STRING(member, 0, 0, TEXT_MAX)

const char *const vg_policy_mode_names[] = {
    [VG_POLICY_UNSET] = "",          [VG_POLICY_NEVER] = "never", [VG_POLICY_OBSERVE] = "observe",
    [VG_POLICY_PROPOSE] = "propose", [VG_POLICY_ACT] = "act",     [VG_POLICY_MODE_MAX] = NULL,
};

const char *const vg_act_step_names[] = {
    [VG_ACT_WAITS] = "waits", [VG_ACT_STARTING] = "starting", [VG_ACT_MOVING] = "moving",
    [VG_ACT_DONE] = "done",   [VG_ACT_FAILED] = "failed",     [VG_ACT_DROPPED] = "dropped",
    [VG_ACT_STEP_MAX] = NULL,
};

#define THIS vg_act_move
static const struct vg_field act_move_fields[] = {
    NEEDED(act),
    NEEDED(vm),
    NEEDED(uuid),
    NEEDED(from),
    NEEDED(to),
    VG_ROW_INT(wave, 0, 0, COUNT_MAX),
    VG_ROW_INT(group, 0, 0, COUNT_MAX),
    VG_ROW_BOOL(undo_rest, 0),
    VG_ROW_ENUM("step", step, VG_FIELD_REQUIRED, vg_act_step_names),
    TEXT(undo_of),
    TEXT(move),
    TEXT(why),
    VG_ROW_INT(asked_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(until_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(unseen_since_ns, VG_FIELD_OMIT, 0, TIME_MAX),
};
const struct vg_record_type vg_act_move_record = VG_ROW_TYPE(act_move_fields);
#undef THIS

#define THIS vg_acting
static const struct vg_field acting_fields[] = {
    NEEDED(host),
    VG_ROW_ENUM("mode", mode, VG_FIELD_REQUIRED, vg_policy_mode_names),
    VG_ROW_BOOL(acts, 0),
    TEXT(why),
    VG_ROW_INT(at_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(errors, 0, 0, COUNT_MAX),
    VG_ROW_INT(budget, 0, 0, COUNT_MAX),
    VG_ROW_BOOL(spent, 0),
    VG_ROW_INT(spent_ns, 0, 0, TIME_MAX),
    VG_ROW_INT(resumed_ns, VG_FIELD_OMIT, 0, TIME_MAX),
    VG_ROW_INT(resume_revision, VG_FIELD_OMIT, 0, TIME_MAX),
    TEXT(plan_id),
    TEXT(plan_hash),
    VG_ROW_STRING(plan, VG_FIELD_OMIT, 0, PLAN_MAX),
    VG_ROW_LIST(moves, 0, VG_ACTING_MOVES_MAX + VG_ACTING_UNDOS_MAX, &vg_act_move_record),
};
const struct vg_record_type vg_acting_record = VG_ROW_TYPE(acting_fields);
#undef THIS

#define THIS vg_act_mark
static const struct vg_field act_mark_fields[] = {
    VG_ROW_STRING(by, VG_FIELD_REQUIRED, 0, WORD_MAX),
    VG_ROW_INT(at_ns, VG_FIELD_REQUIRED, 0, TIME_MAX),
};
const struct vg_record_type vg_act_mark_record = VG_ROW_TYPE(act_mark_fields);
#undef THIS

void
vg_acting_free(void *acting)
{
    if (acting)
        vg_record_free(&vg_acting_record, acting);
}

void
vg_act_mark_free(void *mark)
{
    if (mark)
        vg_record_free(&vg_act_mark_record, mark);
}

bool
vg_acting_is_busy(const struct vg_acting *acting)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        if (!vg_act_has_ended(acting->moves->pdata[i]))
            return true;
    }
    return false;
}

bool
vg_acting_is_blocked(const struct vg_acting *acting)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        const struct vg_act_move *move = acting->moves->pdata[i];
        if (!vg_act_has_ended(move) && !vg_act_undo_waits(move))
            return true;
    }
    return false;
}

char *
vg_act_shorten(const char *text)
{
    if (!text || strlen(text) <= WHY_MAX)
        return g_strdup(text);
    return g_strndup(text, (gsize)(g_utf8_find_prev_char(text, text + WHY_MAX) - text));
}

void
vg_act_set_why(struct vg_act_move *move, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_free(move->why);
    g_autofree char *why = g_strdup_vprintf(fmt, args);
    move->why = vg_act_shorten(why);
    va_end(args);
}
