/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/proxy-notifier.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/proxy-socket.h"
#include "model/vm-name.h"
#include "mover/proxy-config.h"

#define VG_LOG_TAG "proxy"

/* The interval of the thread. */
#define NOTIFIER_CHECK_NS VG_NS_PER_S
/* The time after which a guest is notified again, as it may have been restarted. */
#define NOTIFIER_AGAIN_NS (15 * VG_NS_PER_S)
/* The pause after a failed notification. It doubles with each attempt. */
#define NOTIFIER_PAUSE_NS     (2 * VG_NS_PER_S)
#define NOTIFIER_PAUSE_MAX_NS (60 * VG_NS_PER_S)

#define NOTIFIER_NONE "none"

struct notifier_vm {
    char *name;       /* from the group, or the UUID if the group was removed */
    char *uuid;       /* NULL until it is known */
    char *address;    /* "none" for no proxy */
    char *token_file; /* empty for "none" */
    bool is_gone;     /* the group was removed */
    /* Only the thread changes the following members. Reading them needs the lock. */
    bool is_notified;
    bool may_know; /* it was notified of a proxy, or will be shortly */
    char *reason;  /* the reason for the failure, or NULL before the first attempt */
    int64_t notified_ns;
    int64_t id;     /* libvirt's id of the domain at the last attempt */
    int64_t due_ns; /* CLOCK_MONOTONIC; 0 for immediately */
    int64_t pause_ns;
};

struct vg_proxy_notifier {
    struct vg_proxy_notifier_parts parts;
    char *path; /* the file that lists the notified guests */
    vg_thread *thread;
    atomic_bool cancel;
    pthread_mutex_t lock;
    GPtrArray *vms; /* struct notifier_vm; the configuration replaces the array under the lock */
    GPtrArray *written; /* sorted UUIDs (char *) in the file; only the thread uses them */
};

static void
notifier_vm_free(void *data)
{
    struct notifier_vm *vm = data;

    g_free(vm->name);
    g_free(vm->uuid);
    g_free(vm->address);
    g_free(vm->token_file);
    g_free(vm->reason);
    g_free(vm);
}

static struct notifier_vm *
notifier_vm_new(const char *name, const char *address, const char *token_file)
{
    struct notifier_vm *vm = g_new0(struct notifier_vm, 1);

    vm->name = g_strdup(name);
    vm->address = g_strdup(address);
    vm->token_file = g_strdup(token_file);
    return vm;
}

/* ---- the file ---- */

static void
notifier_read(vg_proxy_notifier *notifier)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents(notifier->path, &text, NULL, NULL))
        return;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        if (g_uuid_string_is_valid(lines[i]))
            g_ptr_array_add(notifier->written, g_strdup(lines[i]));
    }
}

static int
notifier_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Saves the list of VMs that know a proxy, if it has changed. */
static void
notifier_write(vg_proxy_notifier *notifier)
{
    g_autoptr(GPtrArray) now = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) text = g_string_new(NULL), before = g_string_new(NULL);
    g_autoptr(GError) error = NULL;

    pthread_mutex_lock(&notifier->lock);
    for (guint i = 0; i < notifier->vms->len; i++) {
        const struct notifier_vm *vm = notifier->vms->pdata[i];
        if (vm->uuid && (vm->is_gone || vm->may_know))
            g_ptr_array_add(now, g_strdup(vm->uuid));
    }
    pthread_mutex_unlock(&notifier->lock);
    g_ptr_array_sort(now, notifier_compare);
    for (guint i = 0; i < now->len; i++)
        g_string_append_printf(text, "%s\n", (char *)now->pdata[i]);
    for (guint i = 0; i < notifier->written->len; i++)
        g_string_append_printf(before, "%s\n", (char *)notifier->written->pdata[i]);
    if (g_string_equal(text, before))
        return;
    if (!g_file_set_contents_full(notifier->path, text->str, (gssize)text->len,
                                  G_FILE_SET_CONTENTS_CONSISTENT, 0640, &error)) {
        vg_log_warn_limited("cannot save which guests know their proxy, so after a restart vgpud "
                            "cannot notify them when it is removed reason=\"%s\"",
                            error->message);
        return;
    }
    g_ptr_array_unref(notifier->written);
    notifier->written = g_steal_pointer(&now);
}

