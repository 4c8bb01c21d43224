/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/acts.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "acts"

#define CALL_NS (5 * VG_NS_PER_S)

#define ACTS_DEPTH 8

struct vg_acts {
    vg_etcd *etcd;
    char *leader; /* the key of the cluster's leader */
    char *prefix, *state, *pause, *resume;
    char *past; /* a prefix of keys */
};

char *
vg_acts_key_below(const char *prefix, const char *name)
{
    return g_strdup_printf("%.*s+act/%s", (int)strlen(prefix) - 1, prefix, name);
}

vg_acts *
vg_acts_new(const struct vg_etcd_options *etcd, const char *cluster)
{
    g_autofree char *prefix = g_strdup_printf("/vgpud/%s/", cluster);
    vg_acts *acts = g_new0(vg_acts, 1);

    acts->etcd = vg_etcd_new(etcd);
    acts->leader = g_strconcat(prefix, "leader", NULL);
    acts->prefix = vg_acts_key_below(prefix, "");
    acts->state = vg_acts_key_below(prefix, "state");
    acts->pause = vg_acts_key_below(prefix, "pause");
    acts->resume = vg_acts_key_below(prefix, "resume");
    acts->past = g_strdup_printf("/vgpud/%s+past/", cluster);
    return acts;
}

void
vg_acts_free(vg_acts *acts)
{
    if (!acts)
        return;
    vg_etcd_free(acts->etcd);
    g_free(acts->leader);
    g_free(acts->prefix);
    g_free(acts->state);
    g_free(acts->pause);
    g_free(acts->resume);
    g_free(acts->past);
    g_free(acts);
}

void
vg_acts_interrupt(vg_acts *acts)
{
    vg_etcd_interrupt(acts->etcd);
}

void
vg_acts_state_clear(struct vg_acts_state *state)
{
    g_clear_pointer(&state->acting, vg_acting_free);
    g_clear_pointer(&state->pause, vg_act_mark_free);
    g_clear_pointer(&state->resume, vg_act_mark_free);
}

/* Reads the value of a key. Returns NULL and sets *err if it is invalid. */
static void *
acts_read_value(const struct vg_etcd_pair *pair, const struct vg_record_type *type, GError **err)
{
    g_autoptr(json_object) document =
        vg_json_parse(pair->value, strlen(pair->value), VG_ETCD_VALUE_MAX, ACTS_DEPTH, err);
    const struct vg_json_node root = vg_json_root(document);
    void *record = document ? vg_record_read(type, &root, err) : NULL;

    if (!record)
        g_prefix_error(err, "cannot read etcd's key '%s': ", pair->key);
    return record;
}

int
vg_acts_read(vg_acts *acts, struct vg_acts_state *ret, GError **err)
{
    g_auto(vg_etcd_answer) answer = {0};
    g_auto(vg_acts_state) state = {0};

    if (vg_etcd_range(acts->etcd, &(struct vg_etcd_range){.key = acts->prefix, .is_prefix = true},
                      CALL_NS, &answer, err) < 0)
        return -1;
    for (guint i = 0; i < answer.pairs->len; i++) {
        const struct vg_etcd_pair *pair = answer.pairs->pdata[i];
        bool ok = true;
        if (strcmp(pair->key, acts->state) == 0)
            ok = (state.acting = acts_read_value(pair, &vg_acting_record, err));
        else if (strcmp(pair->key, acts->pause) == 0)
            ok = (state.pause = acts_read_value(pair, &vg_act_mark_record, err));
        else if (strcmp(pair->key, acts->resume) == 0)
            ok = (state.resume = acts_read_value(pair, &vg_act_mark_record, err));
        if (state.resume && strcmp(pair->key, acts->resume) == 0)
            state.resume_revision = pair->mod_revision;
        if (!ok)
            return -1;
    }
    *ret = state;
    state = (struct vg_acts_state){0};
    return 0;
}

