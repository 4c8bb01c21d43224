/* SPDX-License-Identifier: Apache-2.0
 *
 * The API's counters of requests and connections, for /metrics.
 */
#ifndef VG_API_STATS_H
#define VG_API_STATS_H

#include <stddef.h>
#include <stdint.h>

#define VG_HTTP_ROUTES_MAX 63
#define VG_HTTP_CODES_MAX  21

struct vg_route;

/* Why a client's request was refused. */
enum vg_refused {
    VG_REFUSED_NOBODY,      /* 401 */
    VG_REFUSED_ROLE,        /* 403 */
    VG_REFUSED_CONNECTIONS, /* too many connections of one client; closed */
    VG_REFUSED_STRANGERS, /* many connections, and this client had not identified itself; closed */
    VG_REFUSED_REQUESTS,  /* 429 */
    VG_REFUSED_WRITES,    /* 429 */
    VG_REFUSED_MAX
};

extern const char *const vg_refused_names[];

/* The counters; atomic. */
struct vg_http_stats {
    const struct vg_route *routes; /* routes of the rows below */
    size_t n_routes;
    uint64_t requests[VG_HTTP_ROUTES_MAX + 1]
                     [VG_HTTP_CODES_MAX]; /* the last row is for requests without a route */
    int64_t connections;
    int64_t streams;
    int64_t active; /* requests that have started and are not answered */
    uint64_t jobs_refused;
    uint64_t refused[VG_REFUSED_MAX];
};

/* The statuses that are counted; ends with 0. Others count as 500. */
extern const unsigned short vg_http_codes[VG_HTTP_CODES_MAX + 1];

/* Counts an answer. route may be NULL. */
void vg_http_stats_count(struct vg_http_stats *stats, const struct vg_route *route,
                         unsigned status);

#endif
