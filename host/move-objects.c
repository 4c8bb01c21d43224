/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/move-objects.h"

#include <string.h>

#include "host/xml-walk.h"

#define NAME_BYTES_MAX 1024
#define OBJECTS_MAX    256
#define DEPTH_MAX      64

/* An attribute of an element that names an object, if the element's parent has this name. */
static const struct {
    const char *parent, *element, *attribute;
    enum vg_move_object_kind kind;
} object_rows[] = {
    {"interface", "source", "network", VG_MOVE_NETWORK},
    {"graphics", "listen", "network", VG_MOVE_NETWORK},
    {"disk", "source", "pool", VG_MOVE_POOL},
    {"backingStore", "source", "pool", VG_MOVE_POOL},
    {"auth", "secret", "uuid", VG_MOVE_SECRET},
    {"encryption", "secret", "uuid", VG_MOVE_SECRET},
    {"backend", "encryption", "secret", VG_MOVE_SECRET}, /* of a TPM */
    {"interface", "filterref", "filter", VG_MOVE_FILTER},
};

static void
object_free(void *free_object)
{
    struct vg_move_object *object = free_object;

    g_free(object->name);
    g_free(object->element);
    g_free(object);
}

static void
object_add(GPtrArray *objects, enum vg_move_object_kind kind, char *take_name, const xmlNode *node)
{
    struct vg_move_object *object = g_new0(struct vg_move_object, 1);
    bool known = objects->len >= OBJECTS_MAX;

    object->kind = kind;
    object->name = take_name;
    object->element = g_strdup_printf("%s/%s", node->parent->name, node->name);
    for (unsigned i = 0; i < objects->len && !known; i++) {
        const struct vg_move_object *other = objects->pdata[i];
        known = other->kind == kind && strcmp(other->name, object->name) == 0;
    }
    if (known)
        object_free(object);
    else
        g_ptr_array_add(objects, object);
}

static void
object_walk(const xmlNode *node, unsigned depth, GPtrArray *objects)
{
    for (size_t i = 0; i < G_N_ELEMENTS(object_rows); i++) {
        char *name = strcmp((const char *)node->name, object_rows[i].element) == 0 &&
                             strcmp((const char *)node->parent->name, object_rows[i].parent) == 0
                         ? vg_xml_attribute(node, object_rows[i].attribute, NAME_BYTES_MAX)
                         : NULL;
        if (name)
            object_add(objects, object_rows[i].kind, name, node);
    }
    for (const xmlNode *child = node->children; child && depth < DEPTH_MAX; child = child->next)
        if (child->type == XML_ELEMENT_NODE)
            object_walk(child, depth + 1, objects);
}

GPtrArray *
move_objects_read(const xmlNode *domain)
{
    GPtrArray *objects = g_ptr_array_new_with_free_func(object_free);
    const xmlNode *devices = vg_xml_child(domain, "devices");

    if (devices)
        object_walk(devices, 0, objects);
    return objects;
}
