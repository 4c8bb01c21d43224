/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON document as YAML, written by libyaml's emitter.
 */
#ifndef VG_CLI_OUTPUT_YAML_H
#define VG_CLI_OUTPUT_YAML_H

#include <glib.h>
#include <json-c/json.h>

/* The caller frees the text; NULL and *err if libyaml fails. */
char *vg_yaml_to_text(json_object *doc, GError **err);

#endif
