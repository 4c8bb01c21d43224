/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that events carry as small numbers, so that an event has a fixed size and ledgers compare
 * integers: devices, engines, the comm of who asks. A number means something only together with
 * its table; a recording has one for all its streams. One thread at a time.
 */
#ifndef VG_MODEL_NAMES_H
#define VG_MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* Different names in one table, and bytes of one, NUL included; what is longer is cut. */
#define VG_NAMES_MAX 4096
#define VG_NAME_SIZE 64

/* Of "", and of all names that came when the table was full. */
#define VG_NAME_NONE  0
#define VG_NAME_OTHER 1

typedef struct vg_names vg_names;

vg_names *vg_names_new(void);

/* One more holder of the same table, which lasts until each has let it go. */
vg_names *vg_names_ref(vg_names *names);
void vg_names_unref(vg_names *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_names, vg_names_unref)

/* The number of a name, below VG_NAMES_MAX; the same for the same name. */
uint16_t vg_names_id(vg_names *names, const char *name);

/* The same for a name that can be done without: VG_NAME_NONE if it is new and half of the room is
 * taken. */
uint16_t vg_names_spare_id(vg_names *names, const char *name);

/* "" for VG_NAME_NONE, "other" for VG_NAME_OTHER and for a number that no name has. Good as long
 * as the table. */
const char *vg_names_text(const vg_names *names, uint16_t id);

#endif
