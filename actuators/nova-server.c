/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries nova for an instance, and checks whether it can be moved.
 */
#include "config.h"

#include <string.h>

#include "actuators/nova-session.h"
#include "base/error.h"

#define HYPERVISOR_PATTERN_MINOR 53

bool
vg_nova_may_pass(const GError *error)
{
    return g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
           g_error_matches(error, VG_ERROR, VG_E_TIMEOUT) ||
           g_error_matches(error, VG_ERROR, VG_E_EXTERNAL) ||
           g_error_matches(error, VG_ERROR, VG_E_BUSY);
}

/* ---- the state of an instance ---- */

void
vg_nova_server_clear(struct vg_nova_server *server)
{
    g_free(server->status);
    g_free(server->task);
    g_free(server->host);
    g_free(server->node);
    g_free(server->fault);
    *server = (struct vg_nova_server){0};
}

bool
vg_nova_is_migrating(const struct vg_nova_server *server)
{
    return server->known && (g_strcmp0(server->status, "MIGRATING") == 0 ||
                             g_strcmp0(server->task, "migrating") == 0);
}

static char *
server_fault(json_object *object)
{
    const char *message = vg_nova_text(vg_nova_member(object, "fault"), "message");

    return message ? g_strdelimit(g_strdup(message), "\r\n", ' ') : NULL;
}

