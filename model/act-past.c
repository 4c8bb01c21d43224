/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/act-past.h"

#include <string.h>

#define TIME_MAX ((double)VG_JSON_INT_MAX)
/* The maximum length of a name, in bytes. */
#define WORD_MAX 512

#define NEEDED(member) VG_ROW_STRING(member, VG_FIELD_REQUIRED, 1, WORD_MAX)
#define TEXT(member)   VG_ROW_STRING(member, VG_FIELD_OMIT, 0, WORD_MAX)

#define THIS vg_act_past_move
static const struct vg_field act_past_move_fields[] = {
    NEEDED(id),
    VG_ROW_STRING(vm, 0, 0, WORD_MAX),
    NEEDED(uuid),
    NEEDED(from),
    NEEDED(to),
    TEXT(act),
    TEXT(undo_of),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_migration_state_names),
    VG_ROW_BOOL(not_started, 0),
    VG_ROW_INT(made_ns, VG_FIELD_REQUIRED, 0, TIME_MAX),
    VG_ROW_INT(ended_ns, 0, 0, TIME_MAX),
    VG_ROW_ENUM("verdict", verdict, 0, vg_verdict_names),
    VG_ROW_INT(judged_ns, 0, 0, TIME_MAX),
};
static const struct vg_record_type act_past_move_record = VG_ROW_TYPE(act_past_move_fields);
#undef THIS

#define THIS vg_act_past
static const struct vg_field act_past_fields[] = {
    NEEDED(host),
    VG_ROW_LIST(moves, 0, VG_ACT_PAST_MAX, &act_past_move_record),
};
const struct vg_record_type vg_act_past_record = VG_ROW_TYPE(act_past_fields);
#undef THIS

void
vg_act_past_free(void *past)
{
    if (past)
        vg_record_free(&vg_act_past_record, past);
}

static void
act_past_add(vg_act_past *past, const struct vg_migration *move)
{
    const bool ended = vg_migration_has_ended(move->state);
    const struct vg_act_past_move made = {
        .id = move->id,
        .vm = move->vm,
        .uuid = move->uuid,
        .from = move->from,
        .to = move->to,
        .act = move->act,
        .undo_of = move->undo_of,
        .state = ended ? move->state : VG_MIGRATION_PENDING,
        .not_started = move->not_started,
        .made_ns = move->made_ns,
        .ended_ns = ended ? move->ended_ns : 0,
        .verdict = move->verdict.result,
        .judged_ns = move->verdict.judged_ns,
    };

    g_ptr_array_add(past->moves, vg_record_copy(&act_past_move_record, &made));
}

static int
act_past_compare(const void *left, const void *right)
{
    const struct vg_act_past_move *a = *(struct vg_act_past_move *const *)left;
    const struct vg_act_past_move *b = *(struct vg_act_past_move *const *)right;

    if (a->made_ns != b->made_ns)
        return a->made_ns > b->made_ns ? -1 : 1;
    return strcmp(a->id, b->id);
}

void
vg_act_past_truncate(vg_act_past *past, guint n)
{
    vg_record_truncate(&act_past_move_record, past->moves, MIN(n, past->moves->len));
}

guint
vg_act_past_keep_own(struct vg_host_moves *host)
{
    guint n = 0;

    for (guint i = host->moves->len; i-- > 0;) {
        const struct vg_migration *move = host->moves->pdata[i];
        if (g_strcmp0(move->from, host->host) == 0)
            continue;
        g_ptr_array_remove_index(host->moves, i);
        n++;
    }
    return n;
}

vg_act_past *
vg_act_past_update(const vg_act_past *before, const struct vg_host_moves *host, int64_t since_ns)
{
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    vg_act_past *past = vg_record_new(&vg_act_past_record);

    past->host = g_strdup(host->host);
    for (guint i = 0; i < host->moves->len; i++) {
        const struct vg_migration *move = host->moves->pdata[i];
        g_hash_table_add(known, move->id);
        if (move->made_ns >= since_ns)
            act_past_add(past, move);
    }
    for (guint i = 0; before && i < before->moves->len; i++) {
        const struct vg_act_past_move *move = before->moves->pdata[i];
        if (move->made_ns >= since_ns && strcmp(move->from, host->host) == 0 &&
            !g_hash_table_contains(known, move->id))
            g_ptr_array_add(past->moves, vg_record_copy(&act_past_move_record, move));
    }
    g_ptr_array_sort(past->moves, act_past_compare);
    vg_act_past_truncate(past, VG_ACT_PAST_MAX);
    return past;
}

struct vg_migration *
vg_act_past_to_move(const struct vg_act_past_move *past)
{
    struct vg_migration *move = vg_migration_new();
    const bool ended = vg_migration_has_ended(past->state);

    move->id = g_strdup(past->id);
    move->vm = g_strdup(past->vm);
    move->uuid = g_strdup(past->uuid);
    move->from = g_strdup(past->from);
    move->to = g_strdup(past->to);
    move->act = g_strdup(past->act);
    move->undo_of = g_strdup(past->undo_of);
    move->state = ended ? past->state : VG_MIGRATION_FAILED;
    move->not_started = past->not_started;
    move->made_ns = past->made_ns;
    move->ended_ns = ended ? past->ended_ns : past->made_ns;
    move->verdict.result = past->verdict;
    move->verdict.judged_ns = past->judged_ns;
    return move;
}
