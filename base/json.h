/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading and stable writing of JSON, on json-c. Reading goes through nodes that know where
 * they are, so that every error names its path ("hosts[2].vms[0].name"). json-c keeps only the last
 * of two members with the same name and cannot tell that there were two: no decision may rest on
 * the first. Any thread; a json_object tree belongs to one thread at a time.
 */
#ifndef VG_BASE_JSON_H
#define VG_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

/* Integers read and written stay inside +-2^62, so that sums and differences of two fit. */
#define VG_JSON_INT_MAX (INT64_C(1) << 62)

enum vg_json_need { VG_JSON_REQUIRED, VG_JSON_OPTIONAL };

/* A place in a document. Lives on the reader's stack; parent and member are borrowed. */
struct vg_json_node {
    json_object *value; /* borrowed */
    const struct vg_json_node *parent;
    const char *member; /* NULL: item `index` of the parent */
    size_t index;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_object, json_object_put)

/* Parses one JSON value, but not null, that fills the whole buffer but for white space. max_depth
 * counts nested, not empty, objects and arrays. VG_E_INVALID with the byte offset on what json-c's
 * strict mode does not take (comments, trailing commas, ...), NUL bytes, invalid UTF-8, more than
 * max_size bytes or deeper nesting. The caller puts the result. */
json_object *vg_json_parse(const char *text, size_t size, size_t max_size, int max_depth,
                           GError **err);

/* The top of a document. */
struct vg_json_node vg_json_root(json_object *value);

/* Item i of a node that holds an array (i < vg_json_length()). */
struct vg_json_node vg_json_item(const struct vg_json_node *array, size_t i);
size_t vg_json_length(const struct vg_json_node *array);

/* "hosts[2].vms[0].name", "(document)" for the root; the caller frees it. */
char *vg_json_path(const struct vg_json_node *node);

/* A value that is of the type and inside the range, or VG_E_INVALID that names path and range. */
int vg_json_int64(const struct vg_json_node *node, int64_t min, int64_t max, int64_t *ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_double(const struct vg_json_node *node, double min, double max, double *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_bool(const struct vg_json_node *node, bool *ret,
                 GError **err) G_GNUC_WARN_UNUSED_RESULT;
/* At most max_bytes, no NUL inside; *ret is borrowed from the document. */
int vg_json_string(const struct vg_json_node *node, size_t max_bytes, const char **ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_object(const struct vg_json_node *node, GError **err) G_GNUC_WARN_UNUSED_RESULT;
int vg_json_array(const struct vg_json_node *node, size_t max_items,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Member `name` of an object: 1 found and *ret filled, 0 absent or null and OPTIONAL, -1 and *err
 * when it is REQUIRED and absent or null, or the node is no object. name is borrowed. */
int vg_json_member(const struct vg_json_node *object, const char *name, enum vg_json_need need,
                   struct vg_json_node *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Writing. A double is rounded to 6 decimals, with at least one ("0.25", "1.0"), so that output is
 * the same everywhere; what is not finite becomes null. A NULL string becomes null; bytes that are
 * not UTF-8 become U+FFFD. */
void vg_json_add(json_object *object, const char *name, json_object *take_value);
void vg_json_add_int64(json_object *object, const char *name, int64_t value);
void vg_json_add_double(json_object *object, const char *name, double value);
void vg_json_add_bool(json_object *object, const char *name, bool value);
void vg_json_add_string(json_object *object, const char *name, const char *value);
void vg_json_append(json_object *array, json_object *take_value);
json_object *vg_json_new_double(double value);
json_object *vg_json_new_string(const char *value);

#define VG_JSON_DOUBLE_LEN 336 /* -1.8e308 in digits, the point, 6 decimals and a NUL */

/* The text of a finite double as above; returns buf. */
const char *vg_json_format_double(char buf[VG_JSON_DOUBLE_LEN], double value);

/* The document as text with a newline at its end, pretty or on one line; the caller frees it. */
char *vg_json_to_text(json_object *value, bool pretty);

#endif
