/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/tools/api-faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/identity.h"
#include "api/route.h"
#include "schema/schema.h"

#define DOCUMENT_MAX (1024 * 1024)

/* Names that the linker makes: __real_X is X, and who asks for X gets __wrap_X. */
extern const char __real_vg_schema_openapi[];
extern char __wrap_vg_schema_openapi[];
int __real_vg_roles_read(const char *openapi, enum vg_role *ret_roles, GError **err);
int __wrap_vg_roles_read(const char *openapi, enum vg_role *ret_roles, GError **err);
bool __real_vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                               const char *authorization);
bool __wrap_vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                               const char *authorization);

char __wrap_vg_schema_openapi[DOCUMENT_MAX];
static const char *fault_name;

static bool
fault_is(const char *name)
{
    return g_strcmp0(fault_name, name) == 0;
}

/* Of an operation of the document; the new text is as long as the old one. */
static void
fault_replace(const char *path, const char *method, const char *before, const char *after)
{
    g_autofree char *key = g_strdup_printf("\"%s\":", path);
    g_autofree char *member = g_strdup_printf("\"%s\":", method);
    char *at = strstr(__wrap_vg_schema_openapi, key);

    at = at ? strstr(at, member) : NULL;
    at = at ? strstr(at, before) : NULL;
    if (!at || strlen(before) != strlen(after)) {
        fprintf(stderr, "api-faults: %s of %s has no %s\n", method, path, before);
        abort();
    }
    memcpy(at, after, strlen(after));
}

void
api_fault_begin(const char *name)
{
    fault_name = name;
    if (g_strlcpy(__wrap_vg_schema_openapi, __real_vg_schema_openapi, DOCUMENT_MAX) >= DOCUMENT_MAX)
        abort();
    if (fault_is(API_FAULT_NO_ROLE) || fault_is(API_FAULT_NO_ROLE_READ))
        fault_replace("/v1/audit", "get", "\"x-role\":", "\"y-role\":");
    if (fault_is(API_FAULT_WEAK_ROLE))
        fault_replace("/v1/plans", "post", "\"x-role\":\"operator\"", "\"x-role\":\"reader\"  ");
}

int
__wrap_vg_roles_read(const char *openapi, enum vg_role *ret_roles, GError **err)
{
    if (!fault_is(API_FAULT_NO_ROLE_READ))
        return __real_vg_roles_read(openapi, ret_roles, err);
    int status = __real_vg_roles_read(__real_vg_schema_openapi, ret_roles, err);
    for (size_t i = 0; i < vg_n_routes; i++) {
        if (strcmp(vg_routes[i].path, "/v1/audit") == 0)
            ret_roles[i] = VG_ROLE_NONE;
    }
    return status;
}

bool
__wrap_vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                          const char *authorization)
{
    const struct vg_route *route = NULL;
    g_autofree char *id = NULL;
    g_autofree char *allow = NULL;
    g_autoptr(GError) err = NULL;

    if (fault_is(API_FAULT_NOT_FOUND) &&
        vg_route_find(request->uri, strcspn(request->uri, "?"), request->method, &route, &id,
                      &allow, &err) == VG_MATCH_NO_PATH)
        return true;
    return __real_vg_identity_settle(request, conn, authorization);
}
