/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the body of an answer, up to a limit. One thread.
 */
#ifndef VG_CLUSTER_BODY_H
#define VG_CLUSTER_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>
#include <glib.h>

struct vg_body {
    GString *text;
    size_t max;    /* bytes */
    bool too_long; /* more bytes arrived, so the transfer has failed */
};

/* Makes a handle store received data in a body, which must outlive the transfer. The caller sets
 * body->max and frees body->text. */
void vg_body_receive(struct vg_body *body, CURL *curl);

#endif
