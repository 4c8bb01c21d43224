/* SPDX-License-Identifier: Apache-2.0
 *
 * Other names for GPU events: who traces with a patched kernel of their own says which of its
 * events mean which of ours, and which of their fields. Made from text as in vgpuctl-traces(5):
 *
 *     their_event=gvt_workload_queue(vm=vgpu_id,wl=workload) their_other=gvt_sched_switch
 *
 * An event of another name is what it would be under ours; fields that are not told are looked for
 * under our names. Immutable and counted; any thread.
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

/* VG_E_INVALID, naming what is wrong: a malformed part, a name that is no GPU event or none of its
 * fields, the same name twice, too many. NULL without *err: there is nothing in the text. */
vg_aliases *vg_aliases_new(const char *text, GError **err);
vg_aliases *vg_aliases_ref(vg_aliases *aliases);
void vg_aliases_unref(vg_aliases *aliases);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_aliases, vg_aliases_unref)

/* What an event of this name (without "system:") means; NULL: nothing is said of it. aliases may be
 * NULL. Good as long as these. */
const struct vg_alias *vg_aliases_find(const vg_aliases *aliases, const char *event_name);

/* Our name for the event. */
const char *vg_alias_event(const struct vg_alias *alias);

/* What a field of ours is called there, or NULL: the same. alias may be NULL. */
const char *vg_alias_field(const struct vg_alias *alias, const char *field);

#endif
