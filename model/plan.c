/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/plan.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "model/gpu-target.h"
#include "model/snapshot.h"

#define REQ VG_FIELD_REQUIRED

#define PLAN_TEXT_MAX  (64 * 1024 * 1024)
#define PLAN_DEPTH_MAX 16
#define PLAN_ITEMS_MAX 100000
#define SENTENCE_MAX   4096

#define INT_LIMIT ((double)VG_JSON_INT_MAX)

#define STRING(member, flags) VG_ROW_STRING(member, flags, 0, SENTENCE_MAX)
#define INT(member)           VG_ROW_INT(member, REQ, -INT_LIMIT, INT_LIMIT)
#define DOUBLE(member)        VG_ROW_DOUBLE(member, REQ, -1e15, 1e15)
#define BOOL(member)          VG_ROW_BOOL(member, REQ)
#define ENUM(member, names)   VG_ROW_ENUM(#member, member, REQ, names)
#define PART(member, record)  VG_ROW_PART(member, REQ, record)
#define LIST(member, record)  VG_ROW_LIST(member, REQ, PLAN_ITEMS_MAX, record)
#define STRINGS(member)       VG_ROW_STRINGS(member, REQ, SENTENCE_MAX, PLAN_ITEMS_MAX)

const char *const vg_plan_verdict_names[] = {
    [VG_PLAN_NOTHING_TO_DO] = "nothing-to-do",
    [VG_PLAN_CHANGES] = "changes",
    [VG_PLAN_INFEASIBLE] = "infeasible",
    [VG_PLAN_VERDICT_MAX] = NULL,
};

const char *const vg_action_kind_names[] = {
    [VG_ACTION_MIGRATE] = "migrate",
    [VG_ACTION_KIND_MAX] = NULL,
};

const char *const vg_candidate_verdict_names[] = {
    [VG_CANDIDATE_CURRENT] = "current", [VG_CANDIDATE_FORBIDDEN] = "forbidden",
    [VG_CANDIDATE_NO_GAIN] = "no-gain", [VG_CANDIDATE_USEFUL] = "useful",
    [VG_CANDIDATE_BEST] = "best",       [VG_CANDIDATE_VERDICT_MAX] = NULL,
};

#define THIS vg_plan_input
static const struct vg_field input_fields[] = {STRING(name, REQ), DOUBLE(value)};
const struct vg_record_type vg_plan_input_record = VG_ROW_TYPE(input_fields);
#undef THIS

#define THIS vg_plan_reason
static const struct vg_field reason_fields[] = {
    STRING(rule, REQ),
    STRING(text, REQ),
    LIST(inputs, &vg_plan_input_record),
};
static const struct vg_record_type reason_record = VG_ROW_TYPE(reason_fields);
#undef THIS

#define THIS vg_plan_gain
static const struct vg_field gain_fields[] = {INT(lost_cpu_ns_per_s), INT(gpu_wait_ns_per_s)};
static const struct vg_record_type gain_record = VG_ROW_TYPE(gain_fields);
#undef THIS

#define THIS vg_plan_cost
static const struct vg_field cost_fields[] = {
    DOUBLE(migration_s), DOUBLE(stun_s), INT(lost_cpu_ns), INT(memory_bytes), BOOL(memory_assumed),
};
static const struct vg_record_type cost_record = VG_ROW_TYPE(cost_fields);
#undef THIS

#define THIS vg_plan_runner_up
static const struct vg_field runner_up_fields[] = {
    STRING(what, 0),
    STRING(why, 0),
    PART(gain, &gain_record),
};
static const struct vg_record_type runner_up_record = VG_ROW_TYPE(runner_up_fields);
#undef THIS

#define THIS vg_plan_facts
static const struct vg_field facts_fields[] = {
    STRING(vm, REQ),
    STRING(from, REQ),
    STRING(to, REQ),
};
static const struct vg_record_type facts_record = VG_ROW_TYPE(facts_fields);
#undef THIS

