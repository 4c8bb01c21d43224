/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole of a host as one libvirt connection shows it. One thread; every call may block as long
 * as libvirt does.
 */
#ifndef VG_HOST_VIRT_READ_H
#define VG_HOST_VIRT_READ_H

#include <glib.h>
#include <libvirt/libvirt.h>

#include "model/inventory.h"

typedef struct vg_virt_reader vg_virt_reader;

/* sys and proc: "/sys" and "/proc" but in tests; of them comes what libvirt does not tell of this
 * machine. */
vg_virt_reader *vg_virt_reader_new(const char *uri, const char *host_name, const char *sys,
                                   const char *proc);
void vg_virt_reader_free(vg_virt_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_reader, vg_virt_reader_free)

/* A new connection, or other devices: what was remembered of them is looked up again. */
void vg_virt_reader_forget_host(vg_virt_reader *reader);
void vg_virt_reader_forget_devices(vg_virt_reader *reader);

/* Everything; NULL if the connection does not tell. *ret_missing is what could not be had besides,
 * or NULL. Free memory is given as it was, while it moves by little: what changes all the time is
 * no news. */
vg_inventory *vg_virt_read(vg_virt_reader *reader, virConnectPtr connection, char **ret_missing,
                           GError **err);

#endif
