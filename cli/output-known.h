/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks which members of an object are known. The lists "unknown" and "bounds" of the object, or
 * of an object in it, name members by dotted paths.
 */
#ifndef VG_CLI_OUTPUT_KNOWN_H
#define VG_CLI_OUTPUT_KNOWN_H

#include <stdbool.h>

#include <json-c/json.h>

/* Returns the member at a dotted path, or NULL if it is missing or unknown. Borrowed. */
json_object *vg_output_known(json_object *row, const char *member);

/* Returns whether the member is a lower bound. */
bool vg_output_is_bound(json_object *row, const char *member);

#endif