#define THIS vg_plan_action
static const struct vg_field action_fields[] = {
    ENUM(kind, vg_action_kind_names),
    STRING(vm, REQ),
    STRING(uuid, 0),
    STRING(display_name, VG_FIELD_OMIT),
    STRING(from, REQ),
    STRING(to, REQ),
    STRING(role, REQ),
    PART(reason, &reason_record),
    PART(gain, &gain_record),
    PART(cost, &cost_record),
    PART(runner_up, &runner_up_record),
    PART(facts, &facts_record),
    VG_ROW_INT(wave, VG_FIELD_OMIT, 0, INT_LIMIT),
    VG_ROW_INT(group, VG_FIELD_OMIT, 0, INT_LIMIT),
    VG_ROW_BOOL(undo_partial, VG_FIELD_OMIT),
    VG_ROW_LIST(gpus, VG_FIELD_OMIT, VG_SNAPSHOT_GPU_USES_MAX, &vg_gpu_target_record),
};
const struct vg_record_type vg_plan_action_record = VG_ROW_TYPE(action_fields);
#undef THIS

#define THIS vg_plan_proxy_action
static const struct vg_field proxy_action_fields[] = {
    STRING(kind, REQ),
    STRING(vm, REQ),
    STRING(uuid, 0),
    STRING(host, REQ),
    STRING(from, REQ),
    STRING(from_host, REQ),
    STRING(from_gpu, REQ),
    STRING(to, VG_FIELD_OMIT),
    STRING(to_host, VG_FIELD_OMIT),
    STRING(to_gpu, VG_FIELD_OMIT),
    STRING(price, REQ),
    INT(weight_before),
    INT(weight),
    PART(reason, &reason_record),
    PART(gain, &gain_record),
    PART(cost, &cost_record),
};
const struct vg_record_type vg_plan_proxy_action_record = VG_ROW_TYPE(proxy_action_fields);
#undef THIS

#define THIS vg_plan_skip
static const struct vg_field skip_fields[] = {
    STRING(vm, REQ),
    STRING(host, REQ),
    STRING(reason, REQ),
};
const struct vg_record_type vg_plan_skip_record = VG_ROW_TYPE(skip_fields);
#undef THIS

#define THIS vg_plan
static const struct vg_field plan_fields[] = {
    STRING(id, REQ),
    STRING(input_hash, REQ),
    STRING(config_hash, REQ),
    STRING(rule, REQ),
    STRING(free_up, VG_FIELD_OMIT),
    ENUM(verdict, vg_plan_verdict_names),
    LIST(actions, &vg_plan_action_record),
    VG_ROW_LIST(proxies, VG_FIELD_OMIT, PLAN_ITEMS_MAX, &vg_plan_proxy_action_record),
    LIST(skipped, &vg_plan_skip_record),
    STRINGS(why),
    STRINGS(notes),
};
const struct vg_record_type vg_plan_record = VG_ROW_TYPE(plan_fields);
#undef THIS

#define THIS vg_plan_candidate
static const struct vg_field candidate_fields[] = {
    STRING(host, REQ),        ENUM(verdict, vg_candidate_verdict_names),
    STRING(constraint, 0),    STRING(reason, REQ),
    PART(gain, &gain_record), PART(cost, &cost_record),
};
const struct vg_record_type vg_plan_candidate_record = VG_ROW_TYPE(candidate_fields);
#undef THIS

#define THIS vg_explanation
static const struct vg_field explanation_fields[] = {
    STRING(vm, REQ),
    STRING(display_name, VG_FIELD_OMIT),
    STRING(uuid, 0),
    STRING(host, REQ),
    BOOL(movable),
    STRING(reason, REQ),
    LIST(candidates, &vg_plan_candidate_record),
};
const struct vg_record_type vg_explanation_record = VG_ROW_TYPE(explanation_fields);
#undef THIS

