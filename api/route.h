/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of routes. It agrees with schema/api/openapi.yaml, which a test verifies.
 */
#ifndef VG_API_ROUTE_H
#define VG_API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#include "api/request.h"

#define VG_ROUTE_STATUSES_MAX 16
#define VG_SEGMENT_MAX        255 /* characters of a decoded {id} */

enum vg_method {
    VG_GET, /* also HEAD */
    VG_POST,
    VG_ASK, /* POST of a query: writes nothing, and may have a large body */
    VG_DELETE,
    VG_METHOD_MAX
};

/* The backend table that a handler calls. */
enum vg_route_part { VG_FIGURES, VG_ACCESS, VG_PLANS, VG_MOVES, VG_ACTS };

struct vg_route {
    const char *path; /* "/v1/vms/{id}" */
    enum vg_route_part part;
    enum vg_method method;
    vg_handler *handler;
    const char *const *params;                      /* names of parameters, NULL-terminated */
    unsigned short statuses[VG_ROUTE_STATUSES_MAX]; /* statuses in addition to those of every route;
                                                     * ends with 0 */
};

/* bytes of the body of a query */
#define VG_LARGE_BODY (1024 * 1024)

extern const struct vg_route vg_routes[];
extern const size_t vg_n_routes;

/* In method.c. Return the member of a path in the OpenAPI document ("get", "post", "delete"), and
 * the entry in Allow ("GET, HEAD, "). _has returns whether an HTTP method name is this method. */
const char *vg_method_member(enum vg_method method);
const char *vg_method_allow(enum vg_method method);
bool vg_method_has(enum vg_method method, const char *name);

/* Statuses that every route may answer; ends with 0. */
extern const unsigned short vg_route_common_statuses[];

enum vg_match { VG_MATCH_FOUND, VG_MATCH_NO_PATH, VG_MATCH_NO_METHOD, VG_MATCH_INVALID };

/* Finds the route of a raw path (size bytes). *ret_id: the decoded {id}, freed by the caller, or
 * NULL. For INVALID, sets *err. For NO_METHOD, and for FOUND for OPTIONS with *ret_route NULL, sets
 * *ret_allow, freed by the caller. */
enum vg_match vg_route_find(const char *path, size_t size, const char *method,
                            const struct vg_route **ret_route, char **ret_id, char **ret_allow,
                            GError **err);

/* The handlers. */
vg_handler vg_handle_versions;
vg_handler vg_handle_version;
vg_handler vg_handle_page;
vg_handler vg_handle_page_script;
vg_handler vg_handle_page_style;
vg_handler vg_handle_openapi;
vg_handler vg_handle_health;
vg_handler vg_handle_readiness;
vg_handler vg_handle_metrics;
vg_handler vg_handle_host;
vg_handler vg_handle_host_cpus;
vg_handler vg_handle_host_history;
vg_handler vg_handle_vms;
vg_handler vg_handle_vm;
vg_handler vg_handle_samples;
vg_handler vg_handle_vm_gpu;
vg_handler vg_handle_gpus;
vg_handler vg_handle_gpu;
vg_handler vg_handle_gpu_requests;
vg_handler vg_handle_preemptions;
vg_handler vg_handle_snapshot;
vg_handler vg_handle_peers;
vg_handler vg_handle_hosts;
vg_handler vg_handle_read_drain;
vg_handler vg_handle_begin_drain;
vg_handler vg_handle_end_drain;
vg_handler vg_handle_cluster;
vg_handler vg_handle_cluster_vms;
vg_handler vg_handle_cluster_migrations;
vg_handler vg_handle_alerts;
vg_handler vg_handle_list_plans;
vg_handler vg_handle_make_plan;
vg_handler vg_handle_plan;
vg_handler vg_handle_policy;
vg_handler vg_handle_policy_pause;
vg_handler vg_handle_policy_resume;
vg_handler vg_handle_events;
vg_handler vg_handle_past_events; /* called by vg_handle_events if a period is requested */
vg_handler vg_handle_list_migrations;
vg_handler vg_handle_start_migration;
vg_handler vg_handle_migration;
vg_handler vg_handle_abort_migration;
vg_handler vg_handle_retry_migration;
vg_handler vg_handle_movable;
vg_handler vg_handle_vulkan;
vg_handler vg_handle_vm_policy;
vg_handler vg_handle_proxies;
vg_handler vg_handle_show_proxy;
vg_handler vg_handle_limit_proxy;
vg_handler vg_handle_move_proxy;
vg_handler vg_handle_reserve_room;
vg_handler vg_handle_release_room;
vg_handler vg_handle_list_reservations;
vg_handler vg_handle_reserve;
vg_handler vg_handle_renew;
vg_handler vg_handle_release;
vg_handler vg_handle_paths;
vg_handler vg_handle_nova_placement;
vg_handler vg_handle_nova_approvals;
vg_handler vg_handle_nova_external;
vg_handler vg_handle_list_tokens;
vg_handler vg_handle_create_token;
vg_handler vg_handle_revoke_token;
vg_handler vg_handle_audit;

#endif
