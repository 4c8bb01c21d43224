/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/route.h"

#include <string.h>

#include "base/error.h"

static const char *const no_params[] = {NULL};
static const char *const vms_params[] = {"limit", "marker", "sort",  "class", "project",
                                         "name",  "since",  "until", NULL};
static const char *const cluster_vms_params[] = {"host", "class", "limit", NULL};
static const char *const snapshot_params[] = {"peers", NULL};
static const char *const samples_params[] = {"since", "until", "step", "source", NULL};
static const char *const preemptions_params[] = {"vm", "limit", "marker", "since", "until", NULL};
static const char *const gpus_params[] = {"limit", "marker", NULL};
static const char *const requests_params[] = {"since", "until", "limit", "vm", NULL};
static const char *const plans_params[] = {"limit", "marker", NULL};
static const char *const audit_params[] = {"limit", "marker", NULL};
static const char *const migrations_params[] = {"limit", "marker", "active", NULL};
static const char *const cluster_migrations_params[] = {"limit", "active", NULL};
static const char *const proxies_params[] = {"host", NULL};
static const char *const migration_params[] = {"peer", NULL};
static const char *const events_params[] = {"after", "wait", "types", "since",
                                            "until", "from", "limit", NULL};

const unsigned short vg_route_common_statuses[] = {400, 401, 403, 413, 414, 429, 431, 500, 0};

