/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl proxy show: all that there is to one VM at vgpu-proxy.
 */
#ifndef VG_CLI_PROXY_SHOW_H
#define VG_CLI_PROXY_SHOW_H

#include "cli/output.h"
#include "client/client.h"

/* Asks about the VM of this name or UUID, and prints what the answer says. */
int vg_proxy_show_vm(vg_client *client, const char *vm, enum vg_output_format format, GError **err);

#endif
