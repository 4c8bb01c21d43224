/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "client/contexts.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "client/remote.h"

#define FILE_MAX_BYTES (1024 * 1024)

#define GROUP   "vgpuctl"
#define CURRENT "context"
#define PREFIX  "context "

struct vg_contexts {
    char *path;
    GKeyFile *file;
    char *current;
    GPtrArray *list;
};

static void
context_free(void *data)
{
    struct vg_context *context = data;

    for (int i = 0; i < VG_REMOTE_MAX; i++)
        g_free(context->values[i]);
    g_free(context->name);
    g_free(context);
}

void
vg_contexts_free(vg_contexts *contexts)
{
    if (!contexts)
        return;
    g_ptr_array_unref(contexts->list);
    g_key_file_unref(contexts->file);
    g_free(contexts->current);
    g_free(contexts->path);
    g_free(contexts);
}

/* ---- reading ---- */

/* Returns the key of a context, or VG_REMOTE_MAX if there is none. `socket` is excluded: only the
 * context `local` has one. */
static enum vg_remote_key
contexts_key(const char *name)
{
    int key = VG_REMOTE_SERVER;

    while (key < VG_REMOTE_MAX && strcmp(vg_remote_names[key].option, name) != 0)
        key++;
    return (enum vg_remote_key)key;
}

static int
contexts_read_one(vg_contexts *contexts, const char *group, GError **err)
{
    struct vg_context *context = g_new0(struct vg_context, 1);
    g_auto(GStrv) names = g_key_file_get_keys(contexts->file, group, NULL, NULL);
    g_autofree char *directory = g_path_get_dirname(contexts->path);

    context->name = g_strdup(group + strlen(PREFIX));
    g_ptr_array_add(contexts->list, context);
    if (!context->name[0] || strcmp(context->name, VG_REMOTE_LOCAL) == 0)
        return vg_error(err, VG_E_INVALID,
                        "[%s]: a context needs a name other than '" VG_REMOTE_LOCAL "', which "
                        "means this machine",
                        group);
    for (size_t i = 0; names[i]; i++) {
        enum vg_remote_key key = contexts_key(names[i]);
        if (key == VG_REMOTE_MAX)
            return vg_error(err, VG_E_INVALID,
                            "[%s]: unknown key '%s'; the keys are: server, token-file, cacert, "
                            "cert, key",
                            group, names[i]);
        g_autofree char *value = g_key_file_get_string(contexts->file, group, names[i], err);
        if (!value)
            return -1;
        if (!value[0])
            continue;
        context->values[key] = key == VG_REMOTE_SERVER || g_path_is_absolute(value)
                                   ? g_strdup(value)
                                   : g_build_filename(directory, value, NULL);
    }
    if (!context->values[VG_REMOTE_SERVER])
        return vg_error(err, VG_E_INVALID, "[%s]: server=https://HOST:PORT is missing", group);
    return 0;
}

static int
contexts_read_groups(vg_contexts *contexts, GError **err)
{
    g_auto(GStrv) groups = g_key_file_get_groups(contexts->file, NULL);

    for (size_t i = 0; groups[i]; i++) {
        if (g_str_has_prefix(groups[i], PREFIX)) {
            if (contexts_read_one(contexts, groups[i], err) < 0)
                return -1;
        } else if (strcmp(groups[i], GROUP) != 0) {
            return vg_error(err, VG_E_INVALID,
                            "unknown group [%s]; the groups are: [" GROUP "], [" PREFIX "NAME]",
                            groups[i]);
        }
    }
    contexts->current = g_key_file_get_string(contexts->file, GROUP, CURRENT, NULL);
    if (contexts->current && !contexts->current[0])
        g_clear_pointer(&contexts->current, g_free);
    return 0;
}

/* Loads the file. The contexts stay empty if it does not exist. */
static int
contexts_load(vg_contexts *contexts, GError **err)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    size_t size;

    if (!g_file_test(contexts->path, G_FILE_TEST_EXISTS))
        return 0;
    if (vg_file_read(contexts->path, FILE_MAX_BYTES, &text, &size, err) < 0)
        return -1;
    if ((size > 0 && !g_key_file_load_from_data(contexts->file, text, size,
                                                G_KEY_FILE_KEEP_COMMENTS, &error)) ||
        contexts_read_groups(contexts, &error) < 0)
        return vg_error(err, VG_E_INVALID, "%s: %s", contexts->path, error->message);
    return 0;
}

vg_contexts *
vg_contexts_read(GError **err)
{
    g_autoptr(vg_contexts) contexts = g_new0(vg_contexts, 1);

    contexts->path = g_build_filename(g_get_user_config_dir(), "vgpuctl", "config", NULL);
    contexts->file = g_key_file_new();
    contexts->list = g_ptr_array_new_with_free_func(context_free);
    return contexts_load(contexts, err) < 0 ? NULL : g_steal_pointer(&contexts);
}

/* ---- asking ---- */

const GPtrArray *
vg_contexts_list(const vg_contexts *contexts)
{
    return contexts->list;
}

const char *
vg_contexts_current(const vg_contexts *contexts)
{
    return contexts->current;
}

const struct vg_context *
vg_contexts_find(const vg_contexts *contexts, const char *name, GError **err)
{
    g_autoptr(GString) names = g_string_new(VG_REMOTE_LOCAL);

    for (guint i = 0; i < contexts->list->len; i++) {
        const struct vg_context *context = contexts->list->pdata[i];
        if (strcmp(context->name, name) == 0)
            return context;
        g_string_append_printf(names, ", %s", context->name);
    }
    vg_error(err, VG_E_NOT_FOUND, "unknown context '%s' in '%s'; the contexts are: %s", name,
             contexts->path, names->str);
    return NULL;
}

int
vg_contexts_use(const vg_contexts *contexts, const char *name, GError **err)
{
    bool is_local = strcmp(name, VG_REMOTE_LOCAL) == 0;

    if (!is_local && !vg_contexts_find(contexts, name, err))
        return -1;
    if (is_local && !contexts->current)
        return 0;
    g_key_file_set_string(contexts->file, GROUP, CURRENT, name);
    g_autofree char *text = g_key_file_to_data(contexts->file, NULL, NULL);
    return vg_file_write(contexts->path, text, err);
}
