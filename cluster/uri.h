/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the URI that this host's libvirt uses to connect to another host's libvirt. The programs
 * and transports in it come from a template in this host's own configuration. Only the name or
 * address in the other host's URL is used. Pure.
 */
#ifndef VG_CLUSTER_URI_H
#define VG_CLUSTER_URI_H

#include <glib.h>

/* Returns the host of an https URL in the form for a URI: a name, an IPv4 address, or an IPv6
 * address in brackets; the caller frees it. Fails if the URL has a user, a query, a fragment or
 * blanks, or characters in the host that names and addresses cannot have. */
char *vg_uri_host(const char *url, GError **err);

/* Checks a template: it must contain %h exactly once, in place of the host. */
int vg_uri_template_check(const char *uri, GError **err);

/* Makes a template from this host's own libvirt URI by replacing the host with %h. Fails unless
 * the transport is tls, ssh or tcp and there are no parameters. The caller frees it. */
char *vg_uri_template_of(const char *libvirt_uri, GError **err);

/* Inserts a host from vg_uri_host() into a template; the caller frees the URI. */
char *vg_uri_template_fill(const char *uri_template, const char *host);

#endif
