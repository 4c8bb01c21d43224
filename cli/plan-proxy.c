/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/plan-proxy.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "model/vm-name.h"

/* The time for which the proxies' figures are measured before and after. */
#define PROXY_MEASURE_NS (5 * VG_NS_PER_S)

/* The fraction of the time by which waiting may increase and still count as unchanged. */
#define PROXY_WORSE 0.05

/* Longer than vgpud waits for a guest's agent ([actions] guest_deadline). */
#define PROXY_LIMIT_S 3700

/* The fraction of the time for which VMs waited for the GPUs of these hosts' proxies. */
struct plan_proxy_wait {
    double vm, all;
};

/* Sums up the waiting time of sockets, for all VMs if vm is NULL. */
static double
plan_proxy_sum(json_object *items, const struct vg_plan_proxy_action *action)
{
    double sum = 0;

    for (size_t i = 0; i < vg_output_length(items); i++) {
        json_object *row = json_object_array_get_idx(items, i);
        const char *vm = json_object_get_string(vg_output_member(row, "vm"));
        if (!action || vg_vm_is(vm, action->vm, action->uuid))
            sum += json_object_get_double(vg_output_member(row, "lacked_ns"));
    }
    return sum;
}

/* Adds the figures of a host's proxies. host is NULL for the queried host. */
static int
plan_proxy_add(vg_client *client, const char *host, const struct vg_plan_proxy_action *action,
               struct plan_proxy_wait *ret, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autofree char *path =
        host ? vg_client_path("/v1/proxies?host=", host, "") : g_strdup("/v1/proxies");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    json_object *items = vg_output_member(document, "items");
    ret->vm += plan_proxy_sum(items, action);
    ret->all += plan_proxy_sum(items, NULL);
    return 0;
}

/* Reads the figures of the proxies on all hosts of the action. */
static int
plan_proxy_read(vg_client *client, const struct vg_plan_proxy_action *action,
                struct plan_proxy_wait *ret, GError **err)
{
    const char *const hosts[] = {action->from_host, action->to ? action->to_host : NULL};
    /* A weight changes on the host where the programs are. */
    const char *own = action->to ? action->host : action->from_host;

    *ret = (struct plan_proxy_wait){0};
    if (plan_proxy_add(client, NULL, action, ret, err) < 0)
        return -1;
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        const bool is_read = !hosts[i] || g_strcmp0(hosts[i], own) == 0 ||
                             (i > 0 && g_strcmp0(hosts[i], hosts[0]) == 0);
        if (!is_read && plan_proxy_add(client, hosts[i], action, ret, err) < 0)
            return -1;
    }
    return 0;
}

/* Measures the fraction of some seconds for which the VM, and all VMs together, wait. */
static int
plan_proxy_measure(vg_client *client, const struct vg_plan_proxy_action *action,
                   struct plan_proxy_wait *ret, GError **err)
{
    const int64_t begin_ns = vg_clock_monotonic_ns();
    struct plan_proxy_wait before, after;

    if (plan_proxy_read(client, action, &before, err) < 0)
        return -1;
    g_usleep(PROXY_MEASURE_NS / 1000);
    if (plan_proxy_read(client, action, &after, err) < 0)
        return -1;
    const double span_ns = (double)(vg_clock_monotonic_ns() - begin_ns);
    ret->vm = (after.vm - before.vm) / span_ns;
    ret->all = (after.all - before.all) / span_ns;
    return 0;
}

/* Requests an action, or its reversal. */
static int
plan_proxy_request(vg_client *client, const struct vg_plan_proxy_action *action, const char *plan,
                   bool dry_run, bool back, json_object **ret, GError **err)
{
    const char *vm = action->uuid ? action->uuid : action->vm;
    g_autofree char *path = vg_client_vm_path(vm, action->to ? "/proxy/move" : "/proxy");
    g_autoptr(json_object) body = json_object_new_object();

    if (action->to)
        vg_json_add_string(body, "to", back ? action->from : action->to);
    else
        vg_json_add_int64(body, "weight", back ? action->weight_before : action->weight);
    if (!back)
        vg_json_add_string(body, "plan_id", plan);
    if (dry_run)
        vg_json_add_bool(body, "dry_run", true);
    vg_client_set_limit(client, PROXY_LIMIT_S);
    return vg_client_post(client, path, body, ret, err);
}

