/* SPDX-License-Identifier: Apache-2.0
 *
 * What of an object is known: the lists "unknown" and "bounds" of the object, or of one in it, name
 * members by dotted paths.
 */
#ifndef VG_CLI_OUTPUT_KNOWN_H
#define VG_CLI_OUTPUT_KNOWN_H

#include <stdbool.h>

#include <json-c/json.h>

/* Returns the member that a dotted path leads to; NULL: it is not there, or unknown. Borrowed. */
json_object *vg_output_known(json_object *row, const char *member);

/* Tells whether the member is a lower bound. */
bool vg_output_is_bound(json_object *row, const char *member);

#endif
