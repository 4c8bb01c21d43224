/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers for parts of requests: percent encoding, query parameters, times, markers, bodies. Strict
 * and pure; any thread. Failures are VG_E_INVALID with a message that quotes the text.
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

/* Returns path and query of a request's target, which may be "http://HOST/PATH" (RFC 9112, 3.2.2),
 * up to about `most` bytes. Unnecessarily encoded characters of the path are decoded. The caller
 * frees it. */
char *vg_parse_target(const char *target, size_t most);

/* Decodes %XX. Rejects text that is not UTF-8, NUL, and control characters that are not encoded (VM
 * names may contain encoded control characters). The caller frees it. */
char *vg_parse_percent(const char *text, size_t size, GError **err);

struct vg_query {
    unsigned n;
    struct {
        char *name;
        char *value;
    } params[VG_QUERY_PARAMS_MAX];
};

/* Parses "a=1&b=2"; NULL or empty means no parameters. Rejects a name that is not in the
 * NULL-terminated list, is given twice, or has no '='. '+' is a plus sign. *ret is unchanged on
 * failure. */
int vg_parse_query(const char *text, const char *const *names, struct vg_query *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
void vg_query_clear(struct vg_query *query);

/* Returns the value of a parameter, or NULL. */
const char *vg_query_get(const struct vg_query *query, const char *name);

/* Reads an integer parameter. If it is absent, *ret is unchanged. */
int vg_query_int(const struct vg_query *query, const char *name, int64_t min, int64_t max,
                 int64_t *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Checks that a parameter, if present, has 1 to `most` characters. */
int vg_query_length(const struct vg_query *query, const char *name, size_t most,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads digits. Returns false for other characters, or if the number is too large. */
bool vg_parse_int(const char *text, int64_t *ret);

/* Reads "90s", "5min", "5m", "1h" or "7d" as ns; at most 9 digits. */
int vg_parse_duration(const char *text, int64_t *ret_ns, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads RFC 3339, seconds since the epoch, "now", or "-" and a duration. */
int vg_parse_time(const char *text, int64_t now_ns, int64_t *ret_ns,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a raw clock time: its nanoseconds, or "-" and a duration before newest_ns. */
int vg_parse_raw_time(const char *text, int64_t newest_ns, int64_t *ret_ns,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns whether the ETag (with its quotes) is in an If-None-Match list. W/ is ignored, as RFC
 * 9110 requires. */
bool vg_parse_etag_match(const char *header, const char *etag);

enum vg_event_id { VG_EVENT_ID_OK, VG_EVENT_ID_RESTART, VG_EVENT_ID_INVALID };

/* Parses "BOOT-SEQ" from Last-Event-ID. */
enum vg_event_id vg_parse_event_id(const char *text, const char *boot_id, uint64_t *ret_seq);

/* Returns whether the word is in a comma-separated list. */
bool vg_parse_in_list(const char *list, const char *word);

/* Checks a list like "window,vm": at most 16 of vg_happening_types. */
int vg_parse_types(const char *text, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns whether the text is "req-" and a UUID. */
bool vg_parse_is_request_id(const char *text);

/* Encode any text as an opaque marker, and decode it. _read returns NULL with VG_E_INVALID if the
 * text is not a marker. */
char *vg_marker_new(const char *content);
char *vg_marker_read(const char *marker, GError **err);

struct vg_plan_request {
    bool dry_run;
    char *rule;    /* owned, or NULL */
    char *free_up; /* as in model/free-up.h; owned, or NULL */
};

void vg_plan_request_free(void *wanted); /* struct vg_plan_request */

/* Parses the body of POST /v1/plans. Unknown members are rejected. *ret receives copies of the
 * texts. */
int vg_parse_plan_request(const char *text, size_t size, struct vg_plan_request *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Parses a body as a record. Unknown members are rejected. example: a valid body. The caller frees
 * the record. */
void *vg_parse_record(const char *text, size_t size, const char *example,
                      const struct vg_record_type *type, GError **err);

struct vg_token_request {
    char *name;
    enum vg_role role;
    int64_t lifetime_s; /* 0 for no limit */
};

void vg_token_request_free(void *wanted); /* struct vg_token_request */

/* A hundred years. */
#define VG_TOKEN_LIFETIME_MAX_S INT64_C(3153600000)

/* Parses the body of POST /v1/tokens. The caller clears what is allocated in *ret. */
int vg_parse_token_request(const char *text, size_t size, struct vg_token_request *ret,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
