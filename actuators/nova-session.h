/* SPDX-License-Identifier: Apache-2.0
 *
 * The internals of a vg_nova: requests to Keystone and to the compute API, with automatic renewal
 * of the token.
 */
#ifndef VG_ACTUATORS_NOVA_SESSION_H
#define VG_ACTUATORS_NOVA_SESSION_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "actuators/nova-move.h"
#include "base/json.h"

/* The maximum size of an answer in bytes, and its deepest nesting. */
#define VG_NOVA_ANSWER_MAX (16 * 1024 * 1024)
#define VG_NOVA_DEPTH      32

struct vg_nova {
    vg_nova_cloud *cloud;
    int64_t limit_ns; /* the limit of one request */
    int64_t poll_ns;
    const atomic_bool *leave;
    CURL *curl;
    char *token;      /* NULL before the first login */
    int64_t renew_ns; /* CLOCK_MONOTONIC, when to replace the token */
    char *compute;    /* the URL of the compute API, without a slash at its end */
    unsigned minor;   /* the x of the microversion 2.x; 0 if it is not known yet */
};

/* One request and its answer. */
struct vg_nova_exchange {
    const char *what;   /* the name of the service in messages: "Keystone" */
    const char *method; /* "GET" */
    const char *url;
    const char *body;            /* JSON, or NULL */
    struct curl_slist *headers;  /* owned */
    long status;                 /* 0 if there was no answer */
    bool unsent;                 /* the request was not sent */
    json_object *document;       /* owned; NULL if the answer has none */
    char *token;                 /* the X-Subject-Token, owned, or NULL */
    char words[CURL_ERROR_SIZE]; /* libcurl's error text */
    GString *text;
    bool too_long;
};

/* Sends the request. Returns 0 with any status, or -1 and *err if there is no readable answer
 * (VG_E_TIMEOUT, VG_E_UNREACHABLE, VG_E_EXTERNAL) or vgpud is stopping (VG_E_CONFLICT). */
int vg_nova_exchange_do(const vg_nova *nova, struct vg_nova_exchange *exchange, GError **err);

/* Sets an error from the status and the answer's text. Returns -1. */
int vg_nova_exchange_refused(const struct vg_nova_exchange *exchange, GError **err);

void vg_nova_exchange_clear(struct vg_nova_exchange *exchange);

/* Sends a request to the compute API. path starts with a slash; body is JSON or NULL. Fills the
 * exchange, which the caller clears. Statuses other than 2xx are errors: VG_E_NOT_FOUND (404),
 * VG_E_CONFLICT (409), VG_E_DENIED (401, 403), VG_E_REFUSED (other 4xx), VG_E_BUSY (429),
 * VG_E_EXTERNAL (5xx). */
int vg_nova_ask(vg_nova *nova, const char *method, const char *path, const char *body,
                struct vg_nova_exchange *ret, GError **err);

/* Reads an object, which the caller releases with json_object_put(). */
int vg_nova_get(vg_nova *nova, const char *path, json_object **ret, GError **err);

/* Return members of an answer, or NULL or -1 if missing or of another type. Borrowed. */
json_object *vg_nova_member(json_object *object, const char *name);
const char *vg_nova_text(json_object *object, const char *name);
int64_t vg_nova_number(json_object *object, const char *name);

#endif
