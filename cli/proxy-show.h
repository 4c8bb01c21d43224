/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl proxy show: the details of one VM that uses vgpu-proxy.
 */
#ifndef VG_CLI_PROXY_SHOW_H
#define VG_CLI_PROXY_SHOW_H

#include "cli/output.h"
#include "client/client.h"

/* Queries the VM with this name or UUID, and prints the answer. */
int vg_proxy_show_vm(vg_client *client, const char *vm, enum vg_output_format format, GError **err);

#endif