/* ---- a guest ---- */

/* Finds a VM on this host, preferably a running one. Returns NULL if libvirt has none. */
static const struct vg_vm_here *
notifier_find(const GPtrArray *all, const struct notifier_vm *vm)
{
    const struct vg_vm_here *found = NULL;

    for (guint i = 0; i < all->len; i++) {
        const struct vg_vm_here *here = all->pdata[i];
        if (!vg_vm_is(vm->name, here->name, here->uuid))
            continue;
        if (here->id >= 0)
            return here;
        found = found ? found : here;
    }
    return found;
}

static bool
notifier_runs(const struct vg_vm_here *here)
{
    return here && here->id >= 0;
}

/* Records in the file that the guest may know a proxy. This happens before the guest is
 * notified. */
static void
notifier_note_early(vg_proxy_notifier *notifier, struct notifier_vm *vm)
{
    if (vm->may_know)
        return;
    pthread_mutex_lock(&notifier->lock);
    vm->may_know = true;
    pthread_mutex_unlock(&notifier->lock);
    notifier_write(notifier);
}

/* Notifies the guest. Returns 0, or -1 and *err with the reason. */
static int
notifier_notify(vg_proxy_notifier *notifier, struct notifier_vm *vm, const char *uuid, GError **err)
{
    const bool has_proxy = strcmp(vm->address, NOTIFIER_NONE) != 0;
    g_autofree char *at = has_proxy ? g_strconcat("proxy:", vm->address, NULL) : NULL;
    g_autofree char *token = has_proxy ? vg_proxy_config_token(vm->token_file, err) : NULL;

    if (has_proxy && !token)
        return -1;
    if (has_proxy)
        notifier_note_early(notifier, vm);
    return vg_mover_send_proxy(notifier->parts.mover, uuid, at, token, &notifier->cancel, err);
}

static void
notifier_note(vg_proxy_notifier *notifier, struct notifier_vm *vm, const GError *error)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    VG_LOCK_SCOPE(&notifier->lock);
    const bool was_notified = vm->is_notified;

    vm->is_notified = !error;
    if (!error && !was_notified) {
        vm->notified_ns = vg_clock_realtime_ns();
        vg_log_notice("guest knows its proxy vm=\"%s\" address=\"%s\"", vm->name, vm->address);
    } else if (error && g_strcmp0(vm->reason, error->message) != 0) {
        vg_log_notice("cannot notify a guest of its proxy vm=\"%s\" reason=\"%s\"", vm->name,
                      error->message);
    }
    vm->pause_ns = !error             ? 0
                   : vm->pause_ns > 0 ? MIN(2 * vm->pause_ns, NOTIFIER_PAUSE_MAX_NS)
                                      : NOTIFIER_PAUSE_NS;
    vm->due_ns = now_ns + (error ? vm->pause_ns : NOTIFIER_AGAIN_NS);
    g_free(vm->reason);
    vm->reason = error ? g_strdup(error->message) : NULL;
}

/* Updates a VM's state. Returns whether it is to be notified now. */
static bool
notifier_is_due(vg_proxy_notifier *notifier, struct notifier_vm *vm, const struct vg_vm_here *here)
{
    VG_LOCK_SCOPE(&notifier->lock);

    if (!notifier_runs(here)) {
        vm->is_notified = false;
        vm->id = 0;
        g_free(vm->reason);
        vm->reason =
            g_strdup(here ? "it is not running here"
                          : "this host has no such VM; if it no longer exists, remove its group "
                            "from vgpud.conf, and its socket and token from vgpu-proxy");
        return false;
    }
    g_free(vm->uuid);
    vm->uuid = g_strdup(here->uuid);
    if (vm->id != here->id) {
        vm->is_notified = false;
        vm->due_ns = vm->pause_ns = 0;
        vm->id = here->id;
    }
    return vg_clock_monotonic_ns() >= vm->due_ns;
}

