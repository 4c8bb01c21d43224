/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/remote-names.h"

#include <stddef.h>

const struct vg_remote_name vg_remote_names[VG_REMOTE_MAX] = {
    [VG_REMOTE_SOCKET] = {"socket", "VGPUCTL_SOCKET"},
    [VG_REMOTE_SERVER] = {"server", "VGPUCTL_SERVER"},
    [VG_REMOTE_TOKEN_FILE] = {"token-file", "VGPUCTL_TOKEN_FILE"},
    [VG_REMOTE_CACERT] = {"cacert", "VGPUCTL_CACERT"},
    [VG_REMOTE_CERT] = {"cert", "VGPUCTL_CERT"},
    [VG_REMOTE_KEY] = {"key", "VGPUCTL_KEY"},
};

const char *
vg_remote_args_given(const struct vg_remote_args *args)
{
    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        if (args->values[i])
            return vg_remote_names[i].option;
    }
    return args->context ? "context" : NULL;
}
