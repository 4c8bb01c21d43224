/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/free-up.h"

#include <string.h>

#include "base/error.h"
#include "model/gpu-part.h"

#define DIGITS "0123456789"

/* Finds the colon before the number of slots. Returns NULL if the text has no such number. */
static const char *
free_up_find_number(const char *text)
{
    const char *colon = strrchr(text, ':');

    if (!colon || vg_gpu_type_is_whole(text) || colon[1] == '\0' ||
        strspn(colon + 1, DIGITS) != strlen(colon + 1))
        return NULL;
    return colon;
}

int
vg_free_up_parse(const char *text, char **ret_type, int64_t *ret_n, GError **err)
{
    const char *colon = free_up_find_number(text);
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    int64_t n = 1;

    if (length == 0 || strlen(text) > VG_FREE_UP_TEXT_MAX)
        return vg_error(
            err, VG_E_INVALID,
            "'%.40s' does not name a vGPU type; the form is TYPE or TYPE:N, with at most %d bytes",
            text, VG_FREE_UP_TEXT_MAX);
    if (colon && !g_ascii_string_to_signed(colon + 1, 10, 1, VG_FREE_UP_MAX, &n, NULL))
        return vg_error(err, VG_E_INVALID, "'%s': the number of slots must be 1 to %d", text,
                        VG_FREE_UP_MAX);
    *ret_type = g_strndup(text, length);
    *ret_n = n;
    return 0;
}

char *
vg_free_up_text(const char *type, int64_t n)
{
    return g_strdup_printf("%s:%" G_GINT64_FORMAT, type, n);
}
