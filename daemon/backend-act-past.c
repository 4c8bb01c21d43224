/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/backend-act-past.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/peer-moves.h"
#include "policy/acts.h"

#define VG_LOG_TAG "act"

struct act_past {
    int64_t revision;  /* of the leader's key when etcd was read, or 0 */
    GHashTable *lists; /* host -> vg_act_past */
    GPtrArray *unread; /* hosts whose list in etcd cannot be read, and must not be overwritten */
};

struct act_past *
act_past_new(void)
{
    struct act_past *past = g_new0(struct act_past, 1);

    past->lists = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, vg_act_past_free);
    past->unread = g_ptr_array_new_with_free_func(g_free);
    return past;
}

void
act_past_free(struct act_past *past)
{
    if (!past)
        return;
    g_hash_table_unref(past->lists);
    g_ptr_array_unref(past->unread);
    g_free(past);
}

void
act_moves_clear(struct act_moves *moves)
{
    g_clear_pointer(&moves->moves, g_ptr_array_unref);
    g_clear_pointer(&moves->unknown, g_free);
    g_clear_pointer(&moves->hosts, g_ptr_array_unref);
    g_clear_pointer(&moves->past, g_ptr_array_unref);
}

/* ---- etcd ---- */

/* Reads etcd after this host has become the leader: another leader may have written to it. Reads it
 * again while a list cannot be read: an operator may have deleted its key. */
static int
act_past_load(struct act_past *past, vg_acts *acts, int64_t revision, GError **err)
{
    g_autoptr(GPtrArray) unread = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) lists = NULL;

    if (past->revision == revision && past->unread->len == 0)
        return 0;
    lists = vg_acts_read_past(acts, unread, err);
    if (!lists)
        return -1;
    g_ptr_array_unref(past->unread);
    past->unread = g_steal_pointer(&unread);
    g_hash_table_remove_all(past->lists);
    g_ptr_array_set_free_func(lists, NULL);
    for (guint i = 0; i < lists->len; i++) {
        vg_act_past *list = lists->pdata[i];
        g_hash_table_replace(past->lists, list->host, list);
    }
    past->revision = revision;
    return 0;
}

static char *
act_past_text(const vg_act_past *list)
{
    g_autoptr(json_object) object = vg_record_write(&vg_act_past_record, list);

    return vg_json_to_text(object, false);
}

static bool
act_past_is_unread(const struct act_past *past, const char *host)
{
    return g_ptr_array_find_with_equal_func(past->unread, host, g_str_equal, NULL);
}

/* Replaces a list, first in etcd. A list without moves is removed. */
static int
act_past_put(struct act_past *past, vg_acts *acts, vg_act_past *take_list, GError **err)
{
    g_autoptr(vg_act_past) list = take_list;
    const vg_act_past *before = g_hash_table_lookup(past->lists, list->host);
    g_autofree char *was = before ? act_past_text(before) : NULL;
    g_autofree char *is = list->moves->len > 0 ? act_past_text(list) : NULL;

    if (g_strcmp0(was, is) == 0 || act_past_is_unread(past, list->host))
        return 0;
    if (vg_acts_write_past(acts, past->revision, list, err) < 0)
        return -1;
    if (list->moves->len == 0) {
        g_hash_table_remove(past->lists, list->host);
        return 0;
    }
    g_hash_table_replace(past->lists, list->host, list);
    list = NULL;
    return 0;
}

/* Updates the list of each host that answered, and removes those of hosts that no longer exist. */
static int
act_past_update(struct act_past *past, vg_acts *acts, const GPtrArray *hosts, int64_t since_ns,
                GError **err)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) none = g_ptr_array_new();
    g_autofree void **names = NULL;
    guint n = 0;

    for (guint i = 0; i < hosts->len; i++) {
        const struct vg_host_moves *host = hosts->pdata[i];
        const vg_act_past *before = g_hash_table_lookup(past->lists, host->host);
        g_hash_table_add(seen, host->host);
        if (!host->reason &&
            act_past_put(past, acts, vg_act_past_update(before, host, since_ns), err) < 0)
            return -1;
    }
    names = g_hash_table_get_keys_as_array(past->lists, &n);
    for (guint i = 0; i < n; i++) {
        const struct vg_host_moves gone = {.host = names[i], .moves = none};
        const vg_act_past *before = g_hash_table_lookup(past->lists, names[i]);
        if (!g_hash_table_contains(seen, names[i]) &&
            act_past_put(past, acts, vg_act_past_update(before, &gone, since_ns), err) < 0)
            return -1;
    }
    return 0;
}

