/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of a live session of LTTng: net://RELAY[:PORT]/host/HOST/SESSION. Any thread.
 */
#ifndef VG_COLLECTORS_LTTNG_URL_H
#define VG_COLLECTORS_LTTNG_URL_H

#include <glib.h>

#define VG_LTTNG_VIEWER_PORT 5344

struct vg_lttng_url {
    char *relay; /* a name or an IPv4 address: babeltrace2 takes no others */
    int port;
    char *host;    /* traced host as the relay daemon calls it; NULL: without a session */
    char *session; /* NULL: likewise */
};

/* Parses an URL. VG_E_INVALID, and *ret untouched, if it is none. The caller clears it. */
int vg_lttng_url_parse(const char *text, struct vg_lttng_url *ret, GError **err);
void vg_lttng_url_clear(struct vg_lttng_url *url);

/* Makes the URL of a session at this relay daemon; the caller frees it. */
char *vg_lttng_url_of(const struct vg_lttng_url *url, const char *host, const char *session);

#endif
