/* SPDX-License-Identifier: Apache-2.0
 *
 * Build tool: prints a C source that holds files as strings.
 *     embed NAME=FILE... > out.c
 * makes `const char NAME[]` and `const size_t NAME_size` (without the NUL). A FILE that ends in
 * .yaml becomes JSON on one line.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <json-c/json.h>
#include <yaml.h>

static json_object *convert(yaml_document_t *doc, yaml_node_t *node);

G_GNUC_PRINTF(1, 2)
static _Noreturn void
embed_fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fprintf(stderr, "embed: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

/* YAML 1.2's core schema, as far as a contract needs it. */
static json_object *
convert_scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    char *end;

    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return json_object_new_string(text);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_object_new_boolean(text[0] == 't');
    if (strcmp(text, "null") == 0 || strcmp(text, "~") == 0 || !*text)
        return NULL;
    if (isdigit((unsigned char)*text) || (*text == '-' && isdigit((unsigned char)text[1]))) {
        errno = 0;
        long long number = strtoll(text, &end, 10);
        if (!*end && errno == 0)
            return json_object_new_int64(number);
        double real = g_ascii_strtod(text, &end);
        if (!*end)
            return json_object_new_double_s(real, text);
    }
    return json_object_new_string(text);
}

static json_object *
convert_mapping(yaml_document_t *doc, const yaml_node_t *node)
{
    json_object *object = json_object_new_object();

    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
        if (key->type != YAML_SCALAR_NODE)
            embed_fail("line %zu: a key that is no text", key->start_mark.line + 1);
        const char *name = (const char *)key->data.scalar.value;
        if (json_object_object_get_ex(object, name, NULL))
            embed_fail("line %zu: '%s' appears twice", key->start_mark.line + 1, name);
        json_object_object_add(object, name,
                               convert(doc, yaml_document_get_node(doc, pair->value)));
    }
    return object;
}

static json_object *
convert(yaml_document_t *doc, yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return convert_scalar(node);
    case YAML_MAPPING_NODE:
        return convert_mapping(doc, node);
    case YAML_SEQUENCE_NODE: {
        json_object *array = json_object_new_array();
        for (yaml_node_item_t *item = node->data.sequence.items.start;
             item < node->data.sequence.items.top; item++)
            json_object_array_add(array, convert(doc, yaml_document_get_node(doc, *item)));
        return array;
    }
    case YAML_NO_NODE:
        break;
    }
    return NULL;
}

static char *
yaml_to_json(const char *path, const char *text, size_t size)
{
    yaml_parser_t parser;
    yaml_document_t doc;

    yaml_parser_initialize(&parser);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, &doc))
        embed_fail("%s:%zu: %s", path, parser.problem_mark.line + 1, parser.problem);
    json_object *object = convert(&doc, yaml_document_get_root_node(&doc));
    char *json = g_strdup(json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return json;
}

/* As numbers, because compilers limit the length of string literals. */
static void
print_bytes(const char *name, const char *text, size_t size)
{
    printf("const char %s[] = {", name);
    for (size_t i = 0; i < size; i++)
        printf("%s%d,", i % 24 == 0 ? "\n" : "", (signed char)text[i]);
    printf("0};\nconst size_t %s_size = sizeof(%s) - 1;\n\n", name, name);
}

int
main(int argc, char **argv)
{
    printf(
        "/* Made by schema/embed. */\n#include \"config.h\"\n\n#include \"schema/schema.h\"\n\n");
    for (int i = 1; i < argc; i++) {
        g_auto(GStrv) parts = g_strsplit(argv[i], "=", 2);
        g_autofree char *text = NULL;
        size_t size;
        if (!parts[0] || !parts[1] || !g_file_get_contents(parts[1], &text, &size, NULL))
            embed_fail("cannot read '%s'", argv[i]);
        if (g_str_has_suffix(parts[1], ".yaml")) {
            g_autofree char *json = yaml_to_json(parts[1], text, size);
            print_bytes(parts[0], json, strlen(json));
        } else {
            print_bytes(parts[0], text, size);
        }
    }
    if (fflush(stdout) != 0)
        embed_fail("cannot write");
    return 0;
}
