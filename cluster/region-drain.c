/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the hosts that are being emptied. Each has a key without a lease, so that the key persists
 * while that host's vgpud is stopped. The existence of the key counts. Its value is for users. Each
 * host's own journal decides whether the key must exist, and the host's vgpud corrects it.
 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "cluster/region-private.h"

void
vg_region_set_drain(vg_region *region, const char *asked_by, int64_t since_ns)
{
    VG_LOCK_SCOPE(&region->lock);
    g_free(region->drain_by);
    region->drain_by = g_strdup(asked_by);
    region->drain_since_ns = since_ns;
    region->drain_known = true;
    region->drain_told = false;
    pthread_cond_broadcast(&region->woken);
}

GHashTable *
vg_region_drained(vg_region *region)
{
    GHashTable *names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter at;
    void *name;

    VG_LOCK_SCOPE(&region->lock);
    g_hash_table_iter_init(&at, region->drained);
    while (g_hash_table_iter_next(&at, &name, NULL))
        g_hash_table_add(names, g_strdup(name));
    return names;
}

bool
region_take_drain(vg_region *region, const char *key, bool there)
{
    const char *name = region_name_in(region, key, "drain/");

    if (name && there && g_hash_table_size(region->drained) < VG_REGION_HOSTS_MAX)
        g_hash_table_add(region->drained, g_strdup(name));
    else if (name && !there)
        g_hash_table_remove(region->drained, name);
    return name != NULL;
}

static char *
region_drain_text(const char *asked_by, int64_t since_ns)
{
    g_autoptr(json_object) object = json_object_new_object();

    vg_json_add_string(object, "asked_by", asked_by);
    vg_json_add_int64(object, "since_ns", since_ns);
    return vg_json_to_text(object, false);
}

int
region_tell_drain(vg_region *region, GError **err)
{
    g_auto(vg_etcd_answer) answer = {0};

    pthread_mutex_lock(&region->lock);
    const bool due = region->announced && region->drain_known && !region->drain_told;
    g_autofree char *asked_by = g_strdup(region->drain_by);
    const int64_t since_ns = region->drain_since_ns;
    pthread_mutex_unlock(&region->lock);
    if (!due)
        return 0;
    g_autofree char *key = g_strconcat(region->prefix, "drain/", region->own->name, NULL);
    g_autofree char *text = asked_by ? region_drain_text(asked_by, since_ns) : NULL;
    const struct vg_etcd_write write = {key, text, 0};
    const struct vg_etcd_txn txn = {NULL, 0, &write, 1, NULL};
    if (vg_etcd_txn(region->etcd, &txn, REGION_CALL_NS, &answer, err) < 0)
        return -1;
    VG_LOCK_SCOPE(&region->lock);
    region->puts += asked_by != NULL;
    /* It may have been set again in the meantime. */
    if (g_strcmp0(asked_by, region->drain_by) == 0 && since_ns == region->drain_since_ns) {
        region->drain_told = true;
        region->drain_revision = answer.revision;
    }
    return 0;
}

void
region_check_drain(vg_region *region)
{
    if (region->revision >= region->drain_revision &&
        g_hash_table_contains(region->drained, region->own->name) != (region->drain_by != NULL))
        region->drain_told = false;
}