/* Returns the current VMs with a reference. A new configuration replaces the array, but does not
 * change it. */
static GPtrArray *
notifier_vms(vg_proxy_notifier *notifier)
{
    VG_LOCK_SCOPE(&notifier->lock);
    return g_ptr_array_ref(notifier->vms);
}

/* Forgets VMs whose group was removed, once they are notified or no longer run here: then they know
 * no proxy. */
static void
notifier_forget(vg_proxy_notifier *notifier, const GPtrArray *vms, const GPtrArray *all)
{
    VG_LOCK_SCOPE(&notifier->lock);

    if (notifier->vms != vms)
        return;
    for (guint i = vms->len; i > 0; i--) {
        const struct notifier_vm *vm = vms->pdata[i - 1];
        if (vm->is_gone && (vm->is_notified || !notifier_runs(notifier_find(all, vm))))
            g_ptr_array_remove_index(notifier->vms, i - 1);
    }
}

/* Returns whether a VM whose group was removed has another group, possibly under another name. */
static bool
notifier_has_group(const GPtrArray *vms, const struct vg_vm_here *here)
{
    for (guint i = 0; i < vms->len; i++) {
        const struct notifier_vm *vm = vms->pdata[i];
        if (!vm->is_gone && vg_vm_is(vm->name, here->name, here->uuid))
            return true;
    }
    return false;
}

/* Notifies VMs that are due. VMs whose last attempt failed come last, as an unresponsive VM takes
 * time. */
static void
notifier_round(vg_proxy_notifier *notifier, vg_thread *self, const GPtrArray *all)
{
    g_autoptr(GPtrArray) vms = notifier_vms(notifier);

    for (int tried = 0; tried <= 1; tried++) {
        for (guint i = 0; i < vms->len && !vg_thread_stopping(self); i++) {
            struct notifier_vm *vm = vms->pdata[i];
            const struct vg_vm_here *here = notifier_find(all, vm);
            if (!notifier_is_due(notifier, vm, here) || (vm->pause_ns > 0) != tried)
                continue;
            g_autoptr(GError) error = NULL;
            if (!vm->is_gone || !notifier_has_group(vms, here))
                notifier_notify(notifier, vm, here->uuid, &error);
            if (!vg_thread_stopping(self))
                notifier_note(notifier, vm, error);
            vg_thread_beat(self);
        }
    }
    notifier_forget(notifier, vms, all);
}

static void
notifier_run(vg_thread *self, void *arg)
{
    vg_proxy_notifier *notifier = arg;

    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + NOTIFIER_CHECK_NS)) {
        g_autoptr(GPtrArray) all = notifier->parts.list_vms(notifier->parts.data);
        /* Until libvirt answers, it is unknown which VMs run here. */
        if (!all)
            continue;
        notifier_round(notifier, self, all);
        notifier_write(notifier);
    }
}

/* ---- other threads ---- */

/* Retains the state of a VM whose group has not changed. */
static struct notifier_vm *
notifier_take_over(const vg_proxy_notifier *notifier, const struct vg_proxy_config *proxy)
{
    struct notifier_vm *vm = notifier_vm_new(proxy->item.name, proxy->address, proxy->token_file);

    for (guint i = 0; i < notifier->vms->len; i++) {
        const struct notifier_vm *old = notifier->vms->pdata[i];
        if (old->is_gone || strcmp(old->name, vm->name) != 0)
            continue;
        vm->uuid = g_strdup(old->uuid);
        vm->notified_ns = old->notified_ns;
        vm->may_know = old->may_know;
        if (strcmp(old->address, vm->address) == 0) {
            vm->is_notified = old->is_notified;
            vm->reason = g_strdup(old->reason);
            vm->id = old->id;
        }
    }
    return vm;
}

static bool
notifier_has(const GPtrArray *vms, const char *name, const char *uuid)
{
    for (guint i = 0; i < vms->len; i++) {
        const struct notifier_vm *vm = vms->pdata[i];
        if (vg_vm_is(vm->uuid, NULL, uuid) || vg_vm_is(vm->name, name, uuid))
            return true;
    }
    return false;
}

