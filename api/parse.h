/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers for parts of requests: percent encoding, query parameters, times, markers, bodies. Strict
 * and pure; any thread. Failures are VG_E_INVALID with a message that names the text.
 */
#ifndef VG_API_PARSE_H
#define VG_API_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/identity.h"

#define VG_QUERY_PARAMS_MAX 16
#define VG_PLAN_BODY_DEPTH  8

/* Returns path and query of a request's target, which may be "http://HOST/PATH" (RFC 9112, 3.2.2);
 * about `most` bytes of it. Characters of the path that were encoded needlessly are decoded. The
 * caller frees it. */
char *vg_parse_target(const char *target, size_t most);

/* Decodes %XX. Refuses text that is not UTF-8, NUL, and control characters that are not encoded
 * (names of VMs may have some). The caller frees it. */
char *vg_parse_percent(const char *text, size_t size, GError **err);

struct vg_query {
    unsigned n;
    struct {
        char *name;
        char *value;
    } params[VG_QUERY_PARAMS_MAX];
};

/* Parses "a=1&b=2"; NULL or empty: no parameters. Refuses a name that is not in the NULL-terminated
 * list, is given twice, or has no '='. '+' is a plus sign. *ret is untouched on failure. */
int vg_parse_query(const char *text, const char *const *names, struct vg_query *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
void vg_query_clear(struct vg_query *query);

/* Returns the value of a parameter, or NULL. */
const char *vg_query_get(const struct vg_query *query, const char *name);

/* Reads a parameter that is an integer; if absent, *ret stays as it is. */
int vg_query_int(const struct vg_query *query, const char *name, int64_t min, int64_t max,
                 int64_t *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Checks that a parameter, if it is there, has 1 to `most` characters. */
int vg_query_length(const struct vg_query *query, const char *name, size_t most,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads digits; false: other characters, or too large a number. */
bool vg_parse_int(const char *text, int64_t *ret);

/* Reads "90s", "5min", "5m", "1h" or "7d" as ns; at most 9 digits. */
int vg_parse_duration(const char *text, int64_t *ret_ns, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads RFC 3339, seconds since the epoch, "now", or "-" and a duration. */
int vg_parse_time(const char *text, int64_t now_ns, int64_t *ret_ns,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a time of the raw clock: its nanoseconds, or "-" and a duration before newest_ns. */
int vg_parse_raw_time(const char *text, int64_t newest_ns, int64_t *ret_ns,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Tells if the ETag (with its quotes) is among those of an If-None-Match. W/ is ignored, as RFC
 * 9110 wants. */
bool vg_parse_etag_match(const char *header, const char *etag);

enum vg_event_id { VG_EVENT_ID_OK, VG_EVENT_ID_RESTART, VG_EVENT_ID_INVALID };

/* Parses "BOOT-SEQ" of a Last-Event-ID. */
enum vg_event_id vg_parse_event_id(const char *text, const char *boot_id, uint64_t *ret_seq);

/* Tells if the word is in a list separated by commas. */
bool vg_parse_in_list(const char *list, const char *word);

/* Checks a list like "window,vm": at most 16 of vg_happening_types. */
int vg_parse_types(const char *text, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Tells if the text is "req-" and a UUID. */
bool vg_parse_is_request_id(const char *text);

/* Make an opaque text of any text, and decode it; NULL and VG_E_INVALID if it is not such a
 * text. */
char *vg_marker_new(const char *content);
char *vg_marker_read(const char *marker, GError **err);

struct vg_plan_request {
    bool dry_run;
    char *rule; /* owned, or NULL */
};

/* Parses the body of POST /v1/plans; unknown members are refused. */
int vg_parse_plan_request(const char *text, size_t size, struct vg_plan_request *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Parses a body as a record; unknown members are refused. example: a valid body. The caller frees
 * the record. */
void *vg_parse_record(const char *text, size_t size, const char *example,
                      const struct vg_record_type *type, GError **err);

struct vg_token_request {
    char *name;
    enum vg_role role;
    int64_t lifetime_s; /* 0: unlimited */
};

void vg_token_request_free(void *wanted); /* struct vg_token_request */

/* A hundred years. */
#define VG_TOKEN_LIFETIME_MAX_S INT64_C(3153600000)

/* Parses the body of POST /v1/tokens. The caller clears what is allocated in *ret. */
int vg_parse_token_request(const char *text, size_t size, struct vg_token_request *ret,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
