/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/output-yaml.h"

#include <stdbool.h>
#include <string.h>

#include <yaml.h>

#include "base/error.h"

static int
output_yaml_append(void *data, unsigned char *bytes, size_t size)
{
    g_string_append_len(data, (const char *)bytes, (gssize)size);
    return 1;
}

static bool output_yaml_emit(yaml_emitter_t *emitter, json_object *value);

static bool
emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
    yaml_event_t event;

    /* libyaml 0.2.2 takes text that it only reads as not const. */
    return yaml_scalar_event_initialize(
               &event, NULL, NULL, (yaml_char_t *)text, (int)strlen(text), !quoted, quoted,
               quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE) &&
           yaml_emitter_emit(emitter, &event);
}

static bool
emit_object(yaml_emitter_t *emitter, json_object *object)
{
    yaml_event_t event;

    if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) ||
        !yaml_emitter_emit(emitter, &event))
        return false;
    json_object_object_foreach(object, name, value)
    {
        if (!emit_scalar(emitter, name, strpbrk(name, ":-# ") != NULL) ||
            !output_yaml_emit(emitter, value))
            return false;
    }
    return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool
emit_array(yaml_emitter_t *emitter, json_object *array)
{
    yaml_event_t event;

    if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) ||
        !yaml_emitter_emit(emitter, &event))
        return false;
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        if (!output_yaml_emit(emitter, json_object_array_get_idx(array, i)))
            return false;
    }
    return yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool
output_yaml_emit(yaml_emitter_t *emitter, json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object:
        return emit_object(emitter, value);
    case json_type_array:
        return emit_array(emitter, value);
    case json_type_string: /* quoted, so that "no" and "1e3" remain strings */
        return emit_scalar(emitter, json_object_get_string(value), true);
    case json_type_null:
        return emit_scalar(emitter, "null", false);
    case json_type_boolean:
    case json_type_double:
    case json_type_int:
        break;
    }
    return emit_scalar(emitter, json_object_to_json_string(value), false);
}

static bool
emit_document(yaml_emitter_t *emitter, json_object *doc)
{
    yaml_event_t event;

    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
           yaml_emitter_emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
           yaml_emitter_emit(emitter, &event) && output_yaml_emit(emitter, doc) &&
           yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

char *
vg_yaml_to_text(json_object *doc, GError **err)
{
    GString *text = g_string_new(NULL);
    yaml_emitter_t emitter;

    yaml_emitter_initialize(&emitter);
    yaml_emitter_set_output(&emitter, output_yaml_append, text);
    yaml_emitter_set_unicode(&emitter, 1);
    bool written = emit_document(&emitter, doc);
    if (!written)
        vg_error(err, VG_E_EXTERNAL, "cannot write YAML: %s",
                 emitter.problem ? emitter.problem : "unknown");
    yaml_emitter_delete(&emitter);
    char *result = g_string_free(text, !written);
    return written ? result : NULL;
}
