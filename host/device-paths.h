/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the paths that the devices of a domain use, apart from disks. Pure; any thread.
 */
#ifndef VG_HOST_DEVICE_PATHS_H
#define VG_HOST_DEVICE_PATHS_H

#include <glib.h>
#include <libxml/tree.h>

#include "model/path.h"

/* Calls add with the need of each path, which is valid until add returns. */
void device_paths_read(const xmlNode *domain, GPtrArray *paths,
                       void (*add)(GPtrArray *paths, const struct vg_path_need *need));

#endif
