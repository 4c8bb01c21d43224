/* SPDX-License-Identifier: Apache-2.0
 *
 * The URL of an LTTng live session: net://RELAY[:PORT]/host/HOST/SESSION. Any thread.
 */
#ifndef VG_COLLECTORS_LTTNG_URL_H
#define VG_COLLECTORS_LTTNG_URL_H

#include <glib.h>

#define VG_LTTNG_VIEWER_PORT 5344

struct vg_lttng_url {
    char *relay; /* a name or an IPv4 address; babeltrace2 accepts no others */
    int port;
    char *host;    /* the traced host's name at the relay daemon; NULL without a session */
    char *session; /* NULL without a session */
};

/* Parses a URL. If it is malformed, fails with VG_E_INVALID and leaves *ret unchanged. The caller
 * clears *ret. */
int vg_lttng_url_parse(const char *text, struct vg_lttng_url *ret, GError **err);
void vg_lttng_url_clear(struct vg_lttng_url *url);

/* Returns the URL of a session at this relay daemon; the caller frees it. */
char *vg_lttng_url_of(const struct vg_lttng_url *url, const char *host, const char *session);

#endif