/* Frequently used routes come first. */
const struct vg_route vg_routes[] = {
    {"/v1/vms", VG_FIGURES, VG_GET, vg_handle_vms, vms_params, {200, 304, 502, 503, 504}},
    {"/v1/snapshot", VG_FIGURES, VG_GET, vg_handle_snapshot, snapshot_params, {200, 304, 503}},
    {"/v1/vms/{id}", VG_FIGURES, VG_GET, vg_handle_vm, no_params, {200, 304, 404, 409}},
    {"/v1/host", VG_FIGURES, VG_GET, vg_handle_host, no_params, {200, 304}},
    {"/v1/host/cpus", VG_FIGURES, VG_GET, vg_handle_host_cpus, no_params, {200, 304}},
    {"/v1/host/history",
     VG_FIGURES,
     VG_GET,
     vg_handle_host_history,
     samples_params,
     {200, 502, 503, 504}},
    {"/v1/preemptions",
     VG_FIGURES,
     VG_GET,
     vg_handle_preemptions,
     preemptions_params,
     {200, 304, 404, 409, 502, 503, 504}},
    {"/v1/vms/{id}/samples",
     VG_FIGURES,
     VG_GET,
     vg_handle_samples,
     samples_params,
     {200, 404, 409, 502, 503, 504}},
    {"/v1/vms/{id}/gpu", VG_FIGURES, VG_GET, vg_handle_vm_gpu, no_params, {200, 304, 404, 409}},
    {"/v1/vms/{id}/movable",
     VG_MOVES,
     VG_GET,
     vg_handle_movable,
     no_params,
     {200, 404, 409, 502, 503, 504}},
    {"/v1/vms/{id}/vulkan",
     VG_MOVES,
     VG_POST,
     vg_handle_vulkan,
     no_params,
     {200, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/vms/{id}/policy",
     VG_ACTS,
     VG_POST,
     vg_handle_vm_policy,
     no_params,
     {200, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/vms/{id}/proxy",
     VG_FIGURES,
     VG_GET,
     vg_handle_show_proxy,
     no_params,
     {200, 404, 502, 503, 504}},
    {"/v1/vms/{id}/proxy",
     VG_MOVES,
     VG_POST,
     vg_handle_limit_proxy,
     no_params,
     {200, 404, 415, 502, 503, 504}},
    {"/v1/vms/{id}/proxy/move",
     VG_MOVES,
     VG_POST,
     vg_handle_move_proxy,
     no_params,
     {200, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/proxies",
     VG_FIGURES,
     VG_GET,
     vg_handle_proxies,
     proxies_params,
     {200, 404, 502, 503, 504}},
    {"/v1/gpus", VG_FIGURES, VG_GET, vg_handle_gpus, gpus_params, {200, 304}},
    {"/v1/gpus/{id}", VG_FIGURES, VG_GET, vg_handle_gpu, no_params, {200, 304, 404}},
    {"/v1/gpus/{id}/requests",
     VG_FIGURES,
     VG_GET,
     vg_handle_gpu_requests,
     requests_params,
     {200, 304, 404, 409}},
    {"/v1/alerts", VG_FIGURES, VG_GET, vg_handle_alerts, no_params, {200, 503}},
    {"/v1/peers", VG_FIGURES, VG_GET, vg_handle_peers, no_params, {200}},
    {"/v1/hosts", VG_FIGURES, VG_GET, vg_handle_hosts, no_params, {200}},
    {"/v1/hosts/{id}/drain",
     VG_MOVES,
     VG_GET,
     vg_handle_read_drain,
     no_params,
     {200, 404, 502, 503, 504}},
    {"/v1/hosts/{id}/drain",
     VG_MOVES,
     VG_POST,
     vg_handle_begin_drain,
     no_params,
     {200, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/hosts/{id}/drain",
     VG_MOVES,
     VG_DELETE,
     vg_handle_end_drain,
     no_params,
     {204, 404, 409, 422, 502, 503, 504}},
    {"/v1/cluster", VG_FIGURES, VG_GET, vg_handle_cluster, no_params, {200}},
    {"/v1/cluster/vms", VG_FIGURES, VG_GET, vg_handle_cluster_vms, cluster_vms_params, {200}},
    {"/v1/cluster/migrations",
     VG_MOVES,
     VG_GET,
     vg_handle_cluster_migrations,
     cluster_migrations_params,
     {200, 502, 503, 504}},
    {"/v1/plans", VG_PLANS, VG_GET, vg_handle_list_plans, plans_params, {200, 502, 503, 504}},
    {"/v1/plans",
     VG_PLANS,
     VG_POST,
     vg_handle_make_plan,
     no_params,
     {200, 201, 409, 415, 422, 502, 503, 504}},
    {"/v1/plans/{id}", VG_PLANS, VG_GET, vg_handle_plan, no_params, {200, 404, 502, 503, 504}},
    {"/v1/policy", VG_ACTS, VG_GET, vg_handle_policy, no_params, {200, 502, 503, 504}},
    {"/v1/policy/pause",
     VG_ACTS,
     VG_POST,
     vg_handle_policy_pause,
     no_params,
     {200, 415, 422, 502, 503, 504}},
    {"/v1/policy/resume",
     VG_ACTS,
     VG_POST,
     vg_handle_policy_resume,
     no_params,
     {200, 415, 422, 502, 503, 504}},
    {"/v1/migrations",
     VG_MOVES,
     VG_GET,
     vg_handle_list_migrations,
     migrations_params,
     {200, 502, 503, 504}},
    {"/v1/migrations",
     VG_MOVES,
     VG_POST,
     vg_handle_start_migration,
     no_params,
     {200, 201, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/migrations/{id}",
     VG_MOVES,
     VG_GET,
     vg_handle_migration,
     migration_params,
     {200, 404, 502, 503, 504}},
    {"/v1/migrations/{id}/abort",
     VG_MOVES,
     VG_POST,
     vg_handle_abort_migration,
     migration_params,
     {202, 404, 409, 415, 502, 503, 504}},
    {"/v1/migrations/{id}/retry",
     VG_MOVES,
     VG_POST,
     vg_handle_retry_migration,
     migration_params,
     {202, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/reservations",
     VG_MOVES,
     VG_GET,
     vg_handle_list_reservations,
     no_params,
     {200, 502, 503, 504}},
    {"/v1/reservations",
     VG_MOVES,
     VG_POST,
     vg_handle_reserve,
     no_params,
     {200, 201, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/reservations/{id}",
     VG_MOVES,
     VG_POST,
     vg_handle_renew,
     no_params,
     {200, 404, 415, 502, 503, 504}},
    {"/v1/reservations/{id}",
     VG_MOVES,
     VG_DELETE,
     vg_handle_release,
     no_params,
     {204, 404, 502, 503, 504}},
    {"/v1/proxies/reservations",
     VG_MOVES,
     VG_POST,
     vg_handle_reserve_room,
     no_params,
     {200, 404, 409, 415, 422, 502, 503, 504}},
    {"/v1/proxies/reservations/{id}",
     VG_MOVES,
     VG_DELETE,
     vg_handle_release_room,
     no_params,
     {204, 404, 502, 503, 504}},
    {"/v1/paths", VG_MOVES, VG_ASK, vg_handle_paths, no_params, {200, 415, 422, 502, 503, 504}},
    {"/v1/nova/approvals", VG_PLANS, VG_GET, vg_handle_nova_approvals, no_params, {200}},
    {"/v1/nova/placement", VG_PLANS, VG_ASK, vg_handle_nova_placement, no_params, {200, 415}},
    {"/scheduler/nova/external", VG_PLANS, VG_ASK, vg_handle_nova_external, no_params, {200, 415}},
    {"/v1/events", VG_FIGURES, VG_GET, vg_handle_events, events_params, {200, 404, 502, 503, 504}},
    {"/v1/tokens", VG_ACCESS, VG_GET, vg_handle_list_tokens, no_params, {200, 503}},
    {"/v1/tokens",
     VG_ACCESS,
     VG_POST,
     vg_handle_create_token,
     no_params,
     {201, 409, 415, 422, 503, 504}},
    {"/v1/tokens/{id}",
     VG_ACCESS,
     VG_DELETE,
     vg_handle_revoke_token,
     no_params,
     {204, 404, 503, 504}},
    {"/v1/audit", VG_ACCESS, VG_GET, vg_handle_audit, audit_params, {200, 503, 504}},
    {"/metrics", VG_FIGURES, VG_GET, vg_handle_metrics, no_params, {200}},
    {"/readyz", VG_FIGURES, VG_GET, vg_handle_readiness, no_params, {200, 503}},
    {"/healthz", VG_FIGURES, VG_GET, vg_handle_health, no_params, {200}},
    {"/v1", VG_FIGURES, VG_GET, vg_handle_version, no_params, {200}},
    {"/v1/openapi.json", VG_FIGURES, VG_GET, vg_handle_openapi, no_params, {200}},
    {"/", VG_FIGURES, VG_GET, vg_handle_versions, no_params, {200}},
    {"/ui", VG_FIGURES, VG_GET, vg_handle_page, no_params, {200, 304}},
    {"/ui/app.js", VG_FIGURES, VG_GET, vg_handle_page_script, no_params, {200, 304}},
    {"/ui/app.css", VG_FIGURES, VG_GET, vg_handle_page_style, no_params, {200, 304}},
};
const size_t vg_n_routes = G_N_ELEMENTS(vg_routes);

/* Returns whether the path matches the pattern. *ret_segment is the part for {id}. */
static bool
path_matches(const char *pattern, const char *path, size_t size, const char **ret_segment,
             size_t *ret_segment_size)
{
    const char *hole = strchr(pattern, '{');
    size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);

    if (size < before || memcmp(path, pattern, before) != 0)
        return false;
    if (!hole)
        return size == before;
    const char *after = strchr(hole, '}') + 1;
    const char *slash = memchr(path + before, '/', size - before);
    size_t segment = slash ? (size_t)(slash - path) - before : size - before;
    *ret_segment = path + before;
    *ret_segment_size = segment;
    return segment > 0 && size - before - segment == strlen(after) &&
           memcmp(path + before + segment, after, strlen(after)) == 0;
}

static char *
decode_segment(const char *segment, size_t size, GError **err)
{
    char *id = vg_parse_percent(segment, size, err);

    if (id && g_utf8_strlen(id, -1) > VG_SEGMENT_MAX) {
        vg_error(err, VG_E_INVALID, "the id has more than %d characters", VG_SEGMENT_MAX);
        g_clear_pointer(&id, g_free);
    }
    return id;
}

enum vg_match
vg_route_find(const char *path, size_t size, const char *method, const struct vg_route **ret_route,
              char **ret_id, char **ret_allow, GError **err)
{
    const char *segment = NULL;
    size_t segment_size = 0;
    const struct vg_route *found = NULL;
    unsigned has = 0;

    if (size == strlen("/v1/") && memcmp(path, "/v1/", size) == 0)
        size--;
    for (size_t i = 0; i < vg_n_routes && !found; i++) {
        const struct vg_route *route = &vg_routes[i];
        segment = NULL;
        if (!path_matches(route->path, path, size, &segment, &segment_size))
            continue;
        has |= 1u << route->method;
        if (vg_method_has(route->method, method))
            found = route;
    }
    if (has == 0)
        return VG_MATCH_NO_PATH;
    *ret_route = found;
    if (!found) {
        GString *allow = g_string_new(NULL);
        for (unsigned i = 0; i < VG_METHOD_MAX; i++)
            g_string_append(allow, has >> i & 1 ? vg_method_allow((enum vg_method)i) : "");
        *ret_allow = g_string_free(g_string_append(allow, "OPTIONS"), FALSE);
        return strcmp(method, "OPTIONS") == 0 ? VG_MATCH_FOUND : VG_MATCH_NO_METHOD;
    }
    if (segment) {
        *ret_id = decode_segment(segment, segment_size, err);
        if (!*ret_id)
            return VG_MATCH_INVALID;
    }
    return VG_MATCH_FOUND;
}
