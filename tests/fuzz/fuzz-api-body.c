/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a part of a request; the first says which. No crash; what is refused says why, what
 * is accepted reads back the same.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool good, const GError *err)
{
    if (good == (err != NULL))
        abort();
}

static void
try_body(const char *text, size_t size)
{
    struct vg_plan_request request = {0};
    g_autoptr(GError) err = NULL;

    bool good = vg_parse_plan_request(text, size, &request, &err) == 0;
    check(good, err);
    g_free(request.rule);
    g_free(request.free_up);
}

static void
try_url(const char *text)
{
    const struct vg_route *route = NULL;
    size_t size = strcspn(text, "?");
    struct vg_query query = {0};
    g_autofree char *id = NULL;
    g_autofree char *allow = NULL;
    g_autoptr(GError) err = NULL;
    int64_t value = 0;

    enum vg_match match = vg_route_find(text, size, "GET", &route, &id, &allow, &err);
    if (id && strlen(id) > VG_SEGMENT_MAX)
        abort();
    if (match != VG_MATCH_FOUND)
        return;
    if (!route ||
        vg_parse_query(text[size] ? text + size + 1 : NULL, route->params, &query, &err) < 0)
        return;
    if (vg_query_int(&query, "limit", 1, 10000, &value, NULL) == 0 && (value < 0 || value > 10000))
        abort();
    vg_query_clear(&query);
}

/* A time that is accepted and written down means the same. */
static void
try_time(const char *text)
{
    g_autoptr(GError) err = NULL;
    char utc[VG_UTC_LEN];
    int64_t ns = 0;
    int64_t again = 1;

    bool good = vg_parse_time(text, 0, &ns, &err) == 0;
    check(good, err);
    if (err)
        return;
    if (vg_parse_time(vg_utc_format(ns, utc), 0, &again, NULL) < 0 || again != ns)
        abort();
}

static void
try_raw_time(const char *text)
{
    g_autoptr(GError) err = NULL;
    int64_t ns = 0;

    bool good = vg_parse_raw_time(text, VG_JSON_INT_MAX, &ns, &err) == 0;
    check(good, err);
    if (ns < -VG_JSON_INT_MAX || ns > VG_JSON_INT_MAX)
        abort();
}

static void
try_marker(const char *text)
{
    g_autoptr(GError) err = NULL;
    g_autofree char *content = vg_marker_read(text, &err);
    g_autofree char *again = content ? vg_marker_new(content) : NULL;
    g_autofree char *back = again ? vg_marker_read(again, NULL) : NULL;

    check(content != NULL, err);
    if (content && g_strcmp0(back, content) != 0)
        abort();
}

static void
try_words(const char *text)
{
    uint64_t seq;
    g_autoptr(GError) err = NULL;

    vg_parse_etag_match(text, "\"a-1\"");
    vg_parse_event_id(text, "0b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01", &seq);
    vg_parse_is_request_id(text);
    bool good = vg_parse_types(text, &err) == 0;
    check(good, err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    g_autofree char *text = g_strndup((const char *)data + 1, size - 1);

    switch (data[0] % 5) {
    case 0:
        try_body((const char *)data + 1, size - 1);
        break;
    case 1:
        try_url(text);
        break;
    case 2:
        try_time(text);
        try_raw_time(text);
        break;
    case 3:
        try_marker(text);
        break;
    default:
        try_words(text);
        break;
    }
    return 0;
}
