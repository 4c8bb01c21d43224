/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/stats.h"

#include "api/route.h"

const unsigned short vg_http_codes[VG_HTTP_CODES_MAX + 1] = {
    200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 413,
    414, 415, 422, 429, 431, 500, 501, 502, 503, 504,
};

const char *const vg_refused_names[] = {
    [VG_REFUSED_NOBODY] = "nobody",           [VG_REFUSED_ROLE] = "role",
    [VG_REFUSED_CONNECTIONS] = "connections", [VG_REFUSED_STRANGERS] = "strangers",
    [VG_REFUSED_REQUESTS] = "requests",       [VG_REFUSED_WRITES] = "writes",
};

void
vg_http_stats_count(struct vg_http_stats *stats, const struct vg_route *route, unsigned status)
{
    size_t row = route ? (size_t)(route - stats->routes) : VG_HTTP_ROUTES_MAX;
    size_t bug = 0;
    size_t i = 0;

    for (; vg_http_codes[i] && vg_http_codes[i] != status; i++) {
        if (vg_http_codes[i] == 500)
            bug = i;
    }
    __atomic_add_fetch(&stats->requests[row][vg_http_codes[i] ? i : bug], 1, __ATOMIC_RELAXED);
}
