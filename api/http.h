/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd's callbacks for requests and answers.
 */
#ifndef VG_API_HTTP_H
#define VG_API_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include <microhttpd.h>

#include "api/request.h"
#include "api/worker.h"

enum http_phase { HTTP_NEW, HTTP_BODY, HTTP_JOB, HTTP_WAIT };

/* A request as libmicrohttpd sees it. */
struct http_exchange {
    struct vg_request request; /* must be first */
    struct MHD_Connection *connection;
    enum http_phase phase;
    const char *uri_end; /* in libmicrohttpd's buffer */
    bool uri_long;
    bool early; /* a refusal is sent before the body is read */
    size_t discarded;
};

/* The callbacks of a daemon; cls is the vg_api. */
void *http_on_uri(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **state);
void http_on_completed(void *cls, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode why);

/* The functions that suspend a connection while its job is waiting or running, and resume it. */
extern const struct vg_worker_hooks http_job_hooks;

#endif
