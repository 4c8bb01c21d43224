/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads members of a message from a guest. The guest is not trusted: members may be missing or of
 * any type, and texts are made printable. Pure.
 */
#ifndef VG_ACTUATORS_GUEST_WORDS_H
#define VG_ACTUATORS_GUEST_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

/* Makes one line of printable characters from a text, of at most max bytes; the caller frees it. */
char *vg_guest_words_clean(const char *text, size_t max);

/* Returns a cleaned string in an object, or NULL if missing; the caller frees it. */
char *vg_guest_words_text(json_object *object, const char *name, size_t max);

/* Returns a number limited to JSON's range, or 0 if missing. */
int64_t vg_guest_words_number(json_object *object, const char *name);

bool vg_guest_words_flag(json_object *object, const char *name);

/* Returns an object in a list, or NULL if missing; it belongs to the list. */
json_object *vg_guest_words_item(json_object *object, const char *list, size_t i);

#endif
