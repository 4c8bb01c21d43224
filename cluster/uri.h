/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the URI by which libvirt of this host reaches that of another one. What is run, and how,
 * comes from a template of this host's own configuration; of the other host, only the name or
 * address of its URL is used. Pure.
 */
#ifndef VG_CLUSTER_URI_H
#define VG_CLUSTER_URI_H

#include <glib.h>

/* Returns the host of an https URL as a URI has it: a name, an IPv4 address, or an IPv6 address in
 * brackets; the caller frees it. Fails if the URL has a user, a query, a fragment or blanks, or a
 * host with other characters than those of names and addresses. */
char *vg_uri_host(const char *url, GError **err);

/* Checks a template: it has %h once, as its host. */
int vg_uri_template_check(const char *uri, GError **err);

/* Makes a template of the URI of one's own libvirt, whose host is replaced by %h. Fails unless the
 * transport is tls, ssh or tcp and there are no parameters. The caller frees it. */
char *vg_uri_template_of(const char *libvirt_uri, GError **err);

/* Puts a host of vg_uri_host() into a template; the caller frees the URI. */
char *vg_uri_template_fill(const char *uri_template, const char *host);

#endif
