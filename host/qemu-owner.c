/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/qemu-owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <pwd.h>
#include <stdatomic.h>

#include "host/proc-text.h"

/* The maximum size of an entry of the user database. */
#define ENTRY_MAX 16384

/* The beginnings of libvirt's control groups, with and without systemd. Both are at the top of a
 * hierarchy, where only root can create a group. */
static const char *const owner_groups[] = {"/machine.slice/machine-qemu", "/machine/qemu-"};

static _Atomic int64_t owner_user = -1;

void
vg_qemu_owner_set_user(int64_t user)
{
    atomic_store(&owner_user, user);
}

int64_t
vg_qemu_owner_parse_label(const char *label)
{
    size_t size = label ? strcspn(label, ":") : 0;
    g_autofree char *name = g_strndup(label ? label : "", size);
    const char *digits = name[0] == '+' ? name + 1 : name;
    struct passwd entry, *found = NULL;
    uint64_t user;

    if (g_ascii_string_to_unsigned(digits, 10, 0, UINT32_MAX - 1, &user, NULL))
        return (int64_t)user;
    if (name[0] == '\0' || name[0] == '+')
        return -1;
    g_autofree char *text = g_malloc(ENTRY_MAX);
    return getpwnam_r(name, &entry, text, ENTRY_MAX, &found) == 0 && found ? (int64_t)found->pw_uid
                                                                           : -1;
}

/* Checks each hierarchy in a /proc/PID/cgroup text: "0::/machine.slice/machine-qemu...". */
static bool
owner_is_grouped(const char *proc, int32_t pid)
{
    g_autofree char *path = g_strdup_printf("%s/%d/cgroup", proc, pid);
    char text[VG_PROC_TEXT_MAX];

    if (vg_proc_read(path, text, sizeof(text)) <= 0)
        return false;
    g_auto(GStrv) lines = g_strsplit(text, "\n", 0);
    for (unsigned i = 0; lines[i]; i++) {
        const char *controllers = strchr(lines[i], ':');
        const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        for (unsigned k = 0; group && k < G_N_ELEMENTS(owner_groups); k++) {
            if (g_str_has_prefix(group + 1, owner_groups[k]))
                return true;
        }
    }
    return false;
}

/* Returns the effective user of a process, or -1. */
static int64_t
owner_read_user(const char *proc, int32_t pid)
{
    g_autofree char *path = g_strdup_printf("%s/%d/status", proc, pid);
    char text[VG_PROC_TEXT_MAX];
    int64_t user;

    if (vg_proc_read(path, text, sizeof(text)) <= 0)
        return -1;
    const char *line = strstr(text, "\nUid:");
    return line && sscanf(line, "\nUid: %*d %" SCNd64, &user) == 1 ? user : -1;
}

void
vg_qemu_owner_read(const char *proc, int32_t pid, struct vg_qemu_owner *ret)
{
    ret->user = owner_read_user(proc, pid);
    ret->is_grouped = owner_is_grouped(proc, pid);
}

bool
vg_qemu_owner_fits(const struct vg_qemu_owner *owner, int64_t vm_user)
{
    const int64_t host_user = atomic_load(&owner_user);

    return owner->is_grouped ||
           (owner->user >= 0 && (owner->user == host_user || owner->user == vm_user));
}

bool
vg_qemu_owner_is(const char *proc, int32_t pid, int64_t vm_user)
{
    struct vg_qemu_owner owner;

    vg_qemu_owner_read(proc, pid, &owner);
    return vg_qemu_owner_fits(&owner, vm_user);
}

int32_t
vg_qemu_owner_read_pid(const char *dir, const char *name)
{
    g_autofree char *path = g_strdup_printf("%s/%s.pid", dir, name);
    char text[32];
    uint64_t pid;

    if (strchr(name, '/') || vg_proc_read(path, text, sizeof(text)) <= 0)
        return 0;
    g_strchomp(text);
    return g_ascii_string_to_unsigned(text, 10, 1, VG_TID_LIMIT - 1, &pid, NULL) ? (int32_t)pid : 0;
}