/* Writes a key if this host is still the leader. */
static int
acts_write_leading(vg_acts *acts, int64_t leader, const struct vg_etcd_write *write, GError **err)
{
    const struct vg_etcd_condition condition = {acts->leader, true, leader};
    const struct vg_etcd_txn txn = {&condition, 1, write, 1, NULL};
    g_auto(vg_etcd_answer) answer = {0};

    if (vg_etcd_txn(acts->etcd, &txn, CALL_NS, &answer, err) < 0)
        return -1;
    return answer.succeeded ? 0
                            : vg_error(err, VG_E_CONFLICT, "another host now leads the cluster");
}

int
vg_acts_write(vg_acts *acts, int64_t leader, const struct vg_acting *acting, GError **err)
{
    g_autoptr(json_object) object = vg_record_write(&vg_acting_record, acting);
    g_autofree char *text = vg_json_to_text(object, false);
    const struct vg_etcd_write write = {acts->state, text, 0};

    if (strlen(text) > VG_ETCD_VALUE_MAX)
        return vg_error(err, VG_E_INVALID, "the plan is too long for etcd: %zu bytes",
                        strlen(text));
    return acts_write_leading(acts, leader, &write, err);
}

GPtrArray *
vg_acts_read_past(vg_acts *acts, GPtrArray *unread, GError **err)
{
    const struct vg_etcd_range range = {.key = acts->past, .is_prefix = true};
    g_auto(vg_etcd_answer) answer = {0};
    GPtrArray *hosts;

    if (vg_etcd_range(acts->etcd, &range, CALL_NS, &answer, err) < 0)
        return NULL;
    hosts = g_ptr_array_new_with_free_func(vg_act_past_free);
    for (guint i = 0; i < answer.pairs->len; i++) {
        const struct vg_etcd_pair *pair = answer.pairs->pdata[i];
        g_autoptr(GError) error = NULL;
        vg_act_past *past = acts_read_value(pair, &vg_act_past_record, &error);
        if (past) {
            g_ptr_array_add(hosts, past);
        } else {
            vg_log_warn_limited("past moves are unknown reason=\"%s\"", error->message);
            g_ptr_array_add(unread, g_strdup(pair->key + strlen(acts->past)));
        }
    }
    return hosts;
}

int
vg_acts_write_past(vg_acts *acts, int64_t leader, vg_act_past *past, GError **err)
{
    g_autofree char *key = g_strconcat(acts->past, past->host, NULL);
    g_autofree char *text = NULL;

    while (past->moves->len > 0 && !text) {
        g_autoptr(json_object) object = vg_record_write(&vg_act_past_record, past);
        text = vg_json_to_text(object, false);
        if (strlen(text) > VG_ETCD_VALUE_MAX) {
            g_clear_pointer(&text, g_free);
            vg_act_past_truncate(past, past->moves->len / 2);
        }
    }
    return acts_write_leading(acts, leader, &(struct vg_etcd_write){key, text, 0}, err);
}

static char *
acts_mark_text(const char *by)
{
    const struct vg_act_mark mark = {(char *)by, vg_clock_realtime_ns()};
    g_autoptr(json_object) object = vg_record_write(&vg_act_mark_record, &mark);

    return vg_json_to_text(object, false);
}

int
vg_acts_pause(vg_acts *acts, const char *by, GError **err)
{
    g_autofree char *text = acts_mark_text(by);
    const struct vg_etcd_condition condition = {acts->pause, true, 0};
    const struct vg_etcd_write write = {acts->pause, text, 0};
    const struct vg_etcd_txn txn = {&condition, 1, &write, 1, NULL};
    g_auto(vg_etcd_answer) answer = {0};

    return vg_etcd_txn(acts->etcd, &txn, CALL_NS, &answer, err);
}

int
vg_acts_resume(vg_acts *acts, const char *by, GError **err)
{
    g_autofree char *text = acts_mark_text(by);
    const struct vg_etcd_write writes[] = {{acts->pause, NULL, 0}, {acts->resume, text, 0}};
    const struct vg_etcd_txn txn = {NULL, 0, writes, G_N_ELEMENTS(writes), NULL};
    g_auto(vg_etcd_answer) answer = {0};

    return vg_etcd_txn(acts->etcd, &txn, CALL_NS, &answer, err);
}