/* Reports the effect of an action, and reverses it if the VM or all VMs wait more than before.
 * Returns the result. */
static const char *
plan_proxy_judge(vg_client *client, const struct vg_plan_proxy_action *action,
                 const struct plan_proxy_wait *before, const struct plan_proxy_wait *after,
                 FILE *to, GError **err)
{
    g_autoptr(json_object) unused = NULL;
    g_autoptr(GError) error = NULL;
    const bool is_worse = after->vm > before->vm + PROXY_WORSE ||
                          (action->to && after->all > before->all + PROXY_WORSE);

    fprintf(to,
            "The VM now waits %.2f of the time (before: %.2f); all VMs of these proxies "
            "together wait %.2f (before: %.2f).\n",
            after->vm, before->vm, after->all, before->all);
    if (!is_worse)
        return "done";
    if (plan_proxy_request(client, action, NULL, false, true, &unused, &error) < 0) {
        vg_error(err, VG_E_REFUSED,
                 "%s: waiting has increased, and the change cannot be undone: %s", action->vm,
                 error->message);
        return "worse";
    }
    vg_error(err, VG_E_REFUSED, "%s: waiting increased, so the change was undone", action->vm);
    return "undone";
}

static void
plan_proxy_note(json_object *results, const struct vg_plan_proxy_action *action, const char *result,
                const GError *error, const struct plan_proxy_wait *wait)
{
    json_object *entry = json_object_new_object();

    vg_json_add_string(entry, "kind", action->kind);
    vg_json_add_string(entry, "vm", action->vm);
    vg_json_add_string(entry, "uuid", action->uuid);
    vg_json_add_string(entry, "from", action->from);
    if (action->to)
        vg_json_add_string(entry, "to", action->to);
    else
        vg_json_add_int64(entry, "to", action->weight);
    vg_json_add_string(entry, "result", result);
    vg_json_add_string(entry, "error", error ? error->message : NULL);
    if (wait) {
        vg_json_add_double(entry, "waited_before", wait[0].vm);
        vg_json_add_double(entry, "waited_after", wait[1].vm);
    }
    vg_json_append(results, entry);
}

static int
plan_proxy_do(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan, guint i,
              json_object *results, GError **err)
{
    const struct vg_plan_proxy_action *action = plan->proxies->pdata[i];
    FILE *to = vg_follow_stream(apply->format);
    g_autoptr(json_object) answer = NULL;
    g_autoptr(GError) error = NULL;
    struct plan_proxy_wait wait[2];
    bool is_measured = false;
    const char *result = apply->dry_run ? "possible" : "done";

    fprintf(to, "\n%s %u of %u: %s\n", action->kind, i + 1, plan->proxies->len, action->vm);
    if (!apply->dry_run && plan_proxy_measure(client, action, &wait[0], &error) < 0)
        result = "refused";
    else if (plan_proxy_request(client, action, plan->id, apply->dry_run, false, &answer, &error) <
             0)
        result = apply->dry_run ? "impossible" : "refused";
    else if (!apply->dry_run)
        is_measured = plan_proxy_measure(client, action, &wait[1], &error) == 0;
    if (is_measured)
        result = plan_proxy_judge(client, action, &wait[0], &wait[1], to, &error);
    plan_proxy_note(results, action, result, error, is_measured ? wait : NULL);
    if (!error)
        return 0;
    g_propagate_prefixed_error(err, g_steal_pointer(&error), "%s of %s: ", action->kind,
                               action->vm);
    return -1;
}

int
vg_plan_proxy_apply(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan,
                    json_object *results, GError **err)
{
    int status = 0;

    for (guint i = 0; i < plan->proxies->len; i++) {
        if (status == 0)
            status = plan_proxy_do(apply, client, plan, i, results, err);
        else
            plan_proxy_note(results, plan->proxies->pdata[i], "not-begun", NULL, NULL);
    }
    return status;
}
