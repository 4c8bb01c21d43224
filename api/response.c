/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/response.h"

#include <microhttpd.h>

#include "api/sse.h"

#define STREAM_BLOCK 4096

/* The page may load only its own two files and its embedded icon, may connect only to its own
 * vgpud, and may not be framed. */
#define PAGE_POLICY                                                                                \
 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                   \
 "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static ssize_t
read_stream(void *cls, uint64_t pos, char *buffer, size_t max)
{
    (void)pos;
    ssize_t n = vg_stream_read(cls, buffer, max);

    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static void
unref_view(void *view)
{
    vg_view_unref(view);
}

/* The body is part of data. Frees data unless it returns NULL. */
static struct MHD_Response *
response_of(const struct vg_answer *answer, MHD_ContentReaderFreeCallback drop, void *data)
{
#if MHD_VERSION >= 0x00097302
    return MHD_create_response_from_buffer_with_free_callback_cls(answer->size, answer->body, drop,
                                                                  data);
#else
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->size, answer->body, MHD_RESPMEM_MUST_COPY);

    if (response)
        drop(data);
    return response;
#endif
}

static struct MHD_Response *
make_response(struct vg_request *request)
{
    struct vg_answer *answer = &request->answer;
    struct MHD_Response *response;

    if (request->streaming) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream,
                                                     request->wait, vg_wait_free);
        if (response)
            request->wait = NULL;
    } else if (answer->view) {
        response = response_of(answer, unref_view, answer->view);
        if (response)
            answer->view = NULL, answer->body = NULL;
    } else if (answer->body) {
        response = response_of(answer, g_free, answer->body);
        if (response)
            answer->body = NULL;
    } else {
        response = MHD_create_response_from_buffer(answer->fixed ? answer->size : 0,
                                                   (void *)(answer->fixed ? answer->fixed : ""),
                                                   MHD_RESPMEM_PERSISTENT);
    }
    return response;
}

static void
add_headers(struct MHD_Response *response, const struct vg_request *request)
{
    const struct vg_answer *answer = &request->answer;

    MHD_add_response_header(response, "X-Request-Id", request->request_id);
    if (request->openstack_id)
        MHD_add_response_header(response, "X-Openstack-Request-Id", request->request_id);
    if (answer->type)
        MHD_add_response_header(response, "Content-Type", answer->type);
    if (answer->etag[0])
        MHD_add_response_header(response, "ETag", answer->etag);
    MHD_add_response_header(response, "Cache-Control", answer->etag[0] ? "no-cache" : "no-store");
    if (answer->location)
        MHD_add_response_header(response, "Location", answer->location);
    if (answer->allow)
        MHD_add_response_header(response, "Allow", answer->allow);
    if (answer->retry_after_s > 0) {
        char text[16];
        g_snprintf(text, sizeof(text), "%d", answer->retry_after_s);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (answer->challenge)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"vgpud\"");
    if (answer->page) {
        MHD_add_response_header(response, "Content-Encoding", "gzip");
        MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
    if (answer->close)
        MHD_add_response_header(response, "Connection", "close");
}

struct MHD_Response *
vg_response_new(struct vg_request *request)
{
    struct MHD_Response *response = make_response(request);

    if (response)
        add_headers(response, request);
    return response;
}
