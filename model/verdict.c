/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/verdict.h"

#define NS_MAX ((double)VG_JSON_INT_MAX)

#define COUNT(member)  VG_ROW_INT(member, 0, 0, NS_MAX)
#define CHANGE(member) VG_ROW_INT(member, 0, -NS_MAX, NS_MAX)
#define NAMES(member)  VG_ROW_STRINGS(member, 0, VG_VERDICT_TEXT_MAX, VG_VERDICT_HOSTS_MAX)

const char *const vg_verdict_names[] = {
    [VG_VERDICT_NONE] = "none",
    [VG_VERDICT_HELPED] = "helped",
    [VG_VERDICT_NO_EFFECT] = "no-effect",
    [VG_VERDICT_WORSE] = "worse",
    [VG_VERDICT_CANNOT_TELL] = "cannot-tell",
    [VG_VERDICT_MAX] = NULL,
};

#define THIS vg_move_verdict
static const struct vg_field verdict_fields[] = {
    VG_ROW_ENUM("result", result, 0, vg_verdict_names),
    VG_ROW_STRING(why, 0, 0, VG_VERDICT_TEXT_MAX),
    COUNT(judged_ns),
    COUNT(seconds),
    NAMES(hosts),
    NAMES(others),
    VG_ROW_BOOL(measured, 0),
    COUNT(before_ns_per_s),
    COUNT(after_ns_per_s),
    VG_ROW_BOOL(gpu_measured, 0),
    COUNT(gpu_before_ns_per_s),
    COUNT(gpu_after_ns_per_s),
    CHANGE(others_ns_per_s),
    CHANGE(gain_ns_per_s),
    CHANGE(low_ns_per_s),
    CHANGE(high_ns_per_s),
    VG_ROW_BOOL(predicted, 0),
    CHANGE(predicted_ns_per_s),
};
const struct vg_record_type vg_move_verdict_record = VG_ROW_TYPE(verdict_fields);
#undef THIS

const char *
vg_verdict_text(enum vg_verdict_result result)
{
    static const char *const words[] = {
        [VG_VERDICT_NONE] = "not judged",         [VG_VERDICT_HELPED] = "helped",
        [VG_VERDICT_NO_EFFECT] = "no effect",     [VG_VERDICT_WORSE] = "worse",
        [VG_VERDICT_CANNOT_TELL] = "cannot tell",
    };

    return words[result];
}

/* Sets members to null. */
static void
verdict_hide(json_object *object, const char *const *names)
{
    for (; *names; names++)
        vg_json_add(object, *names, NULL);
}

json_object *
vg_move_verdict_to_json(const struct vg_move_verdict *verdict)
{
    static const char *const cpu[] = {"before_ns_per_s", "after_ns_per_s", "gain_ns_per_s",
                                      "low_ns_per_s",    "high_ns_per_s",  NULL};
    static const char *const gpu[] = {"gpu_before_ns_per_s", "gpu_after_ns_per_s", NULL};
    static const char *const others[] = {"others_ns_per_s", NULL};
    static const char *const predicted[] = {"predicted_ns_per_s", NULL};

    if (verdict->result == VG_VERDICT_NONE)
        return NULL;
    json_object *object = vg_record_write(&vg_move_verdict_record, verdict);
    if (!verdict->measured)
        verdict_hide(object, cpu);
    if (!verdict->measured || !verdict->gpu_measured)
        verdict_hide(object, gpu);
    if (!verdict->measured || verdict->others->len == 0)
        verdict_hide(object, others);
    if (!verdict->predicted)
        verdict_hide(object, predicted);
    return object;
}

void
vg_move_verdict_free(void *verdict)
{
    if (verdict)
        vg_record_free(&vg_move_verdict_record, verdict);
}
