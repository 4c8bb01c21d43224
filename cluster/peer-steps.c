/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/peer-steps.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/peers-private.h"
#include "model/event.h"

/* Limits of a peer's figures, so that no sum overflows. */
#define PEER_STEPS_VMS_MAX   10000.0
#define PEER_STEPS_WAITS_MAX 1e6
#define PEER_STEPS_NS_MAX    (INT64_C(1) << 52)

static json_object *
peer_steps_member(json_object *item, const char *name)
{
    json_object *value = NULL;

    if (json_object_is_type(item, json_type_object))
        json_object_object_get_ex(item, name, &value);
    return value;
}

static int64_t
peer_steps_number(json_object *item, const char *name)
{
    return CLAMP(json_object_get_int64(peer_steps_member(item, name)), 0, PEER_STEPS_NS_MAX);
}

/* Returns whether the item lists a figure as unknown, or as a lower bound. */
static bool
peer_steps_lacks(json_object *item, const char *list, const char *const *figures)
{
    json_object *names = peer_steps_member(item, list);

    if (!json_object_is_type(names, json_type_array))
        return false;
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        if (name && g_strv_contains(figures, name))
            return true;
    }
    return false;
}

static struct vg_peer_step
peer_steps_read(json_object *item)
{
    static const char *const needed[] = {"run_ns", "preempt_ns", "wake_wait_ns", NULL};
    struct vg_peer_step step = {
        .begin_ns = json_object_get_int64(peer_steps_member(item, "begin_ns")),
        .end_ns = json_object_get_int64(peer_steps_member(item, "end_ns")),
        .measured_ns = peer_steps_number(item, "measured_ns"),
        .known = true,
        .vms = CLAMP(json_object_get_double(peer_steps_member(item, "vms")), 0, PEER_STEPS_VMS_MAX),
        .run_ns = peer_steps_number(item, "run_ns"),
        .lost_ns = peer_steps_number(item, "preempt_ns") + peer_steps_number(item, "wake_wait_ns"),
    };

    json_object *share = peer_steps_member(item, "gpu_wait_share");
    step.gpu_wait_share =
        json_object_is_type(share, json_type_double) || json_object_is_type(share, json_type_int)
            ? CLAMP(json_object_get_double(share), 0, PEER_STEPS_WAITS_MAX)
            : -1;
    for (size_t i = 0; needed[i]; i++)
        step.known =
            step.known && json_object_is_type(peer_steps_member(item, needed[i]), json_type_int);
    step.known = step.known && !peer_steps_lacks(item, "unknown", needed) &&
                 !peer_steps_lacks(item, "bounds", needed);
    return step;
}

GArray *
vg_peer_steps(vg_peers *peers, const char *peer, const struct vg_peer_period *period,
              int64_t limit_ns, GError **err)
{
    g_autofree char *path =
        g_strdup_printf("/v1/host/history?since=%" PRId64 "&until=%" PRId64 "&step=%" PRId64 "s",
                        period->since_s, period->until_s, period->step_s);
    const struct peers_question question = {"GET", path, NULL, limit_ns, NULL, NULL, NULL, NULL};
    g_autoptr(json_object) document = NULL;

    if (peers_request(peers, peer, &question, &document, err) < 0)
        return NULL;
    json_object *items = peer_steps_member(document, "items");
    if (!json_object_is_type(items, json_type_array)) {
        vg_error(err, VG_E_EXTERNAL, "peer '%s': its answer has no list of steps", peer);
        return NULL;
    }
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct vg_peer_step));
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        const struct vg_peer_step step = peer_steps_read(json_object_array_get_idx(items, i));
        g_array_append_val(steps, step);
    }
    return steps;
}