vg_plan *
vg_plan_new(void)
{
    return vg_record_new(&vg_plan_record);
}

void
vg_plan_free(vg_plan *plan)
{
    vg_record_free(&vg_plan_record, plan);
}

vg_explanation *
vg_explanation_new(void)
{
    return vg_record_new(&vg_explanation_record);
}

void
vg_explanation_free(vg_explanation *explanation)
{
    vg_record_free(&vg_explanation_record, explanation);
}

json_object *
vg_plan_to_json(const vg_plan *plan)
{
    json_object *document = json_object_new_object();
    vg_json_add_string(document, "schema", VG_PLAN_SCHEMA);
    vg_json_add_int64(document, "version", VG_PLAN_VERSION);
    g_autoptr(json_object) content = vg_record_write(&vg_plan_record, plan);
    json_object_object_foreach(content, name, value)
    {
        vg_json_add(document, name, json_object_get(value));
    }
    return document;
}

json_object *
vg_explanation_to_json(const vg_explanation *explanation)
{
    return vg_record_write(&vg_explanation_record, explanation);
}

vg_plan *
vg_plan_from_json(const char *text, size_t size, GError **err)
{
    g_autoptr(json_object) document = vg_json_parse(text, size, PLAN_TEXT_MAX, PLAN_DEPTH_MAX, err);
    if (!document)
        return NULL;
    struct vg_json_node root = vg_json_root(document);
    struct vg_json_node node;
    const char *schema = NULL;
    int64_t version = 0;
    if (vg_json_member(&root, "schema", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_string(&node, SENTENCE_MAX, &schema, err) < 0)
        return NULL;
    if (strcmp(schema, VG_PLAN_SCHEMA) != 0) {
        vg_error(err, VG_E_INVALID, "schema: '%s' is not '%s'", schema, VG_PLAN_SCHEMA);
        return NULL;
    }
    if (vg_json_member(&root, "version", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_int64(&node, 1, VG_PLAN_VERSION, &version, err) < 0)
        return NULL;
    return vg_record_read(&vg_plan_record, &root, err);
}

void
vg_plan_add_why(vg_plan *plan, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *sentence = g_strdup_vprintf(fmt, args);
    va_end(args);

    if (plan->n_whys_dropped == 0 && plan->why->len < VG_PLAN_WHY_MAX) {
        g_ptr_array_add(plan->why, sentence);
        return;
    }
    g_free(sentence);
    vg_plan_drop_whys(plan, 1);
}

void
vg_plan_drop_whys(vg_plan *plan, uint64_t n)
{
    if (n == 0)
        return;
    if (plan->n_whys_dropped > 0)
        g_ptr_array_set_size(plan->why, (int)plan->why->len - 1);
    plan->n_whys_dropped += n;
    g_ptr_array_add(plan->why,
                    g_strdup_printf("%" G_GUINT64_FORMAT " more reasons", plan->n_whys_dropped));
}

void
vg_plan_add_note(vg_plan *plan, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    g_autofree char *note = g_strdup_vprintf(fmt, args);
    va_end(args);
    /* Several moves may have the same target. */
    if (!g_ptr_array_find_with_equal_func(plan->notes, note, g_str_equal, NULL))
        g_ptr_array_add(plan->notes, g_steal_pointer(&note));
}

void
vg_plan_reason_add_input(struct vg_plan_reason *reason, const char *name, double value)
{
    struct vg_plan_input *input = vg_record_new(&vg_plan_input_record);
    input->name = g_strdup(name);
    input->value = value;
    g_ptr_array_add(reason->inputs, input);
}

void
vg_plan_set_id(vg_plan *plan)
{
    /* In most plans, the last column is NULL. */
    g_autofree char *text =
        g_strjoin("|", plan->input_hash, plan->config_hash, plan->rule, plan->free_up, NULL);
    g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    g_free(plan->id);
    plan->id = g_strdup_printf("plan-%.16s", hash);
}
