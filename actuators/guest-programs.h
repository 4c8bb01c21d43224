/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the agent's data about programs that use the guest's GPUs. The guest is not trusted: see
 * actuators/guest-words.h. Pure.
 */
#ifndef VG_ACTUATORS_GUEST_PROGRAMS_H
#define VG_ACTUATORS_GUEST_PROGRAMS_H

#include <glib.h>
#include <json-c/json.h>

#include "model/migration.h"

/* Adds the programs in a message, or in a provider's part of a status: its member `programs`, or
 * `cuda` from the first agents. *ret_programs may be NULL, and remains NULL without programs. */
void vg_guest_programs_add(json_object *object, struct vg_guest_programs **ret_programs);

/* Appends "; 2 programs with 80 MiB of GPU memory". */
void vg_guest_programs_append(GString *text, const struct vg_guest_programs *programs);

#endif
