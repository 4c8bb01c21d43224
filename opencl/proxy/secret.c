/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/secret.h"

#include <stdio.h>
#include <sys/stat.h>

#include "opencl/base/say.h"

bool
vg_secret_is_open(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO) != 0;
}

bool
vg_secret_fault(const char *path, const char *what, char fault[VG_SECRET_FAULT])
{
    if (!vg_secret_is_open(path))
        return false;
    snprintf(fault, VG_SECRET_FAULT,
             "all users of this machine can read '%s', which holds %s; run `chmod o= %s`", path,
             what, path);
    return true;
}

void
vg_secret_warn(const char *path, const char *what)
{
    char fault[VG_SECRET_FAULT];

    if (vg_secret_fault(path, what, fault))
        vg_cl_say("%s", fault);
}
