/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/nova-specs.h"

#include <string.h>

#include "model/score.h"

#define GPUS_MAX   64
#define GROUPS_MAX 64
#define SUFFIX_MAX 64
#define TRAITS_MAX 64
#define TYPE_MAX   64

/* A group of resources from one provider. The group without a suffix is "". */
struct specs_group {
    char *suffix;
    int64_t gpus;
    GPtrArray *required, *forbidden; /* const char *: traits, borrowed from the document */
};

struct specs {
    GPtrArray *groups; /* struct specs_group */
    bool counted;      /* whether a group has a number of vGPUs */
};

static void
specs_group_free(void *data)
{
    struct specs_group *group = data;

    g_ptr_array_unref(group->required);
    g_ptr_array_unref(group->forbidden);
    g_free(group->suffix);
    g_free(group);
}

/* Finds or adds a group. Returns NULL if there are too many. */
static struct specs_group *
specs_need_group(struct specs *specs, const char *suffix, size_t size)
{
    for (guint i = 0; i < specs->groups->len; i++) {
        struct specs_group *group = specs->groups->pdata[i];
        if (strlen(group->suffix) == size && strncmp(group->suffix, suffix, size) == 0)
            return group;
    }
    if (specs->groups->len == GROUPS_MAX)
        return NULL;
    struct specs_group *group = g_new0(struct specs_group, 1);
    group->suffix = g_strndup(suffix, size);
    group->required = g_ptr_array_new();
    group->forbidden = g_ptr_array_new();
    g_ptr_array_add(specs->groups, group);
    return group;
}

/* Finds the group of a key "WORDsuffix:NAME", and its NAME. Returns NULL if the key has a different
 * form. */
static struct specs_group *
specs_find_group(struct specs *specs, const char *key, const char *word, const char **ret_name)
{
    const char *suffix = g_str_has_prefix(key, word) ? key + strlen(word) : NULL;
    const size_t size = suffix ? strspn(suffix, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-") : 0;

    if (!suffix || suffix[size] != ':' || size > SUFFIX_MAX)
        return NULL;
    *ret_name = suffix + size + 1;
    return specs_need_group(specs, suffix, size);
}

/* Reads a number of vGPUs. Returns -1 if it is malformed. */
static int64_t
specs_count(const char *value)
{
    if (!*value || strspn(value, "0123456789") != strlen(value))
        return -1;
    return strlen(value) > 9 ? GPUS_MAX : MIN(g_ascii_strtoll(value, NULL, 10), GPUS_MAX);
}

static void
specs_read_key(struct specs *specs, const char *key, const char *value)
{
    const char *name = NULL;
    struct specs_group *group = specs_find_group(specs, key, "resources", &name);

    if (group && strcmp(name, "VGPU") == 0 && specs_count(value) >= 0) {
        group->gpus = MIN(group->gpus + specs_count(value), GPUS_MAX);
        specs->counted = true;
    }
    group = specs_find_group(specs, key, "trait", &name);
    if (!group)
        return;
    GPtrArray *traits = strcmp(value, "required") == 0    ? group->required
                        : strcmp(value, "forbidden") == 0 ? group->forbidden
                                                          : NULL;
    if (traits && traits->len < TRAITS_MAX)
        g_ptr_array_add(traits, (void *)name);
}

/* Returns whether all groups with vGPUs have the trait. */
static bool
specs_all_have(const struct specs *specs, const char *trait, bool required)
{
    for (guint i = 0; i < specs->groups->len; i++) {
        const struct specs_group *group = specs->groups->pdata[i];
        if (group->gpus > 0 &&
            !g_ptr_array_find_with_equal_func(required ? group->required : group->forbidden, trait,
                                              g_str_equal, NULL))
            return false;
    }
    return true;
}

static void
specs_take_traits(const struct specs *specs, const struct specs_group *group, bool required,
                  GPtrArray *to)
{
    const GPtrArray *traits = required ? group->required : group->forbidden;

    for (guint i = 0; i < traits->len; i++)
        if (specs_all_have(specs, traits->pdata[i], required))
            g_ptr_array_add(to, g_strdup(traits->pdata[i]));
}

static void
specs_take_groups(const struct specs *specs, struct vg_arrival_query *query)
{
    int64_t gpus = 0;

    for (guint i = 0; i < specs->groups->len; i++) {
        const struct specs_group *group = specs->groups->pdata[i];
        /* Start with the first group's traits, and keep those that all groups have. */
        if (group->gpus > 0 && gpus == 0) {
            specs_take_traits(specs, group, true, query->traits);
            specs_take_traits(specs, group, false, query->traits_forbidden);
        }
        gpus += group->gpus;
    }
    if (specs->counted)
        query->gpus = MIN(gpus, GPUS_MAX);
}

/* Returns whether the text is a type. extra_specs.py of integrations/nova has the same check. */
static bool
specs_is_type(const char *text)
{
    const size_t size = strlen(text);

    return g_ascii_isalnum(*text) && size <= TYPE_MAX &&
           strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS " ._:+-") == size;
}

static const char *
specs_text(json_object *value)
{
    return json_object_is_type(value, json_type_string) || json_object_is_type(value, json_type_int)
               ? json_object_get_string(value)
               : "";
}

void
vg_nova_specs_read(json_object *extra_specs, struct vg_arrival_query *query)
{
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func(specs_group_free);
    struct specs specs = {.groups = groups};

    if (!json_object_is_type(extra_specs, json_type_object))
        return;
    json_object_object_foreach(extra_specs, key, member)
    {
        const char *value = specs_text(member);
        if (strcmp(key, "vgpud:gpu_type") == 0 && specs_is_type(value)) {
            g_free(query->gpu_type);
            query->gpu_type = g_strdup(value);
        }
        for (int i = 0; strcmp(key, "vgpud:class") == 0 && vg_vm_class_names[i]; i++)
            if (strcmp(vg_vm_class_names[i], value) == 0)
                query->vm_class = i;
        specs_read_key(&specs, key, value);
    }
    if (query->gpu_type)
        query->gpus = 1;
    specs_take_groups(&specs, query);
}
