/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the paths that a running domain uses. Pure; any thread.
 */
#ifndef VG_HOST_MOVE_PATHS_H
#define VG_HOST_MOVE_PATHS_H

#include <glib.h>
#include <libxml/tree.h>

/* Appends (struct vg_path_need) what a host must have to run the domain: disks with their backing
 * files, media, firmware and kernel, what its devices are made of, each path once. */
void move_paths_read(const xmlNode *domain, GPtrArray *paths);

#endif
