/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/body.h"

static size_t
body_take(char *bytes, size_t one, size_t n, void *data)
{
    struct vg_body *body = data;

    (void)one;
    body->too_long = body->text->len + n > body->max;
    if (body->too_long)
        return 0;
    g_string_append_len(body->text, bytes, (gssize)n);
    return n;
}

void
vg_body_receive(struct vg_body *body, CURL *curl)
{
    body->text = g_string_new(NULL);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
}
