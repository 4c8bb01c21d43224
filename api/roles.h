/* SPDX-License-Identifier: Apache-2.0
 *
 * The role that each route requires, from x-role in the OpenAPI file.
 */
#ifndef VG_API_ROLES_H
#define VG_API_ROLES_H

#include <stdbool.h>

#include <glib.h>

#include "model/identity.h"

/* Reads x-role of each operation in the OpenAPI document into the roles of vg_routes[]. Fails with
 * VG_E_BUG if a route has no role, or an unknown role. */
int vg_roles_read(const char *openapi, enum vg_role *ret_roles,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads x-peer in the same way: whether the role peer may also use a route that requires another
 * role. */
void vg_roles_read_peers(const char *openapi, bool *ret_peers);

#endif
