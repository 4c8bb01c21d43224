/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that other files use to access etcd.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "cluster/etcd-private.h"

static int
etcd_take_range(const GString *text, void *data, GError **err)
{
    struct vg_etcd_answer *answer = data;

    vg_etcd_answer_clear(answer);
    *answer = (struct vg_etcd_answer){0};
    return vg_etcd_read_range(text->str, text->len, answer, err);
}

static int
etcd_take_txn(const GString *text, void *data, GError **err)
{
    struct vg_etcd_answer *answer = data;

    vg_etcd_answer_clear(answer);
    *answer = (struct vg_etcd_answer){0};
    return vg_etcd_read_txn(text->str, text->len, answer, err);
}

/* Appends the pairs of a page to those of the previous pages. */
static void
etcd_add_page(struct vg_etcd_answer *all, struct vg_etcd_answer *page)
{
    for (guint i = 0; i < page->pairs->len; i++)
        g_ptr_array_add(all->pairs, page->pairs->pdata[i]);
    g_ptr_array_set_free_func(page->pairs, NULL);
    all->more = page->more;
}

int
vg_etcd_range(vg_etcd *etcd, const struct vg_etcd_range *range, int64_t limit_ns,
              struct vg_etcd_answer *ret, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + limit_ns;
    struct vg_etcd_range next = *range;
    g_auto(vg_etcd_answer) all = {0};

    for (;;) {
        g_autofree char *body = vg_etcd_write_range(&next);
        g_auto(vg_etcd_answer) page = {0};
        const struct etcd_question question = {"/v3/kv/range", body, etcd_take_range, &page};
        if (etcd_call(etcd, &question, until_ns - vg_clock_monotonic_ns(), err) < 0)
            return -1;
        if (!all.pairs) {
            all = page;
            page = (struct vg_etcd_answer){0};
        } else if (page.cluster != all.cluster) {
            return vg_error(err, VG_E_EXTERNAL,
                            "the endpoints of etcd are members of different clusters");
        } else {
            etcd_add_page(&all, &page);
        }
        if (!all.more || all.pairs->len == 0)
            break;
        next.after = ((const struct vg_etcd_pair *)all.pairs->pdata[all.pairs->len - 1])->key;
        next.revision = all.revision;
    }
    *ret = all;
    all = (struct vg_etcd_answer){0};
    return 0;
}

int
vg_etcd_txn(vg_etcd *etcd, const struct vg_etcd_txn *txn, int64_t limit_ns,
            struct vg_etcd_answer *ret, GError **err)
{
    g_autofree char *body = vg_etcd_write_txn(txn);
    struct vg_etcd_answer answer = {0};
    const struct etcd_question question = {"/v3/kv/txn", body, etcd_take_txn, &answer};

    if (etcd_call(etcd, &question, limit_ns, err) < 0) {
        vg_etcd_answer_clear(&answer);
        return -1;
    }
    *ret = answer;
    return 0;
}

/* A lease in etcd's answer. */
struct etcd_lease {
    int64_t id, ttl_s;
};

static int
etcd_take_grant(const GString *text, void *data, GError **err)
{
    struct etcd_lease *lease = data;

    return vg_etcd_read_grant(text->str, text->len, &lease->id, &lease->ttl_s, err);
}

int
vg_etcd_grant(vg_etcd *etcd, int64_t ttl_s, int64_t limit_ns, int64_t *ret_lease,
              int64_t *ret_ttl_s, GError **err)
{
    g_autofree char *body = vg_etcd_write_grant(ttl_s);
    struct etcd_lease lease = {0};
    const struct etcd_question question = {"/v3/lease/grant", body, etcd_take_grant, &lease};

    if (etcd_call(etcd, &question, limit_ns, err) < 0)
        return -1;
    *ret_lease = lease.id;
    *ret_ttl_s = lease.ttl_s;
    return 0;
}

static int
etcd_take_kept(const GString *text, void *data, GError **err)
{
    return vg_etcd_read_keep_alive(text->str, text->len, data, err);
}

int
vg_etcd_keep(vg_etcd *etcd, int64_t lease, int64_t limit_ns, int64_t *ret_ttl_s, GError **err)
{
    g_autofree char *body = vg_etcd_write_lease(lease);
    const struct etcd_question question = {"/v3/lease/keepalive", body, etcd_take_kept, ret_ttl_s};

    return etcd_call(etcd, &question, limit_ns, err);
}

static int
etcd_take_anything(const GString *text, void *data, GError **err)
{
    (void)text, (void)data, (void)err;
    return 0;
}

int
vg_etcd_revoke(vg_etcd *etcd, int64_t lease, int64_t limit_ns, GError **err)
{
    g_autofree char *body = vg_etcd_write_lease(lease);
    const struct etcd_question question = {"/v3/lease/revoke", body, etcd_take_anything, NULL};

    return etcd_call(etcd, &question, limit_ns, err);
}
