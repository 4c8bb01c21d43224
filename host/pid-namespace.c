/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/pid-namespace.h"

#include <sys/stat.h>

#include "base/error.h"

/* The inode of the pid namespace with the thread ids that the kernel uses (PROC_PID_INIT_INO of the
 * kernel's linux/proc_ns.h). */
#define INIT_PID_NAMESPACE 0xEFFFFFFCu

int
vg_pid_namespace_check(const char *proc, GError **err)
{
    struct stat ns;
    g_autofree char *path = g_strdup_printf("%s/self/ns/pid", proc);

    if (stat(path, &ns) == 0 && ns.st_ino != INIT_PID_NAMESPACE)
        return vg_error(err, VG_E_EXTERNAL,
                        "vgpud runs in its own PID namespace, where thread IDs differ from those "
                        "in the kernel's events; run it in the host's PID namespace");
    return 0;
}
