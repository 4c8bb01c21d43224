/* SPDX-License-Identifier: Apache-2.0
 *
 * The role that each route wants, from x-role in the OpenAPI file.
 */
#ifndef VG_API_ROLES_H
#define VG_API_ROLES_H

#include <stdbool.h>

#include <glib.h>

#include "model/identity.h"

/* Reads x-role of each operation of the OpenAPI document into the roles of vg_routes[]. VG_E_BUG: a
 * route has none, or one that there is not. */
int vg_roles_read(const char *openapi, enum vg_role *ret_roles,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads x-peer likewise: whether the role peer may use a route that wants another role, too. */
void vg_roles_read_peers(const char *openapi, bool *ret_peers);

#endif
