/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the web page: three files built from web/, compressed within the program. They contain no
 * figures: the page requests these through the API with its user's token.
 */
#include "config.h"

#include <string.h>

#include "api/page.h"
#include "api/route.h"
#include "schema/schema.h"

#define PAGE "/ui"

static void
page_answer(struct vg_request *request, const char *type, const char *bytes, size_t size)
{
    g_autofree char *sum =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)bytes, size);
    g_autofree char *etag = g_strdup_printf("\"%.32s\"", sum);

    vg_answer_fixed(request, type, bytes, size);
    request->answer.page = true;
    vg_answer_etag(request, etag);
}

void
vg_handle_page(struct vg_request *request)
{
    page_answer(request, "text/html; charset=utf-8", vg_page_html, vg_page_html_size);
}

void
vg_handle_page_script(struct vg_request *request)
{
    page_answer(request, "text/javascript; charset=utf-8", vg_page_js, vg_page_js_size);
}

void
vg_handle_page_style(struct vg_request *request)
{
    page_answer(request, "text/css; charset=utf-8", vg_page_css, vg_page_css_size);
}

void
vg_page_redirect(struct vg_request *request, const char *accept)
{
    const char *html = accept ? strstr(accept, "text/html") : NULL;

    if (!html || strcmp(request->uri, "/") != 0)
        return;
    g_free(request->uri);
    request->uri = g_strdup(PAGE);
}

bool
vg_page_is_part(const char *path, size_t size)
{
    static const char *const parts[] = {PAGE, PAGE "/app.js", PAGE "/app.css"};

    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        if (size == strlen(parts[i]) && memcmp(path, parts[i], size) == 0)
            return true;
    }
    return false;
}
