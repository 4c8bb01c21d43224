/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the objects of libvirt that a domain uses: networks, pools, secrets and filters. Pure; any
 * thread.
 */
#ifndef VG_HOST_MOVE_OBJECTS_H
#define VG_HOST_MOVE_OBJECTS_H

#include <glib.h>
#include <libxml/tree.h>

enum vg_move_object_kind {
    VG_MOVE_NETWORK,
    VG_MOVE_POOL,
    VG_MOVE_SECRET, /* its name is its UUID */
    VG_MOVE_FILTER, /* a filter for packets */
    VG_MOVE_OBJECT_MAX
};

struct vg_move_object {
    enum vg_move_object_kind kind;
    char *name;
    char *element; /* that names it, "interface/source" */
};

/* Returns struct vg_move_object, each once. The caller frees them with the array. */
GPtrArray *move_objects_read(const xmlNode *domain);

#endif
