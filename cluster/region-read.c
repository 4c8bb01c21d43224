/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the cluster's hosts from etcd: changes since the last time, and removed keys.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/region-private.h"

#define VG_LOG_TAG "etcd"

/* The time for which an unresponsive host is listed. */
#define SILENT_KEPT_NS (3600 * VG_NS_PER_S)

#define CARD_DEPTH 8

void
region_host_free(void *data)
{
    struct region_host *host = data;

    vg_host_info_free(host->info);
    g_free(host);
}

/* ---- reading a pair ---- */

/* Returns the host with this name. Creates it if necessary. Called under the lock. */
static struct region_host *
region_host_of(vg_region *region, const char *name)
{
    struct region_host *host = g_hash_table_lookup(region->hosts, name);

    if (host)
        return host;
    if (g_hash_table_size(region->hosts) >= VG_REGION_HOSTS_MAX) {
        vg_log_warn_limited("a host is left out because the cluster has too many hosts host=\"%s\"",
                            name);
        return NULL;
    }
    host = g_new0(struct region_host, 1);
    host->info = vg_host_info_new();
    host->info->card.name = g_strdup(name);
    g_hash_table_insert(region->hosts, g_strdup(name), host);
    return host;
}

static void *
region_parse(const struct vg_record_type *type, const struct vg_etcd_pair *pair)
{
    g_autoptr(GError) bad = NULL;
    g_autoptr(json_object) document =
        vg_json_parse(pair->value, strlen(pair->value), VG_ETCD_VALUE_MAX, CARD_DEPTH, &bad);
    const struct vg_json_node root = vg_json_root(document);
    void *record = document ? vg_record_read(type, &root, &bad) : NULL;

    if (!record)
        vg_log_warn_limited("an entry in etcd cannot be used key=\"%s\" reason=\"%s\"", pair->key,
                            bad->message);
    return record;
}

/* Stores a host's card. Called under the lock. */
static void
region_take_card(vg_region *region, const char *name, const struct vg_etcd_pair *pair)
{
    struct vg_host_card *card = region_parse(&vg_host_card_record, pair);
    struct region_host *host = card ? region_host_of(region, name) : NULL;

    if (host && strcmp(card->name, name) == 0 && card->url) {
        if (!host->alive)
            vg_log_notice("a host is in the cluster host=\"%s\" url=\"%s\" version=%s", name,
                          card->url, card->version ? card->version : "");
        host->alive = true;
        const struct vg_host_card old = host->info->card;
        host->info->card = *card;
        *card = old;
    }
    if (card)
        vg_record_free(&vg_host_card_record, card);
}

/* Stores a host's summary. Called under the lock. */
static void
region_take_summary(vg_region *region, const char *name, const struct vg_etcd_pair *pair)
{
    struct vg_host_summary *summary = region_parse(&vg_host_summary_record, pair);
    struct region_host *host = summary ? region_host_of(region, name) : NULL;

    if (host) {
        const struct vg_host_summary old = host->info->summary;
        host->info->summary = *summary;
        host->info->summary_ns = vg_clock_realtime_ns();
        *summary = old;
    }
    vg_host_summary_free(summary);
}

/* Stores the leader or its proposal. pair is NULL if the key was removed. Called under the lock. */
static bool
region_take_leading(vg_region *region, const char *key, const struct vg_etcd_pair *pair)
{
    const char *name = key + strlen(region->prefix);

    if (strcmp(name, "leader") == 0) {
        vg_cluster_leader_free(region->leader);
        region->leader = pair ? region_parse(&vg_cluster_leader_record, pair) : NULL;
    } else if (strcmp(name, "plan") == 0) {
        vg_proposal_free(region->proposal);
        region->proposal = pair ? region_parse(&vg_proposal_record, pair) : NULL;
    } else {
        return false;
    }
    return true;
}

/* Processes a pair. Called under the lock. */
static void
region_take_pair(vg_region *region, const struct vg_etcd_pair *pair)
{
    const char *name;

    if ((name = region_name_in(region, pair->key, "hosts/")))
        region_take_card(region, name, pair);
    else if ((name = region_name_in(region, pair->key, "summary/")))
        region_take_summary(region, name, pair);
    else if (!region_take_drain(region, pair->key, true))
        region_take_leading(region, pair->key, pair);
}

/* Processes the removal of a key. Called under the lock. */
static void
region_drop_key(vg_region *region, const char *key)
{
    const char *name = region_name_in(region, key, "hosts/");
    struct region_host *host = name ? g_hash_table_lookup(region->hosts, name) : NULL;

    if (region_take_leading(region, key, NULL) || region_take_drain(region, key, false) || !host ||
        !host->alive)
        return;
    vg_log_warn("a host has left the cluster, or its lease has ended host=\"%s\"", name);
    host->alive = false;
    host->silent_ns = vg_clock_monotonic_ns();
    host->silent_at_ns = vg_clock_realtime_ns();
}

/* ---- reading ---- */

/* Records the revision of a key. */
static void
region_note_key(vg_region *region, const struct vg_etcd_pair *pair)
{
    int64_t *revision = g_new(int64_t, 1);

    *revision = pair->mod_revision;
    g_hash_table_replace(region->known, g_strdup(pair->key), revision);
}

/* Forgets everything because another etcd cluster answers, or this one was restored from a
 * backup. */
