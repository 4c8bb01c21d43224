/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of a vgpud on the network: https://HOST:PORT.
 */
#ifndef VG_CLIENT_REMOTE_ADDRESS_H
#define VG_CLIENT_REMOTE_ADDRESS_H

#include <stdbool.h>

#include <glib.h>

/* Parse an address; the caller frees the parts. Fail with VG_E_INVALID if it is not an address. */
int vg_remote_parse_server(const char *server, char **ret_host, char **ret_port, GError **err);
int vg_remote_check_server(const char *server, GError **err);

/* Returns whether an address includes a port. */
bool vg_remote_names_port(const char *server);

#endif
