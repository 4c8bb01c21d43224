/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/proposal.h"

#include "model/snapshot.h"

#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define COUNT_MAX 1e6

#define THIS vg_cluster_leader
static const struct vg_field leader_fields[] = {
    VG_ROW_STRING(host, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(since_ns, 0, 0, TIME_MAX),
};
const struct vg_record_type vg_cluster_leader_record = VG_ROW_TYPE(leader_fields);
#undef THIS

#define THIS vg_proposal_move
static const struct vg_field proposal_move_fields[] = {
    VG_ROW_STRING(vm, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(uuid, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(from, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(to, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(lost_cpu_ns_per_s, 0, -TIME_MAX, TIME_MAX),
};
static const struct vg_record_type proposal_move_record = VG_ROW_TYPE(proposal_move_fields);
#undef THIS

#define THIS vg_proposal
static const struct vg_field proposal_fields[] = {
    VG_ROW_STRING(plan, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(host, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(made_ns, 0, 0, TIME_MAX),
    VG_ROW_ENUM("verdict", verdict, VG_FIELD_REQUIRED, vg_plan_verdict_names),
    VG_ROW_INT(moves_all, 0, 0, COUNT_MAX),
    VG_ROW_LIST(moves, 0, VG_PROPOSAL_MOVES, &proposal_move_record),
};
const struct vg_record_type vg_proposal_record = VG_ROW_TYPE(proposal_fields);
#undef THIS

struct vg_proposal *
vg_proposal_of(const vg_plan *plan, const char *host, int64_t made_ns)
{
    struct vg_proposal *proposal = vg_record_new(&vg_proposal_record);

    proposal->plan = g_strdup(plan->id);
    proposal->host = g_strdup(host);
    proposal->made_ns = made_ns;
    proposal->verdict = plan->verdict;
    proposal->moves_all = plan->actions->len;
    for (guint i = 0; i < MIN(plan->actions->len, VG_PROPOSAL_MOVES); i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        struct vg_proposal_move *move = vg_record_new(&proposal_move_record);
        move->vm = g_strdup(action->vm);
        move->uuid = g_strdup(action->uuid);
        move->from = g_strdup(action->from);
        move->to = g_strdup(action->to);
        move->lost_cpu_ns_per_s = action->gain.lost_cpu_ns_per_s;
        g_ptr_array_add(proposal->moves, move);
    }
    return proposal;
}

void
vg_proposal_free(void *proposal)
{
    if (proposal)
        vg_record_free(&vg_proposal_record, proposal);
}

void
vg_cluster_leader_free(void *leader)
{
    if (leader)
        vg_record_free(&vg_cluster_leader_record, leader);
}
