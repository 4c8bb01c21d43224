/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks host names, and finds them in etcd keys.
 */
#include "config.h"

#include <string.h>

#include "cluster/region-private.h"

#define NAME_MAX_BYTES 64

bool
vg_region_name_is_good(const char *name)
{
    const size_t length = strlen(name);

    if (length == 0 || length > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isalnum(name[i]) && !strchr(".-_", name[i]))
            return false;
    }
    return true;
}

const char *
region_name_in(const vg_region *region, const char *key, const char *directory)
{
    const char *rest = key + strlen(region->prefix);

    if (!g_str_has_prefix(rest, directory))
        return NULL;
    rest += strlen(directory);
    return vg_region_name_is_good(rest) ? rest : NULL;
}
