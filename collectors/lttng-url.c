/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/lttng-url.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define FORM     "net://RELAY[:PORT]/host/HOST/SESSION"
#define PORT_MAX 65535

static const char *const schemes[] = {"net://", "net4://"};

static const char *
skip_scheme(const char *text)
{
    for (size_t i = 0; i < G_N_ELEMENTS(schemes); i++) {
        if (g_str_has_prefix(text, schemes[i]))
            return text + strlen(schemes[i]);
    }
    return NULL;
}

/* RELAY[:PORT] */
static int
parse_place(const char *place, struct vg_lttng_url *url, GError **err)
{
    g_auto(GStrv) parts = g_strsplit(place, ":", 3);
    uint64_t port = VG_LTTNG_VIEWER_PORT;

    if (!parts[0] || !*parts[0] || strpbrk(parts[0], " []@"))
        return vg_error(err, VG_E_INVALID,
                        "'%s' names no relay daemon; use a host name or an IPv4 address", place);
    if (parts[1] &&
        (parts[2] || !g_ascii_string_to_unsigned(parts[1], 10, 1, PORT_MAX, &port, NULL)))
        return vg_error(err, VG_E_INVALID, "'%s' has no port from 1 to %d", place, PORT_MAX);
    url->relay = g_strdup(parts[0]);
    url->port = (int)port;
    return 0;
}

int
vg_lttng_url_parse(const char *text, struct vg_lttng_url *ret, GError **err)
{
    struct vg_lttng_url url = {0};
    const char *rest = skip_scheme(text);
    g_auto(GStrv) parts = g_strsplit(rest ? rest : "", "/", 5);
    unsigned int n = g_strv_length(parts);
    bool has_path = n > 2 || (n == 2 && *parts[1]);
    bool is_path = n == 4 && strcmp(parts[1], "host") == 0 && *parts[2] && *parts[3];

    if (!rest || n == 0 || (has_path && !is_path))
        return vg_error(err, VG_E_INVALID, "'%s' is not a URL of the form %s", text, FORM);
    if (parse_place(parts[0], &url, err) < 0)
        return -1;
    if (has_path) {
        url.host = g_strdup(parts[2]);
        url.session = g_strdup(parts[3]);
    }
    *ret = url;
    return 0;
}

void
vg_lttng_url_clear(struct vg_lttng_url *url)
{
    g_clear_pointer(&url->relay, g_free);
    g_clear_pointer(&url->host, g_free);
    g_clear_pointer(&url->session, g_free);
}

char *
vg_lttng_url_of(const struct vg_lttng_url *url, const char *host, const char *session)
{
    return g_strdup_printf("net://%s:%d/host/%s/%s", url->relay, url->port, host, session);
}
