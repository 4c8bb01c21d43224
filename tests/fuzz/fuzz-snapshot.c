/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a snapshot: no crash; what is accepted is written and read back with the same hash,
 * and both rules and explain make something of it, the same twice.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool condition)
{
    if (!condition)
        abort();
}

static void
check_round_trip(const vg_snapshot *snapshot)
{
    g_autoptr(json_object) document = vg_snapshot_to_json(snapshot);
    g_autofree char *text = vg_json_to_text(document, false);
    g_autoptr(vg_snapshot) again = vg_snapshot_from_json(text, strlen(text), NULL);
    require(again != NULL);
    g_autofree char *hash = vg_snapshot_hash(snapshot);
    g_autofree char *hash_again = vg_snapshot_hash(again);
    require(strcmp(hash, hash_again) == 0);
}

static char *
plan_text(const vg_snapshot *snapshot, const struct vg_policy_config *config, int rule)
{
    g_autoptr(vg_plan) plan = vg_policy_plan(snapshot, config, (enum vg_rule_id)rule, NULL);
    require(plan != NULL);
    g_autoptr(json_object) document = vg_plan_to_json(plan);
    return vg_json_to_text(document, false);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vg_policy_config config;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_from_json((const char *)data, size, NULL);
    if (!snapshot)
        return 0;
    check_round_trip(snapshot);
    vg_policy_config_init(&config);
    config.hold_ns = 0;
    for (int rule = 0; rule < VG_RULE_MAX; rule++) {
        g_autofree char *first = plan_text(snapshot, &config, rule);
        g_autofree char *second = plan_text(snapshot, &config, rule);
        require(strcmp(first, second) == 0);
    }
    for (guint h = 0; h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        if (host->vms->len == 0)
            continue;
        const struct vg_snap_vm *vm = host->vms->pdata[0];
        g_autofree char *name = g_strdup_printf("%s/%s", host->name, vm->name);
        g_autoptr(vg_explanation) explanation = vg_policy_explain(snapshot, &config, name, NULL);
        require(!explanation || explanation->candidates->len == snapshot->hosts->len);
    }
    return 0;
}