int
vg_nova_look(vg_nova *nova, const char *uuid, struct vg_nova_server *ret, GError **err)
{
    g_autofree char *path = g_strconcat("/servers/", uuid, NULL);
    g_autoptr(json_object) document = NULL;
    g_autoptr(GError) error = NULL;

    *ret = (struct vg_nova_server){0};
    if (vg_nova_get(nova, path, &document, &error) < 0) {
        if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
            return 0;
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    json_object *server = vg_nova_member(document, "server");
    const char *status = vg_nova_text(server, "status");
    const char *host = vg_nova_text(server, "OS-EXT-SRV-ATTR:host");
    if (!status)
        return vg_error(err, VG_E_EXTERNAL, "nova's answer does not contain the server's status");
    if (!vg_nova_member(server, "OS-EXT-SRV-ATTR:host"))
        return vg_error(err, VG_E_DENIED,
                        "nova does not report the host of '%s' to vgpud's user: the user needs the "
                        "role admin",
                        uuid);
    ret->known = true;
    ret->status = g_strdup(status);
    ret->task = g_strdup(vg_nova_text(server, "OS-EXT-STS:task_state"));
    ret->host = g_strdup(host ? host : "");
    ret->node = g_strdup(vg_nova_text(server, "OS-EXT-SRV-ATTR:hypervisor_hostname"));
    ret->fault = server_fault(server);
    return 0;
}

/* ---- names of hosts ---- */

/* Returns whether nova's hypervisor name means this host. The case may differ, and one of the names
 * may lack the domain. */
static bool
server_is_name(const char *host, const char *name)
{
    const size_t a = host ? strcspn(host, ".") : 0, b = name ? strcspn(name, ".") : 0;

    if (!host || !name)
        return false;
    if (g_ascii_strcasecmp(host, name) == 0)
        return true;
    return a == b && (!host[a] || !name[b]) && g_ascii_strncasecmp(host, name, a) == 0;
}

/* Finds a hypervisor by name. Returns a borrowed object, or NULL if there is none or the name is
 * ambiguous. */
static json_object *
server_find_hypervisor(json_object *list, const char *name)
{
    json_object *found = NULL;
    const size_t n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    unsigned like = 0;

    for (size_t i = 0; i < n; i++) {
        json_object *one = json_object_array_get_idx(list, i);
        const char *hostname = vg_nova_text(one, "hypervisor_hostname");
        if (hostname && g_ascii_strcasecmp(hostname, name) == 0)
            return one;
        if (server_is_name(name, hostname)) {
            like++;
            found = one;
        }
    }
    return like == 1 ? found : NULL;
}

static int
server_query_hypervisors(vg_nova *nova, const char *name, json_object **ret, GError **err)
{
    g_autofree char *label = g_strndup(name, strcspn(name, "."));
    g_autofree char *escaped = g_uri_escape_string(label, NULL, FALSE);
    g_autofree char *path =
        nova->minor >= HYPERVISOR_PATTERN_MINOR
            ? g_strconcat("/os-hypervisors/detail?hypervisor_hostname_pattern=", escaped, NULL)
            : g_strdup("/os-hypervisors/detail");
    g_autoptr(GError) error = NULL;

    if (vg_nova_get(nova, path, ret, &error) == 0 ||
        g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        return 0;
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* Finds nova's name for the target, and checks that the target accepts instances. */
static int
server_check_target(vg_nova *nova, struct vg_nova_precheck *check, GPtrArray *problems,
                    GError **err)
{
    g_autoptr(json_object) document = NULL;

    if (check->to_host) {
        check->ret_to = g_strdup(check->to_host);
        return 0;
    }
    if (server_query_hypervisors(nova, check->to, &document, err) < 0)
        return -1;
    json_object *one = server_find_hypervisor(vg_nova_member(document, "hypervisors"), check->to);
    json_object *service = vg_nova_member(one, "service");
    const char *host = vg_nova_text(service, "host");
    const char *state = vg_nova_text(one, "state"), *status = vg_nova_text(one, "status");
    const char *reason = vg_nova_text(service, "disabled_reason");
    if (!host) {
        g_ptr_array_add(problems,
                        g_strdup_printf("nova has no hypervisor '%s'; set nova_host in that host's "
                                        "group [peer NAME] to nova's name for it",
                                        check->to));
        return 0;
    }
    check->ret_to = g_strdup(host);
    if (g_strcmp0(state, "down") == 0)
        g_ptr_array_add(problems, g_strdup_printf("nova-compute on '%s' is down", host));
    if (g_strcmp0(status, "disabled") == 0)
        g_ptr_array_add(problems, g_strdup_printf("nova-compute on '%s' is disabled%s%s", host,
                                                  reason ? ": " : "", reason ? reason : ""));
    return 0;
}

/* ---- the instance ---- */

static void
server_check_source(const struct vg_nova_server *server, struct vg_nova_precheck *check,
                    GPtrArray *problems)
{
    if (!server_is_name(check->from, server->node) && !server_is_name(check->from, server->host))
        g_ptr_array_add(
            problems,
            g_strdup_printf("the VM is on '%s', but nova reports it on '%s' (hypervisor '%s'); if "
                            "this is the same host, set [nova] host to nova's name for it",
                            check->from, server->host, server->node ? server->node : "?"));
    if (g_strcmp0(server->status, "ERROR") == 0)
        g_ptr_array_add(problems, g_strdup_printf("nova reports the instance in state ERROR%s%s",
                                                  server->fault ? ": " : "",
                                                  server->fault ? server->fault : ""));
    else if (strcmp(server->status, "ACTIVE") != 0 && strcmp(server->status, "PAUSED") != 0)
        g_ptr_array_add(
            problems,
            g_strdup_printf("nova does not live-migrate an instance that is %s", server->status));
    else if (server->task)
        g_ptr_array_add(problems,
                        g_strdup_printf("nova is busy with the instance (%s)", server->task));
}

int
vg_nova_precheck(vg_nova *nova, struct vg_nova_precheck *check, GPtrArray *problems, GError **err)
{
    struct vg_nova_server server;

    if (vg_nova_look(nova, check->uuid, &server, err) < 0)
        return -1;
    if (!server.known)
        g_ptr_array_add(problems,
                        g_strdup_printf("nova has no instance %s, or vgpud's user may not see it",
                                        check->uuid));
    else {
        server_check_source(&server, check, problems);
        check->ret_from = g_strdup(server.host);
    }
    vg_nova_server_clear(&server);
    if (server_check_target(nova, check, problems, err) < 0)
        return -1;
    if (check->ret_to && g_strcmp0(check->ret_from, check->ret_to) == 0)
        g_ptr_array_add(
            problems, g_strdup_printf("nova already reports the instance on '%s'", check->ret_to));
    return 0;
}