/* Adds a VM that was notified and whose group was removed. */
static void
notifier_add_gone(GPtrArray *vms, const char *name, const char *uuid)
{
    if (notifier_has(vms, name, uuid))
        return;
    struct notifier_vm *vm = notifier_vm_new(uuid, NOTIFIER_NONE, "");
    vm->uuid = g_strdup(uuid);
    vm->is_gone = true;
    g_ptr_array_add(vms, vm);
}

void
vg_proxy_notifier_configure(vg_proxy_notifier *notifier, const GPtrArray *proxies)
{
    GPtrArray *vms = g_ptr_array_new_with_free_func(notifier_vm_free);
    VG_LOCK_SCOPE(&notifier->lock);

    for (guint i = 0; i < proxies->len; i++)
        g_ptr_array_add(vms, notifier_take_over(notifier, proxies->pdata[i]));
    for (guint i = 0; i < notifier->vms->len; i++) {
        const struct notifier_vm *old = notifier->vms->pdata[i];
        if (old->uuid && (old->is_gone || old->may_know))
            notifier_add_gone(vms, old->name, old->uuid);
    }
    g_ptr_array_unref(notifier->vms);
    notifier->vms = vms;
}

/* Adds the VMs that an earlier vgpud notified. */
static void
notifier_add_past(vg_proxy_notifier *notifier)
{
    for (guint i = 0; i < notifier->written->len; i++)
        notifier_add_gone(notifier->vms, NULL, notifier->written->pdata[i]);
}

GPtrArray *
vg_proxy_notifier_list(vg_proxy_notifier *notifier)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_proxy_guest_free);
    VG_LOCK_SCOPE(&notifier->lock);

    for (guint i = 0; i < notifier->vms->len; i++) {
        const struct notifier_vm *vm = notifier->vms->pdata[i];
        struct vg_proxy_guest *guest = vg_record_new(&vg_proxy_guest_record);
        guest->vm = g_strdup(vm->name);
        guest->uuid = g_strdup(vm->uuid ? vm->uuid : "");
        guest->address = g_strdup(vm->address);
        guest->told = vm->is_notified;
        guest->told_ns = vm->is_notified ? vm->notified_ns : 0;
        guest->reason =
            g_strdup(vm->is_notified ? ""
                     : vm->reason    ? vm->reason
                                     : "libvirt has not reported yet whether it runs here");
        g_ptr_array_add(list, guest);
    }
    return list;
}

static void
notifier_wake(void *arg)
{
    vg_proxy_notifier *notifier = arg;

    atomic_store(&notifier->cancel, true);
}

vg_proxy_notifier *
vg_proxy_notifier_new(const struct vg_proxy_notifier_parts *parts, const GPtrArray *proxies,
                      GError **err)
{
    vg_proxy_notifier *notifier = g_new0(vg_proxy_notifier, 1);

    notifier->parts = *parts;
    notifier->path = g_build_filename(parts->directory, VG_PROXY_INFORMED_FILE, NULL);
    notifier->vms = g_ptr_array_new_with_free_func(notifier_vm_free);
    notifier->written = g_ptr_array_new_with_free_func(g_free);
    pthread_mutex_init(&notifier->lock, NULL);
    notifier_read(notifier);
    vg_proxy_notifier_configure(notifier, proxies);
    notifier_add_past(notifier);
    notifier->thread = vg_thread_new("proxy-tell", notifier_run, notifier_wake, notifier, err);
    if (notifier->thread)
        return notifier;
    vg_proxy_notifier_free(notifier);
    return NULL;
}

void
vg_proxy_notifier_stop(vg_proxy_notifier *notifier)
{
    if (notifier)
        vg_thread_join(notifier->thread);
}

void
vg_proxy_notifier_free(vg_proxy_notifier *notifier)
{
    if (!notifier)
        return;
    vg_thread_free(notifier->thread);
    g_ptr_array_unref(notifier->vms);
    g_ptr_array_unref(notifier->written);
    pthread_mutex_destroy(&notifier->lock);
    g_free(notifier->path);
    g_free(notifier);
}
