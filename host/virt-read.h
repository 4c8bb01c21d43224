/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the state of a whole host through one libvirt connection. One thread; every call may block
 * as long as libvirt does.
 */
#ifndef VG_HOST_VIRT_READ_H
#define VG_HOST_VIRT_READ_H

#include <stdbool.h>

#include <glib.h>
#include <libvirt/libvirt.h>

#include "model/inventory.h"

typedef struct vg_virt_reader vg_virt_reader;

/* Creates a reader. sys and proc are "/sys" and "/proc" except in tests; they provide facts that
 * libvirt does not report about this machine. */
vg_virt_reader *vg_virt_reader_new(const char *uri, const char *host_name, const char *sys,
                                   const char *proc);
void vg_virt_reader_free(vg_virt_reader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_virt_reader, vg_virt_reader_free)

/* Drops the cached data about the host. Called after a new connection or a change of devices. */
void vg_virt_reader_forget_host(vg_virt_reader *reader);
void vg_virt_reader_forget_devices(vg_virt_reader *reader);

/* Reads everything. Returns NULL if the connection does not answer. *ret_missing describes any data
 * that could not be read, or is NULL. Small changes of free memory are ignored, because otherwise
 * every read would report a change. */
vg_inventory *vg_virt_read(vg_virt_reader *reader, virConnectPtr connection, char **ret_missing,
                           GError **err);

/* Returns whether the last read could not list devices for the reason of vg_virt_devices_cut(). */
bool vg_virt_reader_is_cut(const vg_virt_reader *reader);

#endif