/* ---- moves ---- */

/* Returns why some moves of a host may be unknown, or NULL. */
static char *
act_why_unknown(const struct vg_host_moves *host, int64_t since_ns)
{
    const struct vg_migration *oldest =
        host->moves->len > 0 ? host->moves->pdata[host->moves->len - 1] : NULL;

    if (host->reason)
        return g_strdup_printf("the moves of host '%s' are unknown: %s", host->host, host->reason);
    if (host->moves->len >= VG_JOURNAL_MIGRATIONS_MAX && oldest->made_ns > since_ns)
        return g_strdup_printf("host '%s' has made more moves in the last 7 days than one "
                               "request can list",
                               host->host);
    return NULL;
}

/* Adds the moves that are recorded only in etcd. */
static void
act_past_add(const struct act_past *past, struct act_moves *ret)
{
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    GHashTableIter iter;
    void *value;

    for (guint i = 0; i < ret->moves->len; i++)
        g_hash_table_add(known, ((const struct vg_migration *)ret->moves->pdata[i])->id);
    g_hash_table_iter_init(&iter, past->lists);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const vg_act_past *list = value;
        for (guint i = 0; i < list->moves->len; i++) {
            const struct vg_act_past_move *move = list->moves->pdata[i];
            if (g_hash_table_contains(known, move->id))
                continue;
            g_ptr_array_add(ret->past, vg_act_past_to_move(move));
            g_ptr_array_add(ret->moves, ret->past->pdata[ret->past->len - 1]);
        }
    }
}

int
act_past_read(struct act_past *past, vg_daemon_backend *backend, vg_acts *acts, int64_t revision,
              struct act_moves *ret, GError **err)
{
    g_autoptr(GError) error = NULL;
    const size_t left_out = vg_peers_left_out(backend->parts.peers);
    const int64_t since_ns = vg_clock_realtime_ns() - VG_ACT_PAST_NS;

    ret->moves = g_ptr_array_new();
    ret->past = g_ptr_array_new_with_free_func(vg_migration_free);
    ret->hosts = backend_list_all_migrations(backend, false, VG_JOURNAL_MIGRATIONS_MAX, &error);
    if (!ret->hosts) {
        ret->unknown = g_strdup_printf("the moves of this host are unknown: %s", error->message);
        return 0;
    }
    if (left_out > 0)
        ret->unknown = g_strdup_printf("the moves of %zu hosts are unknown: the cluster is too "
                                       "large",
                                       left_out);
    for (guint i = 0; i < ret->hosts->len; i++) {
        struct vg_host_moves *host = ret->hosts->pdata[i];
        if (!ret->unknown)
            ret->unknown = act_why_unknown(host, since_ns);
        if (vg_act_past_keep_own(host) > 0)
            vg_log_warn_limited("moves are ignored because the host that reports them is not their "
                                "source host=\"%s\"",
                                host->host);
        for (guint k = 0; k < host->moves->len; k++)
            g_ptr_array_add(ret->moves, host->moves->pdata[k]);
    }
    if (act_past_load(past, acts, revision, err) < 0 ||
        act_past_update(past, acts, ret->hosts, since_ns, err) < 0)
        return -1;
    if (past->unread->len > 0 && !ret->unknown)
        ret->unknown =
            g_strdup_printf("the earlier moves of host '%s' are unknown: its key below "
                            "'/vgpud/CLUSTER+past/' in etcd cannot be read and should be deleted",
                            (const char *)past->unread->pdata[0]);
    act_past_add(past, ret);
    return 0;
}
