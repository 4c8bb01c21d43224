/* SPDX-License-Identifier: Apache-2.0
 *
 * Other names for GPU events. A user with a patched kernel can state which of its events and
 * fields correspond to the known ones. The text has the form described in vgpuctl-traces(5):
 *
 *     their_event=gvt_workload_queue(vm=vgpu_id,wl=workload) their_other=gvt_sched_switch
 *
 * An event with another name is read as the known event; fields without a mapping have their known
 * names. Immutable and reference-counted; any thread.
 */
#ifndef VG_TRACE_ALIAS_H
#define VG_TRACE_ALIAS_H

#include <glib.h>

#define VG_ALIAS_TEXT_MAX   4000
#define VG_ALIASES_MAX      64
#define VG_ALIAS_FIELDS_MAX 16
#define VG_ALIAS_NAME_MAX   127 /* bytes of a name */

typedef struct vg_aliases vg_aliases;
struct vg_alias;

/* Fails with VG_E_INVALID and names the error: a malformed part, a name that is not a GPU event, a
 * field that the event does not have, a duplicate name, or too many entries. Returns NULL without
 * *err if the text is empty. */
vg_aliases *vg_aliases_new(const char *text, GError **err);
vg_aliases *vg_aliases_ref(vg_aliases *aliases);
void vg_aliases_unref(vg_aliases *aliases);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_aliases, vg_aliases_unref)

/* Returns the meaning of an event with this name (without "system:"), or NULL if there is no
 * alias. aliases may be NULL. Valid as long as aliases is. */
const struct vg_alias *vg_aliases_find(const vg_aliases *aliases, const char *event_name);

/* Returns the known name of the event. */
const char *vg_alias_event(const struct vg_alias *alias);

/* Returns the alias's name for a known field, or NULL if it is the same. alias may be NULL. */
const char *vg_alias_field(const struct vg_alias *alias, const char *field);

#endif
