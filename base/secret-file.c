/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/secret-file.h"

#include <sys/stat.h>

#include <glib.h>

char *
vg_secret_file_fault(const char *path, const char *what)
{
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & S_IRWXO) == 0)
        return NULL;
    return g_strdup_printf("all users of this machine can read '%s', which holds %s; run `chmod o= "
                           "%s`",
                           path, what, path);
}
