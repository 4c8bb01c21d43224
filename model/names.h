/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that events carry as small numbers: devices, engines and the comm of requesting threads. So
 * an event has a fixed size, and ledgers compare integers. A number is only meaningful together
 * with its table; a recording has one table for all its streams. One thread at a time.
 */
#ifndef VG_MODEL_NAMES_H
#define VG_MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* Maximum number of different names in a table, and the size of a name in bytes, NUL included.
 * Longer names are truncated. */
#define VG_NAMES_MAX 4096
#define VG_NAME_SIZE 64

/* The numbers of "" and of all names that arrived when the table was full. */
#define VG_NAME_NONE  0
#define VG_NAME_OTHER 1

typedef struct vg_names vg_names;

vg_names *vg_names_new(void);

/* Adds a reference. The table is freed when all references are released. */
vg_names *vg_names_ref(vg_names *names);
void vg_names_unref(vg_names *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_names, vg_names_unref)

/* Returns the number of a name, below VG_NAMES_MAX. The same name always has the same number. */
uint16_t vg_names_id(vg_names *names, const char *name);

/* Like vg_names_id(), for an optional name: returns VG_NAME_NONE if the name is new and half of the
 * table is in use. */
uint16_t vg_names_spare_id(vg_names *names, const char *name);

/* Returns "" for VG_NAME_NONE, and "other" for VG_NAME_OTHER and for unused numbers. The text is
 * valid as long as the table. */
const char *vg_names_text(const vg_names *names, uint16_t id);

#endif
