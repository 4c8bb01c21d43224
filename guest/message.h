/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes messages for the host, and the lines that carry them. Any process of the agent.
 */
#ifndef VG_GUEST_MESSAGE_H
#define VG_GUEST_MESSAGE_H

#include <json-c/json.h>

#include "guest/request.h"

/* The maximum length of a line to the host in bytes, without its newline. */
#define VG_GUEST_ANSWER_MAX 131072

/* Creates a message about a request, whose id may be 0 if it is unknown. The caller puts it. */
json_object *vg_guest_message(int64_t id, const char *type);

/* Makes a line from an error, whose message it cleans. The caller frees it. */
char *vg_guest_error_line(int64_t id, enum vg_guest_code code, const char *message);

/* Makes a line of JSON, and frees the object. A line that is too long becomes an error. */
char *vg_guest_object_line(json_object *take_object);

/* Moves the members of take_more, which may be NULL, into object. */
void vg_guest_message_add(json_object *object, json_object *take_more);

#endif
