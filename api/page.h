/* SPDX-License-Identifier: Apache-2.0
 *
 * The page for browsers, which anybody may have who may connect. Any thread.
 */
#ifndef VG_API_PAGE_H
#define VG_API_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/request.h"

/* Has a request for `/` of a browser, by its field Accept (or NULL), ask for the page. Programs get
 * the versions of the interface there. */
void vg_page_redirect(struct vg_request *request, const char *accept);

/* Tells if the path is a file of the page. */
bool vg_page_is_part(const char *path, size_t size);

#endif
