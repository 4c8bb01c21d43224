/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading and stable writing of JSON, based on json-c. Documents are read through nodes that
 * know their position, so that every error names its path ("hosts[2].vms[0].name"). If two members
 * have the same name, json-c only keeps the last, and cannot report that there were two, so no
 * decision may depend on the first. Any thread; a json_object tree belongs to one thread at a time.
 */
#ifndef VG_BASE_JSON_H
#define VG_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

/* Integers are limited to +-2^62 when they are read and when they are written, so that sums and
 * differences of two of them cannot overflow. */
#define VG_JSON_INT_MAX (INT64_C(1) << 62)

enum vg_json_need { VG_JSON_REQUIRED, VG_JSON_OPTIONAL };

/* A place in a document. Nodes are on the reader's stack; parent and member are borrowed. */
struct vg_json_node {
    json_object *value; /* borrowed */
    const struct vg_json_node *parent;
    const char *member; /* NULL for item `index` of the parent */
    size_t index;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_object, json_object_put)

/* Parses one JSON value other than null. Apart from white space, the buffer must contain nothing
 * else. max_depth counts nested objects and non-empty arrays. Fails with VG_E_INVALID and the byte
 * offset if the text contains anything that json-c's strict mode rejects (comments, trailing
 * commas, ...), NUL bytes, invalid UTF-8, more than max_size bytes, or deeper nesting. The caller
 * releases the result with json_object_put(). */
json_object *vg_json_parse(const char *text, size_t size, size_t max_size, int max_depth,
                           GError **err);

/* Returns the top of a document. */
struct vg_json_node vg_json_root(json_object *value);

/* Returns item i of an array node (i < vg_json_length()). */
struct vg_json_node vg_json_item(const struct vg_json_node *array, size_t i);
size_t vg_json_length(const struct vg_json_node *array);

/* Returns "hosts[2].vms[0].name", or "(document)" for the root; the caller frees it. */
char *vg_json_path(const struct vg_json_node *node);

/* These functions read a value of the type and within the range. They fail with VG_E_INVALID, and
 * give the path and the range in the message. */
int vg_json_int64(const struct vg_json_node *node, int64_t min, int64_t max, int64_t *ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_double(const struct vg_json_node *node, double min, double max, double *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_bool(const struct vg_json_node *node, bool *ret,
                 GError **err) G_GNUC_WARN_UNUSED_RESULT;
/* Reads a string of at most max_bytes without a NUL; *ret is borrowed from the document. */
int vg_json_string(const struct vg_json_node *node, size_t max_bytes, const char **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_object(const struct vg_json_node *node, GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_array(const struct vg_json_node *node, size_t max_items,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Finds member `name` of an object. Returns 1 and fills *ret if the member exists. Returns 0 if it
 * is OPTIONAL, and absent or null. Returns -1 and sets *err if it is REQUIRED, and absent or null,
 * or if the node is not an object. name is borrowed. */
int vg_json_member(const struct vg_json_node *object, const char *name, enum vg_json_need need,
                   struct vg_json_node *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* These functions add a member. A double is rounded to 6 decimals, with at least one ("0.25",
 * "1.0"), so that output is the same everywhere. A number that is not finite becomes null. A NULL
 * string becomes null, and bytes that are not valid UTF-8 become U+FFFD. */
void vg_json_add(json_object *object, const char *name, json_object *take_value);
void vg_json_add_int64(json_object *object, const char *name, int64_t value);
void vg_json_add_double(json_object *object, const char *name, double value);
void vg_json_add_bool(json_object *object, const char *name, bool value);
void vg_json_add_string(json_object *object, const char *name, const char *value);
void vg_json_append(json_object *array, json_object *take_value);
json_object *vg_json_new_double(double value);
json_object *vg_json_new_string(const char *value);

/* Size of the text of -1.8e308: digits, the point, 6 decimals and a NUL. */
#define VG_JSON_DOUBLE_LEN 336

/* Formats a finite double as vg_json_add_double() does; returns buf. */
const char *vg_json_format_double(char buf[VG_JSON_DOUBLE_LEN], double value);

/* Returns the document as text that ends with a newline, pretty or on one line; the caller frees
 * it. */
char *vg_json_to_text(json_object *value, bool pretty);

#endif
