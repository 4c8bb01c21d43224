/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "api/route.h"

static const struct {
    const char *member;
    const char *allow;
    const char *names[2];
} methods[VG_METHOD_MAX] = {
    [VG_GET] = {"get", "GET, HEAD, ", {"GET", "HEAD"}},
    [VG_POST] = {"post", "POST, ", {"POST"}},
    [VG_ASK] = {"post", "POST, ", {"POST"}},
    [VG_DELETE] = {"delete", "DELETE, ", {"DELETE"}},
};

const char *
vg_method_member(enum vg_method method)
{
    return methods[method].member;
}

const char *
vg_method_allow(enum vg_method method)
{
    return methods[method].allow;
}

bool
vg_method_has(enum vg_method method, const char *name)
{
    const char *const *names = methods[method].names;

    return strcmp(name, names[0]) == 0 || (names[1] && strcmp(name, names[1]) == 0);
}
