/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/move-settings.h"

static void
move_settings_clear(void *data)
{
    struct vg_move_settings *settings = data;

    for (size_t i = 0; i < settings->n_named; i++) {
        g_free((char *)settings->named[i].name);
        g_free((char *)settings->named[i].xml);
    }
    g_free(settings->named);
    vg_nova_settings_free(settings->nova);
    g_free(settings->libvirt_uri);
    g_free(settings->own_uri);
    g_free(settings->proxies);
}

struct vg_move_settings *
vg_move_settings_new(void)
{
    return g_atomic_rc_box_new0(struct vg_move_settings);
}

struct vg_move_settings *
vg_move_settings_ref(struct vg_move_settings *settings)
{
    return g_atomic_rc_box_acquire(settings);
}

void
vg_move_settings_unref(struct vg_move_settings *settings)
{
    if (settings)
        g_atomic_rc_box_release_full(settings, move_settings_clear);
}

char *
vg_move_new_id(const char *prefix)
{
    g_autofree char *uuid = g_uuid_string_random();

    /* These digits are random. The version and variant digits are left out. */
    return g_strdup_printf("%s-%.8s%.4s%.4s", prefix, uuid, uuid + 24, uuid + 32);
}