static void
region_forget(vg_region *region, uint64_t cluster_id)
{
    GHashTableIter at;
    void *key;

    g_hash_table_iter_init(&at, region->known);
    VG_LOCK_SCOPE(&region->lock);
    while (g_hash_table_iter_next(&at, &key, NULL))
        region_drop_key(region, key);
    g_hash_table_remove_all(region->known);
    region->revision = 0;
    region->drain_told = false;
    region->cluster_id = cluster_id;
}

static int
region_query(vg_region *region, bool keys_only, struct vg_etcd_answer *ret, GError **err)
{
    const struct vg_etcd_range range = {
        .key = region->prefix,
        .is_prefix = true,
        .keys_only = keys_only,
        .serializable = !region->linearizable,
        .changed_revision = keys_only ? 0 : region->revision + 1,
    };

    return vg_etcd_range(region->etcd, &range, REGION_CALL_NS, ret, err);
}

/* Drops the keys that are missing from a complete list. */
static void
region_drop_lost(vg_region *region, const struct vg_etcd_answer *all)
{
    g_autoptr(GHashTable) there = g_hash_table_new(g_str_hash, g_str_equal);
    GHashTableIter at;
    void *key;

    for (guint i = 0; i < all->pairs->len; i++)
        g_hash_table_add(there, ((const struct vg_etcd_pair *)all->pairs->pdata[i])->key);
    g_hash_table_iter_init(&at, region->known);
    VG_LOCK_SCOPE(&region->lock);
    while (g_hash_table_iter_next(&at, &key, NULL)) {
        if (g_hash_table_contains(there, key))
            continue;
        region_drop_key(region, key);
        g_hash_table_iter_remove(&at);
    }
}

static void
region_take_answer(vg_region *region, const struct vg_etcd_answer *answer)
{
    for (guint i = 0; i < answer->pairs->len; i++)
        region_note_key(region, answer->pairs->pdata[i]);
    VG_LOCK_SCOPE(&region->lock);
    for (guint i = 0; i < answer->pairs->len; i++)
        region_take_pair(region, answer->pairs->pdata[i]);
    region->revision = answer->revision;
    region->answered_ns = vg_clock_realtime_ns();
}

/* Forgets hosts that have been unresponsive for a long time. Called under the lock. */
static void
region_forget_unresponsive(vg_region *region)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    GHashTableIter at;
    void *value;

    g_hash_table_iter_init(&at, region->hosts);
    while (g_hash_table_iter_next(&at, NULL, &value)) {
        const struct region_host *host = value;
        if (!host->alive && now_ns - host->silent_ns > SILENT_KEPT_NS)
            g_hash_table_iter_remove(&at);
    }
}

int
region_read(vg_region *region, GError **err)
{
    g_auto(vg_etcd_answer) changed = {0};
    g_auto(vg_etcd_answer) all = {0};

    if (region_query(region, false, &changed, err) < 0)
        return -1;
    if (changed.cluster != region->cluster_id) {
        const bool is_first = region->cluster_id == 0;
        region_forget(region, changed.cluster);
        if (!is_first)
            return vg_error(err, VG_E_EXTERNAL,
                            "the etcd cluster that answers is not the same one as before");
    } else if (changed.revision < region->revision) {
        /* A lagging member answers from its own data, but a linearizable read involves the other
         * members. If such a read also returns an older revision, etcd was restored from a backup,
         * and everything is read again. */
        if (region->linearizable)
            region_forget(region, changed.cluster);
        region->linearizable = true;
        return vg_error(err, VG_E_EXTERNAL, "a member of etcd lags behind the others");
    }
    region_take_answer(region, &changed);
    if ((int64_t)g_hash_table_size(region->known) != changed.count) {
        if (region_query(region, true, &all, err) < 0)
            return -1;
        region_drop_lost(region, &all);
    }
    region->linearizable = false;
    VG_LOCK_SCOPE(&region->lock);
    region_forget_unresponsive(region);
    return 0;
}

/* ---- the list ---- */

static int
region_compare_names(const void *a, const void *b)
{
    const struct vg_host_info *x = *(struct vg_host_info *const *)a;
    const struct vg_host_info *y = *(struct vg_host_info *const *)b;

    return strcmp(x->card.name, y->card.name);
}

GPtrArray *
region_list_hosts(vg_region *region)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_host_info_free);
    const bool is_old = vg_clock_realtime_ns() - region->answered_ns > region->lease_ns;
    GHashTableIter at;
    void *value;

    g_hash_table_iter_init(&at, region->hosts);
    while (g_hash_table_iter_next(&at, NULL, &value)) {
        const struct region_host *host = value;
        if (!host->info->card.url || strcmp(host->info->card.name, region->own->name) == 0)
            continue;
        struct vg_host_info *info = vg_record_copy(&vg_host_info_record, host->info);
        info->state = !host->alive ? VG_HOST_SILENT : is_old ? VG_HOST_STALE : VG_HOST_ALIVE;
        info->seen_ns = host->alive ? region->answered_ns : host->silent_at_ns;
        if (info->state != VG_HOST_ALIVE)
            info->reason = g_strdup(host->alive ? "etcd could not be read for longer than its lease"
                                                : "its lease in etcd has ended");
        g_ptr_array_add(list, info);
    }
    g_ptr_array_sort(list, region_compare_names);
    return list;
}
