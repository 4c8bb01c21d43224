/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/location.h"

#include <string.h>
#include <strings.h>

#include <glib.h>

#define LOCATION "location:"

size_t
vg_client_take_location(char *line, size_t size, size_t n, void *location)
{
    char **ret = location;
    size_t length = size * n;

    if (ret && length > strlen(LOCATION) && strncasecmp(line, LOCATION, strlen(LOCATION)) == 0) {
        g_free(*ret);
        *ret = g_strstrip(g_strndup(line + strlen(LOCATION), length - strlen(LOCATION)));
    }
    return length;
}
