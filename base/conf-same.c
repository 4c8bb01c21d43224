/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the values of a key in two configurations.
 */
#include "config.h"

#include <string.h>

#include "base/conf.h"

static size_t
conf_same_size(enum vg_conf_type type)
{
    switch (type) {
    case VG_CONF_DOUBLE:
        return sizeof(double);
    case VG_CONF_INT:
    case VG_CONF_COUNT:
    case VG_CONF_DURATION:
        return sizeof(int64_t);
    case VG_CONF_BOOL:
        return sizeof(bool);
    case VG_CONF_ENUM:
        return sizeof(int);
    case VG_CONF_STRING:
    case VG_CONF_TYPE_MAX:
        break;
    }
    return sizeof(char *);
}

bool
vg_conf_same(const struct vg_conf_key *key, const void *a, const void *b)
{
    const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
    char *x_string, *y_string;

    if (vg_conf_key_type(key) != VG_CONF_STRING)
        return memcmp(x, y, conf_same_size(vg_conf_key_type(key))) == 0;
    memcpy(&x_string, x, sizeof(x_string));
    memcpy(&y_string, y, sizeof(y_string));
    return strcmp(x_string, y_string) == 0;
}
