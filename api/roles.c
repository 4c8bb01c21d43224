/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/roles.h"

#include <string.h>

#include <json-c/json.h>

#include "api/route.h"
#include "base/error.h"

/* Returns a member of the route's operation, or NULL. */
static json_object *
roles_member(json_object *paths, const struct vg_route *route, const char *name)
{
    json_object *path = NULL, *operation = NULL, *member = NULL;

    if (!json_object_object_get_ex(paths, route->path, &path) ||
        !json_object_object_get_ex(path, vg_method_member(route->method), &operation) ||
        !json_object_object_get_ex(operation, name, &member))
        return NULL;
    return member;
}

static int
roles_read_one(json_object *paths, const struct vg_route *route, enum vg_role *ret, GError **err)
{
    json_object *role = roles_member(paths, route, "x-role");

    if (!role)
        return vg_error(err, VG_E_BUG, "the OpenAPI document names no role for %s %s", route->path,
                        vg_method_member(route->method));
    const char *name = json_object_get_string(role);
    *ret = VG_ROLE_NONE;
    if (strcmp(name, vg_role_names[VG_ROLE_NONE]) != 0 && !vg_role_from_name(name, ret))
        return vg_error(err, VG_E_BUG, "the OpenAPI document names an unknown role '%s'", name);
    return 0;
}

int
vg_roles_read(const char *openapi, enum vg_role *ret_roles, GError **err)
{
    json_object *document = json_tokener_parse(openapi);
    json_object *paths = NULL;
    int status = 0;

    if (!document || !json_object_object_get_ex(document, "paths", &paths))
        status = vg_error(err, VG_E_BUG, "the OpenAPI document has no paths");
    for (size_t i = 0; i < vg_n_routes && status == 0; i++)
        status = roles_read_one(paths, &vg_routes[i], &ret_roles[i], err);
    json_object_put(document);
    return status;
}

void
vg_roles_read_peers(const char *openapi, bool *ret_peers)
{
    json_object *document = json_tokener_parse(openapi);
    json_object *paths = NULL;

    json_object_object_get_ex(document, "paths", &paths);
    for (size_t i = 0; i < vg_n_routes; i++)
        ret_peers[i] = json_object_get_boolean(roles_member(paths, &vg_routes[i], "x-peer"));
    json_object_put(document);
}
