/* SPDX-License-Identifier: Apache-2.0
 *
 * The web page, which every client that can connect may load. Any thread.
 */
#ifndef VG_API_PAGE_H
#define VG_API_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/request.h"

/* Redirects a browser's request for `/` to the page, depending on its Accept field (or NULL).
 * Programs receive the API versions there. */
void vg_page_redirect(struct vg_request *request, const char *accept);

/* Returns whether the path is a file of the page. */
bool vg_page_is_part(const char *path, size_t size);

#endif
